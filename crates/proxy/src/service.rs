//! The process: sockets, threads, and the way to them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use trunkline_linux::mailbox::Mailbox;
use trunkline_linux::{next_signal, signal_descriptor};
use trunkline_netlink::Family;
use trunkline_schema::ProxyMode;

use crate::counters::{Counters, Status};
use crate::intake::{Intake, Parts};
use crate::plan::Plan;
use crate::relay::Pipes;
use crate::routing::{self, Listener, Routing, RoutingError};
use crate::sockets::{RawSender, TcpSettings};
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
    counters: Arc<Counters>,
    signals: OwnedFd,
}

impl Proxy {
    /// Opens sockets and device, and makes the way to them. Blocks SIGTERM and SIGINT for this thread and those that it starts.
    ///
    /// # Errors
    /// [`ProxyError`]. What was made is removed again.
    pub fn start(plan: &Plan) -> Result<Proxy, ProxyError> {
        warn_of_limits(plan);
        let signals = signal_descriptor(&[Signal::TERM.as_raw(), Signal::INT.as_raw()])
            .map_err(system("receive signals"))?;
        let counters = Arc::new(Counters::default());
        let from_workers = Mailbox::new().map_err(system("make a mailbox"))?;
        let mut workers = Vec::new();
        let mut to_workers = Vec::new();
        for number in 0..plan.threads {
            let inbox: Mailbox<ToWorker> = Mailbox::new().map_err(system("make a mailbox"))?;
            let pipes = Pipes::new(plan.pipes_per_worker());
            let mail = (inbox.clone(), from_workers.clone());
            let worker = Worker::new(number, mail, Arc::clone(&counters), pipes);
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
        };
        let intake = Intake::new(plan, parts).map_err(system("make an epoll descriptor"))?;
        Ok(Proxy { intake, workers, to_workers, counters, signals })
    }

    /// Runs until SIGTERM or SIGINT. Connections that are open then are reset, and what led new ones here is removed.
    ///
    /// # Errors
    /// [`ProxyError::System`], if the proxy cannot go on.
    pub fn run(mut self) -> Result<Status, ProxyError> {
        let mut threads: Vec<JoinHandle<io::Result<()>>> = Vec::new();
        for (number, worker) in self.workers.drain(..).enumerate() {
            let thread = thread::Builder::new().name(format!("worker {number}")).spawn(move || worker.run());
            threads.push(thread.map_err(system("start a thread"))?);
        }
        let outcome = self.intake.run(&self.signals);
        while next_signal(std::os::fd::AsFd::as_fd(&self.signals)).is_some() {}
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
        Ok(self.counters.read())
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
    let wanted = Family::BOTH.into_iter().flat_map(|family| kinds.iter().map(move |kind| (family, *kind)));
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
