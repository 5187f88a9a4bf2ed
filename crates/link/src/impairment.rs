//! Impairments of a link: loss, corruption, duplication and jitter.

use std::time::Duration;

use trunkline_units::{Rng, random};

/// When packets are lost on the way.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Loss {
    /// Never.
    #[default]
    None,
    /// Each with this probability.
    Uniform(f64),
    /// In bursts (Gilbert 1960, Elliott 1963): two states, each with a probability of loss, and a probability with each packet to
    /// go over to the other.
    Bursts {
        /// From the good state to the bad.
        to_bad: f64,
        /// And back.
        to_good: f64,
        /// Of loss in the good state.
        good: f64,
        /// Of loss in the bad state.
        bad: f64,
    },
}

impl Loss {
    /// The mean loss ratio.
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Uniform(p) => p,
            Loss::Bursts { to_bad, to_good, good, bad } if to_bad + to_good > 0.0 => {
                (to_good * good + to_bad * bad) / (to_bad + to_good)
            }
            Loss::Bursts { good, .. } => good,
        }
    }
}

/// How the delay of a link differs from packet to packet.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Jitter {
    /// It does not.
    #[default]
    None,
    /// By up to this much more, evenly distributed.
    Uniform {
        /// The largest.
        max: Duration,
        /// Whether a packet may overtake one before it.
        reorders: bool,
    },
    /// By an exponentially distributed time more.
    Exponential {
        /// On average.
        mean: Duration,
        /// Whether a packet may overtake one before it.
        reorders: bool,
    },
}

impl Jitter {
    pub(crate) fn reorders(&self) -> bool {
        matches!(self, Jitter::Uniform { reorders: true, .. } | Jitter::Exponential { reorders: true, .. })
    }

    fn draw(&self, rng: &mut Rng) -> Duration {
        match *self {
            Jitter::None => Duration::ZERO,
            Jitter::Uniform { max, .. } => Duration::from_nanos(rng.below(max.as_nanos() as u64 + 1)),
            Jitter::Exponential { mean, .. } => {
                Duration::from_nanos(random::exponential(rng, mean.as_nanos() as f64) as u64)
            }
        }
    }
}

/// The impairments of a link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Impairments {
    /// Loss.
    pub loss: Loss,
    /// The probability that data is corrupted, so that the receiver drops the packet.
    pub corruption: f64,
    /// The probability that a packet is duplicated.
    pub duplication: f64,
    /// Jitter.
    pub jitter: Jitter,
}

/// The impairments of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fate {
    pub(crate) lost: bool,
    pub(crate) corrupted: bool,
    pub(crate) duplicated: bool,
}

#[derive(Debug)]
pub(crate) struct Impairer {
    settings: Impairments,
    in_bad: bool,
    /// One stream for each, so that more of one changes nothing of the others.
    losses: Rng,
    damage: Rng,
    duplicates: Rng,
    delays: Rng,
    places: Rng,
}

impl Impairer {
    pub(crate) fn new(settings: Impairments, seed: u64) -> Self {
        Impairer {
            settings,
            in_bad: false,
            losses: Rng::new(seed, "loss"),
            damage: Rng::new(seed, "corruption"),
            duplicates: Rng::new(seed, "duplication"),
            delays: Rng::new(seed, "jitter"),
            places: Rng::new(seed, "place of corruption"),
        }
    }

    pub(crate) fn set(&mut self, settings: Impairments) {
        self.settings = settings;
    }

    pub(crate) fn delay(&mut self) -> Duration {
        self.settings.jitter.draw(&mut self.delays)
    }

    /// Of the places where packets are corrupted.
    pub(crate) fn places(&mut self) -> &mut Rng {
        &mut self.places
    }

    pub(crate) fn fate(&mut self) -> Fate {
        let lost = match self.settings.loss {
            Loss::None => false,
            Loss::Uniform(p) => self.losses.chance(p),
            Loss::Bursts { to_bad, to_good, good, bad } => {
                if self.losses.chance(if self.in_bad { to_good } else { to_bad }) {
                    self.in_bad = !self.in_bad;
                }
                self.losses.chance(if self.in_bad { bad } else { good })
            }
        };
        let drawn = |p: f64, rng: &mut Rng| p > 0.0 && rng.chance(p);
        Fate {
            lost,
            corrupted: drawn(self.settings.corruption, &mut self.damage),
            duplicated: drawn(self.settings.duplication, &mut self.duplicates),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(loss: Loss, packets: usize) -> Vec<bool> {
        let mut impairer = Impairer::new(Impairments { loss, ..Impairments::default() }, 5);
        (0..packets).map(|_| impairer.fate().lost).collect()
    }

    #[test]
    fn losses_are_as_frequent_as_they_should_be() {
        for loss in [Loss::Uniform(0.02), Loss::Bursts { to_bad: 0.005, to_good: 0.2, good: 0.0, bad: 0.8 }] {
            let share = lost(loss, 400_000).iter().filter(|lost| **lost).count() as f64 / 400_000.0;
            assert!((share / loss.mean() - 1.0).abs() < 0.05, "{loss:?}: {share}");
        }
    }

    #[test]
    fn bursts_are_as_long_as_the_bad_state_lasts() {
        let lost = lost(Loss::Bursts { to_bad: 0.01, to_good: 0.25, good: 0.0, bad: 1.0 }, 400_000);
        let begins = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let mean = lost.iter().filter(|lost| **lost).count() as f64 / begins as f64;
        assert!((3.8..4.2).contains(&mean), "{mean}");
    }

    #[test]
    fn more_of_one_impairment_changes_nothing_of_another() {
        let plain = Impairments { loss: Loss::Uniform(0.1), ..Impairments::default() };
        let more = Impairments { corruption: 0.3, duplication: 0.2, ..plain };
        let (mut a, mut b) = (Impairer::new(plain, 1), Impairer::new(more, 1));
        assert!((0..1000).all(|_| a.fate().lost == b.fate().lost));
    }
}
