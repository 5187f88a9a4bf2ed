//! Which unknown matters for what: rank correlations.
//!
//! Spearman's ρ between an unknown's value and an outcome over all settings says how far the outcome rises or falls with the unknown,
//! whatever the shape. A choice that has no order counts as 1 where it was drawn and 0 elsewhere. The interval is by Fisher's
//! transformation with the standard error of Bonett and Wright (2000), √((1 + ρ²/2)/(n − 3)).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, Normal};
use statrs::statistics::{Data, OrderStatistics as _, RankTieBreaker, Statistics as _};

use crate::plan::Setting;
use crate::results::UnknownAnswer;

/// How far an outcome goes with an unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Influence {
    /// The unknown's name.
    pub unknown: String,
    /// The choice, of an unknown whose choices have no order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// Spearman's rank correlation, −1 to 1.
    pub rho: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Influence {
    /// Whether the interval says which sign it has.
    pub fn is_clear(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The influence of each unknown on an outcome that so many settings have, the strongest first; none of an outcome that is always the
/// same.
pub(crate) fn of(unknowns: &[UnknownAnswer], settings: &[(&Setting, f64)]) -> Vec<Influence> {
    let outcomes: Vec<f64> = settings.iter().map(|(_, outcome)| *outcome).collect();
    let mut all = Vec::new();
    for (place, unknown) in unknowns.iter().enumerate() {
        let positions = || settings.iter().map(|(setting, _)| setting.drawn[place].position);
        let mut add = |choice: Option<&String>, positions: Vec<f64>| {
            let Some((rho, [low, high])) = correlation(&positions, &outcomes) else { return };
            all.push(Influence { unknown: unknown.name.clone(), choice: choice.cloned(), rho, low, high });
        };
        match &unknown.choices {
            None => add(None, positions().collect()),
            // The one says what the other does.
            Some(choices) => {
                let shown = if choices.len() == 2 { &choices[1..] } else { &choices[..] };
                for choice in shown {
                    let number = choices.iter().position(|other| other == choice).unwrap_or_default() as f64;
                    let is = |position: f64| f64::from(u8::from((position - number).abs() < 0.5));
                    add(Some(choice), positions().map(is).collect());
                }
            }
        }
    }
    all.sort_by(|a, b| b.rho.abs().total_cmp(&a.rho.abs()));
    all
}

/// Spearman's ρ and its interval; none if either is always the same or there are too few.
fn correlation(one: &[f64], other: &[f64]) -> Option<(f64, [f64; 2])> {
    let count = one.len() as f64;
    if one.len() < 4 {
        return None;
    }
    let ranks = |values: &[f64]| Data::new(values.to_vec()).ranks(RankTieBreaker::Average);
    let (one, other) = (ranks(one), ranks(other));
    let deviations = one.iter().std_dev() * other.iter().std_dev();
    let rho = one.iter().covariance(other.iter()) / deviations;
    if !rho.is_finite() {
        return None;
    }
    let rho = rho.clamp(-1.0, 1.0);
    let quantile = Normal::standard().inverse_cdf(0.975);
    let reach = quantile * ((1.0 + rho * rho / 2.0) / (count - 3.0)).sqrt();
    let end = |sign: f64| (rho.clamp(-0.999_999, 0.999_999).atanh() + sign * reach).tanh();
    Some((rho, [end(-1.0), end(1.0)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_correlation_is_of_ranks() {
        let one: Vec<f64> = (1..=20).map(f64::from).collect();
        let cubes: Vec<f64> = one.iter().map(|value| value * value * value).collect();
        let (rho, [low, high]) = correlation(&one, &cubes).unwrap();
        assert!((rho - 1.0).abs() < 1e-12 && low > 0.99 && high <= 1.0, "{rho} {low} {high}");
        let falling: Vec<f64> = one.iter().map(|value| -value).collect();
        assert!((correlation(&one, &falling).unwrap().0 + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&one, &[3.0; 20]), None, "always the same");
        assert_eq!(correlation(&one[..3], &cubes[..3]), None, "too few");
    }

    #[test]
    fn it_is_spearmans_with_ties() {
        // Ranks 1, 2.5, 2.5, 4, 5 and 2, 1, 3, 4.5, 4.5: Pearson's r of these is 7.5 / 9.5.
        let (rho, _) = correlation(&[1.0, 2.0, 2.0, 7.0, 9.0], &[5.0, 4.0, 6.0, 8.0, 8.0]).unwrap();
        assert!((rho - 7.5 / 9.5).abs() < 1e-12, "{rho}");
    }

    #[test]
    fn the_interval_covers_nothing_as_often_as_it_says() {
        let mut rng = trunkline_units::Rng::new(3, "influence");
        let mut values = || (0..32).map(|_| rng.uniform()).collect::<Vec<f64>>();
        let covers = (0..2000).filter(|_| {
            let (_, [low, high]) = correlation(&values(), &values()).unwrap();
            low <= 0.0 && high >= 0.0
        });
        let part = covers.count() as f64 / 2000.0;
        assert!((0.935..0.97).contains(&part), "{part}");
    }
}
