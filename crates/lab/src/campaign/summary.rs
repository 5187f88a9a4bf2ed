//! From runs to the result of each point.
//!
//! Where all metrics of all runs of a point are equal, the seed changed nothing: there is nothing random in its network. Its runs
//! are one run then, made several times, and say nothing of how far another network's would lie apart: there is no interval.

use indexmap::{IndexMap, IndexSet};

use crate::results::{Estimate, Outcome, PointResult, Run};
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
    let same = runs.iter().all(|run| run.outcome.metrics == first.outcome.metrics);
    let metrics = names.into_iter().map(|name| {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.outcome.metrics.get(name).copied()).collect();
        let estimate = estimate(&values);
        let ci95 = estimate.ci95.filter(|_| !same);
        let fewer = (values.len() < runs.len()).then_some(values.len() as u32);
        (name.clone(), Estimate { ci95, runs: fewer, ..estimate })
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
    let bytes = digests.flat_map(|digest| digest.bytes().chain([b'\n']));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Point;

    fn run(seed: u64, metrics: &[(&str, f64)]) -> Run {
        let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Run {
            experiment: "x".to_owned(),
            engine: "sim".to_owned(),
            point: Point::new(),
            seed,
            outcome: Outcome { metrics, digest: format!("{seed}"), ..Outcome::default() },
            version: String::new(),
        }
    }

    fn of(runs: &[Run]) -> PointResult {
        let [result] = summarise(runs).try_into().expect("one point");
        result
    }

    #[test]
    fn runs_that_are_all_the_same_have_no_interval() {
        let result = of(&[1, 2, 3].map(|seed| run(seed, &[("a", 0.1), ("b", 5.0)])));
        assert_eq!((result.runs, result.metrics["a"].mean), (3, 0.1));
        assert!(result.metrics.values().all(|estimate| estimate.ci95.is_none()));
        assert!(serde_json::to_string(&result).unwrap().contains("\"ci95\":null"));
        let differing = of(&[run(1, &[("a", 0.1), ("b", 5.0)]), run(2, &[("a", 0.1), ("b", 6.0)])]);
        assert_eq!(differing.metrics["a"].ci95, Some(0.0), "something is random, and a came out the same");
        assert!(differing.metrics["b"].ci95.is_some_and(|half| half > 6.0));
    }

    #[test]
    fn a_metric_that_some_runs_do_not_have_says_how_many_do() {
        let result = of(&[
            run(1, &[("a", 1.0), ("b", 5.0)]),
            run(2, &[("a", 2.0)]),
            run(3, &[("a", 3.0), ("b", 7.0)]),
        ]);
        assert_eq!((result.runs, result.metrics["b"].runs, result.metrics["b"].mean), (3, Some(2), 6.0));
        assert_eq!(result.metrics["a"].runs, None);
        let line = serde_json::to_string(&result).unwrap();
        assert_eq!(line.matches("\"runs\":").count(), 2, "the point's and b's: {line}");
    }
}
