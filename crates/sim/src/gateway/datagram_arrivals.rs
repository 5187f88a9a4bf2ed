//! What the receiving end of a lane of datagrams knows: which numbers have come, and what it owes the sender.

use std::time::Duration;

use trunkline_units::Instant;

/// Of an acknowledgement: kind, largest number, mask, marks.
pub(super) const ACK_FRONT: usize = 17;
pub(super) const ACK: u8 = 2;
/// An acknowledgement waits so long for a second packet.
const ACK_DELAY: Duration = Duration::from_millis(25);
/// Numbers before the largest that are told apart.
pub(super) const MASK: i32 = 64;

/// Numbers that have come.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    largest: Option<u32>,
    /// Of the numbers before the largest, from the lowest bit on.
    mask: u64,
    marks: u32,
    /// When an acknowledgement must leave at the latest.
    owed: Option<Instant>,
}

impl Arrivals {
    /// A number has come. Whether it is certain that it had not come before: if not, the packet is to be dropped
    /// (RFC 9000 §12.3).
    pub(super) fn note(&mut self, now: Instant, number: u32, marked: bool) -> bool {
        // The second packet, a gap, a packet out of order and a mark are told of at once.
        let mut at_once = marked || self.owed.is_some();
        let mut fresh = true;
        self.marks = self.marks.wrapping_add(u32::from(marked));
        match self.largest {
            None => self.largest = Some(number),
            Some(largest) => {
                let ahead = number.wrapping_sub(largest).cast_signed();
                if ahead > 0 {
                    let shifted = if ahead < MASK { self.mask << ahead } else { 0 };
                    self.mask = if ahead <= MASK { shifted | 1 << (ahead - 1) } else { 0 };
                    self.largest = Some(number);
                    at_once |= ahead > 1;
                } else {
                    let bit = if (-MASK..0).contains(&ahead) { 1 << (-ahead - 1) } else { 0 };
                    fresh = bit != 0 && self.mask & bit == 0;
                    self.mask |= bit;
                    at_once |= fresh;
                }
            }
        }
        let latest = if at_once { now } else { now + ACK_DELAY };
        self.owed = Some(self.owed.map_or(latest, |owed| owed.min(latest)));
        fresh
    }

    /// When an acknowledgement must leave.
    pub(super) const fn owed(&self) -> Option<Instant> {
        self.owed
    }

    /// The acknowledgement that is due now.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<[u8; ACK_FRONT]> {
        let largest = self.largest?;
        self.owed.take_if(|owed| *owed <= now)?;
        let mut front = [0; ACK_FRONT];
        front[0] = ACK;
        front[1..5].copy_from_slice(&largest.to_be_bytes());
        front[5..13].copy_from_slice(&self.mask.to_be_bytes());
        front[13..].copy_from_slice(&self.marks.to_be_bytes());
        Some(front)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_once_in_whatever_order_numbers_come() {
        let mut arrivals = Arrivals::default();
        let mut take = |number| arrivals.note(Instant::ZERO, number, false);
        assert!(take(10) && take(12) && take(11) && take(9) && take(75));
        assert!(!take(10) && !take(11) && !take(12) && !take(9) && !take(75));
        // 64 before the largest is told apart still, 65 is not.
        assert!(take(74) && !take(74) && !take(11) && take(13) && !take(8));
        assert!(take(1000) && !take(75) && take(999));
    }

    #[test]
    fn numbers_go_on_over_their_wrap() {
        let mut arrivals = Arrivals::default();
        let mut take = |number| arrivals.note(Instant::ZERO, number, false);
        assert!(take(u32::MAX) && take(1) && take(0));
        assert!(!take(u32::MAX) && !take(0) && !take(1));
    }

    #[test]
    fn a_gap_is_told_of_at_once_and_a_single_packet_after_25_ms() {
        // From the first instant on, where there is no time before it.
        let mut arrivals = Arrivals::default();
        arrivals.note(Instant::ZERO, 0, false);
        assert_eq!(arrivals.owed(), Some(Instant::from_millis(25)));
        assert!(arrivals.take_due(Instant::from_millis(24)).is_none());
        arrivals.note(Instant::from_millis(1), 1, false);
        assert!(arrivals.take_due(Instant::from_millis(1)).is_some(), "the second packet");
        assert_eq!(arrivals.owed(), None);
        arrivals.note(Instant::from_millis(2), 3, false);
        let ack = arrivals.take_due(Instant::from_millis(2)).expect("a gap");
        assert_eq!((ack[4], ack[12]), (3, 0b110));
        arrivals.note(Instant::from_millis(3), 4, true);
        let ack = arrivals.take_due(Instant::from_millis(3)).expect("a mark");
        assert_eq!(ack[16], 1);
    }
}
