//! Tables: metrics over points, the paper's values beside ours.

use indexmap::{IndexMap, IndexSet};

use super::material::Material;
use super::unit::DisplayUnit;
use super::{axes, number};
use crate::catalogue::Unit;
use crate::experiment::{Row, Table};
use crate::results::{Estimate, Point, PointResult, Verdict};
use crate::verdict::Comparison;

/// A table as it is shown.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Grid {
    pub(super) title: String,
    /// Above the labels of the rows.
    pub(super) heads: Vec<String>,
    /// Above the columns, where they are values that say nothing alone.
    pub(super) across: Option<String>,
    /// Above the cells; one that is empty if there is nothing to say.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<GridRow>,
    /// Metrics, and why ours differs there.
    pub(super) reasons: Vec<(Vec<String>, String)>,
    /// It has what people ask first of traffic, not all that was measured.
    pub(super) is_extract: bool,
}

/// What people ask of their traffic first, at the end of a metric's name.
pub const FIRST_ASKED: [&str; 3] = ["goodput", "delay.mean", "lost.ratio"];

/// A row: labels, then a cell for each column.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct GridRow {
    pub(super) labels: Vec<String>,
    pub(super) cells: Vec<GridCell>,
}

/// Ours and theirs.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct GridCell {
    /// Mean and half of the interval.
    pub(super) ours: Option<(String, Option<String>)>,
    pub(super) paper: Option<Beside>,
}

/// What the paper has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Beside {
    pub(super) value: String,
    pub(super) ratio: Option<String>,
    pub(super) verdict: Verdict,
}

impl Grid {
    /// For each label of each row, whether it is the same as above and need not be said again.
    pub(super) fn repeated(&self) -> Vec<Vec<bool>> {
        let same = |row: usize, column: usize| {
            // What a row is of must stand beside it: its last label is never left out.
            column + 1 < self.heads.len()
                && row > 0
                && self.rows[row - 1].labels.get(..=column) == self.rows[row].labels.get(..=column)
        };
        (0..self.rows.len())
            .map(|row| (0..self.rows[row].labels.len()).map(|column| same(row, column)).collect())
            .collect()
    }

    /// Its first rows.
    pub(super) fn first(&self, rows: usize) -> Self {
        Self { rows: self.rows.iter().take(rows).cloned().collect(), ..self.clone() }
    }

    pub(super) fn compares(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.paper.is_some())
    }
}

/// All tables of an experiment: those of its file, or one of what traffic did; then what else the paper published.
pub(super) fn all(material: &Material) -> Vec<Grid> {
    let automatic;
    let is_extract = material.experiment.tables.is_empty();
    let tables = if is_extract {
        automatic = [of_traffic(material)];
        &automatic[..]
    } else {
        &material.experiment.tables
    };
    let mut shown = Vec::new();
    let mut grids: Vec<Grid> =
        tables.iter().map(|table| Builder { material, shown: &mut shown }.build(table)).collect();
    for grid in &mut grids {
        grid.is_extract = is_extract;
    }
    grids.extend(others(material, &shown));
    grids.retain(|grid| !grid.rows.is_empty());
    grids
}

/// What people ask first of sources of traffic; if they have none of that, everything they have.
fn of_traffic(material: &Material) -> Table {
    let traffic = &material.experiment.traffic;
    let groups: Vec<&str> =
        traffic.iter().map(|(name, spec)| spec.group.as_deref().unwrap_or(name)).chain(["all"]).collect();
    let of_a_group = |metric: &&String| groups.contains(&metric.split('.').next().unwrap_or_default());
    let first_asked = |metric: &&String| {
        let parts = metric.split_once('.');
        parts.is_some_and(|(group, quantity)| group != "all" && FIRST_ASKED.contains(&quantity))
    };
    let all: IndexSet<&String> =
        material.results.iter().flat_map(|result| result.metrics.keys().filter(of_a_group)).collect();
    let mut names: IndexSet<&String> = all.iter().copied().filter(first_asked).collect();
    if names.is_empty() {
        names = all;
    }
    let results: Vec<&PointResult> = material.results.iter().collect();
    let columns =
        axes::names(&results).into_iter().rfind(|axis| (2..=4).contains(&axes::values(&results, axis).len()));
    Table {
        title: "What the traffic got".into(),
        metrics: names
            .into_iter()
            .map(|metric| Row { metric: metric.clone(), label: None, unit: None })
            .collect(),
        columns,
        by: None,
        at: IndexMap::new(),
    }
}

/// The unit of a metric in a table or a plot: as the file says, as the paper has it, or one that fits.
pub(super) fn unit_of(row: &Row, material: &Material, results: &[&PointResult]) -> DisplayUnit {
    let base = Unit::of(&row.metric);
    let published =
        || material.judgement.comparisons.iter().find(|cell| cell.metric == row.metric)?.unit.as_deref();
    row.unit.as_deref().or_else(published).and_then(|name| base.unit(name)).unwrap_or_else(|| {
        base.fitting(results.iter().filter_map(|result| Some(result.metrics.get(&row.metric)?.mean)))
    })
}

/// What a metric is called.
pub(super) fn label_of(row: &Row) -> &str {
    row.label.as_deref().unwrap_or(&row.metric)
}

fn ours(estimate: &Estimate, unit: &DisplayUnit) -> GridCell {
    let shown = |value| unit.show(value);
    GridCell {
        ours: Some(number::with_interval(shown(estimate.mean), estimate.ci95.map(shown))),
        paper: None,
    }
}

fn beside(cell: &Comparison, unit: &DisplayUnit) -> Beside {
    Beside {
        value: number::as_published(unit.show(cell.paper)),
        ratio: cell.ratio.map(number::ratio),
        verdict: cell.verdict,
    }
}

struct Builder<'a, 'b> {
    material: &'a Material<'a>,
    /// Published values that are in a table already.
    shown: &'b mut Vec<(String, Point)>,
}

impl Builder<'_, '_> {
    fn build(mut self, table: &Table) -> Grid {
        let experiment = self.material.experiment;
        let results = axes::at(self.material.results, &table.at);
        let column_values =
            table.columns.as_ref().map(|axis| axes::values(&results, axis)).unwrap_or_default();
        let by = row_axes(table, &results);
        let units: Vec<DisplayUnit> =
            table.metrics.iter().map(|row| unit_of(row, self.material, &results)).collect();
        // One metric over an axis: the metric goes into the heading.
        let alone = match table.metrics.as_slice() {
            [row] if !by.is_empty() => Some(format!("{}{}", label_of(row), units[0].behind())),
            _ => None,
        };
        let mut grid = Grid {
            title: match (&alone, table.metrics.first()) {
                (Some(metric), Some(row)) if label_of(row).eq_ignore_ascii_case(&table.title) => {
                    metric.clone()
                }
                // A heading that names the metric already lacks its unit only.
                (Some(_), Some(row)) if names(&table.title, label_of(row)) => {
                    format!("{}{}", table.title, units[0].behind())
                }
                (Some(metric), _) => format!("{}: {metric}", table.title),
                (None, _) => table.title.clone(),
            },
            heads: by.iter().map(|axis| axes::label(experiment, axis)).collect(),
            columns: match &table.columns {
                Some(_) => column_values.iter().map(|value| axes::shown(value)).collect(),
                None => vec![String::new()],
            },
            across: (table.columns.as_ref())
                .filter(|_| column_values.iter().any(|value| axes::is_bare(value)))
                .map(|axis| axes::label(experiment, axis)),
            ..Grid::default()
        };
        if alone.is_none() {
            grid.heads.push("Metric".into());
        }
        for (part, members) in axes::groups(&results, &by) {
            for (row, unit) in table.metrics.iter().zip(&units) {
                let mut labels: Vec<String> = by
                    .iter()
                    .map(|axis| part.get(axis).map(|value| axes::shown(value)).unwrap_or_default())
                    .collect();
                if alone.is_none() {
                    labels.push(format!("{}{}", label_of(row), unit.behind()));
                }
                let cells: Vec<GridCell> = if let Some(axis) = &table.columns {
                    let column =
                        |value: &String| members.iter().find(|result| result.point.get(axis) == Some(value));
                    column_values
                        .iter()
                        .map(|value| self.cell(column(value).copied(), row, unit, &mut grid))
                        .collect()
                } else {
                    vec![self.cell(members.first().copied(), row, unit, &mut grid)]
                };
                if cells.iter().any(|cell| *cell != GridCell::default()) {
                    grid.rows.push(GridRow { labels, cells });
                }
            }
        }
        grid
    }

    fn cell(
        &mut self,
        result: Option<&PointResult>,
        row: &Row,
        unit: &DisplayUnit,
        grid: &mut Grid,
    ) -> GridCell {
        let Some(result) = result else { return GridCell::default() };
        let mut cell =
            result.metrics.get(&row.metric).map_or_else(GridCell::default, |estimate| ours(estimate, unit));
        if let Some(comparison) = self.material.comparison(&row.metric, &result.point) {
            cell.paper = Some(beside(comparison, unit));
            self.shown.push((row.metric.clone(), result.point.clone()));
            reason(grid, label_of(row), comparison);
        }
        cell
    }
}

/// Why ours differs, once for all metrics that have the same reason.
fn reason(grid: &mut Grid, label: &str, comparison: &Comparison) {
    if let (Some(why), true) = (&comparison.why, comparison.verdict != Verdict::Holds) {
        match grid.reasons.iter_mut().find(|(_, known)| known == why) {
            Some((labels, _)) if labels.iter().any(|known| known == label) => {}
            Some((labels, _)) => labels.push(label.to_owned()),
            None => grid.reasons.push((vec![label.to_owned()], why.clone())),
        }
    }
}

/// Whether a heading has the words of a label, one after another.
fn names(title: &str, label: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words =
            text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let (title, label) = (words(title), words(label));
    !label.is_empty() && title.windows(label.len()).any(|part| part == label)
}

/// The axes that are rows: those asked for, and any other that would put several points into one cell.
fn row_axes(table: &Table, results: &[&PointResult]) -> Vec<String> {
    let mut by = table.by.clone().unwrap_or_default();
    for axis in axes::names(results) {
        let free = !by.contains(&axis) && table.columns.as_ref() != Some(&axis);
        if free && axes::values(results, &axis).len() > 1 {
            by.push(axis);
        }
    }
    by
}

/// Published values that no table has.
fn others(material: &Material, shown: &[(String, Point)]) -> Option<Grid> {
    let mut grid = Grid {
        title: "What else the paper has".into(),
        heads: vec!["Metric".into(), "Point".into()],
        columns: vec![String::new()],
        ..Grid::default()
    };
    for cell in &material.judgement.comparisons {
        if shown.iter().any(|(metric, point)| *metric == cell.metric && *point == cell.point) {
            continue;
        }
        let base = Unit::of(&cell.metric);
        let unit = cell
            .unit
            .as_deref()
            .and_then(|name| base.unit(name))
            .unwrap_or_else(|| base.fitting([cell.paper]));
        let mut shown = cell.ours.as_ref().map_or_else(GridCell::default, |estimate| ours(estimate, &unit));
        shown.paper = Some(beside(cell, &unit));
        reason(&mut grid, &cell.metric, cell);
        let labels = vec![
            format!("{}{}", cell.metric, unit.behind()),
            axes::point_label(material.experiment, &cell.point),
        ];
        grid.rows.push(GridRow { labels, cells: vec![shown] });
    }
    (!grid.rows.is_empty()).then_some(grid)
}
