//! Detects reductions that were spurious, and undoes them.
//!
//! F-RTO (RFC 5682, in the form of Linux that works with and without SACK): after a timeout, an acknowledgement of
//! a segment that was sent before it and never retransmitted shows that the flight was only late. To provoke one,
//! the sender answers the first acknowledgement that advances with new data instead of retransmissions; a duplicate
//! then shows that the loss was real.
//!
//! Eifel (RFC 3522): an acknowledgement of a retransmitted segment with a timestamp from before the retransmission
//! answers the original. Reported duplicates (RFC 2883, RFC 3708): every retransmission since the reduction arrived
//! twice.

use crate::acknowledgement::Arrival;
use crate::recovery::Phase;
use crate::sender::{Context, Sender};
use crate::timers::Clock;
use crate::{Recovery, Settings, SpuriousDetection};

impl Sender {
    pub(super) fn detects_spurious(&self, settings: &Settings) -> bool {
        settings.spurious != SpuriousDetection::None && self.kind != Recovery::Tahoe
    }

    /// In `Loss`, whether the timeout turned out not to be needed and was taken back.
    pub(super) fn detect_spurious_timeout(&mut self, cx: &mut Context<'_>, arrival: &Arrival) -> bool {
        self.new_first = false;
        if arrival.advanced > 0 && self.undo_by_eifel(cx, arrival) {
            return true;
        }
        if !self.repair().frto {
            return false;
        }
        let original = arrival.progress.original && (self.uses_sack() || !arrival.progress.retransmitted);
        if original && (arrival.advanced > 0 || arrival.progress.sacked > 0) {
            self.undo(cx);
            return true;
        }
        if self.next > self.recover {
            if arrival.progress.sacked > 0 || arrival.duplicate {
                self.repair().frto = false;
                if !self.uses_sack() {
                    // RFC 5682 §2.1 step 3a: else what was just sent, two segments there, would fill the window.
                    let window = self.pipe().max(2 * self.mss()) + self.mss();
                    self.congestion.set_cwnd(window);
                }
            }
        } else if arrival.advanced > 0 && self.una < self.recover {
            self.recover = self.next;
            if self.unsent() > 0 && self.edge > self.next {
                self.new_first = true;
            } else {
                self.repair().frto = false;
            }
        }
        false
    }

    /// There is no new data to send after all.
    pub(crate) fn abandon_frto(&mut self) {
        self.new_first = false;
        self.repair().frto = false;
    }

    /// Eifel.
    pub(super) fn undo_by_eifel(&mut self, cx: &mut Context<'_>, arrival: &Arrival) -> bool {
        if cx.settings.spurious != SpuriousDetection::Eifel {
            return false;
        }
        let Some(repair) = &self.repair else { return false };
        let (Some(_), Some(first), Some(echo)) =
            (repair.undo_from, repair.first_retransmission, arrival.echo)
        else {
            return false;
        };
        let retransmitted = Clock::of(&cx.settings.timers).timestamp(first);
        let before = echo.wrapping_sub(retransmitted).cast_signed() < 0;
        if before {
            self.undo(cx);
        }
        before
    }

    /// Every retransmission was reported as a duplicate.
    pub(super) fn undo_by_dsack(&mut self, cx: &mut Context<'_>, arrival: &Arrival) {
        if !arrival.dsack || !self.detects_spurious(cx.settings) {
            return;
        }
        if self.repair().undo_from.is_some() && self.repair().undo_retransmissions == 0 {
            self.undo(cx);
        }
    }

    /// The peer reports that what ends at `end` came twice.
    pub(crate) fn note_dsack(&mut self, end: u64) {
        let repair = self.repair();
        if repair.undo_from.is_some_and(|from| end > from) {
            repair.undo_retransmissions = repair.undo_retransmissions.saturating_sub(1);
        }
    }

    /// No later sign takes the last reduction back.
    pub(crate) fn forbid_undo(&mut self) {
        self.congestion.confirm_reduction();
        self.repair().undo_from = None;
    }

    fn undo(&mut self, cx: &mut Context<'_>) {
        self.board.clear_losses();
        if self.congestion.prior_cwnd().is_some() {
            // The peer need not hear of it either (`tcp_ecn_withdraw_cwr`).
            self.reduced = false;
        }
        self.congestion.undo();
        cx.counters.undone_reductions += 1;
        self.repair().undo_from = None;
        self.repair().frto = false;
        self.retries = 0;
        self.forced = false;
        self.new_first = false;
        self.phase = Phase::Open;
        self.recover = self.una - 1;
        self.duplicates = 0;
    }
}
