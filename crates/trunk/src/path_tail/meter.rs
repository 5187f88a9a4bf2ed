//! The rate of a cell, measured: what its hosts acknowledge, averaged over the outages that the emulation is to hide.
//!
//! The operator's estimate of bosau2004 is the mean of what the mobile network carries, repairs and outages included (§4). That can be
//! measured only while data waits for the network: otherwise the senders are slower than it, the emulated link is, or hosts are. So there
//! are three cases, told apart by how long the data that waits takes to be delivered (Little's law):
//!
//! - More waits than a round trip of the network behind and [`SLACK`] explain: it is full. The estimate is the mean of what is
//!   delivered, less what makes the surplus go within [`DRAIN`].
//! - Less waits, the emulated link is busy, and hosts get something: the network may carry more. The estimate grows, doubling within
//!   [`DOUBLING`].
//! - None of these: nothing is learnt.
//!
//! Until the network has been full for [`FIRST`], there is no estimate, and the emulated link delays nothing: a slow start behind the
//! proxy carries little at first, whatever the network is.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

/// What waits for longer than this beside a round trip stands in a queue.
const SLACK: Duration = Duration::from_millis(100);
/// How long a measurement counts: outages of half a second are to be averaged, changes of the network to be followed.
const MEMORY: Duration = Duration::from_secs(1);
/// The time within which a surplus of data is to be delivered.
const DRAIN: Duration = Duration::from_secs(1);
/// The maximum part of the mean that is left for a surplus.
const MAX_DRAIN: f64 = 0.5;
/// The time in which an estimate doubles while nothing waits.
const DOUBLING: Duration = Duration::from_millis(500);
/// How long the network is full before the first estimate.
const FIRST: Duration = Duration::from_millis(500);
/// A reading that is older than this says nothing of the time since.
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// What the owner has seen of a cell since the last reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Bytes that its hosts have acknowledged.
    pub delivered: u64,
    /// Bytes that wait for the network now.
    pub waiting: u64,
    /// The shortest round trip to one of the hosts that data waits for.
    pub min_rtt: Duration,
    /// Whether the emulated link was busy all the time.
    pub paced: bool,
}

/// The measured rate of one cell.
#[derive(Debug, Clone, Default)]
pub struct RateMeter {
    last: Option<Instant>,
    /// Bytes a second, over what was delivered while the network or the emulated link was busy.
    mean: f64,
    /// Of how much time it is, up to [`MEMORY`].
    measured: Duration,
    /// For how long the network has been full, until there is an estimate.
    full: Duration,
    /// For how long nothing has been delivered.
    quiet: Duration,
    /// Bytes a second; `None` before the first one.
    estimate: Option<f64>,
}

impl RateMeter {
    /// The minimum of estimates: a link that stands still would never be measured again.
    pub const MIN: Rate = Rate::from_bits_per_second(16_000);

    /// Without an estimate.
    pub fn new() -> Self {
        RateMeter::default()
    }

    /// The estimate, if there is one.
    pub fn estimate(&self) -> Option<Rate> {
        self.estimate.map(|bytes| Rate::from_bits_per_second((bytes * 8.0) as u64).max(Self::MIN))
    }

    /// Takes a reading, a few each round trip. Returns the estimate if there is one.
    pub fn handle(&mut self, now: Instant, reading: Reading) -> Option<Rate> {
        let since = self.last.replace(now).map(|last| now.saturating_since(last));
        let Some(time) = since.filter(|time| !time.is_zero() && *time <= MAX_INTERVAL) else {
            return self.estimate();
        };
        let seconds = time.as_secs_f64();
        let before = self.mean;
        let is_full =
            reading.waiting as f64 > before * (reading.min_rtt + SLACK).as_secs_f64() && reading.waiting > 0;
        self.quiet = if reading.delivered > 0 { Duration::ZERO } else { self.quiet + time };
        let may_carry_more = reading.paced && self.quiet < MEMORY;
        if !is_full && !may_carry_more {
            return self.estimate();
        }
        // A plain mean at first, then one that forgets.
        self.measured = (self.measured + time).min(MEMORY);
        let weight = (seconds / self.measured.as_secs_f64()).min(1.0);
        self.mean += (reading.delivered as f64 / seconds - self.mean) * weight;
        if is_full {
            self.full = (self.full + time).min(FIRST);
            if self.full < FIRST {
                return self.estimate();
            }
            let wanted = self.mean * (reading.min_rtt + SLACK).as_secs_f64();
            let surplus = (reading.waiting as f64 - wanted).max(0.0);
            let drain = (surplus / DRAIN.as_secs_f64()).min(self.mean * MAX_DRAIN);
            self.estimate = Some((self.mean - drain).max(Self::MIN.bits_per_second() as f64 / 8.0));
        } else if let Some(estimate) = &mut self.estimate {
            *estimate = estimate.max(self.mean);
            *estimate += *estimate * (seconds / DOUBLING.as_secs_f64());
        }
        self.estimate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(50);

    /// A sender that fills the emulated link, the proxy, and a network of a rate that changes: fluid. Returns the estimate and what is
    /// held after each tick, bytes a second and bytes.
    fn run(seconds: u32, sender: f64, network: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let mut meter = RateMeter::new();
        let mut held = 0.0;
        let dt = TICK.as_secs_f64();
        (0..seconds * 20)
            .map(|tick| {
                let estimate =
                    meter.estimate().map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64 / 8.0);
                let arrives = sender.min(estimate) * dt;
                let delivered = (held + arrives).min(network(f64::from(tick) * dt) * dt);
                held += arrives - delivered;
                let reading = Reading {
                    delivered: delivered as u64,
                    waiting: held as u64,
                    min_rtt: Duration::from_millis(50),
                    paced: estimate < sender,
                };
                meter.handle(Instant::ZERO + TICK * (tick + 1), reading);
                (estimate, held)
            })
            .collect()
    }

    #[test]
    fn it_finds_the_rate_of_a_steady_network_and_holds_little() {
        let run = run(20, 10e6, |_| 1e6);
        let late = &run[200..];
        let mean = late.iter().map(|(estimate, _)| estimate).sum::<f64>() / late.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.1, "{mean}");
        let held = late.iter().map(|(_, held)| *held).fold(0.0, f64::max);
        assert!(held < 0.5e6, "{held} bytes, half a second's");
    }

    #[test]
    fn outages_are_averaged() {
        // A quarter of the time nothing gets through.
        let run = run(40, 10e6, |t| if t % 1.0 < 0.25 { 0.0 } else { 1e6 });
        let late = &run[400..];
        let (low, high) = late.iter().fold((f64::MAX, 0.0_f64), |(low, high), (estimate, _)| {
            (low.min(*estimate), high.max(*estimate))
        });
        let mean = late.iter().map(|(estimate, _)| estimate).sum::<f64>() / late.len() as f64;
        assert!((mean / 0.75e6 - 1.0).abs() < 0.15, "{mean}");
        assert!(low > 0.3e6 && high < 1.5e6, "{low} to {high}");
    }

    #[test]
    fn it_follows_changes_both_ways() {
        let run = run(60, 10e6, |t| if (20.0..40.0).contains(&t) { 4e6 } else { 1e6 });
        let mean = |from: usize, to: usize| {
            run[from * 20..to * 20].iter().map(|(estimate, _)| estimate).sum::<f64>()
                / ((to - from) * 20) as f64
        };
        for (from, to, network) in [(10, 20, 1e6), (26, 40, 4e6), (50, 60, 1e6)] {
            let mean = mean(from, to);
            assert!((mean / network - 1.0).abs() < 0.15, "{from} to {to} s: {mean} of {network}");
        }
        // Six seconds after the network became four times slower what had gathered is gone.
        let held = run[46 * 20..].iter().map(|(_, held)| *held).fold(0.0, f64::max);
        assert!(held < 0.5e6, "{held}");
    }

    #[test]
    fn it_follows_a_cellular_link_and_holds_less_than_a_second() {
        // Mbit/s, for a second each: the link of `cellular` in experiments/own/hard-paths.toml.
        const RATES: [f64; 6] = [40.0, 15.0, 30.0, 5.0, 25.0, 10.0];
        let network = |t: f64| RATES[t as usize % 6] * 1e6 / 8.0;
        let run = run(60, 100e6 / 8.0, network);
        let late = &run[200..];
        let mean = RATES.iter().sum::<f64>() / 6.0 * 1e6 / 8.0;
        let dt = TICK.as_secs_f64();
        // What is delivered: what arrives, less the growth of what is held.
        let arrived: f64 = late.iter().map(|(estimate, _)| estimate.min(100e6 / 8.0) * dt).sum();
        let delivered = arrived - (late[late.len() - 1].1 - run[199].1);
        let used = delivered / (mean * late.len() as f64 * dt);
        assert!(used > 0.9 && used < 1.01, "{used} of the link");
        let held = late.iter().map(|(_, held)| *held).fold(0.0, f64::max);
        assert!(held < 0.8 * mean, "{held} bytes, of {mean} a second");
    }

    #[test]
    fn a_sender_slower_than_the_network_is_not_taken_for_it() {
        let run = run(20, 0.3e6, |_| 1e6);
        assert!(run.iter().all(|(estimate, _)| *estimate > 0.3e6), "it would be slowed down");
    }

    #[test]
    fn an_estimate_never_stops_a_link() {
        let run = run(60, 10e6, |t| if t < 10.0 { 1e6 } else { 0.0 });
        let last = run.last().unwrap().0;
        assert!((last - 2000.0).abs() < 1.0, "{last}");
    }
}
