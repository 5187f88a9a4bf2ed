//! Metrics in the Prometheus text format, made from a [`Status`].

use trunkline_queue::Histogram;
use trunkline_service::Page;

use trunkline_status::{
    Class, EdgePacing, Lane, LaneState, Path, PathShare, Peer, Received, Sojourn, Status, Uplink, UplinkState,
};

/// One family over all classes or lanes: its name, type, help and value; without a value there is no sample.
type Family<T> = (&'static str, &'static str, &'static str, fn(&T) -> Option<f64>);

const CLASS_FAMILIES: &[Family<Class>] = &[
    ("trunkline_class_weight", "gauge", "Weight on the lanes that it shares.", |c| Some(c.weight.into())),
    ("trunkline_class_guarantee_bytes_per_second", "gauge", "Minimum rate.", |c| {
        c.guarantee.map(bytes_per_second)
    }),
    ("trunkline_class_ceiling_bytes_per_second", "gauge", "Maximum rate.", |c| {
        c.ceiling.map(bytes_per_second)
    }),
    (
        "trunkline_class_guarantee_missed",
        "gauge",
        "1 while it misses its guarantee, on several paths.",
        |c| c.handover.as_ref().map(|handover| f64::from(u8::from(handover.missed))),
    ),
    ("trunkline_class_handed_over", "gauge", "1 while another path has it, for its guarantee.", |c| {
        c.handover.as_ref().map(|handover| f64::from(u8::from(handover.path.is_some())))
    }),
    ("trunkline_class_handovers_total", "counter", "Times that it was handed to another path.", |c| {
        c.handover.as_ref().and_then(|handover| count(handover.count))
    }),
    ("trunkline_class_lanes_in_use", "gauge", "Lanes that take its packets, of each shard.", |c| {
        count(c.lanes_in_use)
    }),
    ("trunkline_class_packets_total", "counter", "Packets offered to the edge queue.", |c| count(c.packets)),
    ("trunkline_class_bytes_total", "counter", "Bytes offered to the edge queue.", |c| count(c.bytes)),
    ("trunkline_class_sent_packets_total", "counter", "Packets handed to lanes.", |c| count(c.packets_sent)),
    ("trunkline_class_sent_bytes_total", "counter", "Bytes handed to lanes.", |c| count(c.bytes_sent)),
    ("trunkline_class_marked_packets_total", "counter", "Packets marked CE instead of dropped.", |c| {
        count(c.marked)
    }),
    ("trunkline_class_held_off_packets_total", "counter", "Drops prevented by P3's drop holdoff.", |c| {
        count(c.held_off)
    }),
    (
        "trunkline_class_filtered_packets_total",
        "counter",
        "Retransmissions dropped: the original is in transit.",
        |c| count(c.filtered),
    ),
    (
        "trunkline_class_copied_packets_total",
        "counter",
        "Copies of packets that another lane carries too.",
        |c| count(c.copies),
    ),
    (
        "trunkline_class_resent_packets_total",
        "counter",
        "Packets over bonded paths that left again over another lane.",
        |c| count(c.resent),
    ),
    (
        "trunkline_class_fallback_packets_total",
        "counter",
        "Packets of flows over the limit of another class.",
        |c| count(c.admission_fallback),
    ),
    ("trunkline_class_refused_packets_total", "counter", "Packets of refused flows, over the limit.", |c| {
        count(c.refused)
    }),
    ("trunkline_class_filtered_bytes_total", "counter", "Bytes of retransmissions dropped.", |c| {
        count(c.filtered_bytes)
    }),
    ("trunkline_class_flows", "gauge", "Active flows: N.", |c| count(c.flows)),
    ("trunkline_class_backlog_packets", "gauge", "Packets waiting at the edge.", |c| {
        count(c.backlog_packets)
    }),
    ("trunkline_class_backlog_bytes", "gauge", "Bytes waiting at the edge.", |c| count(c.backlog_bytes)),
    ("trunkline_class_peak_backlog_packets", "gauge", "Maximum of the backlog.", |c| count(c.peak_packets)),
    ("trunkline_class_backlog_packet_seconds_total", "counter", "Integral of the backlog over time.", |c| {
        Some(c.backlog_packet_seconds)
    }),
    ("trunkline_class_capacity_packets", "gauge", "Capacity now.", |c| count(c.capacity_packets)),
    ("trunkline_class_capacity_bytes", "gauge", "Capacity now.", |c| count(c.capacity_bytes)),
    ("trunkline_class_drop_probability", "gauge", "Probability of a drop or mark now.", |c| {
        c.drop_probability
    }),
    (
        "trunkline_class_rtt_up_seconds",
        "gauge",
        "Upper estimate of the round-trip times of its flows.",
        |c| c.rtt_up_us.map(seconds),
    ),
    ("trunkline_class_k_packets", "gauge", "Length of the drop holdoff: K.", |c| c.k_packets.and_then(count)),
    ("trunkline_class_window_bytes", "gauge", "Its part of the lanes' congestion window: W.", |c| {
        c.window_bytes.and_then(count)
    }),
    ("trunkline_class_bandwidth_bytes_per_second", "gauge", "Delivery rate of its lanes for it.", |c| {
        c.bandwidth.map(bytes_per_second)
    }),
];

const PATH_FAMILIES: &[Family<Path>] = &[
    ("trunkline_path_held", "gauge", "1 while a rate near the capacity keeps the queue at the edge.", |p| {
        Some(f64::from(u8::from(p.mode == EdgePacing::Held)))
    }),
    ("trunkline_path_varying", "gauge", "1 while its rate varies and what is in flight is bounded.", |p| {
        Some(f64::from(u8::from(p.mode == EdgePacing::Varying)))
    }),
    ("trunkline_path_competing", "gauge", "1 while others keep a queue in the core.", |p| {
        Some(f64::from(u8::from(p.mode == EdgePacing::Competing)))
    }),
    ("trunkline_path_rate_bytes_per_second", "gauge", "What its lanes may send together.", |p| {
        p.rate.map(bytes_per_second)
    }),
    ("trunkline_path_capacity_bytes_per_second", "gauge", "Estimated capacity for its lanes.", |p| {
        p.capacity.map(bytes_per_second)
    }),
    ("trunkline_path_queue_seconds", "gauge", "Standing queue in the core.", |p| p.queue_us.map(seconds)),
    ("trunkline_path_target_seconds", "gauge", "The queue that is let stand.", |p| {
        Some(seconds(p.target_us))
    }),
    ("trunkline_path_loss_ratio", "gauge", "Part of the packets lost while the path is not full.", |p| {
        p.loss
    }),
    ("trunkline_path_reported", "gauge", "1 while the far gateway's reports measure the queue.", |p| {
        Some(f64::from(u8::from(p.reported)))
    }),
    (
        "trunkline_path_left_out_seconds_total",
        "counter",
        "Time without arrivals, left out of what is measured.",
        |p| Some(seconds(p.left_out_us)),
    ),
];

const UPLINK_FAMILIES: &[Family<Uplink>] = &[
    ("trunkline_uplink_up", "gauge", "1 while the path works, of several to a peer.", |u| {
        Some(f64::from(u8::from(u.state == UplinkState::Up)))
    }),
    ("trunkline_uplink_silent", "gauge", "1 while its lanes are up and nothing is heard of the peer.", |u| {
        Some(f64::from(u8::from(u.state == UplinkState::Silent)))
    }),
    ("trunkline_uplink_silences_total", "counter", "Number of times that it has become silent.", |u| {
        count(u.silences)
    }),
    ("trunkline_uplink_lanes_up", "gauge", "Lanes on it that are up.", |u| Some(u.lanes_up.into())),
    ("trunkline_uplink_flows", "gauge", "Flows that take it from this site.", |u| Some(u.flows.into())),
    ("trunkline_uplink_rtt_seconds", "gauge", "Shortest smoothed round-trip time of its lanes.", |u| {
        u.rtt_us.map(seconds)
    }),
    ("trunkline_uplink_cost", "gauge", "What its use costs: flows take the cheapest that work.", |u| {
        Some(u.cost.into())
    }),
    ("trunkline_uplink_quota_bytes", "gauge", "What it is to carry in each period.", |u| {
        u.quota.as_ref().and_then(|quota| count(quota.bytes))
    }),
    ("trunkline_uplink_quota_used_bytes", "gauge", "What it has carried in this period.", |u| {
        u.quota.as_ref().and_then(|quota| count(quota.used))
    }),
];

const PATH_SHARE_FAMILIES: &[Family<PathShare>] = &[
    (
        "trunkline_path_granted_bytes_per_second",
        "gauge",
        "What the lanes of the group may send together.",
        |s| s.granted.map(bytes_per_second),
    ),
    ("trunkline_path_delivered_bytes_per_second", "gauge", "What arrives of the group's lanes.", |s| {
        Some(bytes_per_second(s.delivered))
    }),
];

const LANE_FAMILIES: &[Family<Lane>] = &[
    ("trunkline_lane_up", "gauge", "1 while the lane is up.", |l| {
        Some(f64::from(u8::from(l.state == LaneState::Up)))
    }),
    ("trunkline_lane_established_total", "counter", "Number of times the lane came up.", |l| {
        count(l.established)
    }),
    ("trunkline_lane_cwnd_segments", "gauge", "Congestion window.", |l| Some(l.cwnd.into())),
    ("trunkline_lane_cwnd_bytes", "gauge", "Congestion window.", |l| {
        Some(f64::from(l.cwnd) * f64::from(l.mss))
    }),
    ("trunkline_lane_rtt_seconds", "gauge", "Smoothed round-trip time, while the lane sends.", |l| {
        l.rtt_us.map(|us| seconds(us.into()))
    }),
    ("trunkline_lane_min_rtt_seconds", "gauge", "Minimum round-trip time.", |l| {
        l.min_rtt_us.map(|us| seconds(us.into()))
    }),
    (
        "trunkline_lane_loss_bound_bytes_per_second",
        "gauge",
        "What the losses of its path let a lane carry at most.",
        |l| l.loss_bound.map(bytes_per_second),
    ),
    (
        "trunkline_lane_core_queue_seconds",
        "gauge",
        "Queueing delay between the sites, at the last acknowledgement.",
        |l| l.queue_in_core_us.map(|us| seconds(us.into())),
    ),
    (
        "trunkline_lane_delivery_rate_bytes_per_second",
        "gauge",
        "Delivery rate of the kernel's last measurement; not the rate of traffic.",
        |l| Some(bytes_per_second(l.delivery_rate)),
    ),
    ("trunkline_lane_held", "gauge", "1 while its path is held, which keeps the queue at the edge.", |l| {
        Some(f64::from(u8::from(l.edge_pacing == EdgePacing::Held)))
    }),
    ("trunkline_lane_pacing_rate_bytes_per_second", "gauge", "Pacing rate.", |l| {
        l.pacing_rate.map(bytes_per_second)
    }),
    (
        "trunkline_lane_circuit_open",
        "gauge",
        "1 while the circuit breaker of a lane without congestion control gives it a window.",
        |l| l.circuit_open.map(|open| f64::from(u8::from(open))),
    ),
    ("trunkline_lane_circuit_trips_total", "counter", "Times that the circuit breaker opened.", |l| {
        l.circuit_open.and_then(|_| count(l.circuit_trips))
    }),
    ("trunkline_lane_retransmitted_segments_total", "counter", "Segments retransmitted.", |l| {
        count(l.retransmits)
    }),
    ("trunkline_lane_sent_segments_total", "counter", "Segments sent.", |l| count(l.segments_sent)),
    ("trunkline_lane_unsent_bytes", "gauge", "Bytes in the kernel, not yet sent.", |l| count(l.unsent_bytes)),
    ("trunkline_lane_unacked_bytes", "gauge", "Bytes sent, not yet acknowledged.", |l| {
        count(l.unacked_bytes)
    }),
    ("trunkline_lane_sent_bytes_total", "counter", "Bytes written to the connection.", |l| {
        count(l.bytes_sent)
    }),
    ("trunkline_lane_received_bytes_total", "counter", "Bytes read from it.", |l| count(l.bytes_received)),
    ("trunkline_lane_key_updates_total", "counter", "TLS key updates.", |l| count(l.key_updates)),
    ("trunkline_lane_compressed_packets_total", "counter", "Packets sent with a compressed header.", |l| {
        count(l.compressed)
    }),
    (
        "trunkline_lane_uncompressed_packets_total",
        "counter",
        "Single packets sent with their complete header.",
        |l| count(l.uncompressed),
    ),
    ("trunkline_lane_headers_in_bytes_total", "counter", "Header bytes before compression.", |l| {
        count(l.headers_in_bytes)
    }),
    ("trunkline_lane_headers_out_bytes_total", "counter", "Header bytes after compression.", |l| {
        count(l.headers_out_bytes)
    }),
];

#[expect(clippy::unnecessary_wraps, reason = "what a family's value is")]
fn count(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn bytes_per_second(bits_per_second: u64) -> f64 {
    bits_per_second as f64 / 8.0
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The whole page.
pub fn prometheus(status: &Status) -> String {
    let mut page = Page::of_daemon(&status.name, &status.version, status.uptime_s);
    tun(&mut page, status);
    classes(&mut page, status);
    sojourn(&mut page, status);
    lanes(&mut page, status);
    paths(&mut page, status);
    path_shares(&mut page, status);
    uplinks(&mut page, status);
    flow_tables(&mut page, status);
    received(&mut page, status);
    callers(&mut page, status);
    health(&mut page, status);
    if let Some(proxies) = &status.proxies {
        trunkline_proxy::write_metrics(&mut page, proxies);
    }
    page.0
}

fn flow_tables(page: &mut Page, status: &Status) {
    type Family = (&'static str, &'static str, &'static str, fn(&Peer) -> u64);
    const FAMILIES: [Family; 3] = [
        ("trunkline_flow_table_flows", "gauge", "Flows that are remembered.", |p| p.flow_table.known),
        ("trunkline_flow_table_limit", "gauge", "Flows that may be remembered.", |p| p.flow_table.limit),
        ("trunkline_flow_table_forgotten_total", "counter", "Flows forgotten early, to make room.", |p| {
            p.flow_table.forgotten
        }),
    ];
    for (name, kind, help, value) in FAMILIES {
        page.family(name, kind, help);
        for peer in &status.peers {
            page.sample(name, &[("peer", &peer.name)], value(peer));
        }
    }
}

fn for_classes(status: &Status, mut each: impl FnMut(&Peer, &Class)) {
    for peer in &status.peers {
        for class in &peer.classes {
            each(peer, class);
        }
    }
}

fn classes(page: &mut Page, status: &Status) {
    page.family("trunkline_class_info", "gauge", "The class, its lanes and its queue.");
    for_classes(status, |peer, class| {
        let labels = [
            ("peer", peer.name.as_str()),
            ("class", &class.name),
            ("lane_group", &class.lane_group),
            ("discipline", &class.discipline),
        ];
        page.sample("trunkline_class_info", &labels, 1);
    });
    for (name, kind, help, value) in CLASS_FAMILIES {
        page.family(name, kind, help);
        for_classes(status, |peer, class| {
            if let Some(value) = value(class) {
                page.sample(name, &[("peer", &peer.name), ("class", &class.name)], value);
            }
        });
    }
    page.family("trunkline_class_dropped_packets_total", "counter", "Packets dropped at the edge.");
    for_classes(status, |peer, class| {
        for (reason, count) in &class.drops {
            let labels = [("peer", peer.name.as_str()), ("class", &class.name), ("reason", reason)];
            page.sample("trunkline_class_dropped_packets_total", &labels, count);
        }
    });
}

fn lanes(page: &mut Page, status: &Status) {
    page.family("trunkline_lane_info", "gauge", "The lane's congestion control and DSCP.");
    for_lanes(status, |labels, lane| {
        let mut labels = labels.to_vec();
        let dscp = lane.dscp.to_string();
        labels.push(("transport", lane.transport.as_str()));
        labels.extend([("congestion_control", lane.congestion_control.as_str()), ("dscp", &dscp)]);
        page.sample("trunkline_lane_info", &labels, 1);
    });
    for (name, kind, help, value) in LANE_FAMILIES {
        page.family(name, kind, help);
        for_lanes(status, |labels, lane| {
            if let Some(value) = value(lane) {
                page.sample(name, labels, value);
            }
        });
    }
}

fn paths(page: &mut Page, status: &Status) {
    for (name, kind, help, value) in PATH_FAMILIES {
        page.family(name, kind, help);
        for peer in &status.peers {
            for path in &peer.paths {
                if let Some(value) = value(path) {
                    let dscp = path.dscp.to_string();
                    let labels = [("peer", peer.name.as_str()), ("dscp", &dscp)];
                    page.sample(name, &with_path(&path.path, &labels), value);
                }
            }
        }
    }
}

fn path_shares(page: &mut Page, status: &Status) {
    for (name, kind, help, value) in PATH_SHARE_FAMILIES {
        page.family(name, kind, help);
        for (peer, path) in
            status.peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path)))
        {
            let dscp = path.dscp.to_string();
            for share in &path.lane_groups {
                if let Some(value) = value(share) {
                    let labels =
                        [("peer", peer.name.as_str()), ("dscp", &dscp), ("lane_group", &share.lane_group)];
                    page.sample(name, &with_path(&path.path, &labels), value);
                }
            }
        }
    }
}

fn uplinks(page: &mut Page, status: &Status) {
    for (name, kind, help, value) in UPLINK_FAMILIES {
        page.family(name, kind, help);
        for peer in &status.peers {
            for uplink in &peer.uplinks {
                if let Some(value) = value(uplink) {
                    page.sample(name, &[("peer", &peer.name), ("path", &uplink.name)], value);
                }
            }
        }
    }
}

/// Labels, and the name of the path if there are several.
fn with_path<'l>(path: &'l str, labels: &[(&'l str, &'l str)]) -> Vec<(&'l str, &'l str)> {
    labels.iter().copied().chain((!path.is_empty()).then_some(("path", path))).collect()
}

fn for_lanes(status: &Status, mut each: impl FnMut(&[(&str, &str)], &Lane)) {
    for peer in &status.peers {
        for lane in &peer.lanes {
            let (shard, index) = (lane.shard.to_string(), lane.index.to_string());
            let labels = [
                ("peer", peer.name.as_str()),
                ("lane_group", &lane.lane_group),
                ("shard", &shard),
                ("lane", &index),
            ];
            each(&with_path(&lane.path, &labels), lane);
        }
    }
}

fn tun(page: &mut Page, status: &Status) {
    let tun = &status.tun;
    for (name, help, value) in [
        ("trunkline_tun_read_total", "Packets and super-packets read from the device.", tun.super_read),
        ("trunkline_tun_read_bytes_total", "Bytes read from the device.", tun.read_bytes),
        ("trunkline_tun_written_total", "Packets and super-packets written.", tun.super_written),
        ("trunkline_tun_coalesced_total", "Packets merged for writing.", tun.coalesced),
        ("trunkline_tun_write_refused_total", "Packets the kernel did not take.", tun.write_refused),
    ] {
        page.family(name, "counter", help);
        page.sample(name, &[], value);
    }
    page.family("trunkline_tun_dropped_total", "counter", "Packets dropped before they reached a class.");
    for (reason, value) in [
        ("no_route", tun.dropped_no_route),
        ("multicast", tun.dropped_multicast),
        ("malformed", tun.dropped_malformed),
        ("too_long", tun.dropped_too_long),
        ("no_memory", tun.dropped_no_memory),
        ("device_queue", tun.dropped_device_queue),
    ] {
        page.sample("trunkline_tun_dropped_total", &[("reason", reason)], value);
    }
    page.family("trunkline_pool_bytes", "gauge", "Memory in packet blocks.");
    page.sample("trunkline_pool_bytes", &[], tun.pool_bytes);
}

fn sojourn(page: &mut Page, status: &Status) {
    let name = "trunkline_class_sojourn_seconds";
    page.family(name, "histogram", "Time spent in the edge queue.");
    for_classes(status, |peer, class| {
        histogram(page, name, &[("peer", &peer.name), ("class", &class.name)], &class.sojourn);
    });
}

fn histogram(page: &mut Page, name: &str, labels: &[(&str, &str)], times: &Sojourn) {
    let mut cumulative = 0;
    for (index, count) in times.buckets.iter().enumerate() {
        cumulative += count;
        let bound = Histogram::upper_bound(index).map_or("+Inf".to_owned(), |b| b.as_secs_f64().to_string());
        page.sample(&format!("{name}_bucket"), &[labels, &[("le", &bound)]].concat(), cumulative);
    }
    page.sample(&format!("{name}_sum"), labels, times.sum_s);
    page.sample(&format!("{name}_count"), labels, times.count);
}

const RESEQUENCING: [Family<Received>; 2] = [
    (
        "trunkline_late_packets_total",
        "counter",
        "Packets over bonded paths that were passed on out of order.",
        |received| Some(received.late as f64),
    ),
    (
        "trunkline_resequencing_gaps_total",
        "counter",
        "Times at which the wait for missing packets was given up.",
        |received| Some(received.gaps_given_up as f64),
    ),
];

fn received(page: &mut Page, status: &Status) {
    page.family("trunkline_received_packets_total", "counter", "Packets that came from the peer.");
    for peer in &status.peers {
        page.sample("trunkline_received_packets_total", &[("peer", &peer.name)], peer.received.packets);
    }
    page.family("trunkline_received_bytes_total", "counter", "Bytes that came from the peer.");
    for peer in &status.peers {
        page.sample("trunkline_received_bytes_total", &[("peer", &peer.name)], peer.received.bytes);
    }
    page.family("trunkline_duplicate_packets_total", "counter", "Packets that another lane had brought.");
    for peer in &status.peers {
        page.sample("trunkline_duplicate_packets_total", &[("peer", &peer.name)], peer.received.duplicates);
    }
    let name = "trunkline_resequencing_seconds";
    page.family(name, "histogram", "Time that packets over bonded paths waited for others of their flow.");
    for peer in status.peers.iter().filter(|peer| peer.uplinks.len() > 1) {
        histogram(page, name, &[("peer", &peer.name)], &peer.received.resequencing);
    }
    for (name, kind, help, value) in RESEQUENCING {
        page.family(name, kind, help);
        for peer in &status.peers {
            if let Some(value) = value(&peer.received) {
                page.sample(name, &[("peer", &peer.name)], value);
            }
        }
    }
    page.family("trunkline_refused_packets_total", "counter", "Packets of the peer that were not let in.");
    for peer in &status.peers {
        let received = &peer.received;
        for (reason, value) in [
            ("malformed", received.refused_malformed),
            ("bad_offload", received.refused_bad_offload),
            ("forged_source", received.refused_forged_source),
        ] {
            let labels = [("peer", peer.name.as_str()), ("reason", reason)];
            page.sample("trunkline_refused_packets_total", &labels, value);
        }
    }
}

fn health(page: &mut Page, status: &Status) {
    page.family("trunkline_unresponsive_workers", "gauge", "Workers that do not respond.");
    page.sample("trunkline_unresponsive_workers", &[], status.unresponsive_workers.len());
    page.family("trunkline_lost_log_lines_total", "counter", "Lost lines of the log.");
    for (reason, lines) in [("queue_full", status.log.lost_queue_full), ("failed", status.log.lost_failed)] {
        page.sample("trunkline_lost_log_lines_total", &[("reason", reason)], lines);
    }
}

fn callers(page: &mut Page, status: &Status) {
    let callers = &status.callers;
    page.family("trunkline_half_open_connections", "gauge", "Callers without a completed handshake.");
    page.sample("trunkline_half_open_connections", &[], callers.half_open);
    page.family("trunkline_accepted_connections_total", "counter", "Connections accepted.");
    page.sample("trunkline_accepted_connections_total", &[], callers.accepted);
    page.family(
        "trunkline_rejected_connections_total",
        "counter",
        "Connections of callers that did not become lanes.",
    );
    for (reason, value) in [
        ("address_limit", callers.over_address_limit),
        ("total_limit", callers.over_total_limit),
        ("timed_out", callers.timed_out),
        ("unknown_key", callers.unknown_key),
        ("failed", callers.failed),
    ] {
        page.sample("trunkline_rejected_connections_total", &[("reason", reason)], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(class: Class, lane: Lane) -> Status {
        let peer = Peer { name: "b".to_owned(), classes: vec![class], lanes: vec![lane], ..Peer::default() };
        Status { peers: vec![peer], ..Status::default() }
    }

    #[test]
    fn base_units_are_seconds_and_bytes() {
        let class = Class {
            name: "tcp".to_owned(),
            rtt_up_us: Some(45_000),
            bandwidth: Some(80_000_000),
            drops: [("early".to_owned(), 7)].into(),
            ..Class::default()
        };
        let lane = Lane { lane_group: "tcp".to_owned(), queue_in_core_us: Some(1_500), ..Lane::default() };
        let page = prometheus(&status(class, lane));
        for line in [
            "trunkline_class_rtt_up_seconds{peer=\"b\",class=\"tcp\"} 0.045",
            "trunkline_class_bandwidth_bytes_per_second{peer=\"b\",class=\"tcp\"} 10000000",
            "trunkline_class_dropped_packets_total{peer=\"b\",class=\"tcp\",reason=\"early\"} 7",
            "trunkline_lane_core_queue_seconds{peer=\"b\",lane_group=\"tcp\",shard=\"0\",lane=\"0\"} 0.0015",
        ] {
            assert!(page.lines().any(|have| have == line), "{line}\n{page}");
        }
    }

    #[test]
    fn what_has_no_value_has_no_sample() {
        let page = prometheus(&status(Class::default(), Lane::default()));
        let sampled = |name: &str| page.lines().any(|line| line.starts_with(name));
        assert!(sampled("trunkline_class_flows{"));
        for name in ["trunkline_class_rtt_up_seconds{", "trunkline_lane_min_rtt_seconds{"] {
            assert!(!sampled(name), "{name}");
        }
    }

    #[test]
    fn every_family_has_one_head_and_its_samples_follow_it() {
        let mut class = Class { drops: [("early".to_owned(), 1)].into(), ..Class::default() };
        class.sojourn.buckets = vec![1; Histogram::BUCKETS];
        let page = prometheus(&status(class, Lane::default()));
        let mut seen = std::collections::BTreeSet::new();
        let mut current = String::new();
        for line in page.lines() {
            if let Some(head) = line.strip_prefix("# TYPE ") {
                current = head.split(' ').next().unwrap_or_default().to_owned();
                assert!(seen.insert(current.clone()), "twice: {current}");
            } else if !line.starts_with('#') {
                assert!(line.starts_with(current.as_str()), "{line} under {current}");
            }
        }
        assert!(seen.len() > 60, "{} families", seen.len());
    }
}
