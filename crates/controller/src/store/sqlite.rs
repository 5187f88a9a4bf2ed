//! A store in a file.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};
use rustix::fs::{FlockOperation, flock};

use super::value::{Cell, DatabaseError, Row, SCHEMA, Value, WAIT};

/// `Trkl`: what tells such a file from other `SQLite` files.
const APPLICATION: i64 = 0x5472_6b6c;
/// What makes the tables of each version from those of the one before. Triggers hold against mistakes of our own: what is written stays.
const UPGRADES: [&str; SCHEMA as usize] = [include_str!("sqlite-1.sql"), include_str!("sqlite-2.sql")];

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Value::Text(text) => text.to_sql(),
            Value::Number(number) => Ok(i64::try_from(*number).unwrap_or(i64::MAX).into()),
        }
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => DatabaseError::Foreign,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => DatabaseError::Busy,
            _ => DatabaseError::Other(error.to_string()),
        }
    }
}

/// A file.
#[derive(Debug)]
pub(super) struct Sqlite {
    path: PathBuf,
    connection: Connection,
    /// It has a lock while this process serves the store. It is closed after the connection, whose own locks would go with it.
    leading: Option<File>,
}

impl Sqlite {
    pub(super) fn open(path: &Path, makes: bool) -> Result<Self, DatabaseError> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        if makes {
            // It has secrets: its owner alone reads it. One that is there stays as it is.
            drop(File::options().write(true).create_new(true).mode(0o600).open(path));
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(WAIT)?;
        // A revision that was said to be applied outlives a loss of power.
        connection.pragma_update(None, "synchronous", "FULL")?;
        let mut sqlite = Sqlite { path: path.to_owned(), connection, leading: None };
        // SQLite takes a file of a few bytes for an empty one. What a killed process has left was taken back when the file was read.
        if sqlite.version()?.is_none() && (!makes || fs::metadata(path).is_ok_and(|file| file.len() > 0)) {
            return Err(DatabaseError::Foreign);
        }
        Ok(sqlite)
    }

    pub(super) fn version(&mut self) -> Result<Option<i64>, DatabaseError> {
        let number = |query: &str| self.connection.query_row(query, [], |row| row.get::<_, i64>(0));
        match number("PRAGMA application_id")? {
            APPLICATION => Ok(Some(number("PRAGMA user_version")?)),
            0 if number("SELECT COUNT(*) FROM sqlite_schema")? == 0 => Ok(None),
            _ => Err(DatabaseError::Foreign),
        }
    }

    pub(super) fn upgrade(&mut self, version: Option<i64>) -> Result<(), DatabaseError> {
        let done = usize::try_from(version.unwrap_or(0)).unwrap_or(UPGRADES.len());
        for upgrade in UPGRADES.iter().skip(done) {
            self.run(upgrade)?;
        }
        self.connection.pragma_update(None, "application_id", APPLICATION)?;
        self.connection.pragma_update(None, "user_version", SCHEMA)?;
        Ok(())
    }

    pub(super) fn leads(&mut self) -> Result<bool, DatabaseError> {
        let file = match self.leading.take() {
            Some(file) => file,
            None => File::open(&self.path).map_err(|error| DatabaseError::Other(error.to_string()))?,
        };
        // SQLite's own locks are of another kind, which this one does not touch.
        let leads = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Open also if it does not: with the file those would be closed.
        self.leading = Some(file);
        Ok(leads)
    }

    pub(super) fn execute(&mut self, statement: &str, values: &[Value<'_>]) -> Result<u64, DatabaseError> {
        Ok(self.connection.execute(statement, params_from_iter(values))? as u64)
    }

    pub(super) fn query(&mut self, query: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let mut statement = self.connection.prepare(query)?;
        let columns = statement.column_count();
        let rows = statement.query_map(params_from_iter(values), |row| {
            let cell = |place| {
                Ok(match row.get_ref(place)? {
                    ValueRef::Integer(number) => Cell::Number(number),
                    value => Cell::Text(value.as_str()?.to_owned()),
                })
            };
            (0..columns).map(cell).collect::<rusqlite::Result<_>>().map(Row)
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn run(&mut self, statements: &str) -> Result<(), DatabaseError> {
        Ok(self.connection.execute_batch(statements)?)
    }
}
