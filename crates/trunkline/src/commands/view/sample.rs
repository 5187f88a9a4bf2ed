//! Two states of a gateway, and of proxies, ten seconds apart, for the tests.

use trunkline_status::{
    Class, Flow, Lane, LaneState, Peer, ProxyCounts, ProxyStatus, ProxyTotals, Received, Sojourn, Status, Tun,
};

fn sojourn(at_1_ms: u64, at_16_ms: u64) -> Sojourn {
    let mut buckets = vec![0; 26];
    (buckets[10], buckets[14]) = (at_1_ms, at_16_ms);
    Sojourn { count: at_1_ms + at_16_ms, buckets, ..Sojourn::default() }
}

fn drops(early: u64, byte_limit: u64) -> std::collections::BTreeMap<String, u64> {
    [("byte_limit".to_owned(), byte_limit), ("early".to_owned(), early), ("flushed".to_owned(), 0)].into()
}

fn tcp(ten_seconds: u64) -> Class {
    Class {
        name: "tcp".to_owned(),
        lane_group: "tcp".to_owned(),
        discipline: "trunk".to_owned(),
        weight: 3,
        packets: 100_000 + 40_000 * ten_seconds,
        bytes: 150_000_000 + 60_000_000 * ten_seconds,
        packets_sent: 99_000 + 39_000 * ten_seconds,
        bytes_sent: 148_000_000 + 58_500_000 * ten_seconds,
        drops: drops(700 + 55 * ten_seconds, 300 + 10 * ten_seconds),
        marked: 40 + 12 * ten_seconds,
        held_off: 900 + 100 * ten_seconds,
        filtered: 5 + 3 * ten_seconds,
        flows: 12,
        backlog_packets: 130,
        backlog_bytes: 195_000,
        backlog_packet_seconds: 5_000.0 + 1_250.0 * ten_seconds as f64,
        capacity_packets: 1000,
        capacity_bytes: 260_000,
        drop_probability: Some(0.05),
        rtt_up_us: Some(52_000),
        k_packets: Some(27),
        window_bytes: Some(240_000),
        bandwidth: Some(46_800_000),
        sojourn: sojourn(50_000, 49_000 + 39_000 * ten_seconds),
        ..Class::default()
    }
}

fn lane(group: &str, ten_seconds: u64) -> Lane {
    Lane {
        lane_group: group.to_owned(),
        state: LaneState::Up,
        for_s: 3600.0,
        remote: Some("192.0.2.1:4600".to_owned()),
        established: 1,
        transport: "tcp".to_owned(),
        congestion_control: "bbr".to_owned(),
        bytes_sent: 1_000_000 + 59_000_000 * ten_seconds,
        bytes_received: 500_000 + 1_250_000 * ten_seconds,
        cwnd: 160,
        mss: 1448,
        rtt_us: Some(31_500),
        min_rtt_us: Some(30_100),
        queue_in_core_us: Some(1_400),
        retransmits: 7 + 5 * ten_seconds,
        unsent_bytes: 12_000,
        pacing_rate: Some(50_000_000),
        compressed: 5_000 + 4_000 * ten_seconds,
        headers_in_bytes: 260_000 + 208_000 * ten_seconds,
        headers_out_bytes: 40_000 + 32_000 * ten_seconds,
        ..Lane::default()
    }
}

fn flow(source: &str, destination: &str, ten_seconds: u64) -> Flow {
    Flow {
        class: "tcp".to_owned(),
        protocol: "tcp".to_owned(),
        source: source.to_owned(),
        destination: destination.to_owned(),
        bytes: 45_000_000 + 3_000_000 * ten_seconds,
        filtered: ten_seconds,
        rtt_us: Some(48_200),
        idle_s: 0.003,
    }
}

/// A gateway with one peer, after `ten_seconds` times ten seconds.
pub(in crate::commands) fn status(ten_seconds: u64) -> Status {
    let quiet = |name: &str, discipline: &str| Class {
        name: name.to_owned(),
        lane_group: name.to_owned(),
        discipline: discipline.to_owned(),
        weight: 1,
        packets: 200 + 500 * ten_seconds,
        bytes: 20_000 + 50_000 * ten_seconds,
        packets_sent: 200 + 500 * ten_seconds,
        bytes_sent: 20_000 + 50_000 * ten_seconds,
        drops: drops(0, 0),
        flows: 3,
        capacity_packets: 1000,
        capacity_bytes: 4 << 20,
        sojourn: sojourn(200 + 500 * ten_seconds, 0),
        ..Class::default()
    };
    let waiting = Lane {
        lane_group: "other".to_owned(),
        state: LaneState::Waiting,
        last_error: Some("the peer declines: unknown lane group (other)".to_owned()),
        ..Lane::default()
    };
    let received = Received {
        packets: 9_000 + 1_000 * ten_seconds,
        bytes: 1_000_000 + 1_250_000 * ten_seconds,
        ..Received::default()
    };
    Status {
        name: "a".to_owned(),
        version: "0.1.0".to_owned(),
        pid: 4711,
        uptime_s: 7_384.0 + 10.0 * ten_seconds as f64,
        public_key: String::new(),
        tun: Tun {
            name: "trunk0".to_owned(),
            read_bytes: 1_000_000 + 60_500_000 * ten_seconds,
            dropped_no_route: 4,
            pool_bytes: 8_400_000,
            ..Tun::default()
        },
        peers: vec![Peer {
            name: "b".to_owned(),
            public_key: "key of b".to_owned(),
            encryption: "tls".to_owned(),
            received,
            classes: vec![quiet("interactive", "fq-codel"), tcp(ten_seconds), quiet("other", "codel")],
            lanes: vec![Lane { retransmits: 0, ..lane("interactive", 0) }, lane("tcp", ten_seconds), waiting],
            flows: vec![
                flow("10.1.0.2:40112", "10.2.0.9:443", ten_seconds),
                flow("10.1.0.77:51022", "10.2.0.9:5001", 4 * ten_seconds),
                flow("[2001:db8:1::2]:40114", "[2001:db8:2::9]:443", 0),
            ],
            ..Peer::default()
        }],
        ..Status::default()
    }
}

/// Proxies, after `ten_seconds` times ten seconds.
pub(in crate::commands) fn proxies(ten_seconds: u64) -> trunkline_status::ProxiesStatus {
    let proxy = |name: &str, mode: &str, counts| ProxyStatus {
        name: name.to_owned(),
        mode: mode.to_owned(),
        is_measured: mode == "path-tail",
        counts,
    };
    let cell = ProxyCounts {
        open: 41,
        opened: 880 + 23 * ten_seconds,
        delivered: 1_000_000_000 + 14_125_000 * ten_seconds,
        held: 212_000,
        held_max: 1_480_000,
        rate: 11_900_000,
        tail_held: 11_240_000 + 10_250 * ten_seconds,
        tail_dropped: 8_100 + 20 * ten_seconds,
        ..ProxyCounts::default()
    };
    let totals = ProxyTotals {
        open: 41,
        opening: 2,
        opened: 880 + 23 * ten_seconds,
        refused: 5 + 2 * ten_seconds,
        timed_out: 1 + ten_seconds,
        bytes_from_clients: 90_000_000 + 1_250_000 * ten_seconds,
        bytes_from_servers: 1_000_000_000 + 14_200_000 * ten_seconds,
        ..ProxyTotals::default()
    };
    trunkline_status::ProxiesStatus {
        problem: None,
        name: "lte".to_owned(),
        version: "0.1.0".to_owned(),
        pid: 4712,
        uptime_s: 802.0 + 10.0 * ten_seconds as f64,
        totals,
        proxies: vec![proxy("ssh", "none", ProxyCounts::default()), proxy("cell", "path-tail", cell)],
    }
}
