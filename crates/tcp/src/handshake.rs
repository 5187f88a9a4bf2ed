//! How a connection begins (RFC 9293 §3.5): SYN, its options, its repetition.
//!
//! A SYN that had to be repeated leaves an initial window of one segment (RFC 5681 §3.1) and, without a sample, a
//! timeout of 3 s (RFC 6298 §5.7). As in Linux, one repetition alone leaves the window as it is.

use std::time::Duration;

use trunkline_packet::TcpFlags;
use trunkline_units::{Instant, Seq};

use crate::congestion::Congestion;
use crate::endpoint::{Endpoint, sending};
use crate::sender::Context;
use crate::state::{Event, ResetReason, State};
use crate::{Options, Recovery, Segment};

const FALL_BACK: Duration = Duration::from_secs(3);

/// The shift that lets `buffer` be offered in 16 bits (RFC 7323 §2.3).
fn shift_for(buffer: u64) -> u8 {
    (0..14).find(|shift| u16::try_from(buffer >> shift).is_ok()).unwrap_or(14)
}

impl Endpoint {
    pub(crate) fn send_syn(&mut self, now: Instant) {
        self.syn_due = true;
        self.sender.next = 1;
        self.sender.delivery.first_sent = now;
        let (sender, mut context) = sending!(self, now);
        sender.arm_retransmission(&mut context);
    }

    /// `false` if it was repeated too often.
    pub(crate) fn repeat_syn(&mut self, now: Instant) -> bool {
        self.counters.timeouts += 1;
        if self.sender.retries >= self.settings.timers.most_retries {
            return false;
        }
        self.sender.retries += 1;
        self.counters.retransmitted += 1;
        self.sender.rtt.back_off();
        self.syn_due = true;
        let (sender, mut context) = sending!(self, now);
        sender.arm_retransmission(&mut context);
        true
    }

    /// SYN, or SYN with ACK.
    pub(crate) fn syn(&mut self, now: Instant) -> Segment {
        let settings = &self.settings;
        let answer = self.state == State::SynReceived;
        let ecn = if answer { self.sender.ecn } else { settings.ecn };
        let scaling =
            if answer { self.receiver.shift > 0 || self.sender.shift > 0 } else { settings.window_scaling };
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
        self.receiver.origin.0 = segment.seq;
        self.timestamps = settings.timestamps && options.timestamps.is_some();
        self.sack = settings.sack && options.sack_permitted;
        if let Some((value, _)) = options.timestamps {
            self.receiver.ts_recent = value;
        }
        if settings.window_scaling
            && let Some(shift) = options.window_scale
        {
            self.sender.shift = shift;
            self.receiver.shift = shift_for(settings.receive_buffer);
        }
        let ecn = match self.state {
            State::SynSent => segment.flags.contains(TcpFlags::ECE) && !segment.flags.contains(TcpFlags::CWR),
            _ => segment.flags.contains(TcpFlags::ECE | TcpFlags::CWR),
        };
        self.sender.ecn = settings.ecn && ecn;
        // RFC 9293 §3.7.1: 536 if the peer does not say; options count as data.
        let mss = settings.mss.min(options.mss.unwrap_or(536)).max(64);
        self.sender.mss = mss - if self.timestamps { 12 } else { 0 };
        self.sender.congestion = Congestion::new(settings, self.sender.mss());
        if !self.sack && matches!(settings.recovery, Recovery::Sack | Recovery::RackTlp) {
            self.sender.kind = Recovery::NewReno;
        }
        self.sender.edge = 1 + u64::from(segment.window);
        self.sender.largest_window = u32::from(segment.window);
        self.sender.window_from = (segment.seq, segment.ack);
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
            self.send_syn(now);
        }
    }

    pub(crate) fn handle_in_syn_sent(&mut self, now: Instant, segment: &Segment) {
        let answers = segment.flags.contains(TcpFlags::ACK);
        if answers && segment.ack != self.sender.origin.seq(1) {
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
        self.sender.una = 1;
        self.slots.disarm();
        let repeats = self.sender.retries;
        if repeats == 0 {
            let rtt = now - self.sender.delivery.first_sent;
            let (sender, mut context) = sending!(self, now);
            sender.take_sample(&mut context, rtt);
        } else {
            self.sender.rtt.fall_back(FALL_BACK);
            if repeats > 1 {
                let mss = self.sender.mss();
                self.sender.congestion.set_cwnd(mss);
            }
        }
        self.sender.retries = 0;
        self.sender.round_end = 1;
        self.syn_due = false;
        self.state = if self.sender.fin_written { State::FinWait1 } else { State::Established };
        self.events.raise(Event::Connected);
    }
}
