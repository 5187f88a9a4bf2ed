//! Runs the variants of a scenario in turn.

use std::path::PathBuf;
use std::time::Duration;

use trunkline_testbed::traffic::Stop;

use super::progress::Progress;
use super::report::{Measured, Row};
use super::variant::Variant;
use crate::cli::BenchArguments;
use crate::failure::Failure;

/// The arguments of a run.
pub(super) struct Bench {
    /// This program, which runs as the gateways.
    pub(super) binary: PathBuf,
    pub(super) stop: Stop,
    pub(super) seconds: Duration,
    pub(super) runs: u32,
    pub(super) json: bool,
    variants: Vec<String>,
}

/// One measurement: a variant under a condition, such as a loss rate.
pub(super) struct Cell<C> {
    /// Cells of one group are compared with each other; empty if there is one group only.
    pub(super) group: String,
    pub(super) variant: Variant,
    pub(super) condition: C,
}

impl Bench {
    pub(super) fn new(arguments: &BenchArguments, seconds: u32, stop: Stop) -> Result<Self, Failure> {
        Ok(Self {
            binary: std::env::current_exe().map_err(Failure::doing("cannot find this program"))?,
            stop,
            seconds: Duration::from_secs(arguments.seconds.unwrap_or(seconds).into()),
            runs: arguments.runs,
            json: arguments.json,
            variants: arguments.variant.clone(),
        })
    }

    /// An error if the user selected variants of a scenario that has none.
    pub(super) fn no_variants(&self) -> Result<(), Failure> {
        if self.variants.is_empty() {
            return Ok(());
        }
        Err(Failure::Input("bench: the scenario cost has no variants: remove --variant".to_owned()))
    }

    /// Measures every selected cell once in each run. A cell takes about `time`.
    pub(super) fn run<C>(
        &self,
        cells: Vec<Cell<C>>,
        time: Duration,
        mut measure: impl FnMut(&Cell<C>) -> Result<Measured, Failure>,
    ) -> Result<Vec<Row>, Failure> {
        let cells = self.select(cells)?;
        let mut progress = Progress::new(time * cells.len() as u32 * self.runs);
        let mut rows: Vec<Row> = cells.iter().map(|cell| Row::new(&cell.group, &cell.variant.name)).collect();
        for number in 1..=self.runs {
            for (cell, row) in cells.iter().zip(&mut rows) {
                let group = if cell.group.is_empty() { String::new() } else { format!("{}, ", cell.group) };
                let what = format!("run {number} of {}, {group}{}", self.runs, cell.variant.name);
                progress.begin(&what, time);
                let measured = measure(cell).map_err(|failure| match failure {
                    Failure::Other(text) => Failure::Other(format!("{group}{}: {text}", cell.variant.name)),
                    failure => failure,
                })?;
                row.runs.push(measured);
            }
        }
        Ok(rows)
    }

    fn select<C>(&self, cells: Vec<Cell<C>>) -> Result<Vec<Cell<C>>, Failure> {
        if let Some(unknown) = self.variants.iter().find(|word| !cells.iter().any(|cell| cell.matches(word)))
        {
            let mut names: Vec<&str> = Vec::new();
            for name in cells.iter().flat_map(|cell| [cell.variant.name.as_str(), cell.group.as_str()]) {
                if !name.is_empty() && !names.contains(&name) {
                    names.push(name);
                }
            }
            let allowed = names.join("; ");
            return Err(Failure::Input(format!(
                "bench: there is no variant {unknown:?}; allowed, alone or as GROUP:VARIANT: {allowed}"
            )));
        }
        let selected =
            |cell: &Cell<C>| self.variants.is_empty() || self.variants.iter().any(|word| cell.matches(word));
        Ok(cells.into_iter().filter(selected).collect())
    }
}

impl<C> Cell<C> {
    /// Whether `word` is the name of its variant, of its group, or `GROUP:VARIANT`.
    fn matches(&self, word: &str) -> bool {
        let (group, variant) = (self.group.as_str(), self.variant.name.as_str());
        word == variant || word == group || word.split_once(':') == Some((group, variant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(variants: &[&str]) -> Bench {
        Bench {
            binary: PathBuf::new(),
            stop: Stop::new(),
            seconds: Duration::ZERO,
            runs: 1,
            json: false,
            variants: variants.iter().map(ToString::to_string).collect(),
        }
    }

    fn chosen(variants: &[&str]) -> Result<Vec<(String, String)>, Failure> {
        let cells = ["cubic", "reno"].into_iter().flat_map(|group| {
            let cell = |variant| Cell { group: group.to_owned(), variant, condition: () };
            [cell(Variant::direct()), cell(Variant::defaults())]
        });
        let chosen = bench(variants).select(cells.collect())?;
        Ok(chosen.into_iter().map(|cell| (cell.group, cell.variant.name)).collect())
    }

    #[test]
    fn cells_are_selected_by_variant_by_group_or_by_both() {
        let names = |variants| chosen(variants).expect("known names").len();
        assert_eq!(
            (names(&[]), names(&["direct"]), names(&["reno"]), names(&["direct", "reno"])),
            (4, 2, 2, 3)
        );
        assert_eq!(chosen(&["reno:default"]).expect("known"), [("reno".to_owned(), "default".to_owned())]);
    }

    #[test]
    fn the_error_about_a_wrong_name_lists_the_allowed_ones() {
        let Err(Failure::Input(text)) = chosen(&["bbr:default"]) else { panic!("it is refused as input") };
        assert!(text.contains("\"bbr:default\"") && text.contains("direct; cubic; default; reno"), "{text}");
    }
}
