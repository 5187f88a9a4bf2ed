//! The privileges that an experiment needs, whether the process has them, and how to get them.

use std::fmt;
use std::fs;
use std::io;

use rustix::process::{getegid, geteuid};

use crate::{machine, sys};

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// By what right experiments run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// The process has the capabilities already.
    Capabilities,
    /// The process has made itself root of a user namespace of its own.
    UserNamespace,
}

/// One thing that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// Not root, and the process has threads, so it cannot enter a user namespace any more.
    SingleThread {
        /// Threads it has.
        threads: usize,
    },
    /// Not root, and the kernel makes no user namespaces for this user.
    UserNamespaces {
        /// What the kernel said, or which switch is off.
        reason: String,
    },
    /// `AppArmor` restricts user namespaces of unprivileged programs.
    AppArmor,
    /// `/dev/net/tun` is missing or may not be opened.
    Tun {
        /// What the system said.
        reason: String,
    },
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SingleThread { threads } => write!(
                f,
                "root, or CAP_NET_ADMIN and CAP_SYS_ADMIN (with {threads} threads running it is too late to enter \
                 a user namespace: run as root, or under `unshare -Urnm`)"
            ),
            Self::UserNamespaces { reason } => write!(
                f,
                "user namespaces ({reason}): run as root, or set kernel.unprivileged_userns_clone=1 and \
                 user.max_user_namespaces above 0"
            ),
            Self::AppArmor => write!(
                f,
                "user namespaces (restricted by AppArmor): run as root, or set \
                 kernel.apparmor_restrict_unprivileged_userns=0"
            ),
            Self::Tun { reason } => {
                write!(
                    f,
                    "/dev/net/tun ({reason}): load the module (`modprobe tun`) or let this user open it"
                )
            }
        }
    }
}

/// Everything that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lacks {}", self.lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Missing {
    /// Each thing, at least one.
    pub lacks: Vec<Requirement>,
}

/// Gets the rights to make namespaces and devices: by what the process has, or else by making it root of a user
/// namespace. The latter works only *before any thread is started*, so call this first thing in `main`.
pub fn acquire() -> Result<Means, Missing> {
    let mut lacks = Vec::new();
    let mut means = Means::Capabilities;
    if !has_capabilities() {
        means = Means::UserNamespace;
        lacks.extend(enter_user_namespace().err());
    }
    lacks.extend(missing_tun());
    if lacks.is_empty() { Ok(means) } else { Err(Missing { lacks }) }
}

/// Says whether the process may make namespaces and devices now, without changing anything.
pub fn check() -> Result<(), Missing> {
    let mut lacks = Vec::new();
    if !has_capabilities() {
        lacks.push(Requirement::SingleThread { threads: threads() });
    }
    lacks.extend(missing_tun());
    if lacks.is_empty() { Ok(()) } else { Err(Missing { lacks }) }
}

/// For tests: whether `test` can run here. If so, it holds the lock of module [`machine`] from now on. If not, prints
/// `SKIPPED <test>: lacks <what>`.
pub fn available(test: &str) -> bool {
    let can = check().inspect_err(|missing| println!("SKIPPED {test}: {missing}")).is_ok();
    if can {
        machine::hold().expect("a lock on the TUN device's node, which opened a moment ago");
    }
    can
}

fn has_capabilities() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    effective(&status).is_some_and(|set| {
        let has = |capability| set & (1_u64 << capability) != 0;
        has(CAP_NET_ADMIN) && has(CAP_SYS_ADMIN)
    })
}

fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

fn missing_tun() -> Option<Requirement> {
    let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    tun.err().map(|error| Requirement::Tun { reason: error.to_string() })
}

fn enter_user_namespace() -> Result<(), Requirement> {
    let threads = threads();
    if threads > 1 {
        return Err(Requirement::SingleThread { threads });
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    sys::unshare_user().map_err(|error| refusal(&error))?;
    // Without "deny" the kernel lets nobody unprivileged map a group (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {user} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {group} 1")))
        .map_err(|error| refusal(&error))
}

fn refusal(error: &io::Error) -> Requirement {
    let switch =
        |path: &str| fs::read_to_string(path).map(|value| value.trim().to_owned()).unwrap_or_default();
    if switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        Requirement::AppArmor
    } else if switch("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        Requirement::UserNamespaces { reason: "kernel.unprivileged_userns_clone is 0".to_owned() }
    } else if switch("/proc/sys/user/max_user_namespaces") == "0" {
        Requirement::UserNamespaces { reason: "user.max_user_namespaces is 0".to_owned() }
    } else {
        Requirement::UserNamespaces { reason: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read_from_the_status() {
        assert_eq!(effective("Name:\tx\nCapEff:\t0000000000201000\n"), Some(1 << 21 | 1 << 12));
        assert_eq!(effective("Name:\tx\n"), None);
    }

    #[test]
    fn what_is_missing_is_named_with_its_cure() {
        let missing = Missing {
            lacks: vec![Requirement::AppArmor, Requirement::Tun { reason: "No such file".to_owned() }],
        };
        let text = missing.to_string();
        assert!(text.contains("AppArmor") && text.contains("/dev/net/tun (No such file)"), "{text}");
    }
}
