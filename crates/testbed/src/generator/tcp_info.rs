//! What the kernel counts of a connection (`TCP_INFO`, linux/tcp.h).

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use trunkline_units::Instant;

use crate::sys;

/// A round trip is sampled at most this often.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const SACK: u8 = 2;
/// What the kernel has for a threshold that was never set.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// Counters of one end of a connection since it was opened. `None`: this kernel does not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments sent.
    pub segments_sent: u64,
    /// Segments received.
    pub segments_received: u64,
    /// Segments sent with data, with retransmissions.
    pub data_segments_sent: u64,
    /// Segments received with data, with retransmissions.
    pub data_segments_received: u64,
    /// Bytes of data sent, with retransmissions.
    pub bytes_sent: Option<u64>,
    /// Segments retransmitted: data, SYN or FIN.
    pub retransmitted_segments: u64,
    /// Bytes of data retransmitted.
    pub retransmitted_bytes: Option<u64>,
    /// Retransmission timeouts, those of a SYN included.
    pub timeouts: Option<u64>,
    /// Segments that the receiver said it had already (DSACK, RFC 2883); copies that a link made are among them, and
    /// acknowledgements that were lost are not. `None` also without SACK.
    pub duplicates_reported: Option<u64>,
    /// Data segments received beyond a gap.
    pub out_of_order_received: Option<u64>,
    /// Round trips.
    pub rtt: RttSamples,
}

/// The smoothed round trip of a connection, read now and then. The kernel does not count its own samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RttSamples {
    /// Readings of the smoothed round trip.
    pub readings: u64,
    /// Their sum.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
    /// The shortest round trip of the kernel's own samples lately; `None` before the first.
    pub min: Option<Duration>,
}

impl RttSamples {
    /// Mean of the readings; `None` without any.
    pub fn mean(&self) -> Option<Duration> {
        (self.readings > 0).then(|| self.sum.div_f64(self.readings as f64))
    }
}

/// The state of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderState {
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None` before the first loss.
    pub ssthresh: Option<u32>,
    /// Segments in flight (RFC 6675).
    pub in_flight: u32,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Bytes of a full segment.
    pub mss: u32,
}

/// One reading of `TCP_INFO`.
pub(super) struct TcpInfo {
    bytes: [u8; sys::TCP_INFO_BYTES],
    /// How many of them the kernel wrote.
    length: usize,
}

impl TcpInfo {
    pub(super) fn of(socket: impl AsFd) -> io::Result<Self> {
        sys::tcp_info_of(socket.as_fd()).map(|(bytes, length)| TcpInfo { bytes, length })
    }

    fn field<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes[..self.length].get(at..at + N)?.try_into().ok()
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.field(at).map(u32::from_ne_bytes)
    }

    fn count(&self, at: usize) -> Option<u64> {
        self.word(at).map(u64::from)
    }

    fn long(&self, at: usize) -> Option<u64> {
        self.field(at).map(u64::from_ne_bytes)
    }

    fn srtt(&self) -> Option<Duration> {
        self.word(68).filter(|micros| *micros > 0).map(|micros| Duration::from_micros(micros.into()))
    }

    pub(super) fn counts(&self, rtt: RttSamples) -> TcpCounts {
        let sack = self.bytes[5] & SACK != 0;
        TcpCounts {
            segments_sent: self.count(136).unwrap_or_default(),
            segments_received: self.count(140).unwrap_or_default(),
            data_segments_received: self.count(152).unwrap_or_default(),
            data_segments_sent: self.count(156).unwrap_or_default(),
            bytes_sent: self.long(200),
            retransmitted_segments: self.count(100).unwrap_or_default(),
            retransmitted_bytes: self.long(208),
            timeouts: self.field(240).map(|bytes| u16::from_ne_bytes(bytes).into()),
            duplicates_reported: self.count(216).filter(|_| sack),
            out_of_order_received: self.count(224),
            rtt,
        }
    }

    pub(super) fn sender(&self) -> SenderState {
        let word = |at| self.word(at).unwrap_or_default();
        let (packets_out, sacked, lost, retransmitted) = (word(24), word(28), word(32), word(36));
        SenderState {
            cwnd: word(80),
            ssthresh: self.word(76).filter(|ssthresh| *ssthresh < NO_SSTHRESH),
            in_flight: (packets_out + retransmitted).saturating_sub(sacked + lost),
            srtt: self.srtt(),
            mss: word(16),
        }
    }
}

/// Reads the round trip of a connection now and then.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RttSampler {
    samples: RttSamples,
    next: Instant,
}

impl RttSampler {
    /// A chance to read it.
    pub(super) fn sample(&mut self, socket: impl AsFd, now: Instant) {
        if now >= self.next
            && let Ok(info) = TcpInfo::of(socket)
        {
            self.next = now + SAMPLE_INTERVAL;
            self.add(&info);
        }
    }

    fn add(&mut self, info: &TcpInfo) {
        if let Some(srtt) = info.srtt() {
            self.samples.readings += 1;
            self.samples.sum += srtt;
            self.samples.max = self.samples.max.max(srtt);
        }
        let min = info.word(148).filter(|micros| *micros > 0 && *micros < u32::MAX);
        self.samples.min = min.map(|micros| Duration::from_micros(micros.into())).or(self.samples.min);
    }

    /// All counters as they are, with one more reading of the round trip.
    pub(super) fn counts(&self, socket: impl AsFd) -> Option<TcpCounts> {
        let info = TcpInfo::of(socket).ok()?;
        let mut last = *self;
        last.add(&info);
        Some(info.counts(last.samples))
    }
}
