//! Streams: how frames stand in a lane that delivers everything and in which a loss delays its own flow only.
//!
//! Such a lane is a bundle of byte streams, each in order, none of which waits for another (QUIC, RFC 9000 §2). A stream holds
//! frames as a lane over TCP does. The sender [lends](Lending) each flow a stream, so that its packets stay in order, and
//! [gathers](Framing) the frames of each stream; the receiver has a [`Deframer`] for each.
//!
//! What is in transit is known by the acknowledgements of packets, which come in any order ([`Acknowledged`]).
//!
//! Headers are not compressed: contexts belong to one ordering domain, and 256 of them for each of 256 streams would cost
//! megabytes for each lane.

mod acknowledged;
mod deframer;
mod framing;
mod lending;

pub use acknowledged::Acknowledged;
pub use deframer::Deframer;
pub use framing::Framing;
pub use lending::{Lending, MAX_STREAMS};

use thiserror::Error;

use crate::frame::FrameError;

/// Why a stream is none of this format. Always its sender's fault: the connection under it has its integrity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StreamError {
    /// It holds no sequence of frames.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A frame that depends on others: compressed, making a context, or saying something of the next packet.
    #[error(
        "a compressed frame, or one that makes a context, or numbers the next packet, in a lane of streams"
    )]
    Dependent,
    /// It ended; the streams of a lane go on for as long as the lane.
    #[error("the peer ended a stream of the lane")]
    Ended,
}
