//! Errors of gateways.

use std::io;

use crate::namespace::HostError;

/// Why a gateway could not be set up or run.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Its program could not be started.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The directory for keys, configurations and logs, or a file in it.
    #[error("{path}: {source}")]
    File {
        /// The directory or file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The binary could not make a key.
    #[error("`{command}` failed: {reason}")]
    Key {
        /// The command line.
        command: String,
        /// What the system, or the program, said.
        reason: String,
    },
    /// A gateway ended.
    #[error("gateway {gateway} ended ({status}); its log ends with:\n{log}")]
    Ended {
        /// Which one.
        gateway: String,
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// The lanes did not come up in time.
    #[error(
        "gateway {gateway} has lanes that are not up after {seconds} s ({state}); its log ends with:\n{log}"
    )]
    NotUp {
        /// Which one.
        gateway: String,
        /// How long that was waited for.
        seconds: u64,
        /// The lanes that are not up, or why that is not known.
        state: String,
        /// The last lines of its log.
        log: String,
    },
    /// A gateway did not answer on its control socket.
    #[error("gateway {gateway} does not answer: {reason}")]
    Silent {
        /// Which one.
        gateway: String,
        /// Why not.
        reason: String,
    },
    /// What a gateway costs could not be read.
    #[error("gateway {gateway}: {source}")]
    Process {
        /// Which one.
        gateway: String,
        /// What the system said.
        source: io::Error,
    },
    /// It was asked to stop while waiting.
    #[error("interrupted")]
    Interrupted,
}
