//! What TCP did: of one source between two readings.
//!
//! A connection's ends count for as long as it is open. Transfers that follow each other on one connection
//! ([`Pattern::keeps_connections`](trunkline_workload::Pattern)) each have what was counted since the one before.

use trunkline_units::Instant;
use trunkline_workload::TransferState;

use super::Transfer;
use super::idle::IdlePath;
use crate::catalogue::measured::{Counts, Slowdown, Tcp, sum};

/// What was counted during a transfer.
#[derive(Debug, Clone, Copy)]
struct Own {
    counts: Counts,
    /// Another transfer follows on its connection.
    continued: bool,
}

fn own(transfers: &[Transfer], users: usize) -> Vec<Own> {
    let mut last: Vec<Option<usize>> = vec![None; users];
    let mut all: Vec<Own> = Vec::with_capacity(transfers.len());
    for (number, transfer) in transfers.iter().enumerate() {
        let before = last[transfer.user as usize].replace(number);
        // On a connection that is being opened, it takes a while until it is.
        let before = before.filter(|_| transfer.connected == Some(transfer.started));
        let counts = match before {
            Some(before) => {
                all[before].continued = true;
                transfer.counts.since(transfers[before].counts)
            }
            None => transfer.counts,
        };
        all.push(Own { counts, continued: false });
    }
    all
}

/// What is known of a source without a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) users: usize,
    /// Its clients send the data of a transfer; else they ask for it.
    pub(super) upload: bool,
    pub(super) idle: Option<IdlePath>,
}

/// Of a source.
pub(super) fn tcp(
    (from, from_at): (&[Transfer], Instant),
    (to, now): (&[Transfer], Instant),
    source: Source,
) -> Tcp {
    let users = source.users;
    let mut tcp = Tcp { users: vec![0.0; users], ..Tcp::default() };
    let before = own(from, users);
    for (number, (transfer, own)) in to.iter().zip(own(to, users)).enumerate() {
        let earlier = from.get(number);
        let bytes = transfer.bytes - earlier.map_or(0, |earlier| earlier.bytes);
        tcp.users[transfer.user as usize] += bytes as f64;
        let earlier = before.get(number).map_or_else(Counts::default, |own| own.counts);
        tcp.counts.add(own.counts.since(earlier));
        if transfer.ended.is_none_or(|ended| ended >= from_at) {
            add_whole(&mut tcp, transfer, &own, (now, source));
        }
    }
    tcp
}

fn add_whole(tcp: &mut Tcp, transfer: &Transfer, own: &Own, (now, source): (Instant, Source)) {
    let time = transfer.seconds(now);
    tcp.total += 1;
    match transfer.state {
        TransferState::Running => {}
        TransferState::Completed => {
            tcp.completed += 1;
            tcp.delays.push(time);
            let idle = source.idle.map_or(0.0, |path| path.seconds(transfer.bytes));
            let slowdown = (idle > 0.0).then(|| Slowdown { bytes: transfer.bytes, factor: time / idle });
            tcp.slowdowns.extend(slowdown);
        }
        TransferState::Failed => tcp.failed += 1,
    }
    tcp.whole.add(own.counts);
    let Counts { sent, answered, request_bytes, .. } = own.counts;
    let rate = |bytes: f64| if time > 0.0 { bytes * 8.0 / time } else { 0.0 };
    let throughput = rate(transfer.bytes as f64);
    tcp.throughputs.push(throughput);
    let request = request_bytes.map(|bytes| rate(bytes as f64));
    let mut sides = [(Some(throughput), sent), (request, answered)];
    if !source.upload {
        sides.reverse();
    }
    for (side, (rate, packets)) in sides.into_iter().enumerate() {
        tcp.forward[side].extend(rate);
        tcp.packets[side] = sum(tcp.packets[side], packets);
    }
    tcp.rtt.extend(transfer.rtt.filter(|_| !own.continued));
}
