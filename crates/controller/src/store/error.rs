//! Why a store cannot be used, or refuses a change.

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use trunkline_schema::Mistakes;

use super::{SCHEMA, WAIT};
use crate::plan::{Plan, PlanError};

/// Why a store cannot be used, or takes no document.
#[derive(Debug)]
pub enum StoreError {
    /// There is no such file.
    Missing(PathBuf),
    /// It is no store.
    Foreign(PathBuf),
    /// It is of a later version of this program.
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        version: i32,
    },
    /// Another process writes, and goes on for long.
    Busy(PathBuf),
    /// It cannot be read or written.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        error: rusqlite::Error,
    },
    /// It has a plan that cannot be read.
    Plan {
        /// The file.
        path: PathBuf,
        /// The revision.
        number: u64,
        /// Why.
        error: PlanError,
    },
    /// There is no such revision.
    NoRevision {
        /// The file.
        path: PathBuf,
        /// The revision.
        number: u64,
        /// The latest; 0: none.
        latest: u64,
    },
    /// The document cannot be read.
    Document(Mistakes),
    /// The document was not made from the latest revision.
    Conflict {
        /// The revision that it was made from.
        from: u64,
        /// The latest, and who applied it.
        latest: u64,
        /// Who applied the latest.
        by: String,
        /// What is different between the two.
        changed: Vec<String>,
    },
    /// The latest revision says the same.
    Same(u64),
    /// Trunks are refused.
    Refused(Box<Plan>),
    /// An invitation is none, was used, or is too old.
    Invitation(&'static str),
    /// A site has enrolled with this key already.
    KnownKey(String),
    /// There is nothing of this name.
    Unknown {
        /// What.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// There is one of this name.
    There {
        /// What.
        what: &'static str,
        /// The name.
        name: String,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Missing(path) => {
                write!(f, "{}: there is no such file; `apply --from 0` makes one", path.display())
            }
            StoreError::Foreign(path) => write!(f, "{}: is no store of a controller", path.display()),
            StoreError::Newer { path, version } => {
                let path = path.display();
                write!(
                    f,
                    "{path}: has tables of version {version}; this program knows {SCHEMA} and those before"
                )
            }
            StoreError::Busy(path) => {
                write!(f, "{}: another process writes to it, for {WAIT:?} now", path.display())
            }
            StoreError::Sqlite { path, error } => write!(f, "{}: {error}", path.display()),
            StoreError::Plan { path, number, error } => {
                write!(f, "{}: the plan of revision {number} {error}", path.display())
            }
            StoreError::NoRevision { path, number, latest: 0 } => {
                write!(f, "{}: there is no revision {number}; it has none", path.display())
            }
            StoreError::NoRevision { path, number, latest } => {
                write!(f, "{}: there is no revision {number}; allowed: 1 to {latest}", path.display())
            }
            StoreError::Document(mistakes) => mistakes.fmt(f),
            StoreError::Conflict { from, latest, by, changed } => {
                write!(f, "revision {latest}, by {by}, is later than {from}, and has changed:")?;
                changed.iter().try_for_each(|change| write!(f, "\n  {change}"))?;
                write!(f, "\nTake that into the document, then apply it from {latest}.")
            }
            StoreError::Same(number) => write!(f, "revision {number} says the same"),
            StoreError::Refused(plan) => {
                let refused = plan.refused().count();
                let trunks = trunkline_schema::count(refused, "trunk is", "trunks are");
                write!(f, "{trunks} refused; nothing was applied (`--partly` applies the rest)")
            }
            StoreError::Invitation(problem) => write!(f, "the invitation {problem}; ask for another one"),
            StoreError::KnownKey(site) => {
                write!(f, "site {site} has this public key; allowed: a key that is the site's own")
            }
            StoreError::Unknown { what, name } => write!(f, "there is no {what} {name}"),
            StoreError::There { what, name } => write!(f, "there is a {what} {name} already"),
        }
    }
}

impl std::error::Error for StoreError {}

/// What the library says of a store.
pub(super) fn failed(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::Foreign(path),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(path),
        _ => StoreError::Sqlite { path, error },
    }
}
