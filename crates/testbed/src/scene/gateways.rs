//! The two gateways of a scene as running processes.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use trunkline_status::Status;

use super::configuration::{self, GatewaySetup};
use super::{Plan, SceneError};
use crate::clock;
use crate::gateway::{Directory, GatewayProcess};
use crate::namespace::Host;
use crate::procfs::{self, CpuTime, Memory};
use crate::traffic::Stop;

/// How long lanes may take to come up after a start.
const START_LIMIT: Duration = Duration::from_secs(20);

/// One of the two gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gateway {
    /// The client's.
    T1,
    /// The server's.
    T2,
}

impl Gateway {
    /// Both of them.
    pub const BOTH: [Self; 2] = [Self::T1, Self::T2];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::T1 => Self::T2,
            Self::T2 => Self::T1,
        }
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::T1 => "t1",
            Self::T2 => "t2",
        })
    }
}

/// Both gateways. Dropping it kills them and removes their files.
#[derive(Debug)]
pub struct Gateways {
    running: [GatewayProcess; 2],
    stop: Stop,
    // Last, so that the processes end before their files go.
    _directory: Directory,
}

impl Gateways {
    /// Starts both and waits until all their lanes are up, or until `stop`.
    pub(super) fn start(
        hosts: [Arc<Host>; 2],
        setup: &GatewaySetup,
        plans: &[Plan],
        stop: &Stop,
    ) -> Result<Self, SceneError> {
        let directory = Directory::new()?;
        let [text1, text2] = configuration::texts(&directory, setup, plans)?;
        let [host1, host2] = hosts;
        let process = |gateway: Gateway, host, text: &str| {
            GatewayProcess::new(&gateway.to_string(), host, &setup.binary, &directory, text)
        };
        let running = [process(Gateway::T1, host1, &text1)?, process(Gateway::T2, host2, &text2)?];
        let mut gateways = Self { running, stop: stop.clone(), _directory: directory };
        // The second listens: started first, it is there when it is dialled.
        gateways.running[Gateway::T2 as usize].start()?;
        gateways.running[Gateway::T1 as usize].start()?;
        gateways.wait_until_up(START_LIMIT)?;
        Ok(gateways)
    }

    /// Waits until all lanes of both gateways are up; an error after `limit`, or at once if a gateway ended.
    pub fn wait_until_up(&mut self, limit: Duration) -> Result<(), SceneError> {
        let end = clock::now() + limit;
        for running in &mut self.running {
            running.wait_until_up(end, || self.stop.is_stopped())?;
        }
        Ok(())
    }

    /// An error with the end of its log if a gateway that should run has ended.
    pub fn check_alive(&mut self, gateway: Gateway) -> Result<(), SceneError> {
        Ok(self.running[gateway as usize].check_alive()?)
    }

    /// The process id of a gateway that has been started and not ended on purpose.
    pub fn pid(&self, gateway: Gateway) -> Option<u32> {
        self.running[gateway as usize].pid()
    }

    /// What a gateway says of itself, as `trunkline status --json` prints it.
    pub fn status(&self, gateway: Gateway) -> Result<Status, SceneError> {
        Ok(self.running[gateway as usize].status()?)
    }

    /// Has a gateway read its file again.
    pub fn reload(&self, gateway: Gateway) -> Result<(), SceneError> {
        Ok(self.running[gateway as usize].reload()?)
    }

    /// The file a gateway is configured with, to be changed before a [`Gateways::reload`] or `restart`.
    pub fn configuration_file(&self, gateway: Gateway) -> &std::path::Path {
        self.running[gateway as usize].configuration_file()
    }

    /// The control socket of a gateway.
    pub fn control_socket(&self, gateway: Gateway) -> &std::path::Path {
        self.running[gateway as usize].control_socket()
    }

    /// CPU time of both gateways together, of those that run now.
    pub fn cpu_time(&self) -> Result<CpuTime, SceneError> {
        self.costs(procfs::cpu_time).map(|times| {
            times.into_iter().fold(CpuTime::default(), |sum, time| CpuTime {
                user: sum.user + time.user,
                system: sum.system + time.system,
            })
        })
    }

    /// Memory of both gateways together, of those that run now.
    pub fn memory(&self) -> Result<Memory, SceneError> {
        self.costs(procfs::memory).map(|memories| {
            memories.into_iter().fold(Memory::default(), |sum, memory| Memory {
                resident_bytes: sum.resident_bytes + memory.resident_bytes,
                peak_bytes: sum.peak_bytes + memory.peak_bytes,
            })
        })
    }

    fn costs<T>(&self, read: impl Fn(u32) -> io::Result<T>) -> Result<Vec<T>, SceneError> {
        let costs = self.running.iter().map(|running| running.cost(&read));
        let costs: Vec<Option<T>> = costs.collect::<Result<_, _>>()?;
        Ok(costs.into_iter().flatten().collect())
    }

    /// Kills a gateway as a crash would (SIGKILL). Its socket and routes are what the kernel leaves of them.
    pub fn kill9(&mut self, gateway: Gateway) {
        self.running[gateway as usize].kill9();
    }

    /// Starts a gateway again, ending it first if it runs. Does not wait for lanes: see
    /// [`Gateways::wait_until_up`].
    pub fn restart(&mut self, gateway: Gateway) -> Result<(), SceneError> {
        let running = &mut self.running[gateway as usize];
        running.end()?;
        Ok(running.start()?)
    }

    /// Ends both in order: each is asked to (SIGTERM), and killed if it has not after 5 s.
    pub fn stop(&mut self) -> Result<(), SceneError> {
        self.running.iter().for_each(GatewayProcess::ask_to_end);
        self.running.iter_mut().try_for_each(|running| Ok(running.end()?))
    }

    /// Everything a gateway has logged.
    pub fn log(&self, gateway: Gateway) -> String {
        self.running[gateway as usize].log()
    }

    /// The last lines a gateway has logged.
    pub fn log_tail(&self, gateway: Gateway) -> String {
        self.running[gateway as usize].log_tail()
    }
}
