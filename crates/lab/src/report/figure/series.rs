//! Series over time, of the first run of each point.

use std::cmp::Ordering;

use super::super::axes;
use super::super::chart::{Along, Chart, Dot, Kind, Line, SUMMARY, Text, summary};
use super::super::material::Material;
use super::super::unit::DisplayUnit;
use super::lines::along_y;
use super::{legend, line, styled, units};
use crate::experiment::{Figure, Row};
use crate::results::{PointResult, Run, SeriesOutcome};

/// Points of a line that a plot of this size can show: two for each of so many stretches, its minimum and its maximum.
const STRETCHES: usize = 600;

pub(super) fn chart(figure: &Figure, material: &Material) -> Chart {
    let results = axes::at(material.results, &figure.at);
    let varying = axes::telling(&results, None, None);
    let recorded: Vec<(&PointResult, &SeriesOutcome)> = results
        .iter()
        .filter_map(|result| Some((*result, first_run(material.runs, result)?.outcome.series.as_ref()?)))
        .collect();
    let recorded_of = |row: &Row| {
        let columns = recorded.iter().filter_map(|(_, series)| series.columns.get(&row.metric));
        columns.flatten().copied().flatten().collect()
    };
    let units = units(figure, None, recorded_of);
    let one_unit = units.iter().all(|unit| Some(unit) == units.first());

    let (mut lines, mut rows, mut thinned) = (Vec::new(), Vec::new(), false);
    for (result, series) in &recorded {
        let part = axes::part(&result.point, &varying);
        for (row, unit) in figure.metrics.iter().zip(&units) {
            let Some(column) = series.columns.get(&row.metric) else { continue };
            let behind = if one_unit { String::new() } else { unit.behind() };
            let line = line(figure, material, &part, row, &behind);
            let points = dots(series, column, unit);
            rows.push(summary(&line.name, &points));
            thinned |= points.len() > 2 * STRETCHES;
            let key: Vec<String> = part.values().cloned().chain([row.metric.clone()]).collect();
            lines.push((key, Line { points: thin(points), ..line }));
        }
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
        legend: legend(figure, material, &varying),
        lines: styled(lines),
        text: Text { notes, heads: SUMMARY.map(str::to_owned).to_vec(), rows, ..Text::default() },
    }
}

/// The run with the first seed.
fn first_run<'a>(runs: &'a [Run], result: &PointResult) -> Option<&'a Run> {
    runs.iter().filter(|run| run.point == result.point).min_by_key(|run| run.seed)
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
