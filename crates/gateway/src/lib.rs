//! The Trunkline daemon: TUN, lanes, keys, control and metrics.
//!
//! [`daemon::Daemon`] is the whole of it. Packets pass through worker threads, one for each queue of the device; everything else happens in the daemon's own thread.

pub mod config;
pub mod control;
pub mod daemon;
pub mod device;
pub mod handshake;
pub mod keys;
pub mod log;
pub mod metrics;
pub mod preflight;
pub mod privilege;
pub mod record;
pub mod request;
pub mod status;

mod clock;
mod encryption;
mod lane_rx;
mod lane_tx;
mod life;
mod mailbox;
mod plan;
mod pool;
mod refusals;
mod rx;
mod sys;
mod tun;
mod tx;
mod worker;
