//! From runs to the result of each point.

use indexmap::{IndexMap, IndexSet};

use crate::results::{Outcome, PointResult, Run};
use crate::statistics::estimate;

/// A result for each point that has runs, in the order of the runs; claims come later.
pub fn summarise(runs: &[Run]) -> Vec<PointResult> {
    let mut points: IndexMap<Vec<(&String, &String)>, Vec<&Run>> = IndexMap::new();
    for run in runs {
        points.entry(run.point.iter().collect()).or_default().push(run);
    }
    points.into_values().filter_map(|runs| result(&runs)).collect()
}

fn result(runs: &[&Run]) -> Option<PointResult> {
    let first = runs.first()?;
    let names: IndexSet<&String> = runs.iter().flat_map(|run| run.outcome.metrics.keys()).collect();
    let metrics = names.into_iter().map(|name| {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.outcome.metrics.get(name).copied()).collect();
        (name.clone(), estimate(&values))
    });
    Some(PointResult {
        experiment: first.experiment.clone(),
        engine: first.engine.clone(),
        point: first.point.clone(),
        runs: runs.len() as u32,
        metrics: metrics.collect(),
        claims: Vec::new(),
        digest: digest(runs.iter().map(|run| run.outcome.digest.as_str())),
        version: first.version.clone(),
    })
}

/// A fingerprint of fingerprints, in order: FNV-1a, 64 bits.
fn digest<'a>(digests: impl Iterator<Item = &'a str>) -> String {
    let octets = digests.flat_map(|digest| digest.bytes().chain([b'\n']));
    let hash = octets.fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// An outcome without what JSON has no word for: infinite values and such that are no numbers.
pub fn finite(mut outcome: Outcome) -> Outcome {
    outcome.metrics.retain(|_, value| value.is_finite());
    for values in outcome.distributions.values_mut() {
        values.retain(|value| value.is_finite());
    }
    if let Some(series) = &mut outcome.series {
        for value in series.columns.values_mut().flatten() {
            *value = value.filter(|value| value.is_finite());
        }
    }
    outcome
}
