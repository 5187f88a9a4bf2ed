//! The simulator as an engine.
//!
//! A run goes in steps: to the end of the warm-up, where every counter is read; from sample to sample of queue lengths and series;
//! to the end, where every counter is read again. What is measured is the difference of the two readings. Steps change nothing
//! of what happens in the network.

mod build;
mod groups;
mod network;
mod reading;
mod samples;
mod series;
mod transfers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trunkline_sim::{Pattern, SourceId};
use trunkline_units::Instant;

use super::EngineError;
use crate::catalogue::RUN;
use crate::results::Outcome;
use crate::scenario::{End, Load, Scenario};
use build::{Built, build};
use network::Readings;
use reading::Reading;
use samples::Samples;
use series::Series;

/// A run that goes on.
struct Progress<'a> {
    built: Built,
    series: Option<Series>,
    /// Sources whose end is the run's.
    awaited: Vec<SourceId>,
    /// The longest time for which it does not look whether it is to stop.
    patience: Duration,
    stop: &'a AtomicBool,
}

pub(super) fn run(scenario: &Scenario, seed: u64, stop: &AtomicBool) -> Result<Outcome, EngineError> {
    let built = build(scenario, seed)?;
    let ends = |load: &Load| matches!(load, Load::Tcp { pattern: Pattern::Bulk { bytes: Some(_), .. }, .. });
    let awaited = scenario.traffic.iter().zip(&built.sources);
    let awaited: Vec<SourceId> = awaited
        .filter(|(traffic, _)| scenario.end == End::Transfers && ends(&traffic.load))
        .map(|(_, source)| *source)
        .collect();
    let series = Series::new(scenario);
    let patience = (scenario.duration / Samples::COUNT).max(Duration::from_nanos(1));
    let mut run = Progress { built, series, awaited, patience, stop };

    let end = Instant::ZERO + scenario.duration;
    let warm = Instant::ZERO + scenario.warm_up.min(scenario.duration);
    let mut over = run.until(warm)?;
    run.built.network.forget_peaks();
    let from = Reading::take(&mut run.built);
    let classes: Vec<usize> = scenario.trunks.iter().map(|trunk| trunk.plan.classes.len()).collect();
    let fixed = run.awaited.is_empty();
    let mut samples = Samples::new(&run.built, &classes, (from.at, end.saturating_since(from.at)), fixed);
    while !over && run.built.network.now() < end {
        over = run.until(samples.next().min(end))?;
        if run.built.network.now() == samples.next() {
            samples.take(&run.built);
        }
    }
    let to = Reading::take(&mut run.built);
    Ok(run.outcome(scenario, Readings { from: &from, to: &to, samples: &samples }))
}

impl Progress<'_> {
    /// Goes on to `end`, or to where all that is awaited is over. Whether that is so.
    fn until(&mut self, end: Instant) -> Result<bool, EngineError> {
        while self.built.network.now() < end {
            if self.stop.load(Ordering::Relaxed) {
                return Err(EngineError::Stopped);
            }
            let next = self.series.as_ref().map_or(end, Series::next);
            let next = next.min(end).min(self.built.network.now() + self.patience);
            if self.awaited.is_empty() {
                self.built.network.run_until(next);
            } else if self.built.network.run_until_over(&self.awaited, next) {
                return Ok(true);
            }
            if let Some(series) = self.series.as_mut().filter(|series| series.next() == next) {
                series.take(&mut self.built);
            }
        }
        Ok(false)
    }

    fn outcome(self, scenario: &Scenario, readings: Readings<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        groups::write(scenario, &self.built, readings, &mut outcome);
        network::write(scenario, readings, &mut outcome.metrics);
        RUN.write("run", &readings.to.at.as_secs_f64(), &mut outcome.metrics);
        outcome.series = self.series.map(Series::finish);
        outcome.digest = self.built.network.digest().to_string();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant as Clock;

    use super::*;
    use crate::document::Document;

    /// A network whose link has a rate, with so many flows over a trunk.
    fn scenario(rate: &str, flows: u32, seconds: u32) -> Scenario {
        let text = format!(
            r#"
            id = "overhead"
            title = "what measuring costs"
            duration = "{seconds} s"
            warm_up = "5 s"
            [nodes]
            a = "host"
            left = "gateway"
            right = "gateway"
            b = "host"
            [links.near]
            ends = ["a", "left"]
            rate = "1 Gbit/s"
            [links.core]
            ends = ["left", "right"]
            rate = "{rate}"
            delay = "10 ms"
            queue = {{ discipline = "tail-drop", packets = 160 }}
            [links.far]
            ends = ["right", "b"]
            like = "near"
            [traffic.bulk]
            kind = "bulk"
            from = "a"
            to = "b"
            flows = {flows}
            tcp = "linux-6"
            [trunks.site]
            gateways = ["left", "right"]
            [series]
            every = "1 s"
            of = ["bulk.goodput", "core.queue.packets", "bulk.0.cwnd"]
            "#
        );
        let document = Document::parse("overhead.toml", &text).expect("a sound file");
        document.plan().expect("a sound plan").remove(0).scenario
    }

    #[test]
    #[ignore = "takes time, and a quiet machine"]
    fn measuring_costs_less_than_a_tenth_of_a_run() {
        for (rate, flows, seconds) in [("100 Mbit/s", 10, 60), ("1 Mbit/s", 100, 300)] {
            let scenario = scenario(rate, flows, seconds);
            let stop = AtomicBool::new(false);
            let (mut plain, mut measured) = (Vec::new(), Vec::new());
            for _ in 0..5 {
                let clock = Clock::now();
                let mut built = build(&scenario, 1).expect("a sound scenario");
                built.network.run_until(Instant::ZERO + scenario.duration);
                plain.push(clock.elapsed());
                let clock = Clock::now();
                let outcome = run(&scenario, 1, &stop).expect("an outcome");
                measured.push(clock.elapsed());
                assert_eq!(outcome.digest, built.network.digest().to_string());
            }
            let [plain, measured] =
                [plain, measured].map(|times| times.into_iter().min().unwrap_or_default());
            println!("{rate}, {flows} flows, {seconds} s: {plain:?}, measured {measured:?}");
            assert!(measured.as_secs_f64() < 1.1 * plain.as_secs_f64(), "{measured:?} for {plain:?}");
        }
    }
}
