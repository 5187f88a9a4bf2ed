//! What a network has reserved for a trunk on a path.

use trunkline_units::Rate;

/// A rate that is there for the trunk, 0 for one that takes what others leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reserved {
    /// bit/s.
    rate: f64,
    /// The trunk sends so many times that, or more: what is lost is sent again, and that much is to arrive.
    insists: f64,
}

impl Reserved {
    /// The trunk insists on no more than this, or the links would be full of what is sent again.
    const MOST: f64 = 1.06;
    /// How much of what is missing in a window is added.
    const STEP: f64 = 0.05;
    /// A trunk that delivers less than this part of its rate does not yield to losses.
    const LACKS: f64 = 0.9;
    /// The queue that is let stand is this part of the usual one: those who have nothing reserved are to see it.
    pub(super) const TARGET: f64 = 0.5;
    /// It has the length of packets at this rate at most, bit/s. A trunk with little or nothing has a part of a link and of a queue; at its own
    /// rate a packet takes as long as the queue of all.
    pub(super) const LINK: f64 = 1e6;

    pub(super) fn new(rate: Rate) -> Self {
        Reserved { rate: rate.bits_per_second() as f64, insists: 1.0 }
    }

    /// The least that the trunk sends, bit/s.
    pub(super) const fn least(&self) -> f64 {
        self.rate * self.insists
    }

    /// So much has arrived in a window in which packets waited, bit/s.
    pub(super) fn handle_window(&mut self, arrived: f64) {
        if self.rate > 0.0 {
            let missing = 1.0 - arrived / self.rate;
            self.insists = (self.insists + missing * Self::STEP).clamp(1.0, Self::MOST);
        }
    }

    /// Whether the trunk lacks a part of its rate, of which so much arrives, bit/s.
    pub(super) const fn is_lacking(&self, arrives: f64) -> bool {
        arrives < self.rate * Self::LACKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trunk_insists_on_more_while_less_arrives_and_no_longer() {
        // bit/s after so many more windows in which that part of 10 Mbit/s arrived.
        let mut reserved = Reserved::new(Rate::from_mbit(10.0));
        let mut least = |windows, arrived| {
            (0..windows).for_each(|_| reserved.handle_window(arrived * 10e6));
            reserved.least().round() as u64
        };
        assert_eq!(least(0, 0.0), 10_000_000);
        assert_eq!(least(10, 0.99), 10_050_000);
        assert_eq!(least(1000, 0.9), 10_600_000);
        assert_eq!(least(100, 1.05), 10_000_000);
        let mut nothing = Reserved::new(Rate::ZERO);
        nothing.handle_window(0.0);
        assert!(nothing.least() <= 0.0, "{nothing:?}");
    }
}
