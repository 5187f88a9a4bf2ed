//! Acknowledgements and losses of a connection (RFC 9002 §6 and §7), in the order in which the gateway's library and its
//! controller take them: what an acknowledgement names, the round-trip time, losses, marks.

use trunkline_congestion::{Feedback, PACKET_THRESHOLD};
use trunkline_units::Instant;

use super::arrivals::{Ack, WINDOW};
use super::connection::{Connection, Fate};

/// Probe timeouts for which nothing of what was sent arrived make congestion persistent (RFC 9002 §7.6.1).
const PERSISTENT: u32 = 3;

impl Connection {
    /// Takes an acknowledgement.
    pub(super) fn handle_ack(&mut self, now: Instant, ack: &Ack) {
        let mut acked = 0;
        let mut newest = None;
        let mut sample = None;
        let skipped = ack.largest.saturating_sub(WINDOW).saturating_sub(self.first);
        let first = self.first + skipped;
        for (number, sent) in (first..=ack.largest).zip(self.sent.iter_mut().skip(skipped as usize)) {
            if !ack.names(number) {
                continue;
            }
            match std::mem::replace(&mut sent.fate, Fate::Acknowledged) {
                Fate::InFlight => {}
                Fate::Lost => {
                    self.stats.late += 1;
                    continue;
                }
                Fate::Acknowledged => continue,
            }
            acked += sent.bytes;
            newest = Some(sent.departure);
            self.in_flight = (self.in_flight.0 - 1, self.in_flight.1 - sent.bytes);
            self.acknowledged.handle_acknowledged(sent.at, sent.bytes.into());
            sent.repairs = Vec::new();
            if number == ack.largest && self.largest_acked.is_none_or(|largest| largest < number) {
                sample = Some(now.saturating_since(sent.at));
            }
        }
        self.largest_acked = self.largest_acked.max(Some(ack.largest));
        if let Some(newest) = newest {
            let feedback = self.feedback(now);
            let reduced =
                self.control.handle_feedback(&Feedback { acked: Some((acked, newest)), ..feedback });
            debug_assert!(!reduced, "nothing is lost or marked");
        }
        self.control.set_in_flight(self.in_flight.1);
        self.pass_over_acknowledged();
        if let Some(sample) = sample {
            self.rtt.update(sample, ack.delay);
            self.known_from.get_or_insert(self.first + self.sent.len() as u32);
        }
        self.detect_losses(now, true);
        self.probe_timeouts = 0;
        // An acknowledgement that was overtaken tells of fewer.
        if ack.marks > self.marks_seen {
            self.marks_seen = ack.marks;
            if let Some(newest) = newest {
                let feedback = self.feedback(now);
                let marked = Feedback { acked: Some((0, newest)), marked: true, ..feedback };
                self.stats.reductions += u64::from(self.control.handle_feedback(&marked));
            }
        }
        self.forget_settled();
    }

    /// Finds what is lost: overtaken by many, or by time.
    pub(super) fn detect_losses(&mut self, now: Instant, by_acknowledgement: bool) {
        let Some(largest) = self.largest_acked else { return };
        let delay = self.rtt.loss_delay();
        let congestion_period = self.rtt.probe_timeout() * PERSISTENT;
        let (mut lost_bytes, mut last) = (0, None);
        let (mut repairs, mut is_persistent, mut gap_from) = (Vec::new(), false, None);
        self.loss_time = None;
        for (number, sent) in (self.first..largest).zip(&mut self.sent) {
            match sent.fate {
                Fate::InFlight => {}
                Fate::Lost => continue,
                Fate::Acknowledged => {
                    gap_from = None;
                    continue;
                }
            }
            let lost_at = sent.at + delay;
            if lost_at > now && largest - number < PACKET_THRESHOLD {
                self.loss_time = Some(self.loss_time.map_or(lost_at, |time| time.min(lost_at)));
                gap_from = None;
                continue;
            }
            sent.fate = Fate::Lost;
            lost_bytes += sent.bytes;
            last = Some((sent.at, sent.departure));
            self.stats.repaired += u64::from(!sent.repairs.is_empty());
            repairs.append(&mut sent.repairs);
            self.in_flight = (self.in_flight.0 - 1, self.in_flight.1 - sent.bytes);
            self.stats.lost += 1;
            if by_acknowledgement && self.known_from.is_some_and(|known| known < number) {
                let from = *gap_from.get_or_insert(sent.at);
                is_persistent |= sent.at.saturating_since(from) > congestion_period;
            }
        }
        let Some((at, departure)) = last else { return };
        self.lost_bytes += u64::from(lost_bytes);
        self.retransmit(repairs);
        self.acknowledged.handle_lost(now, at, lost_bytes.into());
        let feedback = self.feedback(now);
        let lost = Feedback { lost: Some((lost_bytes, departure)), ..feedback };
        self.stats.reductions += u64::from(self.control.handle_feedback(&lost));
        if is_persistent {
            self.control.handle_timeout();
        }
        self.pass_over_acknowledged();
    }

    /// Notes how far the far end has everything.
    fn pass_over_acknowledged(&mut self) {
        self.acknowledged.advance();
        if self.in_flight.0 == 0 {
            self.acknowledged.handle_nothing_in_flight();
        }
    }

    /// Forgets packets that the other end would no longer take.
    fn forget_settled(&mut self) {
        while let Some(sent) = self.sent.front()
            && sent.fate != Fate::InFlight
            && self.largest_acked.is_some_and(|largest| self.first + WINDOW < largest)
        {
            self.sent.pop_front();
            self.first += 1;
        }
    }
}
