//! The process: sockets, threads, and the way to them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use trunkline_linux::mailbox::Mailbox;
use trunkline_linux::{clock, signal_descriptor};
use trunkline_netlink::Family;
use trunkline_schema::ProxyMode;
use trunkline_service::Server;
use trunkline_units::Instant;

use crate::counters::Counters;
use crate::intake::{Intake, Parts};
use crate::plan::Plan;
use crate::relay::Pipes;
use crate::routing::{self, Listener, Routing, RoutingError};
use crate::sockets::{RawSender, TcpSettings};
use crate::status::Status;
use crate::worker::{ToWorker, Worker};

/// Why a proxy does not start, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// What leads connections to it cannot be made.
    #[error("{0}")]
    Routing(String),
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
        ProxyError::Routing(error.to_string())
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
}

impl Report {
    fn status(&self) -> Status {
        let uptime = clock::now().saturating_since(self.started).as_secs_f64();
        Status::new(&self.name, uptime, &self.plan, &self.counters)
    }
}

impl Proxy {
    /// Opens sockets and device, and makes the way to them. `name` is what the status says, and `server` has the clients that this
    /// proxy answers itself.
    ///
    /// # Errors
    /// [`ProxyError`]. What was made is removed again.
    pub fn start(name: &str, plan: &Plan, server: Option<Server>) -> Result<Proxy, ProxyError> {
        warn_of_limits(plan);
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
        let report = Report { name: name.to_owned(), started: clock::now(), plan: plan.clone(), counters };
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
    /// [`ProxyError::System`], if the proxy cannot go on.
    pub fn run(mut self, stop: &OwnedFd) -> Result<Status, ProxyError> {
        let mut threads: Vec<JoinHandle<io::Result<()>>> = Vec::new();
        for (number, worker) in self.workers.drain(..).enumerate() {
            let thread = thread::Builder::new().name(format!("proxy {number}")).spawn(move || worker.run());
            threads.push(thread.map_err(system("start a thread"))?);
        }
        let outcome = self.intake.run(stop);
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

/// A proxy that runs beside something else. Dropping it ends it in order.
#[derive(Debug)]
pub struct ProxyThread {
    thread: Option<JoinHandle<Result<Status, ProxyError>>>,
    stop: Arc<OwnedFd>,
    /// Readable once it has ended.
    over: Arc<OwnedFd>,
    report: Report,
}

impl ProxyThread {
    /// Its state.
    pub fn status(&self) -> Status {
        self.report.status()
    }

    /// Ends it, if it has not ended by itself. Its last state.
    ///
    /// # Errors
    /// Why it has ended by itself.
    pub fn end(mut self) -> Result<Status, ProxyError> {
        self.stop()
    }

    fn stop(&mut self) -> Result<Status, ProxyError> {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(system("open connections")(io::Error::other("a thread panicked"))),
            None => Ok(self.report.status()),
        }
    }
}

impl Drop for ProxyThread {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!("proxies: {error}");
        }
    }
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

/// Says what is likely to be in the way, and raises the limit of descriptors as far as it goes.
fn warn_of_limits(plan: &Plan) {
    let pipes = 2 * plan.pipes_per_worker() * plan.threads;
    let needed = (2 * plan.limits.connections + pipes.min(2 * plan.limits.connections) + 64) as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let maximum = limit.maximum.map(|maximum| maximum.max(needed));
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum });
        if raised.is_err() {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
            let have = limit.maximum.unwrap_or(0);
            tracing::warn!(
                "the limit of open files is {have}, and {} connections may need {needed}: raise it (LimitNOFILE=)",
                plan.limits.connections
            );
        }
    }
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
