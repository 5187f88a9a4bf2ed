//! A small closed loop, for what a discipline does to senders that listen.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::testing::{Packet, packet};
use crate::{Conditions, Queue, Settings};

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

mod tests {
    use super::*;
    use crate::{CoDelSettings, FqCoDelSettings, FredSettings, PieSettings, RedSettings, TrunkSettings};

    /// The conditions that a trunk over this path would report.
    fn conditions(path: &ClosedLoop) -> Conditions {
        Conditions {
            rtt_up: path.rtt,
            measured_rtt: Some(path.rtt),
            bandwidth: path.rate,
            window_bytes: path.rate.bytes_in(path.rtt),
            segment_bytes: ClosedLoop::PACKET_BYTES as u32,
            flows: path.flows,
        }
    }

    /// Every discipline with its defaults: the delay it keeps, in floors and ceilings (ms), and a link that stays busy.
    /// `cargo test -p trunkline-queue disciplines_side_by_side -- --nocapture` prints the table of docs/models.
    #[test]
    fn disciplines_side_by_side_keep_the_delay_they_promise() {
        let trunk = TrunkSettings::default();
        let cases = [
            ("tail drop", Settings::default(), 120.0..240.0),
            ("RED", Settings::Red(RedSettings::default()), 10.0..40.0),
            ("FRED", Settings::Fred(FredSettings::default()), 5.0..24.0),
            ("CoDel", Settings::CoDel(CoDelSettings::default()), 4.0..16.0),
            ("FQ-CoDel", Settings::FqCoDel(FqCoDelSettings::default()), 3.0..12.0),
            ("PIE", Settings::Pie(PieSettings::default()), 12.0..18.0),
            ("trunk", Settings::Trunk(trunk), 20.0..40.0),
            ("trunk without P1", Settings::Trunk(TrunkSettings { auto_size: false, ..trunk }), 80.0..160.0),
            ("trunk without P2", Settings::Trunk(TrunkSettings { early_drop: false, ..trunk }), 28.0..50.0),
            ("trunk without P3", Settings::Trunk(TrunkSettings { drop_holdoff: false, ..trunk }), 20.0..40.0),
        ];
        println!("20 Reno flows, 50 Mbit/s, 50 ms, the second 30 s of 60");
        println!("{:>18} {:>9} {:>6} {:>6} {:>8}", "", "delay/ms", "busy", "Jain", "repeated");
        for (name, settings, delay) in cases {
            let path = ClosedLoop { flows: 20, ..ClosedLoop::default() };
            let out = ClosedLoop { conditions: Some(conditions(&path)), ..path }.run(settings);
            println!(
                "{name:>18} {:>9.1} {:>6.3} {:>6.3} {:>8}",
                out.mean_sojourn_ms, out.utilisation, out.jain, out.repeated_losses
            );
            assert!(delay.contains(&out.mean_sojourn_ms), "{name}: {} ms", out.mean_sojourn_ms);
            assert!(out.utilisation > 0.97, "{name}: {}", out.utilisation);
            assert!(out.jain > 0.95, "{name}: {}", out.jain);
        }
    }
}
