//! The sending side: frames into datagrams.

use std::time::Duration;

use super::{HEAD_BYTES, KIND, MIN_DATAGRAM, NO_FRAME, NUMBER_BITS};
use crate::frame::MAX_HEAD;

/// What is left of a datagram is not used for the start of a frame if it is shorter than this: the frame would be cut into
/// more pieces, and a loss of any of them costs all of it.
const MIN_START: usize = 64;
const _: () = assert!(MIN_START > MAX_HEAD && MIN_DATAGRAM - HEAD_BYTES > MIN_START);

/// A stretch of the packer's bytes that is one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub start: usize,
    /// Behind its end.
    pub end: usize,
}

/// What becomes of a datagram that has nothing but the rest of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It leaves as it is.
    Leaves,
    /// It waits for the frames that follow at once, and fill it.
    Waits,
}

impl Rest {
    /// The longest that it waits where the pacing of its lane holds those back.
    pub const MAX_WAIT: Duration = Duration::from_millis(5);
}

/// Packs frames into datagrams, which stand one after another in one stretch of memory.
#[derive(Debug)]
pub struct Packer {
    max: usize,
    number: u32,
    bytes: Vec<u8>,
    done: Vec<Piece>,
    /// Where the datagram begins that is being filled, if there is one.
    open: Option<usize>,
}

impl Packer {
    /// A packer of datagrams of at most `max` bytes, and [`MIN_DATAGRAM`] at least.
    pub fn new(max: usize) -> Self {
        let mut packer = Packer { max: 0, number: 0, bytes: Vec::new(), done: Vec::new(), open: None };
        packer.set_max(max);
        packer
    }

    /// Changes the bound on a datagram; it must not be called while one is being filled.
    pub fn set_max(&mut self, max: usize) {
        debug_assert!(self.is_empty());
        self.max = max.clamp(MIN_DATAGRAM, usize::from(NO_FRAME));
    }

    /// The bound on a datagram, bytes.
    pub const fn max(&self) -> usize {
        self.max
    }

    /// Bytes of the longest frame that fits into one datagram.
    pub const fn longest_whole(&self) -> usize {
        self.max - HEAD_BYTES
    }

    /// Whether nothing waits to be taken.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of the datagrams that wait to be taken.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a frame, which is given in parts.
    pub fn put(&mut self, frame: &[&[u8]]) {
        let length: usize = frame.iter().map(|part| part.len()).sum();
        let fits_into_one = length <= self.longest_whole();
        if length > self.room() && (fits_into_one || self.room() < MIN_START) {
            self.close();
        }
        let start = self.open();
        if self.has_only_a_rest(start) {
            let at = (self.bytes.len() - start - HEAD_BYTES) as u16;
            self.bytes[start + 4..start + HEAD_BYTES].copy_from_slice(&at.to_be_bytes());
        }
        for part in frame {
            let mut part = *part;
            while !part.is_empty() {
                if self.room() == 0 {
                    self.close();
                    self.open();
                }
                let (taken, rest) = part.split_at(part.len().min(self.room()));
                self.bytes.extend_from_slice(taken);
                part = rest;
            }
        }
    }

    /// Ends the datagram that is being filled, and takes all of them: returns their bytes, and adds to `pieces` where each is
    /// in them. The next ones are packed into `spare`, whose contents are dropped.
    pub fn take(&mut self, pieces: &mut Vec<Piece>, mut spare: Vec<u8>) -> Vec<u8> {
        self.close();
        pieces.append(&mut self.done);
        spare.clear();
        spare.reserve(self.bytes.len());
        std::mem::replace(&mut self.bytes, spare)
    }

    /// The same, but the datagram that is being filled may stay open. A frame that is whole in it does not wait.
    pub fn take_with(&mut self, pieces: &mut Vec<Piece>, rest: Rest, mut spare: Vec<u8>) -> Vec<u8> {
        let open = self.open.filter(|start| rest == Rest::Waits && self.has_only_a_rest(*start));
        let Some(start) = open else { return self.take(pieces, spare) };
        pieces.append(&mut self.done);
        spare.clear();
        spare.reserve(self.bytes.len());
        spare.extend_from_slice(&self.bytes[start..]);
        self.bytes.truncate(start);
        self.open = Some(0);
        std::mem::replace(&mut self.bytes, spare)
    }

    /// Whether no frame begins in the datagram that begins here.
    fn has_only_a_rest(&self, start: usize) -> bool {
        self.bytes[start + 4..start + HEAD_BYTES] == NO_FRAME.to_be_bytes()
    }

    /// Bytes that the open datagram has room for, or a new one.
    fn room(&self) -> usize {
        self.open.map_or(self.max - HEAD_BYTES, |start| self.max - (self.bytes.len() - start))
    }

    /// Where the open datagram begins; a new one if there is none.
    fn open(&mut self) -> usize {
        if let Some(start) = self.open {
            return start;
        }
        let start = self.bytes.len();
        let [_, number @ ..] = self.number.to_be_bytes();
        self.number = (self.number + 1) % (1 << NUMBER_BITS);
        self.bytes.push(KIND);
        self.bytes.extend_from_slice(&number);
        self.bytes.extend_from_slice(&NO_FRAME.to_be_bytes());
        self.open = Some(start);
        start
    }

    fn close(&mut self) {
        if let Some(start) = self.open.take() {
            self.done.push(Piece { start, end: self.bytes.len() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(packer: &mut Packer) -> Vec<usize> {
        let mut pieces = Vec::new();
        packer.take(&mut pieces, Vec::new());
        pieces.iter().map(|piece| piece.end - piece.start).collect()
    }

    #[test]
    fn small_frames_share_a_datagram_and_none_that_fits_is_cut() {
        let mut packer = Packer::new(1200);
        for _ in 0..8 {
            packer.put(&[&[0; 3], &[0; 200]]);
        }
        // Five of 203 bytes in 1194, three in the next.
        assert_eq!(sizes(&mut packer), [6 + 5 * 203, 6 + 3 * 203]);
        assert_eq!(sizes(&mut packer), [0; 0]);
    }

    #[test]
    fn long_frames_fill_datagrams_and_do_not_begin_at_the_very_end_of_one() {
        let mut packer = Packer::new(1200);
        for _ in 0..3 {
            packer.put(&[&[0; 3], &[0; 1500]]);
        }
        // 4509 bytes in pieces of 1194.
        assert_eq!(sizes(&mut packer), [1200, 1200, 1200, 6 + 4509 - 3 * 1194]);
        packer.put(&[&[0; 1194 - 63]]);
        packer.put(&[&[0; 1500]]);
        assert_eq!(sizes(&mut packer), [1200 - 63, 1200, 6 + 1500 - 1194]);
    }

    #[test]
    fn the_rest_of_a_frame_waits_for_the_next_frames_and_whole_frames_wait_for_nothing() {
        let filled = |packer: &mut Packer| {
            let mut pieces = Vec::new();
            let bytes = packer.take_with(&mut pieces, Rest::Waits, Vec::new());
            assert_eq!(bytes.len(), pieces.last().map_or(0, |piece| piece.end));
            pieces.iter().map(|piece| piece.end - piece.start).collect::<Vec<usize>>()
        };
        let mut packer = Packer::new(1200);
        packer.put(&[&[1; 1500]]);
        assert_eq!(filled(&mut packer), [1200]);
        assert_eq!((packer.len(), filled(&mut packer)), (6 + 306, vec![]));
        packer.put(&[&[2; 1500]]);
        // 306 bytes of the first and 888 of the second, of which 612 are left.
        assert_eq!(filled(&mut packer), [1200]);
        packer.put(&[&[3; 100]]);
        let mut pieces = Vec::new();
        let last = packer.take_with(&mut pieces, Rest::Waits, Vec::new());
        assert_eq!((last.len(), &last[..6]), (6 + 612 + 100, &b"\x01\0\0\x02\x02\x64"[..]));
        assert!(packer.is_empty());
    }

    #[test]
    fn datagrams_say_their_number_and_where_the_first_frame_begins() {
        let mut packer = Packer::new(1200);
        packer.number = (1 << NUMBER_BITS) - 1;
        packer.put(&[&[9; 3000]]);
        packer.put(&[&[8; 100]]);
        let mut pieces = Vec::new();
        let bytes = packer.take(&mut pieces, Vec::new());
        let heads: Vec<[u8; 6]> =
            pieces.iter().map(|piece| *bytes[piece.start..].first_chunk().expect("a head")).collect();
        // The frame leaves 612 bytes to the third datagram.
        assert_eq!(heads, [*b"\x01\xff\xff\xff\0\0", *b"\x01\0\0\0\xff\xff", *b"\x01\0\0\x01\x02\x64"]);
    }
}
