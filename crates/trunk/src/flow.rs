//! What a transmitter remembers of each flow, and how many are active.

use std::time::Duration;

use trunkline_packet::{FlowHasher, FlowKey};
use trunkline_queue::FlowMap;
use trunkline_units::{Instant, Rng, Seq};

use crate::in_transit::InTransit;
use crate::{ClassId, TrunkPlan};

pub(crate) type FlowTable = FlowMap<FlowKey, Flow>;

/// The hasher of flows whose key follows from `seed`.
pub(crate) fn hasher(seed: u64) -> FlowHasher {
    let mut rng = Rng::new(seed, "flow hash");
    FlowHasher::new([rng.next_u64(), rng.next_u64()])
}

/// The state of a flow: 52 bytes, with which its entry costs 64 beyond the key.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flow {
    pub(crate) in_transit: InTransit,
    /// Behind the highest sequence number that left the edge.
    pub(crate) sent_high: Seq,
    /// Acknowledgement number and window of the last packet in our direction.
    pub(crate) last_ack: Seq,
    pub(crate) last_window: u16,
    /// The last acknowledgement that came back.
    pub(crate) returned_ack: Seq,
    /// The running measurement of a round trip: the acknowledgement it waits for, and since when.
    probe_end: Seq,
    probe_at_us: u32,
    /// The part of the round trip on our side, in units of 64 µs.
    near_rtt: u16,
    /// The last measured round trip, the same units.
    last_rtt: u16,
    /// How far it has used up what an interactive flow may send, in units of 4 bytes.
    spent: u16,
    /// When `spent` was last looked at, ms modulo 2^16.
    spent_at: u16,
    /// Bytes in our direction, 48 bits, the lowest first.
    bytes: [u16; 3],
    /// Classes in which it has a place, a bit each.
    places: u16,
    /// Those of them in which it has sent something since somebody looked.
    used: u16,
    /// The second in which it was last counted as active, modulo 256.
    epoch: u8,
    /// Its edge queue of the transmitter, once it has one.
    edge_queue: u8,
    flags: u8,
    /// Repeats filtered, at most 255.
    pub(crate) filtered: u8,
}

const PROBING: u8 = 1;
const NEAR_PROBING: u8 = 2;
const BULK: u8 = 4;
const CLOSED: u8 = 8;
const HAS_SENT_ACK: u8 = 16;
const SACKS: u8 = 32;
const PLACED: u8 = 64;

impl Flow {
    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn set(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    /// A connection begins with `seq`, or the first segment seen of one: forgets what belonged to an earlier one
    /// between the same ports.
    pub(crate) fn begin(&mut self, seq: Seq) {
        self.in_transit.clear();
        self.sent_high = seq;
        self.set(PROBING | NEAR_PROBING | CLOSED | HAS_SENT_ACK, false);
    }

    /// Whether a SYN of this number opens another connection than the one known.
    pub(crate) fn is_another(self, seq: Seq) -> bool {
        let known = self.sent_high == seq + 1 || self.in_transit.missing(seq, seq + 1) == 0;
        self.has(CLOSED) || !known
    }

    /// The edge queue that its last packet went to; `None` before the first.
    pub(crate) fn edge_queue(self) -> Option<usize> {
        self.has(PLACED).then_some(usize::from(self.edge_queue))
    }

    pub(crate) fn set_edge_queue(&mut self, index: usize) {
        self.edge_queue = index as u8;
        self.set(PLACED, true);
    }

    /// Whether its receiver reports what it has by SACK.
    pub(crate) fn sacks(self) -> bool {
        self.has(SACKS)
    }

    pub(crate) fn set_sacks(&mut self, sacks: bool) {
        self.set(SACKS, sacks);
    }

    /// Whether it has a place in a class; if so, it is used now.
    #[inline]
    pub(crate) fn use_place(&mut self, class: ClassId) -> bool {
        self.used |= self.places & bit(class);
        self.places & bit(class) != 0
    }

    pub(crate) fn take_place(&mut self, class: ClassId) {
        self.places |= bit(class);
        self.used |= bit(class);
    }

    pub(crate) fn give_up_place(&mut self, class: ClassId) {
        self.places &= !bit(class);
        self.used &= !bit(class);
    }

    /// Whether it has used its place in a class since this was last asked.
    pub(crate) fn was_place_used(&mut self, class: ClassId) -> bool {
        let used = self.used & bit(class) != 0;
        self.used &= !bit(class);
        used
    }

    /// Whether its connection has ended.
    pub(crate) fn is_closed(self) -> bool {
        self.has(CLOSED)
    }

    pub(crate) fn close(&mut self) {
        self.set(CLOSED, true);
    }

    /// Whether a packet of it passed in our direction: then `last_ack` and `last_window` hold.
    pub(crate) fn has_sent_ack(self) -> bool {
        self.has(HAS_SENT_ACK)
    }

    pub(crate) fn set_last_ack(&mut self, ack: Seq, window: u16) {
        (self.last_ack, self.last_window) = (ack, window);
        self.set(HAS_SENT_ACK, true);
    }

    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        let total = (self.bytes() + bytes as u64).min((1 << 48) - 1);
        self.bytes = [total as u16, (total >> 16) as u16, (total >> 32) as u16];
    }

    pub(crate) fn bytes(self) -> u64 {
        self.bytes.iter().rev().fold(0, |bytes, part| bytes << 16 | u64::from(*part))
    }

    /// The last measured round trip, to 64 µs.
    pub(crate) fn last_rtt(self) -> Option<Duration> {
        (self.last_rtt > 0).then(|| Duration::from_micros(u64::from(self.last_rtt) * 64))
    }

    /// `[seq, end)` leaves the edge now.
    pub(crate) fn segment_left(&mut self, now: Instant, seq: Seq, end: Seq) {
        if seq.before(self.sent_high) {
            // An acknowledgement could be the first copy's or the second's.
            self.set(PROBING, false);
        } else {
            self.sent_high = end;
            if !self.has(PROBING | NEAR_PROBING) {
                (self.probe_end, self.probe_at_us) = (end, micros(now));
                self.set(PROBING, true);
            }
        }
    }

    /// An acknowledgement came back; the whole round trip in µs, if one was being measured.
    pub(crate) fn acknowledged(&mut self, now: Instant, ack: Seq) -> Option<u32> {
        if !self.has(PROBING) || ack.before(self.probe_end) {
            return None;
        }
        self.set(PROBING, false);
        let rtt = micros(now).wrapping_sub(self.probe_at_us).saturating_add(u32::from(self.near_rtt) * 64);
        self.last_rtt = u16::try_from(rtt / 64).unwrap_or(u16::MAX).max(1);
        Some(rtt)
    }

    /// A packet of the handshake passes towards the local host.
    pub(crate) fn near_probe(&mut self, now: Instant) {
        self.set(PROBING, false);
        self.set(NEAR_PROBING, true);
        self.probe_at_us = micros(now);
    }

    /// The local host has sent something.
    pub(crate) fn near_answer(&mut self, now: Instant) {
        if self.has(NEAR_PROBING) {
            self.set(NEAR_PROBING, false);
            let rtt = micros(now).wrapping_sub(self.probe_at_us);
            self.near_rtt = u16::try_from(rtt / 64).unwrap_or(u16::MAX);
        }
    }

    /// Takes note of a packet, and says whether the flow is interactive: one that sends little.
    ///
    /// A flow may spend 32 KiB, which come back at 16 KiB/s: a voice call, a terminal, queries and their answers
    /// stay below that for ever, and a page or a mail may be over before it is reached. Whoever spends more is bulk
    /// until it has been silent for a second: so it moves between lanes only when nothing of it is under way, or to
    /// the slower one, and its packets stay in order.
    pub(crate) fn behaves_interactively(&mut self, now: Instant, bytes: usize) -> bool {
        const SILENCE_MS: u16 = 1000;
        const BUDGET: u16 = (32 << 10) / 4;
        const BACK_PER_MS: u64 = 4;
        let at = (now.as_nanos() / 1_000_000) as u16;
        let elapsed = at.wrapping_sub(self.spent_at);
        self.spent_at = at;
        if self.has(BULK) {
            if elapsed < SILENCE_MS {
                return false;
            }
            self.set(BULK, false);
            self.spent = 0;
        }
        let back = (u64::from(elapsed) * BACK_PER_MS).min(u64::from(u16::MAX)) as u16;
        let adds = u16::try_from(bytes.div_ceil(4)).unwrap_or(u16::MAX);
        self.spent = self.spent.saturating_sub(back).saturating_add(adds);
        self.set(BULK, self.spent > BUDGET);
        !self.has(BULK)
    }
}

/// The bit of a class in a set of classes.
const fn bit(class: ClassId) -> u16 {
    1 << class.0
}

const _: () = assert!(TrunkPlan::MAX_CLASSES <= u16::BITS as usize);
const _: () = assert!(TrunkPlan::MAX_EDGE_QUEUES <= 1 << u8::BITS);

fn micros(now: Instant) -> u32 {
    (now.as_nanos() / 1000) as u32
}

/// How many flows sent something lately: N of kung1998 §4.
///
/// A flow is counted once in each second. The count is that of the running second or of the one before, whichever
/// is larger, so that it neither falls to nothing at the turn of a second nor needs a list to be searched.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ActiveFlows {
    second: u64,
    running: u32,
    before: u32,
}

impl ActiveFlows {
    fn turn(&mut self, now: Instant) {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            self.before = if second == self.second + 1 { self.running } else { 0 };
            self.running = 0;
            self.second = second;
        }
    }

    /// Counts `flow` unless it is counted already in this second.
    #[inline]
    pub(crate) fn count(&mut self, now: Instant, flow: &mut Flow) {
        self.turn(now);
        let epoch = self.epoch();
        if flow.epoch != epoch {
            flow.epoch = epoch;
            self.running += 1;
        }
    }

    /// Never 0, which is that of a flow that was not counted yet.
    const fn epoch(&self) -> u8 {
        self.second as u8 | 1 << 7
    }

    /// `flow` goes on in another class: if it is counted here in this second, it is to be counted there instead.
    pub(crate) fn release(&mut self, now: Instant, flow: &mut Flow) {
        self.turn(now);
        if flow.epoch == self.epoch() {
            flow.epoch = 0;
            self.running = self.running.saturating_sub(1);
        }
    }

    /// A flow that was counted sends over another lane from now on.
    pub(crate) const fn handle_left(&mut self) {
        self.running = self.running.saturating_sub(1);
        self.before = self.before.saturating_sub(1);
    }

    /// A flow comes that another lane has counted.
    pub(crate) const fn handle_joined(&mut self) {
        self.running += 1;
        self.before += 1;
    }

    /// The number now.
    pub(crate) fn number(&mut self, now: Instant) -> u32 {
        self.turn(now);
        self.running.max(self.before)
    }

    /// Orders lanes by how many flows they have: where those of the second before are as many, those of this one decide.
    pub(crate) fn load(&mut self, now: Instant) -> (u32, u32) {
        (self.number(now), self.running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }

    #[test]
    fn a_flow_costs_64_bytes_beyond_its_key() {
        assert!(size_of::<Flow>() <= 64 - 12, "{}", size_of::<Flow>());
        // FlowMap: a tag, when it was seen, a generation.
        let entry = size_of::<(FlowKey, Flow, u32)>() + 8;
        assert!(entry - size_of::<FlowKey>() <= 64, "{entry}");
    }

    #[test]
    fn bytes_count_up_to_48_bits_and_stay_there() {
        let mut flow = Flow::default();
        flow.count_bytes(0x1234_5678_9abc);
        flow.count_bytes(1);
        assert_eq!(flow.bytes(), 0x1234_5678_9abd);
        flow.count_bytes(usize::MAX >> 1);
        flow.count_bytes(1);
        assert_eq!(flow.bytes(), (1 << 48) - 1);
    }

    #[test]
    fn a_flow_that_changes_its_class_counts_in_the_new_one_at_once() {
        let [mut old, mut new] = [ActiveFlows::default(); 2];
        let mut flows = [Flow::default(); 4];
        let now = seconds(5);
        for flow in &mut flows {
            old.count(now, flow);
        }
        for flow in &mut flows[..3] {
            old.release(now, flow);
            new.count(now, flow);
        }
        assert_eq!((old.number(now), new.number(now)), (1, 3));
        // One that was not counted in this second takes nothing away.
        old.release(seconds(6), &mut flows[0]);
        assert_eq!((old.number(seconds(6)), new.number(seconds(6))), (1, 3));
    }

    #[test]
    fn active_flows_are_those_of_the_last_second_or_two() {
        let mut active = ActiveFlows::default();
        let mut flows = [Flow::default(); 10];
        for flow in &mut flows {
            active.count(seconds(5), flow);
            active.count(seconds(5), flow);
        }
        assert_eq!(active.number(seconds(5)), 10);
        for flow in &mut flows[..3] {
            active.count(seconds(6), flow);
        }
        assert_eq!(active.number(seconds(6)), 10);
        assert_eq!(active.number(seconds(7)), 3);
        assert_eq!(active.number(seconds(8)), 0);
    }

    #[test]
    fn little_traffic_stays_interactive_and_bulk_becomes_so_again_after_silence() {
        let mut call = Flow::default();
        // Voice: 200 bytes 50 times a second, for ten minutes.
        assert!((0..30_000).all(|n| call.behaves_interactively(Instant::from_millis(n * 20), 200)));
        let mut bulk = Flow::default();
        let sent = (0..100).take_while(|_| bulk.behaves_interactively(seconds(1), 1500)).count();
        assert!((20..=22).contains(&sent), "{sent} packets before it counts as bulk");
        assert!(!bulk.behaves_interactively(Instant::from_millis(1900), 1500), "not silent long enough");
        assert!(bulk.behaves_interactively(Instant::from_millis(2950), 1500));
        assert!(!Flow::default().behaves_interactively(seconds(1), 64_000), "a super-packet is bulk");
    }

    #[test]
    fn a_round_trip_has_both_halves_and_none_of_a_retransmission() {
        let mut flow = Flow::default();
        flow.begin(Seq(1));
        flow.near_probe(Instant::from_millis(100));
        flow.near_answer(Instant::from_millis(110));
        flow.segment_left(Instant::from_millis(110), Seq(1), Seq(1001));
        assert_eq!(flow.acknowledged(Instant::from_millis(120), Seq(500)), None);
        let rtt = flow.acknowledged(Instant::from_millis(150), Seq(1001)).expect("a sample");
        assert!((49_900..=50_000).contains(&rtt), "{rtt}");
        flow.segment_left(Instant::from_millis(200), Seq(1001), Seq(2001));
        flow.segment_left(Instant::from_millis(300), Seq(1001), Seq(2001));
        assert_eq!(flow.acknowledged(Instant::from_millis(310), Seq(2001)), None);
    }
}
