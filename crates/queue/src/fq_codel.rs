use trunkline_units::Instant;

use crate::codel::{Law, Source, segment_bytes};
use crate::discipline::Rules;
use crate::fifo::{Fifo, Held, Stamped, is_too_large};
use crate::ledger::Ledger;
use crate::parameter::{
    CONTROL_TIME, Conflict, Describe, Description, Field, Range, control_law, parameters,
};
use crate::{CoDelSettings, Conditions, Control, Discard, DropReason, Item, Limits, Settings};

/// What an overflow takes from the fattest queue at once, at most; or half of it, if that is less (RFC 8290 §4.1).
const BATCH_SEGMENTS: u64 = 64;
const MAX_QUEUES: u32 = 1 << 16;
/// Less would take many turns for one packet.
const MIN_QUANTUM: u32 = 256;
const MAX_QUANTUM: u32 = 1 << 20;
/// Queues whose backlogs share a bound.
const BLOCK: usize = 32;
/// No slot, or no queue.
const NONE: u32 = u32::MAX;

/// Parameters of FQ-CoDel (RFC 8290).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FqCoDelSettings {
    /// Of each queue's `CoDel`, and the limits of all of them together.
    pub codel: CoDelSettings,
    /// Queues that flows are hashed into; rounded up to a power of two, 65536 at most.
    pub queues: u32,
    /// Bytes a queue may send in its turn.
    pub quantum: u32,
}

impl Default for FqCoDelSettings {
    /// RFC 8290 §5.2, with the limits of [`Limits::default`].
    fn default() -> Self {
        FqCoDelSettings { codel: CoDelSettings::default(), queues: 1024, quantum: 1514 }
    }
}

/// Flow queueing with controlled delay (RFC 8290): a queue for each flow, served in turn by bytes, each under
/// [`CoDel`](crate::CoDelSettings).
///
/// A queue that was empty is served before those that are not: a flow that sends less than its share never waits for
/// the others. If the limits of all queues together are passed, the fattest one loses from its head, a batch at once,
/// so that the search for it costs little for each packet.
///
/// All packets are in one pool of slots, linked to queues; the pool grows to what the limits allow and no further.
/// An empty queue is 64 bytes and its backlog, a slot for each.
#[derive(Debug)]
pub(crate) struct FqCoDel<T> {
    settings: FqCoDelSettings,
    /// Those of `CoDel` that are in force on the path as it is.
    in_force: CoDelSettings,
    pool: Pool<T>,
    queues: Box<[FlowQueue]>,
    /// Bytes in each queue, side by side for the search.
    backlogs: Box<[u64]>,
    /// For each block of queues, what none of them has more than.
    bounds: Box<[u64]>,
    new: List,
    old: List,
    longest: u64,
}

#[derive(Debug, Clone)]
struct FlowQueue {
    chain: Chain,
    law: Law,
    /// Bytes it may still send in its turn.
    deficit: i32,
    /// The queue after it in its list.
    next: u32,
    listed: bool,
}

/// A queue's slots, in order.
#[derive(Debug, Clone, Copy)]
struct Chain {
    head: u32,
    tail: u32,
}

/// Queues that wait for their turn.
#[derive(Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE };

    fn push(&mut self, queues: &mut [FlowQueue], index: u32) {
        queues[index as usize].next = NONE;
        match self.tail {
            NONE => self.head = index,
            tail => queues[tail as usize].next = index,
        }
        self.tail = index;
    }

    fn pop(&mut self, queues: &[FlowQueue]) -> Option<u32> {
        let head = self.head;
        if head == NONE {
            return None;
        }
        self.head = queues[head as usize].next;
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(head)
    }
}

/// Slots for packets, and what is in them.
#[derive(Debug)]
struct Pool<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    held: Held,
}

#[derive(Debug)]
struct Slot<T> {
    next: u32,
    stamped: Option<Stamped<T>>,
}

impl<T: Item> Pool<T> {
    fn push(&mut self, chain: &mut Chain, stamped: Stamped<T>) -> u32 {
        self.held.add(&stamped.item);
        let slot = Slot { next: NONE, stamped: Some(stamped) };
        let index = if self.free == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.slots[index as usize].next;
            self.slots[index as usize] = slot;
            index
        };
        match chain.tail {
            NONE => chain.head = index,
            tail => self.slots[tail as usize].next = index,
        }
        chain.tail = index;
        index
    }

    fn pop(&mut self, chain: &mut Chain) -> Option<Stamped<T>> {
        let index = chain.head;
        let slot = self.slots.get_mut(index as usize)?;
        let stamped = slot.stamped.take()?;
        chain.head = slot.next;
        if chain.head == NONE {
            chain.tail = NONE;
        }
        slot.next = self.free;
        self.free = index;
        self.held.remove(&stamped.item);
        Some(stamped)
    }

    /// The slots of a chain.
    fn chain(&self, chain: &Chain) -> impl Iterator<Item = &Slot<T>> {
        let mut next = chain.head;
        std::iter::from_fn(move || {
            let slot = self.slots.get(next as usize)?;
            next = slot.next;
            Some(slot)
        })
    }

    fn item(&self, index: u32) -> Option<&T> {
        Some(&self.slots.get(index as usize)?.stamped.as_ref()?.item)
    }
}

/// One flow's queue, as `CoDel` sees it.
struct Lane<'a, T> {
    pool: &'a mut Pool<T>,
    chain: &'a mut Chain,
    backlog: &'a mut u64,
}

impl<T: Item> Lane<'_, T> {
    fn first(&self) -> Option<&Stamped<T>> {
        self.pool.slots.get(self.chain.head as usize)?.stamped.as_ref()
    }
}

impl<T: Item> Source<T> for Lane<'_, T> {
    fn pop(&mut self) -> Option<Stamped<T>> {
        let stamped = self.pool.pop(self.chain)?;
        *self.backlog -= stamped.item.bytes() as u64;
        Some(stamped)
    }

    fn bytes(&self) -> u64 {
        *self.backlog
    }
}

impl Describe for FqCoDel<()> {
    type Settings = FqCoDelSettings;
    const DESCRIPTION: &'static Description = &Description {
        word: "fq-codel",
        meaning: "flow queueing with controlled delay, RFC 8290",
        parameters: parameters! { FqCoDel:
            "target", CONTROL_TIME, |fq| Field::Time(&mut fq.codel.target), "acceptable standing sojourn time; grows with the interval";
            "interval", CONTROL_TIME, |fq| Field::Time(&mut fq.codel.interval), "a worst-case round-trip time; at the edge a longer one that was measured, up to ten times as long, takes its place";
            "queues", Range::Count(1, MAX_QUEUES), |fq| Field::Count(&mut fq.queues),
                "queues that flows are hashed into, rounded up to a power of two";
            "quantum", Range::Bytes(MIN_QUANTUM, MAX_QUANTUM), |fq| Field::Bytes(&mut fq.quantum), "what a queue may send in its turn";
            "ecn", Range::Switch, |fq| Field::Switch(&mut fq.codel.ecn), "ECN-capable packets are marked instead of dropped";
        },
        reasons: &[DropReason::SegmentLimit, DropReason::ByteLimit, DropReason::Sojourn],
        default: || Settings::FqCoDel(FqCoDelSettings::default()),
    };

    fn limits_mut(settings: &mut FqCoDelSettings) -> &mut Limits {
        &mut settings.codel.limits
    }

    fn conflict(settings: &FqCoDelSettings) -> Option<Conflict> {
        control_law(settings.codel.target, settings.codel.interval)
    }
}

impl<T: Item> Rules<T> for FqCoDel<T> {
    type Settings = FqCoDelSettings;

    fn new(settings: FqCoDelSettings, _seed: u64) -> Self {
        FqCoDel {
            settings,
            in_force: settings.codel,
            pool: Pool { slots: Vec::new(), free: NONE, held: Held::default() },
            queues: Box::default(),
            backlogs: Box::default(),
            bounds: Box::default(),
            new: List::EMPTY,
            old: List::EMPTY,
            longest: 0,
        }
    }

    /// Takes new settings; `false` if they are of another number of queues.
    fn set(&mut self, settings: FqCoDelSettings) -> bool {
        if settings.queues != self.settings.queues {
            return false;
        }
        (self.settings, self.in_force) = (settings, settings.codel);
        true
    }

    fn observe(&mut self, conditions: &Conditions) {
        self.in_force = self.settings.codel.for_rtt(conditions.measured_rtt);
    }

    fn held(&self) -> Held {
        self.pool.held
    }

    fn control(&self) -> Control {
        let busy = || self.queues.iter().filter(|queue| queue.chain.head != NONE);
        Control {
            flows: Some(busy().count() as u32),
            dropping: Some(busy().any(|queue| queue.law.dropping())),
            ..Control::of(self.settings.codel.limits)
        }
    }

    fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        if self.queues.is_empty() {
            self.make_queues();
        }
        self.longest = self.longest.max(segment_bytes(&item));
        let index = item.flow() as usize & (self.queues.len() - 1);
        let (quantum, bytes, segments) = (self.quantum(), item.bytes() as u64, item.segments());
        let queue = &mut self.queues[index];
        let slot = self.pool.push(&mut queue.chain, Stamped { since: now, item });
        self.backlogs[index] += bytes;
        let bound = &mut self.bounds[index / BLOCK];
        *bound = (*bound).max(self.backlogs[index]);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = quantum;
            self.new.push(&mut self.queues, index as u32);
        }
        let Some(reason) = self.overflow() else { return segments };
        self.drop_from_fattest(reason, ledger);
        while let Some(reason) = self.overflow() {
            self.drop_from_fattest(reason, ledger);
        }
        self.pool.item(slot).map_or(0, Item::segments)
    }

    /// RFC 8290 §4.2.
    fn dequeue<F>(&mut self, now: Instant, ledger: &mut Ledger<'_, F>) -> Option<Stamped<T>>
    where
        F: Discard<T>,
    {
        let quantum = self.quantum();
        loop {
            let (index, is_new) = match self.new.head {
                NONE => (self.old.head, false),
                head => (head, true),
            };
            let queue = self.queues.get_mut(index as usize)?;
            if queue.deficit <= 0 {
                queue.deficit += quantum;
                self.next_turn(is_new);
                continue;
            }
            let mut lane = Lane {
                pool: &mut self.pool,
                chain: &mut queue.chain,
                backlog: &mut self.backlogs[index as usize],
            };
            let sent = queue.law.dequeue(now, &mut lane, self.longest, &self.in_force, ledger);
            if let Some(stamped) = sent {
                queue.deficit = queue.deficit.saturating_sub_unsigned(stamped.item.bytes() as u32);
                return Some(stamped);
            }
            if is_new {
                // Once round with the others, lest a queue that empties and fills again be always new.
                self.next_turn(true);
            } else {
                self.old.pop(&self.queues);
                self.queues[index as usize].listed = false;
            }
        }
    }

    fn pop(&mut self) -> Option<Stamped<T>> {
        loop {
            let list = if self.new.head == NONE { &mut self.old } else { &mut self.new };
            let index = list.head;
            if index == NONE {
                return None;
            }
            if let Some(stamped) = self.lane(index as usize).pop() {
                return Some(stamped);
            }
            let list = if self.new.head == NONE { &mut self.old } else { &mut self.new };
            list.pop(&self.queues);
            self.queues[index as usize].listed = false;
        }
    }

    fn fifo(&mut self) -> Option<&mut Fifo<T>> {
        None
    }

    /// Drops what came before `oldest`, and gives back memory that is not needed for what is left.
    fn expire<F>(&mut self, oldest: Instant, ledger: &mut Ledger<'_, F>)
    where
        F: Discard<T>,
    {
        let mut left = 0;
        for start in [self.new.head, self.old.head] {
            let mut at = start;
            while at != NONE {
                let mut lane = self.lane(at as usize);
                while lane.first().is_some_and(|first| first.since < oldest) {
                    let Some(stamped) = lane.pop() else { break };
                    ledger.drop(stamped.item, DropReason::Expired);
                }
                let queue = &self.queues[at as usize];
                left += self.pool.chain(&queue.chain).count();
                at = queue.next;
            }
        }
        if left == 0 {
            let (longest, in_force) = (self.longest, self.in_force);
            *self = FqCoDel { in_force, longest, ..FqCoDel::new(self.settings, 0) };
        } else if is_too_large(self.pool.slots.capacity(), left) {
            self.move_slots(left);
        }
    }

    /// Takes out the first packet of the fattest queue.
    fn shed(&mut self) -> Option<Stamped<T>> {
        if self.pool.held.segments == 0 {
            return None;
        }
        let fattest = self.fattest();
        self.lane(fattest).pop()
    }
}

impl<T: Item> FqCoDel<T> {
    /// Makes the queues. Not before the first packet: a gateway may have a thousand peers that send nothing.
    #[cold]
    fn make_queues(&mut self) {
        let count = self.settings.queues.clamp(1, MAX_QUEUES).next_power_of_two() as usize;
        let empty = FlowQueue {
            chain: Chain { head: NONE, tail: NONE },
            law: Law::default(),
            deficit: 0,
            next: NONE,
            listed: false,
        };
        self.queues = vec![empty; count].into_boxed_slice();
        self.backlogs = vec![0; count].into_boxed_slice();
        self.bounds = vec![0; count.div_ceil(BLOCK)].into_boxed_slice();
    }

    /// What a queue may send in its turn; never so little that a round brings nobody forward.
    fn quantum(&self) -> i32 {
        self.settings.quantum.clamp(1, 1 << 30).cast_signed()
    }

    fn lane(&mut self, index: usize) -> Lane<'_, T> {
        Lane {
            pool: &mut self.pool,
            chain: &mut self.queues[index].chain,
            backlog: &mut self.backlogs[index],
        }
    }

    fn overflow(&self) -> Option<DropReason> {
        let (held, limits) = (self.pool.held, self.settings.codel.limits);
        if held.segments > u64::from(limits.segments) {
            Some(DropReason::SegmentLimit)
        } else if held.bytes > limits.bytes {
            Some(DropReason::ByteLimit)
        } else {
            None
        }
    }

    /// A queue than which none has more bytes. The block with the highest bound is looked through; if none in it
    /// reaches the bound any more, the bound is lowered to what is there, and another block may be the highest.
    fn fattest(&mut self) -> usize {
        loop {
            let block = fattest_of(&self.bounds);
            let start = block * BLOCK;
            let end = (start + BLOCK).min(self.backlogs.len());
            let fattest = start + fattest_of(&self.backlogs[start..end]);
            if self.backlogs[fattest] == self.bounds[block] {
                return fattest;
            }
            self.bounds[block] = self.backlogs[fattest];
        }
    }

    #[cold]
    fn drop_from_fattest<F>(&mut self, reason: DropReason, ledger: &mut Ledger<'_, F>)
    where
        F: Discard<T>,
    {
        let fattest = self.fattest();
        let mut bytes_left = self.backlogs[fattest] / 2;
        let mut segments_left = BATCH_SEGMENTS;
        // One at least goes, whole or in part.
        loop {
            let mut lane = self.lane(fattest);
            let head = lane.chain.head;
            let Some(item) = lane.pool.item(head) else { return };
            let (segments, bytes) = (u64::from(item.segments()), item.bytes() as u64);
            if segments > 1 && (segments > segments_left || bytes > bytes_left) {
                let lost = segments_left.min(segments * bytes_left / bytes.max(1)).max(1);
                self.trim_head(fattest, (segments - lost) as u32, reason, ledger);
                return;
            }
            if let Some(stamped) = lane.pop() {
                ledger.drop(stamped.item, reason);
            }
            segments_left = segments_left.saturating_sub(segments);
            bytes_left = bytes_left.saturating_sub(bytes);
            if segments_left == 0 || bytes_left == 0 {
                return;
            }
        }
    }

    /// Moves what waits to storage of its size.
    fn move_slots(&mut self, items: usize) {
        let mut old = std::mem::replace(
            &mut self.pool,
            Pool { slots: Vec::with_capacity(2 * items), free: NONE, held: Held::default() },
        );
        for start in [self.new.head, self.old.head] {
            let mut at = start;
            while at != NONE {
                let queue = &mut self.queues[at as usize];
                let mut moved = Chain { head: NONE, tail: NONE };
                while let Some(stamped) = old.pop(&mut queue.chain) {
                    self.pool.push(&mut moved, stamped);
                }
                queue.chain = moved;
                at = queue.next;
            }
        }
    }

    /// Cuts the super-packet at the head of a queue down to `keep` segments where it stands.
    fn trim_head<F>(&mut self, index: usize, keep: u32, reason: DropReason, ledger: &mut Ledger<'_, F>)
    where
        F: Discard<T>,
    {
        let slot = &mut self.pool.slots[self.queues[index].chain.head as usize];
        let Some(stamped) = &mut slot.stamped else { return };
        let before = stamped.item.bytes() as u64;
        self.pool.held.remove(&stamped.item);
        ledger.trim(&mut stamped.item, keep, reason);
        self.pool.held.add(&stamped.item);
        self.backlogs[index] -= before - stamped.item.bytes() as u64;
    }

    /// Moves the first queue of a list to the end of the old ones.
    fn next_turn(&mut self, from_new: bool) {
        let list = if from_new { &mut self.new } else { &mut self.old };
        if let Some(index) = list.pop(&self.queues) {
            self.old.push(&mut self.queues, index);
        }
    }
}

/// Where the largest is; the first of several.
fn fattest_of(bytes: &[u64]) -> usize {
    let (mut max, mut at) = (0, 0);
    for (index, bytes) in bytes.iter().enumerate() {
        if *bytes > max {
            (max, at) = (*bytes, index);
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Packet, packet, refuse};
    use crate::{CoDelSettings, Limits, Queue, Settings};

    fn settings(segments: u32) -> FqCoDelSettings {
        let limits = Limits { segments, bytes: u64::MAX };
        FqCoDelSettings {
            codel: CoDelSettings { limits, ..CoDelSettings::default() },
            ..FqCoDelSettings::default()
        }
    }

    fn queue(segments: u32) -> Queue<Packet> {
        Queue::new(Settings::FqCoDel(settings(segments)), 1)
    }

    fn of(flow: u64, id: u32, bytes: usize) -> Packet {
        Packet { flow, bytes, ..packet(id) }
    }

    #[test]
    fn an_empty_queue_is_small() {
        assert!(size_of::<FlowQueue>() <= 64, "{}", size_of::<FlowQueue>());
    }

    #[test]
    fn a_sparse_flow_passes_those_with_a_backlog() {
        let mut q = queue(10_000);
        for id in 0..1000 {
            q.enqueue(Instant::ZERO, of(1 + u64::from(id) % 4, id, 1500), &mut refuse);
        }
        for _ in 0..20 {
            q.dequeue(Instant::ZERO, &mut refuse);
        }
        q.enqueue(Instant::ZERO, of(99, 5000, 200), &mut refuse);
        let next = q.dequeue(Instant::ZERO, &mut refuse).unwrap();
        assert_eq!(next.item.id, 5000);
    }

    #[test]
    fn a_flow_that_always_comes_back_new_does_not_starve_the_others() {
        let mut q = queue(10_000);
        for id in 0..200 {
            q.enqueue(Instant::ZERO, of(1, id, 1500), &mut refuse);
        }
        let mut bulk = 0;
        // Whenever its queue is empty the other flow sends a full packet.
        for _ in 0..100 {
            q.enqueue(Instant::ZERO, of(2, 0, 1500), &mut refuse);
            for _ in 0..2 {
                bulk += u32::from(q.dequeue(Instant::ZERO, &mut refuse).unwrap().item.flow == 1);
            }
        }
        assert!((95..=105).contains(&bulk), "{bulk}");
    }

    #[test]
    fn two_flows_share_bytes_equally_whatever_the_length_of_their_packets() {
        let mut q = queue(100_000);
        for id in 0..4000 {
            q.enqueue(Instant::ZERO, of(1, id, 1500), &mut refuse);
            for _ in 0..5 {
                q.enqueue(Instant::ZERO, of(2, id, 300), &mut refuse);
            }
            let long = Packet { segments: 10, ..of(3, id, 15_000) };
            q.enqueue(Instant::ZERO, long, &mut refuse);
        }
        let mut bytes = [0_i64; 4];
        for _ in 0..2000 {
            let sent = q.dequeue(Instant::ZERO, &mut refuse).unwrap().item;
            bytes[sent.flow as usize] += i64::try_from(sent.bytes).unwrap();
        }
        assert!((bytes[1] - bytes[2]).abs() <= 2 * 1514, "{bytes:?}");
        assert!((bytes[1] - bytes[3]).abs() <= 15_000 + 1514, "{bytes:?}");
    }

    #[test]
    fn an_overflow_takes_half_of_the_fattest_queue_from_its_head() {
        let mut q = queue(100);
        let mut dropped = Vec::new();
        for id in 0..60 {
            q.enqueue(Instant::ZERO, of(1, id, 1000), &mut refuse);
        }
        for id in 100..140 {
            q.enqueue(Instant::ZERO, of(2, id, 500), &mut refuse);
        }
        let waits = q.enqueue(Instant::ZERO, of(2, 140, 500), &mut |gone: Packet, reason| {
            dropped.push(gone.id);
            assert_eq!(reason, DropReason::SegmentLimit);
        });
        assert_eq!((waits, dropped), (1, (0..30).collect::<Vec<_>>()));
    }

    #[test]
    fn an_overflow_takes_64_segments_at_most_and_cuts_super_packets() {
        let mut q = queue(1000);
        for id in 0..33 {
            q.enqueue(Instant::ZERO, Packet { segments: 30, ..of(1, id, 30_000) }, &mut refuse);
        }
        let mut dropped = Vec::new();
        let waits = q.enqueue(Instant::ZERO, Packet { segments: 30, ..of(1, 99, 30_000) }, &mut |gone, _| {
            dropped.push(gone.id);
        });
        // Two whole ones, and four segments of the third.
        assert_eq!((waits, dropped), (30, vec![0, 1]));
        assert_eq!(q.stats().dropped_for(DropReason::SegmentLimit), 64);
        let first = q.dequeue(Instant::ZERO, &mut refuse).unwrap().item;
        assert_eq!((first.id, first.segments), (2, 26));
    }

    #[test]
    fn a_packet_longer_than_all_the_room_loses_what_does_not_fit() {
        let mut q = queue(10);
        let waits = q.enqueue(Instant::ZERO, Packet { segments: 45, ..of(1, 1, 45_000) }, &mut refuse);
        assert!((1..=10).contains(&waits), "{waits}");
        assert_eq!(q.stats().backlog_segments, u64::from(waits));
        let mut none = queue(0);
        let mut dropped = 0;
        assert_eq!(none.enqueue(Instant::ZERO, packet(1), &mut |_, _| dropped += 1), 0);
        assert_eq!(dropped, 1);
        assert!(none.dequeue(Instant::ZERO, &mut refuse).is_none());
    }

    /// A discipline that nobody sends to costs nothing, nor one that has got rid of what waited.
    #[test]
    fn there_are_no_queues_before_the_first_packet_nor_after_the_last_has_expired() {
        let mut q = FqCoDel::new(settings(500), 0);
        let mut stats = crate::Stats::default();
        assert!(q.queues.is_empty() && q.backlogs.is_empty() && q.pool.slots.capacity() == 0);
        for id in 0..300 {
            let mut ledger = Ledger { stats: &mut stats, on_drop: &mut crate::ledger::Call(&mut |_, _| ()) };
            q.enqueue(Instant::from_millis(id.into()), of(u64::from(id % 7), id, 100), &mut ledger);
        }
        let mut ledger = Ledger { stats: &mut stats, on_drop: &mut crate::ledger::Call(&mut |_, _| ()) };
        q.expire(Instant::from_millis(290), &mut ledger);
        assert_eq!(q.held().segments, 10);
        assert!(q.pool.slots.capacity() <= 64, "{}", q.pool.slots.capacity());
        let left: Vec<u32> = std::iter::from_fn(|| q.pop()).map(|stamped| stamped.item.id).collect();
        assert!(left.len() == 10 && left.iter().all(|id| *id >= 290), "{left:?}");
        let mut ledger = Ledger { stats: &mut stats, on_drop: &mut crate::ledger::Call(&mut |_, _| ()) };
        q.expire(Instant::from_millis(400), &mut ledger);
        assert!(q.queues.is_empty() && q.pool.slots.capacity() == 0);
    }

    #[test]
    fn the_fattest_queue_is_found_whatever_came_and_left() {
        let mut q = FqCoDel::new(settings(500), 0);
        q.make_queues();
        let mut rng = trunkline_units::Rng::new(4, "fattest");
        let mut stats = crate::Stats::default();
        for id in 0..20_000 {
            let mut ledger = Ledger { stats: &mut stats, on_drop: &mut crate::ledger::Call(&mut |_, _| ()) };
            if rng.chance(0.55) {
                let item = of(rng.below(200), id, 100 + rng.below(1400) as usize);
                q.enqueue(Instant::ZERO, item, &mut ledger);
            } else {
                q.dequeue(Instant::ZERO, &mut ledger);
            }
            let fattest = q.fattest();
            assert_eq!(q.backlogs[fattest], q.backlogs.iter().copied().max().unwrap());
        }
    }

    #[test]
    fn the_pool_has_a_slot_for_each_packet_that_ever_waited_at_once_and_one_to_spare() {
        let mut q = FqCoDel::new(settings(50), 0);
        let mut stats = crate::Stats::default();
        for id in 0..10_000_u32 {
            let mut ledger = Ledger { stats: &mut stats, on_drop: &mut crate::ledger::Call(&mut |_, _| ()) };
            q.enqueue(Instant::ZERO, of(u64::from(id * 7919 % 31), id, 1000), &mut ledger);
            if id % 3 == 0 {
                q.dequeue(Instant::ZERO, &mut ledger);
            }
        }
        assert!(stats.dropped_total() > 1000);
        assert_eq!(q.pool.slots.len(), 51);
    }

    #[test]
    fn each_queue_has_a_control_law_of_its_own() {
        let mut q = queue(100_000);
        let mut dropped = [0_u32; 3];
        for ms in 0..3000_u64 {
            let now = Instant::from_millis(ms);
            // Flow 1 sends three packets a millisecond, flow 2 one in four; two can leave.
            for _ in 0..3 {
                q.enqueue(now, of(1, 0, 1500), &mut |_, _| ());
            }
            if ms % 4 == 0 {
                q.enqueue(now, of(2, 0, 1500), &mut |_, _| ());
            }
            for _ in 0..2 {
                q.dequeue(now, &mut |gone: Packet, reason| {
                    assert_eq!(reason, DropReason::Sojourn);
                    dropped[gone.flow as usize] += 1;
                });
            }
        }
        assert!(dropped[1] > 100 && dropped[2] == 0, "{dropped:?}");
    }
}
