//! The daemon's control thread: it sets up the gateway, dials and accepts lanes, and answers clients.
//!
//! It never touches a packet: workers own the data path. The control thread owns the lifecycle of lanes, the
//! configuration, and all work that can wait a millisecond. It is one loop over one epoll descriptor. Its state for
//! unauthenticated callers is bounded.

mod accept;
mod auto;
mod clients;
mod connection;
mod deadlines;
mod dial;
mod error;
mod heartbeat;
mod invitations;
mod lanes;
mod limit;
mod names;
mod network;
mod paths;
mod peer_log;
mod quic;
mod quota;
mod race;
mod rejections;
mod reload;
mod report;
mod resolver;
mod sleep;
mod source;
mod workers;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use trunkline_proxy::{Ending, Proxy, ProxyThread};
use trunkline_service::{SocketFile, listen, raise_descriptor_limit};
use trunkline_status::Callers;
use trunkline_trunk::Delivery;
use trunkline_units::Instant;

use crate::clock::now;
use crate::config::{Config, MetricsListen};
use crate::device::Device;
use crate::half_open::HalfOpen;
use crate::handshake::{Acceptor, Identity};
use crate::join::Invitations;
use crate::keys::PublicKey;
use crate::known::KnownAddresses;
use crate::life::{Life, PathKey, Serial, Site};
use crate::log::Log;
use crate::plan::KnownPaths;
use crate::preflight::{self, Accepted};
use crate::privilege::{Keep, drop_privileges};
use crate::sys;
pub use error::DaemonError;
use error::system;
use limit::RateLimit;
use names::Names;
use network::Network;
use peer_log::{PeerLog, Told};
use rejections::Rejections;
use reload::admit;
use resolver::{Resolver, ResolverError};
use sleep::{Sleep, wake_timer};
use source::Source;
use workers::Workers;

/// The connection of a lane that is up; its worker reads and writes it.
struct LaneSocket {
    /// The path of its lane.
    path: PathKey,
    /// `None` over QUIC: the worker has its socket.
    fd: Option<Arc<OwnedFd>>,
    local: Option<SocketAddr>,
    remote: SocketAddr,
    /// How it delivers, over QUIC.
    delivery: Option<Delivery>,
    /// The bound on its segments, if this site has dialled it with one.
    max_segment: Option<u16>,
}

/// A running daemon.
pub struct Daemon {
    config: Config,
    path: PathBuf,
    identity: Identity,
    acceptor: Acceptor,
    admitted: Arc<RwLock<BTreeSet<PublicKey>>>,
    instance: u64,
    /// The key of hashes. Unlike `instance`, which peers receive, it is secret.
    seed: u64,
    paths: KnownPaths,
    /// The paths on which peers dial of which the configuration has none.
    learnt_paths: BTreeMap<PublicKey, Vec<paths::LearntPath>>,
    epoll: OwnedFd,
    sources: BTreeMap<u64, Source>,
    next_token: u64,
    /// Deadlines of sources. The entry of a source that has been removed stays until its time.
    deadlines: BTreeSet<(Instant, u64)>,
    device: Device,
    network: Network,
    sleep: Sleep,
    offloads: sys::TunOffloads,
    workers: Workers,
    /// The transparent proxies beside the trunks.
    proxies: Option<ProxyThread>,
    resolver: Resolver,
    names: Names,
    half_open: HalfOpen,
    known: KnownAddresses,
    rejections: Rejections,
    invitations: Invitations,
    life: Life,
    lane_sockets: BTreeMap<Serial, LaneSocket>,
    quic: quic::QuicState,
    auto: auto::AutoState,
    /// The names of peers that the last reload has removed, or whose keys it has changed: their lanes end now.
    former_names: BTreeMap<PublicKey, String>,
    peer_log: PeerLog,
    race: race::RaceState,
    quota: quota::QuotaState,
    /// The last warning about declined requests of each peer.
    request_warnings: BTreeMap<PublicKey, RateLimit>,
    accept_warnings: RateLimit,
    callers: Callers,
    started: Instant,
    /// Whether a service manager expects watchdog notifications.
    has_watchdog: bool,
    log: Log,
    socket_files: Vec<SocketFile>,
    stopping: bool,
    failed: Option<DaemonError>,
}

impl Daemon {
    /// Sets up keys, device, routes and sockets, drops privileges and starts the workers.
    ///
    /// It starts the log's thread after it has dropped privileges, so that the thread has none.
    pub fn start(config: Config, log: Log) -> Result<Self, DaemonError> {
        let Accepted { identity: secret, warnings } = preflight::check(&config)?;
        // Lanes, dials, callers and clients bound their number already.
        if let Err(error) = raise_descriptor_limit() {
            tracing::warn!("cannot raise the limit of open files: {error}");
        }
        let signals = sys::signal_descriptor(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
            .map_err(system("cannot wait for signals"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(io::Error::from)
            .map_err(system("cannot create an epoll descriptor"))?;
        // From here on, an error removes the files of the sockets: `socket_files` is dropped.
        let (control, file) = listen::unix(&config.control.socket)?;
        let mut socket_files = vec![file];
        let mut listeners = Vec::new();
        for address in &config.listen {
            listeners.push(listen::tcp(*address, config.fwmark)?);
        }
        let quic_listeners = quic::open_listeners(&config)?;
        let metrics = match config.metrics.as_ref().map(|metrics| &metrics.listen) {
            Some(MetricsListen::Tcp(address)) => Some(Source::MetricsTcp(listen::tcp(*address, None)?)),
            Some(MetricsListen::Unix(path)) => {
                let (listener, file) = listen::unix(path)?;
                socket_files.push(file);
                Some(Source::MetricsUnix(listener))
            }
            None => None,
        };
        // Before the device is set up, so that the monitor misses no change.
        let network = Network::open()?;
        let (device, queues) = Device::open(&config)?;
        let offloads = queues[0].offloads();
        // After the device, into which the proxies' connections may be routed.
        let proxies =
            config.proxies.as_ref().map(|plan| Proxy::start(&config.name, plan, None)).transpose()?;
        let identity = Identity::new(&secret)?;
        let admitted: Arc<RwLock<BTreeSet<PublicKey>>> = Arc::default();
        let acceptor = Acceptor::new(&identity, admit(&admitted))?;
        // Before the privileges are dropped: the resolver's thread drops its own, and keeps access to other files.
        let resolver = Resolver::start().map_err(|error| match error {
            ResolverError::System(source) => system("cannot start the resolver")(source),
            ResolverError::Privilege(error) => error.into(),
        })?;
        quota::make_directory(&config).map_err(system("cannot keep the count of quotas"))?;
        give_up_privileges(&config)?;
        log.start().map_err(system("cannot start the log's thread"))?;
        let mut seed = [0; 24];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
            .map_err(io::Error::from)
            .map_err(system("cannot draw a random number"))?;
        let [instance, jitter, seed] = [&seed[..8], &seed[8..16], &seed[16..]]
            .map(|part| part.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)));
        let watchdog = sd_notify::watchdog_enabled();
        let workers =
            Workers::start(queues, &identity, watchdog).map_err(system("cannot start the workers"))?;
        let proxies = proxies.map(Proxy::spawn).transpose()?;
        let life = Life::new(Site { key: identity.public(), shards: config.tun.queues, seed: jitter });
        let mut daemon = Daemon {
            path: config.file.clone(),
            identity,
            acceptor,
            admitted,
            instance,
            seed,
            paths: KnownPaths::default(),
            learnt_paths: BTreeMap::new(),
            life,
            lane_sockets: BTreeMap::new(),
            quic: quic::QuicState::default(),
            auto: auto::AutoState::default(),
            former_names: BTreeMap::new(),
            peer_log: PeerLog::default(),
            race: race::RaceState::default(),
            quota: quota::QuotaState::default(),
            request_warnings: BTreeMap::new(),
            accept_warnings: RateLimit::default(),
            epoll,
            sources: BTreeMap::new(),
            next_token: 0,
            deadlines: BTreeSet::new(),
            device,
            network,
            sleep: Sleep::default(),
            offloads,
            workers,
            proxies,
            resolver,
            names: Names::default(),
            half_open: HalfOpen::new(now(), accept::LIMITS),
            known: KnownAddresses::default(),
            rejections: Rejections::default(),
            invitations: Invitations::default(),
            callers: Callers::default(),
            started: now(),
            has_watchdog: watchdog.is_some(),
            log,
            socket_files,
            stopping: false,
            failed: None,
            config,
        };
        daemon.add(Source::Signals(signals)).map_err(system("epoll"))?;
        daemon.look_for_sleep();
        let timer = wake_timer().map_err(system("cannot create a timer"))?;
        daemon.add(Source::WakeTimer(timer)).map_err(system("epoll"))?;
        daemon.add(Source::WorkerEvents).map_err(system("epoll"))?;
        daemon.add(Source::Resolved).map_err(system("epoll"))?;
        daemon.add(Source::Network).map_err(system("epoll"))?;
        daemon.add(Source::Proxies).map_err(system("epoll"))?;
        daemon.add(Source::Control(control)).map_err(system("epoll"))?;
        for source in listeners.into_iter().map(Source::Listener).chain(metrics) {
            daemon.add(source).map_err(system("epoll"))?;
        }
        daemon.listen_quic(quic_listeners);
        daemon.accept_quic();
        daemon.apply_config(&warnings);
        Ok(daemon)
    }

    /// Runs until a client or a signal ends it. Then it removes all that it has set up, except the routes that block packets
    /// to peers (`tun.on_exit`).
    pub fn run(mut self) -> Result<(), DaemonError> {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        tracing::info!(
            "{}: up on device {}, key {}",
            self.site_label(),
            self.config.tun.name,
            self.identity.public()
        );
        // After a panic the daemon shuts down in order too: it closes lanes and removes the device and the sockets.
        let result = catch_unwind(AssertUnwindSafe(|| self.event_loop()))
            .unwrap_or_else(|panic| Err(DaemonError::Control { reason: panic_reason(&*panic) }));
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        // First what leads connections to the proxies.
        let ending = if result.is_ok() { Ending::InOrder } else { Ending::Failed };
        if let Some(Err(error)) = self.proxies.take().map(|proxies| proxies.end(ending)) {
            tracing::error!("proxies: {error}");
        }
        self.write_usage();
        self.workers.stop();
        self.device.close();
        self.socket_files.clear();
        self.log_blocked_prefixes();
        tracing::info!("{}: down", self.site_label());
        result
    }

    fn event_loop(&mut self) -> Result<(), DaemonError> {
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(64);
        while !self.stopping {
            let timeout = self.handle_network_deadlines().min(self.handle_deadlines());
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
                self.handle_event(event.data.u64());
            }
            self.start_handshakes();
            if self.workers.beat(now()) && self.has_watchdog {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
            }
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// The message of a panic.
fn panic_reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("no reason given"))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.workers.stop();
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
    // For the list of congestion controls.
    read.push(PathBuf::from("/proc/sys/net"));
    let mut write = vec![directory(&config.control.socket)];
    if let Some(MetricsListen::Unix(path)) = config.metrics.as_ref().map(|metrics| &metrics.listen) {
        write.push(directory(path));
    }
    if config.state_directory.is_dir() {
        write.push(config.state_directory.clone());
    }
    read.retain(|path| path.exists());
    // To create the device again if another program removes it.
    let devices = vec![PathBuf::from("/dev/net/tun")];
    // A proxied connection from a port below 1024 goes on from there.
    drop_privileges(&Keep { read, write, devices, low_ports: config.proxies.is_some() })?;
    Ok(())
}

fn warn(line: Option<String>) {
    if let Some(line) = line {
        tracing::warn!("{line}");
    }
}
