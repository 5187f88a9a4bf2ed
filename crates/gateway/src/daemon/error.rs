//! The errors of a daemon.

use std::io;
use std::path::PathBuf;

use trunkline_proxy::ProxyError;
use trunkline_service::ListenError;
use trunkline_service::listen::hint;

use crate::device::DeviceError;
use crate::handshake::HandshakeError;
use crate::preflight::Refusals;
use crate::privilege::PrivilegeError;

/// Why a daemon failed to start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The check of the configuration failed.
    #[error(transparent)]
    Refused(#[from] Refusals),
    /// The TUN device cannot be set up.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The daemon cannot listen on an address.
    #[error("cannot listen on {address}: {source}{}", hint(source))]
    Listen {
        /// The address or socket path.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Another daemon answers on the control socket.
    #[error("another daemon answers on {0}: `trunkline down` ends it")]
    Running(PathBuf),
    /// The proxies cannot start.
    #[error("proxies: {0}")]
    Proxies(#[from] ProxyError),
    /// The cryptographic library failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// Privileges cannot be dropped.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The failed step.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A worker ended, so that packets of its queue no longer pass.
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

impl From<ListenError> for DaemonError {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::Running(path) => DaemonError::Running(path),
            ListenError::Listen { address, source } => DaemonError::Listen { address, source },
        }
    }
}

pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |source| DaemonError::System { what, source }
}
