//! A generic radio link protocol: selective repeat ARQ over radio blocks, in-order delivery.
//!
//! The channel carries one block each interval. A packet is cut into blocks. The sender learns of a lost block
//! `feedback` intervals after it was sent, and then retransmits it before new data. The link delivers the packet
//! once all of it, and every packet before it, has arrived. No packet is lost.
//!
//! Retransmissions of older packets go first, so later packets never change when a packet is delivered. So the link
//! can compute that time when it sends the packet, given the intervals that older ones have taken.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use trunkline_units::{Instant, Rng};

use super::Sending;
use super::channel::{BlockErrors, Channel};

/// Intervals after which a packet counts as delivered, however bad the channel.
const MAX_INTERVALS: u64 = 1 << 18;

/// A radio link protocol and its channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rlp {
    /// Bytes of packets that a block carries. Packets do not share blocks.
    pub block: u32,
    /// A block is sent each interval: the transmission time interval.
    pub interval: Duration,
    /// Intervals from the one in which a block was lost to the one in which it can be sent retransmissions.
    pub feedback: u32,
    /// Of blocks.
    pub errors: BlockErrors,
}

/// The sending side, and what it knows of the channel's future.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    settings: Rlp,
    channel: Channel,
    /// Intervals to come that are taken by what is sent retransmissions.
    taken: BTreeSet<u64>,
    /// The end of the interval in which the last packet was complete.
    delivered: Instant,
}

impl Sender {
    pub(super) fn new(settings: Rlp) -> Self {
        let settings = Rlp {
            block: settings.block.max(1),
            interval: settings.interval.max(Duration::from_nanos(1)),
            feedback: settings.feedback.max(1),
            ..settings
        };
        let (channel, taken) = (Channel::new(settings.errors), BTreeSet::new());
        Sender { settings, channel, taken, delivered: Instant::ZERO }
    }

    pub(super) fn send(&mut self, now: Instant, bytes: u32, rng: &mut Rng) -> Sending {
        let length = self.settings.interval.as_nanos() as u64;
        let start = now.as_nanos().div_ceil(length);
        self.channel.forget_before(start, rng);
        self.taken = self.taken.split_off(&start);
        let mut fresh = bytes.max(1).div_ceil(self.settings.block);
        // Intervals from which on a lost block can be sent again, in order.
        let mut retransmissions: VecDeque<u64> = VecDeque::new();
        let (mut interval, mut last_fresh) = (start, start);
        loop {
            let retransmission = retransmissions.front().is_some_and(|due| *due <= interval);
            if (retransmission || fresh > 0) && !self.taken.contains(&interval) {
                if retransmission {
                    retransmissions.pop_front();
                } else {
                    fresh -= 1;
                    last_fresh = interval;
                }
                // Only what lies beyond this packet's own new blocks is in the way of the next packet.
                self.taken.insert(interval);
                if self.channel.loses(interval, rng) && interval - start < MAX_INTERVALS {
                    retransmissions.push_back(interval + u64::from(self.settings.feedback));
                }
            }
            if fresh == 0 && retransmissions.is_empty() {
                break;
            }
            interval += 1;
            if fresh == 0
                && let Some(due) = retransmissions.front()
            {
                interval = interval.max(*due);
            }
        }
        let end = |interval: u64| Instant::from_nanos((interval + 1).saturating_mul(length));
        let free = end(last_fresh);
        self.delivered = self.delivered.max(end(interval));
        Sending { busy: free - now, late: self.delivered - free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTI: Duration = Duration::from_millis(10);

    fn rlp(errors: BlockErrors) -> Rlp {
        Rlp { block: 100, interval: TTI, feedback: 8, errors }
    }

    /// Packets of `bytes`, each as soon as the channel is free and `gap` later: when each was free and delivered.
    fn send(settings: Rlp, packets: usize, bytes: u32, gap: Duration) -> Vec<(Instant, Instant, Instant)> {
        let (mut sender, mut rng) = (Sender::new(settings), Rng::new(9, "rlp"));
        let mut now = Instant::ZERO;
        (0..packets)
            .map(|_| {
                now += gap;
                let sending = sender.send(now, bytes, &mut rng);
                let began = now;
                now += sending.busy;
                (began, now, now + sending.late)
            })
            .collect()
    }

    fn moments(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (mean, values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n)
    }

    #[test]
    fn without_losses_it_is_a_slotted_link_of_a_block_each_interval() {
        let sent = send(rlp(BlockErrors::Independent(0.0)), 100, 1000, Duration::ZERO);
        for (number, (_, free, delivered)) in sent.into_iter().enumerate() {
            assert_eq!(free, Instant::from_millis(100 * (number as u64 + 1)));
            assert_eq!(delivered, free);
        }
        let sent = send(rlp(BlockErrors::Independent(0.0)), 1, 101, Duration::from_millis(3));
        assert_eq!(sent[0].1, Instant::from_millis(30), "two blocks, from the next interval on");
    }

    #[test]
    fn a_single_block_takes_a_geometric_number_of_attempts() {
        // Far apart: N attempts take 1 + 8 (N − 1) intervals; mean 1 + 8 p/q, variance 64 p/q².
        for p in [0.1, 0.3, 0.6] {
            let sent = send(rlp(BlockErrors::Independent(p)), 60_000, 100, TTI * 2000);
            let intervals: Vec<f64> = sent
                .iter()
                .map(|(began, _, delivered)| (*delivered - *began).as_secs_f64() / TTI.as_secs_f64())
                .collect();
            let (mean, variance) = moments(&intervals);
            let q = 1.0 - p;
            let (expected, spread) = (1.0 + 8.0 * p / q, 64.0 * p / (q * q));
            assert!((mean / expected - 1.0).abs() < 0.02, "{p}: {mean} {expected}");
            assert!((variance / spread - 1.0).abs() < 0.06, "{p}: {variance} {spread}");
        }
    }

    #[test]
    fn a_packet_is_complete_with_the_slowest_of_its_blocks() {
        // Five blocks, far apart, and feedback so late that repeats do not meet: the block sent in interval i with N
        // attempts is there after i + 1 + 40 (N − 1). P(all in the first attempt) and the mean of the maximum.
        let settings = Rlp { feedback: 40, ..rlp(BlockErrors::Independent(0.2)) };
        let sent = send(settings, 40_000, 500, TTI * 4000);
        let intervals: Vec<f64> = sent
            .iter()
            .map(|(began, _, delivered)| (*delivered - *began).as_secs_f64() / TTI.as_secs_f64())
            .collect();
        let at_once = intervals.iter().filter(|count| (**count - 5.0).abs() < 0.1).count() as f64 / 40_000.0;
        let p5 = 0.8_f64 * 0.8 * 0.8 * 0.8 * 0.8;
        assert!((at_once / p5 - 1.0).abs() < 0.03, "{at_once} {p5}");
        // E max = Σ over t of P(max > t), with P(block i is not there by t) = 0.2^attempts made by t.
        let not_by = |t: i32| {
            1.0 - (0..5)
                .map(|block| {
                    let attempts = if t > block { 1 + (t - block - 1) / 40 } else { 0 };
                    1.0 - 0.2_f64.powi(attempts)
                })
                .product::<f64>()
        };
        let expected: f64 = (0..1000).map(not_by).sum();
        let (mean, _) = moments(&intervals);
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} {expected}");
    }

    #[test]
    fn a_busy_channel_carries_a_block_each_interval_less_those_lost() {
        let fading = BlockErrors::Fading { to_bad: 0.01, to_good: 0.05, good: 0.02, bad: 0.6 };
        for errors in [BlockErrors::Independent(0.1), BlockErrors::Independent(0.5), fading] {
            let sent = send(rlp(errors), 20_000, 1000, Duration::ZERO);
            let intervals = sent.last().map(|(_, free, _)| free.as_secs_f64()).unwrap() / TTI.as_secs_f64();
            let share = 200_000.0 / intervals;
            assert!((share / (1.0 - errors.mean()) - 1.0).abs() < 0.02, "{errors:?}: {share}");
        }
    }

    #[test]
    fn packets_are_delivered_in_order_and_none_before_its_last_block() {
        let sent = send(rlp(BlockErrors::Independent(0.4)), 20_000, 350, Duration::from_millis(1));
        assert!(sent.windows(2).all(|pair| pair[0].2 <= pair[1].2 && pair[0].1 < pair[1].1));
        assert!(sent.iter().all(|(began, free, delivered)| began < free && free <= delivered));
        assert!(sent.iter().any(|(_, free, delivered)| *delivered - *free > TTI * 20));
    }

    #[test]
    fn a_channel_that_loses_everything_does_not_stop_the_simulation() {
        let sent = send(rlp(BlockErrors::Independent(1.0)), 3, 300, Duration::ZERO);
        let first = (sent[0].2 - sent[0].0).as_nanos() / TTI.as_nanos();
        assert!((u128::from(MAX_INTERVALS)..u128::from(MAX_INTERVALS) + 100).contains(&first), "{first}");
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        let errors = BlockErrors::Fading { to_bad: 0.01, to_good: 0.05, good: 0.02, bad: 0.6 };
        assert_eq!(send(rlp(errors), 1000, 700, TTI), send(rlp(errors), 1000, 700, TTI));
    }
}
