//! The tables: their columns, and the order of their rows.

use super::format::{bar, mbit, millis, number, or_dash};
use super::model::{ClassView, FlowView, LaneNumbers, LaneView, PeerView, ProxiesView, ProxyView, View};
use super::table::{Align, Cell, Column, Row, Table, Tone};

/// The queue in the core from which it counts as not kept at the edge: `CoDel`'s target (RFC 8289 §4.3).
const CORE_QUEUE_US: u32 = 5_000;
/// The share of a queue's capacity from which it is about to drop.
const NEARLY_FULL: f64 = 0.9;

/// A column of numbers.
const fn column<T>(title: &'static str, width: u16, rank: u8, cell: fn(&T) -> Cell) -> Column<T> {
    Column { title, width, rank, align: Align::Right, cell }
}

/// A column of words.
const fn words<T>(title: &'static str, width: u16, rank: u8, cell: fn(&T) -> Cell) -> Column<T> {
    Column { title, width, rank, align: Align::Left, cell }
}

/// Events per second, in `tone` if there are any.
fn events(rate: Option<f64>, tone: Tone) -> Cell {
    Cell::new(or_dash(rate, number), if rate.is_some_and(|rate| rate > 0.0) { tone } else { Tone::Plain })
}

fn fill(class: &ClassView) -> Cell {
    let tone = match class.fill {
        Some(fill) if fill >= NEARLY_FULL => Tone::Bad,
        Some(fill) if fill >= 0.5 => Tone::Warn,
        _ => Tone::Good,
    };
    Cell::new(or_dash(class.fill, |fill| bar(fill, 5)), tone)
}

const CLASS_COLUMNS: &[Column<ClassView>] = &[
    words("queue", 14, 19, |c| c.discipline.clone().into()),
    column("in Mbit/s", 9, 3, |c| or_dash(c.offered, mbit).into()),
    column("out Mbit/s", 10, 1, |c| or_dash(c.sent, mbit).into()),
    column("waiting", 7, 2, |c| c.backlog.to_string().into()),
    column("mean", 6, 14, |c| or_dash(c.mean_backlog, number).into()),
    column("p50 ms", 6, 8, |c| or_dash(c.p50_us, millis).into()),
    column("p99 ms", 6, 4, |c| or_dash(c.p99_us, millis).into()),
    column("drop/s", 6, 5, |c| events(c.drops, Tone::Warn)),
    words("mostly", 13, 10, |c| c.main_reason.clone().unwrap_or_default().into()),
    column("mark/s", 6, 11, |c| events(c.marked, Tone::Plain)),
    column("hold/s", 7, 16, |c| events(c.held_off, Tone::Plain)),
    column("filt/s", 6, 12, |c| events(c.filtered, Tone::Plain)),
    column("N", 4, 7, |c| c.flows.to_string().into()),
    column("K", 4, 9, |c| or_dash(c.k_packets, |k| k.to_string()).into()),
    column("P %", 5, 15, |c| or_dash(c.drop_probability, |p| number(p * 100.0)).into()),
    column("RTTup ms", 8, 13, |c| or_dash(c.rtt_up_us, millis).into()),
    column("W kB", 5, 17, |c| or_dash(c.window_bytes, |w| number(w as f64 / 1e3)).into()),
    column("weight", 6, 18, |c| c.weight.to_string().into()),
    words("lanes", 10, 20, |c| c.lane_group.clone().into()),
    column("full", 10, 6, fill),
];

/// The numbers of a lane; rows of lanes that are down have none.
fn lane(lane: &LaneView, text: impl FnOnce(&LaneNumbers) -> String) -> Cell {
    or_dash(lane.numbers.as_ref(), text).into()
}

fn core_queue(view: &LaneView) -> Cell {
    let queue = view.numbers.and_then(|n| n.queue_in_core_us);
    let tone = if queue.is_some_and(|us| us > CORE_QUEUE_US) { Tone::Warn } else { Tone::Plain };
    Cell::new(or_dash(queue, |us| millis(us.into())), tone)
}

const LANE_COLUMNS: &[Column<LaneView>] = &[
    words("state", 5, 0, |l| Cell::new(l.state.to_string(), Tone::Good)),
    column("cwnd", 6, 6, |l| lane(l, |n| n.cwnd.to_string())),
    column("rtt ms", 6, 2, |l| lane(l, |n| or_dash(n.rtt_us, |us| millis(us.into())))),
    column("min ms", 6, 4, |l| lane(l, |n| or_dash(n.min_rtt_us, |us| millis(us.into())))),
    column("core ms", 7, 3, core_queue),
    column("out Mbit/s", 10, 1, |l| lane(l, |n| or_dash(n.sent, mbit))),
    column("in Mbit/s", 9, 8, |l| lane(l, |n| or_dash(n.received, mbit))),
    column("retr/s", 6, 5, |l| events(l.numbers.and_then(|n| n.retransmits), Tone::Warn)),
    column("headers", 7, 7, |l| lane(l, |n| or_dash(n.compression, |ratio| format!("1/{}", number(ratio))))),
    column("pace Mbit/s", 11, 11, |l| lane(l, |n| or_dash(n.pacing_rate, |rate| mbit(rate as f64)))),
    column("unsent kB", 9, 10, |l| lane(l, |n| number(n.unsent_bytes as f64 / 1e3))),
    words("over", 4, 12, |l| l.transport.clone().into()),
    words("control", 8, 9, |l| l.congestion_control.clone().into()),
    words("to", 28, 13, |l| l.remark.clone().into()),
];

const FLOW_COLUMNS: &[Column<FlowView>] = &[
    words("class", 11, 3, |f| f.class.clone().into()),
    column("Mbit/s", 6, 1, |f| or_dash(f.rate, mbit).into()),
    column("MB", 6, 4, |f| number(f.bytes as f64 / 1e6).into()),
    column("rtt ms", 6, 2, |f| or_dash(f.rtt_us, millis).into()),
    column("filt/s", 6, 5, |f| events(f.filtered, Tone::Plain)),
    column("idle s", 6, 6, |f| number(f.idle.as_secs_f64()).into()),
];

const PROXY_COLUMNS: &[Column<ProxyView>] = &[
    words("mode", 12, 8, |p| p.mode.clone().into()),
    column("open", 6, 1, |p| p.open.to_string().into()),
    column("new/s", 6, 7, |p| or_dash(p.opened, number).into()),
    column("Mbit/s", 6, 2, |p| or_dash(p.delivered, mbit).into()),
    column("MB", 6, 10, |p| number(p.delivered_bytes as f64 / 1e6).into()),
    column("held kB", 7, 3, |p| number(p.held as f64 / 1e3).into()),
    column("max kB", 6, 6, |p| number(p.held_max as f64 / 1e3).into()),
    column("link Mb/s", 9, 4, |p| p.link.clone().into()),
    column("ACK/s", 6, 5, |p| or_dash(p.delayed, number).into()),
    column("drop/s", 6, 9, |p| events(p.dropped, Tone::Plain)),
    column("clamp/s", 7, 11, |p| events(p.clamped, Tone::Plain)),
];

/// Sorts the largest first and rows without a value last; equal rows keep their order.
fn sort<T>(rows: &mut [T], key: impl Fn(&T) -> Option<f64>) {
    rows.sort_by(|a, b| key(b).unwrap_or(-1.0).total_cmp(&key(a).unwrap_or(-1.0)));
}

fn heading(peer: &PeerView) -> Cell {
    let clear = if peer.in_clear { ", IN CLEAR" } else { "" };
    let received = or_dash(peer.received, mbit);
    let text = format!("peer {}{clear}: {received} Mbit/s come from it", peer.name);
    match peer.refused {
        Some(rate) if rate > 0.0 => Cell::new(format!("{text}, {}/s refused", number(rate)), Tone::Bad),
        _ => Cell::new(text, Tone::Strong),
    }
}

/// A name among those of several peers.
fn of_peer(view: &View, peer: &PeerView, name: &str) -> String {
    if view.peers.len() > 1 { format!("{}: {name}", peer.name) } else { name.to_owned() }
}

pub(super) fn classes<'a>(view: &'a View, order: &str) -> Table<'a, ClassView> {
    let mut rows = Vec::new();
    for peer in &view.peers {
        rows.push(Row::Heading(heading(peer)));
        let mut classes: Vec<&ClassView> = peer.classes.iter().collect();
        match order {
            "rate" => sort(&mut classes, |class| class.sent),
            "waiting" => sort(&mut classes, |class| Some(class.backlog as f64)),
            "drops" => sort(&mut classes, |class| class.drops),
            _ => {}
        }
        rows.extend(classes.into_iter().map(|class| Row::Values { name: class.name.clone(), of: class }));
    }
    Table { title: "classes", columns: CLASS_COLUMNS, name_width: 12, rows }
}

pub(super) fn lanes<'a>(view: &'a View, order: &str) -> Table<'a, LaneView> {
    let mut lanes: Vec<(&PeerView, &LaneView)> =
        view.peers.iter().flat_map(|peer| peer.lanes.iter().map(move |lane| (peer, lane))).collect();
    let by = |key: fn(&LaneNumbers) -> Option<f64>| {
        move |(_, lane): &(&PeerView, &LaneView)| lane.numbers.as_ref().and_then(key)
    };
    match order {
        "rate" => sort(&mut lanes, by(|numbers| numbers.sent)),
        "core queue" => sort(&mut lanes, by(|numbers| numbers.queue_in_core_us.map(f64::from))),
        "retransmits" => sort(&mut lanes, by(|numbers| numbers.retransmits)),
        _ => {}
    }
    let row = |(peer, lane): (&PeerView, &'a LaneView)| {
        let name = of_peer(view, peer, &lane.name);
        if lane.numbers.is_some() {
            return Row::Values { name, of: lane };
        }
        let why = if lane.remark.is_empty() { String::new() } else { format!(": {}", lane.remark) };
        Row::Words { name, words: Cell::new(format!("{}{why}", lane.state), Tone::Bad) }
    };
    Table {
        title: "lanes",
        columns: LANE_COLUMNS,
        name_width: 12,
        rows: lanes.into_iter().map(row).collect(),
    }
}

pub(super) fn flows<'a>(view: &'a View, order: &str) -> Table<'a, FlowView> {
    let mut flows: Vec<(&PeerView, &FlowView)> =
        view.peers.iter().flat_map(|peer| peer.flows.iter().map(move |flow| (peer, flow))).collect();
    match order {
        "bytes" => sort(&mut flows, |(_, flow)| Some(flow.bytes as f64)),
        "rtt" => sort(&mut flows, |(_, flow)| flow.rtt_us.map(|us| us as f64)),
        "filtered" => sort(&mut flows, |(_, flow)| flow.filtered),
        _ => sort(&mut flows, |(_, flow)| flow.rate),
    }
    let row = |(peer, flow): (&PeerView, &'a FlowView)| Row::Values {
        name: of_peer(view, peer, &flow.name),
        of: flow,
    };
    Table {
        title: "flows",
        columns: FLOW_COLUMNS,
        name_width: 42,
        rows: flows.into_iter().map(row).collect(),
    }
}

/// What all proxies of a daemon do together.
fn connections(proxies: &ProxiesView) -> Cell {
    let opened = or_dash(proxies.opened, number);
    let text = format!("{} open, {} being opened, {opened} opened/s", proxies.open, proxies.opening);
    match (proxies.failed, proxies.main_failure) {
        (Some(rate), Some(how)) => {
            Cell::new(format!("{text}, {} failed/s, mostly: {how}", number(rate)), Tone::Warn)
        }
        _ => Cell::new(text, Tone::Strong),
    }
}

pub(super) fn proxies<'a>(view: &'a View, order: &str) -> Table<'a, ProxyView> {
    let mut rows = Vec::new();
    if let Some(all) = &view.proxies {
        rows.push(Row::Heading(connections(all)));
        let mut proxies: Vec<&ProxyView> = all.proxies.iter().collect();
        match order {
            "rate" => sort(&mut proxies, |proxy| proxy.delivered),
            "held" => sort(&mut proxies, |proxy| Some(proxy.held as f64)),
            "open" => sort(&mut proxies, |proxy| Some(proxy.open as f64)),
            _ => {}
        }
        rows.extend(proxies.into_iter().map(|proxy| Row::Values { name: proxy.name.clone(), of: proxy }));
    }
    Table { title: "proxies", columns: PROXY_COLUMNS, name_width: 12, rows }
}
