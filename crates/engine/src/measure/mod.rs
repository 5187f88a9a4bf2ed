//! Measures a network while an engine runs it: the same steps and the same metrics for each engine.
//!
//! A run goes in steps: to the end of the warm-up, where every counter is read; from sample to sample of queue lengths and series;
//! to the end, where every counter is read again. What is measured is the difference of the two readings.

mod counters;
mod groups;
mod idle;
mod parts;
mod samples;
mod series;
mod transfers;

use std::time::Duration;

use trunkline_units::Instant;
use trunkline_workload::Pattern;

use super::{EngineError, Sample};
use crate::catalogue::RUN;
use crate::catalogue::measured::{ClassState, Disturbance, Lane, LinkState, Run, User};
use crate::outcome::Outcome;
use crate::scenario::{End, Load, Scenario};
use samples::Samples;
use series::Series;

pub(crate) use series::Columns;

pub(super) use counters::{ClassCounters, Counters, LinkCounters, SourceCounters, Transfer, TrunkCounters};

/// A network that an engine runs. Parts are named by their places in the scenario; `side` 0 is there, or the first gateway; 1 is back,
/// or the second.
pub(super) trait Network {
    /// The time since the start of the run.
    fn now(&self) -> Instant;
    /// Runs on to `at`, or until all transfers of the sources `awaited` are over, if there are any. Whether they are.
    fn run_until(&mut self, at: Instant, awaited: &[usize]) -> Result<bool, EngineError>;
    /// Begins to count maxima and minima anew.
    fn reset_peaks(&mut self);
    /// All counters now.
    fn counters(&mut self) -> Result<Counters, EngineError>;
    /// Packets in the queue of a link.
    fn link_backlog(&self, link: usize, side: usize) -> u32;
    /// Packets in the edge queues of a class.
    fn class_backlog(&mut self, trunk: usize, side: usize, class: usize) -> u32;
    /// Bytes of data that the receivers of a source have got.
    fn received(&self, source: usize) -> u64;
    /// A user of a source.
    fn user(&self, source: usize, user: u32) -> User;
    /// One way of a link.
    fn link(&self, link: usize, side: usize) -> LinkState;
    /// A class.
    fn class(&mut self, trunk: usize, side: usize, class: usize) -> ClassState;
    /// A lane; `None` while there is none.
    fn lane(&mut self, trunk: usize, side: usize, lane: usize) -> Option<Lane>;
    /// How much the machine disturbed the run; `None` in virtual time.
    fn disturbance(&self) -> Option<Disturbance>;
    /// A fingerprint of all that happened; empty if the engine has none.
    fn digest(&self) -> String;
}

/// Two readings of a network, and what was sampled in between.
#[derive(Clone, Copy)]
struct Readings<'a> {
    from: &'a Counters,
    to: &'a Counters,
    samples: &'a Samples,
}

impl Readings<'_> {
    fn time(&self) -> Duration {
        self.to.at.saturating_since(self.from.at)
    }
}

/// Runs a network to the end of its scenario and measures it, while somebody watches its series.
pub(super) fn measure(
    scenario: &Scenario,
    network: &mut impl Network,
    watch: &dyn Fn(&Sample<'_>),
) -> Result<Outcome, EngineError> {
    let ends = |load: &Load| matches!(load, Load::Tcp { pattern: Pattern::Bulk { bytes: Some(_), .. }, .. });
    let sources = scenario.traffic.iter().enumerate();
    let awaited = sources.filter(|(_, traffic)| scenario.end == End::Transfers && ends(&traffic.load));
    let awaited: Vec<usize> = awaited.map(|(source, _)| source).collect();
    let mut series = Series::new(scenario, watch);

    let end = Instant::ZERO + scenario.duration;
    let warm = Instant::ZERO + scenario.warm_up.min(scenario.duration);
    let mut over = advance(network, warm, &awaited, &mut series)?;
    network.reset_peaks();
    let from = network.counters()?;
    let mut samples = Samples::new(scenario, from.at, end.saturating_since(from.at), awaited.is_empty());
    while !over && network.now() < end {
        over = advance(network, samples.next().min(end), &awaited, &mut series)?;
        if network.now() >= samples.next() {
            samples.take(network);
        }
    }
    let to = network.counters()?;

    let mut outcome = Outcome::default();
    let readings = Readings { from: &from, to: &to, samples: &samples };
    groups::write(scenario, readings, &mut outcome);
    parts::write(scenario, readings, &mut outcome.metrics);
    let run = Run { time: to.at.saturating_since(Instant::ZERO), disturbance: network.disturbance() };
    RUN.write("run", &run, &mut outcome.metrics);
    outcome.series = series.map(Series::finish);
    outcome.digest = network.digest();
    Ok(outcome)
}

/// Runs on to `end`, with a stop at each sample of the series, or to where all that is awaited is over. Whether it is.
fn advance(
    network: &mut impl Network,
    end: Instant,
    awaited: &[usize],
    series: &mut Option<Series<'_>>,
) -> Result<bool, EngineError> {
    while network.now() < end {
        let next = series.as_ref().map_or(end, Series::next).min(end);
        if network.run_until(next, awaited)? {
            return Ok(true);
        }
        if let Some(series) = series.as_mut().filter(|series| series.next() <= network.now()) {
            series.take(network);
        }
    }
    Ok(false)
}
