//! Counts of all threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use trunkline_status::{ProxyCounts, ProxyTotals};

/// Counters with the names of the fields of what is reported of them.
macro_rules! counters {
    ($(#[$doc:meta])* $counters:ident, $counts:ident, $($name:ident,)*) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $counters {
            $(pub(crate) $name: Counter,)*
        }

        impl $counters {
            /// All of them.
            pub(crate) fn read(&self) -> $counts {
                $counts { $($name: self.$name.read(),)* }
            }
        }
    };
}

counters! {
    /// Of a process: see [`ProxyTotals`].
    TotalCounters,
    ProxyTotals,
    open,
    opening,
    opened,
    refused,
    unreachable,
    timed_out,
    unconfirmed,
    displaced,
    passed,
    full,
    loops,
    evicted,
    reset,
    tail_held,
    tail_released,
    tail_dropped,
    clamped,
    too_long,
    ignored,
    without_means,
    bytes_from_clients,
    bytes_from_servers,
}

counters! {
    /// Of one of `[[proxies]]`: see [`ProxyCounts`].
    ProxyCounters,
    ProxyCounts,
    open,
    opened,
    delivered,
    held,
    held_max,
    waiting,
    min_rtt_us,
    rate,
    tail_held,
    tail_released,
    tail_dropped,
    clamped,
}

/// Of a process and its proxies.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) totals: TotalCounters,
    /// In the order of the plan.
    pub(crate) proxies: Vec<ProxyCounters>,
    /// Why new connections may not come to the proxies, if they may not.
    problem: Mutex<Option<String>>,
}

impl Counters {
    pub(crate) fn new(proxies: usize) -> Self {
        Counters {
            totals: TotalCounters::default(),
            proxies: (0..proxies).map(|_| ProxyCounters::default()).collect(),
            problem: Mutex::default(),
        }
    }

    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Of the process, with the sums of what its proxies count.
    pub(crate) fn totals(&self) -> ProxyTotals {
        let sum = |of: fn(&ProxyCounters) -> &Counter| self.proxies.iter().map(|one| of(one).read()).sum();
        ProxyTotals {
            tail_held: sum(|proxy| &proxy.tail_held),
            tail_released: sum(|proxy| &proxy.tail_released),
            tail_dropped: sum(|proxy| &proxy.tail_dropped),
            clamped: sum(|proxy| &proxy.clamped),
            ..self.totals.read()
        }
    }
}

impl ProxyCounters {
    /// What a connection had held has become something else.
    pub(crate) fn hold(&self, before: u64, now: u64) {
        let sum = self.held.replace(before, now);
        self.held_max.0.fetch_max(sum, Ordering::Relaxed);
    }
}

/// A count.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// What has been counted as `before` is `now`. The sum.
    pub(crate) fn replace(&self, before: u64, now: u64) -> u64 {
        // Of several workers each adds its own, and a sum may be short of what another has just subtracted.
        let change = now.wrapping_sub(before);
        self.0.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }

    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_summed_over_connections_and_its_maximum_kept() {
        let counters = ProxyCounters::default();
        counters.hold(0, 700);
        counters.hold(0, 300);
        counters.hold(700, 100);
        counters.hold(300, 0);
        assert_eq!((counters.read().held, counters.read().held_max), (100, 1000));
    }
}
