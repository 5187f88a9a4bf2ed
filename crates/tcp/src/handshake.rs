//! The opening of a connection (RFC 9293 §3.5): SYN, its options, its retransmission.

use std::time::Duration;

use trunkline_packet::TcpFlags;
use trunkline_units::{Instant, Seq};

use crate::endpoint::Endpoint;
use crate::send_half::SendHalf;
use crate::state::{Event, ResetReason, State};
use crate::timers::{Wakeup, expiry, nanos};
use crate::{Options, Recovery, Segment};

/// The shift that lets `buffer` be offered in 16 bits (RFC 7323 §2.3).
fn shift_for(buffer: u64) -> u8 {
    (0..14).find(|shift| u16::try_from(buffer >> shift).is_ok()).unwrap_or(14)
}

impl Endpoint {
    pub(crate) fn send_syn(&mut self, now: Instant) {
        self.syn_due = true;
        if let SendHalf::Idle(idle) = &mut self.sending {
            idle.syn_sent = now;
        }
        self.arm_syn(now);
    }

    fn arm_syn(&mut self, now: Instant) {
        let delay = nanos(self.sending.rto(&self.settings));
        self.slots.arm(expiry(now, delay, &self.settings.timers), Wakeup::Retransmission);
    }

    /// `false` if it was retransmitted too often.
    pub(crate) fn retransmit_syn(&mut self, now: Instant) -> bool {
        self.counters.timeouts += 1;
        let SendHalf::Idle(idle) = &mut self.sending else { return true };
        let timers = &self.settings.timers;
        let max =
            if idle.answers { timers.max_syn_ack_retransmissions } else { timers.max_syn_retransmissions };
        if idle.syn_retransmissions >= max {
            return false;
        }
        idle.syn_retransmissions += 1;
        self.counters.retransmitted += 1;
        self.syn_due = true;
        self.arm_syn(now);
        true
    }

    /// SYN, or SYN with ACK.
    pub(crate) fn syn(&mut self, now: Instant) -> Segment {
        let settings = &self.settings;
        let answer = self.state == State::SynReceived;
        // A SYN that was lost may have been taken for what it offered (RFC 3168 §6.1.1.1).
        let repeated = matches!(&self.sending, SendHalf::Idle(idle) if idle.syn_retransmissions > 0);
        let ecn = if answer { self.sending.ecn() } else { settings.ecn && !repeated };
        let scaling = if answer { self.scaled } else { settings.window_scaling };
        let flags = match (answer, ecn) {
            (false, false) => TcpFlags::SYN,
            (false, true) => TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR,
            (true, false) => TcpFlags::SYN | TcpFlags::ACK,
            (true, true) => TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE,
        };
        let options = Options {
            mss: Some(settings.mss),
            window_scale: scaling.then(|| shift_for(settings.receive_buffer)),
            sack_permitted: if answer { self.sack } else { settings.sack },
            ..Options::default()
        };
        let stamped = if answer { self.timestamps } else { settings.timestamps };
        let mut segment = self.header(now, 0, flags, stamped);
        segment.options = Options { timestamps: segment.options.timestamps, ..options };
        if !answer {
            segment.ack = Seq(0);
        }
        segment
    }

    /// Takes from the peer's SYN what both understand.
    fn agree(&mut self, segment: &Segment) {
        let settings = &self.settings;
        let options = &segment.options;
        let SendHalf::Idle(idle) = &mut self.sending else { return };
        self.receiver.origin.0 = segment.seq;
        self.timestamps = settings.timestamps && options.timestamps.is_some();
        self.sack = settings.sack && options.sack_permitted;
        if let Some((value, _)) = options.timestamps {
            self.receiver.ts_recent = value;
        }
        if settings.window_scaling
            && let Some(shift) = options.window_scale
        {
            self.scaled = true;
            idle.shift = shift;
            self.receiver.shift = shift_for(settings.receive_buffer);
        }
        let echoes = segment.flags.contains(TcpFlags::ECE);
        let offers = segment.flags.contains(TcpFlags::CWR);
        idle.ecn = settings.ecn && echoes && (offers != (self.state == State::SynSent));
        // RFC 9293 §3.7.1: 536 if the peer does not say; options count as data.
        let mss = idle.mss.min(options.mss.unwrap_or(536)).max(64);
        idle.mss = mss - if self.timestamps { 12 } else { 0 };
        if !self.sack && matches!(settings.recovery, Recovery::Sack | Recovery::RackTlp) {
            idle.kind = Recovery::NewReno;
        }
        idle.edge = 1 + u64::from(segment.window);
        idle.largest_window = u32::from(segment.window);
        idle.window_from = (segment.seq, segment.ack);
    }

    pub(crate) fn handle_in_listen(&mut self, now: Instant, segment: &Segment) {
        if segment.flags.contains(TcpFlags::RST) {
            return;
        }
        if segment.flags.contains(TcpFlags::ACK) {
            self.reset_due = Some(segment.ack);
        } else if segment.flags.contains(TcpFlags::SYN) {
            self.agree(segment);
            self.state = State::SynReceived;
            if let SendHalf::Idle(idle) = &mut self.sending {
                idle.answers = true;
            }
            self.send_syn(now);
        }
    }

    pub(crate) fn handle_in_syn_sent(&mut self, now: Instant, segment: &Segment) {
        let answers = segment.flags.contains(TcpFlags::ACK);
        if answers && segment.ack != self.sending.origin().seq(1) {
            if !segment.flags.contains(TcpFlags::RST) {
                self.reset_due = Some(segment.ack);
            }
        } else if segment.flags.contains(TcpFlags::RST) {
            if answers {
                self.break_off(ResetReason::Refused);
            }
        } else if segment.flags.contains(TcpFlags::SYN) {
            self.agree(segment);
            if answers {
                self.establish(now);
                self.receiver.ack_now = true;
            } else {
                self.state = State::SynReceived;
                self.syn_due = true;
            }
        }
    }

    /// The SYN sent here has been acknowledged.
    pub(crate) fn establish(&mut self, now: Instant) {
        self.slots.disarm();
        self.syn_due = false;
        if let SendHalf::Idle(idle) = &mut self.sending
            && idle.syn_retransmissions == 0
        {
            let rtt = (now - idle.syn_sent).max(Duration::from_nanos(1));
            idle.syn_rtt = rtt.as_nanos() as u64;
            self.counters.sample(rtt);
        }
        self.state = if self.sending.fin_written() { State::FinWait1 } else { State::Established };
        self.activate_sender();
        self.events.raise(Event::Connected);
    }
}
