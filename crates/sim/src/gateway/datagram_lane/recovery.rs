//! Acknowledgements, losses and timeouts of a lane of datagrams (RFC 9002 §6 and §7.3, RFC 6298).

use std::time::Duration;

use trunkline_congestion::{Departure, Feedback};
use trunkline_units::Instant;

use super::{DatagramLane, MASK, MAX_LOST, REORDERING};
use crate::state::NetworkState;

impl DatagramLane {
    pub(super) fn rto(&self) -> Duration {
        let timers = &self.settings.tcp.timers;
        let base =
            self.srtt.map_or(timers.initial_rto, |srtt| (srtt + self.variation * 4).max(timers.min_rto));
        (base * (1 << self.backoff.min(6))).min(timers.max_rto)
    }

    pub(super) fn handle_ack(&mut self, now: Instant, (largest, mask): (u32, u64), marks: u32) {
        let named = |number: u32| {
            let behind = largest.wrapping_sub(number).cast_signed();
            behind == 0 || ((1..=MASK).contains(&behind) && mask >> (behind - 1) & 1 == 1)
        };
        let given_up = self.lost.len();
        self.lost.retain(|number| !named(*number));
        self.stats.late += (given_up - self.lost.len()) as u64;
        // No later acknowledgement can name what this one cannot.
        let beyond = |number: u32| largest.wrapping_sub(number).cast_signed() > MASK;
        while self.lost.front().is_some_and(|number| beyond(*number)) {
            self.lost.pop_front();
        }
        let (mut acked, mut newest) = (0, None);
        for sent in &mut self.sent {
            if largest.wrapping_sub(sent.number).cast_signed() < 0 {
                break;
            }
            if !sent.done && named(sent.number) {
                sent.done = true;
                acked += sent.bytes;
                newest = Some(sent.departure);
            }
        }
        let Some(newest) = newest else { return };
        (self.heard, self.backoff) = (now, 0);
        self.sample(now.saturating_since(newest.at));
        let lost = self.find_lost(now, largest);
        // An acknowledgement that was overtaken tells of fewer.
        let marked = marks.wrapping_sub(self.marks_seen).cast_signed() > 0;
        if marked {
            self.marks_seen = marks;
        }
        let reduced = self.window.handle_feedback(&Feedback {
            now,
            acked: Some((acked, newest)),
            lost,
            marked,
            srtt: self.srtt.unwrap_or_default(),
            min_rtt: self.min_rtt.unwrap_or_default(),
        });
        self.stats.reductions += u64::from(reduced);
        while self.sent.front().is_some_and(|sent| sent.done) {
            self.sent.pop_front();
        }
    }

    /// Finds what is lost: its bytes, and the last of it.
    fn find_lost(&mut self, now: Instant, largest: u32) -> Option<(u32, Departure)> {
        let reordering_timeout = self.srtt.unwrap_or_default() * 9 / 8;
        let mut lost: Option<(u32, Departure)> = None;
        for sent in &mut self.sent {
            let behind = largest.wrapping_sub(sent.number).cast_signed();
            if behind <= 0 {
                break;
            }
            let overtaken = behind >= REORDERING.cast_signed()
                || now.saturating_since(sent.departure.at) > reordering_timeout;
            if !sent.done && overtaken {
                sent.done = true;
                lost = Some((lost.map_or(0, |(bytes, _)| bytes) + sent.bytes, sent.departure));
                self.stats.lost += 1;
                self.lost.push_back(sent.number);
            }
        }
        lost
    }

    fn sample(&mut self, rtt: Duration) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        match self.srtt {
            None => (self.srtt, self.variation) = (Some(rtt), rtt / 2),
            Some(srtt) => {
                self.variation = (self.variation * 3 + srtt.abs_diff(rtt)) / 4;
                self.srtt = Some((srtt * 7 + rtt) / 8);
            }
        }
    }

    pub(in crate::gateway) fn handle_timeout(&mut self, net: &NetworkState) {
        if self.sent.is_empty() || net.now < self.heard + self.rto() {
            return;
        }
        self.stats.timeouts += 1;
        let before = self.lost.len();
        self.lost.extend(self.sent.iter().filter(|sent| !sent.done).map(|sent| sent.number));
        self.stats.lost += (self.lost.len() - before) as u64;
        let beyond = self.lost.len().saturating_sub(MAX_LOST);
        self.lost.drain(..beyond);
        self.window.handle_timeout();
        self.sent.clear();
        self.heard = net.now;
        self.backoff += 1;
    }
}
