//! The sending half of a trunk.

mod edge_queue;
mod memory;
mod report;
mod retired;
mod undelivered;

use trunkline_packet::{FlowHasher, Headers, TcpFlags};
use trunkline_queue::{FlowIndex, Item, Queue, Scheduler, Selection, Touched};
use trunkline_units::Instant;

use crate::admission::Admission;
use crate::flow::{self, Flow, FlowTable};
use crate::lane::LaneSnapshot;
use crate::segment::{Sacks, Segment};
use crate::{Behaviour, ClassId, Classifier, LaneId, Over, TrunkPlan};
use edge_queue::{Dropping, EdgeQueue, Entry, SequenceRange};
use retired::RetiredStats;
use undelivered::Undelivered;

pub use edge_queue::EdgeQueueStats;
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

/// What became of a packet that was offered to a [`Transmitter`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Offered<P> {
    /// All or part of it waits for this lane.
    Queued(LaneId),
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
    /// Nothing before this instant: ceilings hold back what waits.
    Wait(Instant),
    /// Nothing.
    Nothing,
}

struct Lane {
    /// Its edge queues, in the order of the scheduler's places.
    edge_queues: Vec<usize>,
    scheduler: Scheduler,
    undelivered: Undelivered,
}

struct ClassState {
    /// Its edge queues: one for each lane of its group, from `first` on.
    first: usize,
    lanes: usize,
    admission: Option<Admission>,
    /// What edge queues counted that a new plan took away.
    retired: RetiredStats,
}

impl ClassState {
    /// The edge queue for a flow of this hash.
    fn edge_queue(&self, hash: u64) -> usize {
        // The table takes the lower bits, the queues' buckets the middle ones.
        self.first + if self.lanes > 1 { (hash >> 48) as usize % self.lanes } else { 0 }
    }
}

/// The sending half of a trunk: classifies packets, filters retransmissions, keeps each class in an edge queue until its
/// lane has room, and shares lanes among classes.
///
/// A *class* has one edge queue for each lane of its group; a flow keeps to one of the lanes.
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
    lanes: Vec<Lane>,
    flows: FlowTable,
    forgotten: u64,
    hasher: FlowHasher,
    seed: u64,
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
            .any(|edge_queue| !self.edge_queues[*edge_queue].queue.is_empty())
    }

    /// Whether the lane holds data that the retransmission filter covers: only then do reports of what it has
    /// delivered change anything.
    #[inline]
    pub fn has_data_in_transit(&self, lane: LaneId) -> bool {
        !self.lanes[lane.index()].undelivered.is_empty()
    }

    /// Takes a packet with these headers. What does not fit of a super-packet is cut
    /// off by whole segments, so that a drop costs a flow one packet and not forty.
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        headers: &Headers,
        mut packet: P,
        mut release: impl FnMut(P),
    ) -> Offered<P> {
        let key = headers.flow();
        let hash = self.hasher.hash(&key);
        let (index, touched) = self.flows.touch(hash, &key, now, Flow::default);
        self.forgotten += u64::from(touched == Touched::Replaced);
        let segment = Segment::parse(headers, packet.prefix());
        let behaviour = self.note(now, index, touched != Touched::Known, segment.as_ref(), headers, &packet);

        let wanted = self.classifier.classify(headers, behaviour);
        let Some(class) = self.admit(now, wanted, index) else {
            let edge_queue = self.classes[wanted.index()].edge_queue(hash);
            self.edge_queues[edge_queue].stats.refused += u64::from(packet.segments());
            return Offered::Refused(packet);
        };
        let edge_queue_index = self.classes[class.index()].edge_queue(hash);
        let edge_queue = &mut self.edge_queues[edge_queue_index];
        if class != wanted {
            edge_queue.stats.moved += u64::from(packet.segments());
        }
        let filters = self.plan.classes[class.index()].filters_retransmissions;
        let mut range = segment.and_then(|segment| SequenceRange::of(&segment, packet.segments()));
        if let Some(flow) = self.flows.get_mut(index) {
            flow.edge_queue = edge_queue_index as u8;
            if segment.is_none_or(|segment| segment.payload > 0) {
                edge_queue.active.count(now, flow);
            }
            if let (true, Some(segment), Some(whole)) = (filters, &segment, range) {
                let keep = needed(flow, segment, &whole, packet.segments());
                if keep < packet.segments() {
                    flow.filtered = flow.filtered.saturating_add(1);
                    range = edge_queue.filter(&mut packet, whole, keep);
                    if range.is_none() {
                        release(packet);
                        return Offered::Dropped;
                    }
                }
            }
            if let Some(segment) = &segment {
                flow.set_last_ack(segment.ack, segment.window);
            }
        }

        let segments = packet.segments();
        let entry = Entry { packet, flow: index, hash, segment: range, ecn_capable: headers.ecn() != 0 };
        edge_queue.held_bytes += entry.packet.memory_bytes();
        let EdgeQueue { queue, held_bytes, .. } = edge_queue;
        let on_drop = &mut Dropping { flows: &mut self.flows, held_bytes, release: &mut release };
        let waiting = queue.enqueue_into(now, entry, on_drop);
        if waiting == 0 {
            return Offered::Dropped;
        }
        if let (true, Some(range), Some(flow)) = (filters, range, self.flows.get_mut(index)) {
            let kept = if waiting < segments { range.first(waiting) } else { range };
            flow.in_transit.add(kept.seq, kept.end);
        }
        Offered::Queued(LaneId(edge_queue.lane as u8))
    }

    /// Writes a packet into its flow's record: connections that begin and end, bytes, how the flow behaves.
    #[inline]
    fn note(
        &mut self,
        now: Instant,
        index: FlowIndex,
        fresh: bool,
        segment: Option<&Segment>,
        headers: &Headers,
        packet: &P,
    ) -> Behaviour {
        // The header of a super-packet is counted as if it were data: at most 120 bytes over all segments.
        let length = headers.packet_len.div_ceil(packet.segments() as usize).min(usize::from(u16::MAX));
        let mut behaviour = Behaviour { length: length as u16, interactive: false };
        let Some(flow) = self.flows.get_mut(index) else { return behaviour };
        if let Some(segment) = segment {
            flow.near_answer(now);
            if fresh || (segment.flags.contains(TcpFlags::SYN) && flow.is_another(segment.seq)) {
                flow.begin(segment.seq);
            }
            if segment.flags.intersects(TcpFlags::RST) {
                flow.in_transit.clear();
            }
            if segment.flags.intersects(TcpFlags::RST | TcpFlags::FIN) {
                flow.close();
            }
        }
        flow.count_bytes(packet.bytes());
        if self.asks_behaviour {
            behaviour.interactive = flow.behaves_interactively(now, packet.bytes());
        }
        behaviour
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

    /// Takes note of a packet that came out of the trunk and goes to the local site: what it acknowledges has left
    /// the trunk the other way.
    #[inline]
    pub fn handle_returning(&mut self, now: Instant, headers: &Headers, prefix: &[u8]) {
        let Some(segment) = Segment::parse(headers, prefix) else { return };
        let key = headers.flow().reversed();
        let hash = self.hasher.hash(&key);
        let opens = segment.flags.contains(TcpFlags::SYN);
        let index = if opens {
            // The answer to it will be the flow's first packet in our direction.
            Some(self.flows.touch(hash, &key, now, Flow::default).0)
        } else {
            self.flows.find(hash, &key)
        };
        let Some(flow) = index.and_then(|index| self.flows.get_mut(index)) else { return };
        let acknowledges = segment.flags.contains(TcpFlags::ACK);
        if acknowledges {
            if let Some(rtt) = flow.acknowledged(now, segment.ack)
                && let Some(edge_queue) = self.edge_queues.get_mut(usize::from(flow.edge_queue))
            {
                edge_queue.rtt.sample(rtt);
            }
            if !flow.in_transit.is_empty() {
                if let Some(edge) = Sacks::parse(headers, prefix).highest {
                    flow.in_transit.release(edge);
                    flow.set_sacks(true);
                }
                flow.in_transit.release(segment.ack);
                let duplicate = segment.ack == flow.returned_ack && !segment.is_sequenced();
                // With SACK a block says so if something is missing: without one, something came twice.
                if duplicate && !flow.sacks() {
                    flow.in_transit.release(segment.ack + 1);
                }
            }
            flow.returned_ack = segment.ack;
        }
        if opens {
            flow.near_probe(now);
            flow.set_sacks(Sacks::parse(headers, prefix).permitted);
        }
        if segment.flags.intersects(TcpFlags::RST) {
            flow.close();
            flow.in_transit.clear();
        }
    }

    /// Takes note of how a lane does. `delivered` is the place in its byte stream before which the far end has
    /// everything.
    pub fn handle_lane(&mut self, now: Instant, lane: LaneId, snapshot: &LaneSnapshot, delivered: u64) {
        let state = &mut self.lanes[lane.index()];
        state.undelivered.delivered(delivered, &mut self.flows);
        let (classes, edge_queues) = (&self.plan.classes, &mut self.edge_queues);
        let weight = |edge_queue: &EdgeQueue<P>| f64::from(classes[edge_queue.class].share.weight.max(1));
        let total: f64 = state.edge_queues.iter().map(|edge_queue| weight(&edge_queues[*edge_queue])).sum();
        for index in &state.edge_queues {
            let promised = weight(&edge_queues[*index]) / total;
            edge_queues[*index].observe(now, snapshot, promised);
        }
    }

    /// Takes note that everything before `delivered` in a lane's byte stream has reached the far end, and nothing
    /// else: cheaper than [`handle_lane`](Transmitter::handle_lane).
    #[inline]
    pub fn handle_delivered(&mut self, lane: LaneId, delivered: u64) {
        self.lanes[lane.index()].undelivered.delivered(delivered, &mut self.flows);
    }

    /// Takes note that all packets polled so far end at or before `position` in the lane's byte stream.
    #[inline]
    pub fn handle_transmitted(&mut self, lane: LaneId, position: u64) {
        self.lanes[lane.index()].undelivered.place(position);
    }

    /// Takes note that a lane is gone, or may be: the data that it took and did not deliver may be lost.
    pub fn handle_lane_lost(&mut self, lane: LaneId) {
        self.lanes[lane.index()].undelivered.lost(&mut self.flows);
    }

    /// The next packet for a lane that has `room` bytes left, from which it takes its size. A packet larger than
    /// the room passes if there is any, since a lane takes part of a packet too.
    #[inline]
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        lane: LaneId,
        room: &mut usize,
        mut release: impl FnMut(P),
    ) -> Poll<P> {
        let state = &mut self.lanes[lane.index()];
        while *room > 0 {
            let (edge_queues, queues) = (&state.edge_queues, &self.edge_queues);
            let turn = state.scheduler.select(now, |place| !queues[edge_queues[place]].queue.is_empty());
            let edge_queue = match turn {
                Selection::Class(place) => &mut self.edge_queues[state.edge_queues[place]],
                Selection::WaitUntil(at) => return Poll::Wait(at),
                Selection::Nothing => return Poll::Nothing,
            };
            // A discipline may drop all it has while it looks for something to send.
            let EdgeQueue { queue, held_bytes, .. } = edge_queue;
            let on_drop = &mut Dropping { flows: &mut self.flows, held_bytes, release: &mut release };
            let next = queue.dequeue_into(now, on_drop);
            let Some(entry) = next.map(|dequeued| dequeued.item) else { continue };
            let bytes = entry.packet.bytes();
            edge_queue.held_bytes -= entry.packet.memory_bytes();
            state.scheduler.charge(now, edge_queue.place, bytes as u64);
            *room = room.saturating_sub(bytes);
            if let (Some(range), Some(flow)) = (entry.segment, self.flows.get_mut(entry.flow)) {
                flow.segment_left(now, range.seq, range.end);
                if self.plan.classes[edge_queue.class].filters_retransmissions {
                    state.undelivered.push(entry.flow, range.end);
                }
            }
            return Poll::Packet(entry.packet);
        }
        Poll::Nothing
    }

    /// Takes on a new plan. A class that was there by name keeps what waits in it and its counts, as long as its
    /// discipline stays, and the places of its flows; packets of classes and lanes that are gone are dropped and go to `discard`. A lane
    /// keeps its place in what the filter knows if its group and its number in it stay.
    ///
    /// # Panics
    /// As [`Transmitter::new`].
    pub fn reconfigure(&mut self, now: Instant, plan: TrunkPlan, mut discard: impl FnMut(P)) {
        plan.check();
        let old_plan = std::mem::replace(&mut self.plan, plan);
        let mut old_edge_queues = std::mem::take(&mut self.edge_queues);
        let mut old_lanes = std::mem::take(&mut self.lanes);
        let mut old_classes = std::mem::take(&mut self.classes);
        let mut old_admissions: Vec<(&str, Admission)> = old_plan
            .classes
            .iter()
            .zip(&mut old_classes)
            .filter_map(|(class, state)| Some((&*class.name, state.admission.take()?)))
            .collect();
        for (_, admission) in &old_admissions {
            admission.unmark(&mut self.flows);
        }
        let mut retired = |name: &str| {
            let at = old_plan.classes.iter().position(|old| *old.name == *name);
            at.and_then(|at| old_classes.get_mut(at))
                .map(|old| std::mem::take(&mut old.retired))
                .unwrap_or_default()
        };
        for (number, class) in self.plan.classes.iter().enumerate() {
            let lanes = self.plan.lanes(class.group);
            let first = self.edge_queues.len();
            for (of_class, lane) in lanes.clone().enumerate() {
                let seed = self.seed ^ ((number as u64) << 32 | u64::from(lane) << 16);
                let known = old_edge_queues.iter().position(|edge_queue| {
                    let old = &old_plan.classes[edge_queue.class];
                    old.name == class.name
                        && edge_queue.lane - usize::from(old_plan.lanes(old.group).start) == of_class
                });
                let lane = usize::from(lane);
                let edge_queue = match known {
                    Some(at) => {
                        let mut edge_queue = old_edge_queues.swap_remove(at);
                        edge_queue.reconfigure(now, class.queue, &mut self.flows, &mut discard);
                        (edge_queue.class, edge_queue.lane) = (number, lane);
                        edge_queue
                    }
                    None => EdgeQueue::new(number, lane, 0, Queue::new(class.queue, seed)),
                };
                self.edge_queues.push(edge_queue);
            }
            let id = ClassId(number as u8);
            let admission = class.admission.map(|settings| {
                match old_admissions.iter().position(|(name, _)| **name == *class.name) {
                    Some(at) => {
                        let (_, admission) = old_admissions.swap_remove(at);
                        admission.reconfigure(id, settings.limit, &mut self.flows)
                    }
                    None => Admission::new(id, settings.limit),
                }
            });
            self.classes.push(ClassState {
                first,
                lanes: lanes.len(),
                admission,
                retired: retired(&class.name),
            });
        }
        for mut gone in old_edge_queues {
            gone.flush(now, &mut self.flows, &mut discard);
            let name = &old_plan.classes[gone.class].name;
            if let Some(at) = self.plan.classes.iter().position(|class| class.name == *name) {
                self.classes[at].retired.add(&gone);
            }
        }
        for (number, group) in self.plan.groups.iter().enumerate() {
            for lane in self.plan.lanes(number) {
                let of_group = lane - self.plan.lanes(number).start;
                let edge_queues: Vec<usize> = (0..self.edge_queues.len())
                    .filter(|m| self.edge_queues[*m].lane == usize::from(lane))
                    .collect();
                for (place, edge_queue) in edge_queues.iter().enumerate() {
                    self.edge_queues[*edge_queue].place = place;
                }
                let shares: Vec<_> =
                    edge_queues.iter().map(|m| self.plan.classes[self.edge_queues[*m].class].share).collect();
                let old_group = old_plan.groups.iter().position(|old| old.name == group.name);
                let undelivered = old_group
                    .map(|old| old_plan.lanes(old))
                    .filter(|lanes| of_group < lanes.len() as u8)
                    .map(|lanes| {
                        std::mem::take(&mut old_lanes[usize::from(lanes.start + of_group)].undelivered)
                    });
                self.lanes.push(Lane {
                    edge_queues,
                    scheduler: Scheduler::new(&shares),
                    undelivered: undelivered.unwrap_or_default(),
                });
            }
        }
        for mut gone in old_lanes {
            gone.undelivered.lost(&mut self.flows);
        }
        self.classifier = Classifier::new(&self.plan.classes);
        self.asks_behaviour = self.classifier.asks_behaviour();
    }

    /// Drops everything that waits, handing each packet to `discard`.
    pub fn flush(&mut self, now: Instant, mut discard: impl FnMut(P)) {
        for edge_queue in &mut self.edge_queues {
            edge_queue.flush(now, &mut self.flows, &mut discard);
        }
    }

    /// The lane of a group by the group's name and its number in it.
    pub fn lane(&self, group: &str, number: u8) -> Option<LaneId> {
        let at = self.plan.groups.iter().position(|candidate| &*candidate.name == group)?;
        self.plan.lanes(at).nth(usize::from(number)).map(LaneId)
    }
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
