//! Which of several paths to a peer the flows of a class take.
//!
//! [`Placement`] keeps two sets of paths. New flows go to a path of the *target*. A flow that has a path keeps it while that path is
//! *open*. The target is what the policy says now; the open set follows it:
//!
//! - A path that is down or silent is closed at once, if the class has a better one. Its flows move to the target.
//! - A path of the target is open at once.
//! - A path that still works and is no longer in the target stays open for `HOLD`. So a preference that comes and goes does not
//!   move flows to and fro: each move may reorder their packets.
//! - A class that is handed to a path, since its present one does not hold its guarantee ([`Handover`](super::Handover)), has no other
//!   target, and no other path open.
//!
//! While no path works nothing changes: what waits stays where it is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_units::{Instant, Rate};

/// How long a path that works stays open to its flows after the policy has begun to prefer others.
const HOLD: Duration = Duration::from_secs(3);
/// A delay must be this part of that of the path in use, and [`MIN_GAIN`] below it, for another path to be preferred.
const GAIN: f64 = 0.75;
const MIN_GAIN: Duration = Duration::from_millis(2);

/// A set of paths, a bit each.
pub type PathSet = u8;

/// Which paths to a peer the flows of a class take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PathPolicy {
    /// All, in proportion to their capacities.
    #[default]
    Spread,
    /// The one with the lowest round-trip time.
    LowestDelay,
    /// The one with the largest capacity.
    MostCapacity,
    /// The first of these names that works, and no other path. To a peer of whose paths none has such a name: all, as
    /// [`Spread`](Self::Spread).
    Named(Vec<Arc<str>>),
    /// All at once, each packet on the one by which it is there first: [`bonding`](crate::bonding).
    Bonded,
    /// The one with the lowest round-trip time, and a copy of each packet on another one.
    Duplicate,
}

/// The word for it, or the names.
impl fmt::Display for PathPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, policy)| policy == self).map(|(word, _)| *word);
        match self {
            Self::Named(names) => f.write_str(&names.join(", ")),
            _ => f.write_str(word.unwrap_or_default()),
        }
    }
}

impl PathPolicy {
    /// The words for ways to choose among paths, which therefore name none.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("spread", Self::Spread),
        ("bonded", Self::Bonded),
        ("duplicate", Self::Duplicate),
        ("lowest-delay", Self::LowestDelay),
        ("most-capacity", Self::MostCapacity),
    ];

    /// The policy that a word stands for; `None` of a name.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.into_iter().find(|(known, _)| *known == word).map(|(_, policy)| policy)
    }
}

/// One of the paths to a peer, as a plan has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathSettings {
    /// Its name.
    pub name: Arc<str>,
    /// What its use costs, [`MAX_COST`](Self::MAX_COST) at most: of paths that work flows take those with the lowest cost, unless their
    /// class names paths.
    pub cost: u8,
}

impl PathSettings {
    /// The highest cost.
    pub const MAX_COST: u8 = 7;
}

/// How well a path works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathHealth {
    /// The class has no lane on it.
    #[default]
    Down,
    /// Its lanes hold data, and nothing is heard of the other end.
    Silent,
    /// It works.
    Up,
}

/// What is known of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PathView {
    /// How well it works.
    pub health: PathHealth,
    /// Its capacity for the trunk, once it has been measured.
    pub capacity: Option<Rate>,
    /// Its round-trip time, once it has been measured.
    pub delay: Option<Duration>,
}

/// The paths of one class to one peer.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// The paths it may take, the preferred first.
    order: Vec<usize>,
    rule: Rule,
    /// The costs of all paths.
    costs: Vec<u8>,
    open: PathSet,
    target: PathSet,
    /// What the policy allowed when it was known last.
    allowed: PathSet,
    /// The path that the class is handed to, in place of those that the policy prefers.
    assigned: Option<u8>,
    /// Since when the target, as it is, lacks a path that is open and works.
    narrow_since: Option<Instant>,
}

/// What the policy of a class makes of its paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathChoice {
    /// Those that it prefers.
    pub preferred: PathSet,
    /// Those that it allows: of those that work the cheapest.
    pub allowed: PathSet,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Rule {
    #[default]
    All,
    LowestDelay,
    MostCapacity,
    First,
}

pub(super) const fn bit(path: usize) -> PathSet {
    1 << path
}

impl Placement {
    /// The placement of a class with this policy on these paths, before anything is known of them.
    pub fn new(policy: &PathPolicy, paths: &[PathSettings]) -> Self {
        let all = 0..paths.len().max(1);
        let named: Vec<usize> = match policy {
            PathPolicy::Named(names) => {
                names.iter().filter_map(|name| paths.iter().position(|path| path.name == *name)).collect()
            }
            _ => Vec::new(),
        };
        let rule = match policy {
            PathPolicy::LowestDelay | PathPolicy::Duplicate => Rule::LowestDelay,
            PathPolicy::MostCapacity => Rule::MostCapacity,
            PathPolicy::Named(_) if !named.is_empty() => Rule::First,
            PathPolicy::Spread | PathPolicy::Named(_) | PathPolicy::Bonded => Rule::All,
        };
        let order: Vec<usize> = if named.is_empty() { all.collect() } else { named };
        let costs = paths.iter().map(|path| path.cost).collect();
        let first = bit(order[0]);
        Placement { order, rule, costs, open: first, target: first, ..Placement::default() }
    }

    /// Takes on what another placement of the same class has decided, as far as its paths are the same.
    pub fn inherit(&mut self, old: &Placement) {
        let ours: PathSet = self.order.iter().map(|path| bit(*path)).sum();
        if old.open & old.target & ours != 0 {
            (self.open, self.target) = (old.open & ours, old.target & ours);
            self.assigned = old.assigned.filter(|path| ours & bit((*path).into()) != 0);
        }
    }

    /// What the policy makes of the paths, of which this is known by their numbers; `None` while none works.
    pub fn choice(&self, views: &[PathView]) -> Option<PathChoice> {
        let working = self.working(views)?;
        let cost = |path: &usize| self.costs.get(*path).copied().unwrap_or_default();
        let lowest = working.iter().map(cost).min();
        let is_allowed = |path: &usize| self.rule == Rule::First || Some(cost(path)) == lowest;
        let allowed: Vec<usize> = working.into_iter().filter(is_allowed).collect();
        let all = allowed.iter().map(|path| bit(*path)).sum();
        Some(PathChoice { preferred: self.preferred(&allowed, views), allowed: all })
    }

    /// The paths that work best of all that the class may take, the preferred first; `None` while none works.
    fn working(&self, views: &[PathView]) -> Option<Vec<usize>> {
        let health = |path: usize| views.get(path).map_or(PathHealth::Down, |view| view.health);
        let best = self.order.iter().map(|path| health(*path)).max().unwrap_or_default();
        let working = || self.order.iter().copied().filter(|path| health(*path) == best).collect();
        (best != PathHealth::Down).then(working)
    }

    /// Takes what is known of the paths now, by their numbers, and the path that the class is handed to. Whether a path was closed: its
    /// flows, and what waits for it, are to move.
    pub fn update(&mut self, now: Instant, views: &[PathView], assigned: Option<u8>) -> bool {
        let (Some(working), Some(choice)) = (self.working(views), self.choice(views)) else {
            self.narrow_since = None;
            return false;
        };
        self.allowed = choice.allowed;
        let assigned = assigned.filter(|path| choice.allowed & bit((*path).into()) != 0);
        let is_handed_over = assigned.is_some() && assigned != self.assigned;
        self.assigned = assigned;
        let target = assigned.map_or(choice.preferred, |path| bit(path.into()));
        if target != self.target {
            (self.target, self.narrow_since) = (target, None);
        }
        let works: PathSet = working.iter().map(|path| bit(*path)).sum();
        let before = self.open;
        self.open = if is_handed_over { self.target } else { self.open & works | self.target };
        if self.open == self.target {
            self.narrow_since = None;
        } else if now.saturating_since(*self.narrow_since.get_or_insert(now)) >= HOLD {
            self.open = self.target;
            self.narrow_since = None;
        }
        before & !self.open != 0
    }

    /// The paths that new flows take.
    pub const fn target(&self) -> PathSet {
        self.target
    }

    /// The paths that the policy allows; none before anything is known of them.
    pub const fn allowed(&self) -> PathSet {
        self.allowed
    }

    /// The path that the class is handed to.
    pub const fn assigned(&self) -> Option<u8> {
        self.assigned
    }

    /// What the policy prefers of paths that it allows; not empty.
    fn preferred(&self, choice: &[usize], views: &[PathView]) -> PathSet {
        let current = choice.iter().copied().find(|path| self.target == bit(*path));
        let view = |path: usize| views.get(path).copied().unwrap_or_default();
        match self.rule {
            Rule::All => choice.iter().map(|path| bit(*path)).sum(),
            Rule::First => bit(choice[0]),
            Rule::LowestDelay => {
                let delay = |path: usize| view(path).delay.unwrap_or(Duration::MAX);
                let lowest = choice.iter().copied().min_by_key(|path| delay(*path)).unwrap_or(choice[0]);
                let gains = |current: usize| {
                    delay(lowest).as_secs_f64() < delay(current).as_secs_f64() * GAIN
                        && delay(lowest).saturating_add(MIN_GAIN) <= delay(current)
                };
                bit(current.filter(|current| !gains(*current)).unwrap_or(lowest))
            }
            Rule::MostCapacity => {
                let capacity = |path: usize| view(path).capacity.map_or(0, Rate::bits_per_second);
                // The first of equals.
                let largest =
                    choice.iter().rev().copied().max_by_key(|path| capacity(*path)).unwrap_or(choice[0]);
                let gains = |current: usize| capacity(current) as f64 <= capacity(largest) as f64 * GAIN;
                bit(current.filter(|current| !gains(*current)).unwrap_or(largest))
            }
        }
    }

    /// Whether flows of this path stay on it.
    #[inline]
    pub const fn is_open(&self, path: usize) -> bool {
        self.open & bit(path) != 0
    }

    /// The path for a flow that has none, given how many flows each path has: that with the fewest for its capacity. Of equals the
    /// first after `offset` places. A path of unknown capacity counts as the mean of the others.
    pub fn place(&self, views: &[PathView], offset: usize, flows: impl Fn(usize) -> u32) -> usize {
        let capacity = |path: usize| {
            let rate = views.get(path)?.capacity?.bits_per_second();
            (rate > 0).then_some(rate as f64)
        };
        let paths = || (0..PathSet::BITS as usize).filter(|path| self.target & bit(*path) != 0);
        let (sum, known) =
            paths().filter_map(capacity).fold((0.0, 0_u32), |(sum, known), rate| (sum + rate, known + 1));
        let mean = if known == 0 { 1.0 } else { sum / f64::from(known) };
        let load = |path: usize| f64::from(flows(path) + 1) / capacity(path).unwrap_or(mean);
        let count = paths().count().max(1);
        let rotated = paths().cycle().skip(offset % count).take(count);
        rotated.min_by(|a, b| load(*a).total_cmp(&load(*b))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_units::Rng;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn settings(costs: &[u8]) -> Vec<PathSettings> {
        let path = |(number, cost): (usize, &u8)| PathSettings {
            name: ["dsl", "lte", "sat"][number].into(),
            cost: *cost,
        };
        costs.iter().enumerate().map(path).collect()
    }

    fn view(health: PathHealth, mbit: f64, delay_ms: u64) -> PathView {
        PathView {
            health,
            capacity: (mbit > 0.0).then(|| Rate::from_mbit(mbit)),
            delay: Some(Duration::from_millis(delay_ms)),
        }
    }

    use PathHealth::{Down, Silent, Up};

    /// The paths that are open.
    fn set(placement: &Placement) -> Vec<usize> {
        (0..8).filter(|path| placement.is_open(*path)).collect()
    }

    fn placement(policy: &PathPolicy, costs: &[u8]) -> Placement {
        Placement::new(policy, &settings(costs))
    }

    #[test]
    fn flows_are_spread_in_proportion_to_capacity() {
        let views = [view(Up, 50.0, 20), view(Up, 20.0, 20)];
        let mut placement = placement(&PathPolicy::Spread, &[0, 0]);
        assert!(!placement.update(at(0), &views, None));
        for (known, wanted) in [(views, [29, 11]), ([view(Up, 0.0, 20); 2], [20, 20])] {
            let mut flows = [0; 2];
            for offset in 0..40 {
                let path = placement.place(&known, offset, |path| flows[path]);
                flows[path] += 1;
            }
            assert!(
                flows[0].abs_diff(wanted[0]) <= 1 && flows[0] + flows[1] == 40,
                "{flows:?} of {wanted:?}"
            );
        }
    }

    #[test]
    fn a_path_that_fails_is_closed_at_once_and_one_that_returns_moves_no_flow() {
        for failed in [Down, Silent] {
            let mut placement = placement(&PathPolicy::Spread, &[0, 0]);
            placement.update(at(0), &[view(Up, 50.0, 20); 2], None);
            assert_eq!(set(&placement), [0, 1]);
            let without = [view(failed, 50.0, 20), view(Up, 20.0, 20)];
            assert!(placement.update(at(10), &without, None), "its flows move");
            assert_eq!((set(&placement), placement.place(&without, 0, |_| 0)), (vec![1], 1));
            assert!(
                !placement.update(at(20), &[view(Up, 50.0, 20); 2], None),
                "the flows stay where they are"
            );
            assert_eq!(set(&placement), [0, 1], "it takes new ones");
        }
    }

    #[test]
    fn while_no_path_works_what_waits_stays() {
        let mut placement = placement(&PathPolicy::Spread, &[0, 0]);
        placement.update(at(0), &[view(Up, 50.0, 20), view(Down, 20.0, 20)], None);
        assert!(!placement.update(at(10), &[view(Down, 50.0, 20); 2], None));
        assert_eq!(set(&placement), [0]);
        assert!(
            !placement.update(at(20), &[view(Silent, 50.0, 20), view(Down, 20.0, 20)], None),
            "none is better"
        );
        assert!(placement.update(at(30), &[view(Silent, 50.0, 20), view(Up, 20.0, 20)], None));
        assert_eq!(set(&placement), [1]);
    }

    #[test]
    fn a_dearer_path_serves_while_no_cheaper_one_works_and_gives_its_flows_back_after_a_while() {
        let mut placement = placement(&PathPolicy::Spread, &[0, 1]);
        let both = [view(Up, 5.0, 20), view(Up, 100.0, 5)];
        placement.update(at(0), &both, None);
        assert_eq!(set(&placement), [0]);
        assert!(placement.update(at(10), &[view(Silent, 5.0, 20), both[1]], None));
        assert_eq!(set(&placement), [1]);
        assert!(!placement.update(at(20), &both, None), "a path that has just come back may go again");
        assert_eq!((set(&placement), placement.place(&both, 1, |_| 0)), (vec![0, 1], 0), "new flows go back");
        assert!(!placement.update(at(2_900), &both, None));
        assert!(placement.update(at(3_100), &both, None));
        assert_eq!(set(&placement), [0]);
    }

    #[test]
    fn the_lowest_delay_wins_when_it_is_clearly_lower_for_a_while() {
        let mut placement = placement(&PathPolicy::LowestDelay, &[0, 0, 0]);
        placement.update(at(0), &[view(Up, 1.0, 40), view(Up, 1.0, 20), view(Up, 1.0, 60)], None);
        assert_eq!(placement.place(&[], 0, |_| 0), 1);
        placement.update(at(5_000), &[view(Up, 1.0, 40), view(Up, 1.0, 20), view(Up, 1.0, 18)], None);
        assert_eq!(set(&placement), [1], "18 ms is hardly better");
        let now = [view(Up, 1.0, 40), view(Up, 1.0, 50), view(Up, 1.0, 18)];
        assert!(!placement.update(at(6_000), &now, None));
        assert_eq!((set(&placement), placement.place(&now, 0, |_| 0)), (vec![1, 2], 2));
        assert!(!placement.update(at(8_900), &now, None) && placement.update(at(9_000), &now, None));
        assert_eq!(set(&placement), [2]);
        // Back and forth within the time does not move anything.
        for step in 0..20 {
            let delay = if step % 2 == 0 { 5 } else { 50 };
            let views = [view(Up, 1.0, delay), view(Up, 1.0, 50), view(Up, 1.0, 18)];
            assert!(!placement.update(at(10_000 + step * 1_000), &views, None), "step {step}");
        }
    }

    #[test]
    fn the_largest_capacity_wins_and_an_unknown_one_is_the_smallest() {
        let mut placement = placement(&PathPolicy::MostCapacity, &[0, 0]);
        placement.update(at(0), &[view(Up, 0.0, 20); 2], None);
        assert_eq!(placement.place(&[], 0, |_| 0), 0);
        placement.update(at(10), &[view(Up, 10.0, 20), view(Up, 12.0, 20)], None);
        assert_eq!(placement.place(&[], 0, |_| 0), 0, "hardly better");
        placement.update(at(20), &[view(Up, 10.0, 20), view(Up, 50.0, 20)], None);
        assert_eq!(placement.place(&[], 0, |_| 0), 1);
    }

    #[test]
    fn named_paths_are_taken_in_their_order_and_others_never() {
        let named = PathPolicy::Named(vec!["lte".into(), "dsl".into()]);
        let mut placement = placement(&named, &[0, 1, 0]);
        let mut views = [view(Up, 1.0, 20); 3];
        placement.update(at(0), &views, None);
        assert_eq!(placement.place(&views, 5, |_| 0), 1, "though it costs more");
        views[1].health = Down;
        assert!(placement.update(at(10), &views, None));
        assert_eq!(set(&placement), [0]);
        views[0].health = Down;
        assert!(!placement.update(at(20), &views, None), "the third is not among them");
        assert_eq!(set(&placement), [0]);
        let unknown = PathPolicy::Named(vec!["fibre".into()]);
        let mut placement = Placement::new(&unknown, &settings(&[0, 0]));
        placement.update(at(0), &[view(Up, 1.0, 20); 2], None);
        assert_eq!(set(&placement), [0, 1]);
    }

    #[test]
    fn a_class_that_is_handed_over_leaves_at_once_and_goes_back_after_a_while() {
        let mut placement = placement(&PathPolicy::Spread, &[0, 0, 1]);
        let mut views = [view(Up, 5.0, 20); 3];
        placement.update(at(0), &views, None);
        assert!(placement.update(at(10), &views, Some(1)), "its path works, and does not hold it");
        assert_eq!((set(&placement), placement.place(&views, 0, |_| 0)), (vec![1], 1));
        assert!(!placement.update(at(20), &views, None));
        assert_eq!(set(&placement), [0, 1], "nothing moves back");
        // Not to a dearer one, nor to a path that fails.
        assert!(!placement.update(at(30), &views, Some(2)));
        assert_eq!((set(&placement), placement.assigned()), (vec![0, 1], None));
        placement.update(at(40), &views, Some(1));
        views[1].health = Silent;
        assert!(placement.update(at(50), &views, Some(1)));
        assert_eq!((set(&placement), placement.assigned()), (vec![0], None));
    }

    #[test]
    fn whatever_happens_flows_have_a_path_and_it_works_if_any_does() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed, "placement");
            let policies = [
                PathPolicy::Spread,
                PathPolicy::LowestDelay,
                PathPolicy::MostCapacity,
                PathPolicy::Named(vec!["sat".into(), "dsl".into(), "lte".into()]),
            ];
            let costs = [rng.below(3) as u8, rng.below(3) as u8, rng.below(3) as u8];
            let policy = &policies[rng.below(4) as usize];
            let mut placement = placement(policy, &costs);
            for step in 0..60 {
                let views: Vec<PathView> = (0..3)
                    .map(|_| {
                        let health = [Down, Silent, Up][rng.below(3) as usize];
                        view(health, rng.uniform() * 100.0, 1 + rng.below(200))
                    })
                    .collect();
                let before = set(&placement);
                let assigned = rng.chance(0.3).then(|| rng.below(3) as u8);
                let closed = placement.update(at(step * 700), &views, assigned);
                let after = set(&placement);
                assert_eq!(closed, before.iter().any(|path| !after.contains(path)), "seed {seed}");
                let best = views.iter().map(|view| view.health).max().unwrap_or_default();
                let place = placement.place(&views, step as usize, |_| 3);
                if best != Down {
                    assert!(after.iter().all(|path| views[*path].health == best), "seed {seed}: {after:?}");
                    assert_eq!(views[place].health, best, "seed {seed}");
                    let lowest =
                        (0..3).filter(|path| views[*path].health == best).map(|path| costs[path]).min();
                    let is_named = matches!(policy, PathPolicy::Named(_));
                    assert!(is_named || Some(costs[place]) == lowest, "seed {seed}: {place} of {costs:?}");
                }
                assert!(after.contains(&place), "seed {seed}: {place} of {after:?}");
            }
        }
    }
}
