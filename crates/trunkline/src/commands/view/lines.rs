//! What a daemon is and does, in two lines, and what the columns of its tables mean.

use super::format::{age, mbit, number, or_dash};
use super::model::{DeviceView, ProxiesView, View};

/// What the columns of the tables mean.
pub(in crate::commands) const COLUMNS: &str = "\
in, out   rate into the queue; rate to the lanes
waiting   packets in the queue now; mean: over the last interval
p50, p99  sojourn time over the last interval, upper bounds
drop/s    drops at the edge; mostly: their most frequent reason
mark/s    CE marks instead of drops; hold/s: drops P3 held off
filt/s    retransmissions dropped: the original is in transit
N, K      active flows; length of P3's drop holdoff, packets
P %       drop probability now; full: used share of the capacity
RTTup, W  estimate of the flows' round-trip time; lanes' window
core ms   queueing delay between the sites: rtt minus its min
headers   compressed to 1/x of their size
may, has  what lanes on a path may send; its estimated capacity

held, max received for hosts behind, not acknowledged by them
link      rate of the emulated link, * measured
ACK/s     acknowledgements that it delayed; drop/s: no room in it
";

/// What it is, since when, and how much of it works.
pub(in crate::commands) fn summary(view: &View) -> String {
    let count = |count: usize, one: &str, several: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {several}"),
    };
    let what = if view.device.is_some() {
        let (up, all) = view.lanes_up();
        format!("{}   {up} of {all} lanes up", count(view.peers.len(), "peer", "peers"))
    } else {
        count(view.proxies.as_ref().map_or(0, |all| all.proxies.len()), "proxy", "proxies")
    };
    format!("{}   up {}   {what}", view.site, age(view.uptime))
}

/// What the device does or, where there is none, how much proxies move.
pub(in crate::commands) fn activity(view: &View) -> String {
    match (&view.device, &view.proxies) {
        (Some(device), _) => device_line(device),
        (None, Some(proxies)) => moved(proxies),
        (None, None) => String::new(),
    }
}

fn moved(proxies: &ProxiesView) -> String {
    let [clients, servers] = [proxies.from_clients, proxies.from_servers].map(|rate| or_dash(rate, mbit));
    format!("{clients} Mbit/s from clients   {servers} Mbit/s from servers")
}

fn device_line(device: &DeviceView) -> String {
    let drops = or_dash(device.drops, number);
    let reason = device.main_reason.map_or(String::new(), |reason| format!(", mostly: {reason}"));
    let (read, pool) = (or_dash(device.read, mbit), number(device.pool_bytes as f64 / 1e6));
    format!(
        "device {}   {read} Mbit/s read   {drops} dropped/s{reason}   {pool} MB of packet memory",
        device.name
    )
}
