//! A TUN device in a host.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::link::LinkError;
use crate::namespace::Host;
use crate::sys;

/// An open TUN device, not blocking. The device goes when this does.
#[derive(Debug)]
pub(super) struct Tun {
    file: File,
}

impl Tun {
    pub(super) fn create(host: &Host, device: &str) -> Result<Self, LinkError> {
        let open = || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open("/dev/net/tun")?;
            sys::attach_tun(&file, device)?;
            Ok(Self { file })
        };
        host.run(open).map_err(|source| LinkError::Device {
            host: host.name().to_owned(),
            device: device.to_owned(),
            source,
        })
    }

    /// A socket in place of a device, for tests of what carries packets.
    #[cfg(test)]
    pub(super) fn over(socket: std::os::unix::net::UnixDatagram) -> Self {
        socket.set_nonblocking(true).expect("a flag");
        Self { file: File::from(std::os::fd::OwnedFd::from(socket)) }
    }

    /// The next packet the host sends; `None` if there is none now.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the host a packet.
    pub(super) fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
