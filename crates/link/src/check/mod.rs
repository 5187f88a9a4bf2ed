//! Checks of the settings of links and queues, before anything runs.

mod link;
mod queue;

pub use queue::queue;
