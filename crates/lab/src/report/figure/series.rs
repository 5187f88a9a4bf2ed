//! Series over time, of the first run of each point.

use std::cmp::Ordering;

use super::super::chart::{Along, Chart, Dot, Kind, Line, SUMMARY, Text, summary};
use super::super::material::Material;
use super::super::unit::DisplayUnit;
use super::super::{axes, table};
use super::lines::{along_y, name_of};
use super::styles;
use crate::catalogue::Unit;
use crate::experiment::{Figure, Row};
use crate::results::{PointResult, Run, SeriesOutcome};

/// Points of a line that a plot of this size can show: two for each of so many stretches, its minimum and its maximum.
const STRETCHES: usize = 600;

pub(super) fn chart(figure: &Figure, material: &Material) -> Chart {
    let experiment = material.experiment;
    let results = axes::at(material.results, &figure.at);
    let varying: Vec<String> =
        axes::names(&results).into_iter().filter(|axis| axes::values(&results, axis).len() > 1).collect();
    let recorded: Vec<(&PointResult, &SeriesOutcome)> = results
        .iter()
        .filter_map(|result| Some((*result, first_run(material.runs, result)?.outcome.series.as_ref()?)))
        .collect();
    let units: Vec<DisplayUnit> = figure.metrics.iter().map(|row| unit(figure, row, &recorded)).collect();
    let one_unit = units.iter().all(|unit| Some(unit) == units.first());

    let (mut lines, mut keys, mut rows, mut thinned) = (Vec::new(), Vec::new(), Vec::new(), false);
    for (result, series) in &recorded {
        let part = axes::part(&result.point, &varying);
        for (row, unit) in figure.metrics.iter().zip(&units) {
            let Some(column) = series.columns.get(&row.metric) else { continue };
            let mut parts: Vec<String> =
                part.iter().map(|(axis, value)| axes::value_label(experiment, axis, value)).collect();
            if figure.metrics.len() > 1 || parts.is_empty() {
                let unit = if one_unit { String::new() } else { unit.behind() };
                parts.insert(0, format!("{}{unit}", table::label_of(row)));
            }
            let name = name_of(parts);
            let points = dots(series, column, unit);
            rows.push(summary(&name, &points));
            thinned |= points.len() > 2 * STRETCHES;
            keys.push(part.values().cloned().chain([row.metric.clone()]).collect::<Vec<_>>());
            lines.push(Line {
                name,
                colour: 0,
                dash: 0,
                beneath: 0,
                points: thin(points),
                paper: Vec::new(),
            });
        }
    }
    for (line, (colour, dash)) in lines.iter_mut().zip(styles(&keys)) {
        (line.colour, line.dash) = (colour, dash);
    }
    let mut notes = Vec::new();
    if let Some(seed) = recorded.first().and_then(|(result, _)| Some(first_run(material.runs, result)?.seed))
    {
        notes.push(format!("One run (seed {seed})."));
    }
    if thinned {
        notes.push(
            "Of each stretch of time that is too short to show, the minimum and the maximum are drawn."
                .into(),
        );
    }
    Chart {
        kind: Kind::Series,
        x: Along { title: "time (s)".into(), unit: "s".into(), ..Along::default() },
        y: along_y(figure, &units, one_unit),
        lines,
        text: Text { notes, heads: SUMMARY.map(str::to_owned).to_vec(), rows, ..Text::default() },
    }
}

/// The run with the first seed.
fn first_run<'a>(runs: &'a [Run], result: &PointResult) -> Option<&'a Run> {
    runs.iter().filter(|run| run.point == result.point).min_by_key(|run| run.seed)
}

fn unit(figure: &Figure, row: &Row, recorded: &[(&PointResult, &SeriesOutcome)]) -> DisplayUnit {
    let base = Unit::of(&row.metric);
    let said = row.unit.as_deref().and_then(|name| base.unit(name));
    let labelled = || figure.y_label.as_deref().and_then(|label| base.named_in(label));
    said.or_else(labelled).unwrap_or_else(|| {
        let same = figure.metrics.iter().filter(|other| Unit::of(&other.metric) == base);
        let columns =
            same.flat_map(|row| recorded.iter().filter_map(|(_, series)| series.columns.get(&row.metric)));
        base.fitting(columns.flatten().copied().flatten())
    })
}

fn dots(series: &SeriesOutcome, column: &[Option<f64>], unit: &DisplayUnit) -> Vec<Dot> {
    let values = series.times.iter().zip(column);
    values
        .map(|(&x, value)| Dot {
            x,
            y: value.filter(|value| value.is_finite()).map(|value| unit.show(value)),
            interval: None,
        })
        .collect()
}

/// The minimum and the maximum of each stretch in the order in which they came; a stretch without any value stays a gap.
fn thin(dots: Vec<Dot>) -> Vec<Dot> {
    if dots.len() <= 2 * STRETCHES {
        return dots;
    }
    let length = dots.len().div_ceil(STRETCHES);
    let mut kept = Vec::with_capacity(2 * STRETCHES);
    for stretch in dots.chunks(length) {
        let order = |a: &&Dot, b: &&Dot| a.y.unwrap_or(0.0).total_cmp(&b.y.unwrap_or(0.0));
        let valued = || stretch.iter().filter(|dot| dot.y.is_some());
        match (valued().min_by(order), valued().max_by(order)) {
            (Some(min), Some(max)) => match min.x.total_cmp(&max.x) {
                Ordering::Less => kept.extend([*min, *max]),
                Ordering::Equal => kept.push(*min),
                Ordering::Greater => kept.extend([*max, *min]),
            },
            _ => kept.push(stretch[0]),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_peaks_gaps_and_order() {
        let mut dots: Vec<Dot> =
            (0..30_000).map(|n| Dot { x: f64::from(n), y: Some(f64::from(n % 7)), interval: None }).collect();
        dots[12_345].y = Some(1000.0);
        for dot in &mut dots[20_000..20_200] {
            dot.y = None;
        }
        let thinned = thin(dots);
        assert!(thinned.len() <= 2 * STRETCHES);
        assert!(thinned.iter().any(|dot| dot.y == Some(1000.0)));
        assert!(thinned.iter().any(|dot| dot.y.is_none()));
        assert!(thinned.windows(2).all(|pair| pair[0].x < pair[1].x));
    }
}
