//! A tunnel of another program between two hosts, in the place of a trunk, so that an experiment can compare them.
//!
//! A program is described by data, a file of `tunnels/`: [`Adapter`]. Words of its commands may contain
//!
//! | | |
//! | --- | --- |
//! | `{directory}` | the tunnel's own directory |
//! | `{file:NAME}` | what a file of it contains, without the end of the line |
//! | `{device}`, `{port}` | the device of this end, a port that no other tunnel of the run uses |
//! | `{near}`, `{far}` | the addresses of both ends; `near` dials |
//! | `{side}` | 0 near, 1 far |
//! | `{number}`, `{unique}` | this tunnel's among those of its run, and among all of this machine |

mod adapter;

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ipnet::IpNet;
use trunkline_netlink::{Existing, Route};
use trunkline_units::Instant;

use crate::clock;
use crate::gateway::{Directory, GatewayError, append, log_tail};
use crate::namespace::{Host, HostError, Process};
use crate::tool::{self, ToolError, find};
pub use adapter::Adapter;
use adapter::{End, Step};

/// How long a tunnel may take to carry packets.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a command may take.
const STEP_LIMIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a program may take to end by itself.
const STOP_GRACE: Duration = Duration::from_secs(3);
const FIRST_PORT: u16 = 4700;
/// Nobody listens there.
const CLOSED_PORT: u16 = 9;

/// Why a tunnel is not there.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// Programs that are not installed.
    #[error("tunnel {tunnel} needs {missing}, which this machine has not")]
    Missing {
        /// Which tunnel.
        tunnel: String,
        /// The programs.
        missing: String,
    },
    /// A host refused something.
    #[error("tunnel {tunnel}: {source}")]
    Host {
        /// Which tunnel.
        tunnel: String,
        /// What.
        source: HostError,
    },
    /// Its directory, or a file in it.
    #[error(transparent)]
    File(#[from] GatewayError),
    /// A command of its set-up failed.
    #[error("tunnel {tunnel}: `{command}` failed: {reason}")]
    Command {
        /// Which tunnel.
        tunnel: String,
        /// The command line.
        command: String,
        /// What the system, or the program, said.
        reason: String,
    },
    /// A program ended.
    #[error("tunnel {tunnel}: {program} ended ({status}); its log ends with:\n{log}")]
    Ended {
        /// Which tunnel.
        tunnel: String,
        /// The program.
        program: String,
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// It did not come up in time.
    #[error("tunnel {tunnel} {problem} after {seconds} s; the logs of both ends end with:\n{log}")]
    NotUp {
        /// Which tunnel.
        tunnel: String,
        /// What is missing.
        problem: &'static str,
        /// How long that was waited for.
        seconds: u64,
        /// The last lines of their logs.
        log: String,
    },
    /// It was asked to stop while waiting.
    #[error("interrupted")]
    Interrupted,
}

/// Where a tunnel is to be. The first of each two is the near end's, which dials.
#[derive(Debug)]
pub struct TunnelSettings<'h> {
    /// Its name, for errors.
    pub name: &'h str,
    /// Its number among those of the run.
    pub number: u16,
    /// Both ends.
    pub hosts: [&'h Arc<Host>; 2],
    /// Their addresses.
    pub addresses: [Ipv4Addr; 2],
    /// The addresses behind each end.
    pub sites: [Vec<Ipv4Addr>; 2],
    /// A host behind the near end, which tries whether a host behind the far end answers.
    pub probe: &'h Host,
}

/// A tunnel that runs. Dropping it kills its programs.
#[derive(Debug)]
pub struct Tunnel {
    name: String,
    ends: [RunningEnd; 2],
    // Last, so that the programs end before their files go.
    _directory: Arc<Directory>,
}

#[derive(Debug)]
struct RunningEnd {
    host: Arc<Host>,
    device: String,
    log: PathBuf,
    /// Its command, without a program for a tunnel in the kernel.
    words: Vec<String>,
    process: Option<Process>,
}

impl Tunnel {
    /// Starts both ends and waits until packets pass.
    pub fn start(
        adapter: &Adapter,
        settings: &TunnelSettings<'_>,
        stop: &AtomicBool,
    ) -> Result<Self, TunnelError> {
        let missing = adapter.missing();
        if !missing.is_empty() {
            return Err(TunnelError::Missing {
                tunnel: settings.name.to_owned(),
                missing: missing.join(", "),
            });
        }
        let directory = Arc::new(Directory::new()?);
        let unique = unique();
        let words = |side| Words { settings, directory: &directory, unique: &unique, side, device: None };
        let devices = [0, 1].map(|side| words(side).fill(&adapter.device));
        let [near, far] = devices;
        let devices = [near?, far?];
        let words = |side: usize| Words { device: Some(devices[side].as_str()), ..words(side) };
        for step in &adapter.prepare {
            words(0).run(step)?;
        }
        let ends: [&End; 2] = [&adapter.near, &adapter.far];
        let running = |side: usize| -> Result<RunningEnd, TunnelError> {
            let start = ends[side].start.iter().map(|word| words(side).fill(word));
            Ok(RunningEnd {
                host: Arc::clone(settings.hosts[side]),
                device: devices[side].clone(),
                log: directory.join(["near.log", "far.log"][side]),
                words: start.collect::<Result<_, _>>()?,
                process: None,
            })
        };
        let ends_running = [running(0)?, running(1)?];
        for side in [1, 0] {
            ends[side].create.iter().try_for_each(|step| words(side).run(step))?;
        }
        let begin = clock::now();
        let deadline = Deadline { begin, end: begin + START_LIMIT, stop };
        let name = settings.name.to_owned();
        let mut tunnel = Tunnel { name, ends: ends_running, _directory: Arc::clone(&directory) };
        tunnel.start_programs(&deadline)?;
        for side in [1, 0] {
            for step in &ends[side].configure {
                // A program may listen for its configuration some time after it has made the device.
                tunnel.until(&deadline, "is not configured", |_| match words(side).run(step) {
                    Err(error) if deadline.is_over() => Err(error),
                    outcome => Ok(outcome.is_ok()),
                })?;
            }
            tunnel.route(side, adapter.mtu, settings)?;
        }
        let target = settings.sites[1].first().map(|host| SocketAddr::from((*host, CLOSED_PORT)));
        tunnel.until(&deadline, "carries no packets", |tunnel| {
            tunnel.check_alive()?;
            Ok(target.is_none_or(|target| settings.probe.run(|| answers(target))))
        })?;
        Ok(tunnel)
    }

    /// Starts the programs, the far one first, and waits for their devices. A near one that ends before that is started again: it may
    /// have dialled before the far one listened.
    fn start_programs(&mut self, deadline: &Deadline<'_>) -> Result<(), TunnelError> {
        self.start_end(1)?;
        self.until(deadline, "has no device", |tunnel| {
            tunnel.check_end(1)?;
            let near = &mut tunnel.ends[0];
            let ended = near.process.as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)));
            if ended && !near.words.is_empty() {
                tunnel.start_end(0)?;
            }
            let exists = |end: &RunningEnd| end.host.netlink(|handle| handle.link_exists(&end.device));
            let [near, far] = [0, 1].map(|side| exists(&tunnel.ends[side]));
            let near = near.map_err(|source| tunnel.host_error(source))?;
            let far = far.map_err(|source| tunnel.host_error(source))?;
            Ok(near && far)
        })
    }

    fn start_end(&mut self, side: usize) -> Result<(), TunnelError> {
        let end = &mut self.ends[side];
        let Some((program, arguments)) = end.words.split_first() else { return Ok(()) };
        let mut command = Command::new(find(program).unwrap_or_else(|| program.into()));
        command.args(arguments).stdin(Stdio::null()).stdout(append(&end.log)?).stderr(append(&end.log)?);
        // An interrupt from the terminal is for us, who end the programs in order.
        command.process_group(0);
        let started = end.host.command(command);
        self.ends[side].process = Some(started.map_err(|source| self.host_error(source))?);
        Ok(())
    }

    /// Takes the device of an end up, and makes the routes into it.
    fn route(&self, side: usize, mtu: u32, settings: &TunnelSettings<'_>) -> Result<(), TunnelError> {
        let end = &self.ends[side];
        let outcome = end.host.netlink(|handle| {
            let index = handle.link_index(&end.device)?;
            handle.set_mtu(index, mtu)?;
            handle.set_up(index)?;
            settings.sites[1 - side].iter().try_for_each(|host| {
                let route = Route::to(IpNet::from(IpAddr::V4(*host))).device(index);
                handle.add_route(&route, Existing::Replace)
            })
        });
        outcome.map_err(|source| self.host_error(source))
    }

    /// Repeats an attempt until it succeeds.
    fn until(
        &mut self,
        deadline: &Deadline<'_>,
        problem: &'static str,
        mut attempt: impl FnMut(&mut Self) -> Result<bool, TunnelError>,
    ) -> Result<(), TunnelError> {
        while !attempt(self)? {
            if deadline.stop.load(Ordering::Relaxed) {
                return Err(TunnelError::Interrupted);
            }
            if deadline.is_over() {
                return Err(TunnelError::NotUp {
                    tunnel: self.name.clone(),
                    problem,
                    seconds: (deadline.end - deadline.begin).as_secs(),
                    log: [0, 1].map(|side| log_tail(&self.ends[side].log)).join("\n"),
                });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// An error with the end of its log if a program should run and has ended.
    pub fn check_alive(&mut self) -> Result<(), TunnelError> {
        [0, 1].into_iter().try_for_each(|side| self.check_end(side))
    }

    fn check_end(&mut self, side: usize) -> Result<(), TunnelError> {
        let end = &mut self.ends[side];
        let Some(process) = &mut end.process else { return Ok(()) };
        let status = match process.try_wait() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let program = end.words[0].clone();
        Err(TunnelError::Ended { tunnel: self.name.clone(), program, status, log: log_tail(&end.log) })
    }

    /// Ends its programs in order (SIGTERM), the near one first, or kills them after 3 s.
    pub fn end(&mut self) -> Result<(), TunnelError> {
        for end in &mut self.ends {
            let Some(mut process) = end.process.take() else { continue };
            process.terminate(STOP_GRACE).map_err(|error| TunnelError::Command {
                tunnel: self.name.clone(),
                command: end.words.join(" "),
                reason: error.to_string(),
            })?;
        }
        Ok(())
    }

    fn host_error(&self, source: HostError) -> TunnelError {
        TunnelError::Host { tunnel: self.name.clone(), source }
    }
}

/// Until when a tunnel is waited for.
struct Deadline<'s> {
    begin: Instant,
    end: Instant,
    stop: &'s AtomicBool,
}

impl Deadline<'_> {
    fn is_over(&self) -> bool {
        clock::now() >= self.end
    }
}

/// Whether packets go there and back: a host without a listener refuses a connection.
fn answers(target: SocketAddr) -> bool {
    match TcpStream::connect_timeout(&target, Duration::from_millis(500)) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

/// A short name that no other tunnel of this machine has: an interface's name has at most 15 bytes.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}", std::process::id(), number & 0xff)
}

/// What the words of an end's commands contain.
#[derive(Clone, Copy)]
struct Words<'a> {
    settings: &'a TunnelSettings<'a>,
    directory: &'a Directory,
    unique: &'a str,
    side: usize,
    device: Option<&'a str>,
}

impl Words<'_> {
    /// A word with values in the place of their names.
    fn fill(&self, word: &str) -> Result<String, TunnelError> {
        let mut filled = String::new();
        let mut rest = word;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            filled += before;
            filled += &self.value(name)?;
            rest = after;
        }
        Ok(filled + rest)
    }

    fn value(&self, name: &str) -> Result<String, TunnelError> {
        let settings = self.settings;
        Ok(match name {
            "directory" => self.directory.join("").display().to_string().trim_end_matches('/').to_owned(),
            "device" => self.device.unwrap_or_default().to_owned(),
            "port" => (FIRST_PORT + settings.number).to_string(),
            "near" => settings.addresses[0].to_string(),
            "far" => settings.addresses[1].to_string(),
            "side" => self.side.to_string(),
            "number" => settings.number.to_string(),
            "unique" => self.unique.to_owned(),
            _ => {
                let file = name.strip_prefix("file:").unwrap_or(name);
                let text = std::fs::read_to_string(self.directory.join(file));
                text.map_err(|error| self.failed(&format!("{{{name}}}"), &error))?.trim_end().to_owned()
            }
        })
    }

    /// Runs a command in the namespace of the end, and waits for its end.
    fn run(&self, step: &Step) -> Result<(), TunnelError> {
        let words = step.run.iter().map(|word| self.fill(word)).collect::<Result<Vec<_>, _>>()?;
        let failed = |error: &dyn std::fmt::Display| self.failed(&words.join(" "), error);
        let input = match &step.input {
            Some(name) => File::open(self.directory.join(name)).map_err(|error| failed(&error))?.into(),
            None => Stdio::null(),
        };
        let output = match &step.output {
            Some(name) => self.file(name).map_err(|error| failed(&error))?.into(),
            None => Stdio::null(),
        };
        let host = self.settings.hosts[self.side];
        tool::run(host, &words, (input, output), STEP_LIMIT).map_err(|error| match error {
            ToolError::Failed { reason, .. } => failed(&reason),
            missing @ ToolError::Missing { .. } => failed(&missing),
        })
    }

    /// An empty file of the directory that only this user can read.
    fn file(&self, name: &str) -> io::Result<File> {
        let path = self.directory.write(name, "").map_err(io::Error::other)?;
        File::create(path)
    }

    fn failed(&self, command: &str, reason: &dyn std::fmt::Display) -> TunnelError {
        TunnelError::Command {
            tunnel: self.settings.name.to_owned(),
            command: command.to_owned(),
            reason: reason.to_string(),
        }
    }
}
