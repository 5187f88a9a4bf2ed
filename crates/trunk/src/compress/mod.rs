//! Header compression for packets that travel singly. docs/wire-format.md is the specification of the bytes.
//!
//! Of the headers of a flow most never change, and most of the rest changes by little, as RFC 1144 §3 found for
//! TCP over IPv4. So both ends of a lane keep the last header of a flow, a *context*, and a compressed packet says
//! only the differences. What RFC 1144 has no place for follows the ideas of RFC 6846 (ROHC-TCP): timestamps are
//! differences too, SACK blocks are said relative to the acknowledgement, and IPv6 and UDP
//! are but other chains of the same fields.
//!
//! A lane delivers every byte once and in order, or ends. That makes the scheme small: no checksum to notice a
//! lost difference, no refresh, no feedback, and differences may be as large as they like. Both ends apply the
//! same `Context::advance` to the same packets and so never disagree. A context is
//! made by a packet that travels whole and names the context it makes; any other whole packet leaves all contexts
//! alone. What comes out is bit for bit what went in: a header that could not be put together again exactly
//! travels whole ([`Whole`] says why).
//!
//! The receiving end believes nothing: any bytes give a packet, judged afterwards like any other, or a
//! [`CompressError`], which ends the lane. Memory is bounded by [`CONTEXTS`], made with the lane, and no packet
//! allocates.

mod compressor;
mod context;
mod decompressor;
mod header;
mod number;
mod trial;

use thiserror::Error;

use crate::frame::MAX_HEAD;

pub use compressor::{Compression, Compressor, CompressorStats, FramedHead, Single};
pub use decompressor::{Decompressor, DecompressorStats, Restored};

/// Contexts of one direction of a lane.
pub const CONTEXTS: usize = 256;

/// The longest header that is compressed, in bytes: IPv6, and TCP with all the options it has room for.
pub const MAX_HEADER: usize = 100;

/// The maximum number of bytes of fields in a compressed frame: of IPv4 TCP with timestamps and three SACK blocks, or none and
/// four, and every difference the largest.
pub const MAX_FIELDS: usize = 67;

/// The maximum number of bytes that [`Compressor::frame`] puts in place of those it takes away.
pub const MAX_FRAMED: usize = MAX_FIELDS + MAX_HEAD;

/// Why a packet travelled whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Whole {
    /// It stands for many, and its header is paid once for all of them.
    SuperPacket,
    /// Neither TCP nor UDP stands directly behind the IP header.
    Protocol,
    /// It is a fragment.
    Fragment,
    /// No IP header, IPv4 options, a wrong header checksum, or a length that is not the packet's.
    IpHeader,
    /// It opens or ends a connection, or has TCP flags that no running connection has.
    TcpFlags,
    /// TCP options other than timestamps and SACK, or in another order.
    TcpOptions,
    /// The UDP length is not that of the packet.
    UdpLength,
    /// The open checksum does not hold the pseudo header's sum.
    Checksum,
    /// Its lane makes a pause: compression did not pay.
    Pause,
    /// It made a context: the first of its flow, or the first after something changed that contexts keep.
    Context,
}

impl Whole {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Whole; 10] = [
        Whole::SuperPacket,
        Whole::Protocol,
        Whole::Fragment,
        Whole::IpHeader,
        Whole::TcpFlags,
        Whole::TcpOptions,
        Whole::UdpLength,
        Whole::Checksum,
        Whole::Pause,
        Whole::Context,
    ];

    /// Its name, for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Whole::SuperPacket => "super_packet",
            Whole::Protocol => "protocol",
            Whole::Fragment => "fragment",
            Whole::IpHeader => "ip_header",
            Whole::TcpFlags => "tcp_flags",
            Whole::TcpOptions => "tcp_options",
            Whole::UdpLength => "udp_length",
            Whole::Checksum => "checksum",
            Whole::Pause => "pause",
            Whole::Context => "context",
        }
    }
}

/// Why a compressed frame is none. Always the sender's fault, or that of someone on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CompressError {
    /// A frame refers to a context that no frame has made.
    #[error("a compressed frame of context {context}, which was never made")]
    UnknownContext {
        /// Its number.
        context: u8,
    },
    /// A frame refers to the context of the one before, and there was none.
    #[error("a compressed frame of the context before, and there was none")]
    NoContext,
    /// A packet that cannot be compressed was to make a context.
    #[error("a packet that has no compressed form ({}) was to make context {context}", reason.as_str())]
    NoForm {
        /// The context's number.
        context: u8,
        /// What the packet is.
        reason: Whole,
    },
    /// A frame says a field that the context's protocol does not have.
    #[error(
        "a compressed frame of context {context} with fields {fields:#04x} that its protocol does not have"
    )]
    Field {
        /// The context's number.
        context: u8,
        /// The bits of the fields, of the frame's kind or of its extension.
        fields: u8,
    },
    /// A reserved value, or a field that has no such value.
    #[error("a compressed frame with {value:#04x} where that means nothing")]
    Value {
        /// What stood there.
        value: u8,
    },
    /// A number has more bits than its field.
    #[error("a compressed frame with a number larger than its field")]
    Number,
    /// The frame ends inside its fields.
    #[error("a compressed frame of {have} bytes ends inside its header")]
    Truncated {
        /// Bytes there were.
        have: usize,
    },
    /// The packet would be longer than an IP packet can be.
    #[error("a compressed frame of a packet of {length} bytes")]
    TooLong {
        /// Its length.
        length: usize,
    },
}

#[cfg(test)]
mod tests;
