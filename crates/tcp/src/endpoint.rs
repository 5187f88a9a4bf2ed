//! One end of a connection.

use std::sync::Arc;

use trunkline_units::{Instant, Rate, Region, Seq};

use crate::delayed_ack::AckDelay;
use crate::receiver::Receiver;
use crate::send_half::{IdleSender, MaxPacingRate, SendHalf};
use crate::sender::{Context, Sender};
use crate::state::{Event, Events, ResetReason, State};
use crate::stats::Counters;
use crate::timers::{Slots, Wakeup};
use crate::{CongestionAlgorithm, Settings};

/// One end of a TCP connection.
///
/// After each call that takes `now`: [`Endpoint::poll_transmit`] until `None`, [`Endpoint::poll_event`] until `None`, then
/// [`Endpoint::next_wakeup`]. Segments that arrive must be handed in one at a time with `poll_transmit` between them,
/// since each may call for an acknowledgement of its own.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) settings: Arc<Settings>,
    pub(crate) sending: SendHalf,
    pub(crate) receiver: Receiver,
    pub(crate) slots: Slots,
    pub(crate) counters: Counters,
    pub(crate) state: State,
    pub(crate) events: Events,
    pub(crate) reset_due: Option<Seq>,
    pub(crate) syn_due: bool,
    pub(crate) window_probe_due: bool,
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    /// Windows are scaled.
    pub(crate) scaled: bool,
    writer_waits: bool,
    /// The end of a write has arrived and is not yet acknowledged.
    pub(crate) pushed: bool,
    /// The acknowledgement that is due waits for more segments (GRO).
    pub(crate) gathers: bool,
    pub(crate) ack_delay: AckDelay,
}

impl Endpoint {
    fn new(settings: &Arc<Settings>, iss: Seq, state: State) -> Self {
        Endpoint {
            sending: SendHalf::Idle(IdleSender::new(settings, iss)),
            receiver: Receiver::new(settings),
            slots: Slots::new(iss),
            counters: Counters::default(),
            state,
            events: Events::default(),
            reset_due: None,
            syn_due: false,
            window_probe_due: false,
            timestamps: false,
            sack: false,
            scaled: false,
            writer_waits: false,
            pushed: false,
            gathers: false,
            ack_delay: AckDelay::default(),
            settings: Arc::clone(settings),
        }
    }

    /// Opens a connection. `iss` is the sequence number of its SYN, which `poll_transmit` returns.
    pub fn connect(settings: &Arc<Settings>, now: Instant, iss: Seq) -> Self {
        let mut endpoint = Endpoint::new(settings, iss, State::SynSent);
        endpoint.send_syn(now);
        endpoint
    }

    /// Listens for a SYN, and will answer with `iss`.
    pub fn accept(settings: &Arc<Settings>, iss: Seq) -> Self {
        Endpoint::new(settings, iss, State::Listen)
    }

    /// Writes `bytes` of data, and returns how many of them fitted into the send buffer.
    #[inline]
    pub fn write(&mut self, bytes: u64) -> u64 {
        if !self.state.takes_writes() || self.sending.fin_written() {
            return 0;
        }
        let taken = bytes.min(self.send_room());
        self.writer_waits |= taken < bytes;
        if taken > 0 {
            match &mut self.sending {
                SendHalf::Idle(idle) => {
                    idle.end += taken;
                    self.activate_sender();
                }
                SendHalf::Active(sender) => {
                    sender.check_app_limited();
                    sender.end += taken;
                }
            }
        }
        taken
    }

    /// Has the state of its sender and of its receiver loaded into the processor's caches, for a segment that arrives soon. The
    /// endpoint itself should be there.
    #[inline]
    pub fn prefetch(&self, load: impl Fn(Region) + Copy) {
        if let SendHalf::Active(sender) = &self.sending {
            load(Region::of(&**sender));
        }
        self.receiver.prefetch(load);
    }

    /// The same for what the sender's state refers to, which should be there: the segments in flight and the congestion control.
    #[inline]
    pub fn prefetch_flight(&self, load: impl Fn(Region) + Copy) {
        if let SendHalf::Active(sender) = &self.sending {
            sender.prefetch(load);
        }
    }

    /// Creates the sender, once there is data or FIN to send and the connection is open.
    pub(crate) fn activate_sender(&mut self) {
        if let SendHalf::Idle(idle) = &self.sending
            && matches!(self.state, State::Established | State::CloseWait | State::FinWait1 | State::LastAck)
            && (idle.end > 1 || idle.fin_written)
        {
            self.sending = SendHalf::Active(Box::new(Sender::new(&self.settings, idle)));
        }
    }

    /// The sender, if there is one, with the rest of the endpoint as it needs it.
    #[inline]
    pub(crate) fn sender(&mut self, now: Instant) -> Option<(&mut Sender, Context<'_>)> {
        let SendHalf::Active(sender) = &mut self.sending else { return None };
        let (settings, slots, counters) = (&*self.settings, &mut self.slots, &mut self.counters);
        Some((sender, Context { now, settings, slots, counters }))
    }

    fn write_fin(&mut self) {
        match &mut self.sending {
            SendHalf::Idle(idle) => idle.fin_written = true,
            SendHalf::Active(sender) => sender.fin_written = true,
        }
        self.activate_sender();
    }

    /// Reads up to `bytes` of data that arrived in order, and returns how many there were.
    #[inline]
    pub fn read(&mut self, bytes: u64) -> u64 {
        let (taken, opens) = self.receiver.read(bytes, &self.settings);
        let ends = self.pushed && self.receiver.readable() == 0 && self.acknowledges_ends();
        self.receiver.ack_now |= (opens || ends) && self.state.takes_data();
        taken
    }

    /// Closes the sending side: FIN follows the data that was written.
    pub fn close(&mut self) {
        match self.state {
            State::Listen => self.enter_closed(),
            State::SynSent | State::SynReceived => self.write_fin(),
            State::Established => {
                self.state = State::FinWait1;
                self.write_fin();
            }
            State::CloseWait => {
                self.state = State::LastAck;
                self.write_fin();
            }
            _ => {}
        }
    }

    /// Aborts the connection, with RST if the peer knows of it.
    pub fn abort(&mut self) {
        if !matches!(self.state, State::Closed | State::Listen | State::SynSent | State::TimeWait) {
            self.reset_due = Some(self.sending.origin().seq(self.sending.next()));
        }
        if self.state != State::Closed {
            self.break_off(ResetReason::Aborted);
        }
    }

    /// What `SO_MAX_PACING_RATE` does: segments leave no faster, counted without their headers. From the first maximum on
    /// they are also spaced over the round trip, by the window. As in Linux, they stay spaced after the maximum is removed.
    pub fn set_max_pacing_rate(&mut self, rate: Option<Rate>) {
        let max = rate.or(self.max_pacing_rate().and(Some(Rate::MAX)));
        match &mut self.sending {
            SendHalf::Idle(idle) => idle.max_pacing_rate = MaxPacingRate::new(max),
            SendHalf::Active(sender) => sender.max_pacing_rate = MaxPacingRate::new(max),
        }
    }

    /// Changes the congestion control algorithm, as `TCP_CONGESTION` does. The new one begins with the window of the old
    /// one. As in Linux, a sender that its congestion control paced stays paced.
    pub fn set_congestion_control(&mut self, algorithm: CongestionAlgorithm) {
        if self.settings.congestion_control == algorithm {
            return;
        }
        self.settings = Arc::new(Settings::clone(&self.settings).with_congestion_control(algorithm));
        let SendHalf::Active(sender) = &mut self.sending else { return };
        let paced = sender.congestion.models_path();
        sender.congestion.set_algorithm(algorithm);
        if paced && self.max_pacing_rate().is_none() {
            self.set_max_pacing_rate(Some(Rate::MAX));
        }
    }

    /// Sets the window of a sender whose window is [held](CongestionAlgorithm::Held), bytes; without effect on others.
    #[cold]
    pub fn hold_window(&mut self, cwnd: u32) {
        if let SendHalf::Active(sender) = &mut self.sending {
            sender.congestion.hold(cwnd);
        }
    }

    /// Runs the timers that are due. A call at any other time has no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.slots.pacing <= now {
            self.slots.pacing = Instant::FAR_FUTURE;
        }
        if self.slots.delayed_ack <= now {
            self.handle_delayed_ack();
        }
        match self.slots.expired(now) {
            None | Some(Wakeup::DelayedAck | Wakeup::Pacing) => {}
            Some(Wakeup::TimeWait) => self.enter_closed(),
            Some(Wakeup::Persist) => self.handle_persist(now),
            Some(Wakeup::Retransmission) => self.handle_retransmission(now),
            Some(Wakeup::Probe) => {
                if let Some((sender, mut context)) = self.sender(now) {
                    sender.handle_probe_timeout(&mut context);
                }
            }
            Some(Wakeup::Reordering) => {
                if let Some((sender, mut context)) = self.sender(now) {
                    sender.handle_reordering_timeout(&mut context);
                }
            }
        }
    }

    fn handle_retransmission(&mut self, now: Instant) {
        let goes_on = if matches!(self.state, State::SynSent | State::SynReceived) {
            self.retransmit_syn(now)
        } else {
            self.sender(now).is_none_or(|(sender, mut context)| sender.handle_rto(&mut context))
        };
        if !goes_on {
            self.break_off(ResetReason::TimedOut);
        }
    }

    fn handle_persist(&mut self, now: Instant) {
        let Some((sender, mut context)) = self.sender(now) else { return };
        sender.retries = sender.retries.saturating_add(1);
        if sender.window_closed() {
            sender.arm_persist(&mut context);
            self.window_probe_due = true;
        } else {
            sender.small_forced = true;
        }
    }

    /// The next event since the last call, in this order: connected, readable, writable, closed by the peer, closed, reset.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.next()
    }

    /// When to call `handle_timeout`, and for which timer.
    #[inline]
    pub fn next_wakeup(&self) -> Option<(Instant, Wakeup)> {
        self.slots.next()
    }

    pub(crate) fn enter_closed(&mut self) {
        self.state = State::Closed;
        self.slots = self.slots.cleared();
    }

    pub(crate) fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        let time_wait = self.settings.timers.time_wait;
        self.slots.arm(now + time_wait, Wakeup::TimeWait);
        self.events.raise(Event::Closed);
    }

    pub(crate) fn break_off(&mut self, reason: ResetReason) {
        self.enter_closed();
        self.syn_due = false;
        self.receiver.ack_now = false;
        self.window_probe_due = false;
        self.events.raise(Event::Reset(reason));
    }

    /// Raises `Writable` for a writer that waits, once there is room for two segments or half the buffer.
    #[inline]
    pub(crate) fn notify_writable(&mut self) {
        if self.writer_waits {
            let enough = (2 * u64::from(self.settings.mss)).min(self.settings.send_buffer / 2);
            if self.send_room() >= enough {
                self.writer_waits = false;
                self.events.raise(Event::Writable);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::Repair;
    use crate::scoreboard::Sent;

    #[test]
    fn ten_thousand_flows_take_little_memory() {
        // A flow one way has an endpoint at each end and one sender.
        assert!(size_of::<Endpoint>() <= 344, "{}", size_of::<Endpoint>());
        let flow = 2 * size_of::<Endpoint>() + size_of::<Sender>();
        assert!(flow <= 1048, "{flow}");
        assert_eq!(size_of::<Sent>(), 32);
        assert!(size_of::<Repair>() <= 80, "{}", size_of::<Repair>());
    }
}
