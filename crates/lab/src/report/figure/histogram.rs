//! How many of a run's values lie where.

use super::super::chart::{Along, Chart, Dot, Kind, Line, Text};
use super::super::material::Material;
use super::super::unit::{DisplayUnit, base_unit};
use super::super::{axes, number, survivors};
use super::{legend, line, styled};
use crate::experiment::{Figure, Scale};
use crate::results::PointResult;
use crate::statistics::bounds;

/// Bins that a plot of this size can show.
const BINS: (usize, usize) = (8, 40);

struct Sample {
    /// What it is called.
    line: Line,
    key: Vec<String>,
    values: Vec<f64>,
    runs: usize,
}

pub(super) fn chart(figure: &Figure, material: &Material) -> Option<Chart> {
    let log = figure.x_scale == Scale::Log;
    let mut samples = samples(figure, material);
    let all = || samples.iter().flat_map(|sample| sample.values.iter().copied());
    let metric = figure.metrics.first()?;
    let base = base_unit(&metric.metric);
    let unit = metric
        .unit
        .as_deref()
        .and_then(|name| DisplayUnit::named(base, name))
        .unwrap_or_else(|| DisplayUnit::fitting(base, all()));
    let mut notes = Vec::new();
    let mut left_out = 0;
    for sample in &mut samples {
        let before = sample.values.len();
        sample.values.retain(|value| value.is_finite() && !(log && *value <= 0.0));
        left_out += before - sample.values.len();
        for value in &mut sample.values {
            *value = unit.show(*value);
        }
    }
    if left_out > 0 {
        notes.push(format!("{left_out} values of zero are not on the logarithmic axis."));
    }
    samples.retain(|sample| !sample.values.is_empty());
    let edges = edges(&samples.iter().map(|sample| sample.values.as_slice()).collect::<Vec<_>>(), log)?;

    let counted: Vec<Vec<f64>> = samples.iter().map(|sample| count(sample, &edges)).collect();
    let runs = samples.iter().map(|sample| sample.runs).max().unwrap_or(1);
    let drawn = |(sample, counts): (Sample, &Vec<f64>)| {
        let ends = counts.iter().copied().chain([0.0]);
        let points = edges.iter().zip(ends).map(|(&x, y)| Dot { x, y: Some(y), interval: None }).collect();
        (sample.key, Line { points, ..sample.line })
    };
    let lines = styled(samples.into_iter().zip(&counted).map(drawn).collect());
    if runs > 1 {
        notes.push(format!("Counts are means of {runs} runs."));
    }
    let results = axes::at(material.results, &figure.at);
    let metrics = figure.metrics.iter().map(|row| row.metric.as_str());
    notes.extend(survivors::note(material.experiment, metrics, &results));
    let by = axes::telling(&results, figure.by.as_deref(), None);
    let label = metric
        .label
        .clone()
        .unwrap_or_else(|| metric.metric.split('.').skip(1).collect::<Vec<_>>().join(" "));
    let counted_are =
        if metric.metric.contains(".transfer.") { "transfers in a run" } else { "values in a run" };
    let title = format!("{label}{}", unit.behind());
    Some(Chart {
        kind: Kind::Histogram,
        text: text(&lines, &edges, &counted, &title, notes),
        x: Along { title, unit: unit.name, log, ..Along::default() },
        y: Along { title: figure.y_label.clone().unwrap_or_else(|| counted_are.into()), ..Along::default() },
        legend: legend(figure, material, &by),
        lines,
    })
}

fn samples(figure: &Figure, material: &Material) -> Vec<Sample> {
    let results = axes::at(material.results, &figure.at);
    let by = axes::telling(&results, figure.by.as_deref(), None);
    let mut samples = Vec::new();
    for (part, members) in axes::groups(&results, &by) {
        for row in &figure.metrics {
            let values = values(material, &members, &row.metric);
            samples.push(Sample {
                line: line(figure, material, &part, row, ""),
                key: part.values().cloned().chain([row.metric.clone()]).collect(),
                runs: values.len(),
                values: values.into_iter().flatten().copied().collect(),
            });
        }
    }
    samples
}

fn values<'a>(material: &Material<'a>, members: &[&PointResult], metric: &str) -> Vec<&'a [f64]> {
    let runs = material.runs.iter().filter(|run| members.iter().any(|member| member.point == run.point));
    runs.filter_map(|run| run.outcome.distributions.get(metric).map(Vec::as_slice)).collect()
}

/// Edges of bins that all samples share: of a round width near that of Freedman and Diaconis (1981), 2·IQR/∛n, taken of the sample
/// that asks for the narrowest.
fn edges(samples: &[&[f64]], log: bool) -> Option<Vec<f64>> {
    let scaled = |value: f64| if log { value.log10() } else { value };
    let all = || samples.iter().flat_map(|values| values.iter().map(|&value| scaled(value)));
    let (low, high) = bounds(all()).filter(|(low, high)| low.is_finite() && high.is_finite())?;
    let extent = if high > low { high - low } else { (low.abs() * 0.1).max(if log { 0.1 } else { 1e-9 }) };
    let wish = samples
        .iter()
        .filter_map(|values| {
            let mut sorted: Vec<f64> = values.iter().map(|&value| scaled(value)).collect();
            sorted.sort_by(f64::total_cmp);
            let quartile = |part: usize| sorted[(sorted.len() - 1) * part / 4];
            let width = 2.0 * (quartile(3) - quartile(1)) / (sorted.len() as f64).cbrt();
            (width > 0.0).then_some(width)
        })
        .fold(extent, f64::min);
    let mut width = nice(wish.clamp(extent / BINS.1 as f64, extent / BINS.0 as f64));
    while extent / width > BINS.1 as f64 {
        width = nice(width * 1.5);
    }
    let first = (low / width).floor();
    let bins = ((high / width - first).floor() as usize + 1).max(1);
    let back = |place: f64| if log { 10_f64.powf(place) } else { place };
    Some((0..=bins).map(|bin| back((first + bin as f64) * width)).collect())
}

/// The nearest of 1, 2, 2.5, 5 times a power of ten that is not less.
fn nice(width: f64) -> f64 {
    let power = 10_f64.powf(width.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|step| step * power >= width * 0.999).unwrap_or(10.0);
    step * power
}

fn count(sample: &Sample, edges: &[f64]) -> Vec<f64> {
    let mut counts = vec![0.0; edges.len() - 1];
    for value in &sample.values {
        let bin = edges.partition_point(|edge| edge <= value).clamp(1, counts.len());
        counts[bin - 1] += 1.0 / sample.runs as f64;
    }
    counts
}

fn text(lines: &[Line], edges: &[f64], counted: &[Vec<f64>], head: &str, notes: Vec<String>) -> Text {
    let rows = edges.windows(2).enumerate().map(|(bin, pair)| {
        let range = format!("{} to {}", number::rounded(pair[0]), number::rounded(pair[1]));
        [range].into_iter().chain(counted.iter().map(|counts| number::rounded(counts[bin]))).collect()
    });
    Text {
        notes,
        heads: [head.to_owned()].into_iter().chain(lines.iter().map(|line| line.name.clone())).collect(),
        rows: rows.collect(),
        ..Text::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64], runs: usize) -> Sample {
        Sample { line: Line::default(), key: Vec::new(), values: values.to_vec(), runs }
    }

    #[test]
    fn every_value_is_in_one_bin() {
        let values: Vec<f64> = (0..1000).map(|n| f64::from(n * n) / 1000.0).collect();
        for log in [false, true] {
            let values: Vec<f64> = values.iter().copied().filter(|&value| !log || value > 0.0).collect();
            let edges = edges(&[&values], log).unwrap();
            assert!((BINS.0..=BINS.1 + 2).contains(&(edges.len() - 1)), "{}", edges.len());
            assert!(edges[0] <= values[0] * 1.000_001 && edges[edges.len() - 1] >= values[values.len() - 1]);
            let counts = count(&sample(&values, 1), &edges);
            assert!((counts.iter().sum::<f64>() - values.len() as f64).abs() < 1e-6);
        }
    }

    #[test]
    fn counts_are_of_a_run() {
        let counts = count(&sample(&[1.0, 1.0, 1.0, 1.0, 3.0, 3.0], 2), &[0.0, 2.0, 4.0]);
        assert_eq!(counts, [2.0, 1.0]);
    }

    #[test]
    fn values_that_are_all_the_same_have_a_bin() {
        for value in [5.0, 0.0, -3.0] {
            let edges = edges(&[&[value, value]], false).unwrap();
            assert!(edges.len() >= 2 && edges.len() < 50);
            assert!(count(&sample(&[value, value], 1), &edges).contains(&2.0));
        }
        assert_eq!(edges(&[], false), None);
    }

    #[test]
    fn widths_are_round() {
        for (width, round) in [(0.3, 0.5), (1.0, 1.0), (1.1, 2.0), (2.2, 2.5), (7.0, 10.0)] {
            assert!((nice(width) - round).abs() < 1e-9);
        }
    }
}
