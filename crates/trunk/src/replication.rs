//! Packets that travel twice: replication and elimination (RFC 8655 §3.2.2.2).
//!
//! A lane over TCP delivers in order. On a path that loses packets all that a lane carries waits for each loss, a round trip and more.
//! What two lanes carry waits only for packets that both of them lose. So a class of little traffic that does not bear to wait has its
//! packets sent over two lanes, and the far site passes on the one that comes first.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::path::PathSummary;

/// The number of a packet that is sent more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceNumber {
    /// Which sender counts: chosen at random when it starts.
    pub space: u32,
    /// Its count, modulo 2^32.
    pub number: u32,
}

impl SequenceNumber {
    /// Bytes it is written in.
    pub const BYTES: usize = 8;

    /// Both numbers in network byte order.
    pub fn encode(self) -> [u8; Self::BYTES] {
        (u64::from(self.space) << 32 | u64::from(self.number)).to_be_bytes()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let both = u64::from_be_bytes(*bytes);
        SequenceNumber { space: (both >> 32) as u32, number: both as u32 }
    }
}

/// Which packets of one class are sent twice: all, or those on paths that lose packets, as long as the copies are a small part of what
/// the path carries.
#[derive(Debug, Clone)]
pub(crate) struct Replication {
    /// By lane of the class, the bytes a second that copies of what it carries may have; empty where all packets are sent twice.
    rates: Vec<f64>,
    /// Bytes that they may have now.
    credit: f64,
    updated: Instant,
}

impl Replication {
    /// Copies have at most this part of the capacity, and so much while that is unknown.
    const PART: f64 = 0.04;
    const UNKNOWN: Rate = Rate::from_bits_per_second(100_000);
    /// They may have as much at once as in this time, or so many bytes.
    const BURST: Duration = Duration::from_millis(250);
    const MIN_BURST: f64 = 3000.0;
    /// What a packet takes up in a lane beside its own bytes, about: headers of TCP and IP, a record, its number.
    const OVERHEAD: usize = 90;

    pub(crate) fn new(lanes: usize) -> Self {
        Replication { rates: vec![0.0; lanes], credit: 0.0, updated: Instant::ZERO }
    }

    /// Every packet is sent twice.
    pub(crate) fn of_all() -> Self {
        Self::new(0)
    }

    /// Takes what is known of the path of the lane in this place.
    pub(crate) fn handle_path(&mut self, place: usize, path: PathSummary) {
        let Some(rate) = self.rates.get_mut(place) else { return };
        let part = path.capacity.map_or(Self::UNKNOWN.bits_per_second() as f64, |capacity| {
            capacity.bits_per_second() as f64 * Self::PART
        });
        *rate = if path.loses { part / 8.0 } else { 0.0 };
    }

    /// Whether a packet of so many bytes on the lane in this place is to be sent over another one too.
    #[inline]
    pub(crate) fn takes(&mut self, now: Instant, place: usize, bytes: usize) -> bool {
        let Some(rate) = self.rates.get(place).copied() else { return true };
        if rate <= 0.0 {
            return false;
        }
        let elapsed = now.saturating_since(std::mem::replace(&mut self.updated, now));
        let burst = (rate * Self::BURST.as_secs_f64()).max(Self::MIN_BURST);
        self.credit = (self.credit + rate * elapsed.as_secs_f64()).min(burst);
        let cost = (bytes + Self::OVERHEAD) as f64;
        let takes = cost <= self.credit;
        self.credit -= if takes { cost } else { 0.0 };
        takes
    }
}

/// Which numbered packets of a peer have come: the receiver's half.
#[derive(Debug, Clone, Default)]
pub(crate) struct Elimination {
    /// The senders of the peer, one for each of its shards, the one that came up last at the end.
    spaces: Vec<Space>,
}

/// The packets of one sender.
#[derive(Debug, Clone)]
struct Space {
    id: u32,
    /// The highest number, and by number modulo their count whether it and those before it have come.
    highest: u32,
    seen: [u64; Self::WINDOW as usize / 64],
}

impl Elimination {
    /// A peer has as many shards at most; what is more is remembered no longer.
    const SPACES: usize = 64;

    /// Whether this packet is the first one with its number. One so far behind that nothing is known of it is not.
    pub(crate) fn is_first(&mut self, number: SequenceNumber) -> bool {
        let SequenceNumber { space, number } = number;
        let at = self.spaces.iter().position(|known| known.id == space).unwrap_or_else(|| {
            if self.spaces.len() == Self::SPACES {
                self.spaces.remove(0);
            }
            self.spaces.push(Space { id: space, highest: number.wrapping_sub(1), seen: [0; _] });
            self.spaces.len() - 1
        });
        self.spaces[at].is_first(number)
    }
}

impl Space {
    /// Numbers that are remembered: two seconds of the largest class that is sent twice, 4 % of 100 Mbit/s in packets of 300 bytes.
    const WINDOW: u32 = 4096;

    const fn place(number: u32) -> (usize, u64) {
        let number = number % Self::WINDOW;
        (number as usize / 64, 1 << (number % 64))
    }

    fn is_first(&mut self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.highest);
        if ahead == 0 || ahead > u32::MAX / 2 {
            if self.highest.wrapping_sub(number) >= Self::WINDOW {
                return false;
            }
        } else {
            // Those in between have not come.
            if ahead >= Self::WINDOW {
                self.seen = [0; _];
            } else {
                for skipped in 1..=ahead {
                    let (word, bit) = Self::place(self.highest.wrapping_add(skipped));
                    self.seen[word] &= !bit;
                }
            }
            self.highest = number;
        }
        let (word, bit) = Self::place(number);
        let is_first = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        is_first
    }
}

#[cfg(test)]
mod tests {
    use trunkline_packet::{Headers, TcpFlags, build};
    use trunkline_queue::Settings;

    use super::*;
    use crate::{
        ClassSettings, Label, LaneGroup, LaneId, Offered, Packet, PacketStore, PathConditions, PathPolicy,
        PathSettings, Poll, Transmitter, TrunkPlan,
    };

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let number = SequenceNumber { space: 0x0102_0304, number: 0xfffe_fdfc };
        assert_eq!(number.encode(), [1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0xfc]);
        assert_eq!(SequenceNumber::decode(&number.encode()), number);
    }

    /// Against a set of all numbers that have come.
    #[test]
    fn each_number_passes_once_in_whatever_order_two_lanes_deliver() {
        let mut random = 1_u64;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        for start in [0_u32, u32::MAX - 500, u32::MAX / 2 - 10] {
            let (mut elimination, mut come) = (Elimination::default(), std::collections::BTreeSet::new());
            // Each lane delivers in order, one up to 3000 packets behind the other.
            let (mut lanes, mut firsts) = ([0_u32; 2], 0);
            while lanes != [20_000; 2] {
                let lane = next(2) as usize;
                let bound = 20_000.min(lanes[1 - lane] + 3000);
                let burst = next(700) as u32;
                let end = bound.min(lanes[lane] + burst).max(lanes[lane]);
                for at in lanes[lane]..end {
                    let number = SequenceNumber { space: 7, number: start.wrapping_add(at) };
                    let first = elimination.is_first(number);
                    assert_eq!(first, come.insert(at), "{number:?}");
                    firsts += u32::from(first);
                }
                lanes[lane] = end;
            }
            assert_eq!(firsts, 20_000);
        }
    }

    #[test]
    fn what_is_far_behind_does_not_pass_and_what_jumps_ahead_does() {
        let mut elimination = Elimination::default();
        let mut first = |space, number| elimination.is_first(SequenceNumber { space, number });
        assert!(first(1, 10_000) && !first(1, 10_000));
        assert!(first(1, 9_999), "not seen, and within the window");
        assert!(!first(1, 10_000 - Space::WINDOW), "nobody knows");
        assert!(first(1, 2_000_000) && first(1, 1_999_999) && !first(1, 2_000_000));
        assert!(first(2, 10_000), "another sender");
    }

    #[test]
    fn a_peer_that_starts_again_and_again_takes_no_more_memory() {
        let mut elimination = Elimination::default();
        for space in 0..1000 {
            assert!(elimination.is_first(SequenceNumber { space, number: 5 }));
        }
        assert_eq!(elimination.spaces.len(), Elimination::SPACES);
    }

    #[test]
    fn copies_stay_below_their_part_of_the_capacity_and_end_with_the_losses() {
        let mut replication = Replication::new(2);
        let path = PathSummary { capacity: Some(Rate::from_mbit(10.0)), loses: true };
        let run = |replication: &mut Replication, from: u64, place| {
            let packets = (0..10_000).filter(|n| {
                let now = Instant::from_millis(from + n);
                replication.takes(now, place, 1000 - Replication::OVERHEAD)
            });
            packets.count()
        };
        assert_eq!(run(&mut replication, 0, 0), 0);
        replication.handle_path(0, path);
        // 50 kB a second for ten seconds, and a burst.
        assert!((490..=520).contains(&run(&mut replication, 10_000, 0)));
        assert_eq!(run(&mut replication, 20_000, 1), 0, "the other lane's path loses nothing");
        replication.handle_path(0, PathSummary { loses: false, ..path });
        assert_eq!(run(&mut replication, 30_000, 0), 0);
    }

    /// A packet of so many segments.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Whole(Vec<u8>, u32);

    impl trunkline_queue::Item for Whole {
        fn bytes(&self) -> usize {
            self.0.len()
        }

        fn segments(&self) -> u32 {
            self.1
        }
    }

    impl Packet for Whole {
        fn prefix(&self) -> &[u8] {
            &self.0
        }
    }

    /// Memory for so many copies.
    struct Store(usize);

    impl PacketStore<Whole> for &mut Store {
        fn copy(&mut self, packet: &Whole) -> Option<Whole> {
            self.0 = self.0.checked_sub(1)?;
            Some(packet.clone())
        }

        fn release(&mut self, _: Whole) {}
    }

    /// A class on two lanes, of which it uses the first.
    fn transmitter() -> Transmitter<Whole> {
        let class = ClassSettings::new("all", Vec::new(), Settings::default(), 0);
        let group = LaneGroup { adaptive: true, ..LaneGroup::new("all", 2) };
        Transmitter::new(
            TrunkPlan::new(vec![ClassSettings { replicates: true, ..class }], vec![group]),
            64,
            1,
        )
    }

    fn tcp(seq: u32, payload: usize) -> Whole {
        let header = build::Tcp { seq, flags: TcpFlags::ACK, ..build::Tcp::default() };
        Whole(build::tcp(&build::Ip::v4(), &header, &vec![0; payload]), 1)
    }

    fn offer(transmitter: &mut Transmitter<Whole>, packet: Whole, store: &mut Store) -> Offered<Whole> {
        let headers = Headers::parse(&packet.0, packet.0.len()).expect("a sound packet");
        transmitter.handle_packet(Instant::from_millis(1000), &headers, packet, store)
    }

    /// The number of the next packet on a lane; `None` if it has none.
    fn next(transmitter: &mut Transmitter<Whole>, lane: u8) -> Option<SequenceNumber> {
        match transmitter.poll_transmit(Instant::from_millis(1000), LaneId(lane), &mut 1500, drop) {
            Poll::Labelled(Label::Number(number), _) => Some(number),
            Poll::Packet(_) => None,
            other => panic!("{other:?} on lane {lane}"),
        }
    }

    #[test]
    fn a_packet_leaves_on_both_lanes_with_one_number() {
        let (mut transmitter, mut store) = (transmitter(), Store(usize::MAX));
        let path = PathSummary { capacity: Some(Rate::from_mbit(100.0)), loses: true };
        assert_eq!(
            offer(&mut transmitter, tcp(0, 100), &mut store),
            Offered::Queued(LaneId(0)),
            "no loss was seen"
        );
        assert_eq!(next(&mut transmitter, 0), None);
        transmitter.handle_path(Instant::from_millis(1000), LaneId(0), path, None);
        let both = Offered::QueuedFor(0b11);
        for seq in [100, 200] {
            assert_eq!(offer(&mut transmitter, tcp(seq, 100), &mut store), both);
        }
        let numbers = [0, 1].map(|lane| [next(&mut transmitter, lane), next(&mut transmitter, lane)]);
        assert_eq!(numbers[0], numbers[1]);
        assert!(numbers[0][0] != numbers[0][1] && numbers[0].iter().all(Option::is_some), "{numbers:?}");
        let report = transmitter.report(Instant::from_millis(1000));
        assert_eq!(report[0].stats.copies, 2);
    }

    #[test]
    fn what_need_not_be_in_time_goes_once() {
        let (mut transmitter, mut store) = (transmitter(), Store(1));
        let path = PathSummary { capacity: Some(Rate::from_mbit(100.0)), loses: true };
        transmitter.handle_path(Instant::from_millis(1000), LaneId(0), path, None);
        let once = Offered::Queued(LaneId(0));
        assert_eq!(offer(&mut transmitter, tcp(0, 0), &mut store), once, "an acknowledgement");
        let Whole(bytes, _) = tcp(0, 1000);
        assert_eq!(offer(&mut transmitter, Whole(bytes, 2), &mut store), once, "a super-packet");
        assert_eq!(offer(&mut transmitter, tcp(1000, 100), &mut store), Offered::QueuedFor(0b11));
        assert_eq!(offer(&mut transmitter, tcp(1100, 100), &mut store), once, "no memory for another copy");
    }

    #[test]
    fn the_copy_takes_another_path_that_works_where_flows_take_one() {
        let class = ClassSettings::new("all", Vec::new(), Settings::default(), 0);
        let class = ClassSettings { replicates: true, paths: PathPolicy::LowestDelay, ..class };
        let path = |name: &str| PathSettings { name: name.into(), cost: 0 };
        let plan = TrunkPlan::new(vec![class], vec![LaneGroup::new("all", 1)])
            .on_paths(vec![path("dsl"), path("lte")]);
        let (mut transmitter, mut store) = (Transmitter::new(plan, 64, 1), Store(usize::MAX));
        let loses = PathSummary { capacity: Some(Rate::from_mbit(100.0)), loses: true };
        transmitter.handle_path(Instant::from_millis(1000), LaneId(0), loses, None);
        for (up, seq, expected) in
            [(0b11, 0, Offered::QueuedFor(0b11)), (0b01, 100, Offered::Queued(LaneId(0)))]
        {
            let conditions = [PathConditions::default(); 2];
            transmitter.handle_paths(Instant::from_millis(1000), up, &conditions, |_, _| None, drop);
            assert_eq!(offer(&mut transmitter, tcp(seq, 100), &mut store), expected, "{up:b} are up");
        }
    }
}
