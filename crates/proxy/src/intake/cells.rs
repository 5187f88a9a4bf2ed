//! The cells whose tails are emulated: which proxy has which, and the rates of those that are measured.

use std::time::Duration;

use trunkline_trunk::path_tail::{CellId, CellLink, Follower, Totals};
use trunkline_units::Instant;

use crate::counters::{Counters, ProxyCounters};
use crate::plan::Plan;
use crate::tail::Tails;

#[derive(Debug)]
struct Cell {
    id: CellId,
    link: CellLink,
    /// If the rate is measured.
    follower: Option<Follower>,
}

/// The cells of a plan.
#[derive(Debug)]
pub(super) struct Cells {
    /// By the number of the proxy.
    cells: Vec<Option<Cell>>,
    next: Instant,
}

impl Cells {
    pub(super) fn new(plan: &Plan, tails: &mut Tails) -> Self {
        let mut cell =
            |link: CellLink| Cell { id: tails.add_link(&link), link, follower: Follower::new(link) };
        let cells = plan.treatments.iter().map(|treatment| treatment.tail.map(&mut cell)).collect();
        Cells { cells, next: Instant::ZERO }
    }

    /// The cell of the proxy with this number.
    pub(super) fn of(&self, proxy: usize) -> Option<CellId> {
        self.cells.get(proxy)?.as_ref().map(|cell| cell.id)
    }

    /// When rates are to be measured next; `None` while no connection is open.
    pub(super) fn next_reading(&self, counters: &Counters) -> Option<Instant> {
        self.measured(counters).next().map(|_| self.next)
    }

    /// Those that are measured now, with their counters.
    fn measured<'c>(&'c self, counters: &'c Counters) -> impl Iterator<Item = (&'c Cell, &'c ProxyCounters)> {
        let cells = self.cells.iter().zip(&counters.proxies);
        let cells = cells.filter_map(|(cell, counters)| Some((cell.as_ref()?, counters)));
        cells.filter(|(cell, counters)| cell.follower.is_some() && counters.open.read() > 0)
    }

    /// Measures, if it is time, and tells the emulation.
    pub(super) fn follow(&mut self, now: Instant, tails: &mut Tails, counters: &Counters) {
        if now < self.next || self.next_reading(counters).is_none() {
            return;
        }
        self.next = now + Follower::INTERVAL;
        for (cell, counters) in self.cells.iter_mut().zip(&counters.proxies) {
            let Some(Cell { id, follower: Some(follower), .. }) = cell else { continue };
            let counts = counters.read();
            let totals = Totals {
                delivered: counts.delivered,
                waiting: counts.waiting,
                min_rtt: Duration::from_micros(counts.min_rtt_us),
                is_busy: tails.is_busy(now, *id),
            };
            if let Some(link) = follower.handle(now, totals) {
                tails.set_link(now, *id, link);
                counters.rate.set(link.0.rate.bits_per_second());
            }
        }
    }

    /// Publishes what the emulation has done.
    pub(super) fn publish(&self, tails: &Tails, counters: &Counters) {
        for (cell, counters) in self.cells.iter().zip(&counters.proxies) {
            let Some(stats) = cell.as_ref().map(|cell| tails.stats(cell.id)) else { continue };
            counters.tail_held.set(stats.held);
            counters.tail_released.set(stats.released);
            counters.tail_dropped.set(stats.dropped);
        }
    }

    /// Publishes the rates that are given.
    pub(super) fn publish_rates(&self, counters: &Counters) {
        for (cell, counters) in self.cells.iter().zip(&counters.proxies) {
            if let Some(estimate) = cell.as_ref().and_then(|cell| cell.link.estimate) {
                counters.rate.set(estimate.rate.bits_per_second());
            }
        }
    }
}
