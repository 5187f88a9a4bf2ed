//! The reaction to segments that arrive on a connection (RFC 9293 §3.10.7.4).

use trunkline_packet::TcpFlags;
use trunkline_units::Instant;

use crate::Segment;
use crate::acknowledgement::Incoming;
use crate::endpoint::Endpoint;
use crate::receiver::Marking;
use crate::send_half::SendHalf;
use crate::state::{Event, ResetReason, State};
use crate::timers::Clock;

impl Endpoint {
    /// A segment has arrived.
    #[inline]
    pub fn handle_segment(&mut self, now: Instant, segment: &Segment) {
        self.counters.segments_received += 1;
        self.counters.ce_marks_received += u32::from(segment.congestion_experienced);
        match self.state {
            State::Closed => {
                if !segment.flags.contains(TcpFlags::RST) && segment.flags.contains(TcpFlags::ACK) {
                    self.reset_due = Some(segment.ack);
                }
            }
            State::Listen => self.handle_in_listen(now, segment),
            State::SynSent => self.handle_in_syn_sent(now, segment),
            _ => self.handle_synchronized(now, segment),
        }
    }

    #[inline]
    fn handle_synchronized(&mut self, now: Instant, segment: &Segment) {
        let Some(start) = self.receiver.origin.place(segment.seq, self.receiver.next) else { return };
        let end = start + u64::from(segment.sequence_len());
        if segment.flags.intersects(TcpFlags::RST | TcpFlags::SYN) {
            return self.handle_exception(now, segment, start);
        }
        if !segment.flags.contains(TcpFlags::ACK) {
            return;
        }
        if self.timestamps
            && let Some((value, _)) = segment.options.timestamps
        {
            // PAWS (RFC 7323 §5.3).
            if value.wrapping_sub(self.receiver.ts_recent).cast_signed() < 0 {
                self.receiver.ack_now = true;
                return;
            }
            if start <= self.receiver.acknowledged {
                self.receiver.ts_recent = value;
            }
        }
        let probe = end < self.receiver.next && segment.sequence_len() == 0;
        if probe || start > self.receiver.edge {
            self.receiver.ack_now = true;
            return;
        }
        if !self.handle_acknowledgement(now, segment) {
            return;
        }
        if segment.sequence_len() > 0 {
            self.handle_data(now, segment, start);
        }
    }

    fn handle_exception(&mut self, now: Instant, segment: &Segment, start: u64) {
        if segment.flags.contains(TcpFlags::RST) {
            if start == self.receiver.next {
                let refused = self.state == State::SynReceived && self.sending.end() == 1;
                self.break_off(if refused { ResetReason::Refused } else { ResetReason::Peer });
            } else if start > self.receiver.next && start < self.receiver.edge {
                // RFC 5961 §3.2: a guess, perhaps.
                self.receiver.ack_now = true;
            }
        } else if self.state == State::SynReceived && start == 0 {
            if segment.flags.contains(TcpFlags::ACK) && segment.ack == self.sending.origin().seq(1) {
                // Both opened at once, and this is the peer's answer.
                self.establish(now);
                self.receiver.ack_now = true;
            } else {
                self.syn_due = true;
            }
        } else {
            self.receiver.ack_now = true;
        }
    }

    /// Whether the segment goes on to be looked at for its data.
    #[inline]
    fn handle_acknowledgement(&mut self, now: Instant, segment: &Segment) -> bool {
        let Some(place) = self.sending.origin().place(segment.ack, self.sending.una()) else { return false };
        if self.state == State::SynReceived {
            if place != 1 {
                self.reset_due = Some(segment.ack);
                return false;
            }
            self.establish(now);
        }
        if place > self.sending.next() {
            self.receiver.ack_now = true;
            return false;
        }
        let window = u32::from(segment.window) << self.sending.shift();
        if let SendHalf::Idle(idle) = &mut self.sending {
            idle.update_window((segment.seq, segment.ack), window);
            return true;
        }
        let echo = if self.timestamps {
            segment.options.timestamps.map(|(_, echo)| echo).filter(|echo| *echo != 0)
        } else {
            None
        };
        let incoming = Incoming {
            place,
            seq: segment.seq,
            window,
            carries: segment.sequence_len() > 0,
            sack: &segment.options.sack,
            echo,
            marked: segment.flags.contains(TcpFlags::ECE),
        };
        let Some((sender, mut context)) = self.sender(now) else { return true };
        sender.handle_ack(&mut context, &incoming);
        let finished = sender.fin_sent && sender.una == sender.next;
        self.notify_writable();
        if finished {
            match self.state {
                State::FinWait1 => self.state = State::FinWait2,
                State::Closing => self.enter_time_wait(now),
                State::LastAck => {
                    self.enter_closed();
                    self.events.raise(Event::Closed);
                }
                _ => {}
            }
        }
        true
    }

    #[inline]
    fn handle_data(&mut self, now: Instant, segment: &Segment, start: u64) {
        if !self.state.takes_data() {
            self.receiver.ack_now = true;
            if self.state == State::TimeWait {
                self.enter_time_wait(now);
            }
            return;
        }
        if self.sending.ecn() {
            self.handle_codepoint(segment, start);
        }
        if start >= self.receiver.edge && self.receiver.edge > self.receiver.next
            || start == self.receiver.edge && segment.payload > 0
        {
            self.receiver.ack_now = true;
            return;
        }
        let place = (start, start + u64::from(segment.payload), segment.flags.contains(TcpFlags::FIN));
        self.note_arrival(now);
        self.measure_round_trip(now, segment);
        let due = self.receiver.ack_now || self.receiver.has_gaps();
        let taken = self.receiver.take(place, now, &self.settings, &mut self.counters);
        if taken.duplicate {
            self.note_duplicate();
        }
        if taken.advanced && self.receiver.readable() > 0 {
            self.events.raise(Event::Readable);
        }
        if taken.delay
            && let Some(delayed) = self.settings.delayed_ack
        {
            let short = self.receiver.is_short(segment.payload);
            self.pushed |= delayed.pushed && (short || segment.flags.contains(TcpFlags::PSH));
            self.delay_ack(now, delayed, short);
        }
        if let Some(time) = self.settings.gro
            && !due
            && taken.advanced
            && !taken.finished
        {
            let ends =
                segment.congestion_experienced || segment.flags.intersects(TcpFlags::PSH | TcpFlags::CWR);
            self.coalesce(now, time, ends);
        }
        if taken.finished {
            self.events.raise(Event::RemoteClosed);
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                State::FinWait2 => self.enter_time_wait(now),
                _ => {}
            }
        }
    }

    /// ECE goes out from a mark to the peer's CWR (RFC 3168 §6.1.3). As in Linux, a mark that is not of old data, the answer to one
    /// and a retransmission, which cannot be marked, are acknowledged soon: the peer's window may be very small
    /// (`tcp_data_ecn_check`, `tcp_ecn_accept_cwr`).
    fn handle_codepoint(&mut self, segment: &Segment, start: u64) {
        let soon = self.settings.delayed_ack.is_some_and(|delayed| delayed.adaptive);
        let receiver = &mut self.receiver;
        if segment.flags.contains(TcpFlags::CWR) {
            if receiver.marking == Marking::Echoed {
                receiver.marking = Marking::Unmarked;
            }
            receiver.ack_now |= soon;
        }
        if start + u64::from(segment.sequence_len()) <= receiver.next {
            return;
        }
        let before = receiver.marking;
        if segment.congestion_experienced {
            receiver.marking = Marking::Echoed;
            receiver.ack_now |= before != Marking::Echoed && !soon;
        } else if segment.ecn_capable && before == Marking::Unable {
            receiver.marking = Marking::Unmarked;
        }
        let first = segment.congestion_experienced && before != Marking::Echoed;
        let repeated = !segment.ecn_capable && !segment.congestion_experienced && before != Marking::Unable;
        if soon && (first || repeated) {
            self.acknowledge_soon();
        }
    }

    /// The receiver's own estimate of the round trip, which the growth of its buffer needs.
    #[inline]
    fn measure_round_trip(&mut self, now: Instant, segment: &Segment) {
        if self.settings.initial_receive_buffer.is_none() {
            return;
        }
        let clock = Clock::of(&self.settings.timers);
        let echo = segment.options.timestamps.filter(|_| self.timestamps).map(|(_, echo)| echo);
        let age = |echo: u32| clock.nanos(clock.timestamp(now).wrapping_sub(echo));
        self.receiver.measure(now, echo, segment.payload, &self.settings, age);
    }
}
