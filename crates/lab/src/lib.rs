//! The laboratory: an experiment is a file, a run of it is a function of the file and a seed, and a report is a function of the
//! runs.
//!
//! ```text
//!  FILE ──▶ experiment ──▶ points of the sweep ──▶ scenario ──▶ engine ──▶ runs ──▶ statistics, claims ──▶ report
//!           (what is        (values set by          (checked,    (sim or             (mean, interval,
//!            written)        path)                   resolved)    testbed)            verdicts)
//! ```
//!
//! What is on the left of `engine` knows nothing of what carries it out; what is on the right sees only numbers with names.

pub mod advise;
pub mod agree;
pub mod campaign;
pub mod catalogue;
pub mod document;
pub mod engine;
pub mod experiment;
pub mod language;
pub mod number;
pub mod plan;
pub mod report;
pub mod results;
pub mod scenario;
pub mod schema;
pub mod site;
pub mod statistics;
pub mod store;
pub mod swept;
mod threads;
pub mod verdict;

pub use trunkline_schema::quantity;
pub use trunkline_tcp::CongestionAlgorithm;

/// The version in every result: the program's, and the commit that it is built of, where that is known.
pub const VERSION: &str = env!("TRUNKLINE_LAB_VERSION");

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn the_version_has_the_commit() {
        let rest = super::VERSION.strip_prefix(env!("CARGO_PKG_VERSION")).expect("the number first");
        let git = |arguments: &[&str]| {
            let here = env!("CARGO_MANIFEST_DIR");
            let output = Command::new("git").args(arguments).current_dir(here).output();
            output.is_ok_and(|output| output.status.success())
        };
        if !git(&["rev-parse", "HEAD"]) {
            assert_eq!(rest, "", "no checkout");
            return;
        }
        let commit = rest.strip_prefix('+').expect("a commit");
        let commit = commit.strip_suffix("-dirty").unwrap_or(commit);
        assert!(commit.len() >= 7 && git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]), "{commit}");
    }
}
