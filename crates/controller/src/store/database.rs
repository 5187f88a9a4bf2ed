//! What a store asks of a database, whichever it is: rows, changes and transactions in an SQL that both know.

use super::place::Place;
use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::value::{DatabaseError, Row, Value};

/// A database that is open.
#[derive(Debug)]
pub(super) enum Database {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Database {
    /// Opens a store that is there, or with `makes` one that is empty yet.
    pub(super) fn open(place: &Place, makes: bool) -> Result<Self, DatabaseError> {
        match place {
            Place::File(path) => Sqlite::open(path, makes).map(Database::Sqlite),
            Place::Postgres(url) => Postgres::connect(url).map(|it| Database::Postgres(Box::new(it))),
        }
    }

    /// The version of its tables; none, if it is empty.
    pub(super) fn version(&mut self) -> Result<Option<i64>, DatabaseError> {
        match self {
            Database::Sqlite(sqlite) => sqlite.version(),
            Database::Postgres(postgres) => postgres.version(),
        }
    }

    /// Makes tables, or those of a former version into those of this one. It is within a transaction.
    pub(super) fn upgrade(&mut self, version: Option<i64>) -> Result<(), DatabaseError> {
        match self {
            Database::Sqlite(sqlite) => sqlite.upgrade(version),
            Database::Postgres(postgres) => postgres.upgrade(version),
        }
    }

    /// Whether this process may serve the store: the one that does keeps all others from it until it ends, or loses its connection.
    pub(super) fn leads(&mut self) -> Result<bool, DatabaseError> {
        match self {
            Database::Sqlite(sqlite) => sqlite.leads(),
            Database::Postgres(postgres) => postgres.leads(),
        }
    }

    /// How many rows a statement has changed.
    pub(super) fn execute(&mut self, statement: &str, values: &[Value<'_>]) -> Result<u64, DatabaseError> {
        match self {
            Database::Sqlite(sqlite) => sqlite.execute(statement, values),
            Database::Postgres(postgres) => postgres.execute(statement, values),
        }
    }

    /// The rows of a query.
    pub(super) fn query(&mut self, query: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        match self {
            Database::Sqlite(sqlite) => sqlite.query(query, values),
            Database::Postgres(postgres) => postgres.query(query, values),
        }
    }

    /// The number that a query has as its only row.
    pub(super) fn number(&mut self, query: &str, values: &[Value<'_>]) -> Result<u64, DatabaseError> {
        self.query(query, values).map(|rows| rows.first().map_or(0, |row| row.number(0)))
    }

    /// Does all of it or nothing, while no other process writes.
    pub(super) fn transaction<T, E: From<DatabaseError>>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.begin()?;
        let changed = change(self).and_then(|changed| {
            self.end("COMMIT")?;
            Ok(changed)
        });
        if changed.is_err() {
            // Where this fails there is no connection any more, and with it no transaction.
            let _ = self.end("ROLLBACK");
        }
        changed
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        match self {
            Database::Sqlite(sqlite) => sqlite.run("BEGIN IMMEDIATE"),
            Database::Postgres(postgres) => postgres.begin(),
        }
    }

    fn end(&mut self, how: &str) -> Result<(), DatabaseError> {
        match self {
            Database::Sqlite(sqlite) => sqlite.run(how),
            Database::Postgres(postgres) => postgres.end(how),
        }
    }
}
