//! The results that a condition is about, by point.

use indexmap::IndexMap;
use trunkline_engine::catalogue::Unit;

use super::{Axes, Metrics};
use crate::experiment::Average;
use crate::results::{Estimate, Point, PointResult, Refusal};

/// Metrics of every point of a sweep.
pub struct Table<'a> {
    axes: Axes,
    /// By the values' places on the axes.
    points: IndexMap<Vec<usize>, &'a PointResult>,
    /// Why an engine cannot be a point that has no result.
    refused: IndexMap<Vec<usize>, &'a str>,
    units: &'a Metrics<'a>,
    /// What stands for a metric's values in the runs of a point.
    average: Average,
}

impl<'a> Table<'a> {
    /// Of an experiment's results. Axes take their order from its points in the order of its sweep, be there a result of each or not.
    /// `units` knows metrics' units.
    pub fn new<'p>(
        points: impl IntoIterator<Item = &'p Point>,
        results: &'a [PointResult],
        units: &'a Metrics<'a>,
    ) -> Self {
        let axes = axes(points);
        let points = results.iter().map(|result| (place(&axes, &result.point), result)).collect();
        Table { axes, points, refused: IndexMap::new(), units, average: Average::Mean }
    }

    /// With the points that the engine cannot be.
    #[must_use]
    pub fn without(mut self, refused: &'a [Refusal]) -> Self {
        let places = refused.iter().map(|refusal| (place(&self.axes, &refusal.point), refusal.why.as_str()));
        self.refused = places.collect();
        self
    }

    /// With the mean or the median of each point's runs.
    #[must_use]
    pub fn over_runs(self, average: Average) -> Self {
        Table { average, ..self }
    }

    /// Its axes.
    pub fn axes(&self) -> &Axes {
        &self.axes
    }

    pub(super) fn unit(&self, metric: &str) -> Option<Unit> {
        (self.units)(metric).ok().flatten()
    }

    /// A metric at a point, or why there is none.
    pub(super) fn value(&self, metric: &str, place: &[usize]) -> Result<f64, String> {
        let Some(result) = self.points.get(place) else {
            let at = self.at(place.iter().copied().map(Some));
            return Err(match self.refused.get(place) {
                Some(why) => format!("not on this engine{at}: {why}"),
                None => format!("there is no result{at}"),
            });
        };
        let average = |estimate: &Estimate| match self.average {
            Average::Mean => estimate.mean,
            Average::Median => estimate.median,
        };
        let value = result.metrics.get(metric).map(average);
        value.ok_or_else(|| format!("{metric} has no value{}", self.at(place.iter().copied().map(Some))))
    }

    /// `2 of 5 runs`, of a metric that not all runs of a point have.
    pub(super) fn part(&self, metric: &str, place: &[usize]) -> Option<(u32, String)> {
        let result = self.points.get(place)?;
        let some = result.metrics.get(metric)?.runs?;
        Some((some, format!("{some} of {} runs", result.runs)))
    }

    /// ` at flows=60, trunks=with`, of axes that have a place; nothing if none has.
    pub(super) fn at(&self, places: impl Iterator<Item = Option<usize>>) -> String {
        let name = |((axis, values), place): ((&String, &Vec<String>), Option<usize>)| {
            Some(format!("{axis}={}", values.get(place?)?))
        };
        let names: Vec<_> = self.axes.iter().zip(places).filter_map(name).collect();
        if names.is_empty() { String::new() } else { format!(" at {}", names.join(", ")) }
    }
}

/// The axes of points that are in the order of their sweep.
pub(crate) fn axes<'p>(points: impl IntoIterator<Item = &'p Point>) -> Axes {
    let mut axes = Axes::new();
    for (axis, value) in points.into_iter().flatten() {
        let values = axes.entry(axis.clone()).or_default();
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    axes
}

/// A point's place on each axis.
fn place(axes: &Axes, point: &Point) -> Vec<usize> {
    let value = |(axis, values): (&String, &Vec<String>)| {
        let value = point.get(axis);
        values.iter().position(|other| Some(other) == value).unwrap_or(usize::MAX)
    };
    axes.iter().map(value).collect()
}
