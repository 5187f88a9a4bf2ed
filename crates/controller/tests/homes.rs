//! Where the stores of tests are: in a file, and in a database where there is a server.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use trunkline_controller::{Place, Store};

use crate::postgres::Server;

/// A place for a store, gone at the end.
pub(crate) struct Home {
    pub(crate) place: Place,
    directory: Option<PathBuf>,
    _server: Option<Arc<Server>>,
}

impl Home {
    pub(crate) fn file(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("trunkline-store-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let place = Place::File(directory.join("network.db"));
        Home { place, directory: Some(directory), _server: None }
    }

    fn database() -> Option<Self> {
        let server = Server::shared()?;
        let place = server.database().parse().expect("a place");
        Some(Home { place, directory: None, _server: Some(server) })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.place.file().expect("a file").to_owned()
    }

    pub(crate) fn store(&self) -> Store {
        Store::create(&self.place).expect("a store")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// One of each kind.
pub(crate) fn homes(name: &str) -> impl Iterator<Item = Home> {
    [Some(Home::file(name)), Home::database()].into_iter().flatten()
}
