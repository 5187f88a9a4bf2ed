//! What the tests of the disciplines share.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::{Conditions, DropReason, Item, Queue, Settings};

/// A packet or super-packet whose segments are equally long.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) id: u32,
    pub(crate) flow: u64,
    pub(crate) bytes: usize,
    pub(crate) segments: u32,
    pub(crate) ecn: bool,
    pub(crate) marked: bool,
}

/// A packet of 100 bytes, of flow 0, that cannot be marked.
pub(crate) fn packet(id: u32) -> Packet {
    Packet { id, flow: 0, bytes: 100, segments: 1, ecn: false, marked: false }
}

impl Item for Packet {
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn segments(&self) -> u32 {
        self.segments
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn is_ecn_capable(&self) -> bool {
        self.ecn
    }
    fn mark(&mut self) {
        self.marked = true;
    }
    fn trim(&mut self, keep: u32) {
        assert!((1..self.segments).contains(&keep), "{self:?} cannot be trimmed to {keep}");
        self.bytes = self.bytes / self.segments as usize * keep as usize;
        self.segments = keep;
    }
}

/// For `on_drop` where nothing may be dropped.
pub(crate) fn refuse(item: Packet, reason: DropReason) {
    panic!("{item:?} was dropped: {reason:?}");
}

/// Greedy flows behind a queue and a link, each with the additive increase and multiplicative decrease of Reno. Losses
/// are learned of a round trip after the packet would have left; there are no timeouts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClosedLoop {
    pub(crate) flows: u32,
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    pub(crate) duration: Duration,
    pub(crate) conditions: Option<Conditions>,
}

impl Default for ClosedLoop {
    fn default() -> Self {
        ClosedLoop {
            flows: 10,
            rate: Rate::from_mbit(50.0),
            rtt: Duration::from_millis(50),
            duration: Duration::from_secs(60),
            conditions: None,
        }
    }
}

/// What came of it, in the second half of the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) mean_sojourn_ms: f64,
    /// Of the link.
    pub(crate) utilisation: f64,
    /// Jain's index of what the flows got through.
    pub(crate) jain: f64,
    /// Losses of a flow that had not recovered from the one before.
    pub(crate) repeated_losses: u64,
}

#[derive(Debug, Clone)]
struct Sender {
    window: f64,
    threshold: f64,
    in_flight: f64,
    halved_at: Instant,
    through: u64,
}

impl ClosedLoop {
    pub(crate) const PACKET_BYTES: usize = 1500;

    pub(crate) fn run(&self, settings: Settings) -> Outcome {
        let mut queue = Queue::new(settings, 1);
        if let Some(conditions) = &self.conditions {
            queue.observe(conditions);
        }
        let service = self.rate.time_for(Self::PACKET_BYTES as u64, &mut 0);
        let idle = Sender {
            window: 2.0,
            threshold: f64::INFINITY,
            in_flight: 0.0,
            halved_at: Instant::ZERO,
            through: 0,
        };
        let mut senders = vec![idle; self.flows as usize];
        // (time, packet) → whether it got through.
        let mut news: BTreeMap<(Instant, u32), bool> = BTreeMap::new();
        let mut packets: Vec<(u64, Instant)> = Vec::new();
        let (mut now, half) = (Instant::ZERO, Instant::ZERO + self.duration / 2);
        let (mut slots, mut sent, mut sojourn, mut repeated) = (0_u64, 0_u64, 0.0, 0);
        while now < Instant::ZERO + self.duration {
            while let Some(entry) = news.first_entry().filter(|entry| entry.key().0 <= now) {
                let ((_, id), through) = entry.remove_entry();
                let (flow, sent_at) = packets[id as usize];
                let sender = &mut senders[flow as usize];
                sender.in_flight -= 1.0;
                if through {
                    let slow_start = sender.window < sender.threshold;
                    sender.window += if slow_start { 1.0 } else { 1.0 / sender.window };
                } else if sent_at > sender.halved_at {
                    sender.window = (sender.window / 2.0).max(2.0);
                    sender.threshold = sender.window;
                    sender.halved_at = now;
                } else {
                    repeated += u64::from(now > half);
                }
            }
            for (flow, sender) in (0..).zip(&mut senders) {
                // They start one after the other.
                let started = now.saturating_since(Instant::ZERO) >= self.rtt * flow as u32 / self.flows;
                while started && sender.in_flight + 1.0 <= sender.window {
                    sender.in_flight += 1.0;
                    let packet = Packet { flow, bytes: Self::PACKET_BYTES, ..packet(packets.len() as u32) };
                    packets.push((flow, now));
                    let waiting = service * queue.stats().backlog_segments as u32;
                    queue.enqueue(now, packet, &mut |lost: Packet, _| {
                        news.insert((now + self.rtt + waiting, lost.id), false);
                    });
                }
            }
            let next = queue.dequeue(now, &mut |lost: Packet, _| {
                news.insert((now + self.rtt, lost.id), false);
            });
            if let Some(out) = &next {
                news.insert((now + self.rtt, out.item.id), true);
            }
            if now > half {
                slots += 1;
                if let Some(out) = &next {
                    sent += 1;
                    sojourn += out.sojourn.as_secs_f64() * 1e3;
                    senders[out.item.flow as usize].through += 1;
                }
            }
            now += service;
        }
        let through = || senders.iter().map(|sender| sender.through as f64);
        let squares: f64 = through().map(|n| n * n).sum();
        Outcome {
            mean_sojourn_ms: sojourn / sent as f64,
            utilisation: sent as f64 / slots as f64,
            jain: through().sum::<f64>() * through().sum::<f64>() / (f64::from(self.flows) * squares),
            repeated_losses: repeated,
        }
    }
}
