//! Drops the privileges that the daemon does not need once it runs.
//!
//! A gateway parses packets of unauthenticated hosts and can configure the network. So it limits the damage of a bug before
//! the first packet arrives:
//!
//! - **Capabilities**: all but `CAP_NET_ADMIN` (and, for a proxy, `CAP_NET_BIND_SERVICE`) leave the permitted, effective, inheritable, bounding and ambient sets.
//!   A reload needs `CAP_NET_ADMIN` (routes, congestion controls outside `tcp_allowed_congestion_control`, `SO_MARK`). It
//!   stays in the permitted, effective and bounding sets only, so no program would inherit it; the daemon runs none.
//! - **`no_new_privs`**: a set-user-ID program cannot regain privileges.
//! - **Landlock**, if the kernel has it: only the paths in [`Keep`] are accessible. Landlock also confines a process with
//!   user id 0, which could access root's files without any capability.
//!
//! All three are properties of a thread, which new threads inherit. So call [`drop_privileges`] before the first thread
//! starts. Open files and sockets stay usable.
//!
//! One thread starts before: the one that resolves names ([`confine_resolver`]). A Landlock rule applies to a file, not to
//! its name, so a rule on `/etc/resolv.conf` has no effect on a new file that is moved to that path. Only a rule on `/etc`
//! itself works, and a process with user id 0 must not have that rule, since `/etc` has secrets. So the resolver's threads
//! may read `/etc` without any capability and, if the process has user id 0, with the file access of an unused user id:
//! they can read only files that all users may read.

use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};
use rustix::io::Errno;
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use crate::sys;

/// The newest Landlock version that this code supports; older kernels enforce the part that they know.
const LANDLOCK_ABI: ABI = ABI::V6;

/// The paths that stay accessible.
///
/// It has no paths for name resolution: see [`confine_resolver`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keep {
    /// Files, and directories with all their contents, that stay readable.
    pub read: Vec<PathBuf>,
    /// Directories in which the process may create, write and remove files and sockets.
    pub write: Vec<PathBuf>,
    /// Device nodes that the process may open and configure.
    pub devices: Vec<PathBuf>,
    /// Whether sockets may be bound to ports below 1024 (`CAP_NET_BIND_SERVICE`).
    pub low_ports: bool,
}

impl Keep {
    fn capabilities(&self) -> CapabilitySet {
        let low_ports = if self.low_ports { CapabilitySet::NET_BIND_SERVICE } else { CapabilitySet::empty() };
        CapabilitySet::NET_ADMIN | low_ports
    }
}

/// The result of dropping privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Whether the process still has `CAP_NET_ADMIN`; without it a reload cannot change routes.
    pub net_admin: bool,
    /// Whether the bounding set was reduced, which needs `CAP_SETPCAP`. A service manager that starts the process without it
    /// can reduce the set itself.
    pub bounding_reduced: bool,
    /// The extent to which the file system is closed.
    pub file_system: FileSystem,
}

/// The extent to which the file system is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// Only the kept paths are accessible.
    Closed,
    /// Closed, except for kinds of access that this older kernel cannot restrict.
    PartlyClosed,
    /// The kernel has no Landlock.
    Open,
}

/// Why privileges could not be dropped.
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
    #[error("cannot keep {} accessible: {problem}", path.display())]
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

/// Drops all privileges except `CAP_NET_ADMIN` and what is in `keep`, for this thread and the threads that it starts
/// later. This cannot be undone.
///
/// It works as root and as a user with `CAP_NET_ADMIN` alone. On a kernel without Landlock it logs a warning, and does the
/// rest.
///
/// # Errors
/// [`PrivilegeError`]. The process may have dropped a part of its privileges then, and should exit.
pub fn drop_privileges(keep: &Keep) -> Result<Report, PrivilegeError> {
    thread::set_no_new_privs(true).map_err(refused("set no_new_privs"))?;
    let file_system = close_file_system(keep)?;
    if file_system == FileSystem::Open {
        tracing::warn!("the kernel has no Landlock: the file system stays accessible");
    }
    let (net_admin, bounding_reduced) = drop_capabilities(keep.capabilities())?;
    Ok(Report { net_admin, bounding_reduced, file_system })
}

/// The directories that name resolution reads, with the targets of a link at `/etc/resolv.conf`.
const RESOLVER_DIRECTORIES: [&str; 7] =
    ["/etc", "/run", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/proc/sys/net"];
/// The same as files, for a thread that can read files that are not for all users.
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
/// A user and group id that owns nothing: systemd's table of ids leaves all from 2^31 on unused.
const UNUSED_ID: u32 = 4_000_000_000;

/// Drops all privileges of this thread, and of the threads that it starts, that name resolution does not need. They keep
/// read access to files for all users in `/etc` and `/run`, and no capability. Call it in a thread that was started before
/// [`drop_privileges`].
///
/// If the process has user id 0 and cannot read files as another user (it lacks `CAP_SETUID`, or its user namespace has one
/// user), the threads can read only the files that exist now, and do not notice a new `resolv.conf`.
///
/// # Errors
/// As for [`drop_privileges`].
pub fn confine_resolver() -> Result<(), PrivilegeError> {
    thread::set_no_new_privs(true).map_err(refused("set no_new_privs"))?;
    let is_root = rustix::process::geteuid().is_root();
    let harmless = !is_root || {
        // The groups first, since the change of the user drops the capability; a user namespace may forbid it.
        let grouped = thread::set_thread_groups(&[]).is_ok();
        sys::set_file_identity(UNUSED_ID) && grouped
    };
    if !harmless {
        tracing::warn!(
            "cannot read files as an ordinary user: names are resolved with the files that exist now, changes of them have no effect"
        );
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

/// Returns whether the process still has `CAP_NET_ADMIN`, and whether the bounding set was reduced.
fn drop_capabilities(keep: CapabilitySet) -> Result<(bool, bool), PrivilegeError> {
    let had = thread::capabilities(None).map_err(refused("read the capabilities"))?;
    let bounding_reduced = had.effective.contains(CapabilitySet::SETPCAP);
    if bounding_reduced {
        reduce_bounding_set(keep)?;
    }
    thread::clear_ambient_capability_set().map_err(refused("clear the ambient capabilities"))?;
    let left = had.permitted & keep;
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    thread::set_capabilities(None, sets).map_err(refused("drop capabilities"))?;
    Ok((left.contains(CapabilitySet::NET_ADMIN), bounding_reduced))
}

/// Removes all capabilities that the kernel knows except those in `keep`, including those that this code does not know.
fn reduce_bounding_set(keep: CapabilitySet) -> Result<(), PrivilegeError> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if keep.contains(capability) {
            continue;
        }
        match thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The kernel has no capability with this number or a higher one.
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
    // Landlock rejects a rule on a file with kinds of access that only directories have.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(LANDLOCK_ABI) };
    Ok(PathBeneath::new(opened, access))
}
