//! How many settings each experiment gets next.
//!
//! Each experiment has a least number of settings, and goes on to the most only while some value or claim of its paper is undecided. A
//! budget of time is divided so: a first batch for each; then as many settings for each as bring all to the least number, or the same
//! number for all if there is no time for that; then a step at a time for those that are undecided, the fewest settings first, and of
//! these the quickest. Time decides how many settings there are, and nothing else.

use super::replay::{STEP, next_stop};

/// Settings of the first batch where there is a budget.
pub(super) const FIRST_BATCH: u32 = 8;
/// About how many settings are confirmed in one experiment.
const CONFIRMED: f64 = 5.0;
/// Fewer settings are not worth a round of their own.
const LEAST_BATCH: u32 = 4;

/// How far an experiment is.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    /// Settings that were drawn and run.
    pub(super) settings: u32,
    /// Each value and claim has a setting that bears it out.
    pub(super) decided: bool,
    /// Seconds of one thread that a setting takes, about, and again when it is confirmed.
    pub(super) seconds: f64,
    pub(super) confirming: f64,
}

/// How many there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) least: u32,
    pub(super) most: u32,
}

impl Bounds {
    fn least(self) -> u32 {
        self.least.min(self.most)
    }

    /// Whether an experiment has all that it is to have.
    pub(super) fn is_complete(self, state: &State) -> bool {
        state.settings >= self.most || (state.settings >= self.least() && state.decided)
    }
}

/// The number of settings that each experiment is to have next, in the order of `states`; none if there is nothing left to do, or no
/// time. `left` is the time of all threads together.
pub(super) fn next(states: &[State], bounds: Bounds, left: Option<f64>) -> Vec<Option<u32>> {
    let target = |state: &State| {
        let stop = next_stop(state.settings).min(bounds.most);
        if state.settings < bounds.least() { bounds.least() } else { stop }
    };
    let wants = |state: &State| (!bounds.is_complete(state)).then(|| target(state));
    let Some(left) = left else { return states.iter().map(wants).collect() };
    if states.iter().any(|state| state.settings == 0) {
        let first = FIRST_BATCH.min(bounds.most);
        return states.iter().map(|state| (state.settings == 0).then_some(first)).collect();
    }
    let lags = |state: &State| state.settings < bounds.least();
    if states.iter().any(lags) {
        let confirming: f64 = states.iter().map(|state| CONFIRMED * state.confirming).sum();
        return to_least(states, bounds, left - confirming);
    }
    let mut order: Vec<usize> = (0..states.len()).filter(|place| wants(&states[*place]).is_some()).collect();
    let cost = |state: &State| f64::from(STEP) * state.seconds + CONFIRMED / 2.0 * state.confirming;
    order.sort_by(|a, b| {
        let [a, b] = [&states[*a], &states[*b]];
        a.settings.cmp(&b.settings).then_with(|| cost(a).total_cmp(&cost(b)))
    });
    let mut next = vec![None; states.len()];
    let mut left = left;
    for place in order {
        left -= cost(&states[place]);
        if left < 0.0 {
            break;
        }
        next[place] = wants(&states[place]);
    }
    next
}

/// To the least number of settings, or as far as there is time: those with fewest come up to the others first.
fn to_least(states: &[State], bounds: Bounds, left: f64) -> Vec<Option<u32>> {
    let cost = |target: u32| -> f64 {
        states.iter().map(|state| f64::from(target.saturating_sub(state.settings)) * state.seconds).sum()
    };
    let target = (0..=bounds.least()).rev().find(|target| cost(*target) <= left).unwrap_or(0);
    let worth = |state: &State| target == bounds.least() || target >= state.settings + LEAST_BATCH;
    states.iter().map(|state| (state.settings < target && worth(state)).then_some(target)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { least: 32, most: 64 };

    fn state(settings: u32, decided: bool, seconds: f64) -> State {
        State { settings, decided, seconds, confirming: 4.0 * seconds }
    }

    #[test]
    fn without_a_budget_the_undecided_go_on_to_the_most() {
        let states =
            [state(0, false, 1.0), state(32, true, 1.0), state(32, false, 1.0), state(64, false, 1.0)];
        assert_eq!(next(&states, BOUNDS, None), [Some(32), None, Some(48), None]);
        let few = Bounds { least: 32, most: 20 };
        assert_eq!(next(&states[..1], few, None), [Some(20)]);
    }

    #[test]
    fn a_budget_first_brings_all_to_the_least_and_then_the_undecided_further() {
        let begun = [state(0, false, 0.0), state(0, false, 0.0)];
        assert_eq!(next(&begun, BOUNDS, Some(0.0)), [Some(8), Some(8)], "whatever the budget");
        let first = [state(8, false, 1.0), state(8, true, 3.0)];
        assert_eq!(next(&first, BOUNDS, Some(1000.0)), [Some(32), Some(32)]);
        // 80 s for confirmations; 4 s for a setting of both.
        assert_eq!(next(&first, BOUNDS, Some(121.0)), [Some(18), Some(18)]);
        assert_eq!(next(&first, BOUNDS, Some(83.0)), [None, None]);
        let least =
            [state(32, false, 3.0), state(32, true, 1.0), state(32, false, 1.0), state(48, false, 0.1)];
        assert_eq!(next(&least, BOUNDS, Some(1e4)), [Some(48), None, Some(48), Some(64)]);
        assert_eq!(
            next(&least, BOUNDS, Some(27.0)),
            [None, None, Some(48), None],
            "the quick one of the fewest"
        );
        assert_eq!(next(&least, BOUNDS, Some(1.0)), [None; 4]);
    }
}
