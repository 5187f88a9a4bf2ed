//! Samples of a network over time, in named columns of numbers.
//!
//! A [`Recorder`] runs a network in steps and samples it after each. It changes nothing: a recorded run goes
//! through the same events. A value that does not exist at an instant, such as a round-trip time before the first
//! sample, is NaN.

mod series;

use std::time::Duration;

use trunkline_queue::{DropReason, Histogram, Occupancy, Stats as QueueStats};
use trunkline_tcp::Endpoint;
use trunkline_units::Instant;

use crate::{LinkId, Network, SourceId, TrunkId};
use series::Sampler;

pub use series::Column;

/// A quantile of sojourn times that is recorded.
const QUANTILES: [(&str, f64); 2] = [("sojourn_p50", 0.5), ("sojourn_p95", 0.95)];

/// A queue's books as they were.
#[derive(Debug, Default)]
struct QueueReading {
    occupancy: Occupancy,
    dropped: [u64; DropReason::ALL.len()],
    marked: [u64; DropReason::ALL.len()],
    sojourn: [u64; Histogram::BUCKETS],
}

#[derive(Debug)]
enum Probe {
    User { source: SourceId, user: u32, bytes: u64, retransmissions: u64 },
    Queue { link: LinkId, books: Box<QueueReading> },
    Link { link: LinkId, sent: Duration, bytes: u64 },
    Datagrams { source: SourceId, bytes: u64, received: u64, delay: Duration },
    Side { trunk: TrunkId, side: usize, filtered: Vec<u64>, books: Vec<QueueReading> },
}

/// Records what users, queues, links and trunks are like at each step.
///
/// Say what is to be looked at, then run the network by [`Recorder::run_until`]; [`Recorder::columns`] has a value for each of
/// [`Recorder::times`]. A column's name is its subject's, a dot, and one of those that the methods list, with their units.
#[derive(Debug)]
pub struct Recorder {
    interval: Duration,
    probes: Vec<Probe>,
    times: Vec<Instant>,
    sampler: Sampler,
}

impl Recorder {
    /// Looks at a network after each `interval`.
    ///
    /// # Panics
    /// If that is zero.
    pub fn new(interval: Duration) -> Self {
        assert!(!interval.is_zero(), "an interval between samples");
        Recorder { interval, probes: Vec::new(), times: Vec::new(), sampler: Sampler::default() }
    }

    /// Looks at a flow, user or connection of a source of TCP traffic, as `flow<source>.<user>`:
    ///
    /// `goodput` of the interval (bit/s); of the connection that it has, on the side that sends data: `cwnd`, `ssthresh` (NaN before the
    /// first loss), `in_flight` (B); `srtt` (s); `retransmissions`, segments sent again in the interval (1).
    pub fn user(&mut self, source: SourceId, user: u32) -> &mut Self {
        let names = [
            ("goodput", "bit/s"),
            ("cwnd", "B"),
            ("ssthresh", "B"),
            ("srtt", "s"),
            ("in_flight", "B"),
            ("retransmissions", "1"),
        ];
        self.add(&format!("flow{}.{user}", source.0), &names);
        self.probes.push(Probe::User { source, user, bytes: 0, retransmissions: 0 });
        self
    }

    /// Looks at a link's queue, as `queue<link>`:
    ///
    /// `segments` (1) and `bytes` (B) that wait; `mean_segments` and `mean_bytes` over the interval; `sojourn_p50` and `sojourn_p95` of
    /// what left in the interval (s), to the bounds of [`Histogram`]'s buckets; `dropped_<reason>` and `marked_<reason>`, segments in the
    /// interval (1), with the names of [`DropReason`].
    pub fn queue(&mut self, link: LinkId) -> &mut Self {
        self.add_queue(&format!("queue{}", link.0));
        self.probes.push(Probe::Queue { link, books: Box::default() });
        self
    }

    /// Looks at a link, as `link<link>`: `utilisation`, the share of the interval in which it sent (1), and `delivered` (bit/s).
    pub fn link(&mut self, link: LinkId) -> &mut Self {
        self.add(&format!("link{}", link.0), &[("utilisation", "1"), ("delivered", "bit/s")]);
        self.probes.push(Probe::Link { link, sent: Duration::ZERO, bytes: 0 });
        self
    }

    /// Looks at a flow of datagrams where it arrives, as `datagrams<source>`: `received`, IP header and all (bit/s), and the mean
    /// `delay` of those that came in the interval (s).
    pub fn datagrams(&mut self, source: SourceId) -> &mut Self {
        self.add(&format!("datagrams{}", source.0), &[("received", "bit/s"), ("delay", "s")]);
        self.probes.push(Probe::Datagrams { source, bytes: 0, received: 0, delay: Duration::ZERO });
        self
    }

    /// Looks at one side of a trunk, 0 or 1. Each lane, as `trunk<trunk>.<side>.lane<n>`, as the transmitter sees it: `unsent`,
    /// `unacknowledged`, `window` (B), `srtt` (s), `delivery_rate`, `max_pacing_rate` (bit/s). Each class, as `trunk<trunk>.<side>.<class>`:
    /// what [`Recorder::queue`] has of its edge queues together, and `filtered`, retransmissions in the interval (1).
    pub fn trunk(&mut self, network: &mut Network, trunk: TrunkId, side: usize) -> &mut Self {
        let report = network.trunk_report(trunk, side);
        let subject = format!("trunk{}.{side}", trunk.0);
        let names = [
            ("unsent", "B"),
            ("unacknowledged", "B"),
            ("window", "B"),
            ("srtt", "s"),
            ("delivery_rate", "bit/s"),
            ("max_pacing_rate", "bit/s"),
        ];
        for lane in 0..network.lanes(trunk) {
            self.add(&format!("{subject}.lane{lane}"), &names);
        }
        for class in &report.classes {
            let class = format!("{subject}.{}", class.settings.name);
            self.add_queue(&class);
            self.add(&class, &[("filtered", "1")]);
        }
        let books = report.classes.iter().map(|_| QueueReading::default()).collect();
        let filtered = vec![0; report.classes.len()];
        self.probes.push(Probe::Side { trunk, side, filtered, books });
        self
    }

    fn add(&mut self, subject: &str, names: &[(&str, &'static str)]) {
        for (name, unit) in names {
            self.sampler.add(format!("{subject}.{name}"), unit);
        }
    }

    fn add_queue(&mut self, subject: &str) {
        let lengths = [("segments", "1"), ("bytes", "B"), ("mean_segments", "1"), ("mean_bytes", "B")];
        self.add(subject, &lengths);
        self.add(subject, &QUANTILES.map(|(name, _)| (name, "s")));
        for what in ["dropped", "marked"] {
            for reason in DropReason::ALL {
                self.sampler.add(format!("{subject}.{what}_{}", reason.name()), "1");
            }
        }
    }

    /// Runs a network up to `end`, and looks at it after each interval from where it is now.
    ///
    /// What happened before the first sample counts as having happened in its interval.
    pub fn run_until(&mut self, network: &mut Network, end: Instant) {
        let steps = end.saturating_since(network.now()).as_nanos() / self.interval.as_nanos();
        self.times.reserve(steps as usize);
        self.sampler.reserve(steps as usize);
        while network.now() + self.interval <= end {
            network.run_for(self.interval);
            self.sample(network);
        }
        network.run_until(end);
    }

    /// When it looked.
    pub fn times(&self) -> &[Instant] {
        &self.times
    }

    /// What it saw, in the order in which it was asked for.
    pub fn columns(&self) -> &[Column] {
        self.sampler.columns()
    }

    /// A column by its name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns().iter().find(|column| column.name == name)
    }

    fn sample(&mut self, network: &mut Network) {
        let now = network.now();
        let before = self.times.last().copied().unwrap_or(now - self.interval.min(now - Instant::ZERO));
        let over = (now - before).as_secs_f64();
        let Recorder { probes, sampler, .. } = self;
        sampler.begin();
        for probe in probes {
            match probe {
                Probe::User { source, user, bytes, retransmissions } => {
                    let all = network.received_by(*source, *user);
                    sampler.put((all - std::mem::replace(bytes, all)) as f64 * 8.0 / over);
                    put_endpoint(sampler, network.sender(*source, *user));
                    let all = network.retransmissions_by(*source, *user);
                    sampler.put((all - std::mem::replace(retransmissions, all)) as f64);
                }
                Probe::Queue { link, books } => {
                    put_queue(sampler, network.link_state(*link).queue(), (now, now - before), books);
                }
                Probe::Link { link, sent, bytes } => {
                    let state = network.link_state(*link);
                    let (all, delivered) = (state.busy_time(now), state.stats().delivered_bytes);
                    let busy = all.saturating_sub(std::mem::replace(sent, all));
                    sampler.put(busy.as_secs_f64() / over);
                    sampler.put((delivered - std::mem::replace(bytes, delivered)) as f64 * 8.0 / over);
                }
                Probe::Datagrams { source, bytes, received, delay } => {
                    let Some(flow) = network.datagrams(*source) else { continue };
                    let bytes = flow.received_bytes - std::mem::replace(bytes, flow.received_bytes);
                    let count = flow.received - std::mem::replace(received, flow.received);
                    let sum = flow.delay_sum.saturating_sub(std::mem::replace(delay, flow.delay_sum));
                    sampler.put(bytes as f64 * 8.0 / over);
                    sampler.put(sum.as_secs_f64() / count as f64);
                }
                Probe::Side { trunk, side, filtered, books } => {
                    let lanes = network.lanes(*trunk);
                    let report = network.trunk_report(*trunk, *side);
                    for lane in 0..lanes {
                        put_lane(sampler, report.lanes.get(lane));
                    }
                    for ((class, filtered), books) in report.classes.iter().zip(filtered).zip(books) {
                        put_queue(sampler, &class.queue, (now, now - before), books);
                        let all = class.stats.filtered;
                        sampler.put((all - std::mem::replace(filtered, all)) as f64);
                    }
                }
            }
        }
        self.times.push(now);
    }
}

fn put_endpoint(sampler: &mut Sampler, endpoint: Option<&Endpoint>) {
    let Some(endpoint) = endpoint else {
        (0..4).for_each(|_| sampler.put(f64::NAN));
        return;
    };
    sampler.put(f64::from(endpoint.cwnd()));
    let ssthresh = endpoint.ssthresh();
    sampler.put(if ssthresh == u32::MAX { f64::NAN } else { f64::from(ssthresh) });
    sampler.put_time(endpoint.srtt());
    sampler.put(f64::from(endpoint.in_flight()));
}

fn put_queue(
    sampler: &mut Sampler,
    queue: &QueueStats,
    (now, over): (Instant, Duration),
    books: &mut QueueReading,
) {
    sampler.put(queue.backlog_segments as f64);
    sampler.put(queue.backlog_bytes as f64);
    let occupancy = queue.occupancy(now);
    let (segments, bytes) = occupancy.mean_since(books.occupancy, over);
    sampler.put(segments);
    sampler.put(bytes);
    let counts = *queue.sojourn.counts();
    for (_, quantile) in QUANTILES {
        sampler.put(sojourn(&counts, &books.sojourn, quantile));
    }
    for (now, then) in [(&queue.dropped, &books.dropped), (&queue.marked, &books.marked)] {
        for (now, then) in now.iter().zip(then) {
            sampler.put((now - then) as f64);
        }
    }
    *books = QueueReading { occupancy, dropped: queue.dropped, marked: queue.marked, sojourn: counts };
}

/// Upper bound of the bucket that has the quantile of what was counted between two readings, seconds.
fn sojourn(now: &[u64; Histogram::BUCKETS], then: &[u64; Histogram::BUCKETS], quantile: f64) -> f64 {
    let total: u64 = now.iter().zip(then).map(|(now, then)| now - then).sum();
    let mut below = 0;
    for (index, (now, then)) in now.iter().zip(then).enumerate() {
        below += now - then;
        if total > 0 && below as f64 >= quantile * total as f64 {
            return Histogram::upper_bound(index).map_or(f64::INFINITY, |bound| bound.as_secs_f64());
        }
    }
    f64::NAN
}

fn put_lane(sampler: &mut Sampler, lane: Option<&crate::LaneReport>) {
    let Some(lane) = lane else {
        (0..6).for_each(|_| sampler.put(f64::NAN));
        return;
    };
    let snapshot = &lane.snapshot;
    sampler.put(snapshot.unsent as f64);
    sampler.put(snapshot.unacknowledged as f64);
    sampler.put(snapshot.window as f64);
    sampler.put_time(snapshot.srtt);
    sampler.put_rate(snapshot.delivery_rate);
    sampler.put_rate(lane.pacing.and_then(|(_, max)| max));
}
