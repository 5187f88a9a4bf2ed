//! The state of an endpoint, as its owner reads it.

use std::sync::Arc;
use std::time::Duration;

use trunkline_units::Rate;

use crate::Settings;
use crate::endpoint::Endpoint;
use crate::send_half::SendHalf;
use crate::sender::Sender;
use crate::state::State;
use crate::stats::Stats;

impl Endpoint {
    /// State.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// Settings.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Bytes that `read` would return.
    #[inline]
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Bytes written and never sent.
    #[inline]
    pub fn unsent(&self) -> u64 {
        self.sending.end().saturating_sub(self.sending.next())
    }

    /// Bytes of data sent and not acknowledged.
    #[inline]
    pub fn unacknowledged(&self) -> u64 {
        let sending = &self.sending;
        sending.next().min(sending.end()).saturating_sub(sending.una())
    }

    /// Bytes of those that the other end has, behind a gap (`tcpi_sacked`).
    #[inline]
    pub fn sacked(&self) -> u32 {
        self.sending.sender().map_or(0, |sender| sender.board.sacked())
    }

    /// Bytes that the other end has acknowledged, those behind gaps too (`tcpi_delivered`, in bytes).
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.sending.sender().map_or(0, |sender| sender.delivery.delivered)
    }

    /// Bytes that `write` would take.
    #[inline]
    pub fn send_room(&self) -> u64 {
        let held = self.sending.end().saturating_sub(self.sending.una());
        self.settings.send_buffer.saturating_sub(held)
    }

    /// Congestion window, bytes.
    #[inline]
    pub fn cwnd(&self) -> u32 {
        let initial = || self.settings.initial_window.saturating_mul(self.mss());
        self.sending.sender().map_or_else(initial, |sender| sender.congestion.cwnd())
    }

    /// Slow-start threshold, bytes; `u32::MAX` before the first loss.
    #[inline]
    pub fn ssthresh(&self) -> u32 {
        self.sending.sender().map_or(u32::MAX, |sender| sender.congestion.ssthresh())
    }

    /// Bytes of data in a full segment to the peer, as agreed.
    #[inline]
    pub fn mss(&self) -> u32 {
        self.sending.mss()
    }

    /// Bytes in flight by the sender's estimate (`pipe`): without bytes that are lost or delivered by SACK.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.sending.sender().map_or(0, Sender::pipe)
    }

    /// The peer's window beyond the acknowledged data, bytes.
    #[inline]
    pub fn peer_window(&self) -> u64 {
        self.sending.edge().saturating_sub(self.sending.una())
    }

    /// Smoothed round-trip time.
    #[inline]
    pub fn srtt(&self) -> Option<Duration> {
        match &self.sending {
            SendHalf::Idle(idle) => (idle.syn_rtt > 0).then_some(Duration::from_nanos(idle.syn_rtt)),
            SendHalf::Active(sender) => sender.rtt.srtt(),
        }
    }

    /// Smallest round-trip time of the last minutes.
    #[inline]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.sending.sender().map_or_else(|| self.srtt(), |sender| sender.rtt.min())
    }

    /// Retransmission timeout, with its back-off.
    #[inline]
    pub fn rto(&self) -> Duration {
        self.sending.rto(&self.settings)
    }

    /// Delivery rate as `tcp_info` has it, and whether the sender's lack of data bounded it.
    #[inline]
    pub fn delivery_rate(&self) -> Option<(Rate, bool)> {
        self.sending.sender().and_then(|sender| sender.delivery.rate())
    }

    /// The maximum pacing rate (`SO_MAX_PACING_RATE`).
    pub fn max_pacing_rate(&self) -> Option<Rate> {
        match &self.sending {
            SendHalf::Idle(idle) => idle.max_pacing_rate.rate(),
            SendHalf::Active(sender) => sender.max_pacing_rate.rate(),
        }
    }

    /// Bytes of data acknowledged since the start.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        self.sending.una().min(self.sending.end()) - 1
    }

    /// Bytes of data received in order since the start.
    #[inline]
    pub fn received(&self) -> u64 {
        self.receiver.in_order()
    }

    /// Segments agreed to carry timestamps.
    pub fn uses_timestamps(&self) -> bool {
        self.timestamps
    }

    /// SACK agreed.
    pub fn uses_sack(&self) -> bool {
        self.sack
    }

    /// [`Stats::duplicates_received`].
    #[inline]
    pub fn duplicates_received(&self) -> u64 {
        self.counters.duplicates.into()
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        let ack_gaps = self.sending.sender().map(|sender| sender.ack_clock.gaps()).unwrap_or_default();
        self.counters.stats(ack_gaps)
    }
}
