//! The controller as a process: HTTPS for people, programs and gateways.
//!
//! One controller at a time serves a store: it has the store's lock, listens, and carries roll-outs on. Others wait for the lock.
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
mod rolling;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use tokio::sync::watch;
use trunkline_sites::{Signer, now};

use crate::store::{Author, Place, Store, StoreError};
pub use api::openapi;
use fleet::{Fleet, News};
pub use identity::{Identity, IdentityError, NewIdentity};
use refusal::Refusal;
use rolling::Verdict;

/// How often the store is looked at for what other processes have changed.
const LOOK: Duration = Duration::from_millis(500);
/// How long a controller goes on that has lost its store. Then another one may lead.
const LOST: Duration = Duration::from_secs(20);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// Whose roll-outs go on or come back.
const SELF: &str = "controller";
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

    /// Asks the store, on a thread that may wait for it.
    async fn with_store<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.ask(ask).await.map_or_else(|| Err(Refusal::broken()), |asked| asked.map_err(Refusal::from))
    }

    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Option<Result<T, StoreError>> {
        let app = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let mut store = app.store();
            let asked = ask(&mut store);
            // What was changed holds from the answer on.
            asked.and_then(|answer| app.refresh(&mut store).map(|()| answer))
        });
        asked.await.ok()
    }

    /// Takes what has changed in the store.
    fn refresh(&self, store: &mut Store) -> Result<(), StoreError> {
        let sequence = store.sequence()?;
        if self.fleet().sequence() == Some(sequence) {
            return Ok(());
        }
        let (known, base) = (self.fleet().revision(), self.fleet().base());
        let rollout = store.rollout()?;
        // A document of many sites takes longer to read than all the rest.
        let latest = if store.latest_number()? == known { None } else { store.latest()? };
        let before = rollout.as_ref().map(|rollout| rollout.revision - 1);
        let base = match before {
            Some(before) if before != base => Some(store.revision(before)?),
            _ => None,
        };
        let (members, holders) = (store.members()?, store.holders()?);
        let news = News { sequence, latest, members, holders, rollout, base };
        self.fleet_mut().update(news, &self.identity.network, &self.signer);
        self.changed.send_replace(sequence);
        Ok(())
    }

    /// Looks at the store until it was lost for long: why.
    async fn look(self: &Arc<Self>) -> StoreError {
        let mut look = tokio::time::interval(LOOK);
        let mut lost: Option<Instant> = None;
        loop {
            look.tick().await;
            match self.ask(|_| Ok(())).await {
                Some(Err(error @ (StoreError::Away { .. } | StoreError::Follows(_)))) => {
                    // Meanwhile what is known holds.
                    if lost.get_or_insert_with(Instant::now).elapsed() > LOST {
                        return error;
                    }
                }
                _ => lost = None,
            }
            if lost.is_none() {
                self.roll().await;
            }
        }
    }

    /// Carries a roll-out on, or takes it back.
    async fn roll(self: &Arc<Self>) {
        let verdict = self.fleet().verdict();
        let author = Author { by: SELF, at: now() };
        // What the store does not take now is decided anew at the next look.
        match verdict {
            Some((seen, Verdict::Goes)) => {
                let _ = self.ask(move |store| store.advance(author, &seen)).await;
            }
            Some((_, Verdict::Failed(why))) => {
                let _ = self.ask(move |store| store.roll_back(author, &why).map(drop)).await;
            }
            Some((_, Verdict::Waits(_))) | None => {}
        }
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

/// A controller that does not serve yet: it has an address, at which nobody is answered.
pub struct Candidate {
    store: Store,
    socket: OwnedFd,
}

impl Candidate {
    /// Opens a store, or makes one.
    pub fn new(place: &Place, address: SocketAddr) -> Result<Self, ServeError> {
        let store = Store::create(place)?;
        let open = || -> rustix::io::Result<OwnedFd> {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(family, SocketType::STREAM, flags, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &address)?;
            Ok(socket)
        };
        let socket = open().map_err(|error| ServeError::Listen { address, error: error.into() })?;
        Ok(Candidate { store, socket })
    }

    /// Waits until no other controller serves the store; before that it says once, by `waits`, that it does.
    pub fn wait(&mut self, waits: impl FnOnce()) -> Result<(), ServeError> {
        if self.store.leads()? {
            return Ok(());
        }
        waits();
        loop {
            thread::sleep(LOOK);
            match self.store.leads() {
                Ok(true) => return Ok(()),
                // A database that is away now comes back.
                Ok(false) | Err(StoreError::Away { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Listens.
    pub fn listen(self, given: &NewIdentity<'_>) -> Result<Server, ServeError> {
        let Candidate { mut store, socket } = self;
        let identity = Identity::load(&mut store, given)?;
        let signer = identity.signer()?;
        listen(&socket, BACKLOG).map_err(io::Error::from)?;
        let app = App {
            store: Mutex::new(store),
            fleet: RwLock::new(Fleet::default()),
            changed: watch::Sender::new(0),
            signer,
            identity,
        };
        app.refresh(&mut app.store())?;
        Ok(Server { app: Arc::new(app), listener: socket.into() })
    }
}

/// A controller that listens.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process is asked to end (SIGINT, SIGTERM, SIGHUP), or has lost the store.
    pub fn run(self) -> Result<(), ServeError> {
        let Server { app, listener } = self;
        let tls = app.identity.tls()?;
        let (looking, lost) = (Arc::clone(&app), Arc::new(OnceLock::new()));
        let losing = Arc::clone(&lost);
        let look = async move {
            let _ = losing.set(looking.look().await);
        };
        trunkline_pages::serve(listener, Some(tls), api::router(Arc::clone(&app)), look, GRACE)?;
        match Arc::into_inner(lost).and_then(OnceLock::into_inner) {
            Some(error) => Err(ServeError::Store(error)),
            None => Ok(()),
        }
    }
}
