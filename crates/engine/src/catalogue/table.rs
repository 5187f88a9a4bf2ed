//! The tables.

use trunkline_queue::DropReason;

use super::measured::{
    All, Class, ClassState, Group, Lane, Link, LinkState, NodeCounts, Proxy, Queue, Reading, Run, Slowdown,
    Tcp, Trunk, Udp, User, count, count_ratio, jain, quantile, ratio, sum, summary,
};
use super::{Present, Quantity, Table, Unit};

/// A row is: name, unit, when it is there, meaning, and how it is read.
macro_rules! table {
    ($(#[$doc:meta])* $table:ident: $measured:ty => $value:ty {
        $($name:literal $unit:ident $present:ident $meaning:literal $read:expr;)*
    }) => {
        $(#[$doc])*
        pub(crate) const $table: Table<$measured, $value> = Table {
            quantities: &[$(Quantity {
                name: $name,
                unit: Unit::$unit,
                present: Present::$present,
                meaning: $meaning,
            }),*],
            read: &[$($read),*],
        };
    };
}

/// Every metric, by the kind of its subject.
pub const METRICS: [&[Quantity]; 12] = [
    GROUP.quantities,
    ALL.quantities,
    TCP.quantities,
    UDP.quantities,
    UDP_ALONE.quantities,
    LINK.quantities,
    QUEUE.quantities,
    TRUNK.quantities,
    CLASS.quantities,
    PROXY.quantities,
    NODE.quantities,
    RUN.quantities,
];

/// Everything that can be recorded over time.
pub const SERIES: [&[Quantity]; 5] = [
    GROUP_SERIES.quantities,
    USER_SERIES.quantities,
    LINK_SERIES.quantities,
    CLASS_SERIES.quantities,
    LANE_SERIES.quantities,
];

/// Values of each transfer of a group with sources of TCP, for histograms.
pub const DISTRIBUTIONS: [&[Quantity]; 1] = [&[
    Quantity {
        name: "transfer.throughput",
        unit: Unit::BitPerSecond,
        present: Present::Always,
        meaning: "data over duration, of each transfer",
    },
    Quantity {
        name: "transfer.delay",
        unit: Unit::Second,
        present: Present::Always,
        meaning: "duration of each completed transfer",
    },
]];

table! {
    /// Sources of traffic that are counted together (`<group>`, `all`).
    GROUP: Group => Option<f64> {
        "goodput" BitPerSecond Always "new data that reached its receivers, over the time counted"
            |group| group.rate(group.flows().iter().sum());
        "throughput" BitPerSecond Always
            "data that TCP senders sent, with retransmissions; datagrams that arrived, with their IP headers"
            |group| group.rate(group.carried()? as f64);
        "fairness" Count Sometimes
            "Jain's index of the goodputs of flows (bulk), users (web, requests) and sources of datagrams"
            |group| jain(&group.flows());
        "flow.goodput.mean" BitPerSecond Always "mean of the same goodputs" |group| group.goodput(|all| all.mean);
        "flow.goodput.std" BitPerSecond Always "their standard deviation" |group| group.goodput(|all| all.deviation);
        "flow.goodput.min" BitPerSecond Always "their minimum" |group| group.goodput(|all| all.min);
        "flow.goodput.max" BitPerSecond Always "their maximum" |group| group.goodput(|all| all.max);
    }
}

table! {
    /// All groups (`all`).
    ALL: All => Option<f64> {
        "fairness.groups" Count Sometimes "Jain's index of the groups' goodputs" |all| jain(&all.goodputs);
    }
}

table! {
    /// Groups with sources of TCP.
    TCP: Tcp => Option<f64> {
        "transfers.total" Count Always "transfers that began" |tcp| count(tcp.total);
        "transfers.completed" Count Always "transfers that ended with all data" |tcp| count(tcp.completed);
        "transfers.failed" Count Always "transfers that were reset, refused or given up" |tcp| count(tcp.failed);
        "transfers.completed.ratio" Ratio Sometimes "completed transfers over all that began"
            |tcp| ratio(tcp.completed as f64, tcp.total as f64);
        "delay.mean" Second Sometimes
            "duration of completed transfers, from the opening of the connection on (kung1998's request delay)"
            |tcp| summary(&tcp.delays, |all| all.mean);
        "delay.std" Second Sometimes "its standard deviation" |tcp| summary(&tcp.delays, |all| all.deviation);
        "delay.min" Second Sometimes "its minimum" |tcp| summary(&tcp.delays, |all| all.min);
        "delay.p50" Second Sometimes "its median" |tcp| quantile(&tcp.delays, 0.5);
        "delay.p95" Second Sometimes "its 95th percentile" |tcp| quantile(&tcp.delays, 0.95);
        "delay.p99" Second Sometimes "its 99th percentile" |tcp| quantile(&tcp.delays, 0.99);
        "delay.max" Second Sometimes "its maximum" |tcp| summary(&tcp.delays, |all| all.max);
        "slowdown.mean" Count Sometimes
            "mean slowdown of completed transfers: duration over what it is on an idle path, which is the data over the rate of the narrowest link and a round trip of the links' delays"
            |tcp| summary(&tcp.slowdowns(Slowdown::ALL), |all| all.mean);
        "slowdown.p50" Count Sometimes "its median" |tcp| quantile(&tcp.slowdowns(Slowdown::ALL), 0.5);
        "slowdown.p99" Count Sometimes "its 99th percentile" |tcp| quantile(&tcp.slowdowns(Slowdown::ALL), 0.99);
        "slowdown.small.transfers" Count Always "completed transfers of up to 10 kB"
            |tcp| count(tcp.slowdowns(Slowdown::SMALL).len() as u64);
        "slowdown.small.mean" Count Sometimes "their mean slowdown"
            |tcp| summary(&tcp.slowdowns(Slowdown::SMALL), |all| all.mean);
        "slowdown.small.p50" Count Sometimes "its median" |tcp| quantile(&tcp.slowdowns(Slowdown::SMALL), 0.5);
        "slowdown.small.p99" Count Sometimes "its 99th percentile" |tcp| quantile(&tcp.slowdowns(Slowdown::SMALL), 0.99);
        "slowdown.medium.transfers" Count Always "completed transfers of more than 10 kB, up to 1 MB"
            |tcp| count(tcp.slowdowns(Slowdown::MEDIUM).len() as u64);
        "slowdown.medium.mean" Count Sometimes "their mean slowdown"
            |tcp| summary(&tcp.slowdowns(Slowdown::MEDIUM), |all| all.mean);
        "slowdown.medium.p50" Count Sometimes "its median" |tcp| quantile(&tcp.slowdowns(Slowdown::MEDIUM), 0.5);
        "slowdown.medium.p99" Count Sometimes "its 99th percentile" |tcp| quantile(&tcp.slowdowns(Slowdown::MEDIUM), 0.99);
        "slowdown.large.transfers" Count Always "completed transfers of more than 1 MB"
            |tcp| count(tcp.slowdowns(Slowdown::LARGE).len() as u64);
        "slowdown.large.mean" Count Sometimes "their mean slowdown"
            |tcp| summary(&tcp.slowdowns(Slowdown::LARGE), |all| all.mean);
        "slowdown.large.p50" Count Sometimes "its median" |tcp| quantile(&tcp.slowdowns(Slowdown::LARGE), 0.5);
        "slowdown.large.p99" Count Sometimes "its 99th percentile" |tcp| quantile(&tcp.slowdowns(Slowdown::LARGE), 0.99);
        "rtt.mean" Second Sometimes
            "each connection's mean RTT as its sender measured it, averaged over the connections that have one (as lee2002 averages tcptrace's)"
            |tcp| tcp.mean_of(|rtt| rtt.mean);
        "rtt.min" Second Sometimes "each connection's minimum RTT, averaged" |tcp| tcp.mean_of(|rtt| rtt.min);
        "rtt.max" Second Sometimes "each connection's maximum RTT, averaged" |tcp| tcp.mean_of(|rtt| rtt.max);
        "rtt.min_of_all" Second Sometimes "minimum RTT of all connections"
            |tcp| tcp.rtt.iter().map(|rtt| rtt.min).reduce(f64::min);
        "rtt.max_of_all" Second Sometimes "maximum RTT of all connections"
            |tcp| tcp.rtt.iter().map(|rtt| rtt.max).reduce(f64::max);
        "rtt.samples" Count Always "RTT samples" |tcp| count(tcp.counts.rtt_samples);
        "retransmitted.packets" Count Always "retransmitted segments: data, SYN or FIN"
            |tcp| count(tcp.counts.retransmitted);
        "retransmitted.bytes" Byte Always "retransmitted data" |tcp| count(tcp.counts.retransmitted_bytes);
        "retransmitted.needed" Count Always "retransmissions that replaced something lost, or were lost in turn"
            |tcp| count(tcp.counts.needed());
        "retransmitted.spurious" Count Always "retransmissions of what the receiver had already"
            |tcp| count(tcp.counts.spurious());
        "retransmitted.ratio" Ratio Sometimes "retransmitted segments over data segments sent"
            |tcp| count_ratio(tcp.counts.retransmitted, tcp.counts.data_segments);
        "timeouts" Count Always "retransmission timeouts of senders" |tcp| count(tcp.counts.timeouts);
        "segments.data" Count Always "segments with data that the senders of transfers sent, with retransmissions"
            |tcp| count(tcp.counts.data_segments);
        "segments.ack" Count Always "segments that the receivers of transfers sent" |tcp| count(tcp.counts.answered);
        "acks.gap.variation" Count Sometimes
            "standard deviation of the gaps between acknowledgements of new data as the senders get them, over their mean (0: evenly spaced); gaps of more than a second do not count"
            |tcp| tcp.counts.ack_gap_variation();
        "segments.total" Count Always "all segments of both" |tcp| count(sum(tcp.counts.sent, tcp.counts.answered));
        "transfer.rtt.samples" Count Sometimes "mean over whole transfers of `rtt.samples`"
            |tcp| tcp.each(tcp.whole.rtt_samples);
        "transfer.retransmitted.bytes" Byte Sometimes "the same of `retransmitted.bytes`"
            |tcp| tcp.each(tcp.whole.retransmitted_bytes);
        "transfer.retransmitted.packets" Count Sometimes "of `retransmitted.packets`"
            |tcp| tcp.each(tcp.whole.retransmitted);
        "transfer.retransmitted.needed" Count Sometimes "of `retransmitted.needed`"
            |tcp| tcp.each(tcp.whole.needed());
        "transfer.retransmitted.spurious" Count Sometimes "of `retransmitted.spurious`"
            |tcp| tcp.each(tcp.whole.spurious());
        "transfer.segments.data" Count Sometimes "of `segments.data`" |tcp| tcp.each(tcp.whole.data_segments);
        "transfer.segments.ack" Count Sometimes "of `segments.ack`" |tcp| tcp.each(tcp.whole.answered);
        "transfer.segments.total" Count Sometimes "of `segments.total`"
            |tcp| tcp.each(sum(tcp.whole.sent, tcp.whole.answered));
        "transfer.timeouts" Count Sometimes "of `timeouts`" |tcp| tcp.each(tcp.whole.timeouts);
        "transfer.forward.packets" Count Sometimes "packets from the client, per transfer"
            |tcp| tcp.each(tcp.packets[0]);
        "transfer.reverse.packets" Count Sometimes "packets from the server, per transfer"
            |tcp| tcp.each(tcp.packets[1]);
        "transfer.throughput.mean" BitPerSecond Sometimes
            "each transfer's data over its duration; of one that did not complete, the data that came"
            |tcp| summary(&tcp.throughputs, |all| all.mean);
        "transfer.throughput.std" BitPerSecond Sometimes "its standard deviation over transfers"
            |tcp| summary(&tcp.throughputs, |all| all.deviation);
        "transfer.forward.throughput" BitPerSecond Sometimes
            "new data from the client over the transfer's duration, mean over transfers"
            |tcp| tcp.rate_of(0);
        "transfer.reverse.throughput" BitPerSecond Sometimes "the same from the server"
            |tcp| tcp.rate_of(1);
    }
}

table! {
    /// Groups with sources of datagrams.
    UDP: Udp => Option<f64> {
        "sent.packets" Count Always "datagrams sent" |udp| count(udp.sent);
        "received.packets" Count Always
            "datagrams that arrived, duplicates of links once; with a warm-up also those that left before its end"
            |udp| count(udp.received);
        "lost.ratio" Ratio Sometimes "of those sent in the time counted, the part that had not arrived by the end"
            // In real time one end is read a moment before the other, and may not yet count what the other has.
            |udp| ratio((udp.sent + udp.sent_before_reset).saturating_sub(udp.received) as f64, udp.sent as f64);
        "jitter" Second Sometimes
            "mean difference between the delays of one datagram and the next (RFC 3550 §6.4.1 takes a moving average of it)"
            |udp| ratio(udp.variation.as_secs_f64(), udp.variations as f64);
    }
}

table! {
    /// Groups of nothing but datagrams.
    UDP_ALONE: Udp => Option<f64> {
        "delay.mean" Second Sometimes "one-way delay of datagrams"
            |udp| ratio(udp.delay.as_secs_f64(), udp.received as f64);
        "delay.min" Second Sometimes "its minimum" |udp| udp.of_some(udp.delay_min.unwrap_or_default());
        "delay.p50" Second Sometimes "its median, to within 1 %" |udp| udp.quantile(0.5);
        "delay.p95" Second Sometimes "its 95th percentile, likewise" |udp| udp.quantile(0.95);
        "delay.p99" Second Sometimes "its 99th percentile, likewise" |udp| udp.quantile(0.99);
        "delay.max" Second Sometimes "its maximum" |udp| udp.of_some(udp.delay_max);
    }
}

table! {
    /// One way of a link (`<link>`, `<link>.back`).
    LINK: Link => Option<f64> {
        "utilisation" Ratio Always
            "part of the time in which it sent; with `deliveries` what it sent over what it could send on average"
            |link| link.per_second(link.sent_for.as_secs_f64());
        "delivered" BitPerSecond Always "IP packets at its far end"
            |link| link.per_second(link.count(|stats| stats.delivered_bytes) as f64 * 8.0);
        "delivered.packets" Count Always "the same, counted" |link| count(link.count(|stats| stats.delivered));
        "lost" Count Always "packets that the link itself lost" |link| count(link.count(|stats| stats.lost));
        "corrupted" Count Always "packets that the link damaged and delivered"
            |link| count(link.count(|stats| stats.corrupted));
        "fragmented" Count Always "packets that were fragmented for it" |link| count(link.count(|stats| stats.fragmented));
    }
}

table! {
    /// The queue of one way of a link, or of a class at the edge (`<link>`, `<trunk>.<class>`).
    QUEUE: Queue => Option<f64> {
        "offered.packets" Count Always "packets that came to it" |queue| count(queue.offered());
        "drops" Count Always "packets that it dropped" |queue| count(queue.drops());
        "drops.ratio" Ratio Sometimes "packets that it dropped over those that came; reports show it in %"
            |queue| ratio(queue.drops() as f64, queue.offered() as f64);
        "drops.segment_limit" Count Always "drops because the queue held its limit of packets"
            |queue| queue.dropped_for(DropReason::SegmentLimit);
        "drops.byte_limit" Count Always "drops because the queue held its limit of bytes"
            |queue| queue.dropped_for(DropReason::ByteLimit);
        "drops.dynamic_threshold" Count Always "fair tail drop: drops because the flow was above the dynamic threshold"
            |queue| queue.dropped_for(DropReason::DynamicThreshold);
        "drops.early" Count Always "RED, FRED, PIE, trunk: random drops before the queue was full"
            |queue| queue.dropped_for(DropReason::Early);
        "drops.forced" Count Always
            "RED, FRED: drops because the average was above its maximum, or the flow was unresponsive"
            |queue| queue.dropped_for(DropReason::Forced);
        "drops.sojourn" Count Always "CoDel, FQ-CoDel: drops because the sojourn time stayed above the target"
            |queue| queue.dropped_for(DropReason::Sojourn);
        "drops.bytes" Byte Always "bytes dropped, for any reason" |queue| queue.own_count(|stats| stats.bytes_dropped);
        "marks" Count Always "packets marked instead of dropped (ECN)"
            |queue| queue.own_count(trunkline_queue::Stats::marked_total);
        "queue.packets.mean" Count Always "packets in the queue, averaged over time" |queue| queue.mean_packets();
        "queue.packets.max" Count Always
            "maximum number of packets in the queue (of a class with several lanes, the sum of the lanes' maxima)"
            |queue| queue.peak(|stats| stats.peak_segments);
        "queue.packets.p2_5" Count Sometimes
            "2.5th percentile of samples at equal distances (1000 of them, or 1000 to 2000 where transfers end the run)"
            |queue| quantile(&queue.samples, 0.025);
        "queue.packets.p97_5" Count Sometimes "their 97.5th percentile" |queue| quantile(&queue.samples, 0.975);
        "queue.bytes.mean" Byte Always "bytes in the queue, averaged over time" |queue| queue.mean_bytes();
        "queue.bytes.max" Byte Always "maximum number of bytes in the queue" |queue| queue.peak(|stats| stats.peak_bytes);
        "sojourn.mean" Second Sometimes "mean sojourn time of the packets that left the queue" |queue| queue.sojourn_mean();
        "sojourn.p50" Second Sometimes "its median, rounded up to a power of two of microseconds"
            |queue| queue.sojourn_percentile(0.5);
        "sojourn.p95" Second Sometimes "its 95th percentile, rounded likewise" |queue| queue.sojourn_percentile(0.95);
        "sojourn.p99" Second Sometimes "its 99th percentile, rounded likewise" |queue| queue.sojourn_percentile(0.99);
    }
}

table! {
    /// One way of a trunk (`<trunk>`, `<trunk>.back`).
    TRUNK: Trunk => Option<f64> {
        "drops" Count Always "packets dropped at its edge, all classes together" |trunk| count(trunk.drops);
        "drops.ratio" Ratio Sometimes "the same over the packets that came"
            |trunk| ratio(trunk.drops as f64, trunk.offered as f64);
        "filtered" Count Always "retransmissions that its filter did not carry a second time"
            |trunk| count(trunk.filtered);
        "queue.packets.mean" Count Always "packets in its edge queues, averaged over time" |trunk| Some(trunk.waiting);
        "delivered" BitPerSecond Always "user packets that left it, with their IP headers"
            |trunk| ratio(trunk.delivered_bytes as f64 * 8.0, trunk.time.as_secs_f64());
        "refused" Count Always "packets of flows that were refused" |trunk| count(trunk.refused);
        "lane.retransmitted.packets" Count Always "segments that its lanes retransmitted; of a lane of streams lost packets, of a lane of datagrams 0"
            |trunk| count(trunk.lanes.retransmitted);
        "lane.timeouts" Count Always "retransmission timeouts of its lanes" |trunk| count(trunk.lanes.timeouts);
        "lane.rtt.mean" Second Sometimes "mean RTT that its lanes' TCPs measured; none over QUIC"
            |trunk| ratio(trunk.lanes.rtt_ns? as f64 / 1e9, trunk.lanes.rtt_samples? as f64);
        "lane.overhead" Count Sometimes
            "bytes given to lanes over bytes of user packets: framing, header compression and TLS records, without the lanes' own TCP and IP headers; over QUIC all that is in UDP datagrams"
            |trunk| count_ratio(trunk.lanes.bytes, Some(trunk.carried_bytes));
    }
}

table! {
    /// A class at the edge of a trunk (`<trunk>.<class>`), besides what its queue has.
    CLASS: Class => Option<f64> {
        "filtered" Count Always "retransmissions that the filter did not carry a second time" |class| count(class.filtered);
        "drop_holdoffs" Count Always "packets that the drop holdoff of their flow kept from an early drop (P3)"
            |class| count(class.drop_holdoffs);
    }
}

table! {
    /// A proxy (`<node>`).
    PROXY: Proxy => Option<f64> {
        "flows" Count Always "connections it handled" |proxy| proxy.count(|stats| stats.flows);
        "dropped" Count Always "segments it dropped because an emulated link had no room" |proxy| proxy.count(|stats| stats.dropped);
        "overflowed" Count Always "segments it dropped because its buffer of their connection was full"
            |proxy| proxy.count(|stats| stats.overflowed);
        "corrupted" Count Always "damaged segments"
            |proxy| Some(proxy.count(|stats| stats.corrupted)? + proxy.corrupted_at_node? as f64);
        "held" Count Always "acknowledgements it held back" |proxy| proxy.count(|stats| stats.held);
        "released" Count Always "held acknowledgements it sent when they were due" |proxy| proxy.count(|stats| stats.released);
        "clamped" Count Always "segments whose window it lowered" |proxy| proxy.count(|stats| stats.clamped);
        "frozen" Count Always "times it closed a sender's window" |proxy| proxy.count(|stats| stats.frozen);
        "buffered.max" Byte Always "maximum it buffered for the nodes behind it" |proxy| count(proxy.stats.to.peak_buffered);
    }
}

table! {
    /// A node of any kind (`<node>`).
    NODE: NodeCounts => Option<f64> {
        "unreachable" Count Always "packets without a route" |node| count(node.unreachable);
        "ttl_expired" Count Always "packets whose TTL expired" |node| count(node.ttl_expired);
        "no_listener" Count Always "packets of a flow for which nobody listened there" |node| count(node.no_listener);
        "malformed" Count Always "packets whose headers could not be read" |node| count(node.malformed);
        "corrupted" Count Always "damaged packets" |node| count(node.corrupted);
        "fragments_expired" Count Always "fragments of packets that never became complete"
            |node| count(node.reassembly_failures);
    }
}

table! {
    /// The run (`run`).
    RUN: Run => Option<f64> {
        "time" Second Always "time until it ended: virtual, or on the testbed real" |run| Some(run.time.as_secs_f64());
        "late.ratio" Ratio Sometimes "testbed: packets that links delivered more than 1 ms after their time, over all that they delivered"
            |run| ratio(run.disturbance?.late as f64, run.disturbance?.delivered as f64);
        "late.max" Second Sometimes "testbed: the maximum delay of a packet beyond its time"
            |run| Some(run.disturbance?.late_max.as_secs_f64());
        "stolen" Ratio Sometimes "testbed: CPU time that the hypervisor gave to other machines, over all"
            |run| Some(run.disturbance?.stolen);
        "discarded" Count Sometimes "testbed: runs before this one that were disturbed too much, and were made again"
            |run| count(u64::from(run.disturbance?.discarded));
    }
}

table! {
    /// Groups over time; the measurement is the bytes of data that arrived.
    GROUP_SERIES: u64 => Reading {
        "goodput" BitPerSecond Always "of the interval" |received| Reading::Bytes(*received);
    }
}

table! {
    /// A user of a source over time (`<traffic>.<n>`).
    USER_SERIES: User => Reading {
        "goodput" BitPerSecond Always
            "of the interval; a source of datagrams has `<n>` 0 and no other quantity" |user| Reading::Bytes(user.received);
        "cwnd" Byte Sometimes "congestion window of the data's sender, while there is a connection"
            |user| Reading::level(user.sender.map(|sender| f64::from(sender.cwnd)));
        "ssthresh" Byte Sometimes "slow start threshold, from the first loss on"
            |user| Reading::level(user.sender.and_then(|sender| sender.ssthresh).map(f64::from));
        "in_flight" Byte Sometimes "sent and neither acknowledged nor considered lost"
            |user| Reading::level(user.sender.map(|sender| f64::from(sender.in_flight)));
        "srtt" Second Sometimes "smoothed RTT"
            |user| Reading::level(user.sender.and_then(|sender| sender.srtt).map(|srtt| srtt.as_secs_f64()));
        "retransmissions" Count Always "retransmitted segments of the interval" |user| Reading::Count(user.retransmissions);
    }
}

table! {
    /// One way of a link over time.
    LINK_SERIES: LinkState => Reading {
        "queue.packets" Count Always "packets in the queue at the instant" |link| Reading::Level(link.packets as f64);
        "queue.bytes" Byte Always "bytes in the queue at the instant" |link| Reading::Level(link.bytes as f64);
        "utilisation" Ratio Always "of the interval" |link| Reading::Busy(link.sent_for);
        "delivered" BitPerSecond Always "of the interval" |link| Reading::Bytes(link.delivered_bytes);
        "drops" Count Always "in the interval" |link| Reading::Count(link.drops);
    }
}

table! {
    /// A class at the edge over time.
    CLASS_SERIES: ClassState => Reading {
        "queue.packets" Count Always "packets in its edge queues at the instant" |class| Reading::Level(class.packets as f64);
        "queue.bytes" Byte Always "bytes in its edge queues at the instant" |class| Reading::Level(class.bytes as f64);
        "drops" Count Always "in the interval" |class| Reading::Count(class.drops);
        "filtered" Count Always "in the interval" |class| Reading::Count(class.filtered);
    }
}

table! {
    /// A lane of one way of a trunk over time (`<trunk>.lane<n>`).
    LANE_SERIES: Lane => Reading {
        "window" Byte Always "congestion window in the lane's last snapshot" |lane| Reading::Level(lane.snapshot.window as f64);
        "unsent" Byte Always "taken and not sent" |lane| Reading::Level(lane.snapshot.unsent as f64);
        "unacknowledged" Byte Always "sent and not acknowledged" |lane| Reading::Level(lane.snapshot.unacknowledged as f64);
        "srtt" Second Sometimes "smoothed RTT" |lane| Reading::level(lane.snapshot.srtt.map(|srtt| srtt.as_secs_f64()));
        "delivery_rate" BitPerSecond Sometimes "as Linux estimates it" |lane| Reading::rate(lane.snapshot.delivery_rate);
        "max_pacing_rate" BitPerSecond Sometimes "the maximum that edge pacing sets" |lane| Reading::rate(lane.max_pacing_rate);
    }
}
