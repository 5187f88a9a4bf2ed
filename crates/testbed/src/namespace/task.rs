//! A thread that is joined when its handle is dropped.

use std::thread::{self, JoinHandle};

/// A running thread. Dropping it waits for the thread, so whatever runs in one must be bounded in time.
#[derive(Debug)]
pub struct Task<T> {
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Task<T> {
    pub(crate) fn start(name: String, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let thread = thread::Builder::new().name(name).spawn(work).expect("the system has threads left");
        Self { thread: Some(thread) }
    }
}

impl<T> Task<T> {
    /// Waits for the thread and returns its result.
    ///
    /// # Panics
    ///
    /// With the thread's panic, if it panicked.
    pub fn join(mut self) -> T {
        let thread = self.thread.take().expect("only join and drop take it, and each consumes the task");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Whether the thread has ended, so that [`Task::join`] does not wait.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, was printed by the panic hook; drop must not panic again.
            let _ = thread.join();
        }
    }
}
