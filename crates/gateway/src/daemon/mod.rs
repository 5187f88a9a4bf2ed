//! The daemon: one thread that sets everything up, makes and mends lanes, and answers questions.
//!
//! It never touches a packet. Workers own the data path; this thread owns the lanes' life, the configuration
//! and whatever can wait a millisecond. It is one loop over one epoll descriptor, and holds bounded state for
//! whoever connects.

mod connection;
mod half_open;
mod heartbeat;
mod known;
mod life;
mod limit;
mod listen;
mod names;
mod network;
mod rejections;
mod report;
mod resolver;
mod service;
mod workers;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use trunkline_units::Instant;

use crate::clock::now;
use crate::config::{Config, Encryption, LoadError, MetricsListen};
use crate::control::{Answer, Request};
use crate::device::{Device, DeviceError};
use crate::handshake::{Acceptor, Admit, HandshakeError, Identity};
use crate::keys::{PublicKey, SecretKey};
use crate::life::{Life, Serial, Site};
use crate::log::Log;
use crate::plan::Plan;
use crate::preflight::{self, Accepted, Refusals};
use crate::privilege::{Keep, PrivilegeError, drop_privileges};
use crate::request::{self, Language};
use crate::status::Strangers;
use crate::{metrics, sys};
use connection::Connection;
use half_open::HalfOpen;
use known::Known;
use limit::Every;
use listen::SocketFile;
use names::Names;
use network::Network;
use rejections::Rejections;
use resolver::{Resolver, ResolverError};
use service::{Client, Stream, Wants};
use workers::Workers;

/// Clients of the control socket at one time, and as many of the metrics: neither can keep the other from being answered.
const MAX_CLIENTS: usize = 16;
/// How long a client may take.
const CLIENT_TIME_OUT: Duration = Duration::from_secs(5);

/// Why a daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// What the configuration says.
    #[error(transparent)]
    Refused(#[from] Refusals),
    /// The TUN device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// An address to listen on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address or socket path.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A daemon already answers on the control socket.
    #[error("another daemon answers on {0}: `trunkline down` ends it")]
    Running(PathBuf),
    /// Cryptography.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// Giving up privileges.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// The system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A worker ended, and packets of its queue would no longer pass.
    #[error("worker {shard} ended: {reason}")]
    Worker {
        /// Its number.
        shard: usize,
        /// Why.
        reason: String,
    },
    /// A bug in the control thread.
    #[error("the control thread ended: {reason}")]
    Control {
        /// Why.
        reason: String,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |source| DaemonError::System { what, source }
}

enum Source {
    Signals(OwnedFd),
    WorkerEvents,
    Resolved,
    Network,
    Listener(TcpListener),
    Control(UnixListener),
    MetricsTcp(TcpListener),
    MetricsUnix(UnixListener),
    Connection(Box<Connection>),
    Client(Box<Client>),
}

impl Source {
    /// When its time is over, if it has a limit.
    fn deadline(&self) -> Option<Instant> {
        match self {
            Source::Connection(connection) => Some(connection.deadline),
            Source::Client(client) => Some(client.deadline),
            _ => None,
        }
    }
}

/// The connection of a lane that is up; its worker reads and writes it.
struct LaneSocket {
    fd: Arc<OwnedFd>,
    local: Option<SocketAddr>,
    remote: SocketAddr,
}

/// A running daemon.
pub struct Daemon {
    config: Config,
    path: PathBuf,
    identity: Identity,
    acceptor: Acceptor,
    admitted: Arc<RwLock<BTreeSet<PublicKey>>>,
    instance: u64,
    /// What chance and hashes follow from. Unlike `instance`, which peers are told, nobody knows it.
    seed: u64,
    epoll: OwnedFd,
    sources: BTreeMap<u64, Source>,
    next_token: u64,
    /// When sources with a limit are to be looked at; what has gone meanwhile stays in it until then.
    deadlines: BTreeSet<(Instant, u64)>,
    device: Device,
    network: Network,
    offloads: sys::TunOffloads,
    workers: Workers,
    resolver: Resolver,
    names: Names,
    half_open: HalfOpen,
    known: Known,
    rejections: Rejections,
    life: Life,
    lane_sockets: BTreeMap<Serial, LaneSocket>,
    /// The last line about what a peer asked for in vain.
    complaints: BTreeMap<PublicKey, Every>,
    accept_failures: Every,
    strangers: Strangers,
    started: Instant,
    /// Whether a service manager wants to be told that we are alive.
    has_watchdog: bool,
    log: Log,
    socket_files: Vec<SocketFile>,
    stopping: bool,
    failed: Option<DaemonError>,
}

impl Daemon {
    /// Sets everything up: keys, device, routes, sockets; then gives up privileges and starts the workers.
    ///
    /// The log's thread is started here too, once it has nothing to do with privileges any more.
    pub fn start(config: Config, log: Log) -> Result<Self, DaemonError> {
        let Accepted { identity: secret, warnings } = preflight::check(&config)?;
        raise_descriptor_limit();
        let signals = sys::signal_descriptor(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
            .map_err(system("cannot wait for signals"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(io::Error::from)
            .map_err(system("cannot make an epoll descriptor"))?;
        // From here on an error removes the files of the sockets again.
        let (control, file) = listen::unix(&config.control.socket)?;
        let mut socket_files = vec![file];
        let mut listeners = Vec::new();
        for address in &config.listen {
            listeners.push(listen::tcp(*address, config.lanes.fwmark)?);
        }
        let metrics = match config.metrics.as_ref().map(|metrics| &metrics.listen) {
            Some(MetricsListen::Tcp(address)) => Some(Source::MetricsTcp(listen::tcp(*address, None)?)),
            Some(MetricsListen::Unix(path)) => {
                let (listener, file) = listen::unix(path)?;
                socket_files.push(file);
                Some(Source::MetricsUnix(listener))
            }
            None => None,
        };
        // Before the device is set up, so that no change goes unnoticed.
        let network = Network::open()?;
        let (device, queues) = Device::open(&config)?;
        let offloads = queues[0].offloads();
        let identity = Identity::new(&secret)?;
        let admitted: Arc<RwLock<BTreeSet<PublicKey>>> = Arc::default();
        let acceptor = Acceptor::new(&identity, admit(&admitted))?;
        // It confines itself, in another way, so it is started before.
        let resolver = Resolver::start().map_err(|error| match error {
            ResolverError::System(source) => system("cannot start the resolver")(source),
            ResolverError::Privilege(error) => error.into(),
        })?;
        give_up_privileges(&config)?;
        log.start().map_err(system("cannot start the log's thread"))?;
        let mut seed = [0; 24];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
            .map_err(io::Error::from)
            .map_err(system("cannot draw a random number"))?;
        let [instance, jitter, seed] = [&seed[..8], &seed[8..16], &seed[16..]]
            .map(|part| part.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)));
        let watchdog = sd_notify::watchdog_enabled();
        let workers = Workers::start(queues, watchdog).map_err(system("cannot start the workers"))?;
        let life = Life::new(Site { key: identity.public(), shards: config.tun.queues, seed: jitter });
        let mut daemon = Daemon {
            path: config.file.clone(),
            identity,
            acceptor,
            admitted,
            instance,
            seed,
            life,
            lane_sockets: BTreeMap::new(),
            complaints: BTreeMap::new(),
            accept_failures: Every::default(),
            epoll,
            sources: BTreeMap::new(),
            next_token: 0,
            deadlines: BTreeSet::new(),
            device,
            network,
            offloads,
            workers,
            resolver,
            names: Names::default(),
            half_open: HalfOpen::new(now()),
            known: Known::default(),
            rejections: Rejections::default(),
            strangers: Strangers::default(),
            started: now(),
            has_watchdog: watchdog.is_some(),
            log,
            socket_files,
            stopping: false,
            failed: None,
            config,
        };
        daemon.add(Source::Signals(signals)).map_err(system("epoll"))?;
        daemon.add(Source::WorkerEvents).map_err(system("epoll"))?;
        daemon.add(Source::Resolved).map_err(system("epoll"))?;
        daemon.add(Source::Network).map_err(system("epoll"))?;
        daemon.add(Source::Control(control)).map_err(system("epoll"))?;
        for source in listeners.into_iter().map(Source::Listener).chain(metrics) {
            daemon.add(source).map_err(system("epoll"))?;
        }
        daemon.follow_config(&warnings);
        Ok(daemon)
    }

    /// Runs until told to stop. Everything it made is gone afterwards, but for what blocks packets to peers where
    /// that is asked for (`tun.on_exit`).
    pub fn run(mut self) -> Result<(), DaemonError> {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        tracing::info!(
            "{}: up on {}, key {}",
            self.config.name,
            self.config.tun.name,
            self.identity.public()
        );
        // A panic ends it in order as well: whatever is left of the lanes says goodbye, and nothing stays behind.
        let result = catch_unwind(AssertUnwindSafe(|| self.turn()))
            .unwrap_or_else(|panic| Err(DaemonError::Control { reason: panic_reason(&*panic) }));
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        self.workers.stop();
        self.device.close();
        self.socket_files.clear();
        self.tell_what_stays_blocked();
        tracing::info!("{}: down", self.config.name);
        result
    }

    fn turn(&mut self) -> Result<(), DaemonError> {
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(64);
        while !self.stopping {
            let timeout = self.attend_network().min(self.attend_deadlines());
            ready.clear();
            let spec = rustix::event::Timespec {
                tv_sec: timeout.as_secs().cast_signed(),
                tv_nsec: timeout.subsec_nanos().into(),
            };
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&spec)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(system("epoll")(error.into())),
            }
            for event in ready.drain(..) {
                self.attend(event.data.u64());
            }
            self.take_turns();
            if self.workers.beat(now()) && self.has_watchdog {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
            }
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn fd_of<'a>(&'a self, source: &'a Source) -> Option<BorrowedFd<'a>> {
        Some(match source {
            Source::Signals(fd) => fd.as_fd(),
            Source::WorkerEvents => self.workers.events.as_fd(),
            Source::Resolved => self.resolver.answers.as_fd(),
            Source::Network => self.network.as_fd(),
            Source::Listener(listener) | Source::MetricsTcp(listener) => listener.as_fd(),
            Source::Control(listener) | Source::MetricsUnix(listener) => listener.as_fd(),
            Source::Connection(connection) => return connection.fd(),
            Source::Client(client) => client.stream.as_fd(),
        })
    }

    fn add(&mut self, source: Source) -> io::Result<u64> {
        let token = self.next_token;
        self.next_token += 1;
        let flags = match &source {
            Source::Connection(connection) if connection.dialled.is_some() => epoll::EventFlags::OUT,
            _ => epoll::EventFlags::IN,
        };
        if let Some(fd) = self.fd_of(&source) {
            epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), flags)?;
        }
        self.deadlines.extend(source.deadline().map(|at| (at, token)));
        self.sources.insert(token, source);
        Ok(token)
    }

    fn rearm(&self, token: u64, fd: BorrowedFd<'_>, flags: epoll::EventFlags) {
        let _ = epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), flags);
    }

    fn attend(&mut self, token: u64) {
        // Taken out while it is attended to, so that whatever it leads to may change the table.
        let Some(source) = self.sources.remove(&token) else { return };
        let keep = match source {
            Source::Signals(fd) => {
                while let Some(signal) = sys::next_signal(fd.as_fd()) {
                    self.signal(signal);
                }
                Some(Source::Signals(fd))
            }
            Source::WorkerEvents => {
                self.worker_events();
                Some(Source::WorkerEvents)
            }
            Source::Resolved => {
                self.take_resolved();
                Some(Source::Resolved)
            }
            Source::Network => {
                self.take_network_events();
                Some(Source::Network)
            }
            Source::Listener(listener) => {
                self.accept(&listener);
                Some(Source::Listener(listener))
            }
            Source::Control(listener) => {
                self.accept_clients(|| listener.accept().map(|(s, _)| Stream::Unix(s)), Language::Control);
                Some(Source::Control(listener))
            }
            Source::MetricsUnix(listener) => {
                self.accept_clients(|| listener.accept().map(|(s, _)| Stream::Unix(s)), Language::Http);
                Some(Source::MetricsUnix(listener))
            }
            Source::MetricsTcp(listener) => {
                self.accept_clients(|| listener.accept().map(|(s, _)| Stream::Tcp(s)), Language::Http);
                Some(Source::MetricsTcp(listener))
            }
            Source::Connection(connection) => {
                self.attend_connection(token, connection);
                None
            }
            Source::Client(client) => self.serve(token, client),
        };
        if let Some(source) = keep {
            self.sources.insert(token, source);
        }
    }

    fn signal(&mut self, signal: i32) {
        if signal == libc::SIGHUP {
            match self.reload() {
                Ok(message) => tracing::info!("{message}"),
                Err(message) => tracing::error!("reload: {message}"),
            }
        } else {
            self.stopping = true;
        }
    }

    // ------------------------------------------------------------ clients

    fn accept_clients(&mut self, accept: impl Fn() -> io::Result<Stream>, speaks: Language) {
        // Bounded, so that a flood of connections leaves time for everything else.
        for _ in 0..MAX_CLIENTS {
            let Ok(stream) = accept() else { return };
            let nonblocking = match &stream {
                Stream::Unix(stream) => stream.set_nonblocking(true),
                Stream::Tcp(stream) => stream.set_nonblocking(true),
            };
            if nonblocking.is_err() {
                continue;
            }
            let clients = self.sources.iter().filter_map(|(token, source)| match source {
                Source::Client(client) if client.speaks == speaks => Some((*token, client.is_idle())),
                _ => None,
            });
            if let Some(token) = service::evicted(clients, MAX_CLIENTS) {
                self.sources.remove(&token);
            }
            let client = Client::new(stream, speaks, now() + CLIENT_TIME_OUT);
            let _ = self.add(Source::Client(Box::new(client)));
        }
    }

    fn serve(&mut self, token: u64, mut client: Box<Client>) -> Option<Source> {
        let mut wants = client.write();
        if wants == Wants::Close {
            wants = client.read();
        }
        if let Wants::Answer(request) = wants {
            wants = match client.speaks {
                Language::Control => {
                    let answer = self.answer(&request);
                    let text = serde_json::to_string(&answer).unwrap_or_default() + "\n";
                    client.answer(text)
                }
                Language::Http => match request.as_str() {
                    "/metrics" | "/" => {
                        let page = metrics::prometheus(&self.status(false));
                        client.answer_http(200, "text/plain; version=0.0.4", &page)
                    }
                    "/status" | "/metrics.json" => {
                        let page = serde_json::to_string(&self.status(false)).unwrap_or_default();
                        client.answer_http(200, "application/json", &page)
                    }
                    _ => client.answer_http(404, "text/plain", "known here: /metrics and /metrics.json\n"),
                },
            };
        }
        let flags = match wants {
            Wants::Read => epoll::EventFlags::IN,
            Wants::Write => epoll::EventFlags::OUT,
            Wants::Answer(_) | Wants::Close => return None,
        };
        self.rearm(token, client.stream.as_fd(), flags);
        Some(Source::Client(client))
    }

    fn answer(&mut self, request: &str) -> Answer {
        match request::control(request) {
            Ok(Request::Status) => Answer::Status(Box::new(self.status(false))),
            Ok(Request::Flows) => Answer::Status(Box::new(self.status(true))),
            Ok(Request::Reload) => match self.reload() {
                Ok(message) => {
                    tracing::info!("{message}");
                    Answer::Done { message }
                }
                Err(message) => {
                    tracing::error!("reload: {message}");
                    Answer::Refused { message }
                }
            },
            Ok(Request::Down) => {
                self.stopping = true;
                Answer::Done { message: format!("{} goes down", self.config.name) }
            }
            Err(message) => Answer::Refused { message },
        }
    }

    // ------------------------------------------------------------ configuration

    /// Reads the file again and follows it, or says why not; then nothing has changed.
    fn reload(&mut self) -> Result<String, String> {
        let usec = now().as_nanos() / 1000;
        let _ = sd_notify::notify(&[
            sd_notify::NotifyState::Reloading,
            sd_notify::NotifyState::MonotonicUsec(i128::from(usec)),
        ]);
        let result = self.try_reload();
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        result
    }

    fn try_reload(&mut self) -> Result<String, String> {
        let new = Config::load(&self.path).map_err(|error: LoadError| error.to_string())?;
        let fixed = self.config.restart_needed(&new);
        if !fixed.is_empty() {
            return Err(format!("{}: needs a restart, nothing was changed", fixed.join(", ")));
        }
        let accepted = preflight::check(&new).map_err(|refusals| refusals.to_string())?;
        let renewed = self.renew(&accepted.identity).map_err(|error| error.to_string())?;
        self.device.follow(&new).map_err(|error| {
            // Back to what it was, as far as the kernel lets us.
            let _ = self.device.follow(&self.config);
            format!("{error}; nothing else was changed")
        })?;
        self.config = new;
        if let Some((identity, acceptor)) = renewed {
            self.take_identity(identity, acceptor);
        }
        self.follow_config(&accepted.warnings);
        self.network_changed();
        let (peers, classes) = (self.config.peers.len(), self.config.classes.len());
        Ok(format!("{}: reloaded: {peers} peers, {classes} classes", self.config.name))
    }

    /// What to shake hands with from now on, if the private key is another one.
    fn renew(&self, secret: &SecretKey) -> Result<Option<(Identity, Acceptor)>, HandshakeError> {
        if secret.public() == self.identity.public() {
            return Ok(None);
        }
        let identity = Identity::new(secret)?;
        let acceptor = Acceptor::new(&identity, admit(&self.admitted))?;
        Ok(Some((identity, acceptor)))
    }

    /// Makes everything that a reload may change what the configuration says.
    fn follow_config(&mut self, warnings: &[String]) {
        *self.admitted.write().unwrap_or_else(PoisonError::into_inner) =
            self.config.peers.iter().map(|peer| peer.public_key).collect();
        for peer in self.config.peers.iter().filter(|peer| peer.encryption == Encryption::None) {
            tracing::warn!("encryption = \"none\": data to and from {} travels in clear", peer.name);
        }
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        network::warn_of_strict_filters(&self.config);
        self.workers.follow(&Plan::new(&self.config, self.seed));
        self.follow_lanes();
    }
}

/// Whom an acceptor admits: the peers of the file that is in force.
fn admit(admitted: &Arc<RwLock<BTreeSet<PublicKey>>>) -> Admit {
    let admitted = Arc::clone(admitted);
    Arc::new(move |key| admitted.read().unwrap_or_else(PoisonError::into_inner).contains(key))
}

/// What a panic said.
fn panic_reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("no reason given"))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.workers.stop();
    }
}

/// Descriptors are bounded by the peers' lanes, attempts under way, strangers and clients, and the usual soft limit of
/// 1024 is for programs that use `select`.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!("cannot raise the limit of open files: {}", io::Error::from(error));
    }
}

fn give_up_privileges(config: &Config) -> Result<(), DaemonError> {
    let directory = |path: &Path| {
        path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
    };
    let mut read = vec![directory(&config.file)];
    if let crate::config::PrivateKeySource::File(path) = &config.private_key {
        read.push(directory(path));
    }
    // Which congestion controls there are.
    read.push(PathBuf::from("/proc/sys/net"));
    let mut write = vec![directory(&config.control.socket)];
    if let Some(MetricsListen::Unix(path)) = config.metrics.as_ref().map(|metrics| &metrics.listen) {
        write.push(directory(path));
    }
    read.retain(|path| path.exists());
    // To make the device anew, should somebody remove it.
    let devices = vec![PathBuf::from("/dev/net/tun")];
    drop_privileges(&Keep { read, write, devices })?;
    Ok(())
}
