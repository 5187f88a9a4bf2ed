//! The acknowledgements of the half that faces the network, when path tail emulation paces them (bosau2004 §3).
//!
//! The half itself acknowledges each segment at once, and the proxy withholds the acknowledgement. It leaves when
//! the emulated link would have delivered the segment, with the acknowledgement number that is due then and a
//! window with the same right edge as the half's own. Other segments of the half, such as data of the mobile node
//! or an answer to a probe, acknowledge at most what was released.
//!
//! The proxy withholds the FIN of the network's side from the half until the mobile node has acknowledged the
//! proxy's FIN, because the mobile node must acknowledge a close.

use std::collections::BTreeMap;

use trunkline_packet::TcpFlags;
use trunkline_tcp::{Recovery, Segment, Settings};
use trunkline_trunk::path_tail::{
    Arrival, CellId, CellLink, Estimate, FlowId, Follower, PathTail, SegmentAction, Totals,
};
use trunkline_units::{Instant, Seq};

use crate::NodeId;

/// A cell of the mobile network, as the proxy emulates it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The nodes in it.
    pub nodes: Vec<NodeId>,
    /// Its emulated link.
    pub link: CellLink,
    /// Bytes of a connection that the proxy holds for the mobile node at the most; a segment beyond them is dropped as one beyond
    /// the limit is. The windows of the two TCPs should be larger, or it is they that bound the sender.
    pub buffer: u64,
    /// Whether each connection has an emulated link of its own: a profile with a fixed rate, which is given.
    pub each_alone: bool,
}

/// The TCP that may face the network: when acknowledgements leave is the emulation's to say, and a SACK block or a time stamp
/// would tell the sender of what has come before its time.
pub(super) fn facing_network(settings: &Settings) -> Settings {
    let recovery = match settings.recovery {
        Recovery::Sack | Recovery::RackTlp => Recovery::NewReno,
        plain => plain,
    };
    Settings { timestamps: false, delayed_ack: None, ..settings.clone().with_recovery(recovery) }
}

/// A connection that is paced.
#[derive(Debug)]
pub(super) struct Paced {
    pub(super) id: FlowId,
    /// The first byte of data.
    first: Seq,
    /// The network's side said that it scales windows.
    scales: bool,
    /// Of the windows that are offered to the network.
    shift: u8,
    /// The last acknowledgement of the half.
    last_ack: Option<Segment>,
    /// Behind the last byte that the half has sent.
    front: Option<Seq>,
    released: Seq,
    /// The network's FIN, until the mobile node has acknowledged ours.
    pub(super) fin: Option<Segment>,
    /// The mobile node has acknowledged everything: the half speaks for itself.
    pub(super) over: bool,
    /// Bytes that were accepted, those beyond a gap too.
    pub(super) accepted: u64,
}

/// What the half that faces the network has said in its SYN.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    shift: Option<u8>,
    window: u16,
}

impl Offer {
    /// Of a SYN of the half.
    pub(super) const fn of(syn: &Segment) -> Self {
        Offer { shift: syn.options.window_scale, window: syn.window }
    }
}

/// What the proxy does with a segment from the network's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The half that faces the network keeps it. Its acknowledgement comes later.
    Accept,
    /// The half has all of it already. If there is an acknowledgement number, the acknowledgement leaves at once.
    Duplicate(Option<Seq>),
    Drop,
    /// It is beyond the window: dropped too, and answered as a duplicate is.
    OutOfWindow(Option<Seq>),
}

impl Paced {
    /// Handles a segment from the network's side and removes its FIN.
    pub(super) fn handle_segment(
        &mut self,
        emulation: &mut PathTail,
        now: Instant,
        segment: &mut Segment,
        bytes: u32,
    ) -> Action {
        let mut action = Action::Accept;
        if segment.payload > 0 {
            // The FIN's own place is not the emulation's affair.
            let arrival = Arrival { seq: segment.seq, end: segment.seq + segment.payload, bytes, fin: false };
            action = match emulation.handle_segment(now, self.id, arrival) {
                SegmentAction::Accept | SegmentAction::Forward => {
                    self.accepted += u64::from(segment.payload);
                    Action::Accept
                }
                SegmentAction::Duplicate(ack) => Action::Duplicate(ack),
                SegmentAction::Drop(_) => return Action::Drop,
                SegmentAction::OutOfWindow(ack) => return Action::OutOfWindow(ack),
            };
        }
        if segment.flags.contains(TcpFlags::FIN) {
            self.fin = Some(Segment { seq: segment.seq + segment.payload, payload: 0, ..*segment });
            segment.flags = TcpFlags(segment.flags.0 & !TcpFlags::FIN.0);
        }
        action
    }

    /// Whether everything before the network's FIN has come, `received` bytes being here.
    pub(super) fn is_complete(&self, received: u64) -> bool {
        self.fin.is_some_and(|fin| fin.seq == self.first + received as u32)
    }

    /// The segment to send in place of a segment of the half.
    pub(super) fn rewrite(&mut self, emulation: &mut PathTail, segment: Segment) -> Segment {
        if segment.sequence_len() == 0 && !segment.flags.intersects(TcpFlags::RST) {
            self.last_ack = Some(segment);
        }
        if self.front.is_none_or(|front| front.before(segment.end())) {
            self.front = Some(segment.end());
        }
        if segment.flags.contains(TcpFlags::SYN) {
            self.offer(emulation, Offer::of(&segment));
        }
        self.holding_back(emulation, segment, self.released)
    }

    /// The shift holds if both sides have one; the window of a SYN is never scaled.
    fn offer(&mut self, emulation: &mut PathTail, offer: Offer) {
        self.shift = if self.scales { offer.shift.unwrap_or(0) } else { 0 };
        emulation.handle_offered(self.id, self.first + u32::from(offer.window));
    }

    /// An acknowledgement whose time has come.
    pub(super) fn release(&mut self, emulation: &mut PathTail, ack: Seq) -> Option<Segment> {
        self.released = ack;
        let last_ack = self.last_ack?;
        let seq = self.front.unwrap_or(last_ack.seq);
        Some(Segment { seq, ..self.holding_back(emulation, last_ack, ack) })
    }

    /// The same segment, acknowledging no more than `ack`, with the window's right edge where it was, unless the window is bounded.
    fn holding_back(&mut self, emulation: &mut PathTail, segment: Segment, ack: Seq) -> Segment {
        if self.over || !segment.flags.contains(TcpFlags::ACK) || segment.flags.contains(TcpFlags::SYN) {
            return segment;
        }
        let ack = if ack.before(segment.ack) { ack } else { segment.ack };
        let edge = segment.ack + (u32::from(segment.window) << self.shift);
        let offered = emulation.offer(self.id, ack, edge);
        if ack == segment.ack && offered == edge {
            return segment;
        }
        let window = ((offered - ack) >> self.shift).min(u32::from(u16::MAX)) as u16;
        Segment { ack, window, ..segment }
    }
}

/// The emulated links of a proxy.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) emulation: PathTail,
    cells: Vec<(Cell, CellId)>,
    /// By the number of the cell, if its rate is measured.
    followers: Vec<Option<Follower>>,
    /// When they read next.
    reading: Instant,
    flows: BTreeMap<FlowId, u32>,
}

impl Tail {
    pub(super) fn new(cells: &[Cell]) -> Self {
        let mut emulation = PathTail::new();
        let followers = cells.iter().map(|cell| Follower::new(cell.link)).collect();
        let cells = cells.iter().map(|cell| (cell.clone(), emulation.add_link(&cell.link))).collect();
        Tail { emulation, cells, followers, reading: Instant::ZERO, flows: BTreeMap::new() }
    }

    /// Begins the emulation of a connection to `mobile`, if that is in a cell, with the network's SYN.
    pub(super) fn open(
        &mut self,
        flow: u32,
        mobile: NodeId,
        syn: &Segment,
        offered: Option<Offer>,
    ) -> Option<Paced> {
        let (cell, id) = &self.cells[self.cell_of(mobile)?];
        let first = syn.seq + 1;
        let id = if cell.each_alone {
            let (estimate, limit) = cell.link.initial();
            self.emulation.open_with_profile(estimate, limit, first)
        } else {
            self.emulation.open(*id, first)
        };
        self.flows.insert(id, flow);
        let scales = syn.options.window_scale.is_some();
        let mut paced = Paced {
            id,
            first,
            scales,
            shift: 0,
            last_ack: None,
            front: None,
            released: first,
            fin: None,
            over: false,
            accepted: 0,
        };
        if let Some(offered) = offered {
            paced.offer(&mut self.emulation, offered);
        }
        Some(paced)
    }

    /// Bytes that may be held for a connection to `mobile`.
    pub(super) fn buffer(&self, mobile: NodeId) -> u64 {
        self.cell_of(mobile).map_or(u64::MAX, |cell| self.cells[cell].0.buffer)
    }

    /// The number of the cell that `mobile` is in.
    pub(super) fn cell_of(&self, mobile: NodeId) -> Option<usize> {
        self.cells.iter().position(|(cell, _)| cell.nodes.contains(&mobile))
    }

    /// When rates are to be measured next; `None` while no connection is open.
    pub(super) fn next_reading(&self) -> Option<Instant> {
        let measured = self.followers.iter().any(Option::is_some);
        (measured && !self.flows.is_empty()).then_some(self.reading)
    }

    /// Takes the readings of all cells, by their numbers, and tells the emulation. `is_busy` is the emulation's to say.
    pub(super) fn follow(&mut self, now: Instant, totals: &[Totals]) {
        self.reading = now + Follower::INTERVAL;
        for ((follower, (_, id)), totals) in self.followers.iter_mut().zip(&self.cells).zip(totals) {
            let Some(follower) = follower else { continue };
            let totals = Totals { is_busy: self.emulation.is_busy(now, *id), ..*totals };
            if let Some(link) = follower.handle(now, totals) {
                self.emulation.set_link(now, *id, link);
            }
        }
    }

    /// The operator says something else of a cell, or of each connection there.
    pub(super) fn set_estimate(&mut self, now: Instant, number: usize, estimate: Estimate) {
        let (cell, id) = &mut self.cells[number];
        cell.link.estimate = Some(estimate);
        self.emulation.set_estimate(now, *id, estimate);
        if !cell.each_alone {
            return;
        }
        let alone: Vec<CellId> = self
            .flows
            .keys()
            .filter_map(|flow| self.emulation.cell(*flow))
            .filter(|at| self.cells.iter().all(|(_, shared)| shared != at))
            .collect();
        for profile in alone {
            self.emulation.set_estimate(now, profile, estimate);
        }
    }

    pub(super) fn flow(&self, id: FlowId) -> Option<u32> {
        self.flows.get(&id).copied()
    }

    pub(super) fn close(&mut self, id: FlowId) {
        self.emulation.close(id);
        self.flows.remove(&id);
    }
}
