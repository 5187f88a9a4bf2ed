//! Privileges are given up for good: seen from a process of its own, since nothing gives them back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use trunkline_gateway::privilege::{FileSystem, Keep, PrivilegeError, confine_resolver, drop_privileges};

/// In its environment the child finds the directory to work in.
const DIRECTORY: &str = "TRUNKLINE_PRIVILEGE_TEST";
/// The user id of a user without rights.
const NOBODY: u32 = 65534;
/// Held from the copying of a test binary until it runs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
const NO_CAPABILITIES: &str = "0000000000000000";

/// Runs `body` in a process of its own: the test of this name executes itself again, as [`NOBODY`] if asked,
/// and comes here a second time.
fn in_a_child(test: &str, as_nobody: bool, body: impl FnOnce(&Path)) {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return body(Path::new(&directory));
    }
    let directory = std::env::temp_dir().join(format!("trunkline-{test}-{}", std::process::id()));
    for name in ["read", "write", "elsewhere"] {
        let (sub, file) = (directory.join(name), directory.join(name).join("file"));
        fs::create_dir_all(&sub).unwrap();
        fs::write(&file, name).unwrap();
        if as_nobody {
            chown(&sub, Some(NOBODY), Some(NOBODY)).unwrap();
            chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    // A child that another test starts meanwhile inherits the copy open for writing, and it could not be run.
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // The directory the test was built in may be closed to other users.
    let binary = directory.join("test-binary");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let mut child = Command::new(&binary);
    child
        .args(["--exact", &format!("privilege::{test}"), "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, &directory);
    if as_nobody {
        child.uid(NOBODY).gid(NOBODY);
    }
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(alone);
    let output = child.wait_with_output().unwrap();
    fs::remove_dir_all(&directory).unwrap();
    let (shown, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}\n{errors}");
}

fn keep(directory: &Path) -> Keep {
    // /proc, for the child to look at itself.
    Keep {
        read: vec![directory.join("read"), "/proc".into()],
        write: vec![directory.join("write")],
        devices: vec![],
        low_ports: false,
    }
}

/// A value of `/proc/thread-self/status`.
fn status(key: &str) -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

fn shown(set: CapabilitySet) -> String {
    format!("{:016x}", set.bits())
}

fn has(capability: CapabilitySet) -> bool {
    capabilities(None).unwrap().effective.contains(capability)
}

fn check_file_system(directory: &Path) {
    let denied = |result: std::io::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    };
    assert_eq!(fs::read(directory.join("read/file")).unwrap(), b"read");
    assert_eq!(fs::read_dir(directory.join("read")).unwrap().count(), 1);
    denied(fs::write(directory.join("read/file"), "x"));
    denied(fs::write(directory.join("read/new"), "x"));
    denied(fs::remove_file(directory.join("read/file")));

    fs::write(directory.join("write/new"), "x").unwrap();
    fs::remove_file(directory.join("write/new")).unwrap();
    let socket = directory.join("write/control.sock");
    drop(UnixListener::bind(&socket).unwrap());
    fs::remove_file(&socket).unwrap();
    denied(fs::create_dir(directory.join("write/sub")));

    denied(fs::read(directory.join("elsewhere/file")).map(drop));
    denied(fs::read_dir(directory.join("elsewhere")).map(drop));
    denied(fs::write(directory.join("elsewhere/new"), "x"));
    denied(fs::remove_file(directory.join("elsewhere/file")));
    denied(UnixListener::bind(directory.join("elsewhere/sock")).map(drop));
    denied(fs::read("/etc/passwd").map(drop));
    denied(Command::new("/bin/true").spawn().map(drop));
}

#[test]
fn only_what_is_needed_is_left() {
    in_a_child("only_what_is_needed_is_left", false, |directory| {
        let had = capabilities(None).unwrap().permitted & CapabilitySet::NET_ADMIN;
        let (may_reduce, bounding) = (has(CapabilitySet::SETPCAP), status("CapBnd:"));
        let report = drop_privileges(&keep(directory)).unwrap();
        assert_eq!((report.net_admin, report.bounding_reduced), (!had.is_empty(), may_reduce));

        assert_eq!((status("CapPrm:"), status("CapEff:")), (shown(had), shown(had)));
        assert_eq!(
            (status("CapInh:").as_str(), status("CapAmb:").as_str()),
            (NO_CAPABILITIES, NO_CAPABILITIES)
        );
        let net_admin = shown(CapabilitySet::NET_ADMIN);
        assert_eq!(status("CapBnd:"), if may_reduce { net_admin } else { bounding });
        assert_eq!(status("NoNewPrivs:"), "1");
        // The network is not what is closed.
        assert!(TcpListener::bind("127.0.0.1:0").is_ok() && UdpSocket::bind("127.0.0.1:0").is_ok());

        let closed = report.file_system != FileSystem::Open;
        if closed {
            check_file_system(directory);
        } else {
            eprintln!("this kernel has no Landlock: the file system is not looked at");
        }
        let elsewhere = directory.join("elsewhere/file");
        // A thread started now has no more than this one.
        let thread = std::thread::spawn(move || {
            assert_eq!((status("NoNewPrivs:").as_str(), status("CapPrm:")), ("1", shown(had)));
            assert!(!closed || fs::read(elsewhere).is_err());
        });
        thread.join().unwrap();
    });
}

#[test]
fn net_admin_alone_is_enough_and_stays() {
    let only = CapabilitySet::NET_ADMIN;
    if !has(only) {
        eprintln!("no CAP_NET_ADMIN to keep");
        return;
    }
    in_a_child("net_admin_alone_is_enough_and_stays", false, |directory| {
        // As a service manager hands it over: ambient, and nothing besides.
        set_capabilities(None, CapabilitySets { effective: only, permitted: only, inheritable: only })
            .unwrap();
        rustix::thread::configure_capability_in_ambient_set(only, true).unwrap();
        let report = drop_privileges(&keep(directory)).unwrap();
        assert_eq!((report.net_admin, report.bounding_reduced), (true, false));
        assert_eq!((status("CapEff:"), status("CapPrm:")), (shown(only), shown(only)));
        assert_eq!(
            (status("CapInh:").as_str(), status("CapAmb:").as_str()),
            (NO_CAPABILITIES, NO_CAPABILITIES)
        );
    });
}

#[test]
fn a_user_without_capabilities_can_do_it_as_well() {
    const TEST: &str = "a_user_without_capabilities_can_do_it_as_well";
    let child = std::env::var_os(DIRECTORY).is_some();
    let may_become_another = has(CapabilitySet::SETUID) && has(CapabilitySet::CHOWN);
    if !child && !may_become_another {
        eprintln!("no right to become another user");
        return;
    }
    in_a_child(TEST, true, |directory| {
        let report = drop_privileges(&keep(directory)).unwrap();
        assert_eq!((report.net_admin, report.bounding_reduced), (false, false));
        assert_eq!(status("CapPrm:"), NO_CAPABILITIES);
        if report.file_system != FileSystem::Open {
            check_file_system(directory);
        }
    });
}

/// The user id that a thread reads files as.
fn file_identity() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    line.split_whitespace().nth(4).unwrap().to_owned()
}

#[test]
fn the_resolver_reads_what_everybody_may_and_has_no_capability() {
    in_a_child("the_resolver_reads_what_everybody_may_and_has_no_capability", false, |directory| {
        let inside = directory.join("read/file");
        let secret = Path::new("/etc/shadow");
        let had_secret = fs::read(secret).is_ok();
        let resolver = std::thread::spawn(move || {
            // /proc/thread-self is out of reach afterwards, so the test looks at it from outside.
            confine_resolver().unwrap();
            let caps = capabilities(None).unwrap();
            assert!(caps.effective.is_empty() && caps.permitted.is_empty() && caps.inheritable.is_empty());
            let closed = fs::read(&inside).is_err();
            let started = std::thread::spawn(move || fs::read("/etc/nsswitch.conf").is_ok());
            (
                closed,
                fs::read("/etc/nsswitch.conf").is_ok(),
                started.join().unwrap(),
                fs::read(secret).is_ok(),
            )
        });
        let (closed, reads, inherited, reads_secret) = resolver.join().unwrap();
        if Path::new("/etc/nsswitch.conf").exists() {
            assert!(reads && inherited, "what everybody may read");
        }
        assert!(!reads_secret, "/etc/shadow, which root could read: {had_secret}");
        // This thread is who it was, and is confined by itself.
        assert_eq!(file_identity(), rustix::process::geteuid().as_raw().to_string());
        let report = drop_privileges(&keep(directory)).unwrap();
        if report.file_system != FileSystem::Open {
            assert!(closed, "the file system is closed to the resolver");
            check_file_system(directory);
        }
    });
}

#[test]
fn dropping_twice_does_no_harm() {
    in_a_child("dropping_twice_does_no_harm", false, |directory| {
        let first = drop_privileges(&keep(directory)).unwrap();
        let second = drop_privileges(&keep(directory)).unwrap();
        assert_eq!((first.net_admin, second.bounding_reduced), (second.net_admin, false));
    });
}

#[test]
fn a_path_that_is_not_there_is_named() {
    in_a_child("a_path_that_is_not_there_is_named", false, |_| {
        let keep = Keep { read: vec!["/nowhere/at/all".into()], ..Keep::default() };
        let error = drop_privileges(&keep).unwrap_err();
        let PrivilegeError::Path { path, .. } = &error else { panic!("{error}") };
        assert_eq!(path, Path::new("/nowhere/at/all"));
    });
}
