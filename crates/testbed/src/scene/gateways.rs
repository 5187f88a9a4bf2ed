//! The two gateways of a scene as running processes.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::configuration::{self, Files, GatewaySetup};
use super::directory::Directory;
use super::{Plan, SceneError, control};
use crate::clock;
use crate::namespace::{Host, Process};
use crate::procfs::{self, CpuTime, Memory};
use crate::traffic::Stop;

/// How long lanes may take to come up after a start.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a gateway may take to end by itself.
const STOP_GRACE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Lines of a log that an error quotes.
const LOG_TAIL_LINES: usize = 12;

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

#[derive(Debug)]
struct Running {
    host: Arc<Host>,
    files: Files,
    /// `None` once it has been ended on purpose.
    process: Option<Process>,
}

/// Both gateways. Dropping it kills them and removes their files.
#[derive(Debug)]
pub struct Gateways {
    setup: GatewaySetup,
    running: [Running; 2],
    stop: Stop,
    // Last, so that the processes end before their files go.
    directory: Directory,
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
        let [files1, files2] = configuration::write(&directory, setup, plans)?;
        let [host1, host2] = hosts;
        let idle = |host, files| Running { host, files, process: None };
        let mut gateways = Self {
            setup: setup.clone(),
            running: [idle(host1, files1), idle(host2, files2)],
            stop: stop.clone(),
            directory,
        };
        // The second listens: started first, it is there when it is dialled.
        gateways.launch(Gateway::T2)?;
        gateways.launch(Gateway::T1)?;
        gateways.wait_until_up(START_LIMIT)?;
        Ok(gateways)
    }

    fn launch(&mut self, gateway: Gateway) -> Result<(), SceneError> {
        let running = &mut self.running[gateway as usize];
        let mut command = Command::new(&self.setup.binary);
        command.arg("up").arg(&running.files.configuration);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(self.directory.append(&running.files.log)?);
        // An interrupt from the terminal is for us, who end the gateways in order.
        command.process_group(0);
        running.process = Some(running.host.command(command)?);
        Ok(())
    }

    /// Waits until all lanes of both gateways are up; an error after `limit`, or at once if a gateway ended.
    pub fn wait_until_up(&mut self, limit: Duration) -> Result<(), SceneError> {
        let end = clock::now() + limit;
        for gateway in Gateway::BOTH {
            loop {
                let state = match control::status(&self.running[gateway as usize].files.socket) {
                    Ok(status) => control::lanes_not_up(&status),
                    Err(error) => vec![error.to_string()],
                };
                if state.is_empty() {
                    break;
                }
                self.check_alive(gateway)?;
                if self.stop.is_stopped() {
                    return Err(SceneError::Interrupted);
                }
                if clock::now() >= end {
                    let (state, log) = (state.join("; "), self.log_tail(gateway));
                    return Err(SceneError::NotUp { gateway, seconds: limit.as_secs(), state, log });
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(())
    }

    /// An error with the end of its log if a gateway that should run has ended.
    pub fn check_alive(&mut self, gateway: Gateway) -> Result<(), SceneError> {
        let process = self.running[gateway as usize].process.as_mut();
        let ended = process.map_or(Ok(None), Process::try_wait);
        match ended.map_err(|source| SceneError::Process { gateway, source })? {
            None => Ok(()),
            Some(status) => {
                Err(SceneError::Ended { gateway, status: status.to_string(), log: self.log_tail(gateway) })
            }
        }
    }

    /// The process id of a gateway that has been started and not ended on purpose.
    pub fn pid(&self, gateway: Gateway) -> Option<u32> {
        self.running[gateway as usize].process.as_ref().map(Process::pid)
    }

    /// What a gateway says of itself, as `trunkline status --json` prints it.
    pub fn status(&self, gateway: Gateway) -> Result<Value, SceneError> {
        control::status(&self.running[gateway as usize].files.socket)
            .map_err(|error| SceneError::Silent { gateway, reason: error.to_string() })
    }

    /// Has a gateway read its file again.
    pub fn reload(&self, gateway: Gateway) -> Result<(), SceneError> {
        control::ask(&self.running[gateway as usize].files.socket, "reload")
            .map(drop)
            .map_err(|error| SceneError::Silent { gateway, reason: error.to_string() })
    }

    /// The file a gateway is configured with, to be changed before a [`Gateways::reload`] or `restart`.
    pub fn configuration_file(&self, gateway: Gateway) -> &std::path::Path {
        &self.running[gateway as usize].files.configuration
    }

    /// The control socket of a gateway.
    pub fn control_socket(&self, gateway: Gateway) -> &std::path::Path {
        &self.running[gateway as usize].files.socket
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
        let pids = Gateway::BOTH.into_iter().filter_map(|gateway| Some((gateway, self.pid(gateway)?)));
        pids.map(|(gateway, pid)| read(pid).map_err(|source| SceneError::Process { gateway, source }))
            .collect()
    }

    /// Kills a gateway as a crash would (SIGKILL). Its socket and routes are what the kernel leaves of them.
    pub fn kill9(&mut self, gateway: Gateway) {
        // Dropping a process kills and reaps it.
        self.running[gateway as usize].process = None;
    }

    /// Starts a gateway again, ending it first if it runs. Does not wait for lanes: see
    /// [`Gateways::wait_until_up`].
    pub fn restart(&mut self, gateway: Gateway) -> Result<(), SceneError> {
        self.end(gateway)?;
        self.launch(gateway)
    }

    /// Ends both in order: each is asked to (SIGTERM), and killed if it has not after 5 s.
    pub fn stop(&mut self) -> Result<(), SceneError> {
        for gateway in Gateway::BOTH {
            if let Some(process) = &self.running[gateway as usize].process {
                // One that has ended already needs no signal.
                let _ = process.signal(Signal::TERM);
            }
        }
        Gateway::BOTH.into_iter().try_for_each(|gateway| self.end(gateway))
    }

    fn end(&mut self, gateway: Gateway) -> Result<(), SceneError> {
        let Some(mut process) = self.running[gateway as usize].process.take() else { return Ok(()) };
        process.terminate(STOP_GRACE).map(drop).map_err(|source| SceneError::Process { gateway, source })
    }

    /// Everything a gateway has logged.
    pub fn log(&self, gateway: Gateway) -> String {
        let path = self.directory.join(&self.running[gateway as usize].files.log);
        std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last lines a gateway has logged.
    pub fn log_tail(&self, gateway: Gateway) -> String {
        let log = self.log(gateway);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}
