//! The segments that an endpoint sends.

use trunkline_packet::TcpFlags;
use trunkline_units::Instant;

use crate::endpoint::Endpoint;
use crate::receiver::Marking;
use crate::sender::Outgoing;
use crate::state::State;
use crate::timers::Clock;
use crate::{SackBlocks, Segment};

impl Endpoint {
    /// The next segment to send: RST, SYN, retransmissions, new data, an acknowledgement, a zero-window probe, in this order.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        let segment = self.poll_segment(now)?;
        self.counters.segments_sent += 1;
        Some(segment)
    }

    #[inline]
    fn poll_segment(&mut self, now: Instant) -> Option<Segment> {
        if let Some(seq) = self.reset_due.take() {
            return Some(self.reset(now, seq));
        }
        if self.syn_due {
            self.syn_due = false;
            return Some(self.syn(now));
        }
        if self.state.sends_data()
            && let Some((sender, mut context)) = self.sender(now)
            && let Some(outgoing) = sender.poll(&mut context)
        {
            return Some(self.data(now, &outgoing));
        }
        if self.receiver.ack_now {
            self.counters.acks_sent += 1;
            let next = self.sending.next();
            return Some(self.header(now, next, TcpFlags::ACK, self.timestamps));
        }
        if self.window_probe_due {
            // As Linux does it: an old number, which the peer must answer.
            self.window_probe_due = false;
            self.counters.window_probes += 1;
            let old = self.sending.una() - 1;
            return Some(self.header(now, old, TcpFlags::ACK, self.timestamps));
        }
        None
    }

    /// A segment without data, with an acknowledgement.
    #[inline]
    pub(crate) fn header(&mut self, now: Instant, place: u64, mut flags: TcpFlags, stamped: bool) -> Segment {
        let shift = if flags.contains(TcpFlags::SYN) { 0 } else { self.receiver.shift };
        self.note_acknowledged();
        let window = self.receiver.offer(&self.settings, shift);
        self.slots.delayed_ack = Instant::FAR_FUTURE;
        self.pushed = false;
        self.gathers = false;
        if self.receiver.marking == Marking::Echoed {
            flags = flags | TcpFlags::ECE;
        }
        let mut segment = Segment {
            seq: self.sending.origin().seq(place),
            ack: self.receiver.origin.seq(self.receiver.next),
            flags,
            window,
            ..Segment::default()
        };
        if stamped {
            let value = Clock::of(&self.settings.timers).timestamp(now);
            segment.options.timestamps = Some((value, self.receiver.ts_recent));
        }
        if self.sack && flags.contains(TcpFlags::ACK) {
            let max_blocks = SackBlocks::MAX - usize::from(stamped);
            segment.options.sack = self.receiver.sack_blocks(max_blocks);
        }
        segment
    }

    #[inline]
    fn data(&mut self, now: Instant, outgoing: &Outgoing) -> Segment {
        let mut flags = TcpFlags::ACK;
        if outgoing.fin {
            flags = flags | TcpFlags::FIN;
        }
        if outgoing.push {
            flags = flags | TcpFlags::PSH;
        }
        if outgoing.reduced {
            flags = flags | TcpFlags::CWR;
        }
        self.note_answer(now);
        let mut segment = self.header(now, outgoing.start, flags, self.timestamps);
        segment.payload = u32::from(outgoing.len);
        // RFC 3168 §6.1.5: not on what is sent again.
        segment.ecn_capable = self.sending.ecn() && !outgoing.retransmission && outgoing.len > 0;
        segment
    }

    fn reset(&mut self, now: Instant, seq: trunkline_units::Seq) -> Segment {
        let acknowledges = self.state != State::Listen && self.state != State::SynSent;
        let mut segment = self.header(now, 0, TcpFlags::RST, false);
        segment.seq = seq;
        if acknowledges {
            segment.flags = TcpFlags::RST | TcpFlags::ACK;
        }
        segment
    }
}
