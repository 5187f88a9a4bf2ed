//! Captures of the packets of a run.

use std::io;
use std::sync::atomic::AtomicBool;

use trunkline_link::LinkSettings;
use trunkline_sim::CapturedLink;

use super::build::{Built, build};
use super::{Run, check};
use crate::measure::measure;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::{Captured, Control, EngineError};

/// Runs a scenario and captures the packets of its links.
pub(crate) fn capture(
    scenario: &Scenario,
    seed: u64,
    captured: Captured<'_>,
    stop: &AtomicBool,
) -> Result<Outcome, EngineError> {
    check(scenario)?;
    let mut built = build(scenario, seed)?;
    let links = links(scenario, &built, captured.links)?;
    let failed = |error: io::Error| EngineError::Machine(format!("cannot write the capture: {error}"));
    let about = (captured.program, captured.comments);
    built.network.capture_links(&links, about, captured.out).map_err(failed)?;
    let mut run = Run { built: &mut built, stop };
    let outcome = measure(scenario, &mut run, Control::unwatched(stop).watch)?;
    built.network.finish_captures().map_err(failed)?;
    Ok(outcome)
}

/// Both ways of the links with these names, or of all.
fn links(scenario: &Scenario, built: &Built, wanted: &[String]) -> Result<Vec<CapturedLink>, EngineError> {
    if let Some(name) = wanted.iter().find(|name| scenario.links.iter().all(|link| link.name != **name)) {
        let all: Vec<&str> = scenario.links.iter().map(|link| link.name.as_str()).collect();
        let problem = format!("is no link; allowed: {}", all.join(", "));
        return Err(EngineError::Misfit { part: format!("{name:?}"), problem });
    }
    let named = scenario.links.iter().zip(&built.links);
    let named = named.filter(|(link, _)| wanted.is_empty() || wanted.contains(&link.name));
    let both = named.flat_map(|(link, ids)| {
        let [a, b] = link.ends.map(|end| scenario.nodes[end].name.as_str());
        let ways = [(link.name.clone(), [a, b]), (format!("{}.back", link.name), [b, a])];
        ways.into_iter().zip(&link.ways).zip(ids).map(|(((name, ends), way), id)| CapturedLink {
            link: *id,
            name,
            description: describe(ends, way),
        })
    });
    Ok(both.collect())
}

/// `left to right, 10 Mbit/s, 20ms, tail-drop of 50 packets`.
fn describe([from, to]: [&str; 2], way: &LinkSettings) -> String {
    let limits = way.queue.limits();
    let (queue, rate, delay) = (way.queue.description().word, way.rate, way.delay);
    let room = match (limits.segments, limits.bytes) {
        (u32::MAX, u64::MAX) => "without a limit".to_owned(),
        (u32::MAX, bytes) => format!("of {bytes} bytes"),
        (packets, u64::MAX) => format!("of {packets} packets"),
        (packets, bytes) => format!("of {packets} packets and {bytes} bytes"),
    };
    format!("{from} to {to}, {rate}, {delay:?}, {queue} {room}")
}
