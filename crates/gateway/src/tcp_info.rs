//! What the gateway uses of what the kernel says of a connection.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The used fields of `TCP_INFO`; a connection over QUIC has the same. Fields that an older kernel does not fill are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Smoothed round-trip time, µs.
    pub(crate) rtt_us: u32,
    /// Smallest round-trip time, µs; `u32::MAX` before the first sample.
    pub(crate) min_rtt_us: u32,
    /// Congestion window, segments.
    pub(crate) cwnd: u32,
    /// Slow-start threshold, segments.
    pub(crate) ssthresh: u32,
    /// Sender's segment size, bytes.
    pub(crate) snd_mss: u32,
    /// Retransmitted segments since the connection began, modulo 2^32.
    pub(crate) retransmits: u32,
    /// Segments sent, retransmissions and those without data included, modulo 2^32.
    pub(crate) segments_out: u32,
    /// Segments with data sent, retransmissions included, modulo 2^32; `segments_out` before Linux 4.6.
    pub(crate) data_segments_out: u32,
    /// Delivery rate, bytes per second.
    pub(crate) delivery_rate: u64,
    /// Whether the sender, not the path, limited the delivery rate (application-limited).
    pub(crate) app_limited: bool,
    /// Pacing rate, bytes per second; `u64::MAX` if it is unlimited.
    pub(crate) pacing_rate: u64,
    /// Bytes in the send queue and not yet sent.
    pub(crate) notsent: u32,
    /// Segments sent and not yet acknowledged.
    pub(crate) unacked: u32,
    /// Of those, how many the other end has behind a gap.
    pub(crate) sacked: u32,
    /// The time since data was sent last, ms.
    pub(crate) last_sent_ms: u32,
    /// Segments that the other end has, as its acknowledgements say, those behind a gap included, modulo 2^32; of kernels before
    /// Linux 4.18 bytes before the first gap.
    pub(crate) delivered: u32,
}

/// Round-trip times are measured of data. Those of a connection that has sent none for so long say nothing of its path any more.
const STALE_MS: u32 = 10_000;

impl TcpInfo {
    /// Reads `TCP_INFO`.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let info = trunkline_linux::TcpInfo::of(fd)?;
        let segments_out = info.segs_out().unwrap_or_default();
        let bytes_acked = info.bytes_acked().unwrap_or_default();
        Ok(TcpInfo {
            rtt_us: info.rtt().unwrap_or_default(),
            min_rtt_us: info.min_rtt_micros().unwrap_or_default(),
            cwnd: info.snd_cwnd().unwrap_or_default(),
            ssthresh: info.snd_ssthresh().unwrap_or_default(),
            snd_mss: info.snd_mss().unwrap_or_default(),
            retransmits: info.total_retrans().unwrap_or_default(),
            segments_out,
            data_segments_out: info.data_segs_out().unwrap_or(segments_out),
            delivery_rate: info.delivery_rate().unwrap_or_default(),
            app_limited: info.is_app_limited(),
            pacing_rate: info.pacing_rate().unwrap_or_default(),
            notsent: info.notsent_bytes().unwrap_or_default(),
            unacked: info.unacked().unwrap_or_default(),
            sacked: info.sacked().unwrap_or_default(),
            last_sent_ms: info.last_data_sent().unwrap_or_default(),
            delivered: info.delivered().unwrap_or(bytes_acked as u32),
        })
    }

    /// The smallest round-trip time; `None` before the first sample.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        (self.min_rtt_us != 0 && self.min_rtt_us != u32::MAX)
            .then(|| Duration::from_micros(self.min_rtt_us.into()))
    }

    /// The smoothed round-trip time, µs, if data was sent lately.
    pub(crate) fn fresh_rtt_us(&self) -> Option<u32> {
        (self.rtt_us != 0 && self.last_sent_ms < STALE_MS).then_some(self.rtt_us)
    }

    /// The smoothed round-trip time; `None` before the first sample.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.rtt_us != 0).then(|| Duration::from_micros(self.rtt_us.into()))
    }
}
