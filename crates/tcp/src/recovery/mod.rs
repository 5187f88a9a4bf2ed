//! Loss detection and recovery: the part that all kinds share.
//!
//! A sender is `Open`; in `Recovery` after acknowledgements showed a loss; in `Loss` after a timeout; or in `Cwr`
//! while the window shrinks for an ECN mark. `Recovery` and `Loss` last until the data sent before is acknowledged.
//! A timeout marks the segments in flight as lost, and slow start retransmits them in order. For senders without
//! SACK this goes back to the first byte not acknowledged, as in BSD and ns-2. Otherwise the sender keeps the SACK
//! information, as in Linux.

mod classic;
mod loss_probe;
mod rack;
mod sack;
mod spurious;

pub(crate) use rack::Rack;

use trunkline_units::Instant;

use crate::Recovery;
use crate::acknowledgement::Arrival;
use crate::sender::{Context, Sender};
use trunkline_congestion::CongestionSignal;

/// The state of loss recovery (Linux `tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Cwr,
    Recovery,
    Loss,
}

/// The state that only a sender that has met a loss needs.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    /// The first retransmission since the window was reduced, or since before if that is still in flight.
    first_retransmission: Option<Instant>,
    /// `una` at the last reduction, while undo is still possible.
    undo_from: Option<u64>,
    /// Retransmissions since then that were not reported as duplicates.
    undo_retransmissions: u32,
    /// Proportional rate reduction: window before, bytes delivered and sent since.
    prior_cwnd: u32,
    prr_delivered: u32,
    prr_out: u32,
    /// The next place when the probe left; 0: no probe.
    pub(crate) probe_end: u64,
    /// RFC 6675 `RescueRxt`.
    rescue: u64,
    /// The next place when the reordering window was last widened.
    reordering_round: u64,
    /// Reordering window in quarters of the smallest round-trip time, less one.
    reordering_steps: u8,
    /// Recoveries until the steps are forgotten.
    reordering_persists: u8,
    reordering_seen: bool,
    probe_retransmits: bool,
    /// F-RTO has not decided yet.
    pub(crate) frto: bool,
    /// RFC 6582: a partial acknowledgement has come.
    partial: bool,
}

/// What follows from an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckOutcome {
    /// The window may grow.
    pub(crate) grows: bool,
    /// The retransmission timer restarts.
    pub(crate) rearms: bool,
    /// Bytes found lost by their age.
    pub(crate) lost: u32,
}

impl Sender {
    /// Lets the recovery act on an acknowledgement.
    #[inline]
    pub(crate) fn handle_recovery(&mut self, cx: &mut Context<'_>, arrival: &Arrival) -> AckOutcome {
        match self.kind {
            Recovery::Tahoe | Recovery::Reno | Recovery::NewReno => self.classic_ack(cx, arrival),
            Recovery::Sack => self.sack_ack(cx, arrival),
            Recovery::RackTlp => self.rack_ack(cx, arrival),
        }
    }

    pub(crate) fn note_retransmission(&mut self, now: Instant) {
        let repair = self.repair();
        repair.first_retransmission.get_or_insert(now);
        repair.undo_retransmissions += 1;
    }

    /// Begins to track whether a new reduction is spurious. What answers a retransmission that is still in flight is older than
    /// the first retransmission from now on, and no sign of it: the time of that one stays (`tcp_retrans_stamp_cleanup`).
    fn track_undo(&mut self) {
        let una = self.una;
        let repeats = self.board.repeats();
        let repair = self.repair();
        repair.undo_from = Some(una);
        repair.undo_retransmissions = 0;
        if !repeats {
            repair.first_retransmission = None;
        }
        repair.partial = false;
        repair.rescue = 0;
    }

    /// Shrinks the window by proportional rate reduction (RFC 6937) from here on.
    pub(crate) fn begin_reduction(&mut self, signal: CongestionSignal, phase: Phase) {
        let (flight, prior) = (self.flight(), self.congestion.cwnd());
        self.congestion.reduce(flight, signal);
        self.congestion.set_cwnd(prior);
        self.recover = self.next;
        self.phase = phase;
        self.track_undo();
        let repair = self.repair();
        (repair.prior_cwnd, repair.prr_delivered, repair.prr_out, repair.probe_end) = (prior, 0, 0, 0);
        self.reduced = self.ecn;
    }

    /// The retransmission timer ran out (RFC 6298 §5.4 to 5.6). `false`: the retries are used up.
    pub(crate) fn handle_rto(&mut self, cx: &mut Context<'_>) -> bool {
        if self.board.is_empty() {
            return true;
        }
        cx.counters.timeouts += 1;
        if self.retries >= cx.settings.timers.max_retransmissions {
            return false;
        }
        // RFC 5681 §3.1: once for a segment. Linux: once for a window, whatever the loss was first found by.
        let again = match self.kind {
            Recovery::RackTlp => {
                self.phase != Phase::Open
                    && self.una < self.recover
                    && !(self.phase == Phase::Loss && self.retries == 0)
            }
            _ => self.phase == Phase::Loss && self.retries > 0,
        };
        if again {
            let mss = self.mss();
            self.congestion.set_cwnd(mss);
        } else {
            let flight = self.flight();
            self.congestion.reduce(flight, CongestionSignal::Timeout);
            self.track_undo();
        }
        self.board.handle_sack_reneging();
        let sent_by = if self.kind == Recovery::RackTlp { cx.now - self.rack.rtt() } else { cx.now };
        self.board.mark_all_lost(sent_by);
        if self.kind == Recovery::RackTlp {
            let window = self.pipe() + self.mss();
            self.congestion.set_cwnd(window);
        }
        let detects = self.detects_spurious(cx.settings) && (self.retries > 0 || !again);
        let repair = self.repair();
        repair.frto = detects;
        repair.probe_end = 0;
        self.retries += 1;
        self.phase = Phase::Loss;
        self.recover = self.next;
        self.duplicates = 0;
        self.forced = true;
        self.new_first = false;
        self.reduced = self.ecn;
        self.rtt.back_off();
        self.arm_retransmission(cx);
        true
    }

    /// RFC 5681's `FlightSize`, without the segments of limited transmit; Linux takes the window instead.
    pub(crate) fn flight(&self) -> u32 {
        let cwnd = self.congestion.cwnd();
        if self.kind == Recovery::RackTlp { cwnd } else { cwnd.min(self.outstanding() as u32) }
    }
}
