//! Who speaks with a controller: sites that have enrolled, people with tokens; and the log of what was changed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::database::Database;
use super::value::DatabaseError;

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// To look at everything but secrets.
    Viewer,
    /// To change it as well.
    Admin,
}

impl Role {
    /// All, by their words.
    pub const WORDS: [(&'static str, Role); 2] = [("viewer", Role::Viewer), ("admin", Role::Admin)];

    pub(super) fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, role)| *role == self).map_or("", |(word, _)| word)
    }
}

/// Who holds a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A gateway.
    Site(String),
    /// A person, or a program of theirs.
    Person {
        /// The name of the token.
        name: String,
        /// What it allows.
        role: Role,
    },
}

/// A site that has enrolled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The key that it made.
    pub public_key: String,
    /// Seconds since 1970.
    pub enrolled_at: u64,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// 1 and so on.
    pub sequence: u64,
    /// Seconds since 1970.
    pub at: u64,
    /// Who made it.
    pub by: String,
    /// What it was.
    pub what: String,
}

/// Who changes something, and when.
#[derive(Debug, Clone, Copy)]
pub struct Author<'a> {
    /// Their name.
    pub by: &'a str,
    /// Seconds since 1970.
    pub at: u64,
}

pub(super) fn record(database: &mut Database, author: Author<'_>, what: &str) -> Result<(), DatabaseError> {
    let insert = "INSERT INTO events (at, by, what) VALUES ($1, $2, $3)";
    database.execute(insert, &[author.at.into(), author.by.into(), what.into()]).map(drop)
}
