//! The pacing of a lane whose connection does not pace.
//!
//! A lane over TCP is paced by the kernel, packet by packet. A connection in user space has a timer of its own instead, which
//! is late whenever its thread is busy. So what it may take is metered where packets leave the edge queue, by a bucket of what
//! was taken and has not left at the rate (a leaky bucket as a meter, as in ITU-T I.371). It holds what leaves in one visit
//! of the owner: a late visit makes up for that much and no more, so the burst is bounded. It counts bytes and not time, so
//! that what was taken at a low rate does not hold the lane once the rate is higher.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::LaneControl;

/// When a lane may take packets so that it sends no faster than a rate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pacer {
    /// Bytes that were taken, and would not have left yet at the rate.
    ahead: f64,
    /// As of this time.
    at: Instant,
    /// It has been full, and half of it has not left yet.
    held: bool,
}

impl Pacer {
    /// Bytes that may always be ahead: at some Mbit/s and less, one visit is less than a packet.
    const MIN_BYTES: f64 = 3000.0;
    /// The longest time until the owner is to look again: the rate may have changed.
    const MAX_HOLD: Duration = LaneControl::SNAPSHOT_INTERVAL;

    /// The lane takes so many bytes.
    pub(super) fn take(&mut self, now: Instant, rate: Rate, bytes: u64) {
        self.ahead = self.ahead_at(now, rate) + bytes as f64;
        self.at = self.at.max(now);
        self.held |= Self::is_full(self.ahead, rate);
    }

    /// How many bytes the lane may take now, unless it is held.
    pub(super) fn room(&self, now: Instant, rate: Rate) -> usize {
        (Self::size(rate) - self.ahead_at(now, rate)).max(0.0) as usize
    }

    /// When the lane may take packets again; `None` if it may now. Once the bucket is full the lane waits until half of it has left,
    /// whatever wakes its owner meanwhile: it does not wake up for each packet, and takes several at a time, which fill the
    /// connection's packets and make batches of them.
    pub(super) fn held_until(&mut self, now: Instant, rate: Rate) -> Option<Instant> {
        let (ahead, half) = (self.ahead_at(now, rate), Self::size(rate) / 2.0);
        // What a bucket of a higher rate took may be more than this one holds.
        self.held = Self::is_full(ahead, rate) || (self.held && ahead > half);
        let wait = || rate.time_for((ahead - half) as u64 + 1, &mut 0).max(Duration::from_nanos(1));
        self.held.then(|| now + wait().min(Self::MAX_HOLD))
    }

    fn is_full(ahead: f64, rate: Rate) -> bool {
        Self::size(rate) - ahead < 1.0
    }

    fn ahead_at(&self, now: Instant, rate: Rate) -> f64 {
        (self.ahead - per_second(rate) * now.saturating_since(self.at).as_secs_f64()).max(0.0)
    }

    fn size(rate: Rate) -> f64 {
        Self::MIN_BYTES.max(per_second(rate) * LaneControl::VISIT.as_secs_f64())
    }
}

fn per_second(rate: Rate) -> f64 {
    rate.bits_per_second() as f64 / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves a lane with packets of 1500 bytes for two seconds, `late` after each time that the pacer names. Bytes taken, how
    /// often it was served, and the most that was ahead.
    fn serve(rate: Rate, late: Duration) -> (f64, u32, f64) {
        let (mut pacer, mut now) = (Pacer::default(), Instant::from_millis(5));
        let end = now + Duration::from_secs(2);
        let (mut taken, mut visits, mut most) = (0.0, 0, 0.0_f64);
        while now < end {
            visits += 1;
            while pacer.room(now, rate) > 0 {
                pacer.take(now, rate, 1500);
                taken += 1500.0;
            }
            most = most.max(pacer.ahead_at(now, rate));
            now = pacer.held_until(now, rate).expect("it has taken what it may") + late;
        }
        (taken, visits, most)
    }

    #[test]
    fn a_lane_takes_its_rate_and_no_more_in_few_visits() {
        for mbit in [0.2, 1.0, 10.0, 50.0, 1000.0] {
            let rate = Rate::from_mbit(mbit);
            let (taken, visits, most) = serve(rate, Duration::ZERO);
            let whole = per_second(rate) * 2.0;
            // What is ahead at the end has been taken too.
            let bounds = whole * 0.99..=whole * 1.001 + Pacer::size(rate) + 1500.0;
            assert!(bounds.contains(&taken), "{mbit} Mbit/s: {taken} of {whole}");
            assert!(visits <= 2001, "{mbit} Mbit/s: {visits} visits");
            assert!(most <= Pacer::size(rate) + 1500.0, "{mbit} Mbit/s: {most} bytes ahead");
        }
    }

    #[test]
    fn a_lane_that_is_visited_all_the_time_takes_half_a_bucket_at_a_time() {
        let (rate, mut now) = (Rate::from_mbit(100.0), Instant::from_millis(5));
        let (mut pacer, mut turns, mut taken) = (Pacer::default(), 0, 0.0);
        let end = now + Duration::from_secs(1);
        while now < end {
            if pacer.held_until(now, rate).is_none() {
                turns += 1;
                while pacer.room(now, rate) > 0 {
                    pacer.take(now, rate, 1500);
                    taken += 1500.0;
                }
            }
            now += Duration::from_micros(10);
        }
        let whole = per_second(rate);
        assert!((0.99..=1.002).contains(&(taken / whole)), "{taken}");
        // Half of 25 kB, and what a packet is more.
        assert!((whole / 14_000.0..whole / 12_000.0).contains(&f64::from(turns)), "{turns}");
    }

    #[test]
    fn a_visit_up_to_a_millisecond_late_costs_nothing_and_what_a_later_one_missed_is_not_made_up_for() {
        let rate = Rate::from_mbit(100.0);
        let whole = per_second(rate) * 2.0;
        let (taken, ..) = serve(rate, Duration::from_micros(900));
        assert!((0.99..1.01).contains(&(taken / whole)), "{taken}");
        let (taken, _, most) = serve(rate, Duration::from_millis(20));
        assert!((0.08..0.15).contains(&(taken / whole)), "{taken}");
        assert!(most <= Pacer::size(rate) + 1500.0, "{most}");
    }

    #[test]
    fn a_super_packet_passes_whole_and_is_paid_for_afterwards_at_the_rate_of_then() {
        let (slow, fast, now) = (Rate::from_mbit(1.0), Rate::from_mbit(50.0), Instant::from_millis(5));
        let mut pacer = Pacer::default();
        assert_eq!(pacer.room(now, slow), 3000);
        pacer.take(now, slow, 65_000);
        assert_eq!(pacer.room(now, slow), 0);
        assert_eq!(pacer.held_until(now, slow), Some(now + Pacer::MAX_HOLD));
        // The half of 12.5 kB may be ahead: the rest takes 9.4 ms.
        let until = pacer.held_until(now, fast).expect("it waits");
        let wait = until.saturating_since(now);
        assert!((Duration::from_micros(9390)..Duration::from_micros(9410)).contains(&wait), "{wait:?}");
        assert!((6249..=6251).contains(&pacer.room(until, fast)), "{}", pacer.room(until, fast));
        assert_eq!(pacer.held_until(until, fast), None);
        // At a higher rate it may go on at once.
        pacer.take(until, fast, 7000);
        assert!(pacer.held_until(until, fast).is_some());
        assert_eq!(pacer.held_until(until, Rate::from_mbit(500.0)), None);
    }

    #[test]
    fn a_lane_that_may_take_packets_has_room_for_one_when_its_rate_falls_too() {
        let (mut now, mut rng) = (Instant::from_millis(5), trunkline_units::Rng::new(1, "rates"));
        let mut pacer = Pacer::default();
        for _ in 0..100_000 {
            let rate = Rate::from_bits_per_second(20_000 << rng.below(24));
            now += Duration::from_nanos(rng.below(3_000_000) >> rng.below(22));
            if let Some(until) = pacer.held_until(now, rate) {
                assert!(until > now, "{until:?} at {now:?}");
            } else {
                assert!(pacer.room(now, rate) > 0, "{pacer:?} at {now:?}, {rate}");
                pacer.take(now, rate, 1 + rng.below(1500));
            }
        }
    }
}
