//! Whether packets pass that are as long as QUIC requires a path to carry: 1200 bytes of UDP data (RFC 9000 §14).
//!
//! The library lowers the length of its packets to that and no further. On a path that carries less, acknowledgements and PINGs
//! pass, so nothing looks dead, and nothing of the lane's data arrives. The sender finds it out: packets of some length and more
//! leave again and again, and none of them is acknowledged. Losses without regard to length are no reason, since the first that
//! arrives ends the doubt. A TCP inside that hears nothing sends ever more seldom, so a lane of datagrams in doubt sends packets of that
//! length of its own, each [`PROBES`].

use std::time::Duration;

use trunkline_units::Instant;

use super::settings::MIN_PACKET;

/// Bytes of packets that are looked at together: those of that length and more. A lane whose packets are short tells of a path
/// that carries even less.
const LENGTHS: [u64; 3] = [500, 800, 1100];
/// Packets without an answer make a hole after this time or so many round trips, if they left in [`ROUNDS`] of these.
const PATIENCE: Duration = Duration::from_secs(2);
const ROUND_TRIPS: u32 = 6;
const ROUNDS: u32 = 5;
/// One that is no longer than QUIC requires has so much time at least to be acknowledged.
const ANSWER: Duration = Duration::from_millis(200);
/// A round trip is taken for so much at least.
const MIN_ROUND: Duration = Duration::from_millis(20);
/// A doubt that has lasted for so long, or three round trips, is worth a probe.
const DOUBT: Duration = Duration::from_millis(250);
/// Between two probes, and between two when the answer is known: it may change.
const PROBES: Duration = Duration::from_millis(150);
const LATER_PROBES: Duration = Duration::from_secs(1);
/// What left before such a pause says nothing of now. A single TCP inside backs off to nearly that.
const PAUSE: Duration = Duration::from_secs(15);

/// Packets that left since the last of their length that was acknowledged.
#[derive(Debug, Clone, Copy)]
struct Unanswered {
    since: Instant,
    /// Round trips in which one left, and when the last of these began.
    rounds: u32,
    last: Instant,
    /// When the first left that was no longer than QUIC requires. Longer ones are the library's to make shorter.
    required: Option<Instant>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Lengths([Option<Unanswered>; LENGTHS.len()]);

impl Lengths {
    /// A packet of so many bytes leaves, which is to be acknowledged.
    pub(super) fn handle_sent(&mut self, now: Instant, bytes: u64, srtt: Duration) {
        for (unanswered, length) in self.0.iter_mut().zip(LENGTHS) {
            if bytes < length {
                return;
            }
            let required = (bytes <= u64::from(MIN_PACKET)).then_some(now);
            let new = Unanswered { since: now, rounds: 1, last: now, required };
            let Some(known) = unanswered.as_mut().filter(|it| now.saturating_since(it.last) < PAUSE) else {
                *unanswered = Some(new);
                continue;
            };
            known.required = known.required.or(required);
            if now.saturating_since(known.last) >= srtt.max(MIN_ROUND) {
                (known.rounds, known.last) = (known.rounds + 1, now);
            }
        }
    }

    /// One of so many bytes was acknowledged.
    pub(super) fn handle_acknowledged(&mut self, bytes: u64) {
        for (unanswered, length) in self.0.iter_mut().zip(LENGTHS) {
            if bytes < length {
                return;
            }
            *unanswered = None;
        }
    }

    /// How long after the last probe of [`MIN_PACKET`] bytes another is due, if it is open whether these pass. A lane alone that loses the last
    /// packet of a burst now and then is in no doubt: two round trips must have been without an answer.
    pub(super) fn probes(&self, now: Instant, srtt: Duration) -> Option<Duration> {
        let is_doubtful =
            |it: &Unanswered| it.rounds > 1 && now.saturating_since(it.since) >= DOUBT.max(3 * srtt);
        let interval = if self.is_hole(now, srtt) { LATER_PROBES } else { PROBES };
        self.0.iter().flatten().any(is_doubtful).then_some(interval.max(srtt))
    }

    /// Whether only shorter packets pass.
    pub(super) fn is_hole(&self, now: Instant, srtt: Duration) -> bool {
        let patience = PATIENCE.max(srtt * ROUND_TRIPS);
        let answer = ANSWER.max(srtt * ROUND_TRIPS / 2);
        let is_over = |since: Instant, time| now.saturating_since(since) >= time;
        self.0.iter().flatten().any(|it| {
            it.rounds >= ROUNDS
                && is_over(it.since, patience)
                && it.required.is_some_and(|first| is_over(first, answer))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Packets of these lengths each 100 ms, of which those of `passes` bytes and less are acknowledged. When the hole is found.
    fn found(lengths: &[u64], passes: u64) -> Option<u64> {
        let mut seen = Lengths::default();
        (0..100_u64).map(|round| round * 100).find(|ms| {
            for bytes in lengths {
                seen.handle_sent(at(*ms), *bytes, RTT);
            }
            for bytes in lengths.iter().filter(|bytes| **bytes <= passes) {
                seen.handle_acknowledged(*bytes);
            }
            seen.is_hole(at(*ms), RTT)
        })
    }

    #[test]
    fn a_path_that_carries_less_than_1200_bytes_is_found_within_two_seconds() {
        assert_eq!(found(&[1200], 548), Some(2000));
        assert_eq!(found(&[100, 1200], 548), Some(2000), "short ones pass");
        assert_eq!(found(&[100, 520, 1200], 548), Some(2000));
        assert_eq!(found(&[700], 548), Some(2000));
        assert_eq!(found(&[100, 700], 548), Some(2000));
    }

    /// A TCP inside doubles its time-out from 200 ms on: its fifth round alone would be after 3 s, and if the library makes packets shorter
    /// meanwhile, later.
    #[test]
    fn with_probes_a_path_is_found_within_three_seconds_however_seldom_data_leaves() {
        let mut seen = Lengths::default();
        let (mut probed, mut rto, mut due) = (0, 200, 0);
        let found = (0..20_000_u64).find(|ms| {
            if *ms == due {
                // The library has not made its packets shorter.
                seen.handle_sent(at(*ms), 1472, RTT);
                (due, rto) = (due + rto, 2 * rto);
            }
            if seen
                .probes(at(*ms), RTT)
                .is_some_and(|interval| at(*ms).saturating_since(at(probed)) >= interval)
            {
                seen.handle_sent(at(*ms), MIN_PACKET.into(), RTT);
                probed = *ms;
            }
            seen.is_hole(at(*ms), RTT)
        });
        assert_eq!(found, Some(2000));
        assert!(seen.probes(at(2000), RTT) == Some(LATER_PROBES), "in case the path changes");
        seen.handle_acknowledged(MIN_PACKET.into());
        assert_eq!(seen.probes(at(2001), RTT), None);
    }

    #[test]
    fn nothing_is_probed_while_packets_of_full_length_are_acknowledged_or_one_burst_is_lost() {
        let mut seen = Lengths::default();
        for round in 0..100 {
            seen.handle_sent(at(round * 100), 1472, RTT);
            seen.handle_acknowledged(1472);
            assert_eq!(seen.probes(at(round * 100 + 99), RTT), None);
        }
        (0..10).for_each(|_| seen.handle_sent(at(10_000), 1472, RTT));
        assert_eq!(seen.probes(at(11_000), RTT), None);
    }

    #[test]
    fn a_path_that_carries_what_is_sent_is_none() {
        assert_eq!(found(&[1200], 1200), None);
        assert_eq!(found(&[100, 400], 548), None);
        assert_eq!(found(&[100], 0), None, "silence is found out by others");
    }

    /// The library needs some losses to make its packets shorter. Those count, once one that is short enough has not arrived either.
    #[test]
    fn longer_packets_are_no_hole_by_themselves() {
        let mut seen = Lengths::default();
        for round in 0..50 {
            seen.handle_sent(at(round * 100), 1472, RTT);
            assert!(!seen.is_hole(at(round * 100), RTT));
        }
        let mut passes = seen.clone();
        seen.handle_sent(at(5000), 1200, RTT);
        assert!(!seen.is_hole(at(5199), RTT) && seen.is_hole(at(5200), RTT));
        passes.handle_acknowledged(1200);
        passes.handle_sent(at(5000), 1200, RTT);
        assert!(!passes.is_hole(at(9000), RTT));
    }

    #[test]
    fn losses_are_no_hole_while_a_long_packet_arrives_now_and_then() {
        let mut seen = Lengths::default();
        for round in 0..1000_u64 {
            seen.handle_sent(at(round * 100), 1200, RTT);
            if round % 15 == 14 {
                seen.handle_acknowledged(1200);
            }
            assert!(!seen.is_hole(at(round * 100), RTT));
        }
    }

    #[test]
    fn a_burst_and_one_that_was_lost_long_ago_are_no_hole() {
        let mut seen = Lengths::default();
        seen.handle_sent(at(0), 1200, RTT);
        for _ in 0..100 {
            seen.handle_sent(at(60_000), 1200, RTT);
        }
        assert!(!seen.is_hole(at(60_000), RTT) && !seen.is_hole(at(70_000), RTT));
        // A long round trip has more time.
        let rtt = Duration::from_millis(800);
        let mut seen = Lengths::default();
        (0..48).for_each(|round| seen.handle_sent(at(round * 100), 1200, rtt));
        assert!(!seen.is_hole(at(4_700), rtt) && seen.is_hole(at(4_800), rtt));
    }
}
