//! For tests: how late this machine wakes a thread, and limits that take it into account.
//!
//! A busy machine delays packets and timers, and a test must not fail for that. There are two kinds of limit:
//!
//! - [`Lateness::tolerance`] is added to what a link's model gives: the worst lateness that was seen while the test ran, once for each
//!   thread that a packet has to wait for.
//! - [`Lateness::limit`] is for a time in which something must happen that has many steps (a lane is dialled again, traffic is back). An ordinary
//!   run asks *that* it happens, within [`PATIENCE`]. A run with `TRUNKLINE_TIMING=1`, the last step of `.ci/run`, asks *when*: within the
//!   time that was intended, and what the lateness explains.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The least time that an ordinary run waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long the sampling thread sleeps.
const NAP: Duration = Duration::from_millis(2);
/// Wake-ups that follow each other in one step of many: two gateways, an emulated link, the ends, and retries.
const WAKE_UPS: u32 = 20;

/// Whether this run judges when things happen.
pub fn judges_time() -> bool {
    std::env::var_os("TRUNKLINE_TIMING").is_some_and(|value| value == "1")
}

#[derive(Debug, Default)]
struct Samples {
    stop: AtomicBool,
    worst_nanos: AtomicU64,
}

/// Samples the lateness of the machine while it lives.
#[derive(Debug)]
pub struct Lateness {
    samples: Arc<Samples>,
    thread: Option<JoinHandle<()>>,
}

impl Lateness {
    /// Starts to sample.
    pub fn watch() -> Self {
        let samples = Arc::new(Samples::default());
        let shared = Arc::clone(&samples);
        let thread = thread::spawn(move || {
            while !shared.stop.load(Ordering::Relaxed) {
                let before = Instant::now();
                thread::sleep(NAP);
                let late = before.elapsed().saturating_sub(NAP);
                shared.worst_nanos.fetch_max(late.as_nanos() as u64, Ordering::Relaxed);
            }
        });
        Self { samples, thread: Some(thread) }
    }

    /// The latest wake-up so far.
    pub fn worst(&self) -> Duration {
        Duration::from_nanos(self.samples.worst_nanos.load(Ordering::Relaxed))
    }

    /// What `wake_ups` wake-ups one after the other may add to a delay: a millisecond of work each, and the worst lateness.
    pub fn tolerance(&self, wake_ups: u32) -> Duration {
        wake_ups * (Duration::from_millis(1) + self.worst())
    }

    /// The limit for something that should take `intended` at most.
    pub fn limit(&self, intended: Duration) -> Duration {
        if judges_time() { intended + WAKE_UPS * self.worst() } else { intended.max(PATIENCE) }
    }

    /// Asserts that something that took `took` and should take `intended` at most is within its [`limit`](Self::limit); prints all three.
    #[track_caller]
    pub fn assert_within(&self, what: &str, took: Duration, intended: Duration) {
        let (worst, limit) = (self.worst(), self.limit(intended));
        println!(
            "{what}: {took:.2?}; intended {intended:?}, allowed {limit:.2?} (wake-ups up to {worst:.2?} late)"
        );
        assert!(took <= limit, "{what}: {took:?} is more than {limit:?}; wake-ups were up to {worst:?} late");
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.samples.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_late_widens_the_limits_and_nothing_else_does() {
        let lateness = Lateness::watch();
        lateness.samples.worst_nanos.fetch_max(3_600_000_000_000, Ordering::Relaxed);
        assert_eq!(lateness.worst(), Duration::from_secs(3600));
        assert_eq!(lateness.tolerance(2), Duration::from_millis(7_200_002));
        let second = Duration::from_secs(1);
        if judges_time() {
            assert_eq!(lateness.limit(second), second + WAKE_UPS * lateness.worst());
        } else {
            assert_eq!((lateness.limit(second), lateness.limit(2 * PATIENCE)), (PATIENCE, 2 * PATIENCE));
        }
    }

    #[test]
    fn a_sleeping_thread_is_never_early() {
        let lateness = Lateness::watch();
        thread::sleep(5 * NAP);
        assert!(lateness.tolerance(1) >= Duration::from_millis(1));
    }
}
