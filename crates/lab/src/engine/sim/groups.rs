//! Groups of traffic: what their sources did, together.

use std::time::Duration;

use indexmap::IndexMap;
use trunkline_sim::{Datagrams, Pattern};

use super::build::Built;
use super::reading::{Reading, SourceReading};
use super::sheet::{Page, Sheet, jain, quantile};
use super::transfers::Tcp;
use crate::results::Outcome;
use crate::scenario::{Load, Scenario};

/// What sources of datagrams did in the time counted.
#[derive(Debug, Default, Clone)]
struct Udp {
    /// Octets of data that arrived of each source.
    flows: Vec<f64>,
    sent: u64,
    received: u64,
    /// Of those, sent before the time counted.
    overdue: u64,
    /// With headers.
    octets: u64,
    /// Of all that arrived.
    delay: Duration,
    least: Option<Duration>,
    most: Duration,
    variation: Duration,
    /// Differences of which that is the sum.
    variations: u64,
}

impl Udp {
    fn of(from: &Datagrams, to: &Datagrams) -> Self {
        Udp {
            flows: vec![(to.received_data() - from.received_data()) as f64],
            sent: to.sent - from.sent,
            received: to.received - from.received,
            overdue: to.overdue,
            octets: to.received_bytes - from.received_bytes,
            delay: to.delay_sum.saturating_sub(from.delay_sum),
            least: to.delay_min,
            most: to.delay_max,
            variation: to.variation_sum.saturating_sub(from.variation_sum),
            variations: to.variations - from.variations,
        }
    }

    fn add(&mut self, other: &Udp) {
        self.flows.extend(&other.flows);
        self.sent += other.sent;
        self.received += other.received;
        self.overdue += other.overdue;
        self.octets += other.octets;
        self.delay += other.delay;
        self.least = self.least.into_iter().chain(other.least).min();
        self.most = self.most.max(other.most);
        self.variation += other.variation;
        self.variations += other.variations;
    }
}

/// What some sources did, those of TCP and the others.
#[derive(Debug, Default, Clone)]
struct Group {
    tcp: Option<Tcp>,
    udp: Option<Udp>,
}

impl Group {
    fn add(&mut self, other: &Group) {
        if let Some(tcp) = &other.tcp {
            self.tcp.get_or_insert_default().add(tcp);
        }
        if let Some(udp) = &other.udp {
            self.udp.get_or_insert_default().add(udp);
        }
    }

    /// Octets of data that each flow's receiver got.
    fn flows(&self) -> Vec<f64> {
        let tcp = self.tcp.iter().flat_map(|tcp| &tcp.users);
        tcp.chain(self.udp.iter().flat_map(|udp| &udp.flows)).copied().collect()
    }
}

/// Writes down what each group did, and `all`.
pub(super) fn write(
    scenario: &Scenario,
    built: &Built,
    (from, to): (&Reading, &Reading),
    (sheet, outcome): (&mut Sheet, &mut Outcome),
) {
    let mut groups: IndexMap<&str, Group> = IndexMap::new();
    let mut all = Group::default();
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        let one = match (&from.sources[number], &to.sources[number]) {
            (SourceReading::Transfers(before), SourceReading::Transfers(after)) => {
                let users = built.network.users(built.sources[number]) as usize;
                let upload = matches!(&traffic.load, Load::Tcp { pattern: Pattern::Bulk { .. }, .. });
                let tcp = Tcp::of((before, from.at), (after, to.at), (users, upload));
                Group { tcp: Some(tcp), udp: None }
            }
            (SourceReading::Datagrams(before), SourceReading::Datagrams(after)) => {
                Group { tcp: None, udp: Some(Udp::of(before, after)) }
            }
            _ => continue,
        };
        groups.entry(&traffic.group).or_default().add(&one);
        all.add(&one);
    }
    let time = to.at.saturating_since(from.at).as_secs_f64();
    for (name, group) in &groups {
        group.write(time, &mut sheet.page(*name));
        group.distributions(name, &mut outcome.distributions);
    }
    let mut page = sheet.page("all");
    all.write(time, &mut page);
    let goodputs: Vec<f64> = groups.values().map(|group| group.flows().iter().sum()).collect();
    if let Some(fairness) = jain(&goodputs) {
        page.put("fairness.groups", fairness);
    }
    all.distributions("all", &mut outcome.distributions);
}

impl Group {
    fn write(&self, time: f64, page: &mut Page<'_>) {
        let flows = self.flows();
        let rate = |octets: f64| octets * 8.0 / time;
        if time > 0.0 {
            page.put("goodput", rate(flows.iter().sum()));
            let sent = self.tcp.as_ref().map_or(0, |tcp| tcp.counts.octets);
            let arrived = self.udp.as_ref().map_or(0, |udp| udp.octets);
            page.put("throughput", rate((sent + arrived) as f64));
            let rates: Vec<f64> = flows.iter().map(|octets| rate(*octets)).collect();
            page.summary("flow.goodput", &["mean", "std", "min", "max"], &rates);
        }
        if let Some(fairness) = jain(&flows) {
            page.put("fairness", fairness);
        }
        if let Some(tcp) = &self.tcp {
            write_transfers(tcp, page);
            write_counts(tcp, page);
            write_each(tcp, page);
        }
        if let Some(udp) = &self.udp {
            write_datagrams(udp, self.tcp.is_none(), page);
        }
    }

    fn distributions(&self, name: &str, all: &mut IndexMap<String, Vec<f64>>) {
        let Some(tcp) = &self.tcp else { return };
        all.insert(format!("{name}.transfer.throughput"), tcp.throughputs.clone());
        all.insert(format!("{name}.transfer.delay"), tcp.delays.clone());
    }
}

fn write_transfers(tcp: &Tcp, page: &mut Page<'_>) {
    page.count("transfers.total", tcp.total);
    page.count("transfers.completed", tcp.completed);
    page.count("transfers.failed", tcp.failed);
    page.ratio("transfers.share", tcp.completed as f64, tcp.total as f64);
    page.summary("delay", &["mean", "std", "min", "max"], &tcp.delays);
    if !tcp.delays.is_empty() {
        let mut sorted = tcp.delays.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        page.put("delay.p50", quantile(&sorted, 0.5));
        page.put("delay.p99", quantile(&sorted, 0.99));
    }
    for (place, name) in ["mean", "min", "max"].into_iter().enumerate() {
        let values: Vec<f64> = tcp.rtt.iter().map(|rtt| rtt[place]).collect();
        page.ratio(&format!("rtt.{name}"), values.iter().sum(), values.len() as f64);
        match name {
            "min" => page.put("rtt.least", values.iter().copied().fold(f64::INFINITY, f64::min)),
            "max" => page.put("rtt.most", values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            _ => {}
        }
    }
}

fn write_counts(tcp: &Tcp, page: &mut Page<'_>) {
    let counts = &tcp.counts;
    page.count("rtt.samples", counts.rtt_samples);
    page.count("retransmitted.packets", counts.retransmitted);
    page.count("retransmitted.bytes", counts.retransmitted_octets);
    page.count("retransmitted.needed", counts.needed());
    page.count("retransmitted.spurious", counts.spurious());
    page.ratio("retransmitted.share", counts.retransmitted as f64, counts.data_segments as f64);
    page.count("timeouts", counts.timeouts);
    page.count("segments.data", counts.data_segments);
    page.count("segments.ack", counts.answered);
    page.count("segments.total", counts.sent + counts.answered);
}

/// Means over transfers.
fn write_each(tcp: &Tcp, page: &mut Page<'_>) {
    let (whole, total) = (&tcp.whole, tcp.total as f64);
    for (name, count) in [
        ("rtt.samples", whole.rtt_samples),
        ("retransmitted.bytes", whole.retransmitted_octets),
        ("retransmitted.packets", whole.retransmitted),
        ("retransmitted.needed", whole.needed()),
        ("retransmitted.spurious", whole.spurious()),
        ("segments.data", whole.data_segments),
        ("segments.ack", whole.answered),
        ("segments.total", whole.sent + whole.answered),
        ("timeouts", whole.timeouts),
        ("forward.packets", tcp.packets[0]),
        ("reverse.packets", tcp.packets[1]),
    ] {
        page.ratio(&format!("transfer.{name}"), count as f64, total);
    }
    page.summary("transfer.throughput", &["mean", "std"], &tcp.throughputs);
    for (side, name) in ["forward", "reverse"].into_iter().enumerate() {
        page.ratio(&format!("transfer.{name}.throughput"), tcp.forward[side].iter().sum(), total);
    }
}

fn write_datagrams(udp: &Udp, alone: bool, page: &mut Page<'_>) {
    page.count("sent.packets", udp.sent);
    page.count("received.packets", udp.received);
    let lost = udp.sent + udp.overdue - udp.received;
    page.ratio("lost.share", lost as f64, udp.sent as f64);
    page.ratio("jitter", udp.variation.as_secs_f64(), udp.variations as f64);
    // Of a group that has transfers too, the delay is theirs.
    if alone && udp.received > 0 {
        page.ratio("delay.mean", udp.delay.as_secs_f64(), udp.received as f64);
        page.put("delay.min", udp.least.unwrap_or_default().as_secs_f64());
        page.put("delay.max", udp.most.as_secs_f64());
    }
}
