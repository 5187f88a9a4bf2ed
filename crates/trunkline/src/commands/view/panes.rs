//! The tables: their columns, and the order of their rows.

use std::borrow::Cow;
#[cfg(feature = "web")]
use std::collections::BTreeSet;

use trunkline_status::{EdgePacing, UplinkState};

use super::Pane;
use super::format::{bar, mbit, millis, number, or_dash};
use super::model::{
    ClassView, FlowView, LaneNumbers, LaneView, PathView, PeerView, ProxiesView, ProxyView, View,
};
use super::table::{Align, Cell, Column, Row, Table, Tone};

/// The queue in the core from which it counts as not kept at the edge: `CoDel`'s target (RFC 8289 §4.3).
const CORE_QUEUE_US: u32 = 5_000;
/// The share of a queue's capacity from which it is about to drop.
const NEARLY_FULL: f64 = 0.9;

/// A column, and its cell for a `T`.
type ColumnOf<T> = (Column, fn(&T) -> Cell);

/// A column of numbers.
const fn column<T>(title: &'static str, width: u16, rank: u8, cell: fn(&T) -> Cell) -> ColumnOf<T> {
    (Column { title: Cow::Borrowed(title), width, rank, align: Align::Right }, cell)
}

/// A column of words.
const fn words<T>(title: &'static str, width: u16, rank: u8, cell: fn(&T) -> Cell) -> ColumnOf<T> {
    (Column { title: Cow::Borrowed(title), width, rank, align: Align::Left }, cell)
}

/// A row of values.
fn values<T>(columns: &[ColumnOf<T>], name: String, of: &T) -> Row {
    Row::Values { name, cells: columns.iter().map(|(_, cell)| cell(of)).collect() }
}

fn heads<T>(columns: &[ColumnOf<T>]) -> Vec<Column> {
    columns.iter().map(|(column, _)| column.clone()).collect()
}

/// The table of a pane, its rows in that order.
pub(in crate::commands) fn table_of(view: &View, pane: Pane, order: &str) -> Table {
    match pane {
        Pane::Classes => classes(view, order),
        Pane::Lanes => lanes(view, order),
        Pane::Paths => paths(view, order),
        Pane::Flows => flows(view, order),
        Pane::Proxies => proxies(view, order),
    }
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

const CLASS_COLUMNS: &[ColumnOf<ClassView>] = &[
    words("queue", 14, 19, |c| c.discipline.clone().into()),
    column("in Mbit/s", 9, 3, |c| or_dash(c.offered, mbit).into()),
    column("out Mbit/s", 10, 1, |c| or_dash(c.sent, mbit).into()),
    column("waiting", 7, 2, |c| c.backlog.to_string().into()),
    column("mean", 6, 14, |c| or_dash(c.mean_backlog, number).into()),
    column("p50 ms", 6, 8, |c| or_dash(c.p50_us, millis).into()),
    column("p99 ms", 6, 4, |c| or_dash(c.p99_us, millis).into()),
    column("drop/s", 6, 5, |c| events(c.drops, Tone::Warn)),
    words("mostly", 13, 10, |c| {
        c.reasons.first().map(|(reason, _)| reason.clone()).unwrap_or_default().into()
    }),
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

const LANE_COLUMNS: &[ColumnOf<LaneView>] = &[
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

/// What path control does, in a word.
fn mode(path: &PathView) -> Cell {
    let word = match path.mode {
        None => return Cell::new("-", Tone::Plain),
        Some(EdgePacing::Off) => "off",
        Some(EdgePacing::Free) => "free",
        Some(EdgePacing::Held) => "held",
        Some(EdgePacing::Varying) => "varying",
        Some(EdgePacing::Competing) => "competing",
    };
    Cell::new(word, if path.mode == Some(EdgePacing::Competing) { Tone::Warn } else { Tone::Plain })
}

fn path_queue(path: &PathView) -> Cell {
    let tone = match (path.queue_us, path.target_us) {
        (Some(queue), target) if queue > target.max(CORE_QUEUE_US.into()) => Tone::Warn,
        _ => Tone::Plain,
    };
    Cell::new(or_dash(path.queue_us, millis), tone)
}

fn path_state(path: &PathView) -> Cell {
    let Some(state) = path.state else { return Cell::new("-", Tone::Plain) };
    Cell::new(state.to_string(), if state == UplinkState::Up { Tone::Good } else { Tone::Bad })
}

const PATH_COLUMNS: &[ColumnOf<PathView>] = &[
    words("state", 6, 4, path_state),
    words("mode", 9, 0, mode),
    column("Mbit/s", 6, 1, |p| or_dash(p.delivered, |rate| mbit(rate as f64)).into()),
    column("may Mbit/s", 10, 5, |p| or_dash(p.rate, |rate| mbit(rate as f64)).into()),
    column("has Mbit/s", 10, 2, |p| or_dash(p.capacity, |rate| mbit(rate as f64)).into()),
    column("core ms", 7, 3, path_queue),
    words("of", 8, 9, |p| {
        Cell::new(
            if p.queue_us.is_none() {
                ""
            } else if p.is_reported {
                "there"
            } else {
                "and back"
            },
            Tone::Plain,
        )
    }),
    column("target", 6, 10, |p| or_dash(p.mode.map(|_| p.target_us), millis).into()),
    column("loss %", 6, 6, |p| or_dash(p.loss, |loss| number(loss * 100.0)).into()),
    column("lanes", 5, 8, |p| or_dash(p.lanes, |(up, of)| format!("{up}/{of}")).into()),
    column("flows", 5, 11, |p| or_dash(p.flows, |flows| flows.to_string()).into()),
    column("rtt ms", 6, 7, |p| or_dash(p.rtt_us, millis).into()),
    words("what was found out last", 40, 12, |p| p.cause.clone().unwrap_or_default().into()),
];

const FLOW_COLUMNS: &[ColumnOf<FlowView>] = &[
    words("class", 11, 3, |f| f.class.clone().into()),
    column("Mbit/s", 6, 1, |f| or_dash(f.rate, mbit).into()),
    column("MB", 6, 4, |f| number(f.bytes as f64 / 1e6).into()),
    column("rtt ms", 6, 2, |f| or_dash(f.rtt_us, millis).into()),
    column("filt/s", 6, 5, |f| events(f.filtered, Tone::Plain)),
    column("idle s", 6, 6, |f| number(f.idle.as_secs_f64()).into()),
];

const PROXY_COLUMNS: &[ColumnOf<ProxyView>] = &[
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
pub(in crate::commands) fn of_peer(view: &View, peer: &PeerView, name: &str) -> String {
    if view.peers.len() > 1 { format!("{}: {name}", peer.name) } else { name.to_owned() }
}

fn classes(view: &View, order: &str) -> Table {
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
        rows.extend(classes.into_iter().map(|class| values(CLASS_COLUMNS, class.name.clone(), class)));
    }
    Table { title: "classes", columns: heads(CLASS_COLUMNS), name_width: 12, rows }
}

fn lanes(view: &View, order: &str) -> Table {
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
    let row = |(peer, lane): (&PeerView, &LaneView)| {
        let name = of_peer(view, peer, &lane.name);
        if lane.numbers.is_some() {
            return values(LANE_COLUMNS, name, lane);
        }
        let why = if lane.remark.is_empty() { String::new() } else { format!(": {}", lane.remark) };
        Row::Words { name, words: Cell::new(format!("{}{why}", lane.state), Tone::Bad) }
    };
    Table {
        title: "lanes",
        columns: heads(LANE_COLUMNS),
        name_width: 12,
        rows: lanes.into_iter().map(row).collect(),
    }
}

fn paths(view: &View, order: &str) -> Table {
    let mut paths: Vec<(&PeerView, &PathView)> =
        view.peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path))).collect();
    match order {
        "rate" => sort(&mut paths, |(_, path)| path.delivered.map(|rate| rate as f64)),
        "core queue" => sort(&mut paths, |(_, path)| path.queue_us.map(|us| us as f64)),
        "loss" => sort(&mut paths, |(_, path)| path.loss),
        _ => {}
    }
    let row =
        |(peer, path): (&PeerView, &PathView)| values(PATH_COLUMNS, of_peer(view, peer, &path.name), path);
    Table {
        title: "paths",
        columns: heads(PATH_COLUMNS),
        name_width: 12,
        rows: paths.into_iter().map(row).collect(),
    }
}

fn flows(view: &View, order: &str) -> Table {
    let mut flows: Vec<(&PeerView, &FlowView)> =
        view.peers.iter().flat_map(|peer| peer.flows.iter().map(move |flow| (peer, flow))).collect();
    match order {
        "bytes" => sort(&mut flows, |(_, flow)| Some(flow.bytes as f64)),
        "rtt" => sort(&mut flows, |(_, flow)| flow.rtt_us.map(|us| us as f64)),
        "filtered" => sort(&mut flows, |(_, flow)| flow.filtered),
        _ => sort(&mut flows, |(_, flow)| flow.rate),
    }
    let row =
        |(peer, flow): (&PeerView, &FlowView)| values(FLOW_COLUMNS, of_peer(view, peer, &flow.name), flow);
    Table {
        title: "flows",
        columns: heads(FLOW_COLUMNS),
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

fn proxies(view: &View, order: &str) -> Table {
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
        rows.extend(proxies.into_iter().map(|proxy| values(PROXY_COLUMNS, proxy.name.clone(), proxy)));
    }
    Table { title: "proxies", columns: heads(PROXY_COLUMNS), name_width: 12, rows }
}

/// Drops at the edge by their reasons, of all classes that drop.
#[cfg(feature = "web")]
pub(in crate::commands) fn drops(view: &View) -> Table {
    let classes = || view.peers.iter().flat_map(|peer| peer.classes.iter().map(move |class| (peer, class)));
    let reasons: BTreeSet<&str> =
        classes().flat_map(|(_, class)| class.reasons.iter().map(|(reason, _)| reason.as_str())).collect();
    let row = |(peer, class): (&PeerView, &ClassView)| {
        let rate =
            |reason: &str| class.reasons.iter().find(|(name, _)| name == reason).map(|(_, rate)| *rate);
        let cells = reasons.iter().map(|reason| events(rate(reason), Tone::Warn)).collect();
        Row::Values { name: of_peer(view, peer, &class.name), cells }
    };
    let column = |reason: &&str| Column {
        title: Cow::Owned(reason.replace('_', " ")),
        width: 12,
        rank: 1,
        align: Align::Right,
    };
    Table {
        title: "drops at the edge a second",
        columns: reasons.iter().map(column).collect(),
        name_width: 12,
        rows: classes().filter(|(_, class)| !class.reasons.is_empty()).map(row).collect(),
    }
}
