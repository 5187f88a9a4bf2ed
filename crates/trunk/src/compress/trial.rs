//! Whether compression pays on a lane, found out by trying.
//!
//! A trial is a number of packets. If too few of their bytes were saved, the lane makes a pause of many packets,
//! in which compressing costs nothing at all, and tries again. Contexts outlive a pause: no packet in it touched
//! them at either end.

/// Packets in a trial.
pub(super) const TRIAL: u32 = 1000;
/// Packets in a pause: a lane that never pays compresses one packet of eleven.
pub(super) const PAUSE: u32 = 10_000;
/// A trial pays if it saves one byte of this many. Packets of a full Ethernet frame save two to three of a hundred.
pub(super) const ONE_OF: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trial {
    /// Trying; bytes that the packets so far would have cost without compression, and with. The latter may be more:
    /// a packet that makes a context is longer.
    Running { packets: u32, without: u64, with: u64 },
    /// Packets until the next trial.
    Pause { left: u32 },
}

impl Trial {
    pub(super) const fn new() -> Self {
        Trial::Running { packets: 0, without: 0, with: 0 }
    }

    /// Whether the next packet is left alone. Counts it if so.
    #[inline]
    pub(super) fn pauses(&mut self) -> bool {
        let Trial::Pause { left } = self else { return false };
        *left -= 1;
        if *left == 0 {
            *self = Trial::new();
        }
        true
    }

    /// Takes note of a packet that was not left alone: its frame's bytes without compression, and with. Whether
    /// a pause begins.
    #[inline]
    pub(super) fn note(&mut self, bytes_without: usize, bytes_with: usize) -> bool {
        let Trial::Running { packets, without, with } = self else { return false };
        *packets += 1;
        *without += bytes_without as u64;
        *with += bytes_with as u64;
        if *packets < TRIAL {
            return false;
        }
        let pays = without.saturating_sub(*with) * ONE_OF >= *without;
        *self = if pays { Trial::new() } else { Trial::Pause { left: PAUSE } };
        !pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets in pauses and outside, over a number of them that each save so many bytes of a thousand.
    fn paused(packets: u32, saved: usize) -> u32 {
        let mut trial = Trial::new();
        let mut paused = 0;
        for _ in 0..packets {
            if trial.pauses() {
                paused += 1;
            } else {
                trial.note(1000, 1000 - saved);
            }
        }
        paused
    }

    #[test]
    fn saving_one_in_a_hundred_is_enough_and_less_is_not() {
        assert_eq!(paused(50_000, 10), 0);
        assert_eq!(paused(TRIAL, 9), 0, "the first trial runs to its end");
        assert_eq!(paused(11_000, 9), PAUSE);
        assert_eq!(paused(22_000, 9), 2 * PAUSE, "after a pause comes a trial, however often");
    }

    #[test]
    fn a_pause_ends_when_it_comes_to_pay() {
        let mut trial = Trial::new();
        let begun = (0..TRIAL).filter(|_| trial.note(60, 61)).count();
        assert_eq!(begun, 1, "packets that only make contexts do not pay");
        assert_eq!((0..2 * PAUSE).filter(|_| trial.pauses()).count(), PAUSE as usize);
        assert!((0..5 * TRIAL).all(|_| !trial.note(60, 10)));
    }
}
