//! The traffic of a scenario with real sockets.

use std::net::SocketAddr;
use std::sync::Arc;

use trunkline_testbed::clock::Scheduling;
use trunkline_testbed::generator::{
    Generator, GeneratorError, SocketOptions, Source, SourceReading, TcpCounts,
};
use trunkline_testbed::namespace::Host;
use trunkline_workload::stream;

use super::build::{Plan, address};
use super::tcp::KernelTcp;
use crate::catalogue::measured::{Counts, Rtt, Sender, User};
use crate::measure::{SourceCounters, Transfer};
use crate::scenario::Scenario;

/// Buffers from this size on are the kernel's own to tune (`tcp_wmem`, `tcp_rmem`); a size that is set turns that off.
const TUNED: u64 = 3 << 20;

/// The generator of a scenario's traffic, whose clients' and servers' sockets are open.
pub(super) fn generator(
    scenario: &Scenario,
    plan: &Plan,
    hosts: &[Arc<Host>],
    seed: u64,
) -> Result<Generator, GeneratorError> {
    let sources = scenario.traffic.iter().zip(&plan.loads).map(|(traffic, load)| {
        let [client, server] = traffic.ends;
        Source {
            client: &hosts[client],
            server: &hosts[server],
            address: SocketAddr::new(address(server, traffic.family), traffic.port),
            dscp: traffic.dscp,
            start: traffic.start,
            stop: traffic.stop,
            rng: stream(seed, traffic.place),
            load: load.clone(),
        }
    });
    Generator::new(&sources.collect::<Vec<_>>(), Scheduling::RealTime)
}

/// A size of a buffer to set, unless the kernel is to choose.
pub(super) fn bounded(bytes: u64) -> Option<u32> {
    u32::try_from(bytes).ok().filter(|_| bytes < TUNED)
}

/// The socket options of both ends.
pub(super) fn sockets(tcp: &[KernelTcp; 2]) -> [SocketOptions; 2] {
    tcp.each_ref().map(|tcp| SocketOptions {
        mss: Some(tcp.mss),
        nagle: tcp.nagle,
        send_buffer: bounded(tcp.send_buffer),
        window_clamp: bounded(tcp.receive_window),
        ..SocketOptions::new(&tcp.congestion_control)
    })
}

pub(super) fn counters(reading: &SourceReading) -> SourceCounters {
    match reading {
        SourceReading::Transfers(transfers) => {
            SourceCounters::Transfers(transfers.iter().map(transfer).collect())
        }
        SourceReading::Datagrams(datagrams) => SourceCounters::Datagrams(Box::new(datagrams.counts.clone())),
    }
}

fn transfer(transfer: &trunkline_testbed::generator::Transfer) -> Transfer {
    let trunkline_testbed::generator::Transfer {
        user,
        started,
        connected,
        ended,
        bytes,
        state,
        sender,
        receiver,
    } = *transfer;
    Transfer {
        user,
        state,
        started,
        connected,
        ended,
        bytes,
        counts: counts(sender.unwrap_or_default(), receiver.unwrap_or_default()),
        rtt: sender.and_then(|sender| {
            let mean = sender.rtt.mean()?.as_secs_f64();
            let min = sender.rtt.min.map_or(mean, |min| min.as_secs_f64());
            Some(Rtt { mean, min: min.min(mean), max: sender.rtt.max.as_secs_f64() })
        }),
    }
}

fn counts(sender: TcpCounts, receiver: TcpCounts) -> Counts {
    let request = receiver.bytes_sent.zip(receiver.retransmitted_bytes);
    Counts {
        retransmitted: Some(sender.retransmitted_segments),
        retransmitted_bytes: sender.retransmitted_bytes,
        spurious: sender.duplicates_reported,
        timeouts: sender.timeouts,
        data_segments: Some(sender.data_segments_sent),
        sent: Some(sender.segments_sent),
        answered: Some(receiver.segments_sent),
        bytes: sender.bytes_sent,
        request_bytes: request.map(|(sent, again)| sent.saturating_sub(again)),
        // The kernel counts neither its samples nor gaps.
        rtt_samples: None,
        ack_gaps: None,
        ack_gap_sum: None,
        ack_gap_squares: None,
    }
}

/// A user of a source now.
pub(super) fn user(generator: &Generator, source: usize, user: u32) -> User {
    let users = generator.users(source);
    let Some(own) = users.get(user as usize) else { return User::default() };
    User {
        received: own.received,
        retransmissions: own.retransmissions,
        sender: own.sender.map(|sender| Sender {
            cwnd: sender.cwnd * sender.mss,
            ssthresh: sender.ssthresh.map(|segments| segments.saturating_mul(sender.mss)),
            in_flight: sender.in_flight * sender.mss,
            srtt: sender.srtt,
        }),
    }
}

/// Bytes of data that the receivers of a source have got.
pub(super) fn received(generator: &Generator, source: usize) -> u64 {
    generator.users(source).iter().map(|user| user.received).sum()
}
