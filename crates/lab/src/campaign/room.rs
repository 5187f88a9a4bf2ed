//! Room on a machine for runs in real time: together they may carry so many packets, and each waits until there is room for it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::available_parallelism;

use super::work;
use trunkline_engine::Engine;
use trunkline_engine::scenario::Scenario;

/// Packets a second that a run costs without any: it starts processes and takes samples.
const EACH: f64 = 1000.0;

/// Packets a second beyond which one more costs half.
const FEW: f64 = 10_000.0;

/// How many times a packet over a link costs where gateways or proxies carry it.
const WITH_PROGRAMS: f64 = 2.7;

/// What a run with gateways or proxies takes at least: these are processes that have to get a CPU at once.
const LEAST_WITH_PROGRAMS: f64 = 1500.0;

pub(super) struct Room {
    /// None if runs do not disturb each other.
    capacity: Option<u64>,
    loads: Mutex<Loads>,
    changed: Condvar,
}

/// Whole packets a second: sums of fractions would leave a little behind, and a run that needs all of the room would wait for ever.
#[derive(Default)]
struct Loads {
    taken: u64,
    waiting: Vec<u64>,
}

impl Loads {
    /// Whether there is room for a run of this load, and for none that waits with a larger one: else the largest would wait for all others.
    fn admit(&self, load: u64, capacity: u64) -> bool {
        let fits = |load: u64| self.taken + load <= capacity;
        fits(load) && !self.waiting.iter().any(|other| *other > load && fits(*other))
    }
}

/// A part of it, until it is dropped.
pub(super) struct Taken<'a> {
    room: &'a Room,
    load: u64,
}

/// Packets over links a second of a run.
pub(super) fn load(scenario: &Scenario) -> f64 {
    let proxies = scenario.nodes.iter().any(|node| node.proxy.is_some());
    let packets = work::packets(scenario) / work::seconds(scenario).max(1e-3);
    // Of many packets each wakeup carries several.
    let packets = packets.min(FEW.midpoint(packets));
    if proxies || !scenario.trunks.is_empty() || !scenario.tunnels.is_empty() {
        WITH_PROGRAMS.mul_add(packets, EACH).max(LEAST_WITH_PROGRAMS)
    } else {
        packets + EACH
    }
}

impl Room {
    pub(super) fn of(engine: &Engine) -> Self {
        Self::new(engine.capacity(available_parallelism().map_or(1, usize::from)))
    }

    /// Whether runs may have to wait for room.
    pub(super) fn is_bounded(&self) -> bool {
        self.capacity.is_some()
    }

    fn new(capacity: Option<f64>) -> Self {
        let capacity = capacity.map(|packets| packets as u64);
        Room { capacity, loads: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until there is room. What is more than all of it gets all of it.
    pub(super) fn take(&self, load: f64) -> Taken<'_> {
        let Some(capacity) = self.capacity else { return Taken { room: self, load: 0 } };
        let load = (load.round() as u64).min(capacity);
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.waiting.push(load);
        let wait = self.changed.wait_while(loads, |loads| !loads.admit(load, capacity));
        let mut loads = wait.unwrap_or_else(PoisonError::into_inner);
        loads.taken += load;
        if let Some(mine) = loads.waiting.iter().position(|waiting| *waiting == load) {
            loads.waiting.swap_remove(mine);
        }
        // Those that let this one go first.
        self.changed.notify_all();
        Taken { room: self, load }
    }

    /// How many of these runs, each its time and its load, there is room for at a time on average.
    pub(super) fn at_a_time(&self, runs: impl Iterator<Item = (f64, f64)>) -> f64 {
        let Some(capacity) = self.capacity else { return f64::INFINITY };
        let (seconds, loads) = runs.fold((0.0, 0.0), |(seconds, loads), (time, load)| {
            (seconds + time, loads + time * load.min(capacity as f64))
        });
        if loads > 0.0 { (seconds * capacity as f64 / loads).max(1.0) } else { f64::INFINITY }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.room.loads.lock().unwrap_or_else(PoisonError::into_inner).taken -= self.load;
        self.room.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_run_at_a_time_than_there_is_room_for_and_the_largest_runs_alone() {
        let room = Room::new(Some(10.0));
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for load in [4.0, 4.0, 4.0, 4.0, 99.0, 4.0] {
                let (room, now, most) = (&room, &now, &most);
                scope.spawn(move || {
                    let _taken = room.take(load);
                    let running = now.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(running, Ordering::SeqCst);
                    assert!(load < 10.0 || running == 1, "it runs alone");
                    thread::sleep(Duration::from_millis(20));
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 2);
        let loads = Loads { taken: 4, waiting: vec![6, 8, 1] };
        assert!(!loads.admit(1, 10) && loads.admit(6, 10), "the largest that there is room for");
        assert!(!loads.admit(8, 10) && loads.admit(1, 5));
        let at_a_time = |runs: &[(f64, f64)]| room.at_a_time(runs.iter().copied());
        assert!((at_a_time(&[(1.0, 4.0), (1.0, 1.0)]) - 4.0).abs() < 1e-9);
        assert!((at_a_time(&[(1.0, 99.0)]) - 1.0).abs() < 1e-9, "it gets all of it");
    }
}
