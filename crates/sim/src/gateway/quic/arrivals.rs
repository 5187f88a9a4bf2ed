//! What the receiving end of a connection knows: which packets have come, and when to tell the sender.
//!
//! Every second packet is acknowledged at once, and one alone after 25 ms; a packet out of order, a gap and a mark at once
//! (RFC 9000 §13.2, with the defaults of the gateway's library).

use std::time::Duration;

use trunkline_units::Instant;

/// An acknowledgement waits so long for a second packet (`max_ack_delay`).
pub(super) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// Numbers before the largest that are told apart. The gateway's library takes no packet that more have overtaken.
pub(super) const WINDOW: u32 = u128::BITS;

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) largest: u32,
    /// Since the largest came.
    pub(super) delay: Duration,
    /// Of the numbers before the largest, from the lowest bit on: whether they have come.
    mask: u128,
    /// How many packets were marked as having met congestion.
    pub(super) marks: u32,
}

impl Ack {
    /// Bytes of it in the simulator's packets, and those of the frame that it stands for: one with a delay, counts of marks and
    /// some ranges (RFC 9000 §19.3).
    pub(super) const BYTES: usize = 28;
    pub(super) const FRAME_BYTES: u32 = 25;

    /// Whether it says that this number has come.
    pub(super) const fn names(&self, number: u32) -> bool {
        match self.largest.checked_sub(number) {
            Some(0) => true,
            Some(behind) if behind <= WINDOW => self.mask >> (behind - 1) & 1 == 1,
            _ => false,
        }
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.largest.to_be_bytes());
        bytes[4..8].copy_from_slice(&(self.delay.as_micros() as u32).to_be_bytes());
        bytes[8..24].copy_from_slice(&self.mask.to_be_bytes());
        bytes[24..].copy_from_slice(&self.marks.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Ack {
            largest: word(0)?,
            delay: Duration::from_micros(word(4)?.into()),
            mask: u128::from_be_bytes(*bytes.get(8..)?.first_chunk()?),
            marks: word(24)?,
        })
    }
}

/// Numbers that have come.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The largest, and when it came.
    largest: Option<(u32, Instant)>,
    mask: u128,
    marks: u32,
    /// Packets that no acknowledgement has told of.
    untold: u32,
    /// When an acknowledgement must leave at the latest.
    due: Option<Instant>,
}

impl Arrivals {
    /// A number has come. Whether it is certain that it had not come before: if not, the packet is to be dropped
    /// (RFC 9000 §12.3).
    pub(super) fn note(&mut self, now: Instant, number: u32, marked: bool) -> bool {
        let mut at_once = marked;
        match self.largest {
            None => self.largest = Some((number, now)),
            Some((largest, _)) if number > largest => {
                let ahead = number - largest;
                let shifted = self.mask.checked_shl(ahead).unwrap_or(0);
                self.mask = if ahead <= WINDOW { shifted | 1 << (ahead - 1) } else { 0 };
                self.largest = Some((number, now));
                at_once |= ahead > 1;
            }
            Some((largest, _)) => {
                let behind = largest - number;
                let bit = if (1..=WINDOW).contains(&behind) { 1 << (behind - 1) } else { 0 };
                if bit == 0 || self.mask & bit != 0 {
                    return false;
                }
                self.mask |= bit;
                at_once = true;
            }
        }
        self.marks += u32::from(marked);
        self.untold += 1;
        at_once |= self.untold > 1;
        let latest = if at_once { now } else { now + MAX_ACK_DELAY };
        self.due = Some(self.due.map_or(latest, |due| due.min(latest)));
        true
    }

    /// When an acknowledgement must leave at the latest.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether there is something to tell, be it due or not.
    pub(super) const fn has_news(&self) -> bool {
        self.untold > 0
    }

    /// An acknowledgement, which leaves now.
    pub(super) fn take(&mut self, now: Instant) -> Option<Ack> {
        let (largest, came) = self.largest?;
        (self.untold, self.due) = (0, None);
        Some(Ack { largest, delay: now.saturating_since(came), mask: self.mask, marks: self.marks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_once_in_whatever_order_numbers_come() {
        let mut arrivals = Arrivals::default();
        let mut take = |number| arrivals.note(Instant::ZERO, number, false);
        assert!(take(10) && take(12) && take(11) && take(9) && take(139));
        assert!(!take(10) && !take(11) && !take(12) && !take(9) && !take(139));
        // 128 before the largest is told apart still, 129 is not.
        assert!(take(138) && !take(138) && !take(11) && take(13) && !take(8));
        assert!(take(1000) && !take(139) && take(999));
    }

    #[test]
    fn a_gap_is_told_of_at_once_and_a_single_packet_after_25_ms() {
        let mut arrivals = Arrivals::default();
        arrivals.note(Instant::ZERO, 0, false);
        assert_eq!(arrivals.due(), Some(Instant::from_millis(25)));
        let now = Instant::from_millis(1);
        arrivals.note(now, 1, false);
        assert_eq!(arrivals.due(), Some(now), "the second packet");
        assert!(arrivals.take(now).is_some() && arrivals.due().is_none() && !arrivals.has_news());
        arrivals.note(Instant::from_millis(2), 3, false);
        assert_eq!(arrivals.due(), Some(Instant::from_millis(2)), "a gap");
        let ack = arrivals.take(Instant::from_millis(2)).expect("an acknowledgement");
        assert_eq!([0, 1, 2, 3, 4].map(|number| ack.names(number)), [true, true, false, true, false]);
        arrivals.note(Instant::from_millis(3), 4, true);
        let ack = arrivals.take(Instant::from_millis(8)).expect("a mark");
        assert_eq!((ack.marks, ack.delay), (1, Duration::from_millis(5)));
        assert_eq!(Ack::decode(&ack.encode()), Some(ack));
    }

    #[test]
    fn a_packet_that_came_before_is_no_news() {
        let mut arrivals = Arrivals::default();
        arrivals.note(Instant::ZERO, 7, true);
        arrivals.take(Instant::ZERO);
        assert!(!arrivals.note(Instant::ZERO, 7, true) && !arrivals.has_news());
        assert!(arrivals.note(Instant::ZERO, 8, false));
        assert_eq!(arrivals.take(Instant::ZERO).map(|ack| ack.marks), Some(1));
    }
}
