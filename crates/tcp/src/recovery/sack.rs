//! Loss recovery by the scoreboard (RFC 6675).
//!
//! It begins with the third duplicate, or when more than two segments' worth above the first are delivered. Then
//! the window limits `pipe`, and the sender sends in this order: lost segments; new data; segments below a
//! delivered one that are not known to be lost; and once, the last segment (`NextSeg` rules 1 to 4).
//!
//! Deviation: the sender retransmits the last segment only when it sent it more than a round trip ago. The RFC has
//! it retransmitted at once when there is nothing else to send, which is nearly always spurious where the peer's
//! window is the limit.

use crate::acknowledgement::Arrival;
use crate::recovery::{AckOutcome, Phase};
use crate::sender::{Context, Outgoing, Sender};
use trunkline_congestion::CongestionSignal;

impl Sender {
    #[inline]
    pub(super) fn sack_ack(&mut self, cx: &mut Context<'_>, arrival: &Arrival) -> AckOutcome {
        let advanced = arrival.advanced > 0;
        if advanced {
            self.duplicates = 0;
        } else if arrival.progress.sacked > 0 {
            self.duplicates = self.duplicates.saturating_add(1);
        }
        let rearms = advanced;
        match self.phase {
            Phase::Recovery => {
                if advanced && self.undo_by_eifel(cx, arrival) {
                    return AckOutcome { grows: false, rearms, lost: 0 };
                }
                if self.una >= self.recover {
                    self.phase = Phase::Open;
                } else {
                    self.count_losses(cx);
                }
                AckOutcome { grows: false, rearms, lost: 0 }
            }
            Phase::Loss => {
                if !self.detect_spurious_timeout(cx, arrival) && self.una >= self.recover {
                    self.phase = Phase::Open;
                }
                self.count_losses(cx);
                AckOutcome { grows: true, rearms, lost: 0 }
            }
            Phase::Open | Phase::Cwr => {
                if self.board.sacked() == 0 {
                    return AckOutcome { grows: true, rearms, lost: 0 };
                }
                self.count_losses(cx);
                if self.duplicates >= cx.settings.duplicate_threshold || self.board.lost() > 0 {
                    self.enter_sack_recovery(cx);
                }
                AckOutcome { grows: self.phase != Phase::Recovery, rearms, lost: 0 }
            }
        }
    }

    fn count_losses(&mut self, cx: &Context<'_>) {
        let mss = self.mss();
        self.board.mark_lost_by_count(u32::from(cx.settings.duplicate_threshold), mss);
    }

    fn enter_sack_recovery(&mut self, cx: &mut Context<'_>) {
        cx.counters.fast_recoveries += 1;
        let flight = self.flight();
        self.congestion.reduce(flight, CongestionSignal::Loss);
        self.track_undo();
        self.reduced = self.ecn;
        self.board.mark_front_lost();
        self.forced = self.board.waiting() > 0;
        self.recover = self.next;
        self.phase = Phase::Recovery;
        self.arm_retransmission(cx);
    }

    /// `NextSeg` rules 3 and 4.
    pub(crate) fn poll_next_seg(&mut self, cx: &mut Context<'_>) -> Option<Outgoing> {
        if self.window_closed() || self.pipe() + self.mss() > self.congestion.cwnd() {
            return None;
        }
        if let Some(index) = self.board.next_unmarked() {
            return Some(self.retransmit(cx, index));
        }
        let (una, recover) = (self.una, self.recover);
        if una <= self.repair().rescue {
            return None;
        }
        let index = self.board.last_undelivered()?;
        if cx.now - self.board.get(index).at <= self.rtt.srtt().unwrap_or_default() {
            return None;
        }
        self.repair().rescue = recover;
        Some(self.retransmit(cx, index))
    }
}
