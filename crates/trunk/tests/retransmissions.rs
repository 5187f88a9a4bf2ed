//! A user's TCP over the retransmission filter: whatever happens outside the trunk, every byte arrives; and while
//! nothing is lost there, next to nothing is carried twice.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::common::{Whole, class};
use trunkline_packet::{TcpFlags, TcpView, build};
use trunkline_trunk::{LaneId, Poll, Transmitter, TrunkPlan};
use trunkline_units::{Instant, Rng, Seq};

const LANE: LaneId = LaneId(0);
const SEGMENT: u32 = 1000;

/// What the world outside the trunk and the lane itself do to packets. Times in ms.
#[derive(Debug, Clone, Copy)]
struct World {
    /// Probability that a packet is lost behind the trunk, each way.
    loss: f64,
    /// Longest random delay behind the trunk, each way: more than the spacing of packets reorders them.
    jitter: u64,
    /// Probability, for each ms, that the lane stands still, and for how long.
    stall: f64,
    stall_for: u64,
    /// Packets the edge queue takes.
    edge: u32,
    /// Whether the receiver reports with SACK.
    sack: bool,
}

/// Something on its way.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A data packet reaches the receiver.
    Data(Vec<u8>),
    /// An acknowledgement comes out of the trunk on its way back.
    Returning(Vec<u8>),
    /// The lane's far end has acknowledged everything before this place.
    Delivered(u64),
}

/// A sender that knows slow start, fast retransmit and time-outs with back-off, in segments.
struct Sender {
    first: Seq,
    segments: u32,
    acknowledged: u32,
    next: u32,
    window: u32,
    duplicates: u32,
    sacked: BTreeSet<u32>,
    timer: u64,
    time_out: u64,
    retransmissions: u32,
}

impl Sender {
    /// The segments to send now.
    fn poll(&mut self, now: u64) -> Vec<u32> {
        let mut out = Vec::new();
        if self.acknowledged == self.segments {
            return out;
        }
        if now >= self.timer {
            // RFC 6298 §5: back off, and start over from what is not acknowledged.
            self.time_out = (self.time_out * 2).min(4000);
            self.timer = now + self.time_out;
            self.window = 1;
            self.next = self.acknowledged;
            self.duplicates = 0;
        }
        while self.next < self.segments && self.next < self.acknowledged + self.window {
            if !self.sacked.contains(&self.next) {
                out.push(self.next);
            }
            self.next += 1;
        }
        out
    }

    /// An acknowledgement; the segment to retransmit at once, if any.
    fn acknowledge(&mut self, now: u64, view: &TcpView<'_>) -> Option<u32> {
        let ack = (Seq(view.ack()) - self.first) / SEGMENT;
        for block in view.options().get(4..).unwrap_or_default().as_chunks::<8>().0 {
            let edge =
                |at: usize| Seq(u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]));
            self.sacked.extend((edge(0) - self.first) / SEGMENT..(edge(4) - self.first) / SEGMENT);
        }
        if ack > self.acknowledged {
            self.acknowledged = ack;
            self.next = self.next.max(ack);
            self.window = (self.window + 1).min(64);
            self.duplicates = 0;
            self.time_out = 200;
            self.timer = now + self.time_out;
            return None;
        }
        self.duplicates += 1;
        (self.duplicates == 3).then(|| {
            self.window = (self.window / 2).max(2);
            self.acknowledged
        })
    }
}

#[derive(Default)]
struct Receiver {
    have: BTreeSet<u32>,
    next: u32,
}

impl Receiver {
    fn receive(&mut self, first: Seq, bytes: &[u8], sack: bool) -> Vec<u8> {
        let view = TcpView::new(&bytes[20..]).expect("TCP");
        let segment = (Seq(view.seq()) - first) / SEGMENT;
        self.have.insert(segment);
        while self.have.contains(&self.next) {
            self.next += 1;
        }
        let mut options = Vec::new();
        if let Some(start) = self.have.range(self.next..).next().copied().filter(|_| sack) {
            let end = start
                + self.have.range(start..).zip(start..).take_while(|(have, next)| *have == next).count()
                    as u32;
            options.extend([1, 1, 5, 10]);
            options.extend((first + start * SEGMENT).0.to_be_bytes());
            options.extend((first + end * SEGMENT).0.to_be_bytes());
        }
        returning(Seq(1), first + self.next * SEGMENT, TcpFlags::ACK, &options).bytes
    }
}

/// A segment of the sender.
fn data(seq: Seq) -> Whole {
    let tcp =
        build::Tcp { ports: (5000, 80), seq: seq.0, ack: 1, flags: TcpFlags::ACK, ..build::Tcp::default() };
    Whole::new(build::tcp(&build::Ip::v4(), &tcp, &[0; SEGMENT as usize]))
}

/// A packet of the receiver.
fn returning(seq: Seq, ack: Seq, flags: TcpFlags, options: &[u8]) -> Whole {
    let to = build::Ip::v4();
    let back = build::Ip { source: to.destination, destination: to.source, ..to };
    let tcp =
        build::Tcp { ports: (80, 5000), seq: seq.0, ack: ack.0, flags, options, ..build::Tcp::default() };
    Whole::new(build::tcp(&back, &tcp, &[]))
}

const SACK_PERMITTED: [u8; 4] = [1, 1, 4, 2];

struct Outcome {
    finished_ms: Option<u64>,
    /// Segments that the sender sent again.
    retransmitted: u32,
    /// Segments that the lane was handed.
    carried: u32,
    filtered: u64,
}

/// Sends `segments` segments through `world`, for ten minutes of its time at most.
fn transfer(seed: u64, segments: u32, world: World) -> Outcome {
    let mut rng = Rng::new(seed, "repeats");
    let first = Seq(rng.next_u64() as u32);
    let mut transmitter: Transmitter<Whole> =
        Transmitter::new(TrunkPlan::one_lane_per_class(vec![class("all", vec![], world.edge)]), 64, seed);
    let hello = returning(
        Seq(0),
        first,
        TcpFlags::SYN | TcpFlags::ACK,
        if world.sack { &SACK_PERMITTED } else { &[] },
    );
    transmitter.handle_returning(Instant::ZERO, &hello.headers(), &hello.bytes);
    let mut sender = Sender {
        first,
        segments,
        acknowledged: 0,
        next: 0,
        window: 4,
        duplicates: 0,
        sacked: BTreeSet::new(),
        timer: 200,
        time_out: 200,
        retransmissions: 0,
    };
    let mut sent = BTreeSet::new();
    let mut receiver = Receiver::default();
    let mut events: BinaryHeap<Reverse<(u64, u64, Event)>> = BinaryHeap::new();
    let (mut order, mut position, mut carried, mut stalled_until) = (0, 0_u64, 0, 0);
    for now in 0..600_000_u64 {
        let at = Instant::from_millis(now);
        let mut retransmission = None;
        let mut schedule = |events: &mut BinaryHeap<_>, when: u64, event| {
            order += 1;
            events.push(Reverse((when, order, event)));
        };
        while events.peek().is_some_and(|Reverse((when, ..))| *when <= now) {
            let Some(Reverse((_, _, event))) = events.pop() else { break };
            match event {
                Event::Data(bytes) => {
                    let answer = receiver.receive(first, &bytes, world.sack);
                    if !rng.chance(world.loss) {
                        schedule(
                            &mut events,
                            now + 1 + rng.below(world.jitter + 1),
                            Event::Returning(answer),
                        );
                    }
                }
                Event::Returning(bytes) => {
                    let packet = Whole::new(bytes);
                    transmitter.handle_returning(at, &packet.headers(), &packet.bytes);
                    let view = TcpView::new(&packet.bytes[20..]).expect("TCP");
                    retransmission = retransmission.or(sender.acknowledge(now, &view));
                }
                Event::Delivered(position) => transmitter.handle_delivered(LANE, position),
            }
        }
        let wanted: Vec<u32> = retransmission.into_iter().chain(sender.poll(now)).collect();
        for segment in wanted {
            sender.retransmissions += u32::from(!sent.insert(segment));
            let packet = data(first + segment * SEGMENT);
            let _ = transmitter.handle_packet(at, &packet.headers(), packet, drop);
        }
        if now >= stalled_until && rng.chance(world.stall) {
            stalled_until = now + world.stall_for;
        }
        // A packet a ms, while the lane runs; the far end has it 10 ms later, we know of that after 10 more.
        if now >= stalled_until
            && let Poll::Packet(packet) = transmitter.poll_transmit(at, LANE, &mut 1, drop)
        {
            carried += 1;
            position += packet.bytes.len() as u64;
            transmitter.handle_transmitted(LANE, position);
            if !rng.chance(world.loss) {
                schedule(&mut events, now + 10 + rng.below(world.jitter + 1), Event::Data(packet.bytes));
            }
            schedule(&mut events, now + 20, Event::Delivered(position));
        }
        if sender.acknowledged == segments {
            let filtered = transmitter.report(at)[0].stats.filtered;
            assert_eq!(receiver.next, segments);
            return Outcome {
                finished_ms: Some(now),
                retransmitted: sender.retransmissions,
                carried,
                filtered,
            };
        }
    }
    Outcome {
        finished_ms: None,
        retransmitted: sender.retransmissions,
        carried,
        filtered: transmitter.report(Instant::ZERO)[0].stats.filtered,
    }
}

const CALM: World = World { loss: 0.0, jitter: 0, stall: 0.0, stall_for: 0, edge: 1000, sack: true };

#[test]
fn every_byte_arrives_whatever_happens_outside_the_trunk() {
    let mut filtered = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed, "world");
        let world = World {
            loss: rng.uniform() * 0.2,
            jitter: rng.below(30),
            stall: rng.uniform() * 0.01,
            stall_for: rng.below(1500),
            edge: 4 + rng.below(100) as u32,
            sack: rng.chance(0.5),
        };
        let outcome = transfer(seed, 150, world);
        assert!(outcome.finished_ms.is_some(), "seed {seed}: {world:?} never finished");
        filtered += outcome.filtered;
    }
    assert!(filtered > 100, "only {filtered} retransmissions were filtered: the worlds are too kind to tell");
}

#[test]
fn nothing_is_filtered_or_retransmitted_where_nothing_goes_wrong() {
    let outcome = transfer(1, 1000, CALM);
    assert_eq!((outcome.retransmitted, outcome.filtered, outcome.carried), (0, 0, 1000));
}

/// The meltdown: the lane stands still for longer than the user's time-out, as TCP does while it repairs a loss.
#[test]
fn while_the_lane_repairs_itself_no_retransmission_is_carried() {
    let (mut retransmitted, mut carried) = (0, 0);
    for seed in 0..50 {
        for sack in [true, false] {
            let outcome = transfer(seed, 500, World { stall: 0.003, stall_for: 900, sack, ..CALM });
            assert!(outcome.finished_ms.is_some());
            retransmitted += outcome.retransmitted;
            carried += outcome.carried - 500;
            assert_eq!(u64::from(outcome.retransmitted - (outcome.carried - 500)), outcome.filtered);
        }
    }
    assert!(retransmitted > 1000, "only {retransmitted} retransmissions: the stalls are too kind to tell");
    assert!(carried * 100 <= 50 * 2 * 500, "{carried} of {retransmitted} retransmissions were carried");
}

/// A segment lost behind the trunk is asked for by duplicate acknowledgements while the lane has not yet said that it
/// delivered: its retransmission must pass at once, and not only after a time-out.
#[test]
fn a_retransmission_that_the_receiver_asked_for_passes_at_once() {
    for sack in [true, false] {
        let (mut with_loss, mut seeds) = (0, 0);
        for seed in 0..50 {
            let outcome = transfer(seed, 300, World { loss: 0.01, sack, ..CALM });
            with_loss += outcome.finished_ms.expect("it finishes");
            seeds += 1;
        }
        let mean = with_loss / seeds;
        let calm = transfer(0, 300, World { sack, ..CALM }).finished_ms.expect("it finishes");
        // Three losses in 300 segments. A time-out each would be 600 ms and more.
        assert!(mean < calm + 450, "sack {sack}: {mean} ms with losses, {calm} ms without");
    }
}

/// A retransmission that arrives is answered by an acknowledgement that was there before. Of a receiver that knows SACK this says nothing
/// of a loss: the next retransmission of what waits in the trunk must not pass on it, or each would let another one in.
#[test]
fn an_acknowledgement_of_what_came_twice_lets_nothing_pass_where_sack_would_say_of_a_loss() {
    let first = Seq(1000);
    for (options, blocks, passes) in [
        (&SACK_PERMITTED[..], &[][..], false),
        (&[], &[], true),
        // The third segment has arrived, and the second has not.
        (&SACK_PERMITTED, &[1, 1, 5, 10, 0, 0, 0x0b, 0xb8, 0, 0, 0x0f, 0xa0], true),
    ] {
        let plan = TrunkPlan::one_lane_per_class(vec![class("all", vec![], 100)]);
        let mut transmitter: Transmitter<Whole> = Transmitter::new(plan, 64, 1);
        let at = Instant::from_millis;
        let hello = returning(Seq(0), first, TcpFlags::SYN | TcpFlags::ACK, options);
        transmitter.handle_returning(at(0), &hello.headers(), &hello.bytes);
        let packet = |segment: u32| data(first + segment * SEGMENT);
        for segment in 0..4 {
            let _ = transmitter.handle_packet(at(1), &packet(segment).headers(), packet(segment), drop);
        }
        for options in [&[], blocks] {
            let answer = returning(Seq(1), first + SEGMENT, TcpFlags::ACK, options);
            transmitter.handle_returning(at(2), &answer.headers(), &answer.bytes);
        }
        let _ = transmitter.handle_packet(at(3), &packet(1).headers(), packet(1), drop);
        let filtered = transmitter.report(at(3))[0].stats.filtered;
        assert_eq!(filtered, u64::from(!passes), "{options:?} {blocks:?}");
    }
}
