//! The sockets of a worker: what is read from them, and what they send beside the connections.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use quinn_proto::{ConnectionHandle, DatagramEvent, EcnCodepoint, Transmit};
use trunkline_units::Instant;

use super::link::Link;
use super::port::Port;
use super::settings::{MAX_PACKET, MIN_PACKET, USUAL_PACKET};
use super::{Change, Quic};
use crate::clock::thread_time;
use crate::config::Via;
use crate::sys;
use crate::sys::udp::{self, Outgoing};

/// Bytes read from a socket before lanes and device are looked at again: so many stay in the processor's cache until they are
/// opened and written to the device, and are acknowledged together.
pub(super) const ROUND_BYTES: usize = 256 << 10;
/// And batches, if they are short.
const ROUND_BATCHES: usize = 16;
/// The longest batch that the kernel makes.
const BATCH_BYTES: usize = 1 << 16;

impl Quic {
    /// Adds a socket; its place, by which events of it are told apart.
    pub(crate) fn add_port(&mut self, fd: OwnedFd) -> usize {
        let mut ports = self.shared.ports.borrow_mut();
        ports.push(Port::new(fd));
        ports.len() - 1
    }

    /// How many sockets there are.
    pub(crate) fn ports(&self) -> usize {
        self.shared.ports.borrow().len()
    }

    /// Does something with the descriptor of a socket.
    pub(crate) fn with_port<T>(&self, place: usize, act: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        self.shared.ports.borrow().get(place).map(|port| act(port.as_fd()))
    }

    /// The socket for dials to this address that is bound so. It is opened if there is none; then it is new.
    pub(crate) fn dial_port(&mut self, remote: SocketAddr, via: &Via) -> io::Result<(usize, bool)> {
        let key = (remote.is_ipv4(), via.clone());
        let known = self.dial_ports.get(&key).copied();
        if let Some(place) = known
            && self.with_port(place, |fd| is_bound(fd, via)).unwrap_or_default()
        {
            return Ok((place, false));
        }
        let any: IpAddr = if key.0 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = SocketAddr::new(via.address.unwrap_or(any), 0);
        let socket = udp::open(local, via.fwmark.or(self.mark), false)?;
        if let Some(interface) = &via.interface {
            sys::bind_to_interface(socket.as_fd(), interface)?;
        }
        let Some(place) = known else {
            let place = self.add_port(socket);
            self.dial_ports.insert(key, place);
            return Ok((place, true));
        };
        // The interface was made anew: what was bound to the one before reaches nobody.
        self.shared.ports.borrow_mut()[place] = Port::new(socket);
        Ok((place, true))
    }

    /// The longest packet, bytes of UDP data, that this machine sends to an address from the socket at this place; one that any
    /// Ethernet takes if the kernel does not say.
    pub(super) fn longest_packet(&self, place: usize, remote: SocketAddr) -> u16 {
        let known = self.with_port(place, |fd| udp::longest_datagram(fd, remote)).and_then(Result::ok);
        let longest = known.map_or(USUAL_PACKET, |bytes| u16::try_from(bytes).unwrap_or(MAX_PACKET));
        longest.clamp(MIN_PACKET, MAX_PACKET)
    }

    /// Marks all packets from now on, also of connections that are up (`SO_MARK`), but for those of paths with marks of their own.
    pub(crate) fn set_mark(&mut self, mark: Option<u32>) {
        if self.mark == mark {
            return;
        }
        self.mark = mark;
        let has_own = |place: usize| {
            self.dial_ports.iter().any(|((_, via), known)| *known == place && via.fwmark.is_some())
        };
        for (place, port) in self.shared.ports.borrow().iter().enumerate() {
            if has_own(place) {
                continue;
            }
            if let Err(error) = sys::set_mark(port.as_fd(), mark.unwrap_or(0)) {
                tracing::warn!("cannot mark a socket of lanes over QUIC: {error}");
            }
        }
    }

    /// Whether a socket waits for room, so that it is to be watched for it.
    pub(crate) fn is_full(&self, place: usize) -> bool {
        self.shared.ports.borrow().get(place).is_some_and(Port::is_full)
    }

    /// A socket has room again. Whether all that waited for it went.
    pub(crate) fn handle_writable(&mut self, place: usize) -> bool {
        let done = self.shared.ports.borrow_mut().get_mut(place).is_none_or(Port::flush);
        if done {
            for link in self.links.values().filter(|link| link.borrow().port == place) {
                link.borrow_mut().touch(&self.shared);
            }
        }
        done
    }

    /// Reads what a socket has, up to a bound. Whether there may be more.
    pub(crate) fn receive(&mut self, now: Instant, place: usize, events: &mut Vec<Change>) -> bool {
        let at = self.shared.to_std(now);
        let mut bytes = 0;
        // A batch is of one connection, as a rule.
        let mut last: Option<(ConnectionHandle, Rc<RefCell<Link>>)> = None;
        for _ in 0..ROUND_BATCHES {
            // Takes the memory back whose contents have been passed on.
            self.arena.reserve(BATCH_BYTES);
            let mut arena = std::mem::take(&mut self.arena);
            let received = self.with_port(place, |fd| udp::receive(fd, &mut arena));
            let mut batch = arena.split();
            self.arena = arena;
            let received = match received {
                Some(Ok(received)) => received,
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // What an ICMP error says of one connection is no concern of the others; its own timers find out.
                Some(Err(_)) => continue,
                None => return false,
            };
            let ecn = EcnCodepoint::from_bits(received.ecn);
            while !batch.is_empty() {
                let datagram = batch.split_to(received.segment.min(batch.len()));
                let (len, mut response) = (datagram.len(), std::mem::take(&mut self.buffer));
                response.clear();
                let event =
                    self.endpoint.handle(at, received.from, received.to, ecn, datagram, &mut response);
                match event {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        if last.as_ref().is_none_or(|(known, _)| *known != handle) {
                            let link = self.numbers.get(&handle).and_then(|n| self.links.get(n));
                            last = link.map(|link| (handle, Rc::clone(link)));
                        }
                        if let Some((_, link)) = &last {
                            let mut link = link.borrow_mut();
                            let start = link.caller.map(|caller| (caller, thread_time()));
                            link.inner.handle_event(event);
                            if let Some((caller, start)) = start {
                                self.callers.charge(caller, thread_time().saturating_sub(start));
                            }
                            link.bytes_received += len as u64;
                            link.touch(&self.shared);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        self.handle_caller(at, place, incoming, &mut response, events);
                    }
                    Some(DatagramEvent::Response(transmit)) => self.respond(place, &transmit, &response),
                    None => {}
                }
                self.buffer = response;
            }
            bytes += received.len;
            // A batch more would take more memory.
            if bytes + BATCH_BYTES > ROUND_BYTES {
                break;
            }
        }
        true
    }

    pub(super) fn respond(&self, place: usize, transmit: &Transmit, bytes: &[u8]) {
        let headers =
            Outgoing { to: transmit.destination, from: transmit.src_ip, traffic_class: 0, segment: None };
        if let Some(port) = self.shared.ports.borrow_mut().get_mut(place)
            && !port.is_full()
        {
            port.send(headers, &bytes[..transmit.size]);
        }
    }
}

/// Whether a socket is still bound to the interface that it was bound to.
fn is_bound(fd: BorrowedFd<'_>, via: &Via) -> bool {
    via.interface.as_ref().is_none_or(|name| sys::interface_of(fd).is_ok_and(|bound| bound == *name))
}
