//! The sending side of a lane's streams: frames into the streams that flows are lent.

use trunkline_packet::FlowKey;
use trunkline_units::Instant;

use super::{Lending, MAX_STREAMS};

/// Gathers frames for each stream. What goes to one stream at one time is one piece of memory.
#[derive(Debug)]
pub struct Framing {
    lending: Lending,
    /// What waits to be handed over, for each stream.
    pieces: Vec<Vec<u8>>,
    /// The streams for which something waits, in the order in which it came.
    order: Vec<u16>,
    len: usize,
    /// Bytes that were handed over.
    position: u64,
}

impl Framing {
    /// Without any stream; `seed` keys the hash by which flows find theirs.
    pub fn new(seed: u64) -> Self {
        Framing {
            lending: Lending::new(seed),
            pieces: vec![Vec::new(); MAX_STREAMS],
            order: Vec::new(),
            len: 0,
            position: 0,
        }
    }

    /// How many streams there are.
    pub const fn streams(&self) -> usize {
        self.lending.streams()
    }

    /// There are so many streams now, up to [`MAX_STREAMS`]: no fewer than before.
    pub fn grow(&mut self, streams: usize) {
        self.lending.grow(streams);
    }

    /// Bytes that wait to be handed over.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that were handed over.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Adds a frame of a flow, which `write` appends to what its stream has. The far end has everything that was handed over
    /// before `delivered`. Whether there is a stream.
    pub fn put(
        &mut self,
        now: Instant,
        flow: &FlowKey,
        delivered: u64,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let Some(stream) = self.lending.lend(now, flow, self.position, delivered) else { return false };
        let piece = &mut self.pieces[usize::from(stream)];
        if piece.is_empty() {
            self.order.push(stream);
        }
        let before = piece.len();
        write(piece);
        self.len += piece.len() - before;
        true
    }

    /// Takes what waits: each stream that has something, with its bytes, in the order in which the first of them came.
    pub fn take(&mut self) -> impl Iterator<Item = (u16, Vec<u8>)> {
        self.position += std::mem::take(&mut self.len) as u64;
        let Framing { order, pieces, .. } = self;
        order.drain(..).map(|stream| (stream, std::mem::take(&mut pieces[usize::from(stream)])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> FlowKey {
        let host = |last| [10, 0, 0, last].into();
        FlowKey { source: host(1), destination: host(2), protocol: 6, ports: (port, 80) }
    }

    fn put(framing: &mut Framing, port: u16, byte: u8) -> bool {
        framing.put(Instant::ZERO, &flow(port), 0, |piece| piece.extend_from_slice(&[byte; 10]))
    }

    #[test]
    fn frames_of_one_flow_are_one_piece_and_pieces_leave_in_the_order_of_their_first_frames() {
        let mut framing = Framing::new(1);
        assert!(!put(&mut framing, 1, 1) && framing.is_empty(), "there is no stream");
        framing.grow(8);
        assert!(put(&mut framing, 1, 1) && put(&mut framing, 2, 2) && put(&mut framing, 1, 3));
        assert_eq!((framing.len(), framing.position()), (30, 0));
        let pieces: Vec<(u16, Vec<u8>)> = framing.take().collect();
        assert_eq!(pieces, [(0, [[1; 10], [3; 10]].concat()), (1, vec![2; 10])]);
        assert_eq!((framing.len(), framing.position()), (0, 30));
        assert_eq!(framing.take().count(), 0);
    }
}
