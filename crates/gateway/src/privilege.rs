//! Giving up what the daemon does not need once it runs.
//!
//! A gateway parses packets of strangers with the network in its hands, so what a bug in it could reach is
//! made small before the first packet arrives:
//!
//! - **Capabilities**: all but `CAP_NET_ADMIN`, which a reload needs (routes, congestion controls outside
//!   `tcp_allowed_congestion_control`, `SO_MARK`), leave the permitted, effective, inheritable, bounding and
//!   ambient sets. `CAP_NET_ADMIN` stays permitted, effective and in the bounding set only: nothing is
//!   inherited by a program we would run, and we run none.
//! - **`no_new_privs`**: no set-user-ID program gives anything back.
//! - **Landlock**, where the kernel has it: the file system is reachable only where [`Keep`] says. It is
//!   what confines a process that still has user id 0, whose own files no missing capability protects.
//!
//! All three are properties of a thread that new threads inherit: call [`drop_privileges`] before the first
//! thread is started. Files and sockets already open stay usable.
//!
//! One thread is started before: the one that resolves names ([`confine_resolver`]). Landlock's rules are about files as
//! they are, not about their names, so a rule on `/etc/resolv.conf` ends with the next one that is moved to its place. Only
//! a rule on `/etc` itself holds, and a process with user id 0 must not have that: its secrets are there. So the
//! resolver's threads may read `/etc`, with no capability at all and, where the process has user id 0, with the rights of a
//! user that nobody is: they read what everybody may read.

use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};
use rustix::io::Errno;
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use crate::sys;

/// The newest Landlock this code was written against; older kernels do what they can of it.
const LANDLOCK_ABI: ABI = ABI::V6;

/// What of the file system stays reachable.
///
/// Name resolution is not among it: see [`confine_resolver`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keep {
    /// Files, and directories with all below them, that stay readable.
    pub read: Vec<PathBuf>,
    /// Directories in which files and sockets may be made, written and removed.
    pub write: Vec<PathBuf>,
    /// Device nodes that may be opened and configured.
    pub devices: Vec<PathBuf>,
}

/// What has been given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Whether `CAP_NET_ADMIN` is still there; without it reloads cannot touch routes.
    pub net_admin: bool,
    /// Whether the bounding set could be reduced, which takes `CAP_SETPCAP`. A service manager that started
    /// us without it has had the chance to do it for us.
    pub bounding_reduced: bool,
    /// How far the file system is closed.
    pub file_system: FileSystem,
}

/// How far the file system is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// Only what was kept is reachable.
    Closed,
    /// So, but for kinds of access this older kernel does not govern.
    PartlyClosed,
    /// The kernel has no Landlock.
    Open,
}

/// What could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The kernel refused a step.
    #[error("cannot {step}: {errno}")]
    Refused {
        /// The step.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A path to keep cannot be opened.
    #[error("cannot keep {} reachable: {problem}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why not.
        problem: landlock::PathFdError,
    },
    /// Landlock refused the rules.
    #[error("cannot close the file system: {0}")]
    Landlock(#[from] RulesetError),
}

/// Gives up everything but `CAP_NET_ADMIN` and what of the file system is in `keep`, for this thread and
/// those it starts from now on. Cannot be undone.
///
/// Works as root and as a user who was given `CAP_NET_ADMIN` alone. On a kernel without Landlock the log
/// says so and the rest is done.
///
/// # Errors
/// [`PrivilegeError`]. The process may then have given up a part, and should end.
pub fn drop_privileges(keep: &Keep) -> Result<Report, PrivilegeError> {
    thread::set_no_new_privs(true).map_err(refused("set no_new_privs"))?;
    let file_system = close_file_system(keep)?;
    if file_system == FileSystem::Open {
        tracing::warn!("the kernel has no Landlock: the file system stays reachable");
    }
    let (net_admin, bounding_reduced) = drop_capabilities()?;
    Ok(Report { net_admin, bounding_reduced, file_system })
}

/// What resolving a name reads, by directory: also where `/etc/resolv.conf` may lead to.
const RESOLVER_DIRECTORIES: [&str; 7] =
    ["/etc", "/run", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/proc/sys/net"];
/// The same by file, for a thread that can read what not everybody may.
const RESOLVER_FILES: [&str; 14] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ld.so.cache",
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/run/systemd/resolve",
    "/run/nscd",
    "/proc/sys/net",
];
/// The id of a user and group that own nothing: systemd's list of ids leaves all from 2^31 on unused.
const NOBODY_AT_ALL: u32 = 4_000_000_000;

/// Leaves this thread, and those it starts, with what resolving names takes: reading what everybody may read in `/etc`
/// and `/run`, and no capability. Call it in a thread that was started before [`drop_privileges`].
///
/// Where the process has user id 0 and cannot read as somebody else (it lacks `CAP_SETUID`, or its user namespace has one user),
/// only the files that are there now can be read: a `resolv.conf` that is replaced is not seen then.
///
/// # Errors
/// As for [`drop_privileges`].
pub fn confine_resolver() -> Result<(), PrivilegeError> {
    thread::set_no_new_privs(true).map_err(refused("set no_new_privs"))?;
    let is_root = rustix::process::geteuid().is_root();
    let harmless = !is_root || {
        // The groups first, since changing the user takes the capability away; a user namespace may forbid it.
        let grouped = thread::set_thread_groups(&[]).is_ok();
        sys::set_file_identity(NOBODY_AT_ALL) && grouped
    };
    if !harmless {
        tracing::warn!("names are resolved with the files of now: cannot read them as an ordinary user");
    }
    let names: &[&str] = if harmless { &RESOLVER_DIRECTORIES } else { &RESOLVER_FILES };
    let mut read: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    read.retain(|path| path.exists());
    close_file_system(&Keep { read, ..Keep::default() })?;
    let none = CapabilitySet::empty();
    thread::clear_ambient_capability_set().map_err(refused("clear the ambient capabilities"))?;
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    thread::set_capabilities(None, sets).map_err(refused("drop capabilities"))
}

fn refused(step: &'static str) -> impl Fn(Errno) -> PrivilegeError {
    move |errno| PrivilegeError::Refused { step, errno }
}

/// Returns whether `CAP_NET_ADMIN` is left and whether the bounding set was reduced.
fn drop_capabilities() -> Result<(bool, bool), PrivilegeError> {
    let had = thread::capabilities(None).map_err(refused("read the capabilities"))?;
    let bounding_reduced = had.effective.contains(CapabilitySet::SETPCAP);
    if bounding_reduced {
        reduce_bounding_set()?;
    }
    thread::clear_ambient_capability_set().map_err(refused("clear the ambient capabilities"))?;
    let left = had.permitted & CapabilitySet::NET_ADMIN;
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    thread::set_capabilities(None, sets).map_err(refused("drop capabilities"))?;
    Ok((!left.is_empty(), bounding_reduced))
}

/// Removes all capabilities this kernel knows, whether or not we do, but one.
fn reduce_bounding_set() -> Result<(), PrivilegeError> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if capability == CapabilitySet::NET_ADMIN {
            continue;
        }
        match thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The kernel knows no capability of this number, nor of a higher one.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(refused("reduce the bounding set")(errno)),
        }
    }
    Ok(())
}

fn close_file_system(keep: &Keep) -> Result<FileSystem, PrivilegeError> {
    let all = AccessFs::from_all(LANDLOCK_ABI);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = read
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeSock
        | AccessFs::RemoveFile;
    let mut rules =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?.create()?;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    for (paths, access) in [(&keep.read, read), (&keep.write, write), (&keep.devices, device)] {
        for path in paths {
            rules = rules.add_rule(rule(path, access)?)?;
        }
    }
    Ok(match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => FileSystem::Closed,
        RulesetStatus::PartiallyEnforced => FileSystem::PartlyClosed,
        RulesetStatus::NotEnforced => FileSystem::Open,
    })
}

fn rule(path: &PathBuf, access: BitFlags<AccessFs>) -> Result<PathBeneath<PathFd>, PrivilegeError> {
    let opened = PathFd::new(path).map_err(|problem| PrivilegeError::Path { path: path.clone(), problem })?;
    // A rule on a file may only speak of what can be done with a file.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(LANDLOCK_ABI) };
    Ok(PathBeneath::new(opened, access))
}
