//! The values that a frame shows, from two states of a daemon.
//!
//! Counters become rates over the time between the two states, by the daemon's own clock; histograms become quantiles of
//! that time alone. A counter that fell has started from zero again (a reload, a new connection). After a restart of the
//! daemon, and at the start, there is no earlier state and so no rate.

use std::collections::HashMap;
use std::time::Duration;

use trunkline_status::{
    Class, EdgePacing, Flow, Lane, LaneState, Path, Peer, ProxyStatus, Status, Tun, Uplink, UplinkState,
};

use super::Pane;
use crate::commands::control::State;
use crate::commands::proxies;
use crate::commands::rates::{Between, LaneRates, earlier, growth};

/// Everything that a frame shows.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct View {
    pub(in crate::commands) site: String,
    pub(in crate::commands) uptime: Duration,
    /// `None` for a process that runs proxies alone.
    pub(in crate::commands) device: Option<DeviceView>,
    pub(in crate::commands) peers: Vec<PeerView>,
    pub(in crate::commands) proxies: Option<ProxiesView>,
}

/// The proxies of a daemon. Rates are in connections/s and bit/s.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct ProxiesView {
    pub(in crate::commands) open: u64,
    pub(in crate::commands) opening: u64,
    pub(in crate::commands) opened: Option<f64>,
    /// Connections that were not opened, passed, or ended for want of something.
    pub(in crate::commands) failed: Option<f64>,
    /// How most of them failed between the two states.
    pub(in crate::commands) main_failure: Option<&'static str>,
    pub(in crate::commands) from_clients: Option<f64>,
    pub(in crate::commands) from_servers: Option<f64>,
    pub(in crate::commands) proxies: Vec<ProxyView>,
}

/// One of `[[proxies]]`. Rates are in bit/s, and of connections, segments and packets per second.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct ProxyView {
    pub(in crate::commands) name: String,
    pub(in crate::commands) mode: String,
    pub(in crate::commands) open: u64,
    pub(in crate::commands) opened: Option<f64>,
    /// What the hosts behind have acknowledged.
    pub(in crate::commands) delivered: Option<f64>,
    pub(in crate::commands) delivered_bytes: u64,
    pub(in crate::commands) held: u64,
    pub(in crate::commands) held_max: u64,
    /// The emulated link's rate, as text.
    pub(in crate::commands) link: String,
    pub(in crate::commands) delayed: Option<f64>,
    pub(in crate::commands) dropped: Option<f64>,
    pub(in crate::commands) clamped: Option<f64>,
}

/// The TUN device. Rates are in bit/s and packets/s.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct DeviceView {
    pub(in crate::commands) name: String,
    pub(in crate::commands) read: Option<f64>,
    pub(in crate::commands) drops: Option<f64>,
    pub(in crate::commands) main_reason: Option<&'static str>,
    pub(in crate::commands) pool_bytes: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct PeerView {
    pub(in crate::commands) name: String,
    pub(in crate::commands) in_clear: bool,
    /// The rate of packets from it, bit/s.
    pub(in crate::commands) received: Option<f64>,
    /// Refused packets, packets/s.
    pub(in crate::commands) refused: Option<f64>,
    pub(in crate::commands) classes: Vec<ClassView>,
    pub(in crate::commands) lanes: Vec<LaneView>,
    pub(in crate::commands) paths: Vec<PathView>,
    pub(in crate::commands) flows: Vec<FlowView>,
}

/// Rates are in bit/s, and of drops, marks and the like in packets/s.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct ClassView {
    pub(in crate::commands) name: String,
    pub(in crate::commands) discipline: String,
    pub(in crate::commands) lane_group: String,
    pub(in crate::commands) weight: u32,
    pub(in crate::commands) offered: Option<f64>,
    pub(in crate::commands) sent: Option<f64>,
    pub(in crate::commands) backlog: u64,
    pub(in crate::commands) mean_backlog: Option<f64>,
    pub(in crate::commands) p50_us: Option<u64>,
    pub(in crate::commands) p99_us: Option<u64>,
    pub(in crate::commands) drops: Option<f64>,
    /// The reasons of drops between the two states, packets/s, the most frequent first.
    pub(in crate::commands) reasons: Vec<(String, f64)>,
    pub(in crate::commands) marked: Option<f64>,
    pub(in crate::commands) held_off: Option<f64>,
    pub(in crate::commands) filtered: Option<f64>,
    pub(in crate::commands) flows: u64,
    pub(in crate::commands) k_packets: Option<u64>,
    /// The used share of the capacity, of bytes or packets, whichever is larger: 0 to 1, or above while the capacity shrinks.
    pub(in crate::commands) fill: Option<f64>,
    pub(in crate::commands) drop_probability: Option<f64>,
    pub(in crate::commands) rtt_up_us: Option<u64>,
    pub(in crate::commands) window_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct LaneView {
    pub(in crate::commands) name: String,
    pub(in crate::commands) state: LaneState,
    pub(in crate::commands) transport: String,
    pub(in crate::commands) congestion_control: String,
    /// `None` while it is down.
    pub(in crate::commands) numbers: Option<LaneNumbers>,
    /// The peer's address, or why there is no lane.
    pub(in crate::commands) remark: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::commands) struct LaneNumbers {
    pub(in crate::commands) cwnd: u32,
    pub(in crate::commands) rtt_us: Option<u32>,
    pub(in crate::commands) min_rtt_us: Option<u32>,
    pub(in crate::commands) queue_in_core_us: Option<u32>,
    pub(in crate::commands) sent: Option<f64>,
    pub(in crate::commands) received: Option<f64>,
    pub(in crate::commands) retransmits: Option<f64>,
    /// Header bytes before compression over header bytes after it.
    pub(in crate::commands) compression: Option<f64>,
    pub(in crate::commands) unsent_bytes: u64,
    pub(in crate::commands) pacing_rate: Option<u64>,
}

/// A path for packets of one DSCP, or one of several paths of which path control knows nothing. Rates are in bit/s.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::commands) struct PathView {
    /// `path` where there is one alone, with its DSCP where there are several.
    pub(in crate::commands) name: String,
    /// Of one of several.
    pub(in crate::commands) state: Option<UplinkState>,
    /// `None` if path control knows nothing of it. So it is with the numbers below.
    pub(in crate::commands) mode: Option<EdgePacing>,
    pub(in crate::commands) delivered: Option<u64>,
    pub(in crate::commands) rate: Option<u64>,
    pub(in crate::commands) capacity: Option<u64>,
    pub(in crate::commands) queue_us: Option<u64>,
    pub(in crate::commands) target_us: u64,
    /// Whether the queue is that of the way there alone.
    pub(in crate::commands) is_reported: bool,
    pub(in crate::commands) loss: Option<f64>,
    /// Of one of several: lanes that are up, and all.
    pub(in crate::commands) lanes: Option<(u32, u32)>,
    pub(in crate::commands) flows: Option<u32>,
    pub(in crate::commands) rtt_us: Option<u64>,
    pub(in crate::commands) cause: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct FlowView {
    /// Protocol and both ends.
    pub(in crate::commands) name: String,
    pub(in crate::commands) class: String,
    pub(in crate::commands) rate: Option<f64>,
    /// Bytes that it has sent since the gateway first saw it.
    pub(in crate::commands) bytes: u64,
    pub(in crate::commands) filtered: Option<f64>,
    pub(in crate::commands) rtt_us: Option<u64>,
    pub(in crate::commands) idle: Duration,
}

impl View {
    /// The state `now` of a daemon, with rates since `before`.
    pub(in crate::commands) fn of(before: Option<&State>, now: &State) -> Self {
        match (before, now) {
            (Some(State::Gateway(before)), State::Gateway(now)) => View::new(Some(before), now),
            (_, State::Gateway(now)) => View::new(None, now),
            (Some(State::Proxies(before)), State::Proxies(now)) => View::of_proxies(Some(before), now),
            (_, State::Proxies(now)) => View::of_proxies(None, now),
        }
    }

    /// That of a process that runs proxies alone.
    pub(in crate::commands) fn of_proxies(
        before: Option<&trunkline_status::ProxiesStatus>,
        now: &trunkline_status::ProxiesStatus,
    ) -> Self {
        View {
            site: now.name.clone(),
            uptime: seconds(now.uptime_s),
            device: None,
            peers: Vec::new(),
            proxies: Some(ProxiesView::new(before, now)),
        }
    }

    /// That of a gateway.
    pub(in crate::commands) fn new(before: Option<&Status>, now: &Status) -> Self {
        let last = before.and_then(|before| Some((before, Between::states(before, now)?)));
        let peers = now.peers.iter().map(|peer| {
            let last = last.and_then(|(status, between)| {
                Some((status.peers.iter().find(|old| old.public_key == peer.public_key)?, between))
            });
            PeerView::new(last, peer)
        });
        View {
            site: now.name.clone(),
            uptime: seconds(now.uptime_s),
            device: Some(DeviceView::new(last.map(|(status, between)| (&status.tun, between)), &now.tun)),
            peers: peers.collect(),
            proxies: now
                .proxies
                .as_ref()
                .map(|proxies| ProxiesView::new(before.and_then(|before| before.proxies.as_ref()), proxies)),
        }
    }

    /// The panes that have something to show.
    pub(in crate::commands) fn panes(&self) -> Vec<Pane> {
        let mut panes = Pane::ALL.to_vec();
        panes.retain(|pane| match pane {
            Pane::Classes | Pane::Lanes | Pane::Flows => self.device.is_some(),
            Pane::Paths => self.peers.iter().any(|peer| !peer.paths.is_empty()),
            Pane::Proxies => self.proxies.is_some(),
        });
        panes
    }

    /// Lanes that are up, and all.
    pub(in crate::commands) fn lanes_up(&self) -> (usize, usize) {
        let lanes = || self.peers.iter().flat_map(|peer| &peer.lanes);
        (lanes().filter(|lane| lane.numbers.is_some()).count(), lanes().count())
    }
}

impl DeviceView {
    fn new(last: Option<(&Tun, Between)>, now: &Tun) -> Self {
        let reasons = |tun: &Tun| {
            [
                ("no route", tun.dropped_no_route),
                ("multicast", tun.dropped_multicast),
                ("malformed", tun.dropped_malformed),
                ("too long", tun.dropped_too_long),
                ("no memory", tun.dropped_no_memory),
                ("device queue", tun.dropped_device_queue),
            ]
        };
        let drops = last.map(|(before, between)| {
            let growth = reasons(before).into_iter().zip(reasons(now));
            growth.map(|((name, before), (_, now))| (name, between.rate(before, now))).collect::<Vec<_>>()
        });
        let main = drops.iter().flatten().filter(|(_, rate)| *rate > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        DeviceView {
            name: now.name.clone(),
            read: last.map(|(before, between)| 8.0 * between.rate(before.read_bytes, now.read_bytes)),
            main_reason: main.map(|(name, _)| *name),
            drops: drops.map(|drops| drops.iter().map(|(_, rate)| rate).sum()),
            pool_bytes: now.pool_bytes,
        }
    }
}

impl ProxiesView {
    fn new(before: Option<&trunkline_status::ProxiesStatus>, now: &trunkline_status::ProxiesStatus) -> Self {
        let last = before.and_then(|before| Some((before, Between::proxies(before, now)?)));
        let totals = &now.totals;
        let rate = |count: fn(&trunkline_status::ProxyTotals) -> u64| {
            last.map(|(before, between)| between.rate(count(&before.totals), count(totals)))
        };
        let failures = last.map(|(before, between)| {
            let growth = proxies::endings(&before.totals).into_iter().zip(proxies::endings(totals));
            growth.map(|((how, before), (_, now))| (how, between.rate(before, now))).collect::<Vec<_>>()
        });
        let main =
            failures.iter().flatten().filter(|(_, rate)| *rate > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        let proxies = now.proxies.iter().map(|proxy| {
            let last = last.and_then(|(before, between)| Some((proxies::earlier(before, proxy)?, between)));
            ProxyView::new(last, proxy)
        });
        ProxiesView {
            open: totals.open,
            opening: totals.opening,
            opened: rate(|totals| totals.opened),
            main_failure: main.map(|(how, _)| *how),
            failed: failures.map(|failures| failures.iter().map(|(_, rate)| rate).sum()),
            from_clients: rate(|totals| totals.bytes_from_clients).map(|bytes| bytes * 8.0),
            from_servers: rate(|totals| totals.bytes_from_servers).map(|bytes| bytes * 8.0),
            proxies: proxies.collect(),
        }
    }
}

impl ProxyView {
    fn new(last: Option<(&ProxyStatus, Between)>, now: &ProxyStatus) -> Self {
        let counts = &now.counts;
        let rate = |count: fn(&trunkline_status::ProxyCounts) -> u64| {
            last.map(|(before, between)| between.rate(count(&before.counts), count(counts)))
        };
        ProxyView {
            name: now.name.clone(),
            mode: now.mode.clone(),
            open: counts.open,
            opened: rate(|counts| counts.opened),
            delivered: rate(|counts| counts.delivered).map(|bytes| bytes * 8.0),
            delivered_bytes: counts.delivered,
            held: counts.held,
            held_max: counts.held_max,
            link: proxies::link_rate(counts.rate, now.is_measured),
            delayed: rate(|counts| counts.tail_held),
            dropped: rate(|counts| counts.tail_dropped),
            clamped: rate(|counts| counts.clamped),
        }
    }
}

impl PeerView {
    fn new(last: Option<(&Peer, Between)>, now: &Peer) -> Self {
        let rate =
            |count: fn(&Peer) -> u64| last.map(|(before, between)| between.rate(count(before), count(now)));
        let classes = now.classes.iter().map(|class| {
            let last = last.and_then(|(peer, between)| {
                Some((peer.classes.iter().find(|old| old.name == class.name)?, between))
            });
            ClassView::new(last, class)
        });
        let several = |number: fn(&Lane) -> u16| now.lanes.iter().any(|lane| number(lane) > 0);
        let (shards, indices) = (several(|lane| lane.shard), several(|lane| lane.index));
        let lanes = now.lanes.iter().map(|lane| {
            let last = last.and_then(|(peer, between)| Some((earlier(&peer.lanes, lane)?, between)));
            let shard = if shards { format!("/{}", lane.shard) } else { String::new() };
            let index = if indices { format!(".{}", lane.index) } else { String::new() };
            let path = if lane.path.is_empty() { String::new() } else { format!("@{}", lane.path) };
            LaneView::new(format!("{}{shard}{index}{path}", lane.lane_group), last, lane)
        });
        let old_flows: HashMap<_, _> =
            last.iter().flat_map(|(peer, _)| &peer.flows).map(|flow| (flow_key(flow), flow)).collect();
        let flows = now.flows.iter().map(|flow| {
            let old = old_flows.get(&flow_key(flow)).copied();
            FlowView::new(old.zip(last.map(|(_, between)| between)), flow)
        });
        PeerView {
            name: now.name.clone(),
            in_clear: now.in_clear(),
            received: rate(|peer| peer.received.bytes).map(|bytes| bytes * 8.0),
            refused: rate(|peer| peer.received.refused()),
            classes: classes.collect(),
            lanes: lanes.collect(),
            paths: PathView::all(now),
            flows: flows.collect(),
        }
    }
}

impl PathView {
    /// The paths to a peer: those that path control knows, and then those of which it knows nothing.
    fn all(peer: &Peer) -> Vec<Self> {
        let uplink = |name: &str| peer.uplinks.iter().find(|uplink| uplink.name == *name);
        let marked = peer.paths.iter().any(|path| path.dscp != peer.paths[0].dscp);
        let known = peer.paths.iter().map(|path| PathView::new(path, uplink(&path.path), marked));
        let others =
            peer.uplinks.iter().filter(|uplink| peer.paths.iter().all(|path| path.path != uplink.name));
        let others = others.map(|uplink| PathView { name: uplink.name.clone(), ..PathView::of(uplink) });
        known.chain(others).collect()
    }

    fn new(path: &Path, uplink: Option<&Uplink>, marked: bool) -> Self {
        let name = if path.path.is_empty() { "path" } else { &path.path };
        PathView {
            name: if marked { format!("{name}, DSCP {}", path.dscp) } else { name.to_owned() },
            mode: Some(path.mode),
            delivered: Some(path.lane_groups.iter().map(|share| share.delivered).sum()),
            rate: path.rate,
            capacity: path.capacity,
            queue_us: path.queue_us,
            target_us: path.target_us,
            is_reported: path.reported,
            loss: path.loss,
            cause: path.cause.clone(),
            ..uplink.map(PathView::of).unwrap_or_default()
        }
    }

    fn of(uplink: &Uplink) -> Self {
        PathView {
            state: Some(uplink.state),
            lanes: Some((uplink.lanes_up, uplink.lanes)),
            flows: Some(uplink.flows),
            rtt_us: uplink.rtt_us,
            ..PathView::default()
        }
    }
}

impl ClassView {
    fn new(last: Option<(&Class, Between)>, now: &Class) -> Self {
        let rate =
            |count: fn(&Class) -> u64| last.map(|(before, between)| between.rate(count(before), count(now)));
        let sojourn = last.map(|(before, _)| now.sojourn.since(&before.sojourn));
        let reasons = last.map(|(before, between)| {
            let then = |reason: &str| before.drops.get(reason).copied().unwrap_or(0);
            let rates =
                now.drops.iter().map(|(reason, count)| (reason.clone(), between.rate(then(reason), *count)));
            let mut rates: Vec<_> = rates.filter(|(_, rate)| *rate > 0.0).collect();
            rates.sort_by(|a, b| b.1.total_cmp(&a.1));
            rates
        });
        let share = |taken: u64, of: u64| (of > 0).then(|| taken as f64 / of as f64);
        let fill =
            [share(now.backlog_packets, now.capacity_packets), share(now.backlog_bytes, now.capacity_bytes)];
        ClassView {
            name: now.name.clone(),
            discipline: now.discipline.clone(),
            lane_group: now.lane_group.clone(),
            weight: now.weight,
            offered: rate(|class| class.bytes).map(|bytes| bytes * 8.0),
            sent: rate(|class| class.bytes_sent).map(|bytes| bytes * 8.0),
            backlog: now.backlog_packets,
            mean_backlog: last.map(|(before, between)| {
                let [then, now] = [before, now].map(|class| class.backlog_packet_seconds);
                (if now < then { now } else { now - then }) / between.seconds()
            }),
            p50_us: sojourn.as_ref().and_then(|sojourn| sojourn.p50_us),
            p99_us: sojourn.as_ref().and_then(|sojourn| sojourn.p99_us),
            drops: rate(Class::dropped),
            reasons: reasons.unwrap_or_default(),
            marked: rate(|class| class.marked),
            held_off: rate(|class| class.held_off),
            filtered: rate(|class| class.filtered),
            flows: now.flows,
            k_packets: now.k_packets,
            fill: fill.into_iter().flatten().reduce(f64::max),
            drop_probability: now.drop_probability,
            rtt_up_us: now.rtt_up_us,
            window_bytes: now.window_bytes,
        }
    }
}

impl LaneView {
    fn new(name: String, last: Option<(&Lane, Between)>, now: &Lane) -> Self {
        let rates = LaneRates::new(last, now);
        let numbers = LaneNumbers {
            cwnd: now.cwnd,
            rtt_us: now.rtt_us,
            min_rtt_us: now.min_rtt_us,
            queue_in_core_us: rates.core_queue_us,
            sent: rates.sent,
            received: rates.received,
            retransmits: rates.retransmits,
            compression: last.and_then(|(before, _)| {
                let whole = growth(before.headers_in_bytes, now.headers_in_bytes);
                let sent = growth(before.headers_out_bytes, now.headers_out_bytes);
                (sent > 0).then(|| whole as f64 / sent as f64)
            }),
            unsent_bytes: now.unsent_bytes,
            pacing_rate: now.pacing_rate,
        };
        let up = now.state == LaneState::Up;
        let remark = if up { &now.remote } else { &now.last_error };
        LaneView {
            name,
            state: now.state,
            transport: now.transport.clone(),
            congestion_control: now.congestion_control.clone(),
            numbers: up.then_some(numbers),
            remark: remark.clone().unwrap_or_default(),
        }
    }
}

impl FlowView {
    fn new(last: Option<(&Flow, Between)>, now: &Flow) -> Self {
        // A flow that the gateway had forgotten counts from zero again.
        let last = last.filter(|(before, _)| before.bytes <= now.bytes);
        let rate =
            |count: fn(&Flow) -> u64| last.map(|(before, between)| between.rate(count(before), count(now)));
        FlowView {
            name: format!("{} {} > {}", now.protocol, now.source, now.destination),
            class: now.class.clone(),
            rate: rate(|flow| flow.bytes).map(|bytes| bytes * 8.0),
            bytes: now.bytes,
            filtered: rate(|flow| flow.filtered),
            rtt_us: now.rtt_us,
            idle: seconds(now.idle_s),
        }
    }
}

fn flow_key(flow: &Flow) -> (&str, &str, &str, &str) {
    (&flow.class, &flow.protocol, &flow.source, &flow.destination)
}

/// A time that another program gave.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
