//! The streams of a connection (RFC 9000 §2): bytes in order for each, of which the connection repairs what is lost.
//!
//! What a stream holds is kept at its sending end until the other end has it in order.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use trunkline_trunk::streams::MAX_STREAMS;

/// The longest head of a STREAM frame with these streams (RFC 9000 §19.8).
const HEAD_BYTES: u32 = 13;

/// Bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) stream: u16,
    pub(super) range: Range<u64>,
}

#[derive(Debug, Default)]
struct Sending {
    /// What the other end does not have in order, from this place on.
    base: u64,
    bytes: VecDeque<u8>,
    /// Up to here it has left at least once.
    sent: u64,
    /// What was lost of that, and is to leave again.
    lost: VecDeque<Range<u64>>,
    is_queued: bool,
}

impl Sending {
    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// The next bytes to leave, `max` at most: those that were lost first.
    fn take(&mut self, max: u64) -> Option<Range<u64>> {
        if let Some(lost) = self.lost.front_mut() {
            let end = lost.end.min(lost.start + max);
            let range = lost.start..end;
            lost.start = end;
            if lost.is_empty() {
                self.lost.pop_front();
            }
            return Some(range);
        }
        let range = self.sent..self.end().min(self.sent + max);
        self.sent = range.end;
        (!range.is_empty()).then_some(range)
    }
}

/// The sending end of all streams. A stream that has something to send keeps its turn until it has nothing more
/// (`send_fairness` is off in the gateway).
#[derive(Debug)]
pub(super) struct SendStreams {
    streams: Vec<Sending>,
    turns: VecDeque<u16>,
    unsent: u64,
}

impl SendStreams {
    pub(super) fn new() -> Self {
        let streams = std::iter::repeat_with(Sending::default).take(MAX_STREAMS).collect();
        SendStreams { streams, turns: VecDeque::new(), unsent: 0 }
    }

    /// Bytes that are to leave, for the first time or again.
    pub(super) const fn unsent(&self) -> u64 {
        self.unsent
    }

    pub(super) fn write(&mut self, stream: u16, bytes: &[u8]) {
        self.unsent += bytes.len() as u64;
        self.streams[usize::from(stream)].bytes.extend(bytes);
        self.queue(stream);
    }

    /// This was lost on the way.
    pub(super) fn retransmit(&mut self, chunk: Chunk) {
        self.unsent += chunk.range.end - chunk.range.start;
        self.streams[usize::from(chunk.stream)].lost.push_back(chunk.range);
        self.queue(chunk.stream);
    }

    fn queue(&mut self, stream: u16) {
        if !std::mem::replace(&mut self.streams[usize::from(stream)].is_queued, true) {
            self.turns.push_back(stream);
        }
    }

    /// What leaves in a packet with so much room, and how many bytes of the packet it takes.
    pub(super) fn take(&mut self, room: u32) -> (Vec<Chunk>, u32) {
        let (mut chunks, mut taken) = (Vec::new(), 0);
        while let Some(stream) = self.turns.front().copied() {
            let Some(max) = (room - taken).checked_sub(HEAD_BYTES).filter(|max| *max > 0) else { break };
            let sending = &mut self.streams[usize::from(stream)];
            let Some(range) = sending.take(max.into()) else {
                sending.is_queued = false;
                self.turns.pop_front();
                continue;
            };
            let bytes = range.end - range.start;
            self.unsent -= bytes;
            taken += HEAD_BYTES + bytes as u32;
            chunks.push(Chunk { stream, range });
        }
        (chunks, taken)
    }

    /// The other end has everything before `end` of a stream in order: what of that it had not.
    pub(super) fn read(&mut self, stream: u16, end: u64) -> Vec<u8> {
        let sending = &mut self.streams[usize::from(stream)];
        let bytes = end.saturating_sub(sending.base);
        sending.base += bytes;
        sending.bytes.drain(..bytes as usize).collect()
    }
}

/// What the receiving end has of a stream.
#[derive(Debug, Default, Clone)]
pub(super) struct Received {
    /// It has everything before this.
    end: u64,
    /// Stretches behind that which it has, apart from each other: from start to end.
    ahead: BTreeMap<u64, u64>,
}

impl Received {
    /// Takes what has come. Where the bytes in order end now, if they end elsewhere than before.
    pub(super) fn handle(&mut self, range: &Range<u64>) -> Option<u64> {
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&from, &to)) = self.ahead.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.ahead.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        if start > self.end {
            self.ahead.insert(start, end);
            return None;
        }
        (end > self.end).then(|| {
            self.end = end;
            end
        })
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;

    #[test]
    fn a_packet_is_filled_from_streams_in_turn_and_what_was_lost_of_one_precedes_the_rest_of_it() {
        let mut streams = SendStreams::new();
        streams.write(0, &[1; 1000]);
        streams.write(1, &[2; 3000]);
        let (first, bytes) = streams.take(1400);
        assert_eq!(bytes, 1400);
        let lost = Chunk { stream: 1, range: 0..374 };
        assert_eq!(first, [Chunk { stream: 0, range: 0..1000 }, lost.clone()]);
        assert_eq!(streams.unsent(), 2626);
        streams.retransmit(lost.clone());
        assert_eq!(streams.unsent(), 3000);
        let (second, _) = streams.take(1400);
        assert_eq!(second, [lost, Chunk { stream: 1, range: 374..1374 }]);
        assert_eq!(streams.take(HEAD_BYTES).0, []);
        while !streams.take(1400).0.is_empty() {}
        assert_eq!((streams.unsent(), streams.turns.len()), (0, 0));
    }

    /// Whatever is lost and overtaken: each stream is read in order, once, as it was written.
    #[test]
    fn streams_are_whole_and_in_order_over_a_path_that_loses_and_reorders() {
        let mut rng = Rng::new(4, "streams");
        let mut sender = SendStreams::new();
        let mut receiver = vec![Received::default(); 3];
        let (mut written, mut read) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
        let mut on_the_way: Vec<Chunk> = Vec::new();
        for step in 0..20_000 {
            if step < 10_000 && rng.below(3) == 0 {
                let stream = rng.below(3) as u16;
                let bytes: Vec<u8> = (0..=rng.below(2000)).map(|_| rng.below(256) as u8).collect();
                sender.write(stream, &bytes);
                written[usize::from(stream)].extend(bytes);
            }
            on_the_way.extend(sender.take(1400).0);
            if !on_the_way.is_empty() && rng.below(2) == 0 || on_the_way.len() > 20 {
                let chunk = on_the_way.swap_remove(rng.below(on_the_way.len() as u64) as usize);
                if rng.below(5) == 0 {
                    sender.retransmit(chunk.clone());
                }
                // One may be taken for lost and come all the same.
                if rng.below(5) > 0 {
                    let stream = usize::from(chunk.stream);
                    if let Some(end) = receiver[stream].handle(&chunk.range) {
                        read[stream].extend(sender.read(chunk.stream, end));
                    }
                } else {
                    sender.retransmit(chunk);
                }
            }
        }
        assert!(written.iter().all(|bytes| bytes.len() > 500_000) && read == written);
        assert!(receiver.iter().all(|received| received.ahead.is_empty()));
    }
}
