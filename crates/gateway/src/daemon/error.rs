//! The errors of a daemon.

use std::io;
use std::path::PathBuf;

use crate::device::DeviceError;
use crate::handshake::HandshakeError;
use crate::preflight::Refusals;
use crate::privilege::PrivilegeError;

/// Why a daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// What the configuration says.
    #[error(transparent)]
    Refused(#[from] Refusals),
    /// The TUN device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// An address to listen on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address or socket path.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A daemon already answers on the control socket.
    #[error("another daemon answers on {0}: `trunkline down` ends it")]
    Running(PathBuf),
    /// Cryptography.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// Giving up privileges.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// The system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A worker ended, and packets of its queue would no longer pass.
    #[error("worker {shard} ended: {reason}")]
    Worker {
        /// Its number.
        shard: usize,
        /// Why.
        reason: String,
    },
    /// A bug in the control thread.
    #[error("the control thread ended: {reason}")]
    Control {
        /// Why.
        reason: String,
    },
}

pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |source| DaemonError::System { what, source }
}
