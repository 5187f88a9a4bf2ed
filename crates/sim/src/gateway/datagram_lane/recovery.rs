//! Acknowledgements, losses and timeouts of a lane of datagrams (RFC 9002 §6 and §7.3, RFC 6298).

use std::time::Duration;

use trunkline_tcp::{Ack, CongestionSignal};
use trunkline_units::{Instant, Rate};

use super::{DatagramLane, MASK, MAX_LOST, REORDERING, Reduction};
use crate::state::NetworkState;

impl DatagramLane {
    pub(super) fn rto(&self) -> Duration {
        let timers = &self.settings.tcp.timers;
        let base =
            self.srtt.map_or(timers.initial_rto, |srtt| (srtt + self.variation * 4).max(timers.min_rto));
        (base * (1 << self.backoff.min(6))).min(timers.max_rto)
    }
    pub(super) fn handle_ack(&mut self, now: Instant, (largest, mask): (u32, u64), marks: u32) {
        let before = self.in_flight;
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
                newest = Some(*sent);
            }
        }
        let Some(newest) = newest else { return };
        (self.heard, self.backoff) = (now, 0);
        self.in_flight -= acked;
        self.delivered += u64::from(acked);
        let rtt = now.saturating_since(newest.at);
        self.sample(rtt);
        let elapsed = rtt.as_nanos().max(1);
        let bits = u128::from(self.delivered - newest.delivered) * 8_000_000_000 / elapsed;
        self.rate = Some(Rate::from_bits_per_second(bits as u64));

        let lost = self.find_lost(now, largest);
        // An acknowledgement that was overtaken tells of fewer.
        let marked = marks.wrapping_sub(self.marks_seen).cast_signed() > 0;
        if marked {
            self.marks_seen = marks;
        }
        // What was sent before the last reduction is no reason for another, also where its loss is found later.
        let after_reduction = |number: u32| number.wrapping_sub(self.recovered).cast_signed() >= 0;
        let since_reduction = after_reduction(newest.number);
        let lost_since = lost.is_some_and(after_reduction);
        if lost_since || (marked && since_reduction) {
            self.stats.reductions += 1;
            let signal = if lost_since { CongestionSignal::Loss } else { CongestionSignal::EcnMark };
            self.congestion.reduce(before, signal);
            self.recovered = self.next;
            self.reduction = Some(Reduction { flight: before, settled: before - self.in_flight, sent: 0 });
        } else if !since_reduction {
            if let Some(reduction) = &mut self.reduction {
                reduction.settled += before - self.in_flight;
            }
        } else {
            self.reduction = None;
            let round_ended = newest.number.wrapping_sub(self.round).cast_signed() >= 0;
            // In slow start a window of twice what is used is no more than the next round trip may need.
            let slow_start =
                self.congestion.in_slow_start() && self.congestion.cwnd() < self.peak.saturating_mul(2);
            let limited = std::mem::take(&mut self.limited) || slow_start;
            if round_ended {
                self.round = self.next;
                self.peak = self.in_flight;
            }
            self.congestion.handle_ack(&Ack {
                now,
                acked,
                rtt: Some(rtt),
                srtt: self.srtt.unwrap_or(rtt),
                min_rtt: self.min_rtt.unwrap_or(rtt),
                in_flight: before,
                round_ended,
                window_limited: limited,
                delivered: self.rate.map(|rate| (rate, !limited)),
            });
        }
        while self.sent.front().is_some_and(|sent| sent.done) {
            self.sent.pop_front();
        }
    }

    /// Takes what is lost out of the window; the last number of it.
    fn find_lost(&mut self, now: Instant, largest: u32) -> Option<u32> {
        let reordering_timeout = self.srtt.unwrap_or_default() * 9 / 8;
        let (mut lost, mut last) = (0, None);
        for sent in &mut self.sent {
            let behind = largest.wrapping_sub(sent.number).cast_signed();
            if behind <= 0 {
                break;
            }
            let overtaken =
                behind >= REORDERING.cast_signed() || now.saturating_since(sent.at) > reordering_timeout;
            if !sent.done && overtaken {
                sent.done = true;
                lost += sent.bytes;
                last = Some(sent.number);
                self.stats.lost += 1;
                self.lost.push_back(sent.number);
            }
        }
        self.in_flight -= lost;
        last
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
        self.congestion.reduce(self.in_flight, CongestionSignal::Timeout);
        self.sent.clear();
        self.in_flight = 0;
        self.recovered = self.next;
        self.reduction = None;
        self.heard = net.now;
        self.backoff += 1;
    }
}
