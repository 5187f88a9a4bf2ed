//! What TCP did: of one source between two readings, and of sources together.
//!
//! A connection's ends count for as long as it is open. Transfers that follow each other on one connection
//! ([`Pattern::RequestResponse`](trunkline_sim::Pattern)) each have what was counted since the one before.

use trunkline_sim::{Transfer, TransferState};
use trunkline_units::Instant;

/// What both ends of a connection counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) retransmitted: u64,
    pub(super) retransmitted_octets: u64,
    in_vain: u64,
    pub(super) timeouts: u64,
    pub(super) data_segments: u64,
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) octets: u64,
    /// New data of the side that receives the transfer.
    asked_octets: u64,
    pub(super) rtt_samples: u64,
}

impl Counts {
    fn of(transfer: &Transfer) -> Self {
        let Transfer { sender, receiver, .. } = transfer;
        Counts {
            retransmitted: sender.retransmitted_segments,
            retransmitted_octets: sender.retransmitted_bytes,
            in_vain: transfer.in_vain,
            timeouts: sender.timeouts,
            data_segments: sender.data_segments_sent,
            sent: sender.segments_sent,
            answered: receiver.segments_sent,
            octets: sender.bytes_sent,
            asked_octets: receiver.bytes_sent - receiver.retransmitted_bytes,
            rtt_samples: sender.rtt.samples,
        }
    }

    fn map(self, other: Counts, with: impl Fn(u64, u64) -> u64) -> Self {
        Counts {
            retransmitted: with(self.retransmitted, other.retransmitted),
            retransmitted_octets: with(self.retransmitted_octets, other.retransmitted_octets),
            in_vain: with(self.in_vain, other.in_vain),
            timeouts: with(self.timeouts, other.timeouts),
            data_segments: with(self.data_segments, other.data_segments),
            sent: with(self.sent, other.sent),
            answered: with(self.answered, other.answered),
            octets: with(self.octets, other.octets),
            asked_octets: with(self.asked_octets, other.asked_octets),
            rtt_samples: with(self.rtt_samples, other.rtt_samples),
        }
    }

    fn since(self, earlier: Counts) -> Self {
        self.map(earlier, u64::saturating_sub)
    }

    /// Repeats of what had come; see [`Transfer::in_vain`]. What is sent before a reading and comes after it belongs to neither side of
    /// it, so that there may be one more of these than of repeats.
    pub(super) fn spurious(&self) -> u64 {
        self.in_vain.min(self.retransmitted)
    }

    pub(super) fn needed(&self) -> u64 {
        self.retransmitted - self.spurious()
    }
}

/// A transfer with what was counted during it.
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
        let counts = Counts::of(transfer);
        let before = last[transfer.user as usize].replace(number);
        // On a connection that is being opened, it takes a while until it is.
        let before = before.filter(|_| transfer.connected == Some(transfer.started));
        let counts = match before {
            Some(before) => {
                all[before].continued = true;
                counts.since(Counts::of(&transfers[before]))
            }
            None => counts,
        };
        all.push(Own { counts, continued: false });
    }
    all
}

/// What sources of TCP did.
#[derive(Debug, Default, Clone)]
pub(super) struct Tcp {
    /// Octets that each user's receiver got in the time counted.
    pub(super) users: Vec<f64>,
    /// In the time counted.
    pub(super) counts: Counts,
    /// Of transfers, whole.
    pub(super) total: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// Of completed ones, s.
    pub(super) delays: Vec<f64>,
    /// Of each, bit/s.
    pub(super) throughputs: Vec<f64>,
    /// The same from the client, and from the server.
    pub(super) forward: [Vec<f64>; 2],
    /// Packets from the clients, and from the servers.
    pub(super) packets: [u64; 2],
    /// Of all transfers, whole.
    pub(super) whole: Counts,
    /// Of each connection that measured any: mean, least, most; s.
    pub(super) rtt: Vec<[f64; 3]>,
}

impl Tcp {
    /// Of a source with so many users, whose clients send the data of a transfer or ask for it (`upload`).
    pub(super) fn of(
        (from, from_at): (&[Transfer], Instant),
        (to, now): (&[Transfer], Instant),
        (users, upload): (usize, bool),
    ) -> Self {
        let mut tcp = Tcp { users: vec![0.0; users], ..Tcp::default() };
        let before = own(from, users);
        for (number, (transfer, own)) in to.iter().zip(own(to, users)).enumerate() {
            let earlier = from.get(number);
            let bytes = transfer.bytes - earlier.map_or(0, |earlier| earlier.bytes);
            tcp.users[transfer.user as usize] += bytes as f64;
            let counted = own.counts.since(before.get(number).map_or_else(Counts::default, |own| own.counts));
            tcp.counts = tcp.counts.map(counted, |a, b| a + b);
            if transfer.ended.is_some_and(|ended| ended < from_at) {
                continue;
            }
            tcp.take_whole(transfer, &own, (now, upload));
        }
        tcp
    }

    fn take_whole(&mut self, transfer: &Transfer, own: &Own, (now, upload): (Instant, bool)) {
        self.total += 1;
        match transfer.state {
            TransferState::Running => {}
            TransferState::Completed => {
                self.completed += 1;
                self.delays.push(transfer.duration(now).as_secs_f64());
            }
            TransferState::Failed => self.failed += 1,
        }
        self.whole = self.whole.map(own.counts, |a, b| a + b);
        let Counts { sent, answered, asked_octets, .. } = own.counts;
        let throughput = transfer.throughput(now);
        self.throughputs.push(throughput);
        let time = transfer.duration(now).as_secs_f64();
        let asked = if time > 0.0 { asked_octets as f64 * 8.0 / time } else { 0.0 };
        let (rates, packets) = if upload {
            ([throughput, asked], [sent, answered])
        } else {
            ([asked, throughput], [answered, sent])
        };
        for side in 0..2 {
            self.forward[side].push(rates[side]);
            self.packets[side] += packets[side];
        }
        if let (Some(mean), false) = (transfer.mean_rtt(), own.continued) {
            let rtt = &transfer.sender.rtt;
            self.rtt.push([mean.as_secs_f64(), rtt.min_ns as f64 / 1e9, rtt.max_ns as f64 / 1e9]);
        }
    }

    pub(super) fn add(&mut self, other: &Tcp) {
        self.users.extend(&other.users);
        self.counts = self.counts.map(other.counts, |a, b| a + b);
        self.whole = self.whole.map(other.whole, |a, b| a + b);
        for (sum, more) in [
            (&mut self.total, other.total),
            (&mut self.completed, other.completed),
            (&mut self.failed, other.failed),
        ] {
            *sum += more;
        }
        for side in 0..2 {
            self.packets[side] += other.packets[side];
            self.forward[side].extend(&other.forward[side]);
        }
        self.delays.extend(&other.delays);
        self.throughputs.extend(&other.throughputs);
        self.rtt.extend(&other.rtt);
    }
}
