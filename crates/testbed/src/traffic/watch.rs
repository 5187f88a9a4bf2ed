//! Samples of a TCP connection's state, from its kernel.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use trunkline_linux::{TcpInfo, send_queue, send_queue_unsent};
use trunkline_units::{Instant, Rate};

use super::service::Stop;
use crate::clock;

/// `TCP_INFO` and the send queue, as far as they serve here. Counts are since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSample {
    /// When.
    pub at: Instant,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Smallest round-trip time lately; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Bytes of a full segment.
    pub mss: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Rate at which bytes were lately delivered.
    pub delivery_rate: Option<Rate>,
    /// Bytes taken and never sent.
    pub unsent: u64,
    /// Bytes sent and not acknowledged.
    pub unacknowledged: u64,
    /// Bytes acknowledged.
    pub acknowledged: u64,
    /// Segments sent again.
    pub retransmissions: u32,
    /// Retransmission timers that ran out (kernels from 6.7 on; zero before).
    pub timeouts: u16,
    /// Segments that the receiver said it got twice.
    pub duplicates: u32,
    /// Time in which the receiver's window held the connection back.
    pub window_limited: Duration,
    /// Time in which the send buffer did.
    pub buffer_limited: Duration,
}

impl TcpSample {
    fn new(at: Instant, info: &TcpInfo, (queued, unsent): (usize, usize)) -> Self {
        let time = |micros: Option<u64>| Duration::from_micros(micros.unwrap_or_default());
        let rate = info.delivery_rate().filter(|rate| *rate > 0);
        Self {
            at,
            srtt: info.srtt(),
            min_rtt: info.min_rtt(),
            mss: info.snd_mss().unwrap_or_default(),
            cwnd: info.snd_cwnd().unwrap_or_default(),
            ssthresh: info.snd_ssthresh().unwrap_or_default(),
            delivery_rate: rate.map(|rate| Rate::from_bits_per_second(rate.saturating_mul(8))),
            unsent: unsent as u64,
            unacknowledged: queued.saturating_sub(unsent) as u64,
            acknowledged: info.bytes_acked().unwrap_or_default(),
            retransmissions: info.total_retrans().unwrap_or_default(),
            timeouts: info.total_rto().unwrap_or_default(),
            duplicates: info.dsack_dups().unwrap_or_default(),
            window_limited: time(info.rwnd_limited()),
            buffer_limited: time(info.sndbuf_limited()),
        }
    }
}

pub(super) fn sample(stream: &TcpStream) -> io::Result<TcpSample> {
    let fd = stream.as_fd();
    let queue = (send_queue(fd)?, send_queue_unsent(fd)?);
    Ok(TcpSample::new(clock::now(), &TcpInfo::of(fd)?, queue))
}

/// Segments that a connection sent more than once.
pub(super) fn retransmissions(stream: &TcpStream) -> io::Result<u32> {
    sample(stream).map(|sample| sample.retransmissions)
}

/// Bytes that a connection's peer has acknowledged, its SYN among them.
pub(super) fn acknowledged(stream: &TcpStream) -> io::Result<u64> {
    sample(stream).map(|sample| sample.acknowledged)
}

/// Writes down what the connection is like at once, `every` so often, and at `end`.
pub(super) fn watch(stream: &TcpStream, every: Duration, end: Instant, stop: &Stop) -> Vec<TcpSample> {
    let mut samples = Vec::new();
    let mut next = clock::now();
    loop {
        let going = next < end && stop.sleep_until(next);
        samples.extend(sample(stream));
        if !going {
            return samples;
        }
        next += every.max(Duration::from_millis(1));
        if next >= end {
            stop.sleep_until(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_connection_is_described_by_what_it_did() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let mut stream = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (_peer, _) = listener.accept().expect("accept");
        stream.write_all(&[0; 1000]).expect("write");
        let begin = std::time::Instant::now();
        let sample = loop {
            let sample = sample(&stream).expect("TCP_INFO");
            if sample.acknowledged >= 1000 || begin.elapsed() > Duration::from_secs(60) {
                break sample;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        // The SYN counts as an byte in bytes_acked.
        assert!((1000..=1001).contains(&sample.acknowledged), "{sample:?}");
        assert_eq!((sample.unsent, sample.unacknowledged, sample.retransmissions), (0, 0, 0));
        assert!(sample.srtt.is_some() && sample.min_rtt <= sample.srtt, "{sample:?}");
        assert!((2..1000).contains(&sample.cwnd) && sample.mss >= 536, "{sample:?}");
    }
}
