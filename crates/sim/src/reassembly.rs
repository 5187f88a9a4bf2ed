//! Reassembly of fragments (RFC 791 §3.2, RFC 815).

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_units::Instant;

use crate::{NodeId, Packet};

/// How long a packet's fragments wait for the others: Linux's `ipfrag_time`.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Packets of which fragments wait at the most.
const MAX_PACKETS: usize = 1024;

#[derive(Debug, Default)]
struct Partial {
    first: Option<Packet>,
    /// Stretches of data that are here, from start to end, apart from each other.
    have: BTreeMap<u32, u32>,
    total: Option<u32>,
    corrupted: bool,
    since: Instant,
    /// When its first sender sent the packet of the first fragment that came.
    sent: Instant,
}

/// A host's fragments.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// By source, protocol and identification.
    partial: BTreeMap<(NodeId, u8, u16), Partial>,
    pub(crate) failures: u64,
}

impl Reassembly {
    /// Takes a fragment; the whole packet if nothing of it is missing now.
    pub(crate) fn handle(&mut self, now: Instant, fragment: Packet) -> Option<Packet> {
        let key = (fragment.source(), fragment.protocol(), fragment.id());
        let (start, len, more) = fragment.fragment();
        if self.partial.get(&key).is_none_or(|partial| partial.is_stale(now)) {
            // Numbers come round: what is left of an old packet is no part of a new one.
            self.make_room(now);
        }
        let sent = fragment.sent();
        let partial =
            self.partial.entry(key).or_insert_with(|| Partial { since: now, sent, ..Partial::default() });
        // What is put together of two packets has a wrong checksum.
        partial.corrupted |= fragment.is_corrupted() || sent != partial.sent;
        if !more {
            partial.total = Some(start + len);
        }
        partial.add(start, start + len);
        if start == 0 {
            partial.first = Some(fragment);
        }
        if !partial.is_whole() {
            return None;
        }
        let Partial { first, total, corrupted, .. } = self.partial.remove(&key)?;
        let mut whole = first?.whole(total?);
        if corrupted {
            whole.set_corrupted();
        }
        Some(whole)
    }

    fn make_room(&mut self, now: Instant) {
        let before = self.partial.len();
        self.partial.retain(|_, partial| !partial.is_stale(now));
        if self.partial.len() >= MAX_PACKETS
            && let Some(oldest) =
                self.partial.iter().min_by_key(|(key, partial)| (partial.since, **key)).map(|(key, _)| *key)
        {
            self.partial.remove(&oldest);
        }
        self.failures += (before - self.partial.len()) as u64;
    }
}

impl Partial {
    fn add(&mut self, mut start: u32, mut end: u32) {
        while let Some((&from, &to)) = self.have.range(..=end).next_back() {
            if to < start {
                break;
            }
            (start, end) = (start.min(from), end.max(to));
            self.have.remove(&from);
        }
        self.have.insert(start, end);
    }

    fn is_stale(&self, now: Instant) -> bool {
        now.saturating_since(self.since) >= REASSEMBLY_TIMEOUT
    }

    fn is_whole(&self) -> bool {
        self.first.is_some() && self.total.is_some_and(|total| self.have.get(&0) == Some(&total))
    }
}

#[cfg(test)]
mod tests {
    use trunkline_packet::{Version, protocol};

    use super::*;
    use crate::packet::Addressing;

    fn datagram(data: u32) -> Packet {
        let at = |node| (NodeId(node), 9);
        Packet::udp(&Addressing::new((Version::V4, protocol::UDP), at(1), at(2), 0), 77, data)
    }

    /// As a router with this MTU cuts it.
    fn fragments(packet: &Packet, mtu: u32) -> Vec<Packet> {
        let mut pieces = Vec::new();
        crate::fragmentation::fragment(packet, mtu, &mut |piece| pieces.push(piece));
        pieces
    }

    #[test]
    fn a_packet_is_whole_again_in_any_order_of_its_fragments() {
        let packet = datagram(1472);
        let pieces = fragments(&packet, 296);
        // 272 bytes of data in each, the last has what is left of 1480.
        assert_eq!(pieces.len(), 6);
        assert_eq!(pieces.iter().map(Packet::length).max(), Some(292));
        for turn in 0..pieces.len() {
            let mut reassembly = Reassembly::default();
            let mut order = pieces.clone();
            order.rotate_left(turn);
            let mut wholes: Vec<Packet> =
                order.into_iter().filter_map(|piece| reassembly.handle(Instant::ZERO, piece)).collect();
            let whole = wholes.pop().expect("all fragments are here");
            assert!(wholes.is_empty());
            assert_eq!((whole.header(), whole.length()), (packet.header(), packet.length()));
        }
    }

    #[test]
    fn fragments_of_fragments_make_the_same_whole() {
        let packet = datagram(1472);
        let mut reassembly = Reassembly::default();
        let pieces: Vec<Packet> =
            fragments(&packet, 1006).iter().flat_map(|piece| fragments(piece, 296)).collect();
        let whole = pieces.into_iter().filter_map(|piece| reassembly.handle(Instant::ZERO, piece)).last();
        assert_eq!(whole.map(|whole| whole.length()), Some(packet.length()));
    }

    /// RFC 4963: identifications come again while fragments of the last packet that had them wait.
    #[test]
    fn fragments_of_two_packets_with_one_identification_make_a_damaged_packet() {
        let (first, second) = (datagram(1472), datagram(1472).sent_at(Instant::from_millis(9000)));
        let (old, new) = (fragments(&first, 1006), fragments(&second, 1006));
        let mut reassembly = Reassembly::default();
        assert!(reassembly.handle(Instant::ZERO, old[0].clone()).is_none());
        let mixed =
            reassembly.handle(Instant::from_millis(9000), new[1].clone()).expect("nothing is missing");
        assert!(mixed.is_corrupted());
        let mut whole =
            new.into_iter().filter_map(|piece| reassembly.handle(Instant::from_millis(9000), piece));
        assert!(whole.next().is_some_and(|whole| !whole.is_corrupted()));
    }

    #[test]
    fn what_stays_incomplete_is_given_up_and_counted() {
        let pieces = fragments(&datagram(1472), 576);
        let mut reassembly = Reassembly::default();
        assert!(pieces[1..].iter().all(|piece| reassembly.handle(Instant::ZERO, piece.clone()).is_none()));
        let later = Instant::ZERO + REASSEMBLY_TIMEOUT;
        let other = fragments(&datagram(1000), 576).remove(0).cut(0, 8);
        let mut other_id = other;
        other_id.set_id(5);
        assert!(reassembly.handle(later, other_id).is_none());
        assert_eq!(reassembly.failures, 1);
        assert!(reassembly.handle(later, pieces[0].clone()).is_none(), "its other fragments are gone");
    }

    #[test]
    fn fragments_of_an_old_packet_with_the_same_number_are_no_part_of_a_new_one() {
        let pieces = fragments(&datagram(1472), 576);
        let mut reassembly = Reassembly::default();
        assert!(reassembly.handle(Instant::ZERO, pieces[0].clone()).is_none());
        let later = Instant::ZERO + REASSEMBLY_TIMEOUT;
        assert!(pieces[1..].iter().all(|piece| reassembly.handle(later, piece.clone()).is_none()));
        assert_eq!(reassembly.failures, 1);
        assert!(reassembly.handle(later, pieces[0].clone()).is_some());
    }
}
