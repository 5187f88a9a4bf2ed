//! IP packets of a Linux TUN device: header views, checksums, and the super-packets of segmentation offload
//! (`IFF_VNET_HDR`) with the operations of a gateway on them: check, split, trim, merge.
//!
//! The crate is pure: no sockets, clock, files or environment, and nothing but [`build`], [`pcapng`] and [`unreachable()`] allocates.
//!
//! # The no-panic contract
//!
//! No input bytes make any function here panic, loop without bound or read beyond the slice it was given;
//! bad input returns an error that says what was needed and what was found. Functions that take
//! both bytes and a [`Headers`] hold to this even when the two do not belong together: the result is then
//! useless, not dangerous. The fuzz target `packet_views` and the property tests hold the crate to it.

mod coalesce;
mod ecn;
mod error;
mod flow;
mod flow_hash;
mod headers;
mod offload;
mod rewrite;
mod segment;
mod transport;
mod trim;
mod unreachable;
mod vnet;

pub mod build;
pub mod checksum;
pub mod pcap;
pub mod pcapng;
pub mod protocol;

pub use coalesce::{Run, TcpRun, UdpRun};
pub use ecn::mark_ce;
pub use error::{Layer, OffloadError, PacketError};
pub use flow::FlowKey;
pub use flow_hash::FlowHasher;
pub use headers::{Fragment, Headers, Version};
pub use offload::{Offload, SegmentKind, Segmentation};
pub use segment::{Segment, SegmentHeaders, Segmenter, complete_checksum};
pub use transport::{IcmpView, TcpFlags, TcpView, UdpView};
pub use trim::{Trimmed, trim};
pub use unreachable::{Unreachable, unreachable};
pub use vnet::VNET_LEN;
