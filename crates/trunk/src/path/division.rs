//! Divides the rate of a path among the lanes on it.

use trunkline_units::Rate;

use crate::TrunkPlan;

/// What the lanes of a group are promised of their path, however many they are and whichever shards they belong to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupShare {
    /// The group: lanes of the same number divide equally what the group gets.
    pub group: u32,
    /// Its part among groups that want more.
    pub weight: f64,
    /// The rate that it gets before all weights.
    pub guarantee: Option<Rate>,
    /// It gets what it asks for before all guarantees.
    pub priority: bool,
}

impl GroupShare {
    /// The group of this number with a weight and no more.
    pub const fn weighted(group: u32, weight: f64) -> Self {
        GroupShare { group, weight, guarantee: None, priority: false }
    }

    /// What a plan promises to the classes of its group of this number: weights and guarantees add up; priority has a group whose
    /// classes all have it.
    pub(super) fn of(plan: &TrunkPlan, group: usize) -> Self {
        let classes = || plan.classes.iter().filter(|class| class.group == group).map(|class| &class.share);
        let weight: u32 = classes().map(|share| share.weight.max(1)).sum();
        let guarantee: u64 = classes().filter_map(|share| share.guarantee).map(Rate::bits_per_second).sum();
        GroupShare {
            group: group as u32,
            weight: f64::from(weight.max(1)),
            guarantee: (guarantee > 0).then(|| Rate::from_bits_per_second(guarantee)),
            priority: weight > 0 && classes().all(|share| share.priority),
        }
    }
}

/// What a lane asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LaneRequest {
    /// What its group is promised.
    pub(super) share: GroupShare,
    /// bit/s that it can use; infinite without a bound.
    pub(super) rate: f64,
}

/// Its part among others that want more, and what it can use, bit/s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    pub(super) weight: f64,
    pub(super) rate: f64,
}

/// A group while the rate is divided.
#[derive(Debug, Clone, Copy)]
struct Group {
    share: GroupShare,
    demand: f64,
    /// What it has by priority and guarantee.
    reserved: f64,
}

/// Divides rates, and keeps the memory that this takes.
#[derive(Debug, Clone, Default)]
pub(super) struct Division {
    groups: Vec<Group>,
    demands: Vec<Demand>,
    /// Of the groups.
    shares: Vec<f64>,
    /// Of the lanes of one group.
    lane_shares: Vec<f64>,
}

impl Division {
    /// What each lane gets of `rate`, in `shares`: first groups with priority, then each group up to its guarantee, then all by weight.
    /// Nobody gets more than it asks for, and what one does not use goes to the others.
    ///
    /// The lanes of a group stand side by side.
    pub(super) fn divide(&mut self, rate: f64, lanes: &[LaneRequest], shares: &mut Vec<f64>) {
        self.groups.clear();
        for lane in lanes {
            let demand = lane.rate.min(rate);
            match self.groups.last_mut() {
                Some(group) if group.share.group == lane.share.group => group.demand += demand,
                _ => self.groups.push(Group { share: lane.share, demand, reserved: 0.0 }),
            }
        }
        let reserve: [fn(&Group) -> f64; 2] = [
            |group| if group.share.priority { group.demand } else { 0.0 },
            |group| group.share.guarantee.map_or(0.0, |rate| group.demand.min(rate.bits_per_second() as f64)),
        ];
        let mut left = rate;
        for wanted in reserve {
            let more = |group: &Group| (wanted(group) - group.reserved).max(0.0);
            let all: f64 = self.groups.iter().map(more).sum();
            // Promises that together exceed the rate are kept in part.
            let part = if all > left { left / all } else { 1.0 };
            for group in &mut self.groups {
                group.reserved += more(group) * part;
            }
            left = (left - all).max(0.0);
        }
        self.demands.clear();
        self.demands.extend(self.groups.iter().map(|group| Demand {
            weight: group.share.weight,
            rate: (group.demand - group.reserved).max(0.0),
        }));
        max_min(left, &self.demands, &mut self.shares);
        shares.clear();
        for (group, share) in self.groups.iter().zip(&self.shares) {
            let lanes = lanes[shares.len()..].iter().take_while(|lane| lane.share.group == group.share.group);
            self.demands.clear();
            self.demands.extend(lanes.map(|lane| Demand { weight: 1.0, rate: lane.rate }));
            max_min(group.reserved + share, &self.demands, &mut self.lane_shares);
            shares.extend(&self.lane_shares);
        }
    }
}

/// Weighted max-min shares of `rate`: nobody gets more than its demand, and what one does not use goes to the others by weight.
pub(super) fn max_min(rate: f64, demands: &[Demand], shares: &mut Vec<f64>) {
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

    const ALL: f64 = f64::INFINITY;

    fn shares(rate: f64, lanes: &[LaneRequest]) -> Vec<f64> {
        let mut shares = Vec::new();
        Division::default().divide(rate, lanes, &mut shares);
        shares
    }

    /// Groups of one lane each.
    fn by_weight(rate: f64, demands: &[(f64, f64)]) -> Vec<f64> {
        let lanes: Vec<_> =
            (0..).zip(demands).map(|(number, &(weight, rate))| lane(number, weight, rate)).collect();
        shares(rate, &lanes)
    }

    fn lane(group: u32, weight: f64, rate: f64) -> LaneRequest {
        LaneRequest { share: GroupShare::weighted(group, weight), rate }
    }

    fn guaranteed(mut lane: LaneRequest, rate: u64) -> LaneRequest {
        lane.share.guarantee = Some(Rate::from_bits_per_second(rate));
        lane
    }

    fn first(mut lane: LaneRequest) -> LaneRequest {
        lane.share.priority = true;
        lane
    }

    #[test]
    fn what_one_does_not_use_goes_to_the_others_by_weight() {
        assert_eq!(by_weight(100.0, &[(30.0, ALL), (70.0, ALL)]), [30.0, 70.0]);
        assert_eq!(by_weight(100.0, &[(30.0, 10.0), (70.0, ALL)]), [10.0, 90.0]);
        assert_eq!(by_weight(90.0, &[(1.0, 10.0), (1.0, ALL), (3.0, ALL)]), [10.0, 20.0, 60.0]);
        assert_eq!(by_weight(100.0, &[(1.0, 10.0), (1.0, 20.0)]), [10.0, 20.0]);
        assert_eq!(by_weight(100.0, &[]), []);
    }

    #[test]
    fn a_group_gets_its_weight_however_many_lanes_it_has_and_uses() {
        let two = |second| [lane(0, 3.0, ALL), lane(0, 3.0, second), lane(1, 1.0, ALL), lane(1, 1.0, ALL)];
        assert_eq!(shares(80.0, &two(ALL)), [30.0, 30.0, 10.0, 10.0]);
        assert_eq!(shares(80.0, &two(0.0)), [60.0, 0.0, 10.0, 10.0]);
        assert_eq!(shares(80.0, &two(5.0)), [55.0, 5.0, 10.0, 10.0]);
    }

    #[test]
    fn guarantees_come_before_weights_and_priority_before_both() {
        let lanes = [lane(0, 9.0, ALL), guaranteed(lane(1, 1.0, ALL), 50), first(lane(2, 1.0, 10.0))];
        assert_eq!(shares(100.0, &lanes), [36.0, 54.0, 10.0]);
        let lanes = [lane(0, 9.0, ALL), guaranteed(lane(1, 1.0, 20.0), 50), lane(2, 1.0, ALL)];
        assert_eq!(shares(100.0, &lanes), [72.0, 20.0, 8.0], "a promise that is not used goes to the others");
        let lanes = [guaranteed(lane(0, 1.0, ALL), 60), guaranteed(lane(1, 1.0, ALL), 90)];
        assert_eq!(shares(100.0, &lanes), [40.0, 60.0], "more was promised than there is");
        assert_eq!(shares(100.0, &[first(lane(0, 1.0, ALL)), lane(1, 1.0, ALL)]), [100.0, 0.0]);
        let lanes = [first(guaranteed(lane(0, 1.0, 30.0), 90)), lane(1, 1.0, ALL)];
        assert_eq!(shares(100.0, &lanes), [30.0, 70.0]);
    }

    #[test]
    fn shares_never_exceed_rate_or_demand_and_leave_nothing_that_is_wanted() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed, "division");
            let rate = rng.uniform() * 1e9;
            let lanes: Vec<LaneRequest> = (0..=rng.below(6) as u32)
                .flat_map(|group| {
                    let weight = 1.0 + rng.uniform() * 99.0;
                    let priority = rng.chance(0.1);
                    let guarantee =
                        rng.chance(0.3).then(|| Rate::from_bits_per_second(rng.below(500_000_000)));
                    let share = GroupShare { group, weight, guarantee, priority };
                    let count = 1 + rng.below(3);
                    let rates = (0..count).map(|_| if rng.chance(0.3) { ALL } else { rng.uniform() * 4e8 });
                    rates.map(|rate| LaneRequest { share, rate }).collect::<Vec<_>>()
                })
                .collect();
            let shares = shares(rate, &lanes);
            let (sum, wanted): (f64, f64) = (shares.iter().sum(), lanes.iter().map(|lane| lane.rate).sum());
            assert_eq!(shares.len(), lanes.len());
            assert!((sum - rate.min(wanted)).abs() <= rate * 1e-9, "seed {seed}: {sum} of {rate}");
            for (lane, share) in lanes.iter().zip(&shares) {
                assert!(*share <= lane.rate * (1.0 + 1e-9) && *share >= -rate * 1e-9, "seed {seed}: {share}");
            }
        }
    }
}
