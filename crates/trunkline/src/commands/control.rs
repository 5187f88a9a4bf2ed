//! Requests to a running gateway: its socket, `reload` and `down`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use trunkline_gateway::config::{Config, RUN_DIRECTORY};
use trunkline_schema::{ProxyFile, Source};
use trunkline_service::control::{ControlError, ask, remove_stale};
use trunkline_status::{Answer, ProxiesStatus, Request, Status};

use super::proxy::control_socket;
use crate::cli::InstanceArguments;
use crate::failure::Failure;
use crate::output::print_line;

/// The control socket of the named gateway or proxies, or of the only ones that run.
pub(super) fn socket(arguments: &InstanceArguments) -> Result<PathBuf, Failure> {
    let Some(site) = &arguments.site else { return only_socket() };
    if site.extension().is_some_and(|extension| extension == "toml") {
        return Config::load(site).map(|config| config.control.socket).or_else(|error| {
            // A file of proxies alone is no site's.
            let proxies = Source::open(site).and_then(|source| ProxyFile::of(&source));
            proxies.map(|file| control_socket(site, &file)).map_err(|_| Failure::Input(error.to_string()))
        });
    }
    if site.exists() || site.components().count() > 1 || site.extension().is_some_and(|name| name == "sock") {
        return Ok(site.clone());
    }
    let socket = PathBuf::from(RUN_DIRECTORY).join(format!("{}.sock", site.display()));
    if socket.exists() {
        return Ok(socket);
    }
    let running = match &names(&running())[..] {
        [] => "none does".to_owned(),
        names => format!("there are: {}", names.join(", ")),
    };
    Err(Failure::NotRunning(format!("no gateway named {} runs here; {running}", site.display())))
}

/// The sockets of the gateways and proxies that run here.
fn running() -> Vec<PathBuf> {
    let mut sockets: Vec<PathBuf> = fs::read_dir(RUN_DIRECTORY)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        // A gateway that was killed leaves its socket behind.
        .filter(|path| !remove_stale(path))
        .collect();
    sockets.sort();
    sockets
}

fn names(sockets: &[PathBuf]) -> Vec<String> {
    sockets.iter().filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect()
}

fn only_socket() -> Result<PathBuf, Failure> {
    match &running()[..] {
        [] => Err(Failure::NotRunning(format!("no gateway runs here: none listens in {RUN_DIRECTORY}"))),
        [one] => Ok(one.clone()),
        several => {
            let names = names(several).join(", ");
            Err(Failure::Input(format!("several gateways run here; name one of: {names}")))
        }
    }
}

fn request(arguments: &InstanceArguments, request: &Request) -> Result<Answer, Failure> {
    ask(&socket(arguments)?, request).map_err(|error| control_failure(&error))
}

/// An error of the control socket, as a failure of the command.
pub(super) fn control_failure(error: &ControlError) -> Failure {
    match error {
        ControlError::Connect { .. } | ControlError::Silent { .. } => Failure::NotRunning(error.to_string()),
        ControlError::Denied { .. } => Failure::Lacking(error.to_string()),
        ControlError::Talk { .. } => Failure::Other(error.to_string()),
    }
}

/// The state of a daemon.
#[derive(Debug, Clone)]
pub(super) enum State {
    Gateway(Box<Status>),
    /// Of a process that runs proxies alone.
    Proxies(Box<ProxiesStatus>),
}

/// Requests the state of a daemon, with its flows or without.
pub(super) fn state(socket: &Path, request: &Request) -> Result<State, Failure> {
    match ask(socket, request).map_err(|error| control_failure(&error))? {
        Answer::Status(status) => Ok(State::Gateway(status)),
        Answer::Proxies(status) => Ok(State::Proxies(status)),
        Answer::Refused { message } | Answer::Done { message } => Err(Failure::Other(message)),
        Answer::Joining(_) => Err(another_answer()),
    }
}

/// Has the gateway of a changed file read it again. Whether one runs.
pub(super) fn take_on(path: &Path, config: &Config) -> Result<bool, Failure> {
    match ask(&config.control.socket, &Request::Reload) {
        Ok(Answer::Refused { message }) => {
            Err(Failure::Other(format!("{} is changed, and not applied: {message}", path.display())))
        }
        Ok(_) => Ok(true),
        Err(_) => Ok(false),
    }
}

/// What the gateway of a site says of itself; nothing, if it does not run.
pub(super) fn gateway_status(config: &Config) -> Option<Status> {
    match ask(&config.control.socket, &Request::Status) {
        Ok(Answer::Status(status)) => Some(*status),
        _ => None,
    }
}

/// Waits until a lane to each of these peers is up, for so long at most: those to which none is.
pub(super) fn wait_for_lanes<'p>(config: &Config, mut peers: Vec<&'p str>, limit: Duration) -> Vec<&'p str> {
    let begin = Instant::now();
    while !peers.is_empty() && begin.elapsed() < limit {
        if let Some(status) = gateway_status(config) {
            peers.retain(|name| !status.peers.iter().any(|it| it.name == *name && it.lanes_up() > 0));
        }
        if !peers.is_empty() {
            thread::sleep(Duration::from_millis(100));
        }
    }
    peers
}

/// The failure of a request to which the daemon gave the answer of another.
pub(super) fn another_answer() -> Failure {
    Failure::Other("the daemon gave the answer to another request".to_owned())
}

fn command(arguments: &InstanceArguments, command: &Request) -> Result<(), Failure> {
    match request(arguments, command)? {
        Answer::Done { message } => print_line(&message),
        Answer::Refused { message } => Err(Failure::Input(message)),
        Answer::Status(_) | Answer::Proxies(_) | Answer::Joining(_) => Err(another_answer()),
    }
}

pub(crate) fn reload(arguments: &InstanceArguments) -> Result<(), Failure> {
    command(arguments, &Request::Reload)
}

pub(crate) fn down(arguments: &InstanceArguments) -> Result<(), Failure> {
    command(arguments, &Request::Down)
}
