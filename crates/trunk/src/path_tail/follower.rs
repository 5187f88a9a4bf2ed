//! The emulated link of a cell as its operator describes it, and what follows its rate where that is measured.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::{Estimate, Limit, RateMeter, Reading};

/// Estimates that differ by less than this part of each other are not told the emulation: each costs a walk over what waits.
const CHANGE: f64 = 0.01;
/// Bytes that a link holds at the least, if nothing else is said.
const MIN_QUEUE: u64 = 64_000;
/// Of a link whose rate has not been measured: it delays nothing.
const UNKNOWN: Estimate =
    Estimate { rate: Rate::from_bits_per_second(1_000_000_000_000), recovery: Duration::ZERO };

/// The emulated link of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellLink {
    /// What the operator says of the network behind; `None` if it is measured.
    pub estimate: Option<Estimate>,
    /// Bytes that the link holds, if not what it sends in half a second.
    pub queue: Option<u64>,
    /// Segments that it holds, if they are bounded.
    pub packets: Option<u32>,
}

impl CellLink {
    /// The link at the start.
    pub fn initial(&self) -> (Estimate, Limit) {
        let estimate = self.estimate.unwrap_or(UNKNOWN);
        (estimate, self.limit(estimate.rate))
    }

    /// What the link holds at a rate: by default what it sends in half a second.
    pub fn limit(&self, rate: Rate) -> Limit {
        let half_a_second = (rate.bits_per_second() / 8 / 2).max(MIN_QUEUE);
        Limit { segments: self.packets.unwrap_or(u32::MAX), bytes: self.queue.unwrap_or(half_a_second) }
    }
}

/// What the owner counts of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Bytes that its hosts have acknowledged, since the start.
    pub delivered: u64,
    /// Bytes that the proxy has for them now and that they have not acknowledged.
    pub held: u64,
    /// The shortest round trip to one of the hosts that data waits for.
    pub min_rtt: Duration,
    /// Whether the emulated link is sending.
    pub is_busy: bool,
}

/// Follows the rate of a cell that is measured.
#[derive(Debug, Clone)]
pub struct Follower {
    link: CellLink,
    meter: RateMeter,
    /// At the last reading.
    delivered: u64,
    was_busy: bool,
    /// What the emulation was told, bits per second.
    rate: u64,
}

impl Follower {
    /// How often it takes a reading while connections are open.
    pub const INTERVAL: Duration = Duration::from_millis(50);

    /// `None` if the rate of the link is given.
    pub fn new(link: CellLink) -> Option<Self> {
        let follower = Follower { link, meter: RateMeter::new(), delivered: 0, was_busy: false, rate: 0 };
        link.estimate.is_none().then_some(follower)
    }

    /// Takes a reading. Returns what the emulated link is from now on, if it has changed.
    pub fn handle(&mut self, now: Instant, totals: Totals) -> Option<(Estimate, Limit)> {
        let reading = Reading {
            delivered: totals.delivered.saturating_sub(self.delivered),
            held: totals.held,
            min_rtt: totals.min_rtt,
            paced: totals.is_busy && self.was_busy,
        };
        (self.delivered, self.was_busy) = (totals.delivered, totals.is_busy);
        let rate = self.meter.handle(now, reading)?;
        let change = rate.bits_per_second().abs_diff(self.rate) as f64;
        if change <= CHANGE * self.rate as f64 {
            return None;
        }
        self.rate = rate.bits_per_second();
        Some((Estimate { rate, recovery: Duration::ZERO }, self.link.limit(rate)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: CellLink = CellLink { estimate: None, queue: None, packets: None };

    #[test]
    fn a_link_holds_half_a_second_if_nothing_else_is_said() {
        let (estimate, limit) = MEASURED.initial();
        assert!(estimate.rate.time_for(1500, &mut 0) < Duration::from_nanos(100));
        assert!(limit.segments == u32::MAX && limit.bytes > 1 << 30);
        assert_eq!(MEASURED.limit(Rate::from_mbit(8.0)).bytes, 500_000);
        assert_eq!(MEASURED.limit(Rate::from_mbit(0.1)).bytes, 64_000);
        assert_eq!(CellLink { queue: Some(9000), ..MEASURED }.limit(Rate::from_mbit(8.0)).bytes, 9000);
    }

    #[test]
    fn a_given_rate_is_not_followed() {
        let estimate = Some(Estimate { rate: Rate::from_mbit(1.0), recovery: Duration::ZERO });
        assert!(Follower::new(CellLink { estimate, ..MEASURED }).is_none());
    }

    #[test]
    fn it_tells_the_rate_of_a_full_cell_once() {
        let mut follower = Follower::new(MEASURED).expect("it is measured");
        let mut told = Vec::new();
        for tick in 1..=100_u64 {
            let totals = Totals {
                delivered: tick * 50_000,
                held: 220_000,
                min_rtt: Duration::from_millis(50),
                is_busy: true,
            };
            let now = Instant::ZERO + Follower::INTERVAL * tick as u32;
            told.extend(follower.handle(now, totals).map(|(estimate, _)| estimate.rate.bits_per_second()));
        }
        assert!((1..20).contains(&told.len()), "{told:?}");
        let last = told[told.len() - 1] as f64;
        assert!((0.4..1.05).contains(&(last / 8e6)), "{last}");
    }
}
