//! Messages between threads. They are rare, so a lock and an event descriptor suffice. No packet passes through a mailbox.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

struct Inner<T> {
    messages: Mutex<Vec<T>>,
    event: OwnedFd,
}

/// A queue of messages. A new message makes its descriptor readable.
pub struct Mailbox<T>(Arc<Inner<T>>);

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox(Arc::clone(&self.0))
    }
}

impl<T> Mailbox<T> {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox(Arc::new(Inner { messages: Mutex::new(Vec::new()), event })))
    }

    /// Adds a message.
    pub fn post(&self, message: T) {
        self.0.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // It fails only if the counter is full, and then the reader has been woken already.
        let _ = rustix::io::write(&self.0.event, &1_u64.to_ne_bytes());
    }

    /// Takes all messages.
    pub fn take(&self) -> Vec<T> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0.event, &mut count);
        std::mem::take(&mut *self.0.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> std::fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("event", &self.0.event).finish_non_exhaustive()
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
