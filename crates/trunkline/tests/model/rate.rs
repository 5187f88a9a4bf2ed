//! The rate that a path must have after an event, wherever one is left.
//!
//! A transfer must get a part of the line's rate ([`PART`]) within [`LIMIT`] after the event, in whatever state the trunks were before. Neither
//! bound is near what is usual: a transfer gets nine tenths, and a second or two after most events. Time in which the machine wakes threads
//! late ([`BUSY`]) does not count. When a transfer does not get its rate, the same one is made past the trunk, over the lines alone: where that is
//! too slow too, the machine is at fault, and the time is extended.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline_testbed::lateness::Lateness;
use trunkline_testbed::namespace::Host;

use super::hosts::{LAN, MBIT};
use super::step::Site;
use super::traffic;
use super::world::World;
use crate::common::stream::{Outcome, stream};

const BYTES: u64 = 1_000_000;
/// What a transfer must get of the rate of the lines.
const PART: f64 = 0.2;
/// The same where packets overtake each other, which TCP takes for losses.
const REORDERED_PART: f64 = 0.05;
/// How long after an event at the latest: more than the longest back-off and the time-outs of a dial together.
const LIMIT: Duration = Duration::from_secs(60);
/// A packet through a trunk waits for some ten threads. If each of them is so late, no rate can be asked for.
const BUSY: Duration = Duration::from_millis(50);
/// On a machine that is never quiet the question stays open after this time.
const PATIENCE: Duration = Duration::from_secs(300);

/// An end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    At(Site),
    /// Behind the hub and its proxy.
    Lan,
}

const HUB: End = End::At(Site::Hub);
const B: End = End::At(Site::B);
const C: End = End::At(Site::C);
const PAIRS: [(End, End); 8] =
    [(B, HUB), (End::Lan, B), (HUB, C), (B, End::Lan), (C, HUB), (B, C), (HUB, B), (C, End::Lan)];

impl End {
    fn site(self) -> Site {
        match self {
            End::At(site) => site,
            End::Lan => Site::Hub,
        }
    }

    fn address(self) -> IpAddr {
        match self {
            End::At(site) => traffic::address(site),
            End::Lan => LAN.into(),
        }
    }
}

/// The longest that anything took.
#[derive(Debug, Default)]
pub(crate) struct Slowest {
    /// Lanes, once the network was whole.
    pub(crate) lanes: Duration,
    /// A rate after an event, and which event.
    rate: Duration,
    after: String,
    /// Transfers that were asked for.
    transfers: u32,
}

impl fmt::Display for Slowest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lanes, rate, after, transfers } = self;
        write!(
            f,
            "lanes were up within {lanes:.1?}, {transfers} rates were back within {rate:.1?} (after {after})"
        )
    }
}

impl World {
    fn host_of(&self, end: End) -> Arc<Host> {
        match end {
            End::At(site) => self.hosts.host(site).clone(),
            End::Lan => self.hosts.lan.clone(),
        }
    }

    /// The sites on the way.
    fn sites(from: End, to: End) -> Vec<Site> {
        let mut sites = vec![from.site(), Site::Hub, to.site()];
        sites.dedup();
        sites
    }

    /// Whether a transfer must pass: its sites run, have the same lanes, and their lines work.
    fn is_usable(&self, from: End, to: End) -> bool {
        let sites = Self::sites(from, to);
        let works = |site: Site| {
            let line = self.hosts.line(site);
            // A lane over QUIC needs packets of 1200 bytes and their headers.
            let is_too_short = line.longest.is_some_and(|longest| longest < 1260)
                && self.settings(site).transport().starts_with("quic");
            self.runs(site) && !self.is_frozen(site) && line.is_usable() && !is_too_short
        };
        sites.iter().all(|site| works(*site)) && sites.windows(2).all(|hop| self.join(hop[0], hop[1]))
    }

    /// Mbit/s of a transfer, or why it did not end within `limit`. An error if wrong bytes arrived.
    fn rate(
        &self,
        from: End,
        to: End,
        address: IpAddr,
        limit: Duration,
    ) -> Result<Result<f64, String>, String> {
        let (source, sink) = (self.host_of(from), self.host_of(to));
        let start = Instant::now();
        match stream(&source, (&sink, address), BYTES, limit) {
            Outcome::Whole => Ok(Ok(BYTES as f64 * 8e-6 / start.elapsed().as_secs_f64())),
            Outcome::Broken(why) => Ok(Err(why)),
            Outcome::Wrong(what) => Err(what),
        }
    }

    /// The next pair of ends between which a path is left must have a rate after `event`.
    pub(crate) fn check_a_rate(&mut self, event: &str) -> Result<(), String> {
        self.looks += 1;
        let mut pairs = PAIRS.into_iter().cycle().skip(self.looks % PAIRS.len()).take(PAIRS.len());
        match pairs.find(|(from, to)| self.is_usable(*from, *to)) {
            Some((from, to)) => self.check_rate(from, to, event),
            None => Ok(()),
        }
    }

    /// So must all.
    pub(crate) fn check_all_rates(&mut self, event: &str) -> Result<(), String> {
        let usable: Vec<_> = PAIRS.into_iter().filter(|(from, to)| self.is_usable(*from, *to)).collect();
        usable.into_iter().try_for_each(|(from, to)| self.check_rate(from, to, event))
    }

    fn check_rate(&mut self, from: End, to: End, event: &str) -> Result<(), String> {
        let is_reordered = Self::sites(from, to).iter().any(|site| self.hosts.line(*site).reorders);
        let floor = MBIT * if is_reordered { REORDERED_PART } else { PART };
        let longest = Duration::from_secs_f64(BYTES as f64 * 8e-6 / floor);
        let what = format!("a transfer from {from:?} to {to:?}");
        let (start, mut tries, mut counted) = (Instant::now(), Vec::new(), Duration::ZERO);
        loop {
            let (begin, lateness) = (Instant::now(), Lateness::watch());
            let rate =
                self.rate(from, to, to.address(), longest).map_err(|wrong| format!("{what}: {wrong}"))?;
            if rate.as_ref().is_ok_and(|rate| *rate >= floor) {
                break;
            }
            let at = start.elapsed().as_secs();
            tries.push(match rate {
                Ok(rate) => format!("{at} s: {rate:.1}"),
                Err(why) => format!("{at} s: {why}"),
            });
            std::thread::sleep(Duration::from_millis(200));
            if lateness.worst() < BUSY {
                counted += begin.elapsed();
            }
            if start.elapsed() >= PATIENCE {
                println!("open after {PATIENCE:?} on a busy machine: {what} after {event}: {tries:?}");
                return Ok(());
            }
            if counted < LIMIT {
                continue;
            }
            let direct = self.past_the_trunk(from, to, longest)?;
            if direct.is_none_or(|direct| direct >= 2.0 * floor) {
                return Err(format!(
                    "{what} does not get {floor} Mbit/s of {MBIT}; past the trunk it gets {direct:?}. Tried: {tries:?}"
                ));
            }
            counted = Duration::ZERO;
        }
        self.slowest.transfers += 1;
        if start.elapsed() > self.slowest.rate {
            (self.slowest.rate, self.slowest.after) = (start.elapsed(), event.to_owned());
        }
        Ok(())
    }

    /// Mbit/s over the lines without trunk and proxy. `None` where ordinary TCP gets nothing: on a line that swallows long packets.
    fn past_the_trunk(&self, from: End, to: End, limit: Duration) -> Result<Option<f64>, String> {
        let (from, to) = (End::At(from.site()), End::At(to.site()));
        if Self::sites(from, to).iter().any(|site| self.hosts.line(*site).swallows) {
            return Ok(None);
        }
        self.rate(from, to, self.hosts.wan(to.site()).addr(), limit).map(|rate| Some(rate.unwrap_or(0.0)))
    }
}
