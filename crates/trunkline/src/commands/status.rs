//! `status`: the state of a running gateway as a table or as JSON.

use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use trunkline_schema::count;
use trunkline_status::{
    Class, EdgePacing, Lane, LaneState, Path, PathShare, Peer, QuotaThen, Received, Request, Status, Tun,
};
use trunkline_units::Bytes;

use super::control::{State, socket, state};
use super::proxies;
use super::rates::{Between, LaneRates, earlier};
use crate::cli::StatusArguments;
use crate::failure::Failure;
use crate::output::{print, print_line};

pub(crate) fn status(arguments: &StatusArguments) -> Result<(), Failure> {
    let socket = socket(&arguments.instance)?;
    let first = state(&socket, &Request::Status)?;
    if arguments.json {
        let json = match &first {
            State::Gateway(status) => serde_json::to_string_pretty(status),
            State::Proxies(status) => serde_json::to_string_pretty(status),
        };
        return print_line(&json.map_err(Failure::doing("cannot print"))?);
    }
    thread::sleep(Duration::from_secs_f64(arguments.interval));
    match (first, state(&socket, &Request::Status)?) {
        (State::Gateway(before), State::Gateway(now)) => print(&table(&before, &now)),
        (State::Proxies(before), State::Proxies(now)) => print(&proxies::table(&before, &now)),
        _ => Err(Failure::Other("another daemon took the socket in between".to_owned())),
    }
}

/// The state `now`, with rates since `before`.
fn table(before: &Status, now: &Status) -> String {
    let mut table = Table::default();
    let status = now;
    let last = Between::states(before, now).map(|between| (before, between));
    table.line(&format!(
        "{}: up for {:.0} s, version {}, key {}",
        status.name, status.uptime_s, status.version, status.public_key
    ));
    let tun = &status.tun;
    let offloads = if tun.offloads.is_empty() { "none".to_owned() } else { tun.offloads.join(" ") };
    let queues = count(tun.queues.into(), "queue", "queues");
    table.line(&format!("device {}: MTU {}, {queues}, offloads {offloads}", tun.name, tun.mtu));
    let drops = device_drops(tun);
    if !drops.is_empty() {
        table.line(&format!("  dropped: {}", drops.join("; ")));
    }
    for peer in &status.peers {
        let encryption = if peer.in_clear() { ", IN CLEAR" } else { "" };
        table.line("");
        table.line(&format!("peer {}{encryption}: {}", peer.name, peer.routes.join(", ")));
        let refused = peer.received.refused();
        table.line(&format!(
            "  received {} packets, {} bytes; {refused} packets refused{}{}",
            peer.received.packets,
            peer.received.bytes,
            match peer.received.duplicates {
                0 => String::new(),
                packets => format!("; {packets} had come over another lane"),
            },
            resequenced(&peer.received)
        ));
        classes(&mut table, peer);
        let last = last.and_then(|(before, between)| {
            Some((before.peers.iter().find(|old| old.public_key == peer.public_key)?, between))
        });
        lanes(&mut table, peer, last);
        uplinks(&mut table, peer);
        paths(&mut table, peer);
    }
    rejected(&mut table, status);
    if let (Some(proxies), Some((before, _))) = (&status.proxies, last) {
        table.line("");
        table.0 += &proxies::rows(before.proxies.as_ref(), proxies);
    }
    let rates = match last {
        Some((_, between)) => format!("Rates and core ms are of the last {:.1} s.", between.seconds()),
        None => "No rates: the gateway restarted in between.".to_owned(),
    };
    table.line("");
    table.line(&rates);
    table.0
}

/// What the device dropped, for each reason that there was.
fn device_drops(tun: &Tun) -> Vec<String> {
    let drops = [
        (tun.dropped_no_route, "to addresses that are in no peer's routes"),
        (tun.dropped_multicast, "to multicast groups (the kernel sends a few out of each new device)"),
        (tun.dropped_malformed, "that are no valid IP packets"),
        (tun.dropped_too_long, "longer than a lane carries"),
        (tun.dropped_no_memory, "for want of packet memory"),
        (tun.dropped_device_queue, "by the kernel, because the device's queue was full"),
        (tun.write_refused, "from peers, because the kernel did not take them"),
    ];
    drops.into_iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect()
}

/// Addresses whose connections were rejected.
fn rejected(table: &mut Table, status: &Status) {
    if status.callers.rejected.is_empty() {
        return;
    }
    table.line("");
    table.line(&format!("  {:<40} {:>8} {:>8}  reason", "rejected", "times", "last s"));
    for caller in &status.callers.rejected {
        let (times, last, reason) = (caller.count, caller.last_s, &caller.reason);
        table.line(&format!("  {:<40} {times:>8} {last:>8.0}  {reason}", caller.address));
    }
}

#[derive(Default)]
struct Table(String);

impl Table {
    fn line(&mut self, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{text}");
    }
}

fn millis(us: Option<u64>) -> String {
    us.map_or("-".to_owned(), |us| format!("{:.2}", us as f64 / 1e3))
}

fn mbit(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |rate| format!("{:.1}", rate / 1e6))
}

/// What waited for its order; nothing where no paths are bonded.
fn resequenced(received: &Received) -> String {
    let waits = &received.resequencing;
    if waits.count == 0 && received.late == 0 {
        return String::new();
    }
    let late = match received.late {
        0 => String::new(),
        packets => format!(", {packets} came too late for it"),
    };
    let [p50, p99] = [waits.p50_us, waits.p99_us].map(millis);
    format!(
        "; {} waited for their order, half of them up to {p50} ms, 99 % up to {p99} ms{late}",
        waits.count
    )
}

fn classes(table: &mut Table, peer: &Peer) {
    table.line(&format!(
        "  {:<14} {:<14} {:>10} {:>12} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>6}",
        "class",
        "queue",
        "packets",
        "bytes",
        "dropped",
        "marked",
        "filtered",
        "waiting",
        "p50 ms",
        "p99 ms",
        "flows"
    ));
    for class in &peer.classes {
        table.line(&format!(
            "  {:<14} {:<14} {:>10} {:>12} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>6}",
            class.name,
            class.discipline,
            class.packets_sent,
            class.bytes_sent,
            class.dropped() + class.refused,
            class.marked,
            class.filtered,
            class.backlog_packets,
            millis(class.sojourn.p50_us),
            millis(class.sojourn.p99_us),
            class.flows,
        ));
        let refused = (&"refused".to_owned(), &class.refused);
        let drops: Vec<String> = class
            .drops
            .iter()
            .chain([refused])
            .filter(|(_, count)| **count > 0)
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        if !drops.is_empty() {
            table.line(&format!("  {:<14} dropped: {}", "", drops.join(", ")));
        }
        handover(table, class);
    }
}

/// A guarantee that the class's path does not hold, or did not.
fn handover(table: &mut Table, class: &Class) {
    let Some(handover) = &class.handover else { return };
    if handover.missed {
        table.line(&format!(
            "  {:<14} its guarantee of {} Mbit/s is missed",
            "",
            mbit(class.guarantee.map(|rate| rate as f64))
        ));
    }
    if let Some(path) = &handover.path {
        table.line(&format!("  {:<14} handed to path {path}, which holds its guarantee", ""));
    }
}

/// The name of a lane among those of its peer.
fn lane_name(lane: &Lane) -> String {
    let place = match (lane.shard, lane.index) {
        (0, 0) => lane.lane_group.clone(),
        (shard, 0) => format!("{}/{shard}", lane.lane_group),
        (shard, index) => format!("{}/{shard}.{index}", lane.lane_group),
    };
    if lane.path.is_empty() { place } else { format!("{place}@{}", lane.path) }
}

fn lanes(table: &mut Table, peer: &Peer, last: Option<(&Peer, Between)>) {
    let names: Vec<String> = peer.lanes.iter().map(lane_name).collect();
    let width = names.iter().map(String::len).fold(14, usize::max);
    table.line(&format!(
        "  {:<width$} {:<9} {:<4} {:>10} {:>12} {:>8} {:>8} {:>10} {:>9} {:>8}",
        "lane", "state", "over", "cwnd", "rtt ms", "core ms", "retrans", "out Mbit/s", "in Mbit/s", "headers"
    ));
    for (name, lane) in names.iter().zip(&peer.lanes) {
        if lane.state != LaneState::Up {
            table.line(&format!(
                "  {name:<width$} {:<9} {:<4} {}",
                lane.state,
                lane.transport,
                lane.last_error.as_deref().unwrap_or("")
            ));
            continue;
        }
        let earlier = last.and_then(|(peer, between)| Some((earlier(&peer.lanes, lane)?, between)));
        let rates = LaneRates::new(earlier, lane);
        let headers = if lane.headers_out_bytes > 0 {
            format!("1/{:.1}", lane.headers_in_bytes as f64 / lane.headers_out_bytes as f64)
        } else {
            "-".to_owned()
        };
        table.line(&format!(
            "  {name:<width$} {:<9} {:<4} {:>10} {:>12} {:>8} {:>8} {:>10} {:>9} {headers:>8}",
            lane.state,
            lane.transport,
            lane.cwnd,
            millis(lane.rtt_us.map(u64::from)),
            millis(rates.core_queue_us.map(u64::from)),
            lane.retransmits,
            mbit(rates.sent),
            mbit(rates.received),
        ));
    }
}

/// The paths, if there are several.
fn uplinks(table: &mut Table, peer: &Peer) {
    if peer.uplinks.is_empty() {
        return;
    }
    table.line(&format!(
        "  {:<14} {:<9} {:>7} {:>6} {:>9} {:>8}  by",
        "path", "state", "lanes", "flows", "rtt ms", "silences"
    ));
    for uplink in &peer.uplinks {
        let endpoint = uplink.endpoint.as_deref().map_or("dialled by the peer".to_owned(), str::to_owned);
        let via = uplink.via.as_ref().map_or_else(String::new, |via| format!(" via {via}"));
        let cost = cost(uplink.cost);
        table.line(&format!(
            "  {:<14} {:<9} {:>7} {:>6} {:>9} {:>8}  {endpoint}{via}{cost}",
            uplink.name,
            uplink.state,
            format!("{}/{}", uplink.lanes_up, uplink.lanes),
            uplink.flows,
            millis(uplink.rtt_us),
            uplink.silences,
        ));
    }
    for (uplink, quota) in peer.uplinks.iter().filter_map(|uplink| Some((uplink, uplink.quota.as_ref()?))) {
        let (used, bytes) = (Bytes(quota.used), Bytes(quota.bytes));
        let then = match (quota.is_spent, quota.then) {
            (false, _) => "",
            (true, QuotaThen::LastResort) => ": spent, taken while no other path works",
            (true, QuotaThen::Off) => ": spent, without lanes",
        };
        table.line(&format!("    {}: {used} of {bytes} until {}{then}", uplink.name, quota.until));
    }
    for class in peer.classes.iter().filter(|class| class.resent > 0) {
        table.line(&format!("    {} packets of {} left again over another path", class.resent, class.name));
    }
}

/// What a path costs, if that says anything.
pub(super) fn cost(cost: u8) -> String {
    if cost == 0 { String::new() } else { format!(", cost {cost}") }
}

/// From this part on a path's losses are said.
const NOTABLE_LOSS: f64 = 0.0005;

/// What a trunk does about losses.
fn response(peer: &Peer) -> String {
    let lanes = peer.classes.iter().filter(|class| class.lanes_in_use > 1);
    let lanes =
        lanes.map(|class| format!("; {} uses {} of {} lanes", class.name, class.lanes_in_use, class.lanes));
    let copies = peer.classes.iter().filter(|class| class.copies > 0);
    let copies = copies.map(|class| format!("; {} packets of {} went over two", class.copies, class.name));
    lanes.chain(copies).collect()
}

/// Lanes whose losses let them carry less than this part of the capacity have a line.
const NOTABLE_BOUND: f64 = 0.8;

/// What the losses of a path cost lanes whose congestion control goes by losses, and what would help.
fn bounded_by_losses(table: &mut Table, peer: &Peer, path: &Path) {
    let is_here =
        |lane: &&Lane| lane.state == LaneState::Up && (lane.dscp, &lane.path) == (path.dscp, &path.path);
    for lanes in peer.lanes.chunk_by(|a, b| a.lane_group == b.lane_group) {
        // With one lane that goes by something else the group is not bound.
        let bound: Option<u64> = lanes.iter().filter(is_here).map(|lane| lane.loss_bound).sum();
        let Some(bound) = bound.filter(|bound| *bound > 0).map(|bound| bound as f64) else { continue };
        if path.capacity.is_some_and(|capacity| bound >= capacity as f64 * NOTABLE_BOUND) {
            continue;
        }
        let of =
            path.capacity.map_or_else(String::new, |capacity| format!(" of {}", mbit(Some(capacity as f64))));
        table.line(&format!(
            "    these losses let {} carry at most {}{of} Mbit/s; congestion_control = \"auto\" with lanes = \"auto\" would help, \
             or transport = \"quic\"",
            lanes[0].lane_group,
            mbit(Some(bound))
        ));
    }
}

/// The paths that are bounded, that others fill, or that lose packets.
fn paths(table: &mut Table, peer: &Peer) {
    for path in &peer.paths {
        let (dscp, queue) = (path.dscp, millis(path.queue_us));
        let name = if path.path.is_empty() { String::new() } else { format!(" {}", path.path) };
        let place = format!("  path{name}, DSCP {dscp}:");
        if let Some(loss) = path.loss.filter(|loss| *loss >= NOTABLE_LOSS) {
            table.line(&format!(
                "{place} loses {:.2} % of the packets while it is not full{}",
                loss * 100.0,
                response(peer)
            ));
            bounded_by_losses(table, peer, path);
        }
        match path.mode {
            EdgePacing::Held => table.line(&format!(
                "{place} held at {} Mbit/s, capacity {} Mbit/s, {queue} ms of queue in the core",
                mbit(path.rate.map(|rate| rate as f64)),
                mbit(path.capacity.map(|rate| rate as f64))
            )),
            EdgePacing::Varying => table.line(&format!(
                "{place} its rate varies, now about {} Mbit/s: what is in flight is held to what has just arrived, {queue} ms of \
                 queue in the core",
                mbit(path.capacity.map(|rate| rate as f64))
            )),
            EdgePacing::Competing => {
                table
                    .line(&format!("{place} others keep {queue} ms of queue in the core; the lanes compete"));
            }
            EdgePacing::Off | EdgePacing::Free => continue,
        }
        if let [_, _, ..] = &path.lane_groups[..] {
            let share = |share: &PathShare| {
                let granted =
                    share.granted.map_or_else(String::new, |rate| format!(" of {}", mbit(Some(rate as f64))));
                format!("{} {}{granted}", share.lane_group, mbit(Some(share.delivered as f64)))
            };
            let shares: Vec<String> = path.lane_groups.iter().map(share).collect();
            table.line(&format!("    Mbit/s that arrive, of those granted: {}", shares.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_status::{ClassHandover, Quota, Sojourn, Uplink, UplinkState};

    use super::*;

    fn state(uptime_s: f64, sent: u64) -> Status {
        let lane = |group: &str, bytes_sent| Lane {
            lane_group: group.to_owned(),
            state: LaneState::Up,
            established: 1,
            mss: 1448,
            bytes_sent,
            delivery_rate: 36_709_000_000,
            queue_in_core_us: Some(12_000),
            ..Lane::default()
        };
        let lanes = vec![lane("busy", sent), lane("idle", 1_158)];
        let peers = vec![Peer { name: "b".to_owned(), lanes, ..Peer::default() }];
        Status { name: "a".to_owned(), pid: 7, uptime_s, peers, ..Status::default() }
    }

    fn row(table: &str, name: &str) -> Vec<String> {
        let line = table.lines().find(|line| line.trim_start().starts_with(name)).expect("a row");
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn rates_are_of_the_interval_and_an_idle_lane_has_none() {
        let table = table(&state(10.0, 0), &state(12.0, 750_000_000));
        let [.., core, retransmits, out, into, headers] = &row(&table, "busy")[..] else { panic!("{table}") };
        let columns = [core, retransmits, out, into, headers].map(String::as_str);
        assert_eq!(columns, ["12.00", "0", "3000.0", "-", "-"], "{table}");
        let [.., core, _, out, into, _] = &row(&table, "idle")[..] else { panic!("{table}") };
        assert_eq!([core, out, into].map(String::as_str), ["-", "-", "-"], "{table}");
        assert!(table.ends_with("Rates and core ms are of the last 2.0 s.\n"), "{table}");
    }

    #[test]
    fn an_idle_lane_has_no_round_trip_time_and_drops_of_the_device_say_why() {
        let mut status = state(10.0, 0);
        status.peers[0].lanes[0].rtt_us = Some(1_230);
        assert!(!table(&status.clone(), &status).contains("dropped:"));
        status.tun.queues = 1;
        (status.tun.dropped_multicast, status.tun.dropped_no_memory) = (2, 3);
        let table = table(&status.clone(), &status);
        assert_eq!(
            (row(&table, "busy")[3].as_str(), row(&table, "idle")[3].as_str()),
            ("1.23", "-"),
            "{table}"
        );
        assert!(
            table.contains(
                "  dropped: 2 to multicast groups (the kernel sends a few out of each new device); 3 for want of packet memory\n"
            ),
            "{table}"
        );
        assert!(table.contains(", 1 queue, "), "{table}");
    }

    #[test]
    fn paths_that_are_bounded_or_filled_by_others_have_a_line() {
        let mut status = state(10.0, 0);
        let share = |lane_group: &str, granted, delivered| PathShare {
            lane_group: lane_group.to_owned(),
            granted,
            delivered,
        };
        let path = |dscp, mode| Path {
            dscp,
            mode,
            rate: Some(48_100_000),
            capacity: Some(48_000_000),
            queue_us: Some(2_500),
            ..Path::default()
        };
        let modes = [EdgePacing::Held, EdgePacing::Competing, EdgePacing::Free, EdgePacing::Varying];
        status.peers[0].paths = (0..).zip(modes).map(|(dscp, mode)| path(dscp, mode)).collect();
        status.peers[0].paths[0].lane_groups =
            vec![share("bulk", Some(40_000_000), 39_000_000), share("voice", None, 1_500_000)];
        let table = table(&status.clone(), &status);
        let lines: Vec<&str> =
            table.lines().filter(|line| line.contains("path,") || line.contains("granted")).collect();
        assert_eq!(
            lines,
            [
                "  path, DSCP 0: held at 48.1 Mbit/s, capacity 48.0 Mbit/s, 2.50 ms of queue in the core",
                "    Mbit/s that arrive, of those granted: bulk 39.0 of 40.0, voice 1.5",
                "  path, DSCP 1: others keep 2.50 ms of queue in the core; the lanes compete",
                "  path, DSCP 3: its rate varies, now about 48.0 Mbit/s: what is in flight is held to what has just arrived, 2.50 ms \
                 of queue in the core",
            ]
        );
    }

    #[test]
    fn what_a_path_loses_has_a_line_with_what_is_done_about_it() {
        let mut status = state(10.0, 0);
        let class = |name: &str, lanes_in_use, copies| Class {
            name: name.to_owned(),
            lanes: 4,
            lanes_in_use,
            copies,
            ..Class::default()
        };
        status.peers[0].classes = vec![class("interactive", 1, 830), class("tcp", 3, 0)];
        status.peers[0].paths = vec![Path { loss: Some(0.0123), ..Path::default() }];
        let lossy = table(&status.clone(), &status);
        let line = "  path, DSCP 0: loses 1.23 % of the packets while it is not full; tcp uses 3 of 4 lanes; 830 packets of \
                    interactive went over two";
        assert!(lossy.lines().any(|known| known == line), "{lossy}");
        let cost = |status: &Status| {
            let table = table(&status.clone(), status);
            table.lines().find_map(|line| Some(line.split_once("these losses let ")?.1.to_owned()))
        };
        assert_eq!(cost(&status), None, "nothing is known of what they cost");
        let lane = |loss_bound| Lane {
            lane_group: "tcp".to_owned(),
            state: LaneState::Up,
            loss_bound,
            ..Lane::default()
        };
        status.peers[0].lanes = vec![lane(Some(2_000_000)), lane(Some(1_100_000))];
        status.peers[0].paths[0].capacity = Some(20_000_000);
        let said = "tcp carry at most 3.1 of 20.0 Mbit/s; congestion_control = \"auto\" with lanes = \"auto\" would help, or transport \
                    = \"quic\"";
        assert_eq!(cost(&status).as_deref(), Some(said));
        status.peers[0].paths[0].capacity = Some(3_500_000);
        assert_eq!(cost(&status), None, "that is nearly all");
        status.peers[0].paths[0].capacity = Some(20_000_000);
        status.peers[0].lanes.push(lane(None));
        assert_eq!(cost(&status), None, "a lane does not go by losses");
        status.peers[0].paths[0].loss = Some(0.0001);
        assert!(!table(&status.clone(), &status).contains("loses"));
    }

    #[test]
    fn several_paths_have_a_line_each_and_lanes_name_theirs() {
        let mut status = state(10.0, 0);
        assert!(!table(&status.clone(), &status).contains("silences"));
        status.peers[0].lanes[0].path = "dsl".to_owned();
        let uplink = |name: &str, state, lanes_up, cost| Uplink {
            name: name.to_owned(),
            state,
            lanes: 3,
            lanes_up,
            cost,
            ..Uplink::default()
        };
        let dsl = Uplink {
            endpoint: Some("192.0.2.1:4600".to_owned()),
            via: Some("eth0".to_owned()),
            flows: 7,
            rtt_us: Some(20_500),
            ..uplink("dsl", UplinkState::Up, 3, 0)
        };
        let mut lte = uplink("lte", UplinkState::Silent, 1, 2);
        let (bytes, until) = (20_000_000_000, "2026-12-05".to_owned());
        let quota = Quota { bytes, used: 12_345_000_000, until, ..Quota::default() };
        lte.quota = Some(quota.clone());
        status.peers[0].uplinks = vec![dsl, lte.clone()];
        let table = table(&status.clone(), &status);
        assert!(table.contains("busy@dsl"), "{table}");
        let words = ["dsl", "up", "3/3", "7", "20.50", "0", "192.0.2.1:4600", "via", "eth0"];
        assert_eq!(row(&table, "dsl"), words, "{table}");
        let words = ["lte", "silent", "1/3", "0", "-", "0", "dialled", "by", "the", "peer,", "cost", "2"];
        assert_eq!(row(&table, "lte"), words, "{table}");
        assert!(!table.contains("left again") && !table.contains("waited for their order"));
        status.peers[0].received.resequencing =
            Sojourn { count: 12, p50_us: Some(1024), p99_us: Some(32_768), ..Sojourn::default() };
        let table = super::table(&status.clone(), &status);
        let waits = "; 12 waited for their order, half of them up to 1.02 ms, 99 % up to 32.77 ms\n";
        assert!(table.contains(waits), "{table}");
        assert!(table.contains("    lte: 12.3 GB of 20.0 GB until 2026-12-05\n"), "{table}");
        for (then, said) in [
            (QuotaThen::LastResort, "until 2026-12-05: spent, taken while no other path works"),
            (QuotaThen::Off, "until 2026-12-05: spent, without lanes"),
        ] {
            lte.quota = Some(Quota { is_spent: true, then, ..quota.clone() });
            status.peers[0].uplinks[1] = lte.clone();
            let table = super::table(&status.clone(), &status);
            assert!(table.contains(said), "{table}");
        }
        status.peers[0].classes = vec![Class { name: "tcp".to_owned(), resent: 41, ..Class::default() }];
        let table = super::table(&status.clone(), &status);
        assert!(table.contains("41 packets of tcp left again over another path"), "{table}");
    }

    #[test]
    fn a_missed_guarantee_and_a_class_that_was_handed_over_have_a_line() {
        let mut status = state(10.0, 0);
        let mut class = Class { name: "video".to_owned(), guarantee: Some(4_000_000), ..Class::default() };
        for (missed, path) in [(false, None), (true, None), (false, Some("lte"))] {
            class.handover = Some(ClassHandover { missed, path: path.map(str::to_owned), count: 1 });
            status.peers[0].classes = vec![class.clone()];
            let table = table(&status.clone(), &status);
            assert_eq!(table.contains("its guarantee of 4.0 Mbit/s is missed"), missed, "{table}");
            assert_eq!(table.contains("handed to path lte"), path.is_some(), "{table}");
        }
    }

    #[test]
    fn states_of_two_daemons_give_no_rates() {
        let after = Status { pid: 8, ..state(12.0, 750_000_000) };
        let table = table(&state(10.0, 0), &after);
        assert!(table.contains("gateway restarted") && !table.contains("3000.0"), "{table}");
    }
}
