//! Which stream a flow's packets go to.
//!
//! A flow keeps its stream for as long as something of it is in transit, since packets in two streams may overtake each other.
//! There may be more flows than streams and no bound on either, so streams are lent to *buckets* of flows, as in stochastic
//! fairness queueing (INFOCOM 1990): flows whose hashes agree in [`BUCKET_BITS`] bits are one. A bucket gets a stream that no
//! other has; where all are lent, it shares one that its hash picks. Once it has been silent for [`IDLE`] and all that it sent
//! has been delivered, it gives the stream back.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_packet::{FlowHasher, FlowKey};
use trunkline_units::Instant;

use crate::flow;

/// The maximum of streams in one direction of a lane.
pub const MAX_STREAMS: usize = 256;
/// Bits of a flow's hash that name its bucket.
const BUCKET_BITS: u32 = 12;
/// A bucket that has sent nothing for so long gives its stream back.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Its stream, if it has one.
    stream: Option<u16>,
    /// When it sent something last.
    used: Instant,
    /// Where the lane was before that.
    position: u64,
}

/// The streams of one direction of a lane, and who has them.
///
/// A position is the number of bytes that the lane has taken, in all its streams.
#[derive(Debug, Clone)]
pub struct Lending {
    hasher: FlowHasher,
    buckets: Box<[Bucket]>,
    /// How many buckets have each stream.
    users: Vec<u16>,
    /// Streams that none has; the last is lent next.
    free: Vec<u16>,
    /// Buckets that have a stream, each once, in the order of the times at which they are looked at.
    aging: VecDeque<(Instant, u16)>,
}

impl Lending {
    /// Without any stream. The key of the hash by which flows find their buckets follows from `seed`: who may choose a flow's
    /// ports should not know it.
    pub fn new(seed: u64) -> Self {
        Lending {
            hasher: flow::hasher(seed),
            buckets: vec![Bucket::default(); 1 << BUCKET_BITS].into(),
            users: Vec::new(),
            free: Vec::new(),
            aging: VecDeque::new(),
        }
    }

    /// How many streams there are.
    pub const fn streams(&self) -> usize {
        self.users.len()
    }

    /// There are so many streams now, up to [`MAX_STREAMS`]: no fewer than before.
    pub fn grow(&mut self, streams: usize) {
        let before = self.users.len();
        let streams = streams.min(MAX_STREAMS);
        if streams > before {
            self.users.resize(streams, 0);
            // The lowest is lent first.
            self.free.extend((before as u16..streams as u16).rev());
        }
    }

    /// The stream for the next packet of a flow; `None` if there is none at all. The lane has taken everything before `position`,
    /// and the far end has everything before `delivered`.
    pub fn lend(&mut self, now: Instant, flow: &FlowKey, position: u64, delivered: u64) -> Option<u16> {
        let hash = self.hasher.hash(flow);
        let place = (hash & ((1 << BUCKET_BITS) - 1)) as u16;
        let known = self.buckets[usize::from(place)].stream;
        let stream = if let Some(stream) = known {
            stream
        } else {
            if self.free.is_empty() {
                self.take_back(now, delivered);
            }
            let all = (hash >> BUCKET_BITS).checked_rem(self.users.len() as u64)?;
            let stream = self.free.pop().unwrap_or(all as u16);
            self.users[usize::from(stream)] += 1;
            self.aging.push_back((now + IDLE, place));
            stream
        };
        self.buckets[usize::from(place)] = Bucket { stream: Some(stream), used: now, position };
        Some(stream)
    }

    /// Takes streams back from buckets that are idle. Each bucket is looked at once in [`IDLE`] at most.
    fn take_back(&mut self, now: Instant, delivered: u64) {
        while let Some((_, place)) = self.aging.front().copied().filter(|(at, _)| *at <= now) {
            self.aging.pop_front();
            let bucket = &mut self.buckets[usize::from(place)];
            let silent = now.saturating_since(bucket.used) >= IDLE;
            match bucket.stream {
                // Positions grow with each batch, so what lies behind this one is all that it sent.
                Some(stream) if silent && delivered > bucket.position => {
                    bucket.stream = None;
                    let users = &mut self.users[usize::from(stream)];
                    *users -= 1;
                    if *users == 0 {
                        self.free.push(stream);
                    }
                }
                _ => self.aging.push_back((now + IDLE, place)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use trunkline_units::Rng;

    use super::*;

    fn flow(number: u32) -> FlowKey {
        FlowKey {
            source: [10, 0, (number >> 8) as u8, number as u8].into(),
            destination: [10, 1, 0, 1].into(),
            protocol: 6,
            ports: ((number >> 16) as u16 + 1, 443),
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn full() -> Lending {
        let mut lending = Lending::new(7);
        lending.grow(MAX_STREAMS);
        lending
    }

    #[test]
    fn a_flow_keeps_its_stream_and_few_flows_share_none() {
        let mut lending = full();
        let streams: Vec<_> = (0..50).map(|n| lending.lend(at(0), &flow(n), 0, 0)).collect();
        let different: BTreeSet<_> = streams.iter().flatten().collect();
        // Flows of one bucket share: of 50 flows in 4096 buckets one or two pairs at most.
        assert!(different.len() >= 48, "{}", different.len());
        for ms in (0..10_000).step_by(500) {
            for (n, stream) in (0..).zip(&streams) {
                assert_eq!(lending.lend(at(ms), &flow(n), ms, ms + 1), *stream);
            }
        }
    }

    #[test]
    fn without_streams_none_is_lent_and_later_ones_are() {
        let mut lending = Lending::new(1);
        assert_eq!(lending.lend(at(0), &flow(1), 0, 0), None);
        lending.grow(1);
        assert_eq!(lending.lend(at(0), &flow(1), 0, 0), Some(0));
        assert_eq!(lending.lend(at(0), &flow(2), 0, 0), Some(0), "all flows share the only one");
        lending.grow(2);
        assert_eq!(lending.lend(at(0), &flow(2), 0, 0), Some(0), "it keeps what it has");
        assert_eq!(lending.lend(at(0), &flow(3), 0, 0), Some(1));
        lending.grow(1_000_000);
        assert_eq!(lending.streams(), MAX_STREAMS);
    }

    #[test]
    fn ten_thousand_flows_share_all_streams_evenly() {
        let mut lending = full();
        let mut flows = [0; MAX_STREAMS];
        for n in 0..10_000 {
            let stream = lending.lend(at(1), &flow(n), 0, 0).expect("there are streams");
            flows[usize::from(stream)] += 1;
        }
        let (least, most) = (flows.iter().min().copied(), flows.iter().max().copied());
        assert!(least >= Some(5) && most <= Some(120), "{least:?} to {most:?} of 39 on average");
    }

    #[test]
    fn a_stream_is_lent_again_once_its_flow_is_silent_and_all_of_it_delivered() {
        let mut before = Lending::new(3);
        before.grow(2);
        assert_eq!(before.lend(at(0), &flow(1), 1000, 0), Some(0));
        let second = (2..100).map(flow).find(|other| before.lend(at(0), other, 1000, 0) == Some(1));
        let second = second.expect("another bucket");
        // How many buckets have each stream, once a third one has asked for one.
        let users = |ms, delivered| {
            let mut lending = before.clone();
            lending.lend(at(ms), &second, 2000, delivered);
            let third = (100..1000).map(flow).find(|flow| {
                let hash = lending.hasher.hash(flow) & ((1 << BUCKET_BITS) - 1);
                lending.buckets[hash as usize].stream.is_none()
            });
            lending.lend(at(ms), &third.expect("another bucket"), 2000, delivered);
            lending.users
        };
        assert_eq!(users(900, 2000).iter().sum::<u16>(), 3, "the first is not silent for long enough");
        assert_eq!(users(1100, 1000).iter().sum::<u16>(), 3, "it is not delivered");
        assert_eq!(users(1100, 1001), [1, 1], "the third has the stream of the first");
    }

    /// Whatever is sent, delivered and lost: no flow goes to another stream while something of it is in transit.
    #[test]
    fn no_flow_changes_its_stream_with_something_in_transit() {
        let mut rng = Rng::new(11, "lending");
        let mut lending = Lending::new(11);
        lending.grow(8);
        let (mut now, mut position, mut delivered) = (at(0), 0, 0);
        let mut flows: BTreeMap<u32, (u16, u64)> = BTreeMap::new();
        let (mut changes, mut kept) = (0, 0);
        for step in 0..200_000 {
            let most = if rng.below(1000) == 0 { 3_000_000 } else { 2_000 };
            now += Duration::from_micros(rng.below(most));
            // Some flows fall silent, others begin, and all come back.
            let number = (step / 1000 % 40) * 5 + rng.below(30) as u32;
            let stream = lending.lend(now, &flow(number), position, delivered).expect("there are streams");
            position += 1 + rng.below(1500);
            if let Some((before, end)) = flows.insert(number, (stream, position)) {
                assert!(before == stream || end <= delivered, "flow {number}: {end} of {delivered}");
                changes += u32::from(before != stream);
                kept += u32::from(before == stream);
            }
            if rng.below(3) == 0 {
                delivered = position - rng.below((position - delivered).min(50_000) + 1);
            }
        }
        assert!(changes > 20 && kept > 100_000, "{changes} changes, {kept} without");
        assert!(lending.aging.len() <= 1 << BUCKET_BITS);
    }
}
