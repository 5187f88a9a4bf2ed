//! The receiving side: datagrams into frames.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_units::Instant;

use super::{DatagramError, HEAD_BYTES, KIND, NO_FRAME, NUMBER_BITS};
use crate::frame::Frame;

/// Pieces of a cut frame wait for numbers that are no further away than this.
const MAX_NUMBERS: u64 = 128;
/// The maximum of bytes that wait. The longest frame has a quarter of it.
const MAX_BYTES: usize = 256 << 10;
/// How long a piece waits at least for its rest, however short the path's round trip is.
const MIN_WAIT: Duration = Duration::from_millis(10);

/// Counts of a reassembler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReassemblerStats {
    /// Datagrams that came.
    pub datagrams: u64,
    /// Numbers that did not come before one 128 higher, or not yet.
    pub missing: u64,
    /// Frames that came in pieces and were put together.
    pub reassembled: u64,
    /// Pieces of frames that were dropped: their rest did not come in time, or came too late.
    pub dropped: u64,
}

/// What is kept of a datagram: pieces of frames that are not complete.
#[derive(Debug)]
struct Kept {
    at: Instant,
    /// The rest of a frame that began before; empty if the first frame begins at once.
    front: Vec<u8>,
    /// No frame begins here, so the front goes on in the next datagram if the frame is longer.
    through: bool,
    /// The start of a frame that goes on in the next datagram.
    tail: Vec<u8>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.front.len() + self.tail.len()
    }
}

/// A frame whose pieces have come in order so far, the usual case: they are put together as they come.
#[derive(Debug)]
struct Open {
    at: Instant,
    /// The datagram in which it begins, and the one in which it goes on.
    first: u64,
    next: u64,
    /// Its length.
    need: usize,
    bytes: Vec<u8>,
    /// Where its pieces end in `bytes`.
    ends: Vec<usize>,
}

/// Takes datagrams, and gives frames. Each datagram must be given at most once.
#[derive(Debug)]
pub struct Reassembler {
    wait: Duration,
    /// The highest number that came. Numbers are counted on beyond their bits.
    highest: Option<u64>,
    kept: BTreeMap<u64, Kept>,
    kept_bytes: usize,
    open: Option<Open>,
    /// The memory of the last one.
    spare: (Vec<u8>, Vec<usize>),
    frame: Vec<u8>,
    stats: ReassemblerStats,
}

impl Default for Reassembler {
    fn default() -> Self {
        Reassembler {
            wait: MIN_WAIT,
            highest: None,
            kept: BTreeMap::new(),
            kept_bytes: 0,
            open: None,
            spare: (Vec::new(), Vec::new()),
            frame: Vec::new(),
            stats: ReassemblerStats::default(),
        }
    }
}

impl Reassembler {
    /// Sets how long a piece waits for its rest: a round trip, and 10 ms at least.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.wait = round_trip.max(MIN_WAIT);
    }

    /// What it has done so far.
    pub const fn stats(&self) -> &ReassemblerStats {
        &self.stats
    }

    /// Bytes that wait for the rest of their frames.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes + self.open.as_ref().map_or(0, |open| open.bytes.len())
    }

    /// Takes a datagram, and calls `each` with every frame that it completes, and the bytes behind the frame's head.
    ///
    /// # Errors
    /// The datagram is not of this format: the frames before the mistake have been passed on. What `each` returns ends the
    /// datagram too.
    pub fn handle_datagram<E: From<DatagramError>>(
        &mut self,
        now: Instant,
        datagram: &[u8],
        mut each: impl FnMut(Frame, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((head, content)) = datagram.split_first_chunk::<HEAD_BYTES>() else {
            return Err(DatagramError::TooShort { length: datagram.len() }.into());
        };
        // Other kinds are for other versions.
        if head[0] != KIND {
            return Ok(());
        }
        let number = self.count(u32::from_be_bytes([0, head[1], head[2], head[3]]));
        let first = u16::from_be_bytes([head[4], head[5]]);
        let through = first == NO_FRAME;
        let (front, frames) = if through {
            (content, &[][..])
        } else {
            let length = content.len();
            content
                .split_at_checked(usize::from(first))
                .ok_or(DatagramError::FirstBeyondEnd { first: usize::from(first), length })?
        };
        self.forget_old(now);
        if !front.is_empty() {
            if self.open.as_ref().is_some_and(|open| open.next == number) {
                self.go_on(front, through, &mut each)?;
            } else {
                self.spill();
                self.keep(number, Kept { at: now, front: front.to_vec(), through, tail: Vec::new() });
                self.complete(number, &mut each)?;
            }
        }
        let tail = pass_on(frames, &mut each)?;
        if !tail.is_empty() {
            self.spill();
            if self.kept.contains_key(&number) || self.kept.contains_key(&(number + 1)) {
                self.keep_tail(now, number, tail);
                self.complete(number, &mut each)?;
            } else {
                self.begin(now, number, tail)?;
            }
        }
        Ok(())
    }

    /// Begins a frame that goes on in the next datagram.
    fn begin(&mut self, now: Instant, number: u64, tail: &[u8]) -> Result<(), DatagramError> {
        let need = frame_len(tail)?;
        let (mut bytes, mut ends) = std::mem::take(&mut self.spare);
        bytes.clear();
        bytes.extend_from_slice(tail);
        ends.clear();
        ends.push(tail.len());
        self.open = Some(Open { at: now, first: number, next: number + 1, need, bytes, ends });
        Ok(())
    }

    /// Adds the next piece to the open frame, and passes it on if it is the last.
    fn go_on<E: From<DatagramError>>(
        &mut self,
        piece: &[u8],
        through: bool,
        each: &mut impl FnMut(Frame, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.bytes.extend_from_slice(piece);
        open.ends.push(open.bytes.len());
        open.next += 1;
        let (need, have) = (open.need, open.bytes.len());
        // A frame may end with the datagram's last byte, and then none begins in it.
        if through && have < need {
            self.open = Some(open);
            return Ok(());
        }
        let result = if need == have {
            self.stats.reassembled += 1;
            pass_on(&open.bytes, each).map(|_| ())
        } else {
            Err(DatagramError::Mismatch { need, have }.into())
        };
        self.spare = (open.bytes, open.ends);
        result
    }

    /// The pieces of the open frame wait like those that came out of order.
    fn spill(&mut self) {
        let Some(Open { at, first, bytes, ends, .. }) = self.open.take() else { return };
        self.keep_tail(at, first, &bytes[..ends[0]]);
        for (number, ends) in (first + 1..).zip(ends.windows(2)) {
            let front = bytes[ends[0]..ends[1]].to_vec();
            self.keep(number, Kept { at, front, through: true, tail: Vec::new() });
        }
        self.spare = (bytes, ends);
    }

    /// Keeps the start of a frame.
    fn keep_tail(&mut self, at: Instant, number: u64, tail: &[u8]) {
        if let Some(kept) = self.kept.get_mut(&number) {
            kept.tail = tail.to_vec();
            self.kept_bytes += tail.len();
        } else {
            self.keep(number, Kept { at, front: Vec::new(), through: false, tail: tail.to_vec() });
        }
    }

    /// The number in full of a datagram: the one that is nearest to the highest.
    fn count(&mut self, number: u32) -> u64 {
        self.stats.datagrams += 1;
        let Some(highest) = self.highest else {
            // There is room below for those that come late.
            let number = (1 << NUMBER_BITS) + u64::from(number);
            self.highest = Some(number);
            return number;
        };
        let unused = u32::BITS - NUMBER_BITS;
        let ahead = ((number.wrapping_sub(highest as u32)) << unused).cast_signed() >> unused;
        let number = highest.saturating_add_signed(i64::from(ahead));
        if ahead > 0 {
            self.stats.missing += u64::from(ahead.unsigned_abs()) - 1;
            self.highest = Some(number);
        } else {
            self.stats.missing = self.stats.missing.saturating_sub(1);
        }
        number
    }

    fn keep(&mut self, number: u64, kept: Kept) {
        // Its neighbours are no longer kept.
        if self.highest.is_some_and(|highest| number + MAX_NUMBERS <= highest) {
            self.stats.dropped += 1;
            return;
        }
        self.kept_bytes += kept.bytes();
        if let Some(old) = self.kept.insert(number, kept) {
            self.kept_bytes -= old.bytes();
        }
        while self.kept_bytes() > MAX_BYTES && !self.kept.is_empty() {
            self.forget_first();
        }
    }

    fn forget_old(&mut self, now: Instant) {
        let highest = self.highest.unwrap_or_default();
        let wait = self.wait;
        let is_old =
            |open: &mut Open| open.first + MAX_NUMBERS <= highest || now.saturating_since(open.at) > wait;
        if let Some(open) = self.open.take_if(is_old) {
            self.stats.dropped += open.ends.len() as u64;
            self.spare = (open.bytes, open.ends);
        }
        while let Some((number, kept)) = self.kept.first_key_value()
            && (number + MAX_NUMBERS <= highest || now.saturating_since(kept.at) > self.wait)
        {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, kept)) = self.kept.pop_first() {
            self.kept_bytes -= kept.bytes();
            self.stats.dropped += u64::from(!kept.front.is_empty()) + u64::from(!kept.tail.is_empty());
        }
    }

    /// Puts together the frame that has a piece in this datagram, if all of its pieces are there: the one that ends or goes
    /// through here, else the one that begins here.
    fn complete<E: From<DatagramError>>(
        &mut self,
        number: u64,
        each: &mut impl FnMut(Frame, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(kept) = self.kept.get(&number) else { return Ok(()) };
        let start = if kept.tail.is_empty() { self.start_before(number) } else { Some(number) };
        let Some(start) = start else { return Ok(()) };
        let Some(end) = self.end_behind(start) else { return Ok(()) };
        self.frame.clear();
        for number in start..=end {
            let Some(kept) = self.kept.get_mut(&number) else { return Ok(()) };
            let piece = if number == start { &mut kept.tail } else { &mut kept.front };
            let piece = std::mem::take(piece);
            self.kept_bytes -= piece.len();
            self.frame.extend_from_slice(&piece);
            if kept.front.is_empty() && kept.tail.is_empty() {
                self.kept.remove(&number);
            }
        }
        let need = frame_len(&self.frame)?;
        let have = self.frame.len();
        if need != have {
            return Err(DatagramError::Mismatch { need, have }.into());
        }
        self.stats.reassembled += 1;
        pass_on(&self.frame, each).map(|_| ())
    }

    /// Where the frame begins that has a piece at the front of this datagram.
    fn start_before(&self, number: u64) -> Option<u64> {
        let before = |number: &u64| self.kept.get(number);
        let start = (0..number).rev().find(|number| !before(number).is_some_and(|kept| kept.through))?;
        before(&start).filter(|kept| !kept.tail.is_empty()).map(|_| start)
    }

    /// Where the frame ends that begins in this datagram, if all of its pieces are there.
    fn end_behind(&self, start: u64) -> Option<u64> {
        let tail = &self.kept.get(&start)?.tail;
        let need = frame_len(tail).ok()?;
        let mut have = tail.len();
        for number in start + 1.. {
            let kept = self.kept.get(&number)?;
            have += kept.front.len();
            // A frame may end with the datagram's last byte, and then none begins in it.
            if !kept.through || have >= need {
                return Some(number);
            }
        }
        None
    }
}

/// Bytes of the frame that begins here, its head included.
fn frame_len(bytes: &[u8]) -> Result<usize, DatagramError> {
    match Frame::decode(bytes)? {
        Some((frame, head_len)) if frame.stands_alone() => Ok(head_len + frame.content_len()),
        Some(_) => Err(DatagramError::Dependent),
        None => Err(DatagramError::CutHead { have: bytes.len() }),
    }
}

/// Passes on the frames that are complete, and gives what is left: the start of one that is not.
fn pass_on<'b, E: From<DatagramError>>(
    mut bytes: &'b [u8],
    each: &mut impl FnMut(Frame, &[u8]) -> Result<(), E>,
) -> Result<&'b [u8], E> {
    while !bytes.is_empty() {
        let need = frame_len(bytes)?;
        let Some((frame, rest)) = bytes.split_at_checked(need) else { break };
        if let Ok(Some((head, head_len))) = Frame::decode(frame) {
            each(head, &frame[head_len..])?;
        }
        bytes = rest;
    }
    Ok(bytes)
}
