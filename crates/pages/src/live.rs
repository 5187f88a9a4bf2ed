//! What comes live: the latest of a series of texts, to any number of viewers.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// Viewers at a time.
pub const MAX_VIEWERS: usize = 256;

/// The latest text, for all viewers. One that does not take a text in time gets the next one: what waits for it is one text at most.
#[derive(Clone)]
pub struct Live {
    latest: watch::Sender<Arc<str>>,
    arrived: Arc<(Mutex<u64>, Condvar)>,
}

impl Default for Live {
    fn default() -> Self {
        Live { latest: watch::Sender::new("".into()), arrived: Arc::default() }
    }
}

impl Live {
    /// Shows a text to all.
    pub fn send(&self, text: impl Into<Arc<str>>) {
        self.latest.send_replace(text.into());
    }

    /// How many look on.
    pub fn viewers(&self) -> usize {
        self.latest.receiver_count()
    }

    /// How many have come so far.
    pub fn arrivals(&self) -> u64 {
        *self.arrived.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for so long, or until more have come than `seen`. Whether they have.
    pub fn wait(&self, seen: u64, time: Duration) -> bool {
        let (count, changed) = &*self.arrived;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(count, time, |count| *count <= seen);
        waited.is_ok_and(|(count, _)| *count > seen)
    }

    /// A place for one more viewer, if there is one.
    pub(crate) fn join(&self) -> Option<watch::Receiver<Arc<str>>> {
        let mut receiver = self.latest.subscribe();
        if self.viewers() > MAX_VIEWERS {
            return None;
        }
        // What is there now is new to who comes.
        receiver.mark_changed();
        let (count, changed) = &*self.arrived;
        *count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        changed.notify_all();
        Some(receiver)
    }
}
