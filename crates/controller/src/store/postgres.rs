//! A store in a database that several controllers share.

use std::env;
use std::error::Error;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::BytesMut;
use postgres::config::{Host, SslMode};
use postgres::error::SqlState;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, NoTls};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::place::DatabaseUrl;
use super::value::{Cell, DatabaseError, Row, SCHEMA, Value, WAIT};

const TABLES: &str = include_str!("postgres.sql");
/// How long a connection may take to be there.
const CONNECT: Duration = Duration::from_secs(5);
/// What a session asks of the server beside how long a writer waits: how soon it ends when its machine has gone, with its locks.
const OPTIONS: &str = "-c search_path=trunkline -c tcp_keepalives_idle=3 -c tcp_keepalives_interval=2 \
                       -c tcp_keepalives_count=3 -c tcp_user_timeout=10000";
/// The locks of who writes, and of who leads; all that use this database know these numbers.
const WRITES: &str = "SELECT pg_advisory_xact_lock(x'54726b6c'::int, 1)";
const LEADS: &str = "SELECT pg_try_advisory_lock(x'54726b6c'::int, 2)";
/// Where certificates are that a server's may be signed by, and the password, as for other programs (libpq's environment variables).
const ROOTS: &str = "PGSSLROOTCERT";
const PASSWORD: &str = "PGPASSWORD";

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Text(text) => text.to_sql(ty, out),
            Value::Number(number) => i64::try_from(*number).unwrap_or(i64::MAX).to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::TEXT, Type::INT8].contains(ty)
    }

    to_sql_checked!();
}

impl From<postgres::Error> for DatabaseError {
    fn from(error: postgres::Error) -> Self {
        let text = match error.as_db_error() {
            Some(said) => said.message().to_owned(),
            None => error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
        };
        match error.code() {
            Some(&SqlState::LOCK_NOT_AVAILABLE) => DatabaseError::Busy,
            // The server ends, starts, or has no room.
            Some(code) if ["57P", "08", "53"].iter().any(|class| code.code().starts_with(class)) => {
                DatabaseError::Away(text)
            }
            Some(_) => DatabaseError::Other(text),
            None => DatabaseError::Away(text),
        }
    }
}

/// A connection to a database.
pub(super) struct Postgres {
    url: DatabaseUrl,
    client: Client,
    /// Whether this process is to lead, and whether this connection has the lock by which it does.
    is_leader: bool,
    has_lock: bool,
    /// Whether a transaction has begun.
    is_open: bool,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("is_leader", &self.is_leader).finish_non_exhaustive()
    }
}

impl Postgres {
    pub(super) fn connect(url: &DatabaseUrl) -> Result<Self, DatabaseError> {
        let DatabaseUrl { mut config, roots } = url.clone();
        if config.get_password().is_none()
            && let Ok(password) = env::var(PASSWORD)
        {
            config.password(password);
        }
        config
            .options(&format!("{OPTIONS} -c lock_timeout={}", WAIT.as_millis()))
            .connect_timeout(CONNECT)
            .application_name("trunkline");
        let url = DatabaseUrl { config, roots: roots.or_else(|| env::var_os(ROOTS).map(PathBuf::from)) };
        let client = client(&url)?;
        Ok(Postgres { url, client, is_leader: false, has_lock: false, is_open: false })
    }

    /// The connection, a new one if the last was lost. Outside of a transaction nothing is lost by that but the lock of who leads.
    fn client(&mut self) -> Result<&mut Client, DatabaseError> {
        if self.client.is_closed() {
            if std::mem::take(&mut self.is_open) {
                return Err(DatabaseError::Away(
                    "the connection was lost; what was asked is not done".to_owned(),
                ));
            }
            self.client = client(&self.url)?;
            self.has_lock = false;
        }
        if self.is_leader && !self.has_lock {
            self.has_lock = self.client.query_one(LEADS, &[])?.get(0);
            if !self.has_lock {
                return Err(DatabaseError::Follows);
            }
        }
        Ok(&mut self.client)
    }

    pub(super) fn leads(&mut self) -> Result<bool, DatabaseError> {
        self.is_leader = true;
        let leads = match self.client() {
            Err(DatabaseError::Follows) => Ok(false),
            other => other.map(|_| true),
        };
        self.is_leader = self.has_lock;
        leads
    }

    pub(super) fn version(&mut self) -> Result<Option<i64>, DatabaseError> {
        let client = self.client()?;
        let there = "SELECT COUNT(*) FROM pg_namespace WHERE nspname = 'trunkline'";
        if client.query_one(there, &[])?.get::<_, i64>(0) == 0 {
            return Ok(None);
        }
        let version = client.query_opt("SELECT number FROM version", &[]);
        let version = version.map_err(|error| match error.code() {
            Some(&SqlState::UNDEFINED_TABLE) => DatabaseError::Foreign,
            _ => error.into(),
        })?;
        version.map(|row| Some(row.get(0))).ok_or(DatabaseError::Foreign)
    }

    pub(super) fn upgrade(&mut self, version: Option<i64>) -> Result<(), DatabaseError> {
        // There were no tables in such a database before version 2.
        if version.is_none() {
            self.client.batch_execute(TABLES)?;
            self.client.execute("INSERT INTO version VALUES ($1)", &[&SCHEMA])?;
        }
        Ok(())
    }

    pub(super) fn execute(&mut self, statement: &str, values: &[Value<'_>]) -> Result<u64, DatabaseError> {
        Ok(self.client()?.execute(statement, &parameters(values))?)
    }

    pub(super) fn query(&mut self, query: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let rows = self.client()?.query(query, &parameters(values))?;
        let row = |row: &postgres::Row| {
            let cell = |(place, column): (usize, &postgres::Column)| match *column.type_() {
                Type::INT8 => row.try_get(place).map(Cell::Number),
                _ => row.try_get(place).map(Cell::Text),
            };
            row.columns().iter().enumerate().map(cell).collect::<Result<_, _>>().map(Row)
        };
        Ok(rows.iter().map(row).collect::<Result<_, _>>()?)
    }

    pub(super) fn begin(&mut self) -> Result<(), DatabaseError> {
        self.client()?.batch_execute("BEGIN")?;
        self.is_open = true;
        Ok(self.client()?.batch_execute(WRITES)?)
    }

    pub(super) fn end(&mut self, how: &str) -> Result<(), DatabaseError> {
        let ended = self.client().and_then(|client| Ok(client.batch_execute(how)?));
        self.is_open = false;
        ended
    }
}

fn parameters<'v>(values: &'v [Value<'v>]) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn client(DatabaseUrl { config, roots }: &DatabaseUrl) -> Result<Client, DatabaseError> {
    let is_near = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
    };
    match (config.get_ssl_mode(), roots) {
        (SslMode::Disable, _) => Ok(config.connect(NoTls)?),
        (_, Some(file)) => {
            let mut config = config.clone();
            config.ssl_mode(SslMode::Require);
            Ok(config.connect(tls(file)?)?)
        }
        (SslMode::Prefer, None) if config.get_hosts().iter().all(is_near) => Ok(config.connect(NoTls)?),
        (_, None) => Err(DatabaseError::Other(format!(
            "its certificate cannot be checked; allowed: sslrootcert=FILE in its URL, or {ROOTS}=FILE in the environment, with certificates in \
             PEM; a host of this machine; or ?sslmode=disable where the network between is trusted"
        ))),
    }
}

fn tls(file: &Path) -> Result<MakeRustlsConnect, DatabaseError> {
    let other = |error: &dyn std::fmt::Display| DatabaseError::Other(format!("{}: {error}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| other(&error))? {
        let certificate = certificate.map_err(|error| other(&error))?;
        roots.add(certificate).map_err(|error| other(&error))?;
    }
    if roots.is_empty() {
        return Err(other(&"it has no certificate"));
    }
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| other(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
