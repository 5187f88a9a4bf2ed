//! The acknowledgements of the half that faces the network, when path tail emulation paces them (bosau2004 §3).
//!
//! The half itself acknowledges each segment at once. What goes to the network, and when, is [`TailFlow`]'s to decide, by which a
//! gateway's proxy goes too.
//!
//! The proxy withholds the FIN of the network's side from the half until the mobile node has acknowledged the
//! proxy's FIN, because the mobile node must acknowledge a close.

use std::collections::BTreeMap;

use trunkline_packet::TcpFlags;
use trunkline_tcp::{Recovery, Segment, Settings};
use trunkline_trunk::path_tail::{
    Acknowledgement, Arrival, CellId, CellLink, Estimate, FlowId, Follower, Offer, OwnSegment, PathTail,
    SegmentAction, TailFlow, Totals,
};
use trunkline_units::Instant;

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
    pub(super) flow: TailFlow,
    /// The last acknowledgement of the half: those that are due are like it.
    last_ack: Option<Segment>,
    /// The network's FIN, until the mobile node has acknowledged ours.
    pub(super) fin: Option<Segment>,
    /// Bytes that were accepted, those beyond a gap too.
    pub(super) accepted: u64,
}

/// Of a SYN of the half that faces the network.
pub(super) fn offer_of(syn: &Segment) -> Offer {
    Offer { shift: syn.options.window_scale, window: syn.window, front: syn.end() }
}

impl Paced {
    /// Handles a segment from the network's side and removes its FIN.
    pub(super) fn handle_segment(
        &mut self,
        emulation: &mut PathTail,
        now: Instant,
        segment: &mut Segment,
        bytes: u32,
    ) -> SegmentAction {
        let has_fin = segment.flags.contains(TcpFlags::FIN);
        let (seq, end) = (segment.seq, segment.seq + segment.payload);
        let action = self.flow.handle_segment(emulation, now, Arrival { seq, end, bytes, fin: has_fin });
        match action {
            SegmentAction::Drop(_) | SegmentAction::OutOfWindow(_) => return action,
            SegmentAction::Accept | SegmentAction::Forward => self.accepted += u64::from(segment.payload),
            SegmentAction::Duplicate(_) => {}
        }
        if has_fin {
            self.fin = Some(Segment { seq: end, payload: 0, ..*segment });
            segment.flags = TcpFlags(segment.flags.0 & !TcpFlags::FIN.0);
        }
        action
    }

    /// Whether everything before the network's FIN has come, `received` bytes being here.
    pub(super) fn is_complete(&self, received: u64) -> bool {
        self.fin.is_some_and(|fin| fin.seq == self.flow.first() + received as u32)
    }

    /// The segment to send in place of a segment of the half, if any. `is_answer`: it may be but the answer to a segment from the network.
    pub(super) fn handle_own(
        &mut self,
        emulation: &mut PathTail,
        segment: Segment,
        is_answer: bool,
    ) -> Option<Segment> {
        if segment.flags.contains(TcpFlags::SYN) {
            self.flow.handle_offer(emulation, offer_of(&segment));
            return Some(segment);
        }
        if segment.flags.contains(TcpFlags::RST) || !segment.flags.contains(TcpFlags::ACK) {
            return Some(segment);
        }
        let (len, ack, window) = (segment.sequence_len(), segment.ack, segment.window);
        if len == 0 {
            self.last_ack = Some(segment);
        }
        let own = OwnSegment { seq: segment.seq, len, ack, window };
        let sent = self.flow.handle_own(emulation, own, is_answer)?;
        Some(Segment { ack: sent.ack, window: sent.window, ..segment })
    }

    /// As a segment.
    pub(super) fn segment(&self, acknowledgement: Option<Acknowledgement>) -> Option<Segment> {
        let Acknowledgement { seq, ack, window } = acknowledgement?;
        Some(Segment { seq, ack, window, ..self.last_ack? })
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
        let mut paced = Paced {
            flow: TailFlow::new(id, first, syn.options.window_scale.is_some()),
            last_ack: None,
            fin: None,
            accepted: 0,
        };
        if let Some(offered) = offered {
            paced.flow.handle_offer(&mut self.emulation, offered);
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
