//! When an endpoint acknowledges: what arrives, leaves and runs out, as [`Quick`](crate::delayed_ack::Quick) and [`AckDelay`] see it.

use std::time::Duration;

use trunkline_units::Instant;

use crate::delayed_ack::AckDelay;
use crate::endpoint::Endpoint;
use crate::settings::DelayedAck;
use crate::timers::{MILLISECOND, after, nanos, since};

impl Endpoint {
    /// The shortest of adaptive delays, ms.
    #[inline]
    fn shortest_delay(&self) -> Option<u16> {
        self.settings.delayed_ack.filter(|delayed| delayed.adaptive).map(|delayed| millis(delayed.timeout))
    }

    /// Data arrives. After a silence of more than a retransmission timeout segments are acknowledged at once again, as in
    /// Linux: the peer may have begun with a small window.
    #[inline]
    pub(crate) fn note_arrival(&mut self, now: Instant) {
        let silence = since(now, self.receiver.last_data);
        let begins = if let Some(shortest) = self.shortest_delay() {
            let rto = || nanos(self.sending.rto(&self.settings));
            self.ack_delay.arrival(silence, rto, shortest)
        } else {
            silence > nanos(self.settings.timers.min_rto)
                && self.receiver.last_data > Instant::ZERO
                && silence > nanos(self.sending.rto(&self.settings))
        };
        if begins {
            self.receiver.quick.begin(&self.settings);
        }
    }

    /// The acknowledgement of what has arrived may wait. `ends`: it ends a write.
    pub(crate) fn delay_ack(&mut self, now: Instant, delayed: DelayedAck, ends: bool) {
        let Some(shortest) = self.shortest_delay() else { return self.slots.delay_ack(now, delayed) };
        let answers = ends || self.receiver.quick.is_ping_pong();
        let delay = self.ack_delay.delay(answers, self.srtt(), shortest);
        let pending = self.slots.delayed_ack;
        if pending <= after(now, delay / 4) {
            self.receiver.ack_now = true;
        } else {
            self.slots.delayed_ack = pending.min(after(now, delay));
        }
    }

    /// The timer of a delayed acknowledgement has run out.
    pub(crate) fn handle_delayed_ack(&mut self) {
        self.slots.delayed_ack = Instant::FAR_FUTURE;
        self.receiver.ack_now = true;
        if self.gathers {
            return;
        }
        let Some(shortest) = self.shortest_delay() else { return };
        if self.receiver.quick.is_ping_pong() {
            self.receiver.quick.set_ping_pong(false);
            self.ack_delay = AckDelay(shortest);
        } else {
            self.ack_delay.double(nanos(self.sending.rto(&self.settings)));
        }
    }

    /// A duplicate has come: the peer may have missed acknowledgements.
    pub(crate) fn note_duplicate(&mut self) {
        if let Some(shortest) = self.shortest_delay() {
            self.receiver.quick.set_ping_pong(false);
            self.receiver.quick.begin(&self.settings);
            self.ack_delay = AckDelay(shortest);
        }
    }

    /// The next two segments are acknowledged at once each.
    pub(crate) fn acknowledge_soon(&mut self) {
        if let Some(shortest) = self.shortest_delay() {
            self.receiver.quick.set_ping_pong(false);
            self.receiver.quick.at_least(2);
            self.ack_delay = AckDelay(shortest);
        }
    }

    /// A segment leaves that acknowledges what has come.
    #[inline]
    pub(crate) fn note_acknowledged(&mut self) {
        if self.receiver.quick.left() > 0
            && (self.receiver.ack_now || self.receiver.next > self.receiver.acknowledged)
            && let Some(shortest) = self.shortest_delay()
            && self.receiver.quick.take()
        {
            self.ack_delay = AckDelay(shortest);
        }
    }

    /// Data leaves: an answer, if something has just come.
    #[inline]
    pub(crate) fn note_answer(&mut self, now: Instant) {
        if self.ack_delay.0 > 0
            && since(now, self.receiver.last_data) < u64::from(self.ack_delay.0) * MILLISECOND
        {
            self.receiver.quick.set_ping_pong(true);
        }
    }

    /// Whether a reader that has read all acknowledges the end of a write at once.
    #[inline]
    pub(crate) fn acknowledges_ends(&self) -> bool {
        match self.shortest_delay() {
            Some(_) => !self.receiver.quick.is_ping_pong(),
            None => !self.sending.is_active(),
        }
    }
}

fn millis(duration: Duration) -> u16 {
    u16::try_from(duration.as_millis()).unwrap_or(u16::MAX)
}
