//! From an experiment to what is run: the points of its sweep, each resolved and checked.

mod ask;
mod check;
mod context;
mod general;
mod graph;
mod keys;
mod link;
mod names;
mod paths;
mod proxy;
mod resolve;
mod sweep;
mod tcp;
mod traffic;
mod trunk;
mod unknown;
mod variation;
mod way;

use toml::Table;

use crate::experiment::Experiment;
use crate::language::Axes;
use crate::results::Point;
use resolve::Resolved;
use trunkline_engine::catalogue;
use trunkline_engine::scenario::Scenario;
use trunkline_schema::{Finding, Findings, KeyPath, read};

pub(crate) use unknown::{MAX_SETTINGS, Setting, Space, space};

/// The most points of a sweep.
pub const MAX_POINTS: usize = 100_000;
/// Points with mistakes after which no more are looked at.
const MAX_BAD: usize = 20;

/// A point of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Where in the sweep.
    pub point: Point,
    /// What is run there.
    pub scenario: Scenario,
}

/// A mistake, and the point of the sweep that brings it about.
type Found = (Finding, Option<String>);

/// Every point of an experiment, of which `tree` is the document.
pub(crate) fn plan(experiment: &Experiment, tree: &Table) -> Result<Vec<Planned>, Vec<Found>> {
    let findings = Findings::new(tree);
    general::check(experiment, &findings.root());
    let axes = sweep::axes(experiment, tree, &findings);
    space(experiment, tree, &findings);
    let points = axes.points(&findings);
    let mut planned = Vec::with_capacity(points);
    let mut bad = Bad::default();
    bad.found.extend(findings.into_found().0.into_iter().map(|finding| (finding, None)));
    let mut useless: Option<Vec<Finding>> = None;
    for number in 0..points {
        let (point, resolved) = if axes.is_empty() {
            (Point::new(), resolve::scenario(experiment, tree))
        } else {
            let (point, changed) = axes.point(number, tree);
            (point, changed.map_or_else(Resolved::from, |changed| resolve(&changed)))
        };
        useless = Some(match useless.take() {
            None => resolved.misplaced,
            Some(known) => known.into_iter().filter(|one| resolved.misplaced.contains(one)).collect(),
        });
        match resolved.scenario {
            Ok(scenario) => planned.push(Planned { point, scenario }),
            Err(found) => bad.add(&point, found, || mistakes_of(tree)),
        }
        if bad.points >= MAX_BAD {
            break;
        }
    }
    // What is of use at one point is no mistake.
    bad.found.extend(useless.unwrap_or_default().into_iter().map(|finding| (finding, None)));
    if bad.found.is_empty() { Ok(planned) } else { Err(bad.found) }
}

fn resolve(tree: &Table) -> Resolved {
    read(tree).map_or_else(Resolved::from, |experiment: Experiment| resolve::scenario(&experiment, tree))
}

impl From<Vec<Finding>> for Resolved {
    fn from(found: Vec<Finding>) -> Self {
        Resolved { scenario: Err(found), misplaced: Vec::new() }
    }
}

/// The axis that sets all of some paths whatever its value, and the keys that say what it sets them to.
pub(crate) fn swept(experiment: &Experiment, tree: &Table, paths: &[KeyPath]) -> Option<(String, KeyPath)> {
    let axes = sweep::axes(experiment, tree, &Findings::new(tree));
    let mut all = paths.iter().map(|path| axes.always_sets(path));
    let first = all.next()??;
    if !all.all(|axis| axis.is_some()) {
        return None;
    }
    let axis = experiment.sweep.get(first)?;
    let key = match axis {
        _ if axis.range.is_some() => "range",
        _ if !axis.zip.is_empty() => "zip",
        _ if !axis.variants.is_empty() => "variants",
        _ => "values",
    };
    Some((first.to_owned(), KeyPath::default().key("sweep").key(first).key(key)))
}

/// The axes of a sweep, and what their values are called.
pub(crate) fn axes(experiment: &Experiment, tree: &Table) -> Axes {
    sweep::axes(experiment, tree, &Findings::new(tree)).names()
}

/// An experiment as it was written, and what is planned of it, if it can be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) tree: &'a Table,
    pub(crate) planned: Option<&'a [Planned]>,
}

impl<'a> Asked<'a> {
    fn scenarios(self) -> impl Iterator<Item = &'a Scenario> {
        self.planned.unwrap_or_default().iter().map(|planned| &planned.scenario)
    }
}

/// What is wrong with what an experiment asks of its results. What they will have is known of its points, if those can be. Of what
/// `before` has, and it has no more, it may speak: axes and values of its sweep, and what its points measure.
pub(crate) fn mistakes_of_asking(now: Asked<'_>, before: Option<Asked<'_>>) -> Vec<Finding> {
    let known = now.planned.map(|_| {
        let scenarios = before.into_iter().chain([now]).flat_map(Asked::scenarios);
        catalogue::known(scenarios)
    });
    ask::check(now, before, known.as_ref())
}

/// What is wrong with a document whatever its sweep.
pub(crate) fn mistakes_of(tree: &Table) -> Vec<Finding> {
    let Resolved { scenario, misplaced } = resolve(tree);
    scenario.err().into_iter().flatten().chain(misplaced).collect()
}

/// Points that cannot be.
#[derive(Default)]
struct Bad {
    points: usize,
    /// What is wrong without any point.
    base: Option<Vec<Finding>>,
    found: Vec<Found>,
}

impl Bad {
    fn add(&mut self, point: &Point, findings: Vec<Finding>, base: impl FnOnce() -> Vec<Finding>) {
        self.points += 1;
        let base = self.base.get_or_insert_with(base);
        for finding in findings {
            if self.found.iter().all(|(known, _)| *known != finding) {
                let at: Vec<_> = point.iter().map(|(axis, value)| format!("{axis} = {value}")).collect();
                let origin =
                    (!at.is_empty() && !base.contains(&finding)).then(|| format!("at {}", at.join(", ")));
                self.found.push((finding, origin));
            }
        }
    }
}

/// A mistake at a key.
fn finding(path: KeyPath, problem: String, allowed: String) -> Finding {
    Finding { path, problem, allowed: Some(allowed) }
}
