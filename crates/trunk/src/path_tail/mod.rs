//! Path tail emulation (bosau2004 §3): a proxy at the gateway to a mobile network acknowledges as the network would if
//! it were a wired link.
//!
//! A segment that arrives is either accepted or dropped in silence, as by the queue in front of such a link; if it is
//! accepted, its acknowledgement is due D = `L_q` + `L_s` later, when the link would have sent it: `L_s` is its length at
//! the operator's rate, `L_q` the time that those before it take. So the sender's window, and the pace of its
//! acknowledgements, are those of a path that ends in a link of that rate, and the radio's delays are hidden from it.
//!
//! There is an emulation for each cell, which the flows in it share, and one for each flow whose profile has a rate of
//! its own. Acknowledgements are the proxy's only while a connection is established: from its FIN on, the mobile host
//! alone acknowledges, so that a close that succeeds says that everything has arrived.
//!
//! What a host cannot take is not its cell's. A segment beyond the window that its sender was offered is dropped before it takes time on
//! the emulated link ([`PathTail::offer`]), and what waits for a host that has no room, or does not answer, says nothing of the network
//! ([`Backlog`]). On a link that bounds windows a flow's part is bounded by its own window, and one whose host takes nothing has none
//! ([`PathTail::set_host`]).
//!
//! The owner keeps the data and delivers it, and asks about a segment only if it has room for it. `now` does not go
//! backwards.

mod accepted;
mod backlog;
mod clamp;
mod emulation;
mod flow;
mod follower;
mod meter;
mod offered;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use trunkline_units::{Instant, Seq};

use accepted::Accepted;
pub use backlog::{Backlog, HostState};
pub use clamp::WindowClamp;
use emulation::Emulation;
pub use emulation::{Estimate, Limit};
pub use flow::{Acknowledgement, Offer, OwnSegment, TailFlow};
pub use follower::{CellLink, Follower, Totals};
pub use meter::{RateMeter, Reading};
use offered::OfferedEdge;

/// The least window, bytes: what a sender begins with (RFC 6928).
const MIN_WINDOW: u64 = 14_600;

/// A cell, or the profile of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId(u32);

/// A flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u32);

/// A segment from the wired side.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Its first byte.
    pub seq: Seq,
    /// The one after its last byte of data.
    pub end: Seq,
    /// Its length on the link, headers included, bytes.
    pub bytes: u32,
    /// It closes its direction.
    pub fin: bool,
}

/// What the proxy does with a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentAction {
    /// Keep it and deliver it. [`PathTail::poll_release`] gives its acknowledgement.
    Accept,
    /// Drop it without an answer.
    Drop(DropReason),
    /// It begins beyond the window that was offered. Drop it; if there is an acknowledgement number, acknowledge that at once, since it
    /// may probe the window (RFC 9293 §3.8.6.1).
    OutOfWindow(Option<Seq>),
    /// All of it was accepted before. Deliver nothing; if there is an acknowledgement number, acknowledge it at once.
    Duplicate(Option<Seq>),
    /// Forward it to the mobile host, and forward that host's acknowledgements: the proxy does not act for this flow.
    Forward,
}

/// Why a segment was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The emulated link's queue is full.
    QueueFull,
    /// Its flow has more on the emulated link than its window and as much for headers.
    ShareFull,
    /// It would make more gaps in the stream than the proxy keeps.
    TooManyGaps,
}

/// An acknowledgement that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Of which flow.
    pub flow: FlowId,
    /// The next byte wanted. The same as the last one's: a segment behind a gap.
    pub ack: Seq,
    /// When it was due.
    pub at: Instant,
}

#[derive(Debug)]
struct Flow {
    cell: CellId,
    /// The cell is this flow's alone.
    alone: bool,
    accepted: Accepted,
    /// The highest acknowledgement released.
    released: Seq,
    /// Acknowledgements that are still to be released.
    waiting: u32,
    /// Bytes on the emulated link that they wait for.
    charged: u64,
    offered: OfferedEdge,
    host: HostState,
    established: bool,
}

impl Flow {
    /// What a segment is answered with of which nothing is to be kept. If an acknowledgement is on its way, it says the same.
    fn answer(&self, end: Seq) -> Option<Seq> {
        (self.waiting == 0 || !self.released.before(end)).then_some(self.released)
    }

    /// Bytes that it may have on a link that bounds windows. A window of short segments may have as many headers as data.
    fn max_charge(&self) -> u64 {
        2 * self.offered.room_from(self.released) + MIN_WINDOW
    }
}

/// The emulations of one gateway.
///
/// After each call, [`PathTail::next_release`] says when to come back; then [`PathTail::poll_release`] until it gives
/// `None`: in the order in which they are due, and of those due at once the one of the older cell first.
#[derive(Debug, Default)]
pub struct PathTail {
    cells: BTreeMap<CellId, Emulation>,
    flows: BTreeMap<FlowId, Flow>,
    /// The head of each queue that has one.
    due: BTreeSet<(Instant, CellId)>,
    /// Acknowledgements that waited for no link.
    at_once: VecDeque<Release>,
    next_id: u32,
}

impl PathTail {
    /// Without cells.
    pub fn new() -> Self {
        PathTail::default()
    }

    /// Adds a cell that flows share.
    pub fn add_cell(&mut self, estimate: Estimate, limit: Limit) -> CellId {
        let cell = CellId(self.id());
        self.cells.insert(cell, Emulation::new(estimate, limit));
        cell
    }

    /// Adds a cell with this link.
    ///
    /// A link whose rate is measured bounds [windows](PathTail::window) and drops nothing within them: its rate changes under the senders,
    /// and what they have sent at the rate before may exceed its limit by thousands of segments, of which a sender without SACK repairs one in a
    /// round trip while the hosts behind wait for it.
    pub fn add_link(&mut self, link: &CellLink) -> CellId {
        let (estimate, limit) = link.initial();
        let cell = self.add_cell(estimate, limit);
        if link.estimate.is_none()
            && let Some(emulation) = self.cells.get_mut(&cell)
        {
            emulation.bounds_windows = true;
        }
        cell
    }

    /// A segment with `ack` is to be sent to the sender of a flow, and the receiver has room up to `edge`. Where the window is to end: there,
    /// or before it on a link that bounds windows. What begins beyond the end is [`SegmentAction::OutOfWindow`].
    pub fn offer(&mut self, id: FlowId, ack: Seq, edge: Seq) -> Seq {
        let bytes = self.window(id);
        self.flows.get_mut(&id).map_or(edge, |flow| flow.offered.bound(ack, edge, bytes))
    }

    /// A window that ends at `edge` has gone to the sender of a flow as it was: that of a SYN.
    pub fn handle_offered(&mut self, id: FlowId, edge: Seq) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.offered.extend(edge);
        }
    }

    /// What the host of a flow does. While it takes nothing, its sender does not go at the pace of a link that bounds windows, which the
    /// others share: acknowledgements are due at once, and end where the proxy has no more room.
    pub fn set_host(&mut self, flow: FlowId, host: HostState) {
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.host = host;
        }
    }

    /// Bytes of window that the sender of a flow is to be offered; `None` where the emulated link drops what is too much. Flows for which
    /// something waits share what the link holds.
    pub fn window(&self, flow: FlowId) -> Option<u64> {
        let flow = self.flows.get(&flow)?;
        let emulation = self.cells.get(&flow.cell).filter(|emulation| emulation.bounds_windows)?;
        let active = emulation.active + u32::from(flow.waiting == 0);
        Some((emulation.limit().bytes / u64::from(active.max(1))).max(MIN_WINDOW))
    }

    /// Begins a flow in a cell, once its connection is established; `first` is the first byte of data.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn open(&mut self, cell: CellId, first: Seq) -> FlowId {
        assert!(self.cells.contains_key(&cell), "{cell:?} does not exist");
        self.insert(cell, false, first)
    }

    /// Begins a flow whose profile has a rate of its own.
    pub fn open_with_profile(&mut self, estimate: Estimate, limit: Limit, first: Seq) -> FlowId {
        let cell = self.add_cell(estimate, limit);
        self.insert(cell, true, first)
    }

    /// The cell or profile that a flow is in.
    pub fn cell(&self, flow: FlowId) -> Option<CellId> {
        self.flows.get(&flow).map(|flow| flow.cell)
    }

    /// The flow's host has gone to another cell. Acknowledgements that are waiting stay where they are, and so do
    /// flows with a profile.
    pub fn move_to(&mut self, flow: FlowId, cell: CellId) {
        if let Some(flow) = self.flows.get_mut(&flow).filter(|flow| !flow.alone)
            && self.cells.contains_key(&cell)
        {
            let before = std::mem::replace(&mut flow.cell, cell);
            if flow.waiting > 0 {
                self.count_active(before, -1);
                self.count_active(cell, 1);
            }
        }
    }

    /// The operator has another estimate for a cell or a profile.
    pub fn set_estimate(&mut self, now: Instant, cell: CellId, estimate: Estimate) {
        if let Some(emulation) = self.cells.get_mut(&cell) {
            let head = emulation.head();
            emulation.set_estimate(now, estimate);
            self.reschedule(cell, head);
        }
    }

    /// What a cell's emulated link holds from now on. What it holds already stays.
    pub fn set_limit(&mut self, cell: CellId, limit: Limit) {
        if let Some(emulation) = self.cells.get_mut(&cell) {
            emulation.set_limit(limit);
        }
    }

    /// A cell's emulated link is another one from now on.
    pub fn set_link(&mut self, now: Instant, cell: CellId, (estimate, limit): (Estimate, Limit)) {
        self.set_estimate(now, cell, estimate);
        self.set_limit(cell, limit);
    }

    /// Whether a cell's emulated link is sending.
    pub fn is_busy(&self, now: Instant, cell: CellId) -> bool {
        self.cells.get(&cell).is_some_and(|emulation| emulation.is_busy(now))
    }

    /// Judges a segment.
    pub fn handle_segment(&mut self, now: Instant, id: FlowId, arrival: Arrival) -> SegmentAction {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.established) else {
            return SegmentAction::Forward;
        };
        if arrival.fin {
            flow.established = false;
            return SegmentAction::Forward;
        }
        if flow.accepted.has(arrival.seq, arrival.end) {
            return SegmentAction::Duplicate(flow.answer(arrival.end));
        }
        if !flow.offered.allows(arrival.seq) {
            return SegmentAction::OutOfWindow(flow.answer(arrival.end));
        }
        let Some(emulation) = self.cells.get_mut(&flow.cell) else { return SegmentAction::Forward };
        if emulation.bounds_windows && flow.host == HostState::Stuck {
            if flow.accepted.insert(arrival.seq, arrival.end).is_err() {
                return SegmentAction::Drop(DropReason::TooManyGaps);
            }
            self.at_once.push_back(Release { flow: id, ack: flow.accepted.next(), at: now });
            return SegmentAction::Accept;
        }
        let charged = flow.charged + u64::from(arrival.bytes);
        if emulation.bounds_windows {
            if charged > flow.max_charge() {
                return SegmentAction::Drop(DropReason::ShareFull);
            }
        } else if !emulation.has_room(now, arrival.bytes) {
            return SegmentAction::Drop(DropReason::QueueFull);
        }
        if flow.accepted.insert(arrival.seq, arrival.end).is_err() {
            return SegmentAction::Drop(DropReason::TooManyGaps);
        }
        emulation.active += u32::from(flow.waiting == 0);
        flow.waiting += 1;
        flow.charged = charged;
        let (cell, ack, head) = (flow.cell, flow.accepted.next(), emulation.head());
        emulation.push(now, id, ack, arrival.bytes);
        self.reschedule(cell, head);
        SegmentAction::Accept
    }

    /// Whether acknowledgements of a flow are still to be released.
    pub fn is_waiting(&self, flow: FlowId) -> bool {
        self.flows.get(&flow).is_some_and(|flow| flow.waiting > 0)
    }

    /// When the next acknowledgement is due.
    pub fn next_release(&self) -> Option<Instant> {
        if let Some(release) = self.at_once.front() {
            return Some(release.at);
        }
        self.due.first().map(|(at, _)| *at).filter(|at| *at < Instant::FAR_FUTURE)
    }

    /// The next acknowledgement that is due, if there is one.
    pub fn poll_release(&mut self, now: Instant) -> Option<Release> {
        while let Some(release) = self.at_once.pop_front() {
            if let Some(flow) = self.flows.get_mut(&release.flow) {
                flow.released = release.ack;
                return Some(release);
            }
        }
        loop {
            let (_, cell) = *self.due.first().filter(|(at, _)| *at <= now)?;
            let emulation = self.cells.get_mut(&cell)?;
            let head = emulation.head();
            let waiting = emulation.pop()?;
            self.reschedule(cell, head);
            let Some(flow) = self.flows.get_mut(&waiting.flow) else { continue };
            flow.waiting -= 1;
            flow.charged -= u64::from(waiting.bytes);
            if flow.waiting == 0
                && let Some(emulation) = self.cells.get_mut(&flow.cell)
            {
                emulation.active -= 1;
            }
            // One that was overtaken by another cell's says nothing new.
            if waiting.ack.before(flow.released) {
                continue;
            }
            flow.released = waiting.ack;
            return Some(Release { flow: waiting.flow, ack: waiting.ack, at: waiting.at });
        }
    }

    /// Forgets a flow, and its acknowledgements. Their time on the emulated link stays taken.
    pub fn close(&mut self, flow: FlowId) {
        let Some(flow) = self.flows.remove(&flow) else { return };
        let cell = flow.cell;
        if flow.waiting > 0 {
            self.count_active(cell, -1);
        }
        if flow.alone
            && let Some(emulation) = self.cells.remove(&cell)
            && let Some(at) = emulation.head()
        {
            self.due.remove(&(at, cell));
        }
    }

    /// There is one more flow in a cell for which something waits, or one less.
    fn count_active(&mut self, cell: CellId, change: i32) {
        if let Some(emulation) = self.cells.get_mut(&cell) {
            emulation.active = emulation.active.saturating_add_signed(change);
        }
    }

    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    fn insert(&mut self, cell: CellId, alone: bool, first: Seq) -> FlowId {
        let flow = FlowId(self.id());
        let begun = Flow {
            cell,
            alone,
            accepted: Accepted::new(first),
            released: first,
            waiting: 0,
            charged: 0,
            offered: OfferedEdge::default(),
            host: HostState::Taking,
            established: true,
        };
        self.flows.insert(flow, begun);
        flow
    }

    /// The head of `cell` was due at `before`.
    fn reschedule(&mut self, cell: CellId, before: Option<Instant>) {
        let after = self.cells.get(&cell).and_then(Emulation::head);
        if before != after {
            before.map(|at| self.due.remove(&(at, cell)));
            after.map(|at| self.due.insert((at, cell)));
        }
    }
}
