//! Why a store cannot be used, or refuses a change.

use std::fmt;

use trunkline_schema::Mistakes;

use super::place::Place;
use super::value::{DatabaseError, SCHEMA, WAIT};
use crate::plan::{Plan, PlanError};

/// Why a store cannot be used, or takes no document.
#[derive(Debug)]
pub enum StoreError {
    /// There is none.
    Missing(Place),
    /// It is no store.
    Foreign(Place),
    /// It is of a later version of this program.
    Newer {
        /// Where it is.
        place: Place,
        /// The version of its tables.
        version: i64,
    },
    /// Another process writes, and goes on for long.
    Busy(Place),
    /// Its database cannot be reached.
    Away {
        /// Where it is.
        place: Place,
        /// Why.
        error: String,
    },
    /// Another controller leads.
    Follows(Place),
    /// It cannot be read or written.
    Database {
        /// Where it is.
        place: Place,
        /// Why.
        error: String,
    },
    /// It has a plan that cannot be read.
    Plan {
        /// Where it is.
        place: Place,
        /// The revision.
        number: u64,
        /// Why.
        error: PlanError,
    },
    /// There is no such revision.
    NoRevision {
        /// Where it is.
        place: Place,
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
    /// This revision is being rolled out in steps.
    RollsOut(u64),
    /// None is.
    NoRollout,
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
            StoreError::Missing(place @ Place::File(_)) => {
                write!(f, "{place}: there is no such file; `apply --from 0` makes one")
            }
            StoreError::Missing(place) => {
                write!(f, "{place}: there is no store in this database; `apply --from 0` makes one")
            }
            StoreError::Foreign(place) => write!(f, "{place}: is no store of a controller"),
            StoreError::Newer { place, version } => {
                write!(
                    f,
                    "{place}: has tables of version {version}; this program knows {SCHEMA} and those before"
                )
            }
            StoreError::Busy(place) => {
                write!(f, "{place}: another process writes to it, for {WAIT:?} now")
            }
            StoreError::Away { place, error } => write!(f, "{place}: cannot be reached: {error}"),
            StoreError::Follows(place) => write!(f, "{place}: another controller leads now"),
            StoreError::Database { place, error } => write!(f, "{place}: {error}"),
            StoreError::Plan { place, number, error } => {
                write!(f, "{place}: the plan of revision {number} {error}")
            }
            StoreError::NoRevision { place, number, latest: 0 } => {
                write!(f, "{place}: there is no revision {number}; it has none")
            }
            StoreError::NoRevision { place, number, latest } => {
                write!(f, "{place}: there is no revision {number}; allowed: 1 to {latest}")
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
            StoreError::RollsOut(number) => write!(
                f,
                "revision {number} is being rolled out in steps; wait, or end that: `trunkline controller rollout` with --finish or --back"
            ),
            StoreError::NoRollout => f.write_str("no revision is being rolled out"),
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

impl DatabaseError {
    pub(super) fn at(self, place: &Place) -> StoreError {
        let place = place.clone();
        match self {
            DatabaseError::Foreign => StoreError::Foreign(place),
            DatabaseError::Busy => StoreError::Busy(place),
            DatabaseError::Away(error) => StoreError::Away { place, error },
            DatabaseError::Follows => StoreError::Follows(place),
            DatabaseError::Other(error) => StoreError::Database { place, error },
        }
    }
}
