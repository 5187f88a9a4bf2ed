//! What the proxy has done, for people and programs.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of all threads.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        /// The state of a proxy.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Status {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// All of them.
            pub(crate) fn read(&self) -> Status {
                Status { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
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
    /// Connections that passed without a proxy, since its tables were full.
    passed,
    /// SYNs that came back to the proxy that had sent them.
    loops,
    /// Idle connections that were closed to make room for others.
    evicted,
    /// Connections that ended with a reset of one end, or its silence.
    reset,
    /// Segments whose acknowledgements waited for an emulated link.
    tail_held,
    /// Acknowledgements that left when they were due.
    tail_released,
    /// Segments that an emulated link had no room for.
    tail_dropped,
    /// Packets that were diverted to the proxy and are none of its own.
    ignored,
    /// Connections that the system had no means for: descriptors, memory, a free address.
    without_means,
    /// Bytes from clients to servers.
    bytes_from_clients,
    /// Bytes from servers to clients.
    bytes_from_servers,
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

    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}
