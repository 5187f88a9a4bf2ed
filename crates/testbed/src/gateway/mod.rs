//! A gateway as a process in a host: its keys, its files, its state.

mod control;
mod directory;
mod error;

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use trunkline_status::{Answer, ProxiesStatus, Request, Status};
use trunkline_units::Instant;

use crate::clock;
use crate::namespace::{Host, Process};

pub use directory::Directory;
pub(crate) use directory::{append, log_tail};
pub use error::GatewayError;

/// How long a gateway may take to end by itself.
const STOP_GRACE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A key pair, as `trunkline genkey` and `trunkline pubkey` print it.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The public key, without a line's end.
    pub public: String,
    /// The file with the secret key, in the directory of the gateway.
    pub file: PathBuf,
}

impl Keys {
    /// Has `program` make a key pair and writes the secret one to a file `name` of the directory.
    pub fn make(program: &Path, directory: &Directory, name: &str) -> Result<Self, GatewayError> {
        let secret = run(program, "genkey", "")?;
        let file = directory.write(name, &secret)?;
        let public = run(program, "pubkey", &secret)?.trim().to_owned();
        Ok(Self { public, file })
    }
}

/// A gateway that runs, or did. Dropping it kills the process.
#[derive(Debug)]
pub struct GatewayProcess {
    name: String,
    host: Arc<Host>,
    program: PathBuf,
    /// The program's command: `up`, or `proxy`.
    command: &'static str,
    configuration: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    /// `None` once it has been ended on purpose.
    process: Option<Process>,
}

impl GatewayProcess {
    /// The control socket of a gateway `name` whose files are in the directory.
    pub fn socket(directory: &Directory, name: &str) -> PathBuf {
        directory.join(&format!("{name}.sock"))
    }

    /// A gateway in a host, not started. `text` is its file's and names [`GatewayProcess::socket`] as its control socket.
    pub fn new(
        name: &str,
        host: Arc<Host>,
        program: &Path,
        directory: &Directory,
        text: &str,
    ) -> Result<Self, GatewayError> {
        Ok(Self {
            name: name.to_owned(),
            host,
            program: program.to_owned(),
            command: "up",
            configuration: directory.write(&format!("{name}.toml"), text)?,
            socket: Self::socket(directory, name),
            log: directory.join(&format!("{name}.log")),
            process: None,
        })
    }

    /// As [`GatewayProcess::new`], of a file of proxies alone.
    pub fn proxies(
        name: &str,
        host: Arc<Host>,
        program: &Path,
        directory: &Directory,
        text: &str,
    ) -> Result<Self, GatewayError> {
        Self::new(name, host, program, directory, text).map(|process| Self { command: "proxy", ..process })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its host.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Its file.
    pub fn configuration_file(&self) -> &Path {
        &self.configuration
    }

    /// Its control socket.
    pub fn control_socket(&self) -> &Path {
        &self.socket
    }

    /// Starts it. Does not wait for lanes: see [`GatewayProcess::wait_until_up`].
    pub fn start(&mut self) -> Result<(), GatewayError> {
        let mut command = Command::new(&self.program);
        command.arg(self.command).arg(&self.configuration);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(append(&self.log)?);
        // An interrupt from the terminal is for us, who end the gateways in order.
        command.process_group(0);
        self.process = Some(self.host.command(command)?);
        Ok(())
    }

    /// Waits until it answers and all its lanes are up; an error at `end`, or at once if it ended or was `stopped`.
    pub fn wait_until_up(&mut self, end: Instant, stopped: impl Fn() -> bool) -> Result<(), GatewayError> {
        let begin = clock::now();
        loop {
            let state = match control::ask(&self.socket, &Request::Status) {
                Ok(Answer::Status(status)) => control::lanes_not_up(&status),
                // Proxies have no lanes.
                Ok(_) => Vec::new(),
                Err(error) => vec![error.to_string()],
            };
            if state.is_empty() {
                return Ok(());
            }
            self.check_alive()?;
            if stopped() {
                return Err(GatewayError::Interrupted);
            }
            if clock::now() >= end {
                return Err(GatewayError::NotUp {
                    gateway: self.name.clone(),
                    seconds: end.saturating_since(begin).as_secs(),
                    state: state.join("; "),
                    log: self.log_tail(),
                });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// An error with the end of its log if it should run and has ended.
    pub fn check_alive(&mut self) -> Result<(), GatewayError> {
        let ended = self.process.as_mut().map_or(Ok(None), Process::try_wait);
        match ended.map_err(|source| self.failed(source))? {
            None => Ok(()),
            Some(status) => Err(GatewayError::Ended {
                gateway: self.name.clone(),
                status: status.to_string(),
                log: self.log_tail(),
            }),
        }
    }

    fn failed(&self, source: io::Error) -> GatewayError {
        GatewayError::Process { gateway: self.name.clone(), source }
    }

    /// Its process id, if it has been started and not ended on purpose.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// What a figure of its process is, such as its memory; `None` if it does not run.
    pub fn cost<T>(&self, read: impl Fn(u32) -> io::Result<T>) -> Result<Option<T>, GatewayError> {
        self.pid().map(|pid| read(pid).map_err(|source| self.failed(source))).transpose()
    }

    /// What a gateway says of itself.
    pub fn status(&self) -> Result<Status, GatewayError> {
        match self.ask(&Request::Status)? {
            Answer::Status(status) => Ok(*status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// What a process of proxies alone says of itself.
    pub fn proxies_status(&self) -> Result<ProxiesStatus, GatewayError> {
        match self.ask(&Request::Status)? {
            Answer::Proxies(status) => Ok(*status),
            other => Err(self.unexpected(&other)),
        }
    }

    fn unexpected(&self, answer: &Answer) -> GatewayError {
        let reason = format!("its answer is none to the request: {answer:?}");
        GatewayError::Silent { gateway: self.name.clone(), reason }
    }

    /// Has it read its file again.
    pub fn reload(&self) -> Result<(), GatewayError> {
        self.ask(&Request::Reload).map(drop)
    }

    fn ask(&self, request: &Request) -> Result<Answer, GatewayError> {
        control::ask(&self.socket, request)
            .map_err(|error| GatewayError::Silent { gateway: self.name.clone(), reason: error.to_string() })
    }

    /// Kills it as a crash would (SIGKILL). Its socket and routes are what the kernel leaves of them.
    pub fn kill9(&mut self) {
        // Dropping a process kills and reaps it.
        self.process = None;
    }

    /// Asks it to end, and does not wait.
    pub fn ask_to_end(&self) {
        if let Some(process) = &self.process {
            // One that has ended already needs no signal.
            let _ = process.signal(Signal::TERM);
        }
    }

    /// Ends it in order (SIGTERM), or kills it if it has not ended after 5 s.
    pub fn end(&mut self) -> Result<(), GatewayError> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.terminate(STOP_GRACE).map(drop).map_err(|source| self.failed(source))
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        directory::read_log(&self.log)
    }

    /// The last lines that it has logged.
    pub fn log_tail(&self) -> String {
        log_tail(&self.log)
    }
}

/// Runs `<program> <verb>` with `input` and returns what it prints.
fn run(program: &Path, verb: &str, input: &str) -> Result<String, GatewayError> {
    let failure =
        |reason: String| GatewayError::Key { command: format!("{} {verb}", program.display()), reason };
    let mut child = Command::new(program)
        .arg(verb)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failure(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input says why on its own.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| failure(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(failure(format!("{}: {said}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|error| failure(error.to_string()))
}
