//! Counters of a status that must not decrease while the process runs.

use std::collections::BTreeMap;

use trunkline_status::Status;

/// Counters by name.
pub(crate) type Counters = BTreeMap<String, u64>;

pub(crate) fn of(status: &Status) -> Counters {
    let mut counters = Counters::new();
    let mut add = |name: String, value: u64| {
        counters.insert(name, value);
    };
    let (tun, callers) = (&status.tun, &status.callers);
    for (name, value) in [
        ("super_read", tun.super_read),
        ("read_bytes", tun.read_bytes),
        ("super_written", tun.super_written),
        ("coalesced", tun.coalesced),
        ("write_refused", tun.write_refused),
        ("dropped_no_route", tun.dropped_no_route),
        ("dropped_multicast", tun.dropped_multicast),
        ("dropped_malformed", tun.dropped_malformed),
        ("dropped_too_long", tun.dropped_too_long),
        ("dropped_no_memory", tun.dropped_no_memory),
        ("accepted", callers.accepted),
        ("over_address_limit", callers.over_address_limit),
        ("over_total_limit", callers.over_total_limit),
        ("timed_out", callers.timed_out),
        ("unknown_key", callers.unknown_key),
        ("failed", callers.failed),
    ] {
        add(name.to_owned(), value);
    }
    for peer in &status.peers {
        let received = &peer.received;
        for (name, value) in [
            ("packets", received.packets),
            ("bytes", received.bytes),
            ("refused_malformed", received.refused_malformed),
            ("refused_bad_offload", received.refused_bad_offload),
            ("refused_forged_source", received.refused_forged_source),
            ("duplicates", received.duplicates),
            ("resequenced", received.resequencing.count),
            ("late", received.late),
            ("gaps_given_up", received.gaps_given_up),
        ] {
            add(format!("{}.received.{name}", peer.name), value);
        }
        for class in &peer.classes {
            let name = |counter| format!("{}.{}.{counter}", peer.name, class.name);
            add(name("packets"), class.packets);
            add(name("packets_sent"), class.packets_sent);
            add(name("filtered"), class.filtered);
            add(name("refused"), class.refused);
            for (reason, drops) in &class.drops {
                add(name(reason), *drops);
            }
        }
        for lane in &peer.lanes {
            let name = format!("{}.{}/{}/{}.established", peer.name, lane.lane_group, lane.shard, lane.index);
            add(name, lane.established);
        }
    }
    counters
}

/// The first counter that is lower than before.
pub(crate) fn went_back(before: &Counters, after: &Counters) -> Option<String> {
    before.iter().find_map(|(name, was)| {
        let is = after.get(name)?;
        (is < was).then(|| format!("{name} went back from {was} to {is}"))
    })
}
