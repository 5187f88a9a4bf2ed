//! Sets the sender's timer: when, and for which purpose.

use crate::sender::{Context, Sender};
use crate::timers::{Wakeup, expiry, nanos};

impl Sender {
    pub(crate) fn arm_retransmission(&self, cx: &mut Context<'_>) {
        let at = expiry(cx.now, self.rto_nanos(cx.settings), &cx.settings.timers);
        cx.slots.arm(at, Wakeup::Retransmission);
    }

    pub(crate) fn arm_persist(&self, cx: &mut Context<'_>) {
        let timers = &cx.settings.timers;
        let delay = self.rtt.rto_nanos(timers) << self.retries.min(16);
        let at = expiry(cx.now, delay.min(nanos(timers.max_rto)), timers);
        cx.slots.arm(at, Wakeup::Persist);
    }

    /// The window keeps back what there is to send, and no timer would ever ask again.
    pub(crate) fn arm_if_idle(&self, cx: &mut Context<'_>) {
        if self.board.is_empty() && cx.slots.armed().is_none() {
            self.arm_persist(cx);
        }
    }

    /// Sets the shared timer after something was acknowledged.
    #[inline]
    pub(crate) fn rearm(&self, cx: &mut Context<'_>) {
        if self.board.is_empty() {
            if cx.slots.armed().is_some_and(|(_, why)| why != Wakeup::Persist && why != Wakeup::TimeWait) {
                cx.slots.disarm();
            }
        } else if self.window_closed() {
            self.arm_persist(cx);
        } else if !self.schedule_probe(cx, true) {
            self.arm_retransmission(cx);
        }
    }

    /// The right edge of the peer's window may have moved.
    pub(crate) fn set_edge(&mut self, cx: &mut Context<'_>, edge: u64) {
        let was_closed = self.window_closed();
        self.edge = edge;
        let persisting = matches!(cx.slots.armed(), Some((_, Wakeup::Persist)));
        if self.window_closed() {
            if !self.board.is_empty() && !persisting {
                self.retries = 0;
                self.arm_persist(cx);
            }
        } else if persisting && (was_closed || edge > self.next) {
            cx.slots.disarm();
            self.retries = 0;
            if !self.board.is_empty() {
                self.arm_retransmission(cx);
            }
        }
    }
}
