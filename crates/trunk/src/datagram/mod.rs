//! Datagrams: how frames stand in a lane that loses and reorders what it carries. docs/wire-format.md is the specification.
//!
//! Frames follow each other as in a byte stream, and the stream is cut into datagrams that fill the path's MTU, so that
//! packets of any length pass and small ones share a datagram (the principle of RFC 9347). A datagram says where in it
//! the first frame begins, so a receiver that lost one goes on with the next.
//!
//! ```text
//!  0       1                       4               6
//! +-------+-----------------------+---------------+---------- - -
//! |   1   |        number         |     first     | a piece of the stream of frames
//! +-------+-----------------------+---------------+---------- - -
//! ```
//!
//! A loss costs every frame that has a byte in the lost datagram. So the [`Packer`] cuts no frame that fits into one
//! datagram, and cuts no frame head. The [`Reassembler`] passes on whole frames at once and in any order; it keeps the
//! pieces of a cut one for a bounded time, in bounded memory.

mod packer;
mod reassembler;

pub use packer::{Packer, Piece, Rest};
pub use reassembler::{Reassembler, ReassemblerStats};

use thiserror::Error;

use crate::frame::FrameError;

/// Bytes before the piece of the stream.
pub const HEAD_BYTES: usize = 6;

/// The length of a datagram that every path carries: QUIC's minimum of 1200 bytes (RFC 9000 §14) less the packet's head with the
/// longest connection ID and packet number, the tag, and the frame's head of 9 bytes at most.
pub const MIN_DATAGRAM: usize = 1200 - (1 + 20 + 4) - 16 - 9;

const KIND: u8 = 1;
/// In place of the first frame's position: no frame begins in this datagram.
const NO_FRAME: u16 = u16::MAX;
/// Bits of a number.
const NUMBER_BITS: u32 = 24;

/// Why a datagram is none of this format. Always its sender's fault: the lane under it has its integrity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DatagramError {
    /// It ends within its head.
    #[error("a datagram of {length} bytes: its head alone has {HEAD_BYTES}")]
    TooShort {
        /// Its length.
        length: usize,
    },
    /// Its first frame begins behind its end.
    #[error("the first frame of a datagram begins at {first}, behind its end at {length}")]
    FirstBeyondEnd {
        /// Where it begins, counted from the head.
        first: usize,
        /// Bytes behind the head.
        length: usize,
    },
    /// It holds no sequence of frames.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// Its last frame's head is cut.
    #[error("a frame head is cut after {have} bytes")]
    CutHead {
        /// Bytes of it that are there.
        have: usize,
    },
    /// A frame that depends on those before it: compressed, or making a context.
    #[error("a frame that depends on others, in a lane that loses some")]
    Dependent,
    /// The pieces of a frame have another length than it says.
    #[error("a frame of {need} bytes in pieces of {have}")]
    Mismatch {
        /// Bytes of the frame, by its head.
        need: usize,
        /// Bytes of its pieces.
        have: usize,
    },
}
