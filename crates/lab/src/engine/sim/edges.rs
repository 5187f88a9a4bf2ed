//! Links, trunks, proxies and nodes.

use std::time::Duration;

use trunkline_queue::Stats as QueueStats;
use trunkline_sim::{LaneReport, LinkStats, NodeStats, ProxyStats, TrunkReport};

use super::queues::Span;
use super::reading::{LinkReading, QueueReading, Reading};
use super::samples::Samples;
use super::sheet::{Page, Sheet};
use crate::scenario::{NodeKind, Scenario};

/// A way's name: there, or back.
pub(crate) fn way(name: &str, side: usize) -> String {
    if side == 0 { name.to_owned() } else { format!("{name}.back") }
}

pub(super) fn write(
    scenario: &Scenario,
    (from, to): (&Reading, &Reading),
    samples: &Samples,
    sheet: &mut Sheet,
) {
    let time = to.at.saturating_since(from.at);
    for (number, link) in scenario.links.iter().enumerate() {
        for side in 0..2 {
            let (from, to) = (&from.links[number][side], &to.links[number][side]);
            let settings = &link.ways[side].queue;
            let samples = samples.link(number, side);
            let span = Span { settings, from: &from.queue, to: &to.queue, time, samples };
            let mut page = sheet.page(way(&link.name, side));
            write_link((from, to), time, &mut page);
            span.write(&mut page);
        }
    }
    for (number, trunk) in scenario.trunks.iter().enumerate() {
        for side in 0..2 {
            write_trunk(&way(&trunk.name, side), (from, to), (number, side, samples), sheet);
        }
    }
    for name in &scenario.disabled {
        for side in 0..2 {
            let mut page = sheet.page(way(name, side));
            for quantity in ["drops", "filtered", "refused"] {
                page.count(quantity, 0);
            }
        }
    }
    for (number, node) in scenario.nodes.iter().enumerate() {
        let mut page = sheet.page(&*node.name);
        write_node((&from.nodes[number], &to.nodes[number]), &mut page);
        if node.kind == NodeKind::Proxy {
            let corrupted = to.nodes[number].corrupted - from.nodes[number].corrupted;
            write_proxy((&from.proxies[number], &to.proxies[number]), corrupted, &mut page);
        }
    }
}

fn write_link((from, to): (&LinkReading, &LinkReading), time: Duration, page: &mut Page<'_>) {
    let count = |of: fn(&LinkStats) -> u64| of(&to.stats) - of(&from.stats);
    let seconds = time.as_secs_f64();
    let sent = to.sent_for.saturating_sub(from.sent_for);
    page.ratio("utilisation", sent.as_secs_f64(), seconds);
    page.ratio("delivered", count(|stats| stats.delivered_bytes) as f64 * 8.0, seconds);
    page.count("delivered.packets", count(|stats| stats.delivered));
    page.count("lost", count(|stats| stats.lost));
    page.count("corrupted", count(|stats| stats.corrupted));
    page.count("fragmented", count(|stats| stats.fragmented));
}

/// One way of a trunk: from the sender at `side` to the receiver at the other.
fn write_trunk(
    name: &str,
    (early, late): (&Reading, &Reading),
    (number, side, samples): (usize, usize, &Samples),
    sheet: &mut Sheet,
) {
    let (from, to) = (ends(early, (number, side)), ends(late, (number, side)));
    let time = late.at.saturating_since(early.at);
    let (mut offered, mut drops, mut filtered, mut waiting, mut octets) = (0, 0, 0, 0.0, 0);
    for (place, (before, after)) in from.0.classes.iter().zip(&to.0.classes).enumerate() {
        let reading = |stats: &QueueStats, at| QueueReading::of(stats, at);
        let (from, to) = (reading(&before.queue, early.at), reading(&after.queue, late.at));
        let samples = samples.class(number, side, place);
        let span = Span { settings: &after.settings.queue, from: &from, to: &to, time, samples };
        let mut page = sheet.page(format!("{name}.{}", after.settings.name));
        span.write(&mut page);
        let repeats = after.stats.filtered - before.stats.filtered;
        page.count("filtered", repeats);
        page.count("spared", after.queue.held_off - before.queue.held_off);
        offered += span.offered();
        drops += span.drops();
        filtered += repeats;
        waiting += span.mean_packets();
        octets += span.bytes_out();
    }
    let mut page = sheet.page(name);
    page.count("drops", drops);
    page.ratio("drops.percent", drops as f64, offered as f64);
    page.count("filtered", filtered);
    page.put("queue.packets.mean", waiting);
    let delivered = to.1.receiver.bytes - from.1.receiver.bytes;
    page.ratio("delivered", delivered as f64 * 8.0, time.as_secs_f64());
    page.count("refused", to.0.refused - from.0.refused);
    write_lanes((&from.0.lanes, &to.0.lanes), octets, &mut page);
}

/// A trunk's sender and receiver.
fn ends(reading: &Reading, (number, side): (usize, usize)) -> (&TrunkReport, &TrunkReport) {
    let [near, far] = &reading.trunks[number];
    if side == 0 { (near, far) } else { (far, near) }
}

/// What both kinds of lane count.
#[derive(Default)]
struct LaneCounts {
    repeats: u64,
    timeouts: u64,
    samples: u64,
    rtt_ns: u64,
    octets: u64,
}

impl LaneCounts {
    fn of(lane: &LaneReport) -> Self {
        let tcp = lane.tcp.unwrap_or_default();
        LaneCounts {
            repeats: tcp.retransmitted_segments,
            timeouts: tcp.timeouts + lane.datagrams.map_or(0, |datagrams| datagrams.timeouts),
            samples: tcp.rtt.samples,
            rtt_ns: tcp.rtt.sum_ns,
            octets: lane.bytes,
        }
    }
}

fn write_lanes((from, to): (&[LaneReport], &[LaneReport]), carried: u64, page: &mut Page<'_>) {
    let mut all = LaneCounts::default();
    for (number, lane) in to.iter().enumerate() {
        // Before the network has run there are none.
        let before = from.get(number);
        let (before, now) = (before.map(LaneCounts::of).unwrap_or_default(), LaneCounts::of(lane));
        all.repeats += now.repeats - before.repeats;
        all.timeouts += now.timeouts - before.timeouts;
        all.samples += now.samples - before.samples;
        all.rtt_ns += now.rtt_ns - before.rtt_ns;
        all.octets += now.octets - before.octets;
    }
    page.count("lane.retransmitted.packets", all.repeats);
    page.count("lane.timeouts", all.timeouts);
    page.ratio("lane.rtt.mean", all.rtt_ns as f64 / 1e9, all.samples as f64);
    page.ratio("lane.overhead", all.octets as f64, carried as f64);
}

fn write_proxy((from, to): (&ProxyStats, &ProxyStats), corrupted: u64, page: &mut Page<'_>) {
    let count = |of: fn(&ProxyStats) -> u64| of(to) - of(from);
    page.count("flows", count(|stats| stats.flows));
    page.count("dropped", count(|stats| stats.dropped));
    page.count("overflowed", count(|stats| stats.overflowed));
    page.count("corrupted", count(|stats| stats.corrupted) + corrupted);
    page.count("held", count(|stats| stats.held));
    page.count("released", count(|stats| stats.released));
    page.count("clamped", count(|stats| stats.clamped));
    page.count("frozen", count(|stats| stats.frozen));
    page.count("buffered.max", to.peak_buffered);
}

fn write_node((from, to): (&NodeStats, &NodeStats), page: &mut Page<'_>) {
    for (name, count) in [
        ("unreachable", to.unreachable - from.unreachable),
        ("hops_exceeded", to.hops_exceeded - from.hops_exceeded),
        ("unclaimed", to.unclaimed - from.unclaimed),
        ("malformed", to.malformed - from.malformed),
        ("corrupted", to.corrupted - from.corrupted),
        ("fragments_given_up", to.fragments_given_up - from.fragments_given_up),
    ] {
        page.count(name, count);
    }
}
