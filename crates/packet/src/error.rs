//! Errors of a packet, and of its offload.

use thiserror::Error;

use crate::{SegmentKind, Version};

/// The header that was being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The IPv4 header.
    Ipv4,
    /// The IPv6 header.
    Ipv6,
    /// The header of the upper-layer protocol.
    Transport,
}

/// The sender of a packet wrote something that is not IP. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PacketError {
    /// The bytes end before the header does.
    #[error("{layer:?} header cut short: needs {need} bytes of packet, has {have}")]
    Truncated {
        /// Which header.
        layer: Layer,
        /// Bytes of packet needed.
        need: usize,
        /// Bytes of packet at hand.
        have: usize,
    },
    /// The version nibble is neither 4 nor 6.
    #[error("IP version is 4 or 6, not {have}")]
    UnknownVersion {
        /// The nibble.
        have: u8,
    },
    /// A header claims to be shorter than its fixed part.
    #[error("{layer:?} header is at least {need} bytes long, claims {have}")]
    HeaderLength {
        /// Which header.
        layer: Layer,
        /// Length of the fixed part.
        need: usize,
        /// Length claimed.
        have: usize,
    },
    /// The length in the IP header is not the packet's.
    #[error("{layer:?} header says the packet is {need} bytes long, it is {have}")]
    PacketLength {
        /// Which header.
        layer: Layer,
        /// Length by the header.
        need: usize,
        /// Length of the packet.
        have: usize,
    },
    /// IPv6 payload length zero, and a payload: a jumbogram (RFC 2675 §2).
    #[error("IPv6 payload length is 0 in a packet of {have} bytes: jumbograms are not carried")]
    Jumbogram {
        /// Length of the packet.
        have: usize,
    },
}

/// An offload does not fit its packet, or is of a kind that is not carried: the peer's fault when it came over
/// a trunk, a kernel newer than this code when it came from the local TUN. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OffloadError {
    /// A flag of `virtio_net_hdr` that changes the meaning of the other fields.
    #[error("virtio-net header flags {have:#04x} are not known")]
    UnknownFlags {
        /// All the flags.
        have: u8,
    },
    /// A segmentation type that is not carried: UFO, or one that is not known.
    #[error("virtio-net segmentation type {have:#04x} is not supported")]
    UnsupportedType {
        /// The type, with the ECN bit.
        have: u8,
    },
    /// A super-packet without a partial checksum. Linux always sets one.
    #[error("super-packet without a partial checksum")]
    ChecksumMissing,
    /// The packet is a fragment.
    #[error("offload on a fragment")]
    Fragment,
    /// The packet is not of the kind that is to be segmented.
    #[error("{kind:?} segmentation of an {version:?} packet with protocol {protocol}")]
    KindMismatch {
        /// What the offload says.
        kind: SegmentKind,
        /// What the packet is.
        version: Version,
        /// Its upper-layer protocol.
        protocol: u8,
    },
    /// A segment size below what a sender would choose, or the 65535 that Linux takes for "by fragment list".
    #[error("segment size {have} is not between {min} and 65534")]
    SegmentSize {
        /// The smallest of this kind.
        min: u16,
        /// The size.
        have: u16,
    },
    /// More segments than Linux makes or takes.
    #[error("{have} segments, at most {limit} are allowed")]
    SegmentCount {
        /// How many there are.
        have: u32,
        /// How many there may be.
        limit: u32,
    },
    /// The checksum does not start at the transport header.
    #[error("checksum starts at {have}, the transport header at {need}")]
    ChecksumStart {
        /// Offset of the transport header.
        need: usize,
        /// Offset in the offload.
        have: usize,
    },
    /// The checksum is not where the protocol has it.
    #[error("checksum at offset {have} of the transport header, the protocol has it at {need}")]
    ChecksumOffset {
        /// Where the protocol has it.
        need: u16,
        /// Where the offload has it.
        have: u16,
    },
    /// The protocol has no Internet checksum that a kernel would leave open.
    #[error("protocol {protocol} has no checksum to complete")]
    NoChecksum {
        /// The upper-layer protocol.
        protocol: u8,
    },
    /// A header, or the checksum, lies beyond the packet or beyond the bytes of it at hand.
    #[error("offload needs {need} bytes of packet, has {have}")]
    Truncated {
        /// Bytes of packet needed.
        need: usize,
        /// Bytes of packet at hand.
        have: usize,
    },
    /// The headers to repeat on each segment cannot be that long.
    #[error("headers are {min} to {max} bytes long, not {have}")]
    HeaderLength {
        /// Shortest possible.
        min: usize,
        /// Longest possible.
        max: usize,
        /// What is claimed.
        have: usize,
    },
    /// The UDP header of a super-packet has another length than the packet.
    #[error("UDP length is {have} where {need} bytes follow")]
    UdpLength {
        /// Bytes from the UDP header to the end.
        need: usize,
        /// The length field.
        have: usize,
    },
    /// One packet was asked for and the offload stands for several.
    #[error("a super-packet has to be segmented before its checksum can be completed")]
    NotOnePacket,
}
