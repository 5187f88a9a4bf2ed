//! What has happened between two states of a gateway.

use std::collections::BTreeMap;

use trunkline_status::{Status, UplinkState};

/// Something that programs are run for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The gateway runs.
    Up,
    /// The gateway runs no more.
    Down,
    /// A lane to the peer is up, and none was.
    PeerUp { peer: String },
    /// No lane to the peer is up any more.
    PeerDown { peer: String },
    /// One of several paths to the peer works, or works no more.
    PathChange { peer: String, path: String, state: UplinkState },
}

impl Event {
    /// What a program gets as its first arguments: the event's word, the site, and what the event is about.
    pub(super) fn arguments(&self, site: &str) -> Vec<String> {
        let (word, about) = match self {
            Self::Up => ("up", Vec::new()),
            Self::Down => ("down", Vec::new()),
            Self::PeerUp { peer } => ("peer-up", vec![peer.clone()]),
            Self::PeerDown { peer } => ("peer-down", vec![peer.clone()]),
            Self::PathChange { peer, path, state } => {
                ("path-change", vec![peer.clone(), path.clone(), state.to_string()])
            }
        };
        [word.to_owned(), site.to_owned()].into_iter().chain(about).collect()
    }
}

/// What events are about, of one state of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// Another number is another run of the gateway.
    pid: u32,
    peers: BTreeMap<String, SeenPeer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SeenPeer {
    is_up: bool,
    paths: BTreeMap<String, UplinkState>,
}

impl Seen {
    pub(super) fn of(status: &Status) -> Self {
        let peers = status.peers.iter().map(|peer| {
            let is_up = peer.lanes_up() > 0;
            let paths = peer.uplinks.iter().map(|uplink| (uplink.name.clone(), uplink.state)).collect();
            (peer.name.clone(), SeenPeer { is_up, paths })
        });
        Self { pid: status.pid, peers: peers.collect() }
    }
}

/// The events between two states, in the order in which they are told. `None`: no gateway runs.
pub(super) fn events(before: Option<&Seen>, now: Option<&Seen>) -> Vec<Event> {
    match (before, now) {
        (Some(before), Some(now)) if before.pid == now.pid => peers(&before.peers, &now.peers),
        (before, now) => {
            let nobody = BTreeMap::new();
            let mut events = Vec::new();
            if let Some(before) = before {
                events.extend(peers(&before.peers, &nobody));
                events.push(Event::Down);
            }
            if let Some(now) = now {
                events.push(Event::Up);
                events.extend(peers(&nobody, &now.peers));
            }
            events
        }
    }
}

fn peers(before: &BTreeMap<String, SeenPeer>, now: &BTreeMap<String, SeenPeer>) -> Vec<Event> {
    let was_up = |name: &String| before.get(name).is_some_and(|peer| peer.is_up);
    let is_up = |name: &String| now.get(name).is_some_and(|peer| peer.is_up);
    let went = before.keys().filter(|name| was_up(name) && !is_up(name));
    let mut events: Vec<Event> = went.map(|peer| Event::PeerDown { peer: peer.clone() }).collect();
    for (name, peer) in now {
        if peer.is_up && !was_up(name) {
            events.push(Event::PeerUp { peer: name.clone() });
        }
        // Of one path nothing is told that the peer does not tell.
        if peer.paths.len() < 2 {
            continue;
        }
        for (path, state) in &peer.paths {
            let former = before.get(name).and_then(|peer| peer.paths.get(path)).copied();
            if former.unwrap_or(UplinkState::Down) != *state {
                events.push(Event::PathChange { peer: name.clone(), path: path.clone(), state: *state });
            }
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer's name, whether it is up, and its paths.
    type Told<'a> = (&'a str, bool, &'a [(&'a str, UplinkState)]);

    fn seen(pid: u32, all: &[Told<'_>]) -> Seen {
        let peers = all.iter().map(|(name, is_up, paths)| {
            let paths = paths.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect();
            ((*name).to_owned(), SeenPeer { is_up: *is_up, paths })
        });
        Seen { pid, peers: peers.collect() }
    }

    fn told(before: Option<&Seen>, now: Option<&Seen>) -> Vec<String> {
        events(before, now).iter().map(|event| event.arguments("a").join(" ")).collect()
    }

    #[test]
    fn a_gateway_comes_and_goes_with_its_peers() {
        let (none, both) = (
            seen(1, &[("b", false, &[]), ("c", false, &[])]),
            seen(1, &[("b", true, &[]), ("c", true, &[])]),
        );
        assert_eq!(told(None, None), Vec::<String>::new());
        assert_eq!(told(None, Some(&none)), ["up a"]);
        assert_eq!(told(Some(&none), Some(&both)), ["peer-up a b", "peer-up a c"]);
        assert_eq!(told(Some(&both), Some(&both)), Vec::<String>::new());
        let one = seen(1, &[("b", true, &[])]);
        assert_eq!(told(Some(&both), Some(&one)), ["peer-down a c"], "a reload has removed it");
        assert_eq!(told(Some(&one), None), ["peer-down a b", "down a"]);
        let again = seen(2, &[("b", true, &[])]);
        assert_eq!(
            told(Some(&one), Some(&again)),
            ["peer-down a b", "down a", "up a", "peer-up a b"],
            "a restart"
        );
    }

    #[test]
    fn paths_are_told_where_there_are_several() {
        use UplinkState::{Down, Silent, Up};
        let peer = |paths: &[(&str, UplinkState)]| seen(1, &[("b", true, paths)]);
        assert_eq!(told(None, Some(&peer(&[("only", Up)]))), ["up a", "peer-up a b"]);
        let two = peer(&[("dsl", Up), ("lte", Down)]);
        assert_eq!(told(None, Some(&two)), ["up a", "peer-up a b", "path-change a b dsl up"]);
        let silent = peer(&[("dsl", Silent), ("lte", Up)]);
        assert_eq!(told(Some(&two), Some(&silent)), ["path-change a b dsl silent", "path-change a b lte up"]);
    }
}
