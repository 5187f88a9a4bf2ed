//! What varies: the axes of a sweep as the results have them, and where their values lie.

use indexmap::{IndexMap, IndexSet};
use trunkline_engine::catalogue::Unit;

use super::unit::DisplayUnit;
use crate::experiment::Experiment;
use crate::results::{Point, PointResult};
use crate::swept;

/// Results at the points that have these values.
pub(super) fn at<'a>(results: &'a [PointResult], at: &IndexMap<String, toml::Value>) -> Vec<&'a PointResult> {
    let wanted = |point: &Point| {
        at.iter().all(|(axis, value)| point.get(axis).is_some_and(|name| swept::is(name, value)))
    };
    results.iter().filter(|result| wanted(&result.point)).collect()
}

/// Axes in the order of the file.
pub(super) fn names(results: &[&PointResult]) -> Vec<String> {
    let names: IndexSet<&String> = results.iter().flat_map(|result| result.point.keys()).collect();
    names.into_iter().cloned().collect()
}

/// The values of an axis in the order in which they come.
pub(super) fn values(results: &[&PointResult], axis: &str) -> Vec<String> {
    let names: IndexSet<&String> = results.iter().filter_map(|result| result.point.get(axis)).collect();
    names.into_iter().cloned().collect()
}

/// The axes that tell results from each other: those asked for, and any other with several values, but for one that is shown otherwise.
pub(super) fn telling(
    results: &[&PointResult],
    asked: Option<&[String]>,
    shown: Option<&str>,
) -> Vec<String> {
    let mut axes = asked.unwrap_or_default().to_vec();
    let others = names(results).into_iter().filter(|axis| values(results, axis).len() > 1);
    axes.extend(others.filter(|axis| !asked.unwrap_or_default().contains(axis)));
    axes.retain(|axis| Some(axis.as_str()) != shown);
    axes
}

/// What an axis is called.
pub(super) fn label(experiment: &Experiment, axis: &str) -> String {
    experiment
        .sweep
        .get(axis)
        .and_then(|axis| axis.label.clone())
        .unwrap_or_else(|| axis.replace(['_', '-'], " "))
}

/// A value as it is shown.
pub(super) fn shown(value: &str) -> String {
    value.strip_suffix(" us").map_or_else(|| value.to_owned(), |number| format!("{number} µs"))
}

/// Whether a value says nothing without its axis' name.
pub(super) fn is_bare(value: &str) -> bool {
    matches!(value, "true" | "false") || swept::number(value).is_some()
}

/// A value of an axis where it stands alone.
pub(super) fn value_label(experiment: &Experiment, axis: &str, value: &str) -> String {
    format!("{}: {}", label(experiment, axis), shown(value))
}

/// A point in words.
pub(super) fn point_label(experiment: &Experiment, point: &Point) -> String {
    let parts: Vec<String> =
        point.iter().map(|(axis, value)| format!("{}: {}", label(experiment, axis), shown(value))).collect();
    if parts.is_empty() { "the only point".into() } else { parts.join(", ") }
}

/// The values of some axes at a point.
pub(super) fn part(point: &Point, axes: &[String]) -> Point {
    axes.iter().filter_map(|axis| Some((axis.clone(), point.get(axis)?.clone()))).collect()
}

/// Results with the same values of some axes together, in the order in which they come.
pub(super) fn groups<'a>(results: &[&'a PointResult], axes: &[String]) -> Vec<(Point, Vec<&'a PointResult>)> {
    let mut groups: Vec<(Point, Vec<&PointResult>)> = Vec::new();
    for result in results {
        let part = part(&result.point, axes);
        match groups.iter_mut().find(|(known, _)| *known == part) {
            Some((_, members)) => members.push(result),
            None => groups.push((part, vec![result])),
        }
    }
    groups
}

/// Where the values of an axis lie, if all of them are numbers of one kind: in the unit that its label names, or one that fits; and that.
pub(super) fn positions(values: &[String], label: &str) -> Option<(Vec<f64>, DisplayUnit)> {
    let (base, numbers) = swept::numbers(values.iter().map(String::as_str))?;
    let named = DisplayUnit::named_in(base, label).filter(|_| base != Unit::Count);
    let unit = named.unwrap_or_else(|| DisplayUnit::fitting(base, numbers.iter().copied()));
    Some((numbers.iter().map(|number| unit.show(*number)).collect(), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(values: &[&str]) -> Vec<String> {
        values.iter().map(|&value| value.to_owned()).collect()
    }

    #[test]
    fn values_with_units_have_positions_in_one_unit() {
        let (places, unit) = positions(&owned(&["5.06 us", "50 ms", "200 ms"]), "delay").unwrap();
        assert_eq!((places[1], places[2], unit.name.as_str()), (50.0, 200.0, "ms"));
        assert!((places[0] - 0.00506).abs() < 1e-9);
        assert_eq!(positions(&owned(&["296 B", "1500 B"]), "MTU (B)").unwrap().0, [296.0, 1500.0]);
        assert_eq!(positions(&owned(&["1", "80"]), "flows").unwrap().0, [1.0, 80.0]);
        assert_eq!(positions(&owned(&["0 %", "2.5 %"]), "loss").unwrap().1.name, "%");
        assert_eq!(positions(&owned(&["with", "without"]), ""), None);
        assert_eq!(positions(&owned(&["1", "2 ms"]), ""), None);
    }
}
