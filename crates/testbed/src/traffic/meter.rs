//! A counter that other threads can read while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An amount that grows. Clones show the same one.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<AtomicU64>);

impl Meter {
    pub(super) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// The amount now.
    pub fn total(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
