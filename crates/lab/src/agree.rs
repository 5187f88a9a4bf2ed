//! How far two engines agree on an experiment: the same points, metric by metric and claim by claim.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::Serialize;
use trunkline_engine::catalogue::{self, Unit};

use crate::campaign::Complete;
use crate::experiment::Experiment;
use crate::number::{self, spread};
use crate::report::{Align, Answers, Document, plain, table};
use crate::results::{Estimate, Point, PointResult, Verdict, named};
use crate::verdict::Judgement;

/// Quantities that are compared where both engines have them, and the smallest value of each that is worth a ratio: below it a
/// difference of one packet or one tick is a large part.
const COMPARED: [(&str, f64); 12] = [
    ("goodput", 1e3),
    ("fairness", 0.0),
    ("flow.goodput.min", 1e3),
    ("delay.mean", 1e-3),
    ("delay.p50", 1e-3),
    ("delay.p99", 1e-3),
    ("rtt.mean", 1e-3),
    ("retransmitted.packets", 20.0),
    ("drops", 20.0),
    ("queue.packets.mean", 1.0),
    ("utilisation", 1e-3),
    ("lost.ratio", 1e-3),
];

/// A metric of a point by both engines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Where in the sweep.
    pub point: Point,
    /// Its name.
    pub metric: String,
    /// The quantity: the name without its subject.
    pub quantity: String,
    /// By the first engine, and by the second.
    pub values: [Estimate; 2],
    /// The second over the first; none where both are too small for it.
    pub ratio: Option<f64>,
    /// For each engine, whether the other's mean is in its 95 % interval; none of a single run.
    pub inside: [Option<bool>; 2],
}

/// A claim by both engines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// What is said.
    pub text: String,
    /// How it came out by each engine.
    pub verdicts: [Verdict; 2],
    /// The condition with each engine's numbers.
    pub why: [String; 2],
}

impl Claim {
    /// Whether it comes out differently by the two engines.
    pub fn differs(&self) -> bool {
        self.verdicts[0] != self.verdicts[1]
    }
}

/// How far two engines agree on an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// The experiment's id.
    pub experiment: String,
    /// Its title.
    pub title: String,
    /// The engines' names.
    pub engines: [String; 2],
    /// Points that both have.
    pub points: usize,
    /// Metrics that both have, but for those of which both have next to nothing.
    pub rows: Vec<Row>,
    /// Claims.
    pub claims: Vec<Claim>,
    /// What the second engine did otherwise than the experiment says.
    pub substitutions: Vec<String>,
}

/// How far the engines agree on one quantity, over experiments and points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Deviation {
    /// The quantity.
    pub quantity: String,
    /// Metrics that were compared.
    pub compared: usize,
    /// Median of the factors by which they differ, 1 or more.
    pub median: f64,
    /// The largest factor.
    pub worst: f64,
    /// Where that is: experiment, point and metric.
    pub worst_at: String,
}

/// What came of an experiment by one engine.
#[derive(Debug)]
pub struct Side<'a> {
    experiment: &'a Experiment,
    results: &'a [PointResult],
    judgement: &'a Judgement,
    substitutions: Vec<String>,
}

impl<'a> From<&'a Complete> for Side<'a> {
    fn from(of: &'a Complete) -> Self {
        Side {
            experiment: &of.experiment,
            results: &of.results,
            judgement: &of.judgement,
            substitutions: of.substitutions.clone(),
        }
    }
}

impl<'a> From<&'a Answers> for Side<'a> {
    fn from(of: &'a Answers) -> Self {
        let substitutions: BTreeSet<&String> =
            of.runs.iter().flat_map(|run| &run.outcome.substitutions).collect();
        Side {
            experiment: &of.experiment,
            results: &of.results,
            judgement: &of.judgement,
            substitutions: substitutions.into_iter().cloned().collect(),
        }
    }
}

/// Compares what two engines made of one experiment.
pub fn agreement<'a>(first: impl Into<Side<'a>>, second: impl Into<Side<'a>>) -> Agreement {
    let (first, second) = (first.into(), second.into());
    let mut rows = Vec::new();
    let mut points = 0;
    for one in first.results {
        let Some(other) = second.results.iter().find(|other| other.point == one.point) else { continue };
        points += 1;
        for (metric, value) in &one.metrics {
            let Some((quantity, floor)) = compared(metric) else { continue };
            let Some(theirs) = other.metrics.get(metric) else { continue };
            // What both have next to nothing of tells nothing.
            if value.mean.abs().max(theirs.mean.abs()) < floor {
                continue;
            }
            let is_worth_it = value.mean.abs() >= floor && theirs.mean.abs() >= floor && value.mean != 0.0;
            rows.push(Row {
                point: one.point.clone(),
                metric: metric.clone(),
                quantity: quantity.to_owned(),
                values: [*value, *theirs],
                ratio: is_worth_it.then(|| theirs.mean / value.mean),
                inside: [contains(value, theirs), contains(theirs, value)],
            });
        }
    }
    let claims = first.judgement.claims.iter().zip(&second.judgement.claims);
    let claims = claims.map(|(one, other)| Claim {
        text: one.text.clone(),
        verdicts: [one.verdict, other.verdict],
        why: [one.why.clone(), other.why.clone()],
    });
    let engine =
        |side: &Side<'_>| side.results.first().map_or_else(String::new, |result| result.engine.clone());
    Agreement {
        experiment: first.experiment.id.clone(),
        title: first.experiment.title.clone(),
        engines: [engine(&first), engine(&second)],
        points,
        rows,
        claims: claims.collect(),
        substitutions: second.substitutions,
    }
}

/// The quantity of a metric, if it is compared, and the smallest value worth a ratio. Sums over all groups say nothing of their own.
fn compared(metric: &str) -> Option<(&'static str, f64)> {
    let quantity = catalogue::quantity(metric).filter(|_| !metric.starts_with("all."))?;
    COMPARED.into_iter().find(|(name, _)| *name == quantity.name)
}

fn contains(interval: &Estimate, other: &Estimate) -> Option<bool> {
    interval.ci95.map(|half| (other.mean - interval.mean).abs() <= half)
}

/// The factor by which a ratio differs from 1, whichever way.
fn factor(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio)
}

/// How far the engines agree, quantity by quantity.
pub fn deviations(agreements: &[Agreement]) -> Vec<Deviation> {
    let mut by_quantity: IndexMap<&str, Vec<(f64, String)>> = IndexMap::new();
    for agreement in agreements {
        for row in &agreement.rows {
            let Some(ratio) = row.ratio.filter(|ratio| *ratio > 0.0) else { continue };
            let place = format!("{} {}{}", agreement.experiment, row.metric, bracketed(&row.point));
            by_quantity.entry(&row.quantity).or_default().push((factor(ratio), place));
        }
    }
    let each = by_quantity.into_iter().filter_map(|(quantity, mut factors)| {
        factors.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (worst, worst_at) = factors.last()?.clone();
        let median = factors[factors.len() / 2].0;
        Some(Deviation { quantity: quantity.to_owned(), compared: factors.len(), median, worst, worst_at })
    });
    each.collect()
}

/// ` [flows=10, trunk=with]`; nothing of an experiment without a sweep.
fn bracketed(point: &Point) -> String {
    if point.is_empty() { String::new() } else { format!(" [{}]", named(point)) }
}

/// How many claims come out the same; `None` if there are none.
pub fn claims_agree(agreements: &[Agreement]) -> Option<String> {
    let claims = || agreements.iter().flat_map(|agreement| &agreement.claims);
    let (all, differ) = (claims().count(), claims().filter(|claim| claim.differs()).count());
    (all > 0).then(|| format!("{} of {all} claims come out the same.", all - differ))
}

/// The page over all experiments that were compared.
pub fn document(agreements: &[Agreement]) -> Document {
    let mut document = Document::new("How far two engines agree");
    let Some(first) = agreements.first() else { return document };
    let [one, other] = &first.engines;
    document.add(&format!(
        "The same experiments by engine `{one}` and by engine `{other}`. A factor is how many times one value is the other, whichever is larger: 1.03 is a difference of 3 %."
    ));
    document.heading("By quantity");
    let rows: Vec<Vec<String>> = deviations(agreements)
        .iter()
        .map(|deviation| {
            vec![
                format!("`{}`", deviation.quantity),
                deviation.compared.to_string(),
                format!("{:.3}", deviation.median),
                format!("{:.2}", deviation.worst),
                plain(&deviation.worst_at),
            ]
        })
        .collect();
    let heads = ["quantity", "compared", "median factor", "worst factor", "where"].map(str::to_owned);
    document.add(&table(
        &heads,
        &rows,
        &[Align::Left, Align::Right, Align::Right, Align::Right, Align::Left],
    ));
    if let Some(sentence) = claims_agree(agreements) {
        document.heading("Claims");
        document.add(&sentence);
    }
    for agreement in agreements {
        of_experiment(&mut document, agreement);
    }
    document
}

fn of_experiment(document: &mut Document, agreement: &Agreement) {
    let [one, other] = &agreement.engines;
    document.heading(&format!("{}: {}", agreement.experiment, agreement.title));
    for claim in agreement.claims.iter().filter(|claim| claim.differs()) {
        let [first, second] = claim.verdicts.map(crate::report::word);
        document.add(&format!(
            "- {}: {first} by `{one}`, {second} by `{other}`\n  {}\n  {}",
            plain(&claim.text),
            plain(&claim.why[0]),
            plain(&claim.why[1]),
        ));
    }
    if !agreement.substitutions.is_empty() {
        let items: Vec<String> =
            agreement.substitutions.iter().map(|text| format!("- {}", plain(text))).collect();
        document.add(&format!(
            "What `{other}` has in place of what the experiment asks for:\n\n{}",
            items.join("\n")
        ));
    }
    let rows: Vec<Vec<String>> = agreement
        .rows
        .iter()
        .map(|row| {
            let unit = catalogue::unit(&row.metric).map_or("1", Unit::name);
            let [first, second] = row.values.each_ref().map(|value| spread(value, unit));
            let outside = match row.inside {
                [Some(false), Some(false)] => "of both",
                [Some(false), _] => one,
                [_, Some(false)] => other,
                _ => "",
            };
            vec![
                plain(bracketed(&row.point).trim()),
                format!("`{}`", row.metric),
                first,
                second,
                row.ratio.map_or_else(String::new, number::ratio),
                outside.to_owned(),
            ]
        })
        .collect();
    let heads = ["point", "metric", one, other, "ratio", "outside the interval"].map(str::to_owned);
    let aligns = [Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left];
    document.add(&table(&heads, &rows, &aligns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_compared_by_the_longest_quantity_that_ends_its_name() {
        let quantity = |metric| compared(metric).map(|(quantity, _)| quantity);
        assert_eq!(quantity("bulk.goodput"), Some("goodput"));
        assert_eq!(quantity("bulk.flow.goodput.min"), Some("flow.goodput.min"));
        assert_eq!(quantity("core.back.queue.packets.mean"), Some("queue.packets.mean"));
        assert_eq!(quantity("all.goodput"), None);
        assert_eq!(quantity("bulk.flow.goodput.max"), None);
        assert_eq!(quantity("bulk.transfer.retransmitted.packets"), None);
    }

    #[test]
    fn the_worst_factor_is_the_same_whichever_engine_is_higher() {
        let estimate = |mean| Estimate { ci95: Some(0.1), ..Estimate::alone(mean) };
        let row = |ratio: f64| Row {
            point: Point::new(),
            metric: "bulk.goodput".to_owned(),
            quantity: "goodput".to_owned(),
            values: [estimate(1.0), estimate(ratio)],
            ratio: Some(ratio),
            inside: [None, None],
        };
        let agreement = Agreement {
            experiment: "x".to_owned(),
            title: "x".to_owned(),
            engines: ["sim".to_owned(), "testbed".to_owned()],
            points: 1,
            rows: vec![row(1.02), row(0.5), row(1.9)],
            claims: Vec::new(),
            substitutions: Vec::new(),
        };
        let deviations = deviations(&[agreement]);
        assert_eq!((deviations[0].compared, deviations[0].worst), (3, 2.0));
        assert!((deviations[0].median - 1.9).abs() < 1e-9);
        assert_eq!(contains(&estimate(1.0), &estimate(1.05)), Some(true));
        assert_eq!(contains(&estimate(1.0), &estimate(1.2)), Some(false));
    }
}
