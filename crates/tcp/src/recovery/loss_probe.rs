//! Tail loss probe (RFC 8985 §7), as in Linux.
//!
//! No later segment can show the loss of the last one. So after two round trips without an acknowledgement the
//! sender sends one segment, new or the last one again. Its acknowledgement starts the recovery for which the
//! sender would otherwise wait for a timeout. If the sender retransmitted the last segment and the peer does not
//! report a duplicate, that segment was lost, and the window is reduced (§7.4).

use crate::Recovery;
use crate::acknowledgement::Arrival;
use crate::recovery::Phase;
use crate::recovery::rack::SLACK;
use crate::sender::{Context, Outgoing, Sender};
use crate::timers::{Wakeup, after, nanos, since};
use trunkline_congestion::CongestionSignal;

impl Sender {
    /// Sets the shared timer to a probe if there may be one; `acknowledged` if the retransmission timer would begin anew.
    #[inline]
    pub(crate) fn schedule_probe(&self, cx: &mut Context<'_>, acknowledged: bool) -> bool {
        if self.kind != Recovery::RackTlp
            || !matches!(self.phase, Phase::Open | Phase::Cwr)
            || self.board.sacked() > 0
        {
            return false;
        }
        let Some(front) = self.board.front() else { return false };
        let timers = &cx.settings.timers;
        let wait = match self.rtt.srtt_nanos() {
            0 => nanos(timers.initial_rto),
            // One segment alone may be acknowledged late: Linux allows its smallest RTO.
            srtt => 2 * srtt + nanos(if self.board.len() == 1 { timers.min_rto } else { SLACK }),
        };
        let rto = self.rto_nanos(cx.settings);
        let left = if acknowledged { rto } else { since(after(front.at, rto), cx.now) };
        let wait = if left > 0 { wait.min(left) } else { wait };
        cx.slots.arm(after(cx.now, wait), Wakeup::Probe);
        true
    }

    pub(crate) fn handle_probe_timeout(&mut self, cx: &mut Context<'_>) {
        let one_is_out = self.repair.as_ref().is_some_and(|repair| repair.probe_end > 0);
        self.probe_due = !one_is_out && !self.board.is_empty();
        self.arm_from_front(cx);
    }

    /// The retransmission timer, counted from when the first segment in flight was sent.
    pub(super) fn arm_from_front(&self, cx: &mut Context<'_>) {
        match self.board.front() {
            None => cx.slots.disarm(),
            Some(front) => {
                let at = after(front.at, self.rto_nanos(cx.settings)).max(after(cx.now, 1000));
                cx.slots.arm(at, Wakeup::Retransmission);
            }
        }
    }

    pub(crate) fn probe(&mut self, cx: &mut Context<'_>) -> Option<Outgoing> {
        let new = if self.unsent() > 0 { self.poll_new(cx, u32::MAX) } else { None };
        let outgoing = if let Some(new) = new {
            new
        } else {
            let last = self.board.last()?;
            self.retransmit(cx, last)
        };
        cx.counters.loss_probes += 1;
        let next = self.next;
        let repair = self.repair();
        (repair.probe_end, repair.probe_retransmits) = (next, outgoing.retransmission);
        self.arm_from_front(cx);
        Some(outgoing)
    }

    /// RFC 8985 §7.4.2.
    pub(super) fn handle_probe_ack(&mut self, cx: &mut Context<'_>, arrival: &Arrival) {
        let una = self.una;
        let repair = self.repair();
        if repair.probe_end == 0 || una < repair.probe_end {
            return;
        }
        if !repair.probe_retransmits || arrival.dsack {
            repair.probe_end = 0;
        } else if una > repair.probe_end {
            repair.probe_end = 0;
            if self.phase == Phase::Open {
                cx.counters.fast_recoveries += 1;
                self.begin_reduction(CongestionSignal::Loss, Phase::Cwr);
                self.end_reduction();
            }
        } else if arrival.advanced == 0 && arrival.progress.sacked == 0 && arrival.duplicate {
            repair.probe_end = 0;
        }
    }
}
