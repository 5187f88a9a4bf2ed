//! Where a network's documents are kept: a `SQLite` file with every revision that was ever applied, its plan, who applied it and why.
//!
//! A revision is written in one transaction or not at all, and never changed: a process that is killed, a full disk or a second writer
//! leave the file as it was. A writer names the revision that its document was made from; if that is not the latest, it is told what
//! others have changed, and nothing is written.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Row, TransactionBehavior, params};
use trunkline_schema::Mistakes;

use crate::changes::changes;
use crate::document::Document;
use crate::plan::{Plan, PlanError, plan};

/// `Trkl`: what tells such a file from other `SQLite` files.
const APPLICATION: i32 = 0x5472_6b6c;
/// The version of the tables.
const SCHEMA: i32 = 1;
/// How long a writer waits for another.
const WAIT: Duration = Duration::from_secs(10);

/// The tables of version 1. Triggers hold against mistakes of our own: what is written stays.
const TABLES: &str = "
    CREATE TABLE revisions (
        number INTEGER PRIMARY KEY CHECK (number > 0),
        applied_at INTEGER NOT NULL,
        applied_by TEXT NOT NULL,
        note TEXT NOT NULL,
        document TEXT NOT NULL,
        plan TEXT NOT NULL
    ) STRICT;
    CREATE TRIGGER no_gap BEFORE INSERT ON revisions
        WHEN NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM revisions)
        BEGIN SELECT RAISE(ABORT, 'revisions follow each other'); END;
    CREATE TRIGGER no_update BEFORE UPDATE ON revisions BEGIN SELECT RAISE(ABORT, 'revisions are never changed'); END;
    CREATE TRIGGER no_delete BEFORE DELETE ON revisions BEGIN SELECT RAISE(ABORT, 'revisions are never removed'); END;
";

const COLUMNS: &str = "number, applied_at, applied_by, note, document, plan";

/// A document that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// 1 and so on.
    pub number: u64,
    /// Seconds since 1970.
    pub at: u64,
    /// Who applied it.
    pub by: String,
    /// Why.
    pub note: String,
    /// The document.
    pub document: String,
    /// What it means.
    pub plan: Plan,
}

/// A document that is to be applied.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'p> {
    /// The file's name, for messages.
    pub name: &'p str,
    /// The document.
    pub text: &'p str,
    /// The revision that it was made from; 0: none.
    pub from: u64,
    /// Who applies it.
    pub by: &'p str,
    /// Why.
    pub note: &'p str,
    /// Seconds since 1970.
    pub at: u64,
    /// Whether it is applied even if trunks are refused.
    pub partly: bool,
}

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
        }
    }
}

impl std::error::Error for StoreError {}

/// A file of revisions.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

impl Store {
    /// Opens a store that is there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(path.to_owned()));
        }
        Store::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?.known()
    }

    /// Opens a store, or makes an empty one.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Store::connect(path, flags)?;
        if store.version()?.is_none() {
            // SQLite takes a file of a few bytes for an empty one. What a killed process has left was taken back when the file was read.
            if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
                return Err(StoreError::Foreign(path.to_owned()));
            }
            store.make_tables()?;
        }
        store.known()
    }

    /// This one, if its tables are those of this version.
    fn known(self) -> Result<Self, StoreError> {
        match self.version()? {
            Some(SCHEMA) => Ok(self),
            Some(version) => Err(StoreError::Newer { path: self.path, version }),
            None => Err(StoreError::Foreign(self.path)),
        }
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let failed = |error| failed(path, error);
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(WAIT).map_err(failed)?;
        // A revision that was said to be applied outlives a loss of power.
        connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        Ok(Store { path: path.to_owned(), connection })
    }

    /// The version of its tables; none of an empty file.
    fn version(&self) -> Result<Option<i32>, StoreError> {
        version(&self.path, &self.connection)
    }

    fn make_tables(&mut self) -> Result<(), StoreError> {
        let Store { path, connection } = self;
        let failed = |error| failed(path, error);
        let begin = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(failed)?;
        // Another process may have made them meanwhile.
        if version(path, &transaction)?.is_none() {
            transaction.execute_batch(TABLES).map_err(failed)?;
            transaction.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
            transaction.pragma_update(None, "user_version", SCHEMA).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    /// The latest revision.
    pub fn latest(&self) -> Result<Option<Revision>, StoreError> {
        latest(&self.path, &self.connection)
    }

    /// The revision of this number.
    pub fn revision(&self, number: u64) -> Result<Revision, StoreError> {
        if let Some(revision) = find(&self.path, &self.connection, number)? {
            return Ok(revision);
        }
        let latest = self.latest()?.map_or(0, |latest| latest.number);
        Err(StoreError::NoRevision { path: self.path.clone(), number, latest })
    }

    /// Applies a document: the revision that it has become.
    pub fn apply(&mut self, proposal: &Proposal<'_>) -> Result<Revision, StoreError> {
        let document = Document::parse(proposal.name, proposal.text).map_err(StoreError::Document)?;
        let path = self.path.clone();
        let failed = |error| failed(&path, error);
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(failed)?;
        let before = latest(&path, &transaction)?;
        let number = before.as_ref().map_or(0, |before| before.number);
        if number != proposal.from {
            let made_from = match proposal.from {
                0 => None,
                from => find(&path, &transaction, from)?,
            };
            let latest = before.as_ref();
            return Err(StoreError::Conflict {
                from: proposal.from,
                latest: number,
                by: latest.map_or_else(String::new, |latest| latest.by.clone()),
                changed: changes(document_of(made_from.as_ref()), document_of(latest)),
            });
        }
        if before.as_ref().is_some_and(|before| before.document == proposal.text) {
            return Err(StoreError::Same(number));
        }
        let plan = plan(&document, before.as_ref().map(|before| &before.plan));
        if !proposal.partly && plan.refused().next().is_some() {
            return Err(StoreError::Refused(Box::new(plan)));
        }
        let revision = Revision {
            number: number + 1,
            at: proposal.at,
            by: proposal.by.to_owned(),
            note: proposal.note.to_owned(),
            document: proposal.text.to_owned(),
            plan,
        };
        let Revision { number, at, by, note, document, plan } = &revision;
        let insert = format!("INSERT INTO revisions ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
        let values = params![number.cast_signed(), at.cast_signed(), by, note, document, plan.to_json()];
        transaction.execute(&insert, values).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(revision)
    }
}

fn document_of(revision: Option<&Revision>) -> &str {
    revision.map_or("", |revision| &revision.document)
}

fn version(path: &Path, connection: &Connection) -> Result<Option<i32>, StoreError> {
    let number = |query: &str| {
        connection.query_row(query, [], |row| row.get::<_, i32>(0)).map_err(|error| failed(path, error))
    };
    match number("PRAGMA application_id")? {
        APPLICATION => Ok(Some(number("PRAGMA user_version")?)),
        0 if number("SELECT COUNT(*) FROM sqlite_schema")? == 0 => Ok(None),
        _ => Err(StoreError::Foreign(path.to_owned())),
    }
}

fn latest(path: &Path, connection: &Connection) -> Result<Option<Revision>, StoreError> {
    read(path, connection, "ORDER BY number DESC LIMIT 1", [])
}

fn find(path: &Path, connection: &Connection, number: u64) -> Result<Option<Revision>, StoreError> {
    let Ok(number) = i64::try_from(number) else { return Ok(None) };
    read(path, connection, "WHERE number = ?1", [number])
}

fn read(
    path: &Path,
    connection: &Connection,
    which: &str,
    values: impl rusqlite::Params,
) -> Result<Option<Revision>, StoreError> {
    let query = format!("SELECT {COLUMNS} FROM revisions {which}");
    let revision = |row: &Row<'_>| {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        let (at, by, note, document) =
            (row.get::<_, i64>(1)?.cast_unsigned(), row.get(2)?, row.get(3)?, row.get(4)?);
        let plan = Plan::parse(&row.get::<_, String>(5)?);
        let plan = plan.map_err(|error| StoreError::Plan { path: path.to_owned(), number, error });
        Ok(plan.map(|plan| Revision { number, at, by, note, document, plan }))
    };
    let found = connection.query_row(&query, values, revision).optional();
    found.map_err(|error| failed(path, error))?.transpose()
}

fn failed(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::Foreign(path),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(path),
        _ => StoreError::Sqlite { path, error },
    }
}
