//! The outcome of a scenario: figures of variants, ratios to a reference, and requirements.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value, json};

use super::run::Bench;
use super::{heading, system};
use crate::failure::Failure;

/// The variant to which ratios refer, where a group has it.
pub(super) const REFERENCE: &str = "direct";

/// A quantity that has a column in the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measure {
    /// Its name in JSON.
    pub(super) key: &'static str,
    /// Its name in the table.
    pub(super) title: &'static str,
    /// Decimals in the table.
    pub(super) decimals: usize,
    /// Whether the report has the ratio to the reference.
    pub(super) ratio: bool,
}

impl Measure {
    pub(super) const fn new(key: &'static str, title: &'static str, decimals: usize) -> Self {
        Self { key, title, decimals, ratio: false }
    }

    #[must_use]
    pub(super) const fn with_ratio(self) -> Self {
        Self { ratio: true, ..self }
    }
}

/// One run of one variant.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    /// By key. A variant omits figures that it does not have, such as drops at the edge without a gateway.
    pub(super) figures: BTreeMap<&'static str, f64>,
    /// Further values for JSON.
    pub(super) details: Map<String, Value>,
}

/// All runs of one variant under one condition.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) group: String,
    pub(super) variant: String,
    pub(super) runs: Vec<Measured>,
}

impl Row {
    pub(super) fn new(group: &str, variant: &str) -> Self {
        Self { group: group.to_owned(), variant: variant.to_owned(), runs: Vec::new() }
    }

    /// The median over the runs.
    pub(super) fn value(&self, key: &str) -> Option<f64> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| run.figures.get(key).copied()).collect();
        (!values.is_empty()).then(|| median(values))
    }

    /// The median of the ratios, each to the reference in the same run. `None` if the reference is zero in any run.
    pub(super) fn ratio(&self, key: &str, reference: &Row) -> Option<f64> {
        let mut ratios = Vec::new();
        for (run, reference) in self.runs.iter().zip(&reference.runs) {
            let base = reference.figures.get(key).filter(|base| **base > 0.0)?;
            ratios.push(run.figures.get(key)? / base);
        }
        (!ratios.is_empty()).then(|| median(ratios))
    }
}

/// The row of a variant in a group, if the run measured it.
pub(super) fn find<'r>(rows: &'r [Row], group: &str, variant: &str) -> Option<&'r Row> {
    rows.iter().find(|row| row.group == group && row.variant == variant)
}

/// The limit of a requirement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    Max(f64),
    Min(f64),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max(limit) => write!(f, "at most {}", thousandths(*limit)),
            Self::Min(limit) => write!(f, "at least {}", thousandths(*limit)),
        }
    }
}

/// A limit that a figure must meet.
#[derive(Debug, Clone)]
pub(super) struct Requirement {
    /// The figure, with its group and variant.
    pub(super) figure: String,
    pub(super) value: f64,
    pub(super) bound: Bound,
}

impl Requirement {
    pub(super) fn is_met(&self) -> bool {
        match self.bound {
            Bound::Max(limit) => self.value <= limit,
            Bound::Min(limit) => self.value >= limit,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = if self.is_met() { "met" } else { "NOT MET" };
        write!(f, "{result:<7}  {}: {:.3}, required: {}", self.figure, self.value, self.bound)
    }
}

/// The printed report of a scenario.
pub(super) struct Report<'a> {
    /// The parameters, for the heading.
    pub(super) about: String,
    pub(super) measures: &'a [Measure],
    pub(super) rows: &'a [Row],
    pub(super) requirements: Vec<Requirement>,
}

impl Report<'_> {
    /// The report as a table or, with `--json`, as JSON.
    pub(super) fn text(&self, bench: &Bench) -> Result<String, Failure> {
        if bench.json {
            let mut result = self.to_json();
            result["system"] = system(bench);
            return serde_json::to_string_pretty(&result).map_err(Failure::doing("cannot print"));
        }
        let mut text = format!("{}\n\n{}", heading(bench, &self.about), self.table());
        for requirement in &self.requirements {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{requirement}");
        }
        Ok(text)
    }

    fn ratio(&self, row: &Row, measure: Measure) -> Option<f64> {
        let reference = find(self.rows, &row.group, REFERENCE)?;
        if !measure.ratio || row.variant == REFERENCE {
            return None;
        }
        row.ratio(measure.key, reference)
    }

    fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let mut figures = Map::new();
            for measure in self.measures {
                if let Some(value) = row.value(measure.key) {
                    figures.insert(measure.key.to_owned(), rounded(value));
                }
                if let Some(ratio) = self.ratio(row, *measure) {
                    figures.insert(format!("ratio_{}", measure.key), rounded(ratio));
                }
            }
            let runs = row.runs.iter().map(|run| {
                let mut all = run.details.clone();
                all.extend(run.figures.iter().map(|(key, value)| ((*key).to_owned(), rounded(*value))));
                Value::Object(all)
            });
            json!({
                "group": row.group,
                "variant": row.variant,
                "figures": figures,
                "runs": runs.collect::<Vec<_>>(),
            })
        });
        let requirements = self.requirements.iter().map(|requirement| {
            json!({
                "figure": requirement.figure,
                "value": rounded(requirement.value),
                "bound": requirement.bound.to_string(),
                "met": requirement.is_met(),
            })
        });
        json!({
            "about": self.about,
            "rows": rows.collect::<Vec<_>>(),
            "requirements": requirements.collect::<Vec<_>>(),
        })
    }

    fn table(&self) -> String {
        let mut lines = vec![vec![String::new()]];
        lines[0].extend(self.measures.iter().map(|measure| measure.title.to_owned()));
        let mut group = "";
        for row in self.rows {
            if row.group != group {
                group = &row.group;
                lines.push(vec![format!("{group}:")]);
            }
            let mut line =
                vec![if group.is_empty() { row.variant.clone() } else { format!("  {}", row.variant) }];
            for measure in self.measures {
                let value = row.value(measure.key).map(|value| format!("{value:.*}", measure.decimals));
                let ratio = self.ratio(row, *measure).map(|ratio| format!(" ({ratio:.2})"));
                line.push(value.unwrap_or_else(|| "-".to_owned()) + &ratio.unwrap_or_default());
            }
            lines.push(line);
        }
        aligned(&lines)
    }
}

/// Aligns the first column to the left and the others to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut out = String::new();
        for (column, (field, width)) in line.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ =
                if column == 0 { write!(out, "{field:<width$}") } else { write!(out, "  {field:>width$}") };
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

/// Rounds to a thousandth, which is finer than the precision of any measurement here.
pub(super) fn rounded(value: f64) -> Value {
    Value::from(thousandths(value))
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The middle value, or the mean of the two middle values; zero without values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match (values.get(values.len().wrapping_sub(1) / 2), values.get(values.len() / 2)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURES: [Measure; 2] =
        [Measure::new("goodput", "Mbit/s", 1).with_ratio(), Measure::new("timeouts", "timeouts", 0)];

    fn row(group: &str, variant: &str, goodput: &[f64]) -> Row {
        let run =
            |value: &f64| Measured { figures: BTreeMap::from([("goodput", *value)]), details: Map::new() };
        Row { runs: goodput.iter().map(run).collect(), ..Row::new(group, variant) }
    }

    fn report(rows: &[Row], requirements: Vec<Requirement>) -> Report<'_> {
        Report { about: String::new(), measures: &MEASURES, rows, requirements }
    }

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle() {
        let results = |values: &[f64]| median(values.to_vec()).to_bits();
        assert_eq!(results(&[3.0, 1.0, 2.0]), 2.0_f64.to_bits());
        assert_eq!(results(&[4.0, 1.0, 2.0, 3.0]), 2.5_f64.to_bits());
        assert_eq!(results(&[]), 0.0_f64.to_bits());
    }

    #[test]
    fn ratios_are_to_the_reference_of_the_same_group_and_run() {
        // The machine was half as fast in the second run: the ratio of the medians would hide it.
        let rows = [
            row("loss 1 %", "direct", &[100.0, 50.0, 100.0]),
            row("loss 1 %", "trunk", &[50.0, 30.0, 70.0]),
            row("loss 3 %", "direct", &[10.0, 10.0, 10.0]),
            row("loss 3 %", "trunk", &[20.0, 20.0, 20.0]),
        ];
        let json = report(&rows, Vec::new()).to_json();
        assert_eq!(json["rows"][1]["figures"]["ratio_goodput"], 0.6);
        assert_eq!(json["rows"][3]["figures"]["ratio_goodput"], 2.0);
        assert_eq!(json["rows"][0]["figures"].get("ratio_goodput"), None);
        assert_eq!(json["rows"][1]["runs"][1]["goodput"], 30.0);
    }

    #[test]
    fn a_table_has_groups_and_a_dash_for_missing_figures() {
        let rows = [row("loss 1 %", "direct", &[100.0]), row("loss 1 %", "trunk", &[50.0])];
        let text = report(&rows, Vec::new()).table();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "                Mbit/s  timeouts",
                "loss 1 %:",
                "  direct         100.0         -",
                "  trunk    50.0 (0.50)         -"
            ]
        );
    }

    #[test]
    fn a_requirement_is_met_up_to_its_bound() {
        let at = |value, bound| Requirement { figure: "jain".to_owned(), value, bound };
        assert!(at(3.0, Bound::Max(3.0)).is_met() && !at(3.1, Bound::Max(3.0)).is_met());
        assert!(at(0.9, Bound::Min(0.9)).is_met() && !at(0.89, Bound::Min(0.9)).is_met());
        assert_eq!(at(3.1, Bound::Max(3.0)).to_string(), "NOT MET  jain: 3.100, required: at most 3");
        assert_eq!(at(0.9, Bound::Min(0.9)).to_string(), "met      jain: 0.900, required: at least 0.9");
    }
}
