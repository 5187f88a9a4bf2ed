//! Tables: metrics over points, the paper's values beside ours.

use indexmap::{IndexMap, IndexSet};

use super::document::{self, Align, plain};
use super::material::Material;
use super::survivors::{self, MARK, Survivors};
use super::unit::{DisplayUnit, base_unit};
use super::{axes, number, sign};
use crate::experiment::{Experiment, Row, Table};
use crate::results::{Estimate, PointResult, Verdict};
use crate::verdict::Comparison;

/// A table as it is shown.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Grid {
    pub(super) title: String,
    /// Above the labels of the rows.
    pub(super) heads: Vec<String>,
    /// Above the cells.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<GridRow>,
    /// Why ours differs, and in which metrics.
    pub(super) reasons: IndexMap<String, IndexSet<String>>,
    /// What is said of values of completed transfers alone.
    pub(super) survivors: Option<String>,
    /// It has what people ask first of traffic, not all that was measured.
    pub(super) is_extract: bool,
}

/// Whether a metric is what people ask of a source of traffic first.
pub fn is_asked_first(metric: &str) -> bool {
    let parts = metric.split_once('.').filter(|(group, _)| *group != "all");
    parts.is_some_and(|(_, quantity)| ["goodput", "delay.mean", "lost.ratio"].contains(&quantity))
}

/// A row: labels, then a cell for each column.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct GridRow {
    pub(super) labels: Vec<String>,
    pub(super) cells: Vec<String>,
}

impl Grid {
    /// Its first rows as Markdown.
    pub(super) fn markdown(&self, rows: usize) -> String {
        let heads: Vec<String> = self.heads.iter().chain(&self.columns).map(|head| plain(head)).collect();
        let first = &self.rows[..rows.min(self.rows.len())];
        let row = |(number, row): (usize, &GridRow)| -> Vec<String> {
            let above = number.checked_sub(1).map(|above| &first[above].labels);
            let label = |(column, label): (usize, &String)| {
                // What a row is of must stand beside it: its last label is said again where it is the same as above.
                let may_lack = column + 1 < self.heads.len();
                let repeated = above.is_some_and(|above| above[..=column] == row.labels[..=column]);
                if may_lack && repeated { String::new() } else { plain(label) }
            };
            row.labels.iter().enumerate().map(label).chain(row.cells.iter().cloned()).collect()
        };
        let shown: Vec<Vec<String>> = first.iter().enumerate().map(row).collect();
        let aligns = [vec![Align::Left; self.heads.len()], vec![Align::Right; self.columns.len()]].concat();
        document::table(&heads, &shown, &aligns)
    }
}

/// All tables of an experiment: those of its file, or one of what traffic did; then what else the paper published.
pub(super) fn all(material: &Material) -> Vec<Grid> {
    let mut tables = material.experiment.tables.clone();
    if tables.is_empty() {
        tables.push(of_traffic(material));
    }
    let grids = tables.iter().map(|table| build(table, material)).chain([others(material, &tables)]);
    grids.filter(|grid| !grid.rows.is_empty()).collect()
}

/// What people ask first of sources of traffic; if they have none of that, everything they have.
fn of_traffic(material: &Material) -> Table {
    let traffic = &material.experiment.traffic;
    let groups: Vec<&str> =
        traffic.iter().map(|(name, spec)| spec.group.as_deref().unwrap_or(name)).chain(["all"]).collect();
    let of_a_group = |metric: &&String| groups.contains(&metric.split('.').next().unwrap_or_default());
    let all: IndexSet<&String> =
        material.results.iter().flat_map(|result| result.metrics.keys().filter(of_a_group)).collect();
    let mut names: IndexSet<&String> = all.iter().copied().filter(|metric| is_asked_first(metric)).collect();
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
    let base = base_unit(&row.metric);
    row.unit
        .as_deref()
        .or_else(|| material.published_unit(&row.metric))
        .and_then(|name| DisplayUnit::named(base, name))
        .unwrap_or_else(|| {
            DisplayUnit::fitting(
                base,
                results.iter().filter_map(|result| Some(result.metrics.get(&row.metric)?.mean)),
            )
        })
}

/// What a metric is called.
pub(super) fn label_of(row: &Row) -> &str {
    row.label.as_deref().unwrap_or(&row.metric)
}

/// A value of ours.
struct Ours<'a> {
    estimate: &'a Estimate,
    /// It is of completed transfers, and too many did not complete.
    is_of_few: bool,
}

impl<'a> Ours<'a> {
    fn of(metric: &str, result: &'a PointResult) -> Option<Self> {
        let is_of_few = Survivors::too_few(metric, result).is_some();
        Some(Self { estimate: result.metrics.get(metric)?, is_of_few })
    }
}

/// Ours, and the paper's beside it; none if there is neither.
fn cell(ours: Option<Ours>, paper: Option<&Comparison>, unit: &DisplayUnit) -> Option<String> {
    let shown = |value| unit.show(value);
    let ours = ours
        .map(|Ours { estimate, is_of_few }| {
            let mark = if is_of_few { format!(" {MARK}") } else { String::new() };
            number::with_interval(shown(estimate.mean), estimate.ci95.map(shown)) + &mark
        })
        .or_else(|| paper.map(|_| MISSING.to_owned()))?;
    let Some(cell) = paper else { return Some(ours) };
    let ratio = cell.ratio.map(|ratio| format!(", {}", number::ratio(ratio))).unwrap_or_default();
    let sign = if cell.calibrated { ", calibrated" } else { sign(cell.verdict) };
    let space = if cell.calibrated { "" } else { " " };
    Some(format!("{ours} (paper {}{ratio}{space}{sign})", number::as_published(shown(cell.paper))))
}

/// Above the only column.
const OURS: &str = "ours";
/// In place of a value that is not there.
const MISSING: &str = "–";

fn build(table: &Table, material: &Material) -> Grid {
    let experiment = material.experiment;
    let results = axes::at(material.results, &table.at);
    let column_values = table.columns.as_ref().map(|axis| axes::values(&results, axis)).unwrap_or_default();
    let by = axes::telling(&results, table.by.as_deref(), table.columns.as_deref());
    let units: Vec<DisplayUnit> = table.metrics.iter().map(|row| unit_of(row, material, &results)).collect();
    // One metric over an axis: the metric goes into the heading.
    let alone = match table.metrics.as_slice() {
        [row] if !by.is_empty() => Some(format!("{}{}", label_of(row), units[0].behind())),
        _ => None,
    };
    let mut grid = Grid {
        title: match (&alone, table.metrics.first()) {
            (Some(metric), Some(row)) if label_of(row).eq_ignore_ascii_case(&table.title) => metric.clone(),
            // A heading that names the metric already lacks its unit only.
            (Some(_), Some(row)) if names(&table.title, label_of(row)) => {
                format!("{}{}", table.title, units[0].behind())
            }
            (Some(metric), _) => format!("{}: {metric}", table.title),
            (None, _) => table.title.clone(),
        },
        heads: by.iter().map(|axis| axes::label(experiment, axis)).collect(),
        columns: match &table.columns {
            // Values that say nothing alone.
            Some(axis) if column_values.iter().any(|value| axes::is_bare(value)) => {
                let label = axes::label(experiment, axis);
                column_values.iter().map(|value| format!("{label}: {}", axes::shown(value))).collect()
            }
            Some(_) => column_values.iter().map(|value| axes::shown(value)).collect(),
            None => vec![OURS.to_owned()],
        },
        survivors: survivors::note(experiment, table.metrics.iter().map(|row| row.metric.as_str()), &results),
        is_extract: experiment.tables.is_empty(),
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
            let results: Vec<Option<&PointResult>> = match &table.columns {
                Some(axis) => column_values
                    .iter()
                    .map(|value| members.iter().copied().find(|result| result.point.get(axis) == Some(value)))
                    .collect(),
                None => vec![members.first().copied()],
            };
            let cell = |result: Option<&PointResult>| {
                let paper = material.comparison(&row.metric, &result?.point);
                if let Some(paper) = paper {
                    reason(&mut grid, label_of(row), paper);
                }
                cell(Ours::of(&row.metric, result?), paper, unit)
            };
            let cells: Vec<Option<String>> = results.into_iter().map(cell).collect();
            if cells.iter().any(Option::is_some) {
                let shown = |cell: Option<String>| cell.unwrap_or_else(|| MISSING.to_owned());
                grid.rows.push(GridRow { labels, cells: cells.into_iter().map(shown).collect() });
            }
        }
    }
    grid
}

/// Why ours differs, once for all metrics that have the same reason.
fn reason(grid: &mut Grid, label: &str, comparison: &Comparison) {
    if let (Some(why), true) = (&comparison.why, comparison.verdict != Verdict::Holds) {
        grid.reasons.entry(why.clone()).or_default().insert(label.to_owned());
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

/// What a published metric or ratio is called.
pub(super) fn published_name<'a>(experiment: &'a Experiment, what: &'a str) -> &'a str {
    let rows = || experiment.tables.iter().flat_map(|table| &table.metrics);
    let row = || rows().find(|row| row.metric == what).and_then(|row| row.label.as_deref());
    let own = experiment.published.iter().find(|published| published.what() == what);
    own.and_then(|published| published.label.as_deref()).or_else(row).unwrap_or(what)
}

/// Where a published value is; a ratio is of several points.
fn point_label(experiment: &Experiment, cell: &Comparison) -> String {
    let is_ratio = cell.point.is_empty() && !experiment.sweep.is_empty();
    if is_ratio { MISSING.to_owned() } else { axes::point_label(experiment, &cell.point) }
}

/// Published values that no table has.
fn others(material: &Material, tables: &[Table]) -> Grid {
    let mut grid = Grid {
        title: "What else the paper has".into(),
        heads: vec!["Metric".into(), "Point".into()],
        columns: vec![OURS.to_owned()],
        ..Grid::default()
    };
    let shows = |table: &Table, cell: &Comparison| {
        table.metrics.iter().any(|row| row.metric == cell.metric)
            && axes::at(material.results, &table.at).iter().any(|result| result.point == cell.point)
    };
    for cell in material.comparisons().filter(|cell| !tables.iter().any(|table| shows(table, cell))) {
        let base = base_unit(&cell.metric);
        let unit = cell
            .unit
            .as_deref()
            .and_then(|name| DisplayUnit::named(base, name))
            .unwrap_or_else(|| DisplayUnit::fitting(base, [cell.paper]));
        let name = published_name(material.experiment, &cell.metric);
        reason(&mut grid, name, cell);
        let labels = vec![format!("{name}{}", unit.behind()), point_label(material.experiment, cell)];
        let ours = cell.ours.as_ref().map(|estimate| Ours { estimate, is_of_few: false });
        let cells = self::cell(ours, Some(cell), &unit).into_iter().collect();
        grid.rows.push(GridRow { labels, cells });
    }
    grid
}
