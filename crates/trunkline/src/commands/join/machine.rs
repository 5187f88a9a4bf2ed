//! What `init`, `join` and `leave` do to a machine, step by step: each step says what it will do before it does it.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use trunkline_gateway::device::{self, Blocked};
use trunkline_gateway::doctor::unit_user;
use trunkline_service::control::{Probe, ask, probe};
use trunkline_status::{Answer, Request};
use zeroize::Zeroizing;

use crate::commands::control::{another_answer, control_failure};
use crate::commands::site_file;
use crate::failure::Failure;

/// Where the package's unit looks for sites.
const DIRECTORY: &str = "/etc/trunkline";
const UNITS: [&str; 4] =
    ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
const SYSTEMD: &str = "/run/systemd/system";
const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
const DROP_IN: &str = "/etc/sysctl.d/60-trunkline.conf";
const DROP_IN_HEAD: &str = "# Made by trunkline, and removed by `trunkline leave`. Before: ";

/// The machine that a site is set up on.
#[derive(Debug)]
pub(super) struct Machine {
    /// Where sites are.
    pub(super) directory: PathBuf,
    /// The package's unit can run them.
    pub(super) has_unit: bool,
    /// The user and group of the package's unit.
    owner: Option<(u32, u32)>,
}

impl Machine {
    /// This machine, with sites in this directory.
    pub(super) fn new(directory: &Path) -> Self {
        let is_default = directory == Path::new(DIRECTORY);
        let has_unit = is_default
            && Path::new(SYSTEMD).is_dir()
            && UNITS.iter().any(|at| Path::new(at).join("trunkline@.service").exists());
        let owner = if is_default { unit_user() } else { None };
        Self { directory: directory.to_owned(), has_unit, owner }
    }

    /// Whether its sites are where the package has them, and what concerns the whole machine is set too.
    pub(super) fn is_default(&self) -> bool {
        self.directory == Path::new(DIRECTORY)
    }

    /// The files of sites in the directory.
    pub(super) fn sites(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.directory).into_iter().flatten().filter_map(Result::ok);
        let files = files.map(|file| file.path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
        files.sort();
        files
    }
}

/// Something to do.
pub(super) enum Step {
    /// Make the directory of sites.
    Directory,
    /// Write a site's private key.
    Key { path: PathBuf, text: Zeroizing<String> },
    /// Write a new site's file.
    Site { path: PathBuf, text: String, about: String },
    /// Let the kernel forward packets.
    Forward,
    /// Start the unit of a site.
    Start(String),
    /// Stop the unit of a site.
    Stop(String),
    /// End a gateway that still runs.
    Down(PathBuf),
    /// Remove what blocks packets of a site that has ended.
    Unblock(String),
    /// Remove a file.
    Remove(PathBuf),
    /// Undo [`Step::Forward`].
    StopForwarding,
}

impl Step {
    /// In words, for people who are asked whether to go on.
    pub(super) fn describe(&self, machine: &Machine) -> String {
        match self {
            Self::Directory => format!("make the directory {}", machine.directory.display()),
            Self::Key { path, .. } => format!("make a private key: {}", path.display()),
            Self::Site { path, about, .. } => format!("write {}: {about}", path.display()),
            Self::Forward if keeps_forwarding(machine) => {
                format!("forward IPv4 packets, now and after each boot: {DROP_IN}")
            }
            Self::Forward => "forward IPv4 packets, until the next boot: net.ipv4.ip_forward = 1".to_owned(),
            Self::Start(name) => {
                format!("start the gateway, now and at each boot: systemctl enable --now trunkline@{name}")
            }
            Self::Stop(name) => {
                format!("stop the gateway, for good: systemctl disable --now trunkline@{name}")
            }
            Self::Down(socket) => format!("end the gateway on {}", socket.display()),
            Self::Unblock(name) => format!("let packets to the peers of {name} take other routes again"),
            Self::Remove(path) => format!("remove {}", path.display()),
            Self::StopForwarding => format!("forward no IPv4 packets any more, as before: remove {DROP_IN}"),
        }
    }

    pub(super) fn run(&self, machine: &Machine) -> Result<(), Failure> {
        match self {
            Self::Directory => {
                let make = fs::DirBuilder::new().recursive(true).mode(0o750).create(&machine.directory);
                make.map_err(|error| cannot("make", &machine.directory, &error))?;
                if let Some((_, group)) = machine.owner {
                    let given = chown(&machine.directory, None, Some(group));
                    given.map_err(|error| cannot("give away", &machine.directory, &error))?;
                }
                Ok(())
            }
            Self::Key { path, text } => site_file::create(path, text, 0o600, machine.owner),
            Self::Site { path, text, .. } => {
                let group = machine.owner.map(|(_, group)| (0, group));
                site_file::create(path, text, 0o640, group)
            }
            Self::Forward => {
                let before = fs::read_to_string(FORWARD).map_err(Failure::doing(FORWARD))?;
                if keeps_forwarding(machine) {
                    let text = format!("{DROP_IN_HEAD}{}\nnet.ipv4.ip_forward = 1\n", before.trim());
                    site_file::create(Path::new(DROP_IN), &text, 0o644, None)?;
                }
                fs::write(FORWARD, "1\n").map_err(Failure::doing(FORWARD))
            }
            Self::Start(name) => systemctl(&["enable", "--now", &format!("trunkline@{name}")]),
            Self::Stop(name) => systemctl(&["disable", "--now", &format!("trunkline@{name}")]),
            // The unit's end may have been its own.
            Self::Down(socket) if probe(socket) != Probe::Listens => Ok(()),
            Self::Down(socket) => match ask(socket, &Request::Down) {
                Ok(Answer::Done { .. }) => wait_until_ended(socket),
                Ok(_) => Err(another_answer()),
                Err(error) => Err(control_failure(&error)),
            },
            Self::Unblock(name) => device::unblock(Blocked::Site(name))
                .map(|_| ())
                .map_err(Failure::doing("cannot remove the routes that block packets")),
            Self::Remove(path) => match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(cannot("remove", path, &error)),
                _ => Ok(()),
            },
            Self::StopForwarding => {
                let text = fs::read_to_string(DROP_IN).unwrap_or_default();
                if text.lines().next().and_then(|line| line.strip_prefix(DROP_IN_HEAD)) == Some("0") {
                    fs::write(FORWARD, "0\n").map_err(Failure::doing(FORWARD))?;
                }
                fs::remove_file(DROP_IN).map_err(Failure::doing(DROP_IN))
            }
        }
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot {what} {}: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied => Failure::Lacking(format!("{text} (run as root)")),
        _ => Failure::Other(text),
    }
}

/// Whether the kernel forwards IPv4 packets already.
pub(super) fn forwards() -> bool {
    fs::read_to_string(FORWARD).is_ok_and(|text| text.trim() == "1")
}

/// Whether this machine has a file by which packets are forwarded after a boot because of `init` or `join`.
pub(super) fn has_drop_in() -> bool {
    Path::new(DROP_IN).exists()
}

fn keeps_forwarding(machine: &Machine) -> bool {
    machine.is_default() && Path::new("/etc/sysctl.d").is_dir()
}

fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let line = format!("systemctl {}", arguments.join(" "));
    let run = Command::new("systemctl").args(arguments).output();
    let output = run.map_err(Failure::doing(&line))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Other(format!("{line}: {}", said.trim())))
}

/// Waits until the gateway that was told to end has ended.
fn wait_until_ended(socket: &Path) -> Result<(), Failure> {
    for _ in 0..100 {
        if probe(socket) != Probe::Listens {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    Err(Failure::Other(format!("the gateway on {} has not ended within 10 s", socket.display())))
}
