//! The sending half of a trunk.

mod departed;
mod edge_queue;
mod flow_record;
mod lanes_in_use;
mod memory;
mod paths;
mod reconfiguration;
mod report;
mod retired;
mod undelivered;

use std::ops::Range;

use trunkline_packet::{FlowHasher, Headers};
use trunkline_queue::{FlowIndex, Item, Scheduler, Selection, Share, Touched};
use trunkline_units::{Instant, Seq};

use crate::admission::Admission;
use crate::bonding::{Numbering, Order};
use crate::flow::{self, Flow, FlowTable};
use crate::lane::{LaneSnapshot, Opening};
use crate::path::{EdgeQueueDemand, PathSummary};
use crate::replication::Replication;
use crate::segment::Segment;
use crate::{ClassId, ClassSettings, Classifier, LaneId, Over, SequenceNumber, TrunkPlan};
use departed::Departed;
use edge_queue::{Dropping, EdgeQueue, Entry, SequenceRange};
use lanes_in_use::LanesInUse;
use paths::ClassPaths;
use retired::RetiredStats;
use undelivered::Undelivered;

pub use edge_queue::EdgeQueueStats;
pub use paths::PathConditions;
pub use report::{ClassReport, EdgeQueueReport, FlowReport};

/// A packet in the owner's buffers, as the transmitter handles it.
pub trait Packet: Item {
    /// Its start, with all of its headers at least.
    fn prefix(&self) -> &[u8];

    /// Memory it takes up, bytes: the same for as long as it lives, whatever is cut off.
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// Where packets come from and go to: the owner's memory.
pub trait PacketStore<P> {
    /// A copy of a packet; `None` without memory for it.
    fn copy(&mut self, packet: &P) -> Option<P>;

    /// Takes back the memory of a packet.
    fn release(&mut self, packet: P);
}

/// A store that makes no copies.
impl<P, F: FnMut(P)> PacketStore<P> for F {
    fn copy(&mut self, _: &P) -> Option<P> {
        None
    }

    fn release(&mut self, packet: P) {
        self(packet);
    }
}

/// What became of a packet that was offered to a [`Transmitter`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Offered<P> {
    /// All or part of it waits for this lane.
    Queued(LaneId),
    /// It waits for these lanes, a bit each: copies of it, or one packet that whichever is first takes.
    QueuedFor(u32),
    /// Nothing of it waits: it went to `release`.
    Dropped,
    /// Its flow has no place in its class: tell its sender (RFC 1812 §5.2.7.1, RFC 4443 §3.1:
    /// communication administratively prohibited).
    Refused(P),
}

/// What [`Transmitter::poll_transmit`] has for a lane.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Poll<P> {
    /// This packet.
    Packet(P),
    /// This packet with what the far end needs to know of it first.
    Labelled(Label, P),
    /// Nothing before this instant: ceilings hold back what waits.
    Wait(Instant),
    /// Nothing.
    Nothing,
}

/// What the far end needs to know of a packet beside the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// Another lane carries the same.
    Number(SequenceNumber),
    /// Other lanes carry packets of its flow.
    Order(Order),
}

struct Lane<P> {
    /// Its edge queues, in the order of the scheduler's places.
    edge_queues: Vec<usize>,
    scheduler: Scheduler,
    /// What the retransmission filter covers.
    undelivered: Undelivered<(FlowIndex, Seq)>,
    /// What it took of bonded classes.
    copies: Undelivered<Departed<P>>,
    opening: Opening,
}

struct ClassState {
    /// Its edge queues, from `first` on: one for each lane of its group, or of a bonded class for each lane on one path.
    first: usize,
    lanes: usize,
    /// How many of them take packets, if not all.
    in_use: Option<LanesInUse>,
    /// Which of several paths its flows take.
    paths: Option<ClassPaths>,
    admission: Option<Admission>,
    /// Which of its packets are sent twice.
    replication: Option<Replication>,
    /// What edge queues counted that a new plan took away.
    retired: RetiredStats,
}

impl ClassState {
    /// The edge queue for a packet of a flow: the one that it has, if its path is open to the class, or else that of the lane with the
    /// fewest active flows. Among equals the flow's hash decides.
    #[inline]
    fn edge_queue<P>(
        &self,
        now: Instant,
        hash: u64,
        flow: Option<&mut Flow>,
        edge_queues: &mut [EdgeQueue<P>],
    ) -> usize {
        let lanes = self.in_use.as_ref().map_or(self.lanes, LanesInUse::number);
        if lanes == 1 {
            return self.first;
        }
        let own = self.first..self.first + lanes;
        let known = flow.as_ref().and_then(|flow| flow.edge_queue()).filter(|index| own.contains(index));
        let is_open =
            |index: usize| self.paths.as_ref().is_none_or(|paths| paths.is_open(index - self.first));
        if let Some(index) = known.filter(|index| is_open(*index)) {
            let spreads = self.in_use.as_ref().is_some_and(|in_use| in_use.spreads(now));
            return if spreads { lighter(own, index, now, edge_queues) } else { index };
        }
        // The table takes the lower bits, the queues' buckets the middle ones.
        let offset = (hash >> 48) as usize;
        let among = self.paths.as_ref().map_or(own, |paths| {
            let of = paths.choose(offset, |place| edge_queues[self.first + place].active.number(now));
            self.first + of.start..self.first + of.end
        });
        let lanes = (0..among.len()).map(|lane| among.start + (offset + lane) % among.len());
        let index = lanes.min_by_key(|index| edge_queues[*index].active.load(now)).unwrap_or(self.first);
        if let Some(flow) = flow {
            let before = flow.edge_queue().filter(|before| *before != index);
            if let Some(before) = before.and_then(|before| edge_queues.get_mut(before)) {
                before.active.release(now, flow);
            }
            // The next one is to find it here, though it may not have sent data yet.
            edge_queues[index].active.count(now, flow);
        }
        index
    }
}

/// The lane among `own` to which a flow that is at `index` moves: one that has fewer flows even with this one, or else its own.
fn lighter<P>(own: Range<usize>, index: usize, now: Instant, edge_queues: &mut [EdgeQueue<P>]) -> usize {
    let flows = edge_queues[index].active.number(now);
    let (fewest, other) =
        own.map(|other| (edge_queues[other].active.number(now), other)).min().unwrap_or((flows, index));
    if fewest + 1 >= flows {
        return index;
    }
    edge_queues[index].active.handle_left();
    edge_queues[other].active.handle_joined();
    other
}

/// The sending half of a trunk: classifies packets, filters retransmissions, keeps each class in an edge queue until its
/// lane has room, and shares lanes among classes.
///
/// A *class* has one edge queue for each lane of its group. A flow keeps to one of the lanes: the one that had the fewest active flows
/// of the class when it began. Of a group that is [adaptive](crate::LaneGroup::adaptive) a class uses one lane, and
/// on a path that loses packets as many as it holds packets for. Where there are several paths, a path is chosen first
/// ([`Placement`](crate::path::Placement)), and a flow keeps to its lane while its path is open to the class. The packets of a class whose
/// paths are [bonded](crate::bonding) wait in one edge queue for all paths.
///
/// Polling order, for each lane: after any number of [`handle_packet`](Transmitter::handle_packet) calls, and
/// whenever the lane reports room, [`handle_lane`](Transmitter::handle_lane) with a snapshot if one is at hand;
/// then [`poll_transmit`](Transmitter::poll_transmit) until it gives no packet; then
/// [`handle_transmitted`](Transmitter::handle_transmitted) with the place in the lane's stream that was reached. The order
/// among lanes is the owner's. The only timer is [`Poll::Wait`].
///
/// Packets that are dropped go to the `release` of the call that dropped them, whichever they are.
pub struct Transmitter<P> {
    plan: TrunkPlan,
    classifier: Classifier,
    asks_behaviour: bool,
    classes: Vec<ClassState>,
    edge_queues: Vec<EdgeQueue<P>>,
    lanes: Vec<Lane<P>>,
    flows: FlowTable,
    forgotten: u64,
    hasher: FlowHasher,
    seed: u64,
    /// The number of the next packet that is sent twice.
    next_number: u32,
    /// The places of packets of bonded classes.
    numbering: Numbering,
    /// Copies of packets that have been delivered.
    spent: Vec<P>,
}

impl<P: Packet> Transmitter<P> {
    /// Most flows that are remembered, unless said otherwise.
    pub const FLOWS: usize = 1 << 17;

    /// A transmitter for this plan that remembers up to `flows` flows. What is random in it follows from `seed`,
    /// and so does the key of the hash by which flows find queues and lanes: who may choose a flow's ports should not know it.
    ///
    /// # Panics
    /// If the plan has no class, a class without a group, or more than [`TrunkPlan`] allows.
    pub fn new(plan: TrunkPlan, flows: usize, seed: u64) -> Self {
        let mut transmitter = Transmitter {
            plan: TrunkPlan::new(Vec::new(), Vec::new()),
            classifier: Classifier::default(),
            asks_behaviour: false,
            classes: Vec::new(),
            edge_queues: Vec::new(),
            lanes: Vec::new(),
            flows: FlowTable::new(flows),
            forgotten: 0,
            hasher: flow::hasher(seed),
            seed,
            next_number: 0,
            numbering: Numbering::default(),
            spent: Vec::new(),
        };
        transmitter.reconfigure(Instant::ZERO, plan, |_| {});
        transmitter
    }

    /// The plan in force.
    pub const fn plan(&self) -> &TrunkPlan {
        &self.plan
    }

    /// Whether packets wait for `lane`.
    #[inline]
    pub fn has_backlog(&self, lane: LaneId) -> bool {
        self.lanes[lane.index()]
            .edge_queues
            .iter()
            .any(|edge_queue| self.edge_queues[*edge_queue].has_for(lane.0))
    }

    /// Whether the lane holds data that the retransmission filter covers, or that leaves again if it is lost: only then do reports of
    /// what it has delivered change anything.
    #[inline]
    pub fn has_data_in_transit(&self, lane: LaneId) -> bool {
        let state = &self.lanes[lane.index()];
        !state.undelivered.is_empty() || !state.copies.is_empty()
    }

    /// Whether a class on the lane uses its lanes by what the path is like.
    pub(crate) fn follows_path(&self, lane: LaneId) -> bool {
        let follows = |class: &ClassState| class.in_use.is_some() || class.replication.is_some();
        self.lanes[lane.index()]
            .edge_queues
            .iter()
            .any(|edge_queue| follows(&self.classes[self.edge_queues[*edge_queue].class]))
    }

    /// Takes what is known of the path of a lane, and once its capacity is known how many packets it holds, that times a round trip; 0
    /// if it loses none without being full.
    pub(crate) fn handle_path(
        &mut self,
        now: Instant,
        lane: LaneId,
        path: PathSummary,
        packets: Option<f64>,
    ) {
        for index in &self.lanes[lane.index()].edge_queues {
            let class = &mut self.classes[self.edge_queues[*index].class];
            if let Some((in_use, packets)) = class.in_use.as_mut().zip(packets) {
                in_use.update(now, packets);
            }
            if let Some(replication) = &mut class.replication {
                replication.handle_path(index - class.first, path);
            }
        }
    }

    /// Takes a packet with these headers. What does not fit of a super-packet is cut
    /// off by whole segments, so that a drop costs a flow one packet and not forty.
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        headers: &Headers,
        mut packet: P,
        mut store: impl PacketStore<P>,
    ) -> Offered<P> {
        let key = headers.flow();
        let hash = self.hasher.hash(&key);
        let (index, touched) = self.flows.touch(hash, &key, now, Flow::default);
        self.forgotten += u64::from(touched == Touched::Replaced);
        let segment = Segment::parse(headers, packet.prefix());
        let behaviour =
            self.record(now, index, touched != Touched::Known, segment.as_ref(), headers, &packet);

        let wanted = self.classifier.classify(headers, behaviour);
        let Some(class) = self.admit(now, wanted, index) else {
            self.edge_queues[self.classes[wanted.index()].first].stats.refused +=
                u64::from(packet.segments());
            return Offered::Refused(packet);
        };
        let flow = self.flows.get_mut(index);
        let edge_queue_index = self.classes[class.index()].edge_queue(now, hash, flow, &mut self.edge_queues);
        let edge_queue = &mut self.edge_queues[edge_queue_index];
        if class != wanted {
            edge_queue.stats.moved += u64::from(packet.segments());
        }
        let filters = self.plan.classes[class.index()].filters_retransmissions;
        let mut range = segment.and_then(|segment| SequenceRange::of(&segment, packet.segments()));
        if let Some(flow) = self.flows.get_mut(index) {
            flow.set_edge_queue(edge_queue_index);
            if segment.is_none_or(|segment| segment.payload > 0) {
                edge_queue.active.count(now, flow);
            }
            if let (true, Some(segment), Some(whole)) = (filters, &segment, range) {
                let keep = needed(flow, segment, &whole, packet.segments());
                if keep < packet.segments() {
                    flow.filtered = flow.filtered.saturating_add(1);
                    range = edge_queue.filter(&mut packet, whole, keep);
                    if range.is_none() {
                        store.release(packet);
                        return Offered::Dropped;
                    }
                }
            }
            if let Some(segment) = &segment {
                flow.set_last_ack(segment.ack, segment.window);
            }
        }

        let segments = packet.segments();
        let mut entry = Entry {
            packet,
            flow: index,
            hash,
            segment: range,
            ecn_capable: headers.ecn() != 0,
            number: None,
        };
        // An acknowledgement that is late is made good by the next one.
        let says_more = segment.is_none_or(|segment| segment.is_sequenced());
        let copied_to =
            if says_more { self.replicate(now, edge_queue_index, &mut entry, &mut store) } else { None };
        let waiting = self.enqueue(now, edge_queue_index, entry, &mut store);
        if waiting == 0 {
            return copied_to.map_or(Offered::Dropped, Offered::Queued);
        }
        if let (true, Some(range), Some(flow)) = (filters, range, self.flows.get_mut(index)) {
            let kept = if waiting < segments { range.first(waiting) } else { range };
            flow.in_transit.add(kept.seq, kept.end);
        }
        let edge_queue = &self.edge_queues[edge_queue_index];
        match copied_to {
            Some(other) => Offered::QueuedFor(1 << edge_queue.lane | 1 << other.0),
            None if edge_queue.bond.is_some() => Offered::QueuedFor(edge_queue.lanes()),
            None => Offered::Queued(LaneId(edge_queue.lane as u8)),
        }
    }

    /// Has a packet for the edge queue at `index` wait; how many segments of it do.
    #[inline]
    fn enqueue(
        &mut self,
        now: Instant,
        index: usize,
        entry: Entry<P>,
        store: &mut impl PacketStore<P>,
    ) -> u32 {
        let EdgeQueue { queue, held_bytes, .. } = &mut self.edge_queues[index];
        *held_bytes += entry.packet.memory_bytes();
        let release = &mut |packet| store.release(packet);
        queue.enqueue_into(now, entry, &mut Dropping { flows: &mut self.flows, held_bytes, release })
    }

    /// Has a copy of a packet for the edge queue at `index` wait for another lane of its class too, if the class sends it twice. The
    /// lane that takes the copy.
    #[inline]
    fn replicate(
        &mut self,
        now: Instant,
        index: usize,
        entry: &mut Entry<P>,
        store: &mut impl PacketStore<P>,
    ) -> Option<LaneId> {
        let class = self.edge_queues[index].class;
        let state = &mut self.classes[class];
        let replication = state.replication.as_mut()?;
        if self.edge_queues[index].bond.is_some() {
            return None;
        }
        let place = index - state.first;
        let other = match &state.paths {
            Some(paths) => paths.place_of_copy(place)?,
            None => (place + 1) % state.lanes,
        };
        let is_single = other != place && entry.packet.segments() == 1;
        if !is_single || !replication.takes(now, place, entry.packet.bytes()) {
            return None;
        }
        let other = state.first + other;
        let packet = store.copy(&entry.packet)?;
        entry.number = Some(self.next_number);
        self.next_number = self.next_number.wrapping_add(1);
        // What the flow has in transit is that of the original.
        let copy = Entry { packet, segment: None, ..*entry };
        let waiting = self.enqueue(now, other, copy, store);
        let EdgeQueue { stats, lane, .. } = &mut self.edge_queues[other];
        stats.copies += u64::from(waiting);
        (waiting > 0).then_some(LaneId(*lane as u8))
    }

    /// The class that takes a packet of `flow` which belongs to `wanted`: that one, or one it overflows to, whose own limit
    /// holds too. `None` if the flow is refused.
    #[inline]
    fn admit(&mut self, now: Instant, wanted: ClassId, flow: FlowIndex) -> Option<ClassId> {
        let mut class = wanted;
        // A chain of overflows that comes round is over after as many steps as there are classes.
        for _ in 0..self.classes.len() {
            let Some(admission) = &mut self.classes[class.index()].admission else { return Some(class) };
            if admission.admit(now, flow, &mut self.flows) {
                return Some(class);
            }
            match self.plan.classes[class.index()].admission?.over {
                Over::Refuse => return None,
                Over::Class(next) => class = next,
            }
        }
        None
    }

    /// Takes note of how a lane does. `delivered` is the place in its byte stream before which the far end has
    /// everything.
    pub fn handle_lane(&mut self, now: Instant, lane: LaneId, snapshot: &LaneSnapshot, delivered: u64) {
        self.handle_delivered(lane, delivered);
        let state = &mut self.lanes[lane.index()];
        let (classes, edge_queues) = (&self.plan.classes, &mut self.edge_queues);
        let weight = |edge_queue: &EdgeQueue<P>| f64::from(classes[edge_queue.class].share.weight.max(1));
        let opens = state.opening.update(now, snapshot);
        let total: f64 = state.edge_queues.iter().map(|edge_queue| weight(&edge_queues[*edge_queue])).sum();
        for index in &state.edge_queues {
            let promised = weight(&edge_queues[*index]) / total;
            let edge_queue = &mut edge_queues[*index];
            let waiting = edge_queue.queue.stats().backlog_bytes;
            let bonded =
                edge_queue.bond.as_mut().map(|bond| bond.handle_snapshot(now, lane.0, snapshot, waiting));
            edge_queue.observe(now, bonded.as_ref().unwrap_or(snapshot), promised, opens);
        }
    }

    /// Has each class on a lane that has a ceiling or a guarantee get its part of it: `part` takes the class and what its edge queue
    /// does, and gives what that edge queue may have.
    pub(crate) fn divide_class_rates(
        &mut self,
        now: Instant,
        lane: LaneId,
        mut part: impl FnMut(&ClassSettings, EdgeQueueDemand) -> Option<Share>,
    ) {
        let state = &mut self.lanes[lane.index()];
        for (place, index) in state.edge_queues.iter().enumerate() {
            let EdgeQueue { class, queue, bond, .. } = &self.edge_queues[*index];
            let settings = &self.plan.classes[*class];
            if settings.share.ceiling.is_none() && settings.share.guarantee.is_none() {
                continue;
            }
            let sent = bond.as_ref().map_or(queue.stats().bytes_out, |bond| bond.sent(lane.0));
            let demand = EdgeQueueDemand { sent, backlogged: !queue.is_empty() };
            if let Some(share) = part(settings, demand) {
                state.scheduler.set_rates(now, place, &share);
            }
        }
    }

    /// Takes note that everything before `delivered` in a lane's byte stream has reached the far end, and nothing
    /// else: cheaper than [`handle_lane`](Transmitter::handle_lane).
    #[inline]
    pub fn handle_delivered(&mut self, lane: LaneId, delivered: u64) {
        let state = &mut self.lanes[lane.index()];
        state.undelivered.delivered(delivered, &mut self.flows);
        if !state.copies.is_empty() {
            self.spend_copies(lane, delivered);
        }
    }

    /// Takes note that all packets polled so far end at or before `position` in the lane's byte stream.
    #[inline]
    pub fn handle_transmitted(&mut self, lane: LaneId, position: u64) {
        let state = &mut self.lanes[lane.index()];
        state.undelivered.place(position);
        state.copies.place(position);
    }

    /// Takes note that a lane is gone, or may be: the data that it took and did not deliver may be lost. That of bonded classes leaves
    /// again.
    pub fn handle_lane_lost(&mut self, lane: LaneId) {
        self.lanes[lane.index()].undelivered.lost(&mut self.flows);
        self.take_back(lane);
    }

    /// The next packet for a lane that has `room` bytes left, from which it takes its size. A packet larger than
    /// the room passes if there is any, since a lane takes part of a packet too.
    #[inline]
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        lane: LaneId,
        room: &mut usize,
        mut store: impl PacketStore<P>,
    ) -> Poll<P> {
        let state = &mut self.lanes[lane.index()];
        while *room > 0 {
            let (edge_queues, queues) = (&state.edge_queues, &self.edge_queues);
            let turn = state.scheduler.select(now, |place| queues[edge_queues[place]].has_for(lane.0));
            let index = match turn {
                Selection::Class(place) => state.edge_queues[place],
                Selection::WaitUntil(at) => return Poll::Wait(at),
                Selection::Nothing => return Poll::Nothing,
            };
            let edge_queue = &mut self.edge_queues[index];
            if let Some(lost) = edge_queue.lost.pop_front() {
                let bytes = lost.packet.bytes();
                edge_queue.copy_bytes -= lost.packet.memory_bytes();
                edge_queue.stats.resent += u64::from(lost.packet.segments());
                state.scheduler.charge(now, edge_queue.place, bytes as u64);
                *room = room.saturating_sub(bytes);
                return self.depart(Departed { lane, at: now, ..lost }, &mut store);
            }
            // A discipline may drop all it has while it looks for something to send.
            let EdgeQueue { queue, held_bytes, .. } = edge_queue;
            let release = &mut |packet| store.release(packet);
            let on_drop = &mut Dropping { flows: &mut self.flows, held_bytes, release };
            let next = queue.dequeue_into(now, on_drop);
            let Some(entry) = next.map(|dequeued| dequeued.item) else { continue };
            let bytes = entry.packet.bytes();
            edge_queue.held_bytes -= entry.packet.memory_bytes();
            state.scheduler.charge(now, edge_queue.place, bytes as u64);
            *room = room.saturating_sub(bytes);
            if let (Some(range), Some(flow)) = (entry.segment, self.flows.get_mut(entry.flow)) {
                flow.segment_left(now, range.seq, range.end);
                if self.plan.classes[edge_queue.class].filters_retransmissions {
                    state.undelivered.push((entry.flow, range.end));
                }
            }
            if edge_queue.bond.is_some() {
                let order = self.numbering.next(space(self.seed), entry.hash);
                let packet = entry.packet;
                return self.depart(Departed { packet, order, edge_queue: index, lane, at: now }, &mut store);
            }
            let Some(number) = entry.number else { return Poll::Packet(entry.packet) };
            let number = SequenceNumber { space: space(self.seed), number };
            return Poll::Labelled(Label::Number(number), entry.packet);
        }
        Poll::Nothing
    }

    /// Drops everything that waits, handing each packet to `discard`.
    pub fn flush(&mut self, now: Instant, mut discard: impl FnMut(P)) {
        self.discard_departed(&mut discard);
        for edge_queue in &mut self.edge_queues {
            edge_queue.flush(now, &mut self.flows, &mut discard);
        }
    }
}

/// Who numbers packets, by the seed of a transmitter.
const fn space(seed: u64) -> u32 {
    (seed >> 32) as u32 ^ seed as u32
}

/// How many of the segments of a packet the far site does not get without it, from the front: all of them if it
/// says something new.
#[inline]
fn needed(flow: &Flow, segment: &Segment, range: &SequenceRange, segments: u32) -> u32 {
    let news = !flow.has_sent_ack() || segment.ack != flow.last_ack || segment.window != flow.last_window;
    if news {
        return segments;
    }
    let missing = flow.in_transit.missing(range.seq, range.end);
    if missing == 0 { 0 } else { missing.div_ceil(range.segment_bytes.max(1)).clamp(1, segments) }
}
