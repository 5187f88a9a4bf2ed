//! Counts of all threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($(#[$counters_doc:meta])* $counters:ident, $(#[$counts_doc:meta])* $counts:ident, $($(#[$doc:meta])* $name:ident,)*) => {
        $(#[$counters_doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        $(#[$counts_doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $counts {
            $($(#[$doc])* pub $name: u64,)*
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
    /// Of a process.
    TotalCounters,
    /// What a process has done.
    Totals,
    /// Connections that are open on both sides.
    open,
    /// Connections to servers that have not answered, or of clients that have not confirmed.
    opening,
    /// Connections that were opened on both sides.
    opened,
    /// Connections that their servers refused.
    refused,
    /// Connections to servers that cannot be reached.
    unreachable,
    /// Connections to servers that did not answer in time.
    timed_out,
    /// Connections that their clients never confirmed.
    unconfirmed,
    /// Connections that were being opened, and gave way to others.
    displaced,
    /// Connections that passed without a proxy, since there was no place for them.
    passed,
    /// Connections that were refused, since there was no place for them.
    full,
    /// SYNs that came back to the proxy that had sent them.
    loops,
    /// Idle connections that were closed to make room for others.
    evicted,
    /// Connections that ended with a reset of one end, or its silence.
    reset,
    /// Segments whose acknowledgements waited for an emulated link. This and the next three are the sums of the proxies'.
    tail_held,
    /// Acknowledgements that left when they were due.
    tail_released,
    /// Segments that an emulated link had no room for, or beyond the window that their sender was offered.
    tail_dropped,
    /// Packets whose window was lowered.
    clamped,
    /// Packets that were longer than the next link takes.
    too_long,
    /// Packets that were diverted to the proxy and are none of its own.
    ignored,
    /// Connections that the system had no means for: descriptors, memory, a free address.
    without_means,
    /// Bytes from clients to servers.
    bytes_from_clients,
    /// Bytes from servers to clients.
    bytes_from_servers,
}

counters! {
    /// Of one of `[[proxies]]`.
    ProxyCounters,
    /// What one of `[[proxies]]` has done.
    ProxyCounts,
    /// Its connections that are open, or known where their windows are lowered.
    open,
    /// Connections that were opened, or seen.
    opened,
    /// Bytes that the hosts behind have acknowledged.
    delivered,
    /// Bytes for the hosts behind that they have not acknowledged.
    held,
    /// The maximum of `held` since the start.
    held_max,
    /// Bytes of `held` that wait for the network behind, and not for the hosts there.
    waiting,
    /// The shortest round trip to a host behind that they are for, microseconds; 0 if unknown.
    min_rtt_us,
    /// The emulated link's rate, bits per second; 0 if there is none, or none has been measured.
    rate,
    /// Segments whose acknowledgements waited for the emulated link.
    tail_held,
    /// Acknowledgements that left when they were due.
    tail_released,
    /// Segments that the emulated link had no room for, or beyond the window that their sender was offered.
    tail_dropped,
    /// Packets whose window was lowered.
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
    pub(crate) fn totals(&self) -> Totals {
        let sum = |of: fn(&ProxyCounters) -> &Counter| self.proxies.iter().map(|one| of(one).read()).sum();
        Totals {
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
