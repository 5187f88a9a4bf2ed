//! Metrics in the Prometheus text format, made from a [`Status`].

use std::fmt::Write as _;

use trunkline_queue::Histogram;

use crate::status::{Class, Lane, Peer, Status};

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (index, (key, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{key}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

/// One family over all classes: its name, type, help and value.
type ClassFamily = (&'static str, &'static str, &'static str, fn(&Class) -> u64);
/// One family over all lanes.
type LaneFamily = (&'static str, &'static str, &'static str, fn(&Lane) -> f64);

const CLASS_FAMILIES: &[ClassFamily] = &[
    ("trunkline_class_packets_total", "counter", "Packets offered to the edge queue.", |c| c.packets),
    ("trunkline_class_bytes_total", "counter", "Bytes offered to the edge queue.", |c| c.bytes),
    ("trunkline_class_sent_packets_total", "counter", "Packets handed to lanes.", |c| c.packets_sent),
    ("trunkline_class_sent_bytes_total", "counter", "Bytes handed to lanes.", |c| c.bytes_sent),
    ("trunkline_class_backlog_packets", "gauge", "Packets waiting at the edge.", |c| c.backlog_packets),
    ("trunkline_class_backlog_bytes", "gauge", "Bytes waiting at the edge.", |c| c.backlog_bytes),
    ("trunkline_class_peak_backlog_packets", "gauge", "Most packets that ever waited.", |c| c.peak_packets),
];

const LANE_FAMILIES: &[LaneFamily] = &[
    ("trunkline_lane_up", "gauge", "1 while the lane is up.", |l| f64::from(u8::from(l.state == "up"))),
    ("trunkline_lane_established_total", "counter", "Times the lane came up.", |l| l.established as f64),
    ("trunkline_lane_cwnd_segments", "gauge", "Congestion window.", |l| l.cwnd.into()),
    ("trunkline_lane_cwnd_bytes", "gauge", "Congestion window.", |l| f64::from(l.cwnd) * f64::from(l.mss)),
    ("trunkline_lane_rtt_seconds", "gauge", "Smoothed round-trip time.", |l| f64::from(l.rtt_us) / 1e6),
    ("trunkline_lane_min_rtt_seconds", "gauge", "Smallest round-trip time.", |l| {
        f64::from(l.min_rtt_us.unwrap_or(0)) / 1e6
    }),
    ("trunkline_lane_delivery_rate_bytes_per_second", "gauge", "Rate lately delivered.", |l| {
        l.delivery_rate as f64 / 8.0
    }),
    (
        "trunkline_lane_retransmitted_segments_total",
        "counter",
        "Segments lost in the core and sent again.",
        |l| l.retransmits as f64,
    ),
    ("trunkline_lane_sent_segments_total", "counter", "Segments sent.", |l| l.segments_sent as f64),
    ("trunkline_lane_unsent_bytes", "gauge", "Bytes in the kernel, not yet sent.", |l| l.unsent_bytes as f64),
    ("trunkline_lane_unacked_bytes", "gauge", "Bytes sent, not yet acknowledged.", |l| {
        l.unacked_bytes as f64
    }),
    ("trunkline_lane_sent_bytes_total", "counter", "Bytes written to the connection.", |l| {
        l.bytes_sent as f64
    }),
    ("trunkline_lane_received_bytes_total", "counter", "Bytes read from it.", |l| l.bytes_received as f64),
    ("trunkline_lane_key_updates_total", "counter", "TLS key updates.", |l| l.key_updates as f64),
];

/// The whole page.
pub fn prometheus(status: &Status) -> String {
    let mut page = Page(String::with_capacity(8192));
    page.family("trunkline_info", "gauge", "The daemon.");
    page.sample("trunkline_info", &[("site", &status.name), ("version", &status.version)], 1);
    page.family("trunkline_uptime_seconds", "gauge", "Time since the start.");
    page.sample("trunkline_uptime_seconds", &[], status.uptime_s);
    tun(&mut page, status);
    for (name, kind, help, value) in CLASS_FAMILIES {
        page.family(name, kind, help);
        for_classes(status, |peer, class| {
            page.sample(name, &[("peer", &peer.name), ("class", &class.name)], value(class));
        });
    }
    page.family("trunkline_class_dropped_packets_total", "counter", "Packets dropped at the edge.");
    for_classes(status, |peer, class| {
        let drops = &class.drops;
        for (reason, count) in [
            ("segment_limit", drops.segment_limit),
            ("byte_limit", drops.byte_limit),
            ("flow_share", drops.flow_share),
            ("flushed", drops.flushed),
        ] {
            let labels = [("peer", peer.name.as_str()), ("class", &class.name), ("reason", reason)];
            page.sample("trunkline_class_dropped_packets_total", &labels, count);
        }
    });
    sojourn(&mut page, status);
    for (name, kind, help, value) in LANE_FAMILIES {
        page.family(name, kind, help);
        for_classes(status, |peer, class| {
            for lane in &class.lanes {
                let shard = lane.shard.to_string();
                let labels = [("peer", peer.name.as_str()), ("class", &class.name), ("shard", &shard)];
                page.sample(name, &labels, value(lane));
            }
        });
    }
    received(&mut page, status);
    strangers(&mut page, status);
    page.0
}

fn for_classes(status: &Status, mut each: impl FnMut(&Peer, &Class)) {
    for peer in &status.peers {
        for class in &peer.classes {
            each(peer, class);
        }
    }
}

fn tun(page: &mut Page, status: &Status) {
    let tun = &status.tun;
    for (name, help, value) in [
        ("trunkline_tun_read_total", "Packets and super-packets read from the device.", tun.super_read),
        ("trunkline_tun_read_bytes_total", "Bytes read from the device.", tun.read_bytes),
        ("trunkline_tun_written_total", "Packets and super-packets written.", tun.super_written),
        ("trunkline_tun_coalesced_total", "UDP datagrams merged for writing.", tun.coalesced),
        ("trunkline_tun_write_refused_total", "Packets the kernel did not take.", tun.write_refused),
    ] {
        page.family(name, "counter", help);
        page.sample(name, &[], value);
    }
    page.family("trunkline_tun_dropped_total", "counter", "Packets dropped before they reached a class.");
    for (reason, value) in [
        ("no_route", tun.dropped_no_route),
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
        let labels = [("peer", peer.name.as_str()), ("class", class.name.as_str())];
        let mut cumulative = 0;
        for (index, count) in class.sojourn.buckets.iter().enumerate() {
            cumulative += count;
            let bound =
                Histogram::upper_bound(index).map_or("+Inf".to_owned(), |b| b.as_secs_f64().to_string());
            let labels = [labels[0], labels[1], ("le", bound.as_str())];
            page.sample(&format!("{name}_bucket"), &labels, cumulative);
        }
        page.sample(&format!("{name}_sum"), &labels, class.sojourn.sum_s);
        page.sample(&format!("{name}_count"), &labels, class.sojourn.count);
    });
}

fn received(page: &mut Page, status: &Status) {
    page.family("trunkline_received_packets_total", "counter", "Packets that came from the peer.");
    for peer in &status.peers {
        page.sample("trunkline_received_packets_total", &[("peer", &peer.name)], peer.received.packets);
    }
    page.family("trunkline_received_bytes_total", "counter", "Bytes that came from the peer.");
    for peer in &status.peers {
        page.sample("trunkline_received_bytes_total", &[("peer", &peer.name)], peer.received.bytes);
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

fn strangers(page: &mut Page, status: &Status) {
    let strangers = &status.strangers;
    page.family(
        "trunkline_half_open_connections",
        "gauge",
        "Handshakes under way with those who dialled us.",
    );
    page.sample("trunkline_half_open_connections", &[], strangers.half_open);
    page.family("trunkline_accepted_connections_total", "counter", "Connections accepted.");
    page.sample("trunkline_accepted_connections_total", &[], strangers.accepted);
    page.family("trunkline_rejected_connections_total", "counter", "Connections that never became lanes.");
    for (reason, value) in [
        ("address_limit", strangers.over_address_limit),
        ("total_limit", strangers.over_total_limit),
        ("timed_out", strangers.timed_out),
        ("unknown_key", strangers.unknown_key),
        ("failed", strangers.failed),
    ] {
        page.sample("trunkline_rejected_connections_total", &[("reason", reason)], value);
    }
}
