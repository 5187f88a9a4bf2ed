//! Segmentation offload (TSO): new data leaves in super-packets of several segments, as from Linux.
//!
//! A host's TCP hands its network card up to 64 KB at a time, and the card cuts them: segments come onto the first link back to
//! back. How many there are follows from the pacing rate: what leaves in a 1024th of a second, more where the round trip is
//! short, and two at least (`tcp_tso_autosize`). No more leave at once than half of the window (`tcp_cwnd_test`). A sender whose
//! window has less room than such a super-packet, and less than a third of itself, waits for the next acknowledgement if one
//! is due soon (`tcp_tso_should_defer`). The time until the next super-packet is that of all of its segments.
//!
//! Deviation: retransmissions leave as single segments, and so does what is shorter than a segment at the end of a write.

use std::time::Duration;

use crate::recovery::Phase;
use crate::sender::{Context, Outgoing, Sender};
use crate::timers::nanos;

/// 64 KB less the headers that a kernel makes room for (`sk_gso_max_size`), bytes of data.
const MAX_BYTES: u64 = 65_215;

/// A sender that has not sent for longer waits for nothing more.
const RECENT: Duration = Duration::from_millis(1);

/// Below this rate BBR sends one segment at a time (`bbr_min_tso_segs`).
const BBR_SINGLE_BITS: u64 = 1_200_000;

impl Sender {
    /// The next segment of new data: one of the super-packet that is leaving, or the first of the next.
    pub(crate) fn poll_super_packet(&mut self, cx: &mut Context<'_>) -> Option<Outgoing> {
        if self.burst == 0 {
            if self.board.is_empty() {
                self.restart(cx);
            }
            let (unsent, room) = (self.unsent(), self.edge.saturating_sub(self.next));
            let whole = unsent.min(room) / u64::from(self.mss);
            if whole < 2 {
                return self.poll_new(cx, self.congestion.cwnd());
            }
            self.burst = self.super_packet(cx, whole, room)?;
        }
        self.burst -= 1;
        let segment = self.poll_new(cx, u32::MAX);
        if segment.is_none() {
            self.burst = 0;
        }
        segment
    }

    /// The segments of the next super-packet, of `whole` that there are and `room` bytes in the peer's window.
    fn super_packet(&mut self, cx: &mut Context<'_>, whole: u64, room: u64) -> Option<u8> {
        let (cwnd, mss) = (self.congestion.cwnd(), self.mss());
        let free = cwnd.saturating_sub(self.pipe());
        let usable = (free / mss).min((cwnd / mss / 2).max(1));
        let largest = self.largest_super_packet();
        if usable == 0 || self.waits_for_more(cx, (free, room), largest) {
            if u64::from(free) < room {
                self.validate_cwnd(true);
            }
            return None;
        }
        Some(whole.min(usable.into()).min(largest.into()).max(1) as u8)
    }

    fn largest_super_packet(&self) -> u32 {
        let rate = self.pacing_rate().or_else(|| self.window_rate());
        let bits = rate.map_or(u64::MAX, trunkline_units::Rate::bits_per_second);
        let min_rtt_micros = nanos(self.rtt.min().unwrap_or(Duration::MAX)) / 1000;
        let more = MAX_BYTES.checked_shr((min_rtt_micros >> 9).min(64) as u32).unwrap_or(0);
        let bytes = (bits / 8 / 1024).saturating_add(more).min(MAX_BYTES);
        let min = if self.congestion.models_path() && bits < BBR_SINGLE_BITS { 1 } else { 2 };
        ((bytes / u64::from(self.mss)) as u32).max(min)
    }

    /// Whether an acknowledgement that is due soon will let out a larger super-packet.
    fn waits_for_more(&self, cx: &Context<'_>, (free, room): (u32, u64), largest: u32) -> bool {
        let Some(front) = self.board.front() else { return false };
        let limit = room.min(free.into());
        let offered = self.edge.saturating_sub(self.una);
        let third = offered.min(self.congestion.cwnd().into()) / 3;
        matches!(self.phase, Phase::Open | Phase::Cwr)
            && cx.now - self.last_sent <= RECENT
            && limit < u64::from(largest) * u64::from(self.mss)
            && limit < third
            && cx.now - front.at >= self.rtt.srtt().unwrap_or_default() / 2
    }
}
