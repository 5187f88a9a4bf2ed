//! The listening sockets of a daemon.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use trunkline_linux::set_mark;

use crate::control::{Probe, probe};

/// Why a daemon cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A daemon listens on that socket already.
    #[error("another daemon answers on {}: `trunkline down` ends it", .0.display())]
    Running(PathBuf),
    /// The address is taken, or not this machine's, or the socket's file cannot be made.
    #[error("cannot listen on {address}: {source}{}", hint(source))]
    Listen {
        /// Where.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// What helps against an error of listening.
pub fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (run as root, or with the unit file in dist/)",
        io::ErrorKind::AddrInUse => " (another program listens there)",
        io::ErrorKind::AddrNotAvailable => " (this machine does not have the address)",
        _ => "",
    }
}

/// The file of a Unix socket. Dropping it removes the file, unless another socket has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = |file: fs::Metadata| (file.dev(), file.ino()) == (self.device, self.inode);
        if fs::symlink_metadata(&self.path).is_ok_and(ours) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens on a TCP address. The listening socket needs the mark, since it sends the SYN-ACK.
pub fn tcp(address: SocketAddr, mark: Option<u32>) -> Result<TcpListener, ListenError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let open = || -> io::Result<TcpListener> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            // So that one daemon can listen on 0.0.0.0 and on [::].
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        if let Some(mark) = mark {
            set_mark(socket.as_fd(), mark)?;
        }
        bind(&socket, &address)?;
        listen(&socket, 256)?;
        Ok(TcpListener::from(socket))
    };
    open().map_err(|source| ListenError::Listen { address: address.to_string(), source })
}

/// Listens on a Unix socket that only the user of this process may write to. It replaces a socket that a dead process has
/// left at the path.
pub fn unix(path: &Path) -> Result<(UnixListener, SocketFile), ListenError> {
    if probe(path) == Probe::Listens {
        return Err(ListenError::Running(path.to_owned()));
    }
    let open = || -> io::Result<(UnixListener, SocketFile)> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        // Created under another name, so that the path never has a socket with a wider mode, or one that does not listen.
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(new);
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&new)?;
        let made = fs::symlink_metadata(&new)?;
        let file = |path| SocketFile { path, device: made.dev(), inode: made.ino() };
        let temporary = file(new);
        fs::set_permissions(&temporary.path, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        fs::rename(&temporary.path, path)?;
        Ok((listener, file(path.to_owned())))
    };
    open().map_err(|source| ListenError::Listen { address: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("trunkline-listen-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        directory
    }

    #[test]
    fn a_socket_goes_with_its_owner_and_one_of_a_dead_process_is_replaced() {
        let directory = directory("owner");
        let path = directory.join("a.sock");
        drop(UnixListener::bind(&path).expect("a socket without a listener"));
        assert_eq!(probe(&path), Probe::Stale);
        let (listener, file) = unix(&path).expect("it is replaced");
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(fs::metadata(&path).expect("its mode").permissions().mode() & 0o777, 0o600);
        assert!(matches!(unix(&path), Err(ListenError::Running(_))), "somebody listens");
        assert_eq!(fs::read_dir(&directory).expect("its files").count(), 1, "nothing else is left");
        drop((listener, file));
        assert!(!path.exists());
        fs::remove_dir_all(directory).expect("it goes");
    }

    #[test]
    fn a_socket_that_another_took_over_is_left_alone() {
        let directory = directory("taken");
        let path = directory.join("a.sock");
        let (listener, file) = unix(&path).expect("a socket");
        drop(listener);
        let (_other, kept) = unix(&path).expect("another one in its place");
        drop(file);
        assert!(UnixStream::connect(&path).is_ok(), "the other one is there");
        drop(kept);
        fs::remove_dir_all(directory).expect("it goes");
    }
}
