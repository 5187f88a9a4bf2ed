//! Where a network's documents are kept: a `SQLite` file with every revision that was ever applied, its plan, who applied it and why.
//!
//! A revision is written in one transaction or not at all, and never changed: a process that is killed, a full disk or a second writer
//! leave the file as it was. A writer names the revision that its document was made from; if that is not the latest, it is told what
//! others have changed, and nothing is written.
//!
//! Beside them are the sites that have enrolled with their public keys, invitations, tokens of people, and a log of all changes. Of secrets
//! that others hold it has digests only.

mod error;
mod members;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Row, Transaction, TransactionBehavior, params,
};
use serde::Serialize;
use trunkline_schema::Mistakes;
use trunkline_sites::digest_of;
use utoipa::ToSchema;

use crate::changes::changes;
use crate::document::Document;
use crate::plan::{Plan, plan};
pub use error::StoreError;
use error::failed;
use members::record;
pub use members::{Author, Event, Holder, Member, Role};

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
    CREATE TABLE events (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        by TEXT NOT NULL,
        what TEXT NOT NULL
    ) STRICT;
    CREATE TRIGGER no_event_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
    CREATE TRIGGER no_event_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;
    CREATE TABLE sites (
        name TEXT PRIMARY KEY,
        public_key TEXT NOT NULL UNIQUE,
        enrolled_at INTEGER NOT NULL,
        token TEXT NOT NULL UNIQUE
    ) STRICT;
    CREATE TABLE invitations (
        digest TEXT PRIMARY KEY,
        site TEXT NOT NULL,
        expires_at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE tokens (
        digest TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        role TEXT NOT NULL CHECK (role IN ('admin', 'viewer'))
    ) STRICT;
    CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
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

impl Revision {
    /// What it means, as it was read when it was applied.
    ///
    /// # Errors
    /// What a program of another version finds wrong in it.
    pub fn read(&self) -> Result<Document, Mistakes> {
        Document::parse("the document", &self.document)
    }

    /// It in short.
    pub fn entry(&self) -> Entry {
        let refused = self.plan.refused().count();
        Entry {
            revision: self.number,
            at: self.at,
            by: self.by.clone(),
            note: self.note.clone(),
            carried: self.plan.trunks.len() - refused,
            refused,
        }
    }
}

/// A revision in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Entry {
    /// Its number.
    pub revision: u64,
    /// When it was applied.
    pub at: u64,
    /// By whom.
    pub by: String,
    /// Why.
    pub note: String,
    /// Trunks that it carries.
    pub carried: usize,
    /// Trunks that it refuses.
    pub refused: usize,
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
        // It has secrets: its owner alone reads it. One that is there stays as it is.
        let made = fs::File::options().write(true).create_new(true).mode(0o600).open(path);
        drop(made);
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

    /// The number of the latest revision; 0: there is none.
    pub fn latest_number(&self) -> Result<u64, StoreError> {
        let query = "SELECT COALESCE(MAX(number), 0) FROM revisions";
        let number = self.connection.query_row(query, [], |row| row.get::<_, i64>(0));
        number.map(i64::cast_unsigned).map_err(|error| failed(&self.path, error))
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
        let latest = self.latest_number()?;
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
        record(&transaction, *at, by, &format!("applied revision {number}")).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(revision)
    }

    /// How many changes there were. Larger after each.
    pub fn sequence(&self) -> Result<u64, StoreError> {
        let query = "SELECT COALESCE(MAX(sequence), 0) FROM events";
        let number = self.connection.query_row(query, [], |row| row.get::<_, i64>(0));
        number.map(i64::cast_unsigned).map_err(|error| failed(&self.path, error))
    }

    /// Changes after the one of this number, at most so many.
    pub fn events(&self, after: u64, limit: u32) -> Result<Vec<Event>, StoreError> {
        let query =
            "SELECT sequence, at, by, what FROM events WHERE sequence > ?1 ORDER BY sequence LIMIT ?2";
        let event = |row: &Row<'_>| {
            let [sequence, at] = [row.get::<_, i64>(0)?, row.get(1)?].map(i64::cast_unsigned);
            Ok(Event { sequence, at, by: row.get(2)?, what: row.get(3)? })
        };
        self.list(query, params![i64::try_from(after).unwrap_or(i64::MAX), limit], event)
    }

    /// A setting of the controller.
    pub fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let query = "SELECT value FROM settings WHERE name = ?1";
        let value = self.connection.query_row(query, [name], |row| row.get(0)).optional();
        value.map_err(|error| failed(&self.path, error))
    }

    /// Keeps settings of the controller, all of them or none.
    pub fn set(&mut self, settings: &[(&str, &str)]) -> Result<(), StoreError> {
        self.change(|transaction| {
            let set = "INSERT INTO settings (name, value) VALUES (?1, ?2) \
                       ON CONFLICT (name) DO UPDATE SET value = excluded.value";
            settings.iter().try_for_each(|(name, value)| {
                transaction.execute(set, [name, value]).map(drop).map_err(Failed::Sqlite)
            })
        })
    }

    /// Makes a token of somebody.
    pub fn add_token(
        &mut self,
        author: Author<'_>,
        name: &str,
        role: Role,
        secret: &str,
    ) -> Result<(), StoreError> {
        self.change(|transaction| {
            let there = "SELECT COUNT(*) FROM tokens WHERE name = ?1";
            if transaction.query_row(there, [name], |row| row.get::<_, i64>(0))? > 0 {
                return Err(Failed::Refused(StoreError::There { what: "token", name: name.to_owned() }));
            }
            let insert = "INSERT INTO tokens (digest, name, role) VALUES (?1, ?2, ?3)";
            transaction.execute(insert, [digest_of(secret).as_str(), name, role.word()])?;
            record(transaction, author.at, author.by, &format!("made token {name}, {}", role.word()))?;
            Ok(())
        })
    }

    /// Removes a token.
    pub fn remove_token(&mut self, author: Author<'_>, name: &str) -> Result<(), StoreError> {
        self.remove("DELETE FROM tokens WHERE name = ?1", author, "token", name)
    }

    /// Forgets a site: its token is none any more, and other sites no longer have it as a peer.
    pub fn expel(&mut self, author: Author<'_>, site: &str) -> Result<(), StoreError> {
        self.remove("DELETE FROM sites WHERE name = ?1", author, "enrolled site", site)
    }

    fn remove(
        &mut self,
        delete: &str,
        author: Author<'_>,
        what: &'static str,
        name: &str,
    ) -> Result<(), StoreError> {
        self.change(|transaction| {
            if transaction.execute(delete, [name])? == 0 {
                return Err(Failed::Refused(StoreError::Unknown { what, name: name.to_owned() }));
            }
            record(transaction, author.at, author.by, &format!("removed {what} {name}"))?;
            Ok(())
        })
    }

    /// Invites a site to enrol, once.
    pub fn invite(
        &mut self,
        author: Author<'_>,
        site: &str,
        secret: &str,
        expires_at: u64,
    ) -> Result<(), StoreError> {
        self.change(|transaction| {
            // Those that nobody used are forgotten in time.
            transaction
                .execute("DELETE FROM invitations WHERE expires_at < ?1", [author.at.cast_signed()])?;
            let insert = "INSERT INTO invitations (digest, site, expires_at) VALUES (?1, ?2, ?3)";
            transaction.execute(insert, params![digest_of(secret), site, expires_at.cast_signed()])?;
            record(transaction, author.at, author.by, &format!("invited site {site}"))?;
            Ok(())
        })
    }

    /// Enrols a site by its invitation, which is used up: the name of the site. One that has enrolled before has the new key from now on.
    pub fn enrol(
        &mut self,
        at: u64,
        invitation: &str,
        public_key: &str,
        token: &str,
    ) -> Result<String, StoreError> {
        self.change(|transaction| {
            let find = "SELECT site, expires_at FROM invitations WHERE digest = ?1";
            let digest = digest_of(invitation);
            let found = transaction
                .query_row(find, [&digest], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))
                .optional()?;
            let Some((site, expires_at)) = found else {
                return Err(Failed::Refused(StoreError::Invitation("is unknown, or was used")));
            };
            if expires_at.cast_unsigned() < at {
                return Err(Failed::Refused(StoreError::Invitation("has expired")));
            }
            let other = "SELECT name FROM sites WHERE public_key = ?1 AND name <> ?2";
            let other = transaction.query_row(other, [public_key, &site], |row| row.get(0)).optional()?;
            if let Some(other) = other {
                return Err(Failed::Refused(StoreError::KnownKey(other)));
            }
            transaction.execute("DELETE FROM invitations WHERE digest = ?1", [&digest])?;
            let enrol = "INSERT INTO sites (name, public_key, enrolled_at, token) VALUES (?1, ?2, ?3, ?4) \
                         ON CONFLICT (name) DO UPDATE SET public_key = excluded.public_key, \
                         enrolled_at = excluded.enrolled_at, token = excluded.token";
            transaction.execute(enrol, params![site, public_key, at.cast_signed(), digest_of(token)])?;
            record(transaction, at, &site, &format!("enrolled with key {public_key}"))?;
            Ok(site)
        })
    }

    /// The sites that have enrolled.
    pub fn members(&self) -> Result<Vec<Member>, StoreError> {
        let query = "SELECT name, public_key, enrolled_at FROM sites ORDER BY name";
        self.list(query, [], |row| {
            let enrolled_at = row.get::<_, i64>(2)?.cast_unsigned();
            Ok(Member { name: row.get(0)?, public_key: row.get(1)?, enrolled_at })
        })
    }

    /// Who holds which token, by its digest.
    pub fn holders(&self) -> Result<BTreeMap<String, Holder>, StoreError> {
        let sites = self
            .list("SELECT token, name FROM sites", [], |row| Ok((row.get(0)?, Holder::Site(row.get(1)?))))?;
        let people = self.list("SELECT digest, name, role FROM tokens", [], |row| {
            let word: String = row.get(2)?;
            let role = Role::WORDS.into_iter().find(|(known, _)| *known == word);
            let role = role.map_or(Role::Viewer, |(_, role)| role);
            Ok((row.get(0)?, Holder::Person { name: row.get(1)?, role }))
        })?;
        Ok(sites.into_iter().chain(people).collect())
    }

    fn list<T>(
        &self,
        query: &str,
        values: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let failed = |error| failed(&self.path, error);
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let rows = statement.query_map(values, read).map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }

    /// Changes something in one transaction.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, Failed>,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        let failed = |error| failed(&path, error);
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(failed)?;
        let changed = change(&transaction).map_err(|error| match error {
            Failed::Sqlite(error) => failed(error),
            Failed::Refused(error) => error,
        })?;
        transaction.commit().map_err(failed)?;
        Ok(changed)
    }
}

/// Why a change is none.
enum Failed {
    Sqlite(rusqlite::Error),
    Refused(StoreError),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Failed::Sqlite(error)
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
