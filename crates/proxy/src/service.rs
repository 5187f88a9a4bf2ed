//! The process: sockets, threads, and the way to them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use trunkline_linux::mailbox::Mailbox;
use trunkline_linux::{clock, signal_descriptor};
use trunkline_netlink::Family;
use trunkline_schema::{ProxyMode, ProxySettings};
use trunkline_service::Server;
use trunkline_status::ProxiesStatus;
use trunkline_units::Instant;

use crate::counters::Counters;
use crate::intake::{Intake, Parts};
use crate::plan::Plan;
use crate::relay::Pipes;
use crate::routing::{self, Listener, Routing, RoutingError};
use crate::sockets::{RawSender, TcpSettings};
use crate::worker::{ToWorker, Worker};

/// Sockets that listen or send packets, descriptors to wait for events, clients.
const DESCRIPTORS_OF_ITS_OWN: u64 = 64;

/// Why a proxy does not start, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Another process has what leads connections to it.
    #[error("another proxy runs in this network namespace")]
    Running,
    /// What leads connections to it cannot be made.
    #[error("{reason}")]
    Routing {
        /// What the system said.
        reason: String,
        /// Its error number, where there is one.
        errno: Option<i32>,
    },
    /// The kernel lacks something, or the process may not use it.
    #[error("cannot {step}: {source}")]
    System {
        /// What was to be done.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

fn system(step: &'static str) -> impl FnOnce(io::Error) -> ProxyError {
    move |source| ProxyError::System { step, source }
}

impl From<RoutingError> for ProxyError {
    fn from(error: RoutingError) -> Self {
        let errno = match &error {
            RoutingError::Running => return ProxyError::Running,
            RoutingError::Down => None,
            RoutingError::Device(source) | RoutingError::EarlyDemux(source) => source.raw_os_error(),
            RoutingError::Netlink(error) => error.errno(),
        };
        ProxyError::Routing { reason: error.to_string(), errno }
    }
}

impl ProxyError {
    /// The system's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            ProxyError::Running => None,
            ProxyError::Routing { errno, .. } => *errno,
            ProxyError::System { source, .. } => source.raw_os_error(),
        }
    }
}

/// A proxy that is ready to run: it has all that needs privileges.
///
/// New connections are diverted from the start on, and wait until it runs.
#[derive(Debug)]
pub struct Proxy {
    intake: Intake,
    workers: Vec<Worker>,
    to_workers: Vec<Mailbox<ToWorker>>,
    report: Report,
}

/// From where the state of a proxy is read.
#[derive(Debug, Clone)]
struct Report {
    name: String,
    started: Instant,
    plan: Plan,
    counters: Arc<Counters>,
    /// Whether the owner ends by an error.
    has_failed: Arc<AtomicBool>,
}

impl Report {
    fn status(&self) -> ProxiesStatus {
        let uptime = clock::now().saturating_since(self.started).as_secs_f64();
        crate::status::status(&self.name, uptime, &self.plan, &self.counters)
    }
}

impl Proxy {
    /// Opens sockets and device, and makes the way to them. `name` is what the status says, and `server` has the clients that this
    /// proxy answers itself.
    ///
    /// # Errors
    /// [`ProxyError`]. What was made is removed again.
    pub fn start(name: &str, plan: &Plan, server: Option<Server>) -> Result<Proxy, ProxyError> {
        warn_of_forwarding(plan);
        let plan = &within_descriptors(plan, server.is_some());
        let counters = Arc::new(Counters::new(plan.treatments.len()));
        let from_workers = Mailbox::new().map_err(system("make a mailbox"))?;
        let mut workers = Vec::new();
        let mut to_workers = Vec::new();
        for number in 0..plan.threads {
            let inbox: Mailbox<ToWorker> = Mailbox::new().map_err(system("make a mailbox"))?;
            let pipes = Pipes::new(plan.pipes_per_worker());
            let mail = (inbox.clone(), from_workers.clone());
            let worker = Worker::new(number, mail, Arc::clone(&counters), (pipes, plan.evict_after));
            workers.push(worker.map_err(system("make an epoll descriptor"))?);
            to_workers.push(inbox);
        }
        let (sockets, listeners) = listen(plan)?;
        let raw = |mark| RawSender::new(mark).map_err(system("open a raw socket"));
        let deliver = [raw(routing::DELIVER)?, raw(routing::DELIVER_TO_TAIL)?];
        let (forward, local) = (raw(routing::FORWARD)?, raw(routing::LOCAL)?);
        // Last, so that nothing is diverted that nobody would take.
        let routing = Routing::new(plan, &listeners)?;
        let parts = Parts {
            routing,
            listeners: sockets,
            deliver,
            forward,
            local,
            workers: to_workers.clone(),
            from_workers,
            counters: Arc::clone(&counters),
            name: name.to_owned(),
            server,
        };
        let intake = Intake::new(plan, parts).map_err(system("make an epoll descriptor"))?;
        let report = Report {
            name: name.to_owned(),
            started: clock::now(),
            plan: plan.clone(),
            counters,
            has_failed: Arc::default(),
        };
        Ok(Proxy { intake, workers, to_workers, report })
    }

    /// A descriptor that is readable once SIGTERM or SIGINT has come, which are blocked for this thread and those that it starts.
    ///
    /// # Errors
    /// [`ProxyError::System`].
    pub fn signals() -> Result<OwnedFd, ProxyError> {
        signal_descriptor(&[Signal::TERM.as_raw(), Signal::INT.as_raw()]).map_err(system("receive signals"))
    }

    /// Runs until `stop` is readable, or a client says so. Connections that are open then are reset, and what led new ones here is
    /// removed.
    ///
    /// # Errors
    /// [`ProxyError::System`], if the proxy cannot go on. With `fail = "closed"` new connections are unreachable then.
    pub fn run(mut self, stop: &OwnedFd) -> Result<ProxiesStatus, ProxyError> {
        let mut threads: Vec<JoinHandle<io::Result<()>>> = Vec::new();
        for (number, worker) in self.workers.drain(..).enumerate() {
            let thread = thread::Builder::new().name(format!("proxy {number}")).spawn(move || worker.run());
            threads.push(thread.map_err(system("start a thread"))?);
        }
        let outcome = self.intake.run(stop);
        if outcome.is_ok() && !self.report.has_failed.load(Ordering::Relaxed) {
            self.intake.end_in_order();
        }
        // First the way to the proxy, so that no connection comes that nobody would take.
        drop(self.intake);
        for worker in &self.to_workers {
            worker.post(ToWorker::Stop);
        }
        for thread in threads {
            match thread.join() {
                Ok(ended) => ended.map_err(system("move data"))?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcome.map_err(system("open connections"))?;
        Ok(self.report.status())
    }

    /// Runs in threads of its own, until the value is ended.
    ///
    /// # Errors
    /// [`ProxyError::System`].
    pub fn spawn(self) -> Result<ProxyThread, ProxyError> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let make =
            |made: rustix::io::Result<OwnedFd>| made.map_err(|error| system("make an event")(error.into()));
        let (stop, over) = (Arc::new(make(event())?), Arc::new(make(event())?));
        let report = self.report.clone();
        let (told, alarm) = (Arc::clone(&stop), Alarm(Arc::clone(&over)));
        let run = move || {
            let _alarm = alarm;
            self.run(&told)
        };
        let thread = thread::Builder::new().name("proxy".to_owned()).spawn(run);
        Ok(ProxyThread { thread: Some(thread.map_err(system("start a thread"))?), stop, over, report })
    }
}

/// Tells of the end of a thread, however it comes.
struct Alarm(Arc<OwnedFd>);

impl Drop for Alarm {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// How the owner of a proxy ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As it was told: nothing of the proxy stays.
    InOrder,
    /// By an error: with `fail = "closed"` new connections are unreachable afterwards.
    Failed,
}

/// A proxy that runs beside something else. Dropping it ends it as after an error.
#[derive(Debug)]
pub struct ProxyThread {
    /// `None` once it has ended.
    thread: Option<JoinHandle<Result<ProxiesStatus, ProxyError>>>,
    stop: Arc<OwnedFd>,
    /// Readable once it has ended.
    over: Arc<OwnedFd>,
    report: Report,
}

impl ProxyThread {
    /// Its state.
    pub fn status(&self) -> ProxiesStatus {
        self.report.status()
    }

    /// It has ended by itself, which its descriptor tells. Its state has the reason from now on, which is returned.
    pub fn handle_end(&mut self) -> String {
        let _ = rustix::io::read(&self.over, &mut [0; 8]);
        let reason = match self.join() {
            Ok(_) => "the proxies have ended".to_owned(),
            Err(error) => format!("the proxies have ended: {error}"),
        };
        self.report.counters.set_problem(Some(reason.clone()));
        reason
    }

    /// Ends it, if it has not ended by itself. Its last state.
    ///
    /// # Errors
    /// Why it has ended by itself.
    pub fn end(mut self, ending: Ending) -> Result<ProxiesStatus, ProxyError> {
        self.stop(ending)
    }

    fn stop(&mut self, ending: Ending) -> Result<ProxiesStatus, ProxyError> {
        self.report.has_failed.store(ending == Ending::Failed, Ordering::Relaxed);
        let has_ended = self.thread.is_none();
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        let outcome = self.join();
        // What an end by itself has left.
        if (has_ended || outcome.is_err()) && ending == Ending::InOrder {
            unblock()?;
        }
        outcome
    }

    fn join(&mut self) -> Result<ProxiesStatus, ProxyError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(system("open connections")(io::Error::other("a thread panicked"))),
            None => Ok(self.report.status()),
        }
    }
}

impl Drop for ProxyThread {
    fn drop(&mut self) {
        if self.thread.is_some()
            && let Err(error) = self.stop(Ending::Failed)
        {
            tracing::error!("proxies: {error}");
        }
    }
}

/// Lets connections pass that a proxy with `fail = "closed"` has left unreachable in this network namespace. Whether there was one.
///
/// # Errors
/// A proxy runs here, or the kernel refused.
pub fn unblock() -> Result<bool, ProxyError> {
    Ok(routing::unblock()?)
}

impl AsFd for ProxyThread {
    /// Readable once it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }
}

/// Sockets that listen in each version of IP that there is.
fn listen(plan: &Plan) -> Result<(Vec<OwnedFd>, Vec<Listener>), ProxyError> {
    let settings = TcpSettings::from(plan);
    let mut listeners = (Vec::new(), Vec::new());
    // What the accepted sockets send has the mark of the listening one, from their first answer on.
    let mut kinds = vec![(None, routing::DELIVER)];
    if plan.has_tails() {
        kinds.push((Some(routing::TAIL), routing::DELIVER_TO_TAIL));
    }
    // Where IPv6 is switched off on the loopback, a transparent socket can still be bound to it, and gets nothing.
    let is_off = std::fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6");
    let is_off = is_off.is_ok_and(|text| text.trim() == "1");
    let families = Family::BOTH.into_iter().filter(|family| *family == Family::V4 || !is_off);
    let wanted = families.flat_map(|family| kinds.iter().map(move |kind| (family, *kind)));
    for (family, (own, mark)) in wanted {
        match settings.listen(family, own) {
            Ok((socket, address)) => {
                listeners.0.push(socket);
                listeners.1.push(Listener { address, mark });
            }
            // The kernel has no IPv6, or it is switched off on the loopback.
            Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if family == Family::V6 => {
                tracing::info!("no IPv6 here");
            }
            Err(error) => return Err(system("listen on the loopback")(error.into())),
        }
    }
    Ok(listeners)
}

/// Raises the limit of descriptors as far as it goes and the plan needs it. What `plan` comes to with those that there are.
fn within_descriptors(plan: &Plan, is_alone: bool) -> Plan {
    let needed = plan.descriptors() + DESCRIPTORS_OF_ITS_OWN;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let maximum = limit.maximum.map(|maximum| maximum.max(needed));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).is_err() {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        }
    }
    let Some(limit) = getrlimit(Resource::Nofile).current else { return plan.clone() };
    let in_use = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    let free = limit.saturating_sub(in_use);
    // A gateway has lanes and callers beside its proxies.
    let free = if is_alone { free - DESCRIPTORS_OF_ITS_OWN.min(free / 2) } else { free / 2 };
    let fitting = plan.clone().within_descriptors(free);
    if fitting.limits.connections < plan.limits.connections {
        let room = fitting.limits.connections;
        if plan.limits.connections == ProxySettings::default().connections as usize {
            // Nobody has asked for so many.
            tracing::info!(
                "room for {room} connections at a time, by the limit of open files, which is {limit}; LimitNOFILE={needed} allows more"
            );
        } else {
            tracing::warn!(
                "the limit of open files is {limit}: there is room for {room} connections at a time, of {} that are configured; \
                 LimitNOFILE={needed} allows all",
                plan.limits.connections
            );
        }
    }
    fitting
}

/// Says what is likely to be in the way.
fn warn_of_forwarding(plan: &Plan) {
    let off = |path: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0");
    let treats = plan.treatments.iter().filter(|treatment| treatment.mode != ProxyMode::None);
    let behind: Vec<_> = treats.flat_map(|treatment| &treatment.behind).collect();
    for (v4, path) in
        [(true, "/proc/sys/net/ipv4/ip_forward"), (false, "/proc/sys/net/ipv6/conf/all/forwarding")]
    {
        if behind.iter().any(|net| net.addr().is_ipv4() == v4) && off(path) {
            tracing::warn!("{path} is 0: this host is no router, and no connection will come");
        }
    }
}
