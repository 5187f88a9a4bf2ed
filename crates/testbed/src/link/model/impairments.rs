//! Impairments of a link: loss and inverted bits.

use trunkline_units::Rng;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives as it was sent.
    Deliver,
    /// It is lost.
    Lose,
    /// It arrives with this bit inverted.
    Corrupt {
        /// Counted from the packet's first bit.
        bit: u64,
    },
}

/// Independent losses and bit errors, from a seeded stream: the same packets suffer in every run.
#[derive(Debug, Clone)]
pub struct Impairments {
    loss: f64,
    corruption: f64,
    random: Rng,
}

impl Impairments {
    /// With these probabilities per packet of a loss and, if not lost, of one inverted bit.
    pub fn new(loss: f64, corruption: f64, random: Rng) -> Self {
        Self { loss, corruption, random }
    }

    /// Changes the probabilities.
    pub fn set(&mut self, loss: f64, corruption: f64) {
        self.loss = loss;
        self.corruption = corruption;
    }

    /// Decides on the next packet, which has `bytes` bytes.
    pub fn fate(&mut self, bytes: usize) -> Fate {
        if self.loss > 0.0 && self.random.chance(self.loss) {
            Fate::Lose
        } else if self.corruption > 0.0 && bytes > 0 && self.random.chance(self.corruption) {
            Fate::Corrupt { bit: self.random.below(bytes as u64 * 8) }
        } else {
            Fate::Deliver
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(loss: f64, corruption: f64, seed: u64) -> Vec<Fate> {
        let mut impairments = Impairments::new(loss, corruption, Rng::new(seed, "test"));
        (0..100_000).map(|_| impairments.fate(100)).collect()
    }

    #[test]
    fn rates_are_as_asked() {
        let fates = fates(0.02, 0.01, 7);
        let lost = fates.iter().filter(|fate| **fate == Fate::Lose).count();
        let corrupt = fates.iter().filter(|fate| matches!(fate, Fate::Corrupt { .. })).count();
        // Five standard deviations either way: √(100000 × 0.02 × 0.98) ≈ 44.
        assert!((1780..=2220).contains(&lost), "{lost}");
        assert!((820..=1140).contains(&corrupt), "{corrupt}");
    }

    #[test]
    fn the_bit_is_inside_the_packet() {
        let inside = |fate: &Fate| !matches!(fate, Fate::Corrupt { bit } if *bit >= 800);
        assert!(fates(0.0, 1.0, 1).iter().all(inside));
    }

    #[test]
    fn the_same_seed_hits_the_same_packets() {
        assert_eq!(fates(0.1, 0.1, 3), fates(0.1, 0.1, 3));
        assert_ne!(fates(0.1, 0.1, 3), fates(0.1, 0.1, 4));
    }

    #[test]
    fn a_good_wire_does_nothing() {
        assert!(fates(0.0, 0.0, 1).iter().all(|fate| *fate == Fate::Deliver));
    }
}
