//! Sockets with every option set that affects a measurement.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use trunkline_units::Instant;

use super::service::{POLL_INTERVAL, Stop};
use crate::clock;

/// Bytes of datagrams a UDP socket may hold for us: enough for some milliseconds at any rate we send.
const UDP_BUFFER_BYTES: usize = 16 << 20;

/// How a client connects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connect<'a> {
    pub(super) target: SocketAddr,
    pub(super) source: Option<IpAddr>,
    pub(super) congestion_control: &'a str,
    pub(super) timeout: Duration,
}

impl Connect<'_> {
    /// Connects, within the time-out. Reads and writes of the stream return at least every [`POLL_INTERVAL`].
    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        let family = if self.target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        set_congestion_control(&socket, self.congestion_control)?;
        if let Some(source) = self.source {
            rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
        }
        match rustix::net::connect(&socket, &self.target) {
            Ok(()) => {}
            Err(rustix::io::Errno::INPROGRESS) => {
                let mut wait = [PollFd::new(&socket, PollFlags::OUT)];
                if poll(&mut wait, Some(&clock::timespec(self.timeout)))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                sockopt::socket_error(&socket)??;
            }
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        prepare(&stream)?;
        Ok(stream)
    }
}

pub(super) fn set_congestion_control(socket: impl std::os::fd::AsFd, name: &str) -> io::Result<()> {
    sockopt::set_tcp_congestion(socket, name).map_err(|error| {
        let text = format!("congestion control {name:?} is not to be had: {error}");
        io::Error::new(io::Error::from(error).kind(), text)
    })
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(POLL_INTERVAL))?;
    stream.set_write_timeout(Some(POLL_INTERVAL))
}

/// Whether an error only says that a time-out passed or a signal came.
pub(super) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// A listener whose accept never waits.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves each connection in a thread of its own until stopped, and returns the results.
pub(super) fn serve<T: Send>(
    listener: &TcpListener,
    stop: &Stop,
    work: impl Fn(TcpStream, SocketAddr) -> T + Sync,
) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let mut threads = Vec::new();
        while !stop.is_stopped() {
            let mut wait = [PollFd::new(listener, PollFlags::IN)];
            if poll(&mut wait, Some(&clock::timespec(POLL_INTERVAL))) != Ok(1) {
                continue;
            }
            // Errors of accept are those of the connection (accept(2)): the next one may be well.
            let Ok((stream, peer)) = listener.accept() else { continue };
            if prepare(&stream).is_ok() {
                threads.push(scope.spawn(move || work(stream, peer)));
            }
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Reads exactly `buffer`; `false` if the peer ended, or `end` or a stop came first.
pub(super) fn read_all(stream: &mut TcpStream, buffer: &mut [u8], end: Instant, stop: &Stop) -> bool {
    let mut filled = 0;
    while filled < buffer.len() {
        if stop.is_stopped() || clock::now() >= end {
            return false;
        }
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return false,
            Ok(bytes) => filled += bytes,
            Err(error) if is_pause(&error) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Reads and forgets `bytes`; `false` as [`read_all`].
pub(super) fn skip(stream: &mut TcpStream, mut bytes: u64, end: Instant, stop: &Stop) -> bool {
    let mut scratch = vec![0; bytes.clamp(1, 256 << 10) as usize];
    while bytes > 0 {
        let part = bytes.min(scratch.len() as u64) as usize;
        if !read_all(stream, &mut scratch[..part], end, stop) {
            return false;
        }
        bytes -= part as u64;
    }
    true
}

/// Writes all of `bytes`; `false` if the peer ended, or `end` or a stop came first.
pub(super) fn write_all(stream: &mut TcpStream, mut bytes: &[u8], end: Instant, stop: &Stop) -> bool {
    while !bytes.is_empty() {
        if stop.is_stopped() || clock::now() >= end {
            return false;
        }
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if is_pause(&error) => {}
            Err(_) => return false,
        }
    }
    true
}

/// A UDP socket with large buffers whose reads return at least every [`POLL_INTERVAL`].
pub(super) fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_read_timeout(Some(POLL_INTERVAL))?;
    // Beyond the machine's limit only with CAP_NET_ADMIN in the first user namespace.
    if sockopt::set_socket_recv_buffer_size_force(&socket, UDP_BUFFER_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, UDP_BUFFER_BYTES)?;
    }
    Ok(socket)
}

/// The address that binds to any port of the family of `target`.
pub(super) fn any(target: SocketAddr) -> SocketAddr {
    let address: IpAddr = if target.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    SocketAddr::new(address, 0)
}
