//! The Trunkline daemon: TUN, lanes, keys, control and metrics.
//!
//! [`daemon::Daemon`] is the entry point. Worker threads, one for each queue of the device, carry packets. The daemon's
//! control thread does the rest.

pub mod config;
pub mod daemon;
pub mod device;
pub mod doctor;
pub mod handshake;
pub mod join;
pub mod keys;
#[cfg(test)]
#[path = "../../trunk/tests/common/lane_script.rs"]
mod lane_script;
pub mod log;
pub mod metrics;
pub mod preflight;
pub mod privilege;
pub mod record;
#[cfg(test)]
#[path = "../../trunk/tests/common/recorder.rs"]
mod recorder;

mod half_open;
mod known;
mod lane;
mod lane_rx;
mod lane_tx;
mod life;
mod line_limit;
mod plan;
mod pool;
mod quic;
mod refusals;
mod reverse_path;
mod rx;
mod tcp_info;
mod tun;
mod tx;
mod usage;
mod worker;

use trunkline_linux as sys;
use trunkline_linux::{clock, mailbox};
