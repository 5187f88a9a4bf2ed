//! Lanes that ride on either transport (`transport = "auto"`): which one is dialled, and when the other.
//!
//! QUIC is dialled first, and TCP too if QUIC has not answered after [`SECOND_DELAY`] or has failed (RFC 8305 §5 for two
//! address families). The first that is welcomed serves; QUIC, welcomed later, takes over. Where TCP connects and QUIC does
//! not, something on the path drops UDP, or the peer does not listen: that is remembered of the path to the peer. Its lanes are then
//! dialled over TCP alone, and QUIC is tried with one of them at most [`MAX_RETRY_WAIT`] apart. One that is welcomed brings
//! the others.
//!
//! It has no I/O and no clock, as [`Life`](super::Life).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trunkline_trunk::Transport;
use trunkline_units::Instant;

use super::{Attempt, PathKey};

/// How long TCP waits for QUIC: the connection attempt delay of RFC 8305 §5.
const SECOND_DELAY: Duration = Duration::from_millis(250);
/// The wait before QUIC is tried again: doubled with each time that it fails.
const FIRST_RETRY_WAIT: Duration = Duration::from_secs(5);
const MAX_RETRY_WAIT: Duration = Duration::from_secs(40);
/// Where QUIC has worked for so long, the wait begins anew.
const RESET_AFTER: Duration = Duration::from_secs(60);

/// What is known of UDP to a peer.
#[derive(Debug, Clone, Copy)]
enum Udp {
    /// It works, since then.
    Open { since: Instant, wait: Duration },
    /// QUIC does not come through where TCP does. It is tried again at `retry_at`.
    Blocked { retry_at: Instant, wait: Duration },
}

/// The candidates of one attempt.
#[derive(Debug, Clone, Copy)]
struct Race {
    peer: PathKey,
    /// When TCP is dialled too; `None` once it has been.
    second_at: Option<Instant>,
    quic: bool,
    tcp: bool,
    /// QUIC failed before TCP was up.
    quic_failed: bool,
}

/// What follows from the failure of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The attempt has failed.
    Failed,
    /// Another candidate is under way.
    Wait,
    /// TCP is to be dialled now.
    DialTcp,
}

#[derive(Debug, Default)]
pub(crate) struct Transports {
    peers: BTreeMap<PathKey, Udp>,
    races: BTreeMap<Attempt, Race>,
    /// Attempts for which TCP is to be dialled too, and peers to which QUIC is to be tried again.
    seconds: BTreeSet<(Instant, Attempt)>,
    retries: BTreeSet<(Instant, PathKey)>,
}

impl Transports {
    /// The transport that an attempt begins with.
    pub(crate) fn begin(&mut self, now: Instant, attempt: Attempt, peer: PathKey) -> Transport {
        if matches!(self.peers.get(&peer), Some(Udp::Blocked { .. })) {
            return Transport::Tcp;
        }
        let second_at = now + SECOND_DELAY;
        let race = Race { peer, second_at: Some(second_at), quic: true, tcp: false, quic_failed: false };
        self.races.insert(attempt, race);
        self.seconds.insert((second_at, attempt));
        Transport::Quic
    }

    /// An attempt for which TCP is to be dialled too.
    pub(crate) fn poll_second(&mut self, now: Instant) -> Option<Attempt> {
        let (_, attempt) = *self.seconds.first().filter(|(at, _)| *at <= now)?;
        self.begin_tcp(attempt);
        Some(attempt)
    }

    fn begin_tcp(&mut self, attempt: Attempt) {
        let Some(race) = self.races.get_mut(&attempt) else { return };
        race.tcp = true;
        if let Some(at) = race.second_at.take() {
            self.seconds.remove(&(at, attempt));
        }
    }

    /// A candidate of an attempt has failed.
    pub(crate) fn handle_failed(&mut self, attempt: Attempt, peer: PathKey, transport: Transport) -> Next {
        let Some(race) = self.races.get_mut(&attempt) else {
            // TCP alone, because QUIC did not come through: perhaps only QUIC does now.
            if transport == Transport::Tcp {
                self.forget(&peer);
            }
            return Next::Failed;
        };
        match transport {
            Transport::Tcp => race.tcp = false,
            Transport::Quic | Transport::Auto => (race.quic, race.quic_failed) = (false, true),
        }
        if race.quic || race.tcp {
            return Next::Wait;
        }
        if race.second_at.is_some() {
            self.begin_tcp(attempt);
            return Next::DialTcp;
        }
        self.races.remove(&attempt);
        Next::Failed
    }

    /// A candidate of an attempt is the lane. Whether QUIC is still under way beside it.
    pub(crate) fn handle_up(&mut self, now: Instant, attempt: Attempt, transport: Transport) -> bool {
        let Some(race) = self.races.remove(&attempt) else { return false };
        if let Some(at) = race.second_at {
            self.seconds.remove(&(at, attempt));
        }
        if transport == Transport::Tcp && race.quic_failed {
            self.handle_blocked(now, race.peer);
        }
        transport == Transport::Tcp && race.quic
    }

    /// QUIC does not come through to a peer to which TCP does.
    pub(crate) fn handle_blocked(&mut self, now: Instant, peer: PathKey) {
        let wait = match self.peers.get(&peer) {
            Some(Udp::Open { since, wait }) if now.saturating_since(*since) < RESET_AFTER => *wait,
            // Several lanes find it out at once.
            Some(Udp::Blocked { retry_at, .. }) if *retry_at > now => return,
            Some(Udp::Blocked { wait, .. }) => *wait,
            _ => FIRST_RETRY_WAIT,
        };
        let next = (wait * 2).min(MAX_RETRY_WAIT);
        self.note(peer, Udp::Blocked { retry_at: now + wait, wait: next });
    }

    /// A lane to the peer is up over QUIC. Whether that is news.
    pub(crate) fn handle_open(&mut self, now: Instant, peer: PathKey) -> bool {
        let Some(Udp::Blocked { wait, .. }) = self.peers.get(&peer).copied() else { return false };
        self.note(peer, Udp::Open { since: now, wait });
        true
    }

    /// Addresses or routes have changed: what is known is tried again at once.
    pub(crate) fn handle_network_changed(&mut self, now: Instant) {
        self.retries.clear();
        for (peer, udp) in std::mem::take(&mut self.peers) {
            if let Udp::Blocked { .. } = udp {
                self.note(peer, Udp::Blocked { retry_at: now, wait: FIRST_RETRY_WAIT });
            }
        }
    }

    /// A peer to which QUIC is to be tried again with one lane. If there is none to try it with, call
    /// [`forget`](Self::forget).
    pub(crate) fn poll_retry(&mut self, now: Instant) -> Option<PathKey> {
        let (_, peer) = *self.retries.first().filter(|(at, _)| *at <= now)?;
        if let Some(Udp::Blocked { wait, .. }) = self.peers.get(&peer).copied() {
            // In case nobody says how the attempt ends.
            let next = (wait * 2).min(MAX_RETRY_WAIT);
            self.note(peer, Udp::Blocked { retry_at: now + wait, wait: next });
        }
        Some(peer)
    }

    pub(crate) fn forget(&mut self, peer: &PathKey) {
        if let Some(Udp::Blocked { retry_at, .. }) = self.peers.remove(peer) {
            self.retries.remove(&(retry_at, *peer));
        }
    }

    /// Removes peers that are no longer configured.
    pub(crate) fn retain(&mut self, is_peer: impl Fn(&PathKey) -> bool) {
        self.peers.retain(|peer, _| is_peer(peer));
        self.retries.retain(|(_, peer)| is_peer(peer));
    }

    /// The time of the next action.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let second = self.seconds.first().map(|(at, _)| *at);
        second.into_iter().chain(self.retries.first().map(|(at, _)| *at)).min()
    }

    fn note(&mut self, peer: PathKey, udp: Udp) {
        self.forget(&peer);
        if let Udp::Blocked { retry_at, .. } = udp {
            self.retries.insert((retry_at, peer));
        }
        self.peers.insert(peer, udp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PublicKey;

    const ATTEMPT: Attempt = Attempt(1);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1000) + Duration::from_millis(ms)
    }

    fn peer() -> PathKey {
        PublicKey::from_bytes([1; 32]).into()
    }

    #[test]
    fn tcp_is_dialled_after_250_ms_or_when_quic_has_failed() {
        let mut transports = Transports::default();
        assert_eq!(transports.begin(at(0), ATTEMPT, peer()), Transport::Quic);
        assert_eq!((transports.poll_second(at(249)), transports.poll_timeout()), (None, Some(at(250))));
        assert_eq!(transports.poll_second(at(250)), Some(ATTEMPT));
        assert_eq!((transports.poll_second(at(300)), transports.poll_timeout()), (None, None));
        assert_eq!(transports.handle_failed(ATTEMPT, peer(), Transport::Quic), Next::Wait);
        assert_eq!(transports.handle_failed(ATTEMPT, peer(), Transport::Tcp), Next::Failed);
        let mut transports = Transports::default();
        transports.begin(at(0), ATTEMPT, peer());
        assert_eq!(transports.handle_failed(ATTEMPT, peer(), Transport::Quic), Next::DialTcp);
        assert_eq!(transports.poll_second(at(1000)), None, "once");
        assert!(!transports.handle_up(at(300), ATTEMPT, Transport::Tcp));
        assert_eq!(transports.begin(at(400), Attempt(2), peer()), Transport::Tcp, "UDP is blocked");
    }

    #[test]
    fn quic_that_is_up_in_time_is_alone() {
        let mut transports = Transports::default();
        transports.begin(at(0), ATTEMPT, peer());
        assert!(!transports.handle_up(at(100), ATTEMPT, Transport::Quic));
        assert_eq!((transports.poll_second(at(1000)), transports.poll_timeout()), (None, None));
        assert_eq!(transports.begin(at(2000), Attempt(2), peer()), Transport::Quic);
    }

    #[test]
    fn slow_quic_stays_under_way_beside_tcp() {
        let mut transports = Transports::default();
        transports.begin(at(0), ATTEMPT, peer());
        assert_eq!(transports.poll_second(at(250)), Some(ATTEMPT));
        assert!(transports.handle_up(at(400), ATTEMPT, Transport::Tcp));
        assert_eq!(transports.begin(at(500), Attempt(2), peer()), Transport::Quic, "nothing is known yet");
    }

    #[test]
    fn both_transports_may_be_gone_without_blame() {
        let mut transports = Transports::default();
        transports.begin(at(0), ATTEMPT, peer());
        transports.poll_second(at(250));
        assert_eq!(transports.handle_failed(ATTEMPT, peer(), Transport::Tcp), Next::Wait);
        assert_eq!(transports.handle_failed(ATTEMPT, peer(), Transport::Quic), Next::Failed);
        assert_eq!(transports.begin(at(500), Attempt(2), peer()), Transport::Quic);
        // Where UDP is thought to be blocked and TCP fails too, both are dialled again.
        transports.handle_blocked(at(600), peer());
        assert_eq!(transports.begin(at(600), Attempt(3), peer()), Transport::Tcp);
        assert_eq!(transports.handle_failed(Attempt(3), peer(), Transport::Tcp), Next::Failed);
        assert_eq!(transports.begin(at(700), Attempt(4), peer()), Transport::Quic);
    }

    #[test]
    fn quic_is_tried_again_at_most_40_s_apart() {
        let mut transports = Transports::default();
        let mut now = at(0);
        transports.handle_blocked(now, peer());
        transports.handle_blocked(now, peer());
        let mut waits = Vec::new();
        for _ in 0..6 {
            let next = transports.poll_timeout().expect("a retry");
            assert_eq!(transports.poll_retry(next), Some(peer()));
            assert_eq!(transports.poll_retry(next), None, "one lane at a time");
            waits.push(next.saturating_since(now).as_secs());
            now = next;
            // It fails two seconds later.
            transports.handle_blocked(now + Duration::from_secs(2), peer());
        }
        assert_eq!(waits, [5, 10, 20, 40, 40, 40]);
        transports.handle_network_changed(now);
        assert_eq!(transports.poll_retry(now), Some(peer()), "at once");
    }

    #[test]
    fn udp_that_fails_soon_again_is_tried_less_often() {
        let mut transports = Transports::default();
        transports.handle_blocked(at(0), peer());
        assert!(transports.handle_open(at(5_000), peer()) && !transports.handle_open(at(5_000), peer()));
        transports.handle_blocked(at(9_000), peer());
        assert_eq!(transports.poll_timeout(), Some(at(19_000)), "10 s");
        transports.handle_open(at(19_000), peer());
        transports.handle_blocked(at(100_000), peer());
        assert_eq!(transports.poll_timeout(), Some(at(105_000)), "it had worked for long");
        transports.retain(|_| false);
        assert_eq!(transports.poll_timeout(), None);
    }
}
