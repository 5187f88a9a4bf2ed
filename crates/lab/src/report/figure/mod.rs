//! Plots: what is drawn where. The script of the page draws it; a table below each says the same in numbers.

mod coincident;
mod histogram;
mod lines;
mod points;
mod series;

use indexmap::{IndexMap, IndexSet};

use super::chart::{Chart, Kind, Line};
use super::material::Material;
use super::unit::{DisplayUnit, base_unit};
use super::{axes, table};
use crate::experiment::{Figure, FigureKind, Row, Scale};
use crate::results::Point;

/// The maximum number of plots that one is split into.
const PANELS: usize = 4;

const SCALES_DIFFER: &str = "The scale upwards is not that of the plots beside it.";

/// All plots of an experiment, and the titles of those for which there is nothing.
pub(super) fn all(material: &Material) -> (Vec<Chart>, Vec<String>) {
    let (mut charts, mut missing) = (Vec::new(), Vec::new());
    for figure in &material.experiment.figures {
        match chart(figure, material) {
            Some(chart) => {
                let parts = panels(figure, material, &chart).unwrap_or_else(|| vec![chart]);
                charts.extend(parts.into_iter().map(|part| (figure, part)));
            }
            None => missing.push(figure.title.clone()),
        }
    }
    // Plots of the same at other points are there to be compared.
    for place in 0..charts.len() {
        let first = charts[place].0;
        if charts[..place].iter().all(|(earlier, _)| !is_beside(earlier, first)) {
            let beside = charts.iter_mut().filter(|(other, _)| is_beside(other, first));
            share_scale(&mut beside.map(|(_, chart)| chart).collect::<Vec<_>>());
        }
    }
    (charts.into_iter().map(|(_, chart)| chart).collect(), missing)
}

/// Whether two figures show the same at different points of a sweep.
fn is_beside(one: &Figure, other: &Figure) -> bool {
    let apart = |figure: &Figure| Figure {
        title: String::new(),
        caption: None,
        at: IndexMap::new(),
        ..figure.clone()
    };
    apart(one) == apart(other)
}

/// Gives plots one scale upwards, unless it would leave one of them flat; then they say so.
fn share_scale(charts: &mut [&mut Chart]) {
    let Some(first) = charts.first().map(|chart| chart.y.clone()) else { return };
    if charts.len() < 2 || first.log {
        return;
    }
    let tops: Vec<f64> = charts.iter().map(|chart| chart.highest()).collect();
    let top = tops.iter().copied().fold(0.0, f64::max);
    let is_one = charts.iter().all(|chart| chart.y == first) && tops.iter().all(|own| *own > 0.4 * top);
    for chart in charts.iter_mut() {
        if is_one && top > 0.0 {
            chart.y.top = Some(top);
        } else {
            chart.text.notes.push(SCALES_DIFFER.to_owned());
        }
    }
}

/// Plots that one is split into if it has more lines than can be told apart: one for each value of one of its axes.
fn panels(figure: &Figure, material: &Material, whole: &Chart) -> Option<Vec<Chart>> {
    let max = match whole.kind {
        Kind::Series => 5,
        Kind::Line => 8,
        Kind::Bar | Kind::Histogram | Kind::Points => return None,
    };
    if whole.lines.len() <= max {
        return None;
    }
    let results = axes::at(material.results, &figure.at);
    let free = axes::names(&results).into_iter().filter(|axis| {
        (whole.kind == Kind::Series || figure.x.as_ref() != Some(axis))
            && (2..=PANELS).contains(&axes::values(&results, axis).len())
    });
    let split = |axis: String| {
        let values = axes::values(&results, &axis);
        let charts: Vec<Chart> = values
            .iter()
            .filter_map(|value| {
                let mut part = figure.clone();
                part.at.insert(axis.clone(), toml::Value::String(value.clone()));
                part.by.iter_mut().for_each(|by| by.retain(|other| *other != axis));
                let mut chart = chart(&part, material)?;
                let of = axes::value_label(material.experiment, &axis, value);
                chart.text.title = format!("{}, {of}", figure.title);
                Some(chart)
            })
            .collect();
        let lines = charts.iter().map(|chart| chart.lines.len()).max().unwrap_or(0);
        (lines > 1 && lines < whole.lines.len()).then_some((lines.max(max), charts.len(), charts))
    };
    let (_, _, mut charts) = free.filter_map(split).min_by_key(|(lines, panels, _)| (*lines, *panels))?;
    // What the paper says is of all of them.
    for chart in charts.iter_mut().rev().skip(1) {
        chart.text.caption = None;
    }
    Some(charts)
}

fn chart(figure: &Figure, material: &Material) -> Option<Chart> {
    let mut chart = match figure.kind {
        FigureKind::Line => Some(lines::chart(figure, material, Kind::Line)),
        FigureKind::Bar => Some(lines::chart(figure, material, Kind::Bar)),
        FigureKind::Histogram => histogram::chart(figure, material),
        FigureKind::Series => Some(series::chart(figure, material)),
        FigureKind::Points => points::chart(figure, material),
    }?;
    chart.text.title.clone_from(&figure.title);
    chart.text.caption.clone_from(&figure.caption);
    chart.y.log = figure.y_scale == Scale::Log;
    chart.keep_to_scale();
    coincident::tell_apart(&mut chart);
    (!chart.is_empty()).then_some(chart)
}

/// A line without its points: what it is called. That is where in the sweep it is, and its metric where that is not all of the plot; of these parts
/// those that say something new.
fn line(figure: &Figure, material: &Material, part: &Point, row: &Row, unit: &str) -> Line {
    let metric =
        (figure.metrics.len() > 1 || part.is_empty()).then(|| format!("{}{unit}", table::label_of(row)));
    let name = |value: &dyn Fn(&str, &str) -> String| {
        let mut known = IndexSet::new();
        let parts = metric.iter().cloned().chain(part.iter().map(|(axis, of)| value(axis, of)));
        parts.filter(|part| known.insert(part.to_lowercase())).collect::<Vec<_>>().join(", ")
    };
    Line {
        name: name(&|axis, value| axes::value_label(material.experiment, axis, value)),
        short: name(&|_, value| axes::shown(value)),
        ..Line::default()
    }
}

/// What the legend says once, before the values of each line: the axes that tell lines of one metric from each other.
fn legend(figure: &Figure, material: &Material, by: &[String]) -> String {
    let labels = by.iter().map(|axis| axes::label(material.experiment, axis));
    if figure.metrics.len() > 1 { String::new() } else { labels.collect::<Vec<_>>().join(", ") }
}

/// A unit for each metric: as the file says, as the label of the axis or the paper has it, or one that fits all values of its kind.
fn units(figure: &Figure, published: Option<&str>, values: impl Fn(&Row) -> Vec<f64>) -> Vec<DisplayUnit> {
    let unit = |row: &Row| {
        let base = base_unit(&row.metric);
        let named = |name: Option<&str>| name.and_then(|name| DisplayUnit::named(base, name));
        let labelled = || figure.y_label.as_deref().and_then(|label| DisplayUnit::named_in(base, label));
        let said = named(row.unit.as_deref()).or_else(labelled).or_else(|| named(published));
        let alike = || figure.metrics.iter().filter(|other| base_unit(&other.metric) == base);
        said.unwrap_or_else(|| DisplayUnit::fitting(base, alike().flat_map(&values)))
    };
    figure.metrics.iter().map(unit).collect()
}

/// Lines with colours and dashes by what they differ in.
fn styled(lines: Vec<(Vec<String>, Line)>) -> Vec<Line> {
    let (keys, mut lines): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
    for (line, (colour, dash)) in lines.iter_mut().zip(styles(&keys)) {
        (line.colour, line.dash) = (colour, dash);
    }
    lines
}

/// Colours and dashes for lines that differ in several respects: one respect by colour, the rest by dashes, if that is enough to tell
/// them apart; else a colour each, and dashes when colours run out.
fn styles(keys: &[Vec<String>]) -> Vec<(usize, usize)> {
    const COLOURS: usize = 8;
    const DASHES: usize = 4;
    let values = |column: usize| -> IndexSet<&String> { keys.iter().map(|key| &key[column]).collect() };
    let respects = (0..keys.first().map_or(0, Vec::len)).map(|column| (column, values(column)));
    let respects: Vec<_> = respects.filter(|(_, values)| values.len() > 1).collect();
    if let [first, second] = &respects[..] {
        let more = if first.1.len() >= second.1.len() { [first, second] } else { [second, first] };
        let [(colour, colours), (dash, dashes)] = more;
        if colours.len() <= COLOURS && dashes.len() <= DASHES {
            let style = |key: &Vec<String>| {
                Some((colours.get_index_of(&key[*colour])?, dashes.get_index_of(&key[*dash])?))
            };
            return keys.iter().filter_map(style).collect();
        }
    }
    (0..keys.len()).map(|line| (line % COLOURS, line / COLOURS % DASHES)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_in_two_respects_have_a_colour_for_one_and_dashes_for_the_other() {
        let keys = |pairs: &[(&str, &str)]| -> Vec<Vec<String>> {
            pairs.iter().map(|(a, b)| vec![(*a).to_owned(), (*b).to_owned()]).collect()
        };
        let crossed =
            keys(&[("1", "with"), ("1", "without"), ("2", "with"), ("2", "without"), ("3", "with")]);
        assert_eq!(styles(&crossed), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]);
        let plain = keys(&[("a", "x"), ("b", "x")]);
        assert_eq!(styles(&plain), [(0, 0), (1, 0)]);
    }

    #[test]
    fn twenty_lines_are_all_told_apart() {
        let keys: Vec<Vec<String>> = (0..20).map(|line| vec![line.to_string()]).collect();
        let mut styles = styles(&keys);
        styles.sort_unstable();
        styles.dedup();
        assert_eq!(styles.len(), 20);
    }
}
