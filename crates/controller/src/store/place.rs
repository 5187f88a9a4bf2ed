//! Where a store is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use postgres::Config;
use postgres::config::Host;

/// Of a URL, where certificates are that a database's may be signed by.
const ROOTS: &str = "sslrootcert=";
/// Where a database listens unless its URL says another port.
const PORT: u16 = 5432;

/// A file, or a database of `PostgreSQL`.
#[derive(Debug, Clone)]
pub enum Place {
    /// A file of `SQLite`.
    File(PathBuf),
    /// A database that several controllers can share.
    Postgres(Box<DatabaseUrl>),
}

/// How a database is reached.
#[derive(Debug, Clone)]
pub struct DatabaseUrl {
    pub(super) config: Config,
    pub(super) roots: Option<PathBuf>,
}

impl Place {
    /// The file; none of a database.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Place::File(path) => Some(path),
            Place::Postgres(_) => None,
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Place::File(PathBuf::from(text)));
        }
        let allowed =
            "allowed: a file, or postgres://USER@HOST[:PORT]/DATABASE[?sslmode=require&sslrootcert=FILE]";
        let (url, query) = text.split_once('?').unwrap_or((text, ""));
        // The library knows all others of them.
        let (roots, others): (Vec<&str>, Vec<&str>) =
            query.split('&').filter(|part| !part.is_empty()).partition(|part| part.starts_with(ROOTS));
        let config = format!("{url}?{}", others.join("&")).parse::<Config>();
        let config = config.map_err(|error| format!("no store: {error}; {allowed}"))?;
        if config.get_hosts().is_empty() {
            return Err(format!("no store: the host is missing; {allowed}"));
        }
        let roots = roots.first().map(|part| PathBuf::from(&part[ROOTS.len()..]));
        Ok(Place::Postgres(Box::new(DatabaseUrl { config, roots })))
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Place::File(path.to_owned())
    }
}

/// Without the password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = match self {
            Place::File(path) => return path.display().fmt(f),
            Place::Postgres(url) => &url.config,
        };
        let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
        let ports = config.get_ports().iter().chain(std::iter::repeat(&PORT));
        let hosts: Vec<String> =
            config.get_hosts().iter().zip(ports).map(|(host, port)| named(host, *port)).collect();
        write!(f, "postgres://{user}{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
    }
}

fn named(host: &Host, port: u16) -> String {
    let name = match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    };
    if port == PORT { name } else { format!("{name}:{port}") }
}
