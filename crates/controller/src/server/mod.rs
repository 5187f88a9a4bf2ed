//! The controller as a process: HTTPS for people, programs and gateways.
//!
//! People and their programs send documents (`api`); gateways enrol, and wait for configurations by long polls (`gateways`). What a
//! request needs of who asks and of what sites get is in memory (`Fleet`) and made anew when the store has changed, by whichever process.

mod api;
mod asked;
mod fleet;
mod gateways;
mod holders;
mod identity;
mod metrics;
mod page;
mod refusal;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;
use trunkline_sites::Signer;

use crate::store::{Store, StoreError};
pub use api::openapi;
use fleet::Fleet;
pub use identity::{Identity, IdentityError, NewIdentity};
use refusal::Refusal;

/// How often the store is looked at for what other processes have changed.
const LOOK: Duration = Duration::from_millis(500);
/// How long requests may take after the process was asked to end.
const GRACE: Duration = Duration::from_secs(2);

/// What all requests share.
struct App {
    store: Mutex<Store>,
    fleet: RwLock<Fleet>,
    /// The sequence of the last change.
    changed: watch::Sender<u64>,
    signer: Signer,
    identity: Identity,
}

impl App {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fleet(&self) -> RwLockReadGuard<'_, Fleet> {
        self.fleet.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn fleet_mut(&self) -> RwLockWriteGuard<'_, Fleet> {
        self.fleet.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the store, on a thread that may wait for the disk.
    async fn with_store<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let app = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let mut store = app.store();
            let asked = ask(&mut store);
            // What was changed holds from the answer on.
            asked.and_then(|answer| app.refresh(&store).map(|()| answer))
        });
        asked.await.map_err(|_| Refusal::broken())?.map_err(Refusal::from)
    }

    /// Takes what has changed in the store.
    fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let sequence = store.sequence()?;
        if self.fleet().sequence() == Some(sequence) {
            return Ok(());
        }
        let known = self.fleet().revision();
        // A document of many sites takes longer to read than all the rest.
        let latest = if store.latest_number()? == known { None } else { store.latest()? };
        let (members, holders) = (store.members()?, store.holders()?);
        let mut fleet = self.fleet_mut();
        fleet.update(sequence, latest, members, holders);
        fleet.prepare(&self.identity.network, &self.signer);
        drop(fleet);
        self.changed.send_replace(sequence);
        Ok(())
    }
}

/// Why a controller does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its certificate or URL cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// It cannot listen.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The machine refuses something.
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
}

/// A controller that listens.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
}

impl Server {
    /// Opens a store, or makes one, and listens.
    pub fn bind(store: &Path, listen: SocketAddr, given: &NewIdentity<'_>) -> Result<Self, ServeError> {
        let mut store = Store::create(store)?;
        let identity = Identity::load(&mut store, given)?;
        let tls = identity.tls()?;
        let signer = identity.signer()?;
        let listener =
            TcpListener::bind(listen).map_err(|error| ServeError::Listen { address: listen, error })?;
        let app = App {
            store: Mutex::new(store),
            fleet: RwLock::new(Fleet::default()),
            changed: watch::Sender::new(0),
            signer,
            identity,
        };
        app.refresh(&app.store())?;
        Ok(Server { app: Arc::new(app), listener, tls })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process is asked to end (SIGINT, SIGTERM, SIGHUP).
    pub fn run(self) -> Result<(), ServeError> {
        let Server { app, listener, tls } = self;
        let looking = Arc::clone(&app);
        let look = async move {
            let mut look = tokio::time::interval(LOOK);
            loop {
                look.tick().await;
                // The store that cannot be read now may be readable later; meanwhile what is known holds.
                let _ = looking.with_store(|_| Ok(())).await;
            }
        };
        Ok(trunkline_pages::serve(listener, Some(tls), api::router(app), look, GRACE)?)
    }
}
