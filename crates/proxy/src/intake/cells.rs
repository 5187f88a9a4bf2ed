//! The cells whose tails are emulated: which proxy has which, and the rates of those that are measured.

use std::time::Duration;

use trunkline_trunk::path_tail::{CellId, Estimate, RateMeter, Reading};
use trunkline_units::{Instant, Rate};

use crate::counters::{Counters, ProxyCounters};
use crate::plan::{Plan, Tail};
use crate::tail::Tails;

/// How often a rate is measured while connections are open.
const INTERVAL: Duration = Duration::from_millis(50);
/// Estimates that differ by less than this part of each other are not told the emulation: each costs a walk over what waits.
const CHANGE: f64 = 0.01;

#[derive(Debug)]
struct Cell {
    id: CellId,
    tail: Tail,
    meter: Meter,
}

/// What follows a cell's rate, if that is measured.
#[derive(Debug)]
struct Meter {
    rule: RateMeter,
    /// What hosts behind had acknowledged at the last reading.
    delivered: u64,
    /// Whether the emulated link was busy then.
    was_busy: bool,
    /// Bits per second.
    rate: u64,
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
        let mut cell = |tail: Tail| {
            let (estimate, limit) = tail.link();
            let meter = Meter { rule: RateMeter::new(), delivered: 0, was_busy: false, rate: 0 };
            Cell { id: tails.add_cell(estimate, limit), tail, meter }
        };
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
        cells.filter(|(cell, counters)| cell.tail.estimate.is_none() && counters.open.read() > 0)
    }

    /// Measures, if it is time, and tells the emulation.
    pub(super) fn follow(&mut self, now: Instant, tails: &mut Tails, counters: &Counters) {
        if now < self.next || self.next_reading(counters).is_none() {
            return;
        }
        self.next = now + INTERVAL;
        for (cell, counters) in self.cells.iter_mut().zip(&counters.proxies) {
            let Some(cell) = cell.as_mut().filter(|cell| cell.tail.estimate.is_none()) else { continue };
            let is_busy = tails.is_busy(now, cell.id);
            if let Some(rate) = cell.meter.read(now, is_busy, counters) {
                let estimate = Estimate { rate, recovery: Duration::ZERO };
                tails.set_link(now, cell.id, (estimate, cell.tail.limit(rate)));
                counters.rate.set(rate.bits_per_second());
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
            if let Some(estimate) = cell.as_ref().and_then(|cell| cell.tail.estimate) {
                counters.rate.set(estimate.rate.bits_per_second());
            }
        }
    }
}

impl Meter {
    /// Another rate, if it has changed.
    fn read(&mut self, now: Instant, is_busy: bool, counters: &ProxyCounters) -> Option<Rate> {
        let counts = counters.read();
        let reading = Reading {
            delivered: counts.delivered.saturating_sub(self.delivered),
            held: counts.held,
            min_rtt: Duration::from_micros(counts.min_rtt_us),
            paced: is_busy && self.was_busy,
        };
        (self.delivered, self.was_busy) = (counts.delivered, is_busy);
        let rate = self.rule.handle(now, reading)?;
        let change = rate.bits_per_second().abs_diff(self.rate) as f64;
        if change <= CHANGE * self.rate as f64 {
            return None;
        }
        self.rate = rate.bits_per_second();
        Some(rate)
    }
}
