//! Threads that end on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use trunkline_units::Instant;

use crate::clock;
use crate::namespace::{Host, Task};

/// How long a wait may last before the thread looks whether it is to stop.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A request to stop, which any number of threads can see.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Not stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everything that holds a clone to stop.
    pub fn stop(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether that was asked.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// What it sets, for whoever looks at that alone.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Sleeps until `then`; `false` if stopped before.
    pub fn sleep_until(&self, then: Instant) -> bool {
        loop {
            if self.is_stopped() {
                return false;
            }
            let now = clock::now();
            if now >= then {
                return true;
            }
            clock::sleep_until(then.min(now + POLL_INTERVAL));
        }
    }
}

/// A thread in a host that runs until it is stopped. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Service<T> {
    stop: Stop,
    task: Option<Task<T>>,
}

impl<T: Send + 'static> Service<T> {
    pub(super) fn start(host: &Host, name: &str, work: impl FnOnce(&Stop) -> T + Send + 'static) -> Self {
        let stop = Stop::new();
        let seen = stop.clone();
        Self { stop, task: Some(host.spawn(name, move || work(&seen))) }
    }

    /// Stops it and returns its result.
    pub(super) fn finish(mut self) -> T {
        self.stop.stop();
        self.task.take().expect("only this method takes it, and it consumes the service").join()
    }
}

impl<T> Drop for Service<T> {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
