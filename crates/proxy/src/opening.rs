//! Connections from their SYN to their end: what the proxy does with a SYN.
//!
//! A SYN waits while the proxy connects to the server as the client. Retransmissions of it say nothing new meanwhile. Once the server has
//! accepted, the SYN goes to the kernel, which answers it; a retransmission then means that the answer was lost, and goes there too.
//!
//! A SYN for a connection that is being opened, with another sequence number, is the proxy's own: it has come back by a route that leads
//! through the proxy again. The connection is refused, since each turn would open another one.
//!
//! A SYN with another sequence number for a connection that is open begins it anew. Most often the old one is over, and the news has not
//! come yet: the SYN is dropped, since the kernel would accept it without anybody having asked the server. If the old one is still there
//! when the SYN is retransmitted, the client has forgotten it; the kernel gets the SYN, and finds that out (RFC 9293 §3.10.7.4).
//!
//! The owner has sockets and clock. `now` does not go backwards.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use trunkline_units::Instant;

use crate::syn::{Connection, Syn};

/// What becomes of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynAction {
    /// Keep it, and connect to the server.
    Connect,
    /// Drop it: its connection is being opened, or the one before it may be over in a moment.
    Wait,
    /// Give it to the kernel.
    Deliver,
    /// Forward it: the tables are full.
    Pass(Full),
    /// Drop it, end the opening, and tell the client: it has come back to the proxy.
    Loop,
}

/// Which table is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// That of connections.
    Connections,
    /// That of connections that are being opened.
    Opening,
}

/// How many connections there may be, and how long they may take to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections, those that are being opened included.
    pub connections: usize,
    /// Connections that are being opened.
    pub opening: usize,
}

/// How long a server may take to answer: longer than a client asks (RFC 9293 §3.8.3 wants at least three minutes of it; Linux gives up
/// after two).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(180);
/// How long a client may take to confirm its handshake: Linux retransmits its answer five times, over 63 s.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The server has been asked.
    Connecting { until: Instant },
    /// The server has accepted, and the kernel has the SYN.
    Accepting { until: Instant },
    Open {
        /// The sequence number of a SYN that begins it anew.
        anew: Option<u32>,
    },
}

impl Stage {
    const fn deadline(self) -> Option<Instant> {
        match self {
            Stage::Connecting { until } | Stage::Accepting { until } => Some(until),
            Stage::Open { .. } => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    isn: u32,
    stage: Stage,
}

/// All connections of a proxy.
#[derive(Debug)]
pub struct Openings {
    limits: Limits,
    entries: HashMap<Connection, Entry>,
    deadlines: BTreeSet<(Instant, Connection)>,
}

impl Openings {
    /// Without connections.
    pub fn new(limits: Limits) -> Self {
        Openings { limits, entries: HashMap::new(), deadlines: BTreeSet::new() }
    }

    /// Connections, those that are being opened included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Connections that are being opened.
    pub fn opening(&self) -> usize {
        self.deadlines.len()
    }

    /// Judges a SYN.
    pub fn handle_syn(&mut self, now: Instant, syn: &Syn) -> SynAction {
        let connection = syn.connection;
        let (all, opening) = (self.len(), self.opening());
        match self.entries.get_mut(&connection) {
            None if opening >= self.limits.opening => SynAction::Pass(Full::Opening),
            None if all >= self.limits.connections => SynAction::Pass(Full::Connections),
            None => {
                self.set(connection, syn.isn, Stage::Connecting { until: now + CONNECT_TIMEOUT });
                SynAction::Connect
            }
            Some(Entry { isn, stage: Stage::Connecting { .. } }) if *isn == syn.isn => SynAction::Wait,
            Some(Entry { stage: Stage::Connecting { .. }, .. }) => {
                self.remove(connection);
                SynAction::Loop
            }
            Some(Entry { isn, stage: Stage::Open { anew } }) if *isn != syn.isn && *anew != Some(syn.isn) => {
                *anew = Some(syn.isn);
                SynAction::Wait
            }
            Some(_) => SynAction::Deliver,
        }
    }

    /// The server has accepted. Whether its SYN may go to the kernel: the connection is still wanted.
    pub fn handle_connected(&mut self, now: Instant, connection: Connection) -> bool {
        match self.entries.get(&connection) {
            Some(Entry { isn, stage: Stage::Connecting { .. } }) => {
                let isn = *isn;
                self.set(connection, isn, Stage::Accepting { until: now + ACCEPT_TIMEOUT });
                true
            }
            _ => false,
        }
    }

    /// The kernel has accepted. Whether the connection is one that was to be.
    pub fn handle_accepted(&mut self, connection: Connection) -> bool {
        match self.entries.get(&connection) {
            Some(Entry { isn, stage: Stage::Accepting { .. } }) => {
                let isn = *isn;
                self.set(connection, isn, Stage::Open { anew: None });
                true
            }
            _ => false,
        }
    }

    /// The connection is over, or will not be.
    pub fn remove(&mut self, connection: Connection) {
        if let Some(Entry { stage, .. }) = self.entries.remove(&connection)
            && let Some(until) = stage.deadline()
        {
            self.deadlines.remove(&(until, connection));
        }
    }

    /// When the next one has taken too long.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The next one that has taken too long to open. It is forgotten.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Connection> {
        let (_, connection) = *self.deadlines.first().filter(|(at, _)| *at <= now)?;
        self.remove(connection);
        Some(connection)
    }

    fn set(&mut self, connection: Connection, isn: u32, stage: Stage) {
        self.remove(connection);
        if let Some(until) = stage.deadline() {
            self.deadlines.insert((until, connection));
        }
        self.entries.insert(connection, Entry { isn, stage });
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;

    const LIMITS: Limits = Limits { connections: 3, opening: 2 };
    const NOW: Instant = Instant::ZERO;

    fn syn(client: u16, isn: u32) -> Syn {
        let connection =
            Connection { client: ([10, 0, 0, 1], client).into(), server: ([10, 0, 0, 2], 80).into() };
        Syn { connection, isn, len: 1, hops: 64, traffic_class: 0 }
    }

    #[test]
    fn a_retransmission_waits_until_the_server_has_accepted_and_then_goes_to_the_kernel() {
        let mut openings = Openings::new(LIMITS);
        let one = syn(1, 7);
        assert_eq!(openings.handle_syn(NOW, &one), SynAction::Connect);
        assert_eq!(openings.handle_syn(NOW, &one), SynAction::Wait);
        assert!(!openings.handle_accepted(one.connection), "nobody accepted it");
        assert!(openings.handle_connected(NOW, one.connection));
        assert!(!openings.handle_connected(NOW, one.connection), "twice");
        assert_eq!(openings.handle_syn(NOW, &one), SynAction::Deliver);
        assert!(openings.handle_accepted(one.connection));
        assert_eq!((openings.len(), openings.opening(), openings.next_timeout()), (1, 0, None));
        assert_eq!(openings.handle_syn(NOW, &one), SynAction::Deliver, "the kernel answers it again");
        assert_eq!(openings.handle_syn(NOW, &syn(1, 8)), SynAction::Wait, "the old one may be over");
        assert_eq!(openings.handle_syn(NOW, &syn(1, 8)), SynAction::Deliver, "the kernel finds it out");
        assert_eq!(openings.handle_syn(NOW, &syn(1, 9)), SynAction::Wait);
        openings.remove(one.connection);
        assert_eq!(openings.handle_syn(NOW, &syn(1, 8)), SynAction::Connect);
    }

    #[test]
    fn the_proxys_own_syn_that_comes_back_ends_the_opening() {
        let mut openings = Openings::new(LIMITS);
        assert_eq!(openings.handle_syn(NOW, &syn(1, 7)), SynAction::Connect);
        assert_eq!(openings.handle_syn(NOW, &syn(1, 99)), SynAction::Loop);
        assert!(openings.is_empty());
        assert!(!openings.handle_connected(NOW, syn(1, 7).connection));
    }

    #[test]
    fn what_finds_no_place_passes() {
        let mut openings = Openings::new(LIMITS);
        for client in 0..2 {
            assert_eq!(openings.handle_syn(NOW, &syn(client, 7)), SynAction::Connect);
        }
        assert_eq!(openings.handle_syn(NOW, &syn(2, 7)), SynAction::Pass(Full::Opening));
        for client in 0..2 {
            assert!(openings.handle_connected(NOW, syn(client, 7).connection));
            assert!(openings.handle_accepted(syn(client, 7).connection));
        }
        assert_eq!(openings.handle_syn(NOW, &syn(2, 7)), SynAction::Connect);
        assert_eq!(openings.handle_syn(NOW, &syn(3, 7)), SynAction::Pass(Full::Connections));
        assert_eq!(openings.len(), 3);
    }

    #[test]
    fn a_server_and_a_client_have_bounded_time() {
        let mut openings = Openings::new(LIMITS);
        openings.handle_syn(NOW, &syn(1, 7));
        openings.handle_syn(NOW, &syn(2, 7));
        openings.handle_connected(Instant::from_millis(1000), syn(2, 7).connection);
        assert_eq!(openings.next_timeout(), Some(Instant::from_millis(65_000)));
        assert_eq!(openings.poll_timeout(Instant::from_millis(64_999)), None);
        assert_eq!(openings.poll_timeout(Instant::from_millis(65_000)), Some(syn(2, 7).connection));
        assert_eq!(openings.poll_timeout(Instant::from_millis(180_000)), Some(syn(1, 7).connection));
        assert_eq!((openings.len(), openings.opening(), openings.next_timeout()), (0, 0, None));
    }

    /// Whatever comes in whatever order: the bounds hold, and what is being opened has a deadline.
    #[test]
    fn bounds_hold_under_any_operations() {
        for seed in 0..30 {
            let mut rng = Rng::new(seed, "openings");
            let limits =
                Limits { connections: 1 + rng.below(8) as usize, opening: 1 + rng.below(8) as usize };
            let mut openings = Openings::new(limits);
            let mut now = NOW;
            for _ in 0..500 {
                now += Duration::from_secs(rng.below(30));
                let syn = syn(rng.below(12) as u16, rng.below(2) as u32);
                match rng.below(5) {
                    0 | 1 => {
                        openings.handle_syn(now, &syn);
                    }
                    2 => {
                        openings.handle_connected(now, syn.connection);
                    }
                    3 => {
                        openings.handle_accepted(syn.connection);
                    }
                    _ => openings.remove(syn.connection),
                }
                while openings.poll_timeout(now).is_some() {}
                assert!(openings.len() <= limits.connections && openings.opening() <= limits.opening);
                assert!(openings.opening() <= openings.len());
                assert!(openings.next_timeout().is_none_or(|at| at > now));
            }
        }
    }
}
