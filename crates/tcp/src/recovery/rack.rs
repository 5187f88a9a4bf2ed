//! RACK (RFC 8985 §6) with proportional rate reduction (RFC 6937), as in Linux.
//!
//! A segment is lost if a segment sent later was delivered, and more time has passed since it was sent than that
//! segment's round trip plus a reordering window. Until reordering was seen, the window is zero once three segments
//! are delivered beyond a gap or a recovery runs. Otherwise it is a quarter of the smallest round-trip time, more
//! for each round trip with a reported duplicate, up to the smoothed round-trip time (Linux: an eighth of its
//! scaled value, which is the same).
//!
//! Deviation, as in Linux and not in the RFC: the round trip is that of the segment that the acknowledgement
//! covered last, not of the one sent last. SACK blocks come first, data acknowledged in order after them
//! (`tcp_rack_advance`). So an acknowledgement of both, such as a delayed one of data before a gap, finds fewer
//! losses.
//!
//! While the window shrinks, the sender may send according to the delivered bytes: in proportion while there is
//! more in flight than ssthresh, and as in slow start below it, but only if no further loss was found (Linux's
//! bound, draft rfc6937bis).

use std::time::Duration;

use trunkline_units::Instant;

use crate::acknowledgement::Arrival;
use crate::recovery::{AckOutcome, Phase};
use crate::sender::{Context, Sender};
use crate::timers::{Wakeup, since};
use trunkline_congestion::CongestionSignal;

/// Two ticks of a kernel of 250 Hz: what Linux adds to its short timers (`TCP_TIMEOUT_MIN`).
pub(super) const SLACK: Duration = Duration::from_millis(8);
const PERSISTS: u8 = 16;

/// The segment sent last among those delivered.
#[derive(Debug)]
pub(crate) struct Rack {
    at: Instant,
    end: u64,
    /// The round trip of the one looked at last.
    rtt_micros: u32,
}

impl Rack {
    pub(crate) const fn new() -> Self {
        Rack { at: Instant::ZERO, end: 0, rtt_micros: 0 }
    }

    /// That round trip, rounded down: rounded up, what was sent just before it would never be old enough.
    pub(crate) fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt_micros.into())
    }
}

impl Sender {
    #[inline]
    pub(super) fn rack_ack(&mut self, cx: &mut Context<'_>, arrival: &Arrival) -> AckOutcome {
        if let Some((at, end, _)) = arrival.progress.newest
            && (at, end) > (self.rack.at, self.rack.end)
        {
            (self.rack.at, self.rack.end) = (at, end);
        }
        if let Some(at) = arrival.progress.last {
            self.rack.rtt_micros = (since(cx.now, at) / 1000) as u32;
        }
        let rearms = arrival.advanced > 0 || self.sacks_older_than_front(arrival);
        let mut outcome = AckOutcome { grows: true, rearms, lost: 0 };
        let quiet = self.phase == Phase::Open
            && self.board.sacked() == 0
            && self.board.lost() == 0
            && !arrival.dsack
            && !arrival.marked
            && !arrival.progress.reordered
            && self.repair.as_ref().is_none_or(|repair| repair.probe_end == 0);
        if quiet {
            return outcome;
        }
        self.handle_probe_ack(cx, arrival);
        self.adapt_reordering(arrival);
        if self.una >= self.recover {
            self.exit_recovery(cx, arrival);
        }
        match self.phase {
            Phase::Open | Phase::Cwr => self.undo_by_dsack(cx, arrival),
            Phase::Recovery => {
                // A partial acknowledgement takes nothing back while retransmissions are in flight (`tcp_try_undo_partial`).
                let settled = arrival.advanced > 0 && self.board.retransmitting() == 0;
                if settled && self.undo_by_eifel(cx, arrival) {
                    return AckOutcome { grows: false, ..outcome };
                }
                self.undo_by_dsack(cx, arrival);
            }
            Phase::Loss => {
                if !self.detect_spurious_timeout(cx, arrival) && self.una >= self.recover {
                    self.phase = Phase::Open;
                }
            }
        }
        let (lost, waits) = self.find_losses(cx);
        outcome.rearms &= !waits;
        if self.board.lost() > 0 && matches!(self.phase, Phase::Open | Phase::Cwr) {
            self.enter_rack_recovery(cx);
            if arrival.marked {
                self.congestion.confirm_reduction();
            }
            outcome.rearms &= !waits;
        } else if arrival.marked {
            self.handle_mark(cx);
        }
        outcome.lost = lost;
        if self.congestion.models_path() {
            outcome.grows = self.phase != Phase::Recovery;
        } else if matches!(self.phase, Phase::Recovery | Phase::Cwr) {
            self.apply_prr(arrival.progress.delivered, lost == 0 && arrival.advanced > 0);
            outcome.grows = false;
        }
        outcome
    }

    /// SACK reports something for the first time that had left before what is first in flight was sent last: the timer
    /// begins anew, as in Linux (`tcp_clean_rtx_queue`). What left later would put it off for as long as a repair lasts.
    fn sacks_older_than_front(&self, arrival: &Arrival) -> bool {
        let sacked = arrival.progress.sacked_oldest;
        self.board.front().zip(sacked).is_some_and(|(front, at)| at < front.at)
    }

    /// All that was in flight when the window was reduced has been acknowledged.
    fn exit_recovery(&mut self, cx: &mut Context<'_>, arrival: &Arrival) {
        match self.phase {
            Phase::Recovery => {
                let persists = &mut self.repair().reordering_persists;
                *persists = persists.saturating_sub(1);
                if !self.undo_by_eifel(cx, arrival) {
                    self.end_reduction();
                }
            }
            Phase::Cwr if self.una > self.recover => {
                if self.congestion.models_path() {
                    self.phase = Phase::Open;
                } else {
                    self.end_reduction();
                }
            }
            _ => {}
        }
    }

    pub(super) fn end_reduction(&mut self) {
        let mut window = self.congestion.ssthresh();
        if self.congestion.models_path() {
            // One that has begun in this recovery knows of no window before it.
            let known = if window == u32::MAX { 0 } else { window };
            window = known.max(self.congestion.cwnd());
        }
        self.congestion.set_cwnd(window);
        self.phase = Phase::Open;
    }

    fn enter_rack_recovery(&mut self, cx: &mut Context<'_>) {
        cx.counters.fast_recoveries += 1;
        if self.phase == Phase::Cwr && !self.congestion.models_path() {
            // The window shrinks already, and that is not taken back (`tcp_enter_recovery`).
            self.phase = Phase::Recovery;
            self.track_undo();
            self.congestion.confirm_reduction();
        } else {
            self.begin_reduction(CongestionSignal::Loss, Phase::Recovery);
            if self.congestion.models_path() {
                self.round_end = self.delivery.delivered;
            }
        }
    }

    /// Bytes found lost, and whether a timer waits for more.
    fn find_losses(&mut self, cx: &mut Context<'_>) -> (u32, bool) {
        if self.rack.rtt_micros == 0 {
            return (0, false);
        }
        let latest = (self.rack.at, self.rack.end, self.rack.rtt());
        let window = self.reordering_window();
        let (lost, soonest) = self.board.mark_lost_by_time(cx.now, latest, window);
        if let Some(soonest) = soonest {
            cx.slots.arm(cx.now + soonest + SLACK, Wakeup::Reordering);
        }
        (lost, soonest.is_some())
    }

    /// RFC 8985 §6.2 step 4.
    pub(super) fn reordering_window(&self) -> Duration {
        let repair = self.repair.as_deref();
        let repairing = matches!(self.phase, Phase::Recovery | Phase::Loss);
        let seen = repair.is_some_and(|repair| repair.reordering_seen);
        if !seen && (repairing || self.board.sacked() >= 3 * self.mss()) {
            return Duration::ZERO;
        }
        let steps = 1 + repair.map_or(0, |repair| u32::from(repair.reordering_steps));
        let widest = self.rtt.srtt().unwrap_or_default();
        (self.rtt.min().unwrap_or_default() / 4 * steps).min(widest)
    }

    fn adapt_reordering(&mut self, arrival: &Arrival) {
        let (una, next) = (self.una, self.next);
        let repair = self.repair();
        repair.reordering_seen |= arrival.progress.reordered;
        if arrival.dsack && una >= repair.reordering_round {
            repair.reordering_steps = repair.reordering_steps.saturating_add(1).min(254);
            repair.reordering_round = next;
            repair.reordering_persists = PERSISTS;
        } else if repair.reordering_persists == 0 {
            repair.reordering_steps = 0;
        }
    }

    /// The reordering window of a segment has passed (RFC 8985 §6.3).
    pub(crate) fn handle_reordering_timeout(&mut self, cx: &mut Context<'_>) {
        let (lost, waits) = self.find_losses(cx);
        if lost > 0 && self.phase != Phase::Recovery {
            if self.phase == Phase::Loss {
                // The timeout's own rules hold until it is over.
            } else {
                self.enter_rack_recovery(cx);
                if !self.congestion.models_path() {
                    let mss = self.mss();
                    self.apply_prr(mss, false);
                }
            }
        }
        if !waits {
            self.arm_from_front(cx);
        }
    }

    #[inline]
    pub(crate) fn note_prr_sent(&mut self, bytes: u32) {
        if matches!(self.phase, Phase::Recovery | Phase::Cwr)
            && let Some(repair) = &mut self.repair
        {
            repair.prr_out += bytes;
        }
    }

    fn apply_prr(&mut self, delivered: u32, bursts: bool) {
        if delivered == 0 {
            return;
        }
        let (pipe, mss, ssthresh) = (self.pipe(), self.mss(), self.congestion.ssthresh());
        let repair = self.repair();
        repair.prr_delivered += delivered;
        let (out, all) = (repair.prr_out, repair.prr_delivered);
        let may_send = if pipe > ssthresh {
            let share = u64::from(ssthresh) * u64::from(all) / u64::from(repair.prior_cwnd.max(1));
            (share.div_ceil(u64::from(mss)) as u32 * mss).saturating_sub(out)
        } else {
            let more = if bursts { mss } else { 0 };
            (all.saturating_sub(out).max(delivered) + more).min(ssthresh - pipe)
        };
        let min = if out == 0 { mss } else { 0 };
        self.congestion.set_cwnd(pipe + may_send.max(min));
    }
}
