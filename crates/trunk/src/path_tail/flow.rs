//! What the end that faces the network acknowledges, when the tail of its connection is emulated (bosau2004 §3).
//!
//! That end is a TCP of the owner's: the kernel's, or the simulator's. It acknowledges at once what it takes. What goes to the network
//! acknowledges at most what [`PathTail`] has released, in a window that ends where its own does, unless the emulated link bounds
//! windows. Its plain acknowledgements that say nothing new stay here, since one that is due later takes the newest window along.
//!
//! No more is ever acknowledged than that end has acknowledged: what it has refused would be lost. A FIN is not acknowledged before the
//! host behind has everything ([`TailFlow::handle_delivered`]). From then on that end speaks for itself.

use trunkline_units::{Instant, Seq};

use super::{Arrival, FlowId, PathTail, SegmentAction};

/// What the end that faces the network has said in its SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The shift of its windows, if it offers one.
    pub shift: Option<u8>,
    /// The window, which is not shifted.
    pub window: u16,
    /// The sequence number behind the SYN.
    pub front: Seq,
}

/// A segment of that end which is no SYN, acknowledges something and resets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnSegment {
    /// Its sequence number.
    pub seq: Seq,
    /// The sequence numbers that it takes, that of a FIN too.
    pub len: u32,
    /// What it acknowledges.
    pub ack: Seq,
    /// Its window, as it is written.
    pub window: u16,
}

/// What goes to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Its sequence number.
    pub seq: Seq,
    /// What it acknowledges.
    pub ack: Seq,
    /// Its window, as it is written.
    pub window: u16,
}

/// A connection whose tail is emulated, from the SYN of the network on.
#[derive(Debug)]
pub struct TailFlow {
    id: FlowId,
    first: Seq,
    /// The network's SYN offered a shift.
    scales: bool,
    /// Of the windows that are offered to the network.
    shift: u8,
    /// What may be acknowledged, by the emulation.
    due: Seq,
    /// What the end that faces the network has acknowledged, and up to where its window reaches.
    own: Option<(Seq, Seq)>,
    /// What has been acknowledged to the network.
    sent: Seq,
    /// Behind the last byte that the own end has sent.
    front: Option<Seq>,
    has_fin: bool,
    is_delivered: bool,
}

impl TailFlow {
    /// A flow of the emulation, whose first byte is `first`. `scales`: the network's SYN offered a shift.
    pub const fn new(id: FlowId, first: Seq, scales: bool) -> Self {
        TailFlow {
            id,
            first,
            scales,
            shift: 0,
            due: first,
            own: None,
            sent: first,
            front: None,
            has_fin: false,
            is_delivered: false,
        }
    }

    /// The flow of the emulation.
    pub const fn id(&self) -> FlowId {
        self.id
    }

    /// Its first byte.
    pub const fn first(&self) -> Seq {
        self.first
    }

    /// Whether the host behind has everything, the close included.
    pub const fn is_delivered(&self) -> bool {
        self.is_delivered
    }

    /// The SYN of the own end, before the network's or after it. Shifts hold if both ends have offered one.
    pub fn handle_offer(&mut self, emulation: &mut PathTail, offer: Offer) {
        self.shift = if self.scales { offer.shift.unwrap_or(0) } else { 0 };
        self.front = Some(offer.front);
        emulation.handle_offered(self.id, self.first + u32::from(offer.window));
    }

    /// Judges a segment from the network. One that is accepted goes to the own end.
    pub fn handle_segment(
        &mut self,
        emulation: &mut PathTail,
        now: Instant,
        segment: Arrival,
    ) -> SegmentAction {
        let mut action = SegmentAction::Forward;
        if segment.seq != segment.end {
            // The FIN's own place is not the emulation's affair.
            action = emulation.handle_segment(now, self.id, Arrival { fin: false, ..segment });
        }
        if !matches!(action, SegmentAction::Drop(_) | SegmentAction::OutOfWindow(_)) {
            self.has_fin |= segment.fin;
        }
        action
    }

    /// A segment of the own end, and what goes in its place; `None` if it stays here. `is_answer`: it may be but the answer to a segment
    /// that was judged.
    pub fn handle_own(
        &mut self,
        emulation: &mut PathTail,
        segment: OwnSegment,
        is_answer: bool,
    ) -> Option<Acknowledgement> {
        let OwnSegment { seq, len, ack, window } = segment;
        self.own = Some((ack, ack + (u32::from(window) << self.shift)));
        let end = seq + len;
        if self.front.is_none_or(|front| front.before(end)) {
            self.front = Some(end);
        }
        let ack = self.allowed();
        let is_held = is_answer || emulation.is_waiting(self.id);
        if len == 0 && ack == self.sent && is_held && !self.is_delivered {
            return None;
        }
        Some(self.send(emulation, seq, ack))
    }

    /// An acknowledgement is due. What goes to the network: nothing if the own end is behind, whose own will leave at once.
    pub fn handle_release(&mut self, emulation: &mut PathTail, ack: Seq) -> Option<Acknowledgement> {
        self.due = ack;
        (self.allowed() == ack).then(|| self.acknowledge(emulation)).flatten()
    }

    /// The host behind has acknowledged everything, the close included. What goes to the network now, if anything.
    pub fn handle_delivered(&mut self, emulation: &mut PathTail) -> Option<Acknowledgement> {
        self.is_delivered = true;
        self.acknowledge(emulation)
    }

    /// An acknowledgement of what may be acknowledged; `None` before the own end has sent any.
    pub fn acknowledge(&mut self, emulation: &mut PathTail) -> Option<Acknowledgement> {
        let (_, seq) = (self.own?, self.front?);
        let ack = self.allowed();
        Some(self.send(emulation, seq, ack))
    }

    fn send(&mut self, emulation: &mut PathTail, seq: Seq, ack: Seq) -> Acknowledgement {
        self.sent = ack;
        Acknowledgement { seq, ack, window: self.window(emulation, ack) }
    }

    /// What may be acknowledged now. It never goes back.
    fn allowed(&self) -> Seq {
        let Some((own, _)) = self.own else { return self.sent };
        let ack = if self.has_fin && self.is_delivered || own.before(self.due) { own } else { self.due };
        if self.sent.before(ack) { ack } else { self.sent }
    }

    fn window(&self, emulation: &mut PathTail, ack: Seq) -> u16 {
        let edge = self.own.map_or(ack, |(_, edge)| edge);
        let edge = if self.is_delivered { edge } else { emulation.offer(self.id, ack, edge) };
        let room = if ack.before(edge) { edge - ack } else { 0 };
        (room >> self.shift).min(u32::from(u16::MAX)) as u16
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trunkline_units::Rate;

    use super::super::{Estimate, Limit};
    use super::*;

    const FIRST: Seq = Seq(u32::MAX - 1500);
    const FRONT: Seq = Seq(700);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A flow on a link that takes 10 ms for a segment of 1250 bytes, and what the own end has of the stream. Windows are 4000 bytes.
    struct Harness {
        emulation: PathTail,
        flow: TailFlow,
    }

    impl Harness {
        fn new() -> Self {
            let mut emulation = PathTail::new();
            let estimate = Estimate { rate: Rate::from_mbit(1.0), recovery: Duration::ZERO };
            let cell = emulation.add_cell(estimate, Limit { segments: 100, bytes: 1 << 20 });
            let mut flow = TailFlow::new(emulation.open(cell, FIRST), FIRST, true);
            flow.handle_offer(&mut emulation, Offer { shift: Some(2), window: 4000, front: FRONT });
            Harness { emulation, flow }
        }

        /// A segment of 1000 bytes at this offset.
        fn segment(&mut self, ms: u64, offset: u32, fin: bool) -> SegmentAction {
            let seq = FIRST + offset;
            let arrival = Arrival { seq, end: seq + 1000, bytes: 1250, fin };
            self.flow.handle_segment(&mut self.emulation, at(ms), arrival)
        }

        /// The own end acknowledges so many bytes. What goes out in its place.
        fn own(&mut self, bytes: u32, len: u32, is_answer: bool) -> Option<(u32, u16)> {
            let own = OwnSegment { seq: FRONT, len, ack: FIRST + bytes, window: 1000 };
            let sent = self.flow.handle_own(&mut self.emulation, own, is_answer)?;
            Some((sent.ack - FIRST, sent.window))
        }

        fn release(&mut self, ms: u64) -> Option<(u32, u16)> {
            let release = self.emulation.poll_release(at(ms))?;
            let sent = self.flow.handle_release(&mut self.emulation, release.ack)?;
            assert_eq!(sent.seq, FRONT);
            Some((sent.ack - FIRST, sent.window))
        }
    }

    #[test]
    fn what_is_acknowledged_is_what_the_link_has_sent_and_the_own_end_has_taken() {
        let mut it = Harness::new();
        assert_eq!(it.segment(0, 0, false), SegmentAction::Accept);
        assert_eq!(it.segment(0, 1000, false), SegmentAction::Accept);
        assert_eq!(it.own(1000, 0, true), None, "its time has not come");
        assert_eq!(it.release(10), Some((1000, 1000)));
        assert_eq!(it.release(20), None, "the own end has not taken it");
        assert_eq!(it.own(2000, 0, true), Some((2000, 1000)), "now it has");
        assert_eq!(it.own(2000, 0, false), Some((2000, 1000)), "nothing waits");
        assert_eq!(it.own(2000, 0, true), None, "the answer to a segment that was there already");
    }

    #[test]
    fn what_carries_data_or_comes_when_something_waits_takes_what_is_due_and_the_newest_window() {
        let mut it = Harness::new();
        it.segment(0, 0, false);
        it.segment(0, 1000, false);
        assert_eq!(it.own(2000, 0, true), None);
        // The edge stays where the own end has put it: 1000 units of four bytes behind byte 2000.
        let own = OwnSegment { seq: FRONT, len: 500, ack: FIRST + 2000, window: 1000 };
        let sent = it.flow.handle_own(&mut it.emulation, own, false).expect("it has data");
        assert_eq!((sent.ack - FIRST, sent.window), (0, 1500));
        assert_eq!(it.own(2000, 0, false), None, "what is due later takes the window along");
        let release = it.emulation.poll_release(at(10)).expect("it is due");
        let sent = it.flow.handle_release(&mut it.emulation, release.ack).expect("the own end has it");
        assert_eq!((sent.seq, sent.ack - FIRST, sent.window), (FRONT + 500, 1000, 1250));
    }

    #[test]
    fn a_close_is_acknowledged_when_the_host_behind_has_everything() {
        let mut it = Harness::new();
        assert_eq!(it.segment(0, 0, true), SegmentAction::Accept);
        assert_eq!(it.own(1001, 0, true), None);
        assert_eq!(it.release(10), Some((1000, 1000)), "all but the close");
        assert_eq!(it.own(1001, 0, false), Some((1000, 1000)));
        let sent = it.flow.handle_delivered(&mut it.emulation).expect("the close");
        assert_eq!((sent.ack - FIRST, sent.window), (1001, 1000));
        assert_eq!(it.own(1001, 0, true), Some((1001, 1000)), "it speaks for itself");
    }

    #[test]
    fn a_segment_that_is_dropped_closes_nothing() {
        let mut it = Harness::new();
        assert!(matches!(it.segment(0, 1 << 20, true), SegmentAction::OutOfWindow(_)));
        it.segment(0, 0, false);
        it.own(1000, 0, true);
        assert_eq!(it.flow.handle_delivered(&mut it.emulation).map(|sent| sent.ack), Some(FIRST));
    }
}
