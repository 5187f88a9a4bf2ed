//! The socket, and one request with its answer.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::error::{NetlinkError, Request};
use crate::reply::{Reply, attributes, text, word};

const HEADER_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLMSGERR_ATTR_MSG`: the kernel's explanation, as text.
const ATTR_MESSAGE: u16 = 1;

/// A netlink socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Handle {
    socket: Socket,
    sequence: u32,
}

impl Handle {
    /// Opens a socket in the calling thread's network namespace, to which it stays bound.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::open_protocol(NETLINK_ROUTE)
    }

    /// Opens a socket to another part of the kernel.
    pub(crate) fn open_protocol(protocol: isize) -> Result<Self, NetlinkError> {
        Self::open_socket(protocol).map_err(|source| NetlinkError::Open { source })
    }

    fn open_socket(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // The explanation is optional: every kernel reports the errno.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        Ok(Self { socket, sequence: 0 })
    }

    /// Requests a change and waits for its acknowledgement.
    pub(crate) fn change(
        &mut self,
        request: Request,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        self.exchange(&message_bytes(message, NLM_F_REQUEST | NLM_F_ACK | flags), Until::Acknowledged)
            .map(drop)
            .map_err(|failure| failure.of(request))
    }

    /// Requests one object.
    pub(crate) fn read(
        &mut self,
        request: Request,
        message: RouteNetlinkMessage,
    ) -> Result<Reply, NetlinkError> {
        let replies = self.exchange(&message_bytes(message, NLM_F_REQUEST), Until::FirstReply);
        match replies.map(|mut replies| replies.pop()) {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(NetlinkError::Malformed { request: Box::new(request), missing: "the object" }),
            Err(failure) => Err(failure.of(request)),
        }
    }

    /// Requests all objects of a type.
    pub(crate) fn list(
        &mut self,
        request: Request,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<Reply>, NetlinkError> {
        self.exchange(&message_bytes(message, NLM_F_REQUEST | NLM_F_DUMP), Until::Done)
            .map_err(|failure| failure.of(request))
    }

    /// As [`Handle::list`], with a filter in the request. A kernel without such filters returns all objects.
    pub(crate) fn list_filtered(
        &mut self,
        request: Request,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<Reply>, NetlinkError> {
        // Strict requests are for these alone: others name no more than a family.
        let _ = self.socket.set_netlink_get_strict_chk(true);
        let found = self.list(request, message);
        let _ = self.socket.set_netlink_get_strict_chk(false);
        found
    }

    /// Sends a message, with a sequence number of its own, and collects the answer.
    pub(crate) fn exchange(&mut self, message: &[u8], until: Until) -> Result<Vec<Reply>, Failure> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = message.to_vec();
        message[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        retry(|| self.socket.send(&message, 0))?;
        let mut replies = Vec::new();
        loop {
            let (datagram, sender) = retry(|| self.socket.recv_from_full())?;
            if sender.port_number() != 0 {
                continue;
            }
            if self.absorb(&datagram, until, &mut replies)? {
                return Ok(replies);
            }
        }
    }

    /// Processes one datagram of messages. Returns `true` when the answer is complete.
    fn absorb(&self, datagram: &[u8], until: Until, replies: &mut Vec<Reply>) -> Result<bool, Failure> {
        for Message { kind, flags, sequence, body, .. } in messages(datagram) {
            if sequence != self.sequence {
                continue;
            }
            match kind {
                NLMSG_ERROR | NLMSG_DONE => {
                    let code = word(body).map_or(0, u32::cast_signed);
                    if code != 0 {
                        return Err(Failure::refused(code, kind, flags, body));
                    }
                    return Ok(true);
                }
                _ => {
                    replies.push(Reply { kind, body: body.to_vec() });
                    if matches!(until, Until::FirstReply) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

/// One message of a datagram.
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) body: &'a [u8],
    flags: u16,
    pub(crate) sequence: u32,
    /// Of a notification: the port of the socket that asked for the change.
    pub(crate) port: u32,
}

/// The messages of a datagram, up to the first malformed one.
pub(crate) fn messages(datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let header = rest.get(..HEADER_BYTES)?;
        let bytes = word(header)? as usize;
        let body = rest.get(HEADER_BYTES..bytes)?;
        rest = rest.get(bytes.next_multiple_of(4)..).unwrap_or_default();
        Some(Message {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            flags: u16::from_ne_bytes([header[6], header[7]]),
            sequence: word(&header[8..])?,
            port: word(&header[12..])?,
            body,
        })
    })
}

/// When an answer is complete. An error ends every answer.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Acknowledged,
    FirstReply,
    Done,
}

/// Why an exchange failed.
pub(crate) enum Failure {
    Socket(io::Error),
    Refused { errno: i32, message: Option<String> },
}

impl Failure {
    fn refused(code: i32, kind: u16, flags: u16, body: &[u8]) -> Self {
        // In an error the code is followed by the header of the request (`NETLINK_CAP_ACK` leaves its body out).
        let skip = if kind == NLMSG_ERROR { 4 + HEADER_BYTES } else { 4 };
        let message = (flags & NLM_F_ACK_TLVS != 0)
            .then(|| attributes(body.get(skip..).unwrap_or_default()).find(|nla| nla.kind() == ATTR_MESSAGE))
            .flatten()
            .map(|nla| text(nla.value()));
        Self::Refused { errno: code.wrapping_neg(), message }
    }

    pub(crate) fn of(self, request: Request) -> NetlinkError {
        let request = Box::new(request);
        match self {
            Self::Socket(source) => NetlinkError::Socket { request, source },
            Self::Refused { errno, message } => NetlinkError::Refused { request, errno, message },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn message_bytes(message: RouteNetlinkMessage, flags: u16) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}
