//! Points of a sweep.

use indexmap::IndexSet;
use toml::{Table, Value};
use trunkline_units::random;

use super::{MAX_POINTS, finding, names};
use crate::experiment::{Axis, Experiment, Range, Spacing, expand};
use crate::language;
use crate::results::Point;
use crate::swept::name;
use trunkline_schema::{Astray, At, Finding, Findings, KeyPath, put};

/// The most values of an axis.
const MAX_VALUES: u32 = 10_000;

/// What a value of an axis is called, and what it sets.
struct Step {
    name: String,
    sets: Vec<(KeyPath, Value)>,
}

impl Step {
    /// Whether it sets what is at a path, or a table that it is in.
    fn covers(&self, path: &KeyPath) -> bool {
        self.sets.iter().any(|(set, _)| set.is_above(path))
    }
}

/// Axes with their steps.
pub(super) struct Axes<'e>(Vec<(&'e str, Vec<Step>)>);

/// The axes of an experiment.
pub(super) fn axes<'e>(experiment: &'e Experiment, tree: &Table, findings: &Findings<'_>) -> Axes<'e> {
    let sweep = findings.root().key("sweep");
    let axis = |(name, axis): (&'e String, &Axis)| {
        let at = sweep.key(name);
        names::check(&at, name);
        (name.as_str(), Reader { tree, at }.steps(axis))
    };
    let axes = Axes(experiment.sweep.iter().map(axis).collect());
    axes.check_apart(experiment, tree, &sweep);
    axes
}

impl Axes<'_> {
    /// Reports axes of which a later one undoes what they set, without a word: at all of its values, so that there is no use in it,
    /// or at some, and it is their values that points are named by.
    fn check_apart(&self, experiment: &Experiment, tree: &Table, sweep: &At<'_>) {
        for (number, (later, steps)) in self.0.iter().enumerate() {
            let undone = self.0[..number].iter().find_map(|(earlier, others)| {
                let names = experiment.sweep.get(*earlier).map(|axis| naming(axis, tree)).unwrap_or_default();
                let theirs: IndexSet<&KeyPath> = sets(others).collect();
                let is_undone = |path: &&KeyPath| {
                    all_cover(steps, path)
                        || names.contains(path) && steps.iter().any(|step| step.covers(path))
                };
                Some((earlier, theirs.into_iter().find(is_undone)?))
            });
            if let Some((earlier, path)) = undone {
                sweep.key(later).report(
                    format!("sets {path}, or what it is in, and so does axis {earlier}"),
                    "what no other axis sets",
                );
            }
        }
    }

    /// The axis that sets what is at a path whatever its value.
    pub(super) fn always_sets(&self, path: &KeyPath) -> Option<&str> {
        self.0.iter().find(|(_, steps)| all_cover(steps, path)).map(|(axis, _)| *axis)
    }

    /// What their values are called.
    pub(super) fn names(&self) -> language::Axes {
        let names = |steps: &[Step]| steps.iter().map(|step| step.name.clone()).collect();
        self.0.iter().map(|(axis, steps)| ((*axis).to_owned(), names(steps))).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many points there are; none if something is wrong.
    pub(super) fn points(&self, findings: &Findings<'_>) -> usize {
        let sizes = self.0.iter().map(|(_, steps)| steps.len());
        let points = sizes.fold(1_usize, usize::saturating_mul);
        if points > MAX_POINTS {
            let allowed = format!("up to {MAX_POINTS} points");
            findings.root().key("sweep").report(format!("has {points} points"), allowed);
            return 0;
        }
        if findings.count() > 0 && !self.is_empty() { 0 } else { points }
    }

    /// A point and its document. The last axis varies fastest.
    pub(super) fn point(&self, number: usize, tree: &Table) -> (Point, Result<Table, Vec<Finding>>) {
        let mut rest = number;
        let mut steps: Vec<(&str, &Step)> = Vec::with_capacity(self.0.len());
        for (axis, all) in self.0.iter().rev() {
            steps.push((axis, &all[rest % all.len()]));
            rest /= all.len();
        }
        steps.reverse();
        let point = steps.iter().map(|(axis, step)| ((*axis).to_owned(), step.name.clone())).collect();
        let mut changed = tree.clone();
        for (path, value) in steps.iter().flat_map(|(_, step)| &step.sets) {
            if let Err(Astray { problem, allowed }) = put(&mut changed, path, value.clone()) {
                return (point, Err(vec![finding(path.clone(), problem, allowed)]));
            }
        }
        (point, Ok(changed))
    }
}

/// Whether an axis has values, and each of them sets what is at a path.
fn all_cover(steps: &[Step], path: &KeyPath) -> bool {
    !steps.is_empty() && steps.iter().all(|step| step.covers(path))
}

/// All that some values of an axis set.
fn sets(steps: &[Step]) -> impl Iterator<Item = &KeyPath> {
    steps.iter().flat_map(|step| &step.sets).map(|(path, _)| path)
}

/// The paths whose values an axis' points are named by.
fn naming(axis: &Axis, tree: &Table) -> Vec<KeyPath> {
    let first = axis.zip.keys().take(1);
    axis.paths.iter().chain(first).flat_map(|path| expand(path, tree).unwrap_or_default()).collect()
}

/// Reads an axis.
struct Reader<'r> {
    tree: &'r Table,
    at: At<'r>,
}

impl Reader<'_> {
    fn steps(&self, axis: &Axis) -> Vec<Step> {
        let by_path = !axis.paths.is_empty() || !axis.values.is_empty() || axis.range.is_some();
        let ways = [by_path, !axis.zip.is_empty(), !axis.variants.is_empty()];
        let steps = match ways {
            [true, false, false] => self.by_path(axis),
            [false, true, false] => self.zip(axis),
            [false, false, true] => self.variants(axis),
            _ => {
                let problem = if ways == [false; 3] {
                    "says nothing to vary"
                } else {
                    "says in several ways what varies"
                };
                self.at.report(problem, "one of paths with values or a range, zip, and variants");
                Vec::new()
            }
        };
        for (number, step) in steps.iter().enumerate() {
            if steps[..number].iter().any(|earlier| earlier.name == step.name) {
                self.at.report(format!("has {} twice", step.name), "each value once");
                break;
            }
        }
        steps
    }

    fn paths(&self, at: &At<'_>, path: &str) -> Vec<KeyPath> {
        paths(self.tree, at, path)
    }

    fn by_path(&self, axis: &Axis) -> Vec<Step> {
        if axis.paths.is_empty() {
            self.at.key("paths").report("is missing", "a list of what is set, such as [\"links.core.rate\"]");
        }
        let paths: Vec<KeyPath> = axis
            .paths
            .iter()
            .enumerate()
            .flat_map(|(number, path)| self.paths(&self.at.key("paths").index(number), path))
            .collect();
        let values = match (&axis.range, axis.values.is_empty()) {
            (None, false) => axis.values.clone(),
            (Some(range), true) => self.range(range),
            _ => {
                self.at.report("has no values, or both values and a range", "one of values and range");
                Vec::new()
            }
        };
        let step = |value: &Value| Step {
            name: name(value),
            sets: paths.iter().map(|path| (path.clone(), value.clone())).collect(),
        };
        values.iter().map(step).collect()
    }

    fn range(&self, range: &Range) -> Vec<Value> {
        let at = self.at.key("range");
        let Range { from, to, count, .. } = *range;
        if !(2..=MAX_VALUES).contains(&count) {
            at.key("count").refuse(format!("2 to {MAX_VALUES}"));
            return Vec::new();
        }
        if !(from.is_finite() && to.is_finite()) || from.total_cmp(&to).is_eq() {
            at.report("has no values between its ends", "two different numbers");
            return Vec::new();
        }
        if range.spacing == Spacing::Log && !(from > 0.0 && to > 0.0) {
            at.report("begins or ends at or below 0, where there are no ratios", "from and to above 0");
            return Vec::new();
        }
        (0..count).map(|number| value_of(range, number)).collect()
    }

    fn zip(&self, axis: &Axis) -> Vec<Step> {
        let at = self.at.key("zip");
        let mut lists = axis.zip.iter();
        let Some((first, leading)) = lists.next() else { return Vec::new() };
        if leading.is_empty() {
            at.key(first).report("is empty", "at least one value");
        }
        for (path, list) in lists {
            if list.len() != leading.len() {
                let problem = format!("has {} values", list.len());
                at.key(path).report(problem, format!("{}, as many as the first list", leading.len()));
                return Vec::new();
            }
        }
        let mut steps: Vec<Step> =
            leading.iter().map(|value| Step { name: name(value), sets: Vec::new() }).collect();
        for (path, list) in &axis.zip {
            for path in self.paths(&at.key(path), path) {
                for (step, value) in steps.iter_mut().zip(list) {
                    step.sets.push((path.clone(), value.clone()));
                }
            }
        }
        steps
    }

    fn variants(&self, axis: &Axis) -> Vec<Step> {
        let at = self.at.key("variants");
        let variant = |(name, sets): (&String, &indexmap::IndexMap<String, Value>)| {
            let at = at.key(name);
            if name.is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
                at.report("is no name of a variant", "1 to 64 characters in one line");
            }
            let paths = sets.iter().flat_map(|(path, value)| {
                self.paths(&at.key(path), path).into_iter().map(move |path| (path, value.clone()))
            });
            Step { name: name.clone(), sets: paths.collect() }
        };
        axis.variants.iter().map(variant).collect()
    }
}

/// What is the same at all points of an experiment.
const THE_SAME: [&str; 13] = [
    "id",
    "paper",
    "sweep",
    "quick",
    "unknown",
    "explained",
    "survey",
    "runs",
    "seed",
    "published",
    "claims",
    "tables",
    "figures",
];

/// All that a path stands for, of what may vary.
pub(super) fn paths(tree: &Table, at: &At<'_>, path: &str) -> Vec<KeyPath> {
    let found = expand(path, tree).unwrap_or_else(|Astray { problem, allowed }| {
        at.report(problem, allowed);
        Vec::new()
    });
    let is_the_same = |path: &&KeyPath| THE_SAME.contains(&path.keys().next().unwrap_or_default());
    if let Some(path) = found.iter().find(is_the_same) {
        at.report(
            format!("{path} is the same at all points"),
            "what describes the network, traffic and trunks",
        );
    }
    found
}

/// One of a range's values, with six significant digits.
fn value_of(range: &Range, number: u32) -> Value {
    let Range { from, to, count, .. } = *range;
    let part = f64::from(number) / f64::from(count - 1);
    let value = match (number, range.spacing) {
        (0, _) => from,
        _ if number == count - 1 => to,
        (_, Spacing::Linear) => from + (to - from) * part,
        (_, Spacing::Log) => from * random::power(to / from, part),
    };
    quantity(value, range.unit.as_deref())
}

/// A number with six significant digits as a file has it.
pub(super) fn quantity(value: f64, unit: Option<&str>) -> Value {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    match unit {
        Some(unit) => Value::String(format!("{rounded} {unit}")),
        None if rounded.fract() == 0.0 && rounded.abs() < 1e15 => Value::Integer(rounded as i64),
        None => Value::Float(rounded),
    }
}
