//! Changes of a link while it carries traffic, and its readings.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_units::{Instant, Rate, SettingsError};

use super::model::{Counters, Reading};
use super::{Direction, DuplexSettings};

/// What the forwarding thread is to do with a link, as a whole state and not as a list of changes: later ones replace earlier.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    pub(super) ways: [LinkSettings; 2],
    pub(super) up: bool,
    /// From when the changes of the settings count their times, if not from the beginning of the link.
    pub(super) changes_from: Option<Instant>,
    /// How often the peaks of the queues were to be counted anew.
    pub(super) peak_resets: u64,
}

/// What the forwarding thread and the handles of a link share.
#[derive(Debug)]
pub(super) struct Control {
    wanted: Mutex<Wanted>,
    changed: AtomicBool,
    bell: Arc<Bell>,
    readings: [Mutex<Reading>; 2],
}

impl Control {
    pub(super) fn new(settings: &DuplexSettings, bell: Arc<Bell>, readings: [Reading; 2]) -> Self {
        let ways = [settings.forward.clone(), settings.backward.clone()];
        Self {
            wanted: Mutex::new(Wanted { ways, up: true, changes_from: None, peak_resets: 0 }),
            changed: AtomicBool::new(false),
            bell,
            readings: readings.map(Mutex::new),
        }
    }

    /// What is wanted, if that has changed since it was last asked.
    pub(super) fn take_changed(&self) -> Option<Wanted> {
        self.changed.swap(false, Ordering::AcqRel).then(|| lock(&self.wanted).clone())
    }

    pub(super) fn wanted(&self) -> Wanted {
        lock(&self.wanted).clone()
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Wanted) -> T) -> T {
        let result = change(&mut lock(&self.wanted));
        self.changed.store(true, Ordering::Release);
        self.bell.ring();
        result
    }

    /// Shows a reading to other threads; `false` if one of them looks at the last at this moment. The forwarding thread does not
    /// wait for it: a reader that lost its CPU would make packets late.
    pub(super) fn publish(&self, way: Direction, reading: impl FnOnce() -> Reading) -> bool {
        match self.readings[way as usize].try_lock() {
            Ok(mut last) => *last = reading(),
            Err(TryLockError::Poisoned(last)) => *last.into_inner() = reading(),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}

/// Wakes the forwarding thread up.
#[derive(Debug)]
pub(super) struct Bell(pub(super) OwnedFd);

impl Bell {
    pub(super) fn ring(&self) {
        // The bell's counter overflows only with a reader asleep for 2^64 changes.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes a link and reads its counters, from any thread. A change takes effect within the time it takes to wake a thread; on a
/// link that has gone it has none.
#[derive(Debug, Clone)]
pub struct LinkHandle {
    pub(super) control: Arc<Control>,
}

impl LinkHandle {
    /// Everything that one direction counts. It is from the last time at which anything happened in the direction.
    pub fn reading(&self, way: Direction) -> Reading {
        lock(&self.control.readings[way as usize]).clone()
    }

    /// The counters of one direction.
    pub fn counters(&self, way: Direction) -> Counters {
        lock(&self.control.readings[way as usize]).counters
    }

    /// Changes any settings of one direction. What stays the same in them stays as it is, with what scheduled changes made of it.
    /// If the queue becomes another discipline, what waits is dropped.
    ///
    /// # Errors
    /// If the settings are wrong then. A rate of zero is allowed: it holds packets back until another change.
    pub fn change(
        &self,
        way: Direction,
        change: impl FnOnce(&mut LinkSettings),
    ) -> Result<(), SettingsError> {
        self.control.change(|wanted| {
            let mut settings = wanted.ways[way as usize].clone();
            change(&mut settings);
            check(&settings)?;
            wanted.ways[way as usize] = settings;
            Ok(())
        })
    }

    /// Changes the rate of one direction; `None` is unlimited, zero holds everything back.
    ///
    /// # Errors
    /// If there is no such rate.
    pub fn set_rate(&self, way: Direction, rate: Option<Rate>) -> Result<(), SettingsError> {
        self.change(way, |settings| settings.rate = rate.unwrap_or(Rate::MAX))
    }

    /// Changes the propagation delay of one direction. Nothing overtakes by it.
    ///
    /// # Errors
    /// If it is too long.
    pub fn set_delay(&self, way: Direction, delay: Duration) -> Result<(), SettingsError> {
        self.change(way, |settings| settings.delay = delay)
    }

    /// Lets the scheduled changes of both directions count their times from `start`. What they have changed so far stays changed.
    pub fn restart_changes(&self, start: Instant) {
        self.control.change(|wanted| wanted.changes_from = Some(start));
    }

    /// Counts the peaks of both queues from now on.
    pub fn reset_peaks(&self) {
        self.control.change(|wanted| wanted.peak_resets += 1);
    }

    /// Cuts the wire: what is on it and in its queues is lost, and what comes is dropped. The devices stay up.
    pub fn cut(&self) {
        self.control.change(|wanted| wanted.up = false);
    }

    /// Mends the wire.
    pub fn restore(&self) {
        self.control.change(|wanted| wanted.up = true);
    }
}

/// Whether one direction can be like this. Another rate may follow a rate of zero at any time here.
pub(super) fn check(settings: &LinkSettings) -> Result<(), SettingsError> {
    if settings.rate.bits_per_second() > 0 {
        return settings.check();
    }
    LinkSettings { rate: Rate::MAX, ..settings.clone() }.check()
}
