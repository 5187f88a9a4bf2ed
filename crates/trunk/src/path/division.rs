//! Divides the rate of a path among the lanes on it.

/// What a lane asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    /// Its part among lanes that want more.
    pub(super) weight: f64,
    /// bit/s that it can use; infinite without a bound.
    pub(super) rate: f64,
}

/// Weighted max-min shares of `rate`: nobody gets more than its demand, and what one does not use goes to the others by weight.
pub(super) fn divide(rate: f64, demands: &[Demand], shares: &mut Vec<f64>) {
    shares.clear();
    shares.resize(demands.len(), f64::NAN);
    let mut left = rate;
    let mut weight: f64 = demands.iter().map(|demand| demand.weight).sum();
    // Whoever asks for no more than a fair share gets what it asks for, which makes the others' shares larger: each round settles
    // at least one of them or is the last.
    loop {
        let fair = left / weight;
        let mut settled = false;
        for (demand, share) in demands.iter().zip(shares.iter_mut()) {
            if share.is_nan() && demand.rate <= fair * demand.weight {
                *share = demand.rate;
                left -= demand.rate;
                weight -= demand.weight;
                settled = true;
            }
        }
        if !settled {
            let open = demands.iter().zip(shares).filter(|(_, share)| share.is_nan());
            open.for_each(|(demand, share)| *share = fair * demand.weight);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;

    fn shares(rate: f64, demands: &[(f64, f64)]) -> Vec<f64> {
        let demands: Vec<Demand> = demands.iter().map(|&(weight, rate)| Demand { weight, rate }).collect();
        let mut shares = Vec::new();
        divide(rate, &demands, &mut shares);
        shares
    }

    #[test]
    fn what_one_does_not_use_goes_to_the_others_by_weight() {
        assert_eq!(shares(100.0, &[(30.0, f64::INFINITY), (70.0, f64::INFINITY)]), [30.0, 70.0]);
        assert_eq!(shares(100.0, &[(30.0, 10.0), (70.0, f64::INFINITY)]), [10.0, 90.0]);
        assert_eq!(
            shares(90.0, &[(1.0, 10.0), (1.0, f64::INFINITY), (3.0, f64::INFINITY)]),
            [10.0, 20.0, 60.0]
        );
        assert_eq!(shares(100.0, &[(1.0, 10.0), (1.0, 20.0)]), [10.0, 20.0]);
        assert_eq!(shares(100.0, &[]), []);
    }

    #[test]
    fn shares_never_exceed_rate_or_demand_and_leave_nothing_that_is_wanted() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed, "division");
            let rate = rng.uniform() * 1e9;
            let demands: Vec<(f64, f64)> = (0..=rng.below(8))
                .map(|_| {
                    let wanted = if rng.chance(0.3) { f64::INFINITY } else { rng.uniform() * 4e8 };
                    (1.0 + rng.uniform() * 99.0, wanted)
                })
                .collect();
            let shares = shares(rate, &demands);
            let (sum, wanted): (f64, f64) = (shares.iter().sum(), demands.iter().map(|(_, rate)| rate).sum());
            assert!((sum - rate.min(wanted)).abs() <= rate * 1e-9, "seed {seed}: {sum} of {rate}");
            for ((_, wanted), share) in demands.iter().zip(&shares) {
                assert!(*share <= wanted * (1.0 + 1e-9) && *share >= -rate * 1e-9, "seed {seed}: {share}");
            }
        }
    }
}
