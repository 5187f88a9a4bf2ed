//! The emulated link of a cell as its operator describes it, and what follows its rate where that is measured.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::{Backlog, Estimate, Limit, RateMeter, Reading};

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes that its hosts have acknowledged, since the start.
    pub delivered: u64,
    /// Bytes that wait for the network now ([`Backlog::waits_for_network`]).
    pub waiting: u64,
    /// The shortest round trip to one of the hosts that they are for.
    pub min_rtt: Duration,
    /// Whether the emulated link is sending.
    pub is_busy: bool,
}

impl Totals {
    /// Adds what the proxy has for one of the hosts, and the shortest round trip to that.
    pub fn add(&mut self, backlog: &Backlog, min_rtt: Option<Duration>) {
        let waiting = backlog.waits_for_network();
        self.waiting += waiting;
        if let Some(rtt) = min_rtt.filter(|_| waiting > 0)
            && (self.min_rtt.is_zero() || rtt < self.min_rtt)
        {
            self.min_rtt = rtt;
        }
    }
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
            waiting: totals.waiting,
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
                waiting: 220_000,
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

    const TICK: Duration = Follower::INTERVAL;
    const RTT: Duration = Duration::from_millis(50);
    /// Bytes a second of the network behind.
    const NETWORK: f64 = 2.5e6;

    /// A host, and what the proxy has for it: fluid.
    #[derive(Debug, Clone, Copy)]
    struct Host {
        held: f64,
        /// Of its buffer.
        room: f64,
        silent: Duration,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Pause {
        /// It does not read.
        Reading,
        /// It reads a little.
        MostReading,
        /// Nothing reaches it.
        Reach,
    }

    /// Two hosts download for `seconds`, and from 10 s to 35 s the first of them has stopped somehow. What the other one gets in each
    /// second, as a part of the network.
    fn beside_one_that_stops(pause: Pause, seconds: u32) -> Vec<f64> {
        const BUFFER: f64 = 1e6;
        /// What the proxy's sockets hold for a host.
        const SOCKETS: f64 = 4e6;
        let mut follower = Follower::new(MEASURED).expect("it is measured");
        let mut hosts = [Host { held: 0.0, room: BUFFER, silent: Duration::ZERO }; 2];
        let (dt, mut link, mut delivered) = (TICK.as_secs_f64(), f64::INFINITY, 0.0);
        let mut got = vec![0.0; seconds as usize];
        for tick in 0..seconds * 20 {
            let second = tick / 20;
            let paused = (10..35).contains(&second);
            // Senders share the emulated link while the proxy has room.
            let senders = hosts.iter().filter(|host| host.held < SOCKETS).count().max(1) as f64;
            for host in hosts.iter_mut().filter(|host| host.held < SOCKETS) {
                host.held += (link / senders).min(10e6) * dt;
            }
            let can_take = |(number, host): (usize, &Host)| {
                let reachable = !(paused && number == 0 && pause == Pause::Reach);
                if reachable { host.held.min(host.room) } else { 0.0 }
            };
            let takes = [can_take((0, &hosts[0])), can_take((1, &hosts[1]))];
            let half = NETWORK * dt / 2.0;
            let part = |one: usize| takes[one].min(half + (half - takes[1 - one]).max(0.0));
            for (number, bytes) in [part(0), part(1)].into_iter().enumerate() {
                let host = &mut hosts[number];
                host.silent = if bytes > 0.0 { Duration::ZERO } else { host.silent + TICK };
                host.held -= bytes;
                host.room = match (paused && number == 0).then_some(pause) {
                    Some(Pause::Reading) => host.room - bytes,
                    Some(Pause::MostReading) => (host.room - bytes + 1e4 * dt).min(BUFFER),
                    _ => BUFFER,
                };
                delivered += bytes;
                if number == 1 {
                    got[second as usize] += bytes / NETWORK;
                }
            }
            let mut totals =
                Totals { delivered: delivered as u64, is_busy: link < 20e6, ..Totals::default() };
            for host in hosts {
                let backlog = Backlog {
                    held: host.held as u64,
                    window: host.room as u64,
                    silent: host.silent,
                    rtt: RTT,
                };
                totals.add(&backlog, Some(RTT));
            }
            if let Some((estimate, _)) = follower.handle(Instant::ZERO + TICK * (tick + 1), totals) {
                link = estimate.rate.bits_per_second() as f64 / 8.0;
            }
        }
        got
    }

    #[test]
    fn a_host_that_stops_takes_nothing_from_the_others_of_its_cell() {
        for pause in [Pause::Reading, Pause::MostReading, Pause::Reach] {
            let got = beside_one_that_stops(pause, 60);
            let mean = |from: usize, to: usize| got[from..to].iter().sum::<f64>() / (to - from) as f64;
            println!("{pause:?}: {got:.2?}");
            assert!((0.4..0.6).contains(&mean(5, 10)), "{pause:?}: a half each");
            assert!(mean(12, 35) > 0.85, "{pause:?}: all of it while the first has stopped: {got:.2?}");
            assert!((0.4..0.7).contains(&mean(40, 60)), "{pause:?}: a half again: {got:.2?}");
        }
    }
}
