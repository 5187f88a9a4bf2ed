//! Tahoe, Reno and `NewReno` count duplicate acknowledgements and repair one segment a round trip.
//!
//! Tahoe (Jacobson 1988): the third duplicate acts as an early timeout; the sender restarts from one segment, in
//! order. Reno (RFC 2581 §3.2): the sender retransmits, halves the window, sends a new segment for each further
//! duplicate, and ends the recovery with the first acknowledgement of new data, which is too early if more was
//! lost. `NewReno` (RFC 6582): the recovery continues until all data that was in flight is acknowledged, with one
//! retransmission for each partial acknowledgement. A setting says whether each of these or only the first restarts
//! the timer ([`RtoRule`]).
//!
//! Duplicates caused by retransmissions after a timeout mean no loss: RFC 6582 §4's `recover`, here for all three.
//! Only `NewReno` keeps it for losses found by duplicates; the others may halve twice in one window.

use crate::acknowledgement::Arrival;
use crate::recovery::{AckOutcome, Phase};
use crate::sender::{Context, Sender};
use crate::{Recovery, RtoRule};
use trunkline_congestion::CongestionSignal;

impl Sender {
    #[inline]
    pub(super) fn classic_ack(&mut self, cx: &mut Context<'_>, arrival: &Arrival) -> AckOutcome {
        if arrival.advanced > 0 {
            self.duplicates = 0;
            if self.phase == Phase::Open {
                return AckOutcome { grows: true, rearms: true, lost: 0 };
            }
            return self.classic_new_ack(cx, arrival);
        }
        if self.phase == Phase::Loss {
            self.detect_spurious_timeout(cx, arrival);
        }
        if arrival.duplicate {
            self.duplicates = self.duplicates.saturating_add(1);
            self.classic_duplicate(cx);
        }
        AckOutcome { grows: false, rearms: false, lost: 0 }
    }

    fn classic_new_ack(&mut self, cx: &mut Context<'_>, arrival: &Arrival) -> AckOutcome {
        let grows = AckOutcome { grows: true, rearms: true, lost: 0 };
        match self.phase {
            Phase::Open | Phase::Cwr => grows,
            Phase::Loss => {
                if !self.detect_spurious_timeout(cx, arrival) && self.una >= self.recover {
                    self.phase = Phase::Open;
                }
                grows
            }
            Phase::Recovery => {
                AckOutcome { grows: false, rearms: self.partial_or_full_ack(cx, arrival), lost: 0 }
            }
        }
    }

    /// Whether the timer begins anew.
    fn partial_or_full_ack(&mut self, cx: &mut Context<'_>, arrival: &Arrival) -> bool {
        if self.undo_by_eifel(cx, arrival) {
            return true;
        }
        let (mss, ssthresh) = (self.mss(), self.congestion.ssthresh());
        if self.kind == Recovery::Reno {
            self.congestion.set_cwnd(ssthresh);
            self.phase = Phase::Open;
            return true;
        }
        if self.una >= self.recover {
            // RFC 6582 §3.2 step 3, the first of its two ways.
            let window = ssthresh.min(self.pipe().max(mss) + mss);
            self.congestion.set_cwnd(window);
            self.phase = Phase::Open;
            return true;
        }
        self.board.mark_front_lost();
        self.forced = self.board.waiting() > 0;
        let deflated = self.congestion.cwnd().saturating_sub(arrival.advanced);
        let back = if arrival.advanced >= mss { mss } else { 0 };
        self.congestion.set_cwnd(deflated + back);
        let first = !std::mem::replace(&mut self.repair().partial, true);
        first || cx.settings.timers.rto == RtoRule::Linux
    }

    fn classic_duplicate(&mut self, cx: &mut Context<'_>) {
        let mss = self.mss();
        match self.phase {
            Phase::Recovery => {
                let inflated = self.congestion.cwnd() + mss;
                self.congestion.set_cwnd(inflated);
            }
            Phase::Open | Phase::Cwr
                if self.duplicates == cx.settings.duplicate_threshold && self.una > self.recover =>
            {
                cx.counters.fast_recoveries += 1;
                let flight = self.flight();
                self.congestion.reduce(flight, CongestionSignal::Loss);
                self.track_undo();
                self.reduced = self.ecn;
                self.forced = true;
                if self.kind == Recovery::Tahoe {
                    self.congestion.set_cwnd(mss);
                    self.board.mark_all_lost(cx.now);
                    self.repair().frto = false;
                    self.recover = self.next;
                    self.phase = Phase::Loss;
                } else {
                    self.board.mark_front_lost();
                    if self.kind == Recovery::NewReno {
                        self.recover = self.next;
                    }
                    let left_the_network = u32::from(cx.settings.duplicate_threshold) * mss;
                    let inflated = self.congestion.ssthresh() + left_the_network;
                    self.congestion.set_cwnd(inflated);
                    self.phase = Phase::Recovery;
                }
                self.arm_retransmission(cx);
            }
            _ => {}
        }
    }
}
