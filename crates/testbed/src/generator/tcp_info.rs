//! What the kernel counts of a connection (`TCP_INFO`, linux/tcp.h).

use std::os::fd::AsFd;
use std::time::Duration;

use trunkline_linux::TcpInfo;
use trunkline_units::Instant;

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

/// The counters of one reading.
fn counts(info: &TcpInfo, rtt: RttSamples) -> TcpCounts {
    let count = |count: Option<u32>| count.map(u64::from);
    let has_sack = info.options().is_some_and(|options| options & SACK != 0);
    TcpCounts {
        segments_sent: count(info.segs_out()).unwrap_or_default(),
        segments_received: count(info.segs_in()).unwrap_or_default(),
        data_segments_received: count(info.data_segs_in()).unwrap_or_default(),
        data_segments_sent: count(info.data_segs_out()).unwrap_or_default(),
        bytes_sent: info.bytes_sent(),
        retransmitted_segments: count(info.total_retrans()).unwrap_or_default(),
        retransmitted_bytes: info.bytes_retrans(),
        timeouts: info.total_rto().map(u64::from),
        duplicates_reported: count(info.dsack_dups()).filter(|_| has_sack),
        out_of_order_received: count(info.rcv_ooopack()),
        rtt,
    }
}

/// The state of the sender at one reading.
pub(super) fn sender(info: &TcpInfo) -> SenderState {
    let in_network = info.unacked().unwrap_or_default() + info.retrans().unwrap_or_default();
    let left = info.sacked().unwrap_or_default() + info.lost().unwrap_or_default();
    SenderState {
        cwnd: info.snd_cwnd().unwrap_or_default(),
        ssthresh: info.snd_ssthresh().filter(|ssthresh| *ssthresh < NO_SSTHRESH),
        in_flight: in_network.saturating_sub(left),
        srtt: info.srtt(),
        mss: info.snd_mss().unwrap_or_default(),
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
            && let Ok(info) = TcpInfo::of(socket.as_fd())
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
        self.samples.min = info.min_rtt().or(self.samples.min);
    }

    /// All counters as they are, with one more reading of the round trip.
    pub(super) fn counts(&self, socket: impl AsFd) -> Option<TcpCounts> {
        let info = TcpInfo::of(socket.as_fd()).ok()?;
        let mut last = *self;
        last.add(&info);
        Some(counts(&info, last.samples))
    }
}
