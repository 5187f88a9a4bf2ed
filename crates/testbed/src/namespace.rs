//! Hosts: network namespaces that live as long as the value.
//!
//! A network namespace lives while a thread is in it or a file refers to it. A [`Host`] has both, a thread that
//! made the namespace and stays in it, and no name anywhere, so there is nothing to remove.
//!
//! Work in the namespace is done by threads of its own that join it first; the long-lived thread only starts
//! children. It must: the death signal of a child fires when the *thread* that forked it ends (prctl(2)).

mod process;
mod task;

use std::fs::File;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use ipnet::IpNet;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use trunkline_netlink::{Existing, Handle, NetlinkError, Route};

use crate::sys;

pub use process::Process;
pub use task::Task;

/// What went wrong while building or using a host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The namespace could not be made.
    #[error("host {host}: cannot make a network namespace: {source} (see `privilege`)")]
    Create {
        /// The host's name.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused a change of links, addresses or routes.
    #[error("host {host}: {source}")]
    Network {
        /// The host's name.
        host: String,
        /// What was asked and why not.
        source: NetlinkError,
    },
    /// A kernel setting could not be written.
    #[error("host {host}: cannot set {path} to {value:?}: {source}")]
    Sysctl {
        /// The host's name.
        host: String,
        /// The setting.
        path: String,
        /// The value.
        value: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("host {host}: cannot start {program}: {source}")]
    Start {
        /// The host's name.
        host: String,
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A device's offloads could not be changed.
    #[error("host {host}: cannot change the offloads of {device}: {source}")]
    Offloads {
        /// The host's name.
        host: String,
        /// The device.
        device: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Whether the kernel may hand a device packets longer than its MTU, to be cut (or after being merged) there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offloads {
    /// Packets of up to 64 KB: fast, and not what a wire carries.
    On,
    /// Packets as a wire would carry them.
    Off,
}

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace with a thread in it.
#[derive(Debug)]
pub struct Host {
    name: String,
    namespace: Arc<File>,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Makes a namespace with nothing but a loopback device, which is up.
    pub fn new(name: &str) -> Result<Self, HostError> {
        let create = |source| HostError::Create { host: name.to_owned(), source };
        let (jobs, queue) = mpsc::channel::<Job>();
        let (made, outcome) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(format!("host {name}"))
            .spawn(move || {
                let namespace = sys::unshare_network().and_then(|()| File::open("/proc/thread-self/ns/net"));
                let failed = namespace.is_err();
                if made.send(namespace).is_err() || failed {
                    return;
                }
                for job in queue {
                    job();
                }
            })
            .map_err(create)?;
        let namespace =
            outcome.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended"))).map_err(create)?;
        let host = Self {
            name: name.to_owned(),
            namespace: Arc::new(namespace),
            jobs: Some(jobs),
            thread: Some(thread),
        };
        host.netlink(|handle| handle.link_index("lo").and_then(|lo| handle.set_up(lo)))?;
        Ok(host)
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace, which lives at least as long as this does.
    pub(crate) fn namespace(&self) -> Arc<File> {
        Arc::clone(&self.namespace)
    }

    /// A descriptor of the namespace.
    pub fn netns_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Runs `work` in the namespace and waits for it. Threads that `work` starts are in the namespace as well.
    ///
    /// # Panics
    ///
    /// With the panic of `work`, if it panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                enter(&self.namespace);
                work()
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts a thread in the namespace. It keeps the namespace alive while it runs.
    pub fn spawn<T: Send + 'static>(&self, name: &str, work: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        let namespace = Arc::clone(&self.namespace);
        Task::start(format!("{} {name}", self.name), move || {
            enter(&namespace);
            drop(namespace);
            work()
        })
    }

    /// Starts a program in the namespace. It is killed when the value is dropped, when the host is, and when this
    /// process ends in whatever way.
    pub fn command(&self, mut command: Command) -> Result<Process, HostError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let (started, outcome) = mpsc::sync_channel(1);
        let job = Box::new(move || {
            sys::die_with_the_parent(&mut command);
            // The receiver waits for this very message.
            let _ = started.send(command.spawn());
        });
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        let ended = || io::Error::other("the host's thread ended");
        let child = if sent { outcome.recv().unwrap_or_else(|_| Err(ended())) } else { Err(ended()) };
        child.map(Process::new).map_err(|source| HostError::Start {
            host: self.name.clone(),
            program,
            source,
        })
    }

    /// Talks to the namespace's rtnetlink.
    pub fn netlink<T: Send>(
        &self,
        work: impl FnOnce(&mut Handle) -> Result<T, NetlinkError> + Send,
    ) -> Result<T, HostError> {
        self.run(|| Handle::open().and_then(|mut handle| work(&mut handle)))
            .map_err(|source| HostError::Network { host: self.name.clone(), source })
    }

    /// Gives a device an address (with `peer`, of a point-to-point device) and takes the device up.
    pub fn address(&self, device: &str, address: IpNet, peer: Option<IpAddr>) -> Result<(), HostError> {
        self.netlink(|handle| {
            let index = handle.link_index(device)?;
            handle.add_address(index, address, peer)?;
            handle.set_up(index)
        })
    }

    /// Makes a route by way of `next_hop`, or replaces it.
    pub fn route(&self, destination: IpNet, next_hop: IpAddr) -> Result<(), HostError> {
        self.netlink(|handle| handle.add_route(&Route::to(destination).via(next_hop), Existing::Replace))
    }

    /// Makes a route out of a device without a next hop, or replaces it.
    pub fn route_out(&self, destination: IpNet, device: &str) -> Result<(), HostError> {
        self.netlink(|handle| {
            let index = handle.link_index(device)?;
            handle.add_route(&Route::to(destination).device(index), Existing::Replace)
        })
    }

    /// Writes a kernel setting, such as `net.ipv4.ip_forward` or `net/ipv4/ip_forward`. Those under `net` are the
    /// namespace's own: the kernel resolves them for the thread that opens the file.
    pub fn sysctl(&self, path: &str, value: &str) -> Result<(), HostError> {
        let file = if path.contains('/') { path.to_owned() } else { path.replace('.', "/") };
        self.run(|| std::fs::write(format!("/proc/sys/{file}"), value)).map_err(|source| HostError::Sysctl {
            host: self.name.clone(),
            path: path.to_owned(),
            value: value.to_owned(),
            source,
        })
    }

    /// Lets the host forward IPv4 and IPv6, and accept packets by any device.
    pub fn forwarding(&self) -> Result<(), HostError> {
        self.sysctl("net.ipv4.ip_forward", "1")?;
        self.sysctl("net.ipv6.conf.all.forwarding", "1")?;
        self.sysctl("net.ipv4.conf.all.rp_filter", "0")?;
        self.sysctl("net.ipv4.conf.default.rp_filter", "0")
    }

    /// Makes `algorithm` the congestion control of sockets that choose none, and forgets what earlier connections
    /// learnt. Without this a namespace inherits the machine's default, whatever that is.
    pub fn congestion_control(&self, algorithm: &str) -> Result<(), HostError> {
        self.sysctl("net.ipv4.tcp_congestion_control", algorithm)?;
        self.sysctl("net.ipv4.tcp_no_metrics_save", "1")
    }

    /// Turns segmentation and merging of packets (TSO, GSO, GRO) of a device on or off.
    pub fn offloads(&self, device: &str, offloads: Offloads) -> Result<(), HostError> {
        // ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO
        const SETTINGS: [u32; 3] = [0x1f, 0x24, 0x2c];
        let value = u32::from(offloads == Offloads::On);
        self.run(|| {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            SETTINGS.iter().try_for_each(|setting| sys::ethtool_set(&socket, device, *setting, value))
        })
        .map_err(|source| HostError::Offloads {
            host: self.name.clone(),
            device: device.to_owned(),
            source,
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Without senders the thread's loop ends.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Joins the two hosts by a pair of devices, both of which are up.
pub fn veth(a: &Host, name_a: &str, b: &Host, name_b: &str) -> Result<(), HostError> {
    a.netlink(|handle| {
        handle.create_veth(name_a, name_b, Some(b.netns_fd()))?;
        handle.link_index(name_a).and_then(|index| handle.set_up(index))
    })?;
    b.netlink(|handle| handle.link_index(name_b).and_then(|index| handle.set_up(index)))
}

/// Moves the calling thread into a namespace.
///
/// # Panics
///
/// If the kernel refuses: this process made the namespace, so only a bug can be the cause.
pub(crate) fn enter(namespace: &File) {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("the process owns the namespace");
}
