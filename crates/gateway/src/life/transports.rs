//! Lanes that ride on either transport (`transport = "auto"`): which ones are dialled.
//!
//! QUIC is dialled first, and TCP beside it ([`race`](super::race)). Where TCP connects and QUIC does
//! not, something on the path drops UDP, or the peer does not listen: that is remembered of the path to the peer. Its lanes are then
//! dialled over TCP alone, and QUIC is tried with one of them at most [`MAX_RETRY_WAIT`] apart. One that is welcomed brings
//! the others.
//!
//! It has no I/O and no clock, as [`Life`](super::Life).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trunkline_trunk::Transport;
use trunkline_units::Instant;

use super::PathKey;

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

#[derive(Debug, Default)]
pub(crate) struct Transports {
    peers: BTreeMap<PathKey, Udp>,
    /// Peers to which QUIC is to be tried again.
    retries: BTreeSet<(Instant, PathKey)>,
}

impl Transports {
    /// The transports to dial, in this order.
    pub(crate) fn order(&self, peer: PathKey) -> &'static [Transport] {
        match self.peers.get(&peer) {
            Some(Udp::Blocked { .. }) => &[Transport::Tcp],
            _ => &[Transport::Quic, Transport::Tcp],
        }
    }

    /// No candidate of a dial came through: where TCP alone was dialled, perhaps only QUIC does now.
    pub(crate) fn handle_lost(&mut self, peer: &PathKey) {
        if let Some(Udp::Blocked { .. }) = self.peers.get(peer) {
            self.forget(peer);
        }
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
        self.retries.first().map(|(at, _)| *at)
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

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1000) + Duration::from_millis(ms)
    }

    fn peer() -> PathKey {
        PublicKey::from_bytes([1; 32]).into()
    }

    #[test]
    fn both_are_dialled_unless_udp_is_known_to_be_blocked() {
        let mut transports = Transports::default();
        assert_eq!(transports.order(peer()), [Transport::Quic, Transport::Tcp]);
        transports.handle_blocked(at(600), peer());
        assert_eq!(transports.order(peer()), [Transport::Tcp]);
        transports.handle_lost(&peer());
        assert_eq!(transports.order(peer()), [Transport::Quic, Transport::Tcp], "TCP fails too");
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
