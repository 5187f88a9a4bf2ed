//! Going round the variants of a scenario.

use std::path::PathBuf;
use std::time::Duration;

use trunkline_testbed::traffic::Stop;

use super::progress::Progress;
use super::report::{Measured, Row};
use super::variant::Variant;
use crate::cli::BenchArguments;
use crate::failure::Failure;

/// What was asked for.
pub(super) struct Bench {
    /// This program, to run gateways with.
    pub(super) binary: PathBuf,
    pub(super) stop: Stop,
    pub(super) seconds: Duration,
    pub(super) runs: u32,
    pub(super) json: bool,
    variants: Vec<String>,
}

/// One measurement: a variant under a condition, such as a loss rate.
pub(super) struct Cell<C> {
    /// What is compared with each other; empty if everything is.
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

    /// An error if variants were chosen where there are none.
    pub(super) fn no_variants(&self) -> Result<(), Failure> {
        if self.variants.is_empty() {
            return Ok(());
        }
        Err(Failure::Input("bench: the scenario cost has no variants to choose from".to_owned()))
    }

    /// Measures every cell whose variant is wanted, all of them once before any of them again. A cell takes about
    /// `time`.
    pub(super) fn run<C>(
        &self,
        cells: Vec<Cell<C>>,
        time: Duration,
        mut measure: impl FnMut(&Cell<C>) -> Result<Measured, Failure>,
    ) -> Result<Vec<Row>, Failure> {
        let cells = self.chosen(cells)?;
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

    fn chosen<C>(&self, cells: Vec<Cell<C>>) -> Result<Vec<Cell<C>>, Failure> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &cells {
            if !names.contains(&cell.variant.name.as_str()) {
                names.push(&cell.variant.name);
            }
        }
        if let Some(unknown) = self.variants.iter().find(|wanted| !names.contains(&wanted.as_str())) {
            let allowed = names.join(", ");
            return Err(Failure::Input(format!(
                "bench: there is no variant {unknown:?}; allowed: {allowed}"
            )));
        }
        let wanted = |cell: &Cell<C>| self.variants.is_empty() || self.variants.contains(&cell.variant.name);
        Ok(cells.into_iter().filter(wanted).collect())
    }
}
