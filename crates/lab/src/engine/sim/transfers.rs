//! What TCP did: of one source between two readings.
//!
//! A connection's ends count for as long as it is open. Transfers that follow each other on one connection
//! ([`Pattern::RequestResponse`](trunkline_sim::Pattern)) each have what was counted since the one before.

use trunkline_sim::{Transfer, TransferState};
use trunkline_units::Instant;

use crate::catalogue::measured::{Counts, Rtt, Tcp};

fn counts(transfer: &Transfer) -> Counts {
    let Transfer { sender, receiver, .. } = transfer;
    Counts {
        retransmitted: sender.retransmitted_segments,
        retransmitted_bytes: sender.retransmitted_bytes,
        spurious: transfer.duplicates_delivered,
        timeouts: sender.timeouts,
        data_segments: sender.data_segments_sent,
        sent: sender.segments_sent,
        answered: receiver.segments_sent,
        bytes: sender.bytes_sent,
        request_bytes: receiver.bytes_sent - receiver.retransmitted_bytes,
        rtt_samples: sender.rtt.samples,
    }
}

fn since(counts: Counts, earlier: Counts) -> Counts {
    counts.map(earlier, u64::saturating_sub)
}

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
        let counts = counts(transfer);
        let before = last[transfer.user as usize].replace(number);
        // On a connection that is being opened, it takes a while until it is.
        let before = before.filter(|_| transfer.connected == Some(transfer.started));
        let counts = match before {
            Some(before) => {
                all[before].continued = true;
                since(counts, self::counts(&transfers[before]))
            }
            None => counts,
        };
        all.push(Own { counts, continued: false });
    }
    all
}

/// Of a source with so many users, whose clients send the data of a transfer (`upload`) or ask for it.
pub(super) fn tcp(
    (from, from_at): (&[Transfer], Instant),
    (to, now): (&[Transfer], Instant),
    (users, upload): (usize, bool),
) -> Tcp {
    let mut tcp = Tcp { users: vec![0.0; users], ..Tcp::default() };
    let before = own(from, users);
    for (number, (transfer, own)) in to.iter().zip(own(to, users)).enumerate() {
        let earlier = from.get(number);
        let bytes = transfer.bytes - earlier.map_or(0, |earlier| earlier.bytes);
        tcp.users[transfer.user as usize] += bytes as f64;
        let counted = since(own.counts, before.get(number).map_or_else(Counts::default, |own| own.counts));
        tcp.counts = tcp.counts.map(counted, |a, b| a + b);
        if transfer.ended.is_none_or(|ended| ended >= from_at) {
            add_whole(&mut tcp, transfer, &own, (now, upload));
        }
    }
    tcp
}

fn add_whole(tcp: &mut Tcp, transfer: &Transfer, own: &Own, (now, upload): (Instant, bool)) {
    let time = transfer.duration(now).as_secs_f64();
    tcp.total += 1;
    match transfer.state {
        TransferState::Running => {}
        TransferState::Completed => {
            tcp.completed += 1;
            tcp.delays.push(time);
        }
        TransferState::Failed => tcp.failed += 1,
    }
    tcp.whole = tcp.whole.map(own.counts, |a, b| a + b);
    let Counts { sent, answered, request_bytes, .. } = own.counts;
    let throughput = transfer.throughput(now);
    tcp.throughputs.push(throughput);
    let request = if time > 0.0 { request_bytes as f64 * 8.0 / time } else { 0.0 };
    let mut sides = [(throughput, sent), (request, answered)];
    if !upload {
        sides.reverse();
    }
    for (side, (rate, packets)) in sides.into_iter().enumerate() {
        tcp.forward[side].push(rate);
        tcp.packets[side] += packets;
    }
    if let (Some(mean), false) = (transfer.mean_rtt(), own.continued) {
        let rtt = &transfer.sender.rtt;
        tcp.rtt.push(Rtt {
            mean: mean.as_secs_f64(),
            min: rtt.min_ns as f64 / 1e9,
            max: rtt.max_ns as f64 / 1e9,
        });
    }
}
