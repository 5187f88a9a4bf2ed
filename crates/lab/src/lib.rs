//! The laboratory: an experiment is a file, a run of it is a function of the file and a seed, and a report is a function of the
//! runs.
//!
//! ```text
//!  FILE ──▶ experiment ──▶ points of the sweep ──▶ scenario ──▶ engine ──▶ runs ──▶ statistics, claims ──▶ report
//!           (what is        (values set by          (checked,    (sim or             (mean, interval,
//!            written)        path)                   resolved)    testbed)            verdicts)
//! ```
//!
//! Crate `engine` has the scenario, the engines and the metrics. What is on the left of it knows nothing of what carries it out; what is on the right sees only numbers with names.

pub mod advise;
pub mod agree;
pub mod campaign;
pub mod document;
pub mod embedded;
pub mod experiment;
pub mod explain;
pub mod import;
pub mod language;
pub mod number;
pub mod plan;
pub mod report;
pub mod results;
pub mod schema;
pub mod statistics;
pub mod store;
pub mod survey;
pub mod swept;
mod threads;
pub mod verdict;

pub use trunkline_schema::quantity;
pub use trunkline_tcp::CongestionAlgorithm;

/// The version in every result: the program's, and the commit that it is built of, where that is known.
pub const VERSION: &str = env!("TRUNKLINE_LAB_VERSION");
