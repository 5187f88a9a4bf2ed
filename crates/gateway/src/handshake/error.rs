//! Why no lane came of a connection, sorted by whose fault it is.

use std::io;

use super::message::{MessageError, Refusal};
use crate::encryption::Encryption;
use crate::keys::PublicKey;
use crate::record::RecordError;

/// Whose fault a failure is: what the operator should look at, and whether trying again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The network between the sites. Trying again may help.
    Network,
    /// Somebody who is not the peer. Nothing to do but to note it.
    Stranger,
    /// The peer's software, or somebody who alters what it sends.
    Peer,
    /// The two sites' configurations do not fit each other. Trying again helps once one is changed.
    Configuration,
    /// This process.
    Ours,
}

/// Why no lane came of a connection.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The other end closed the connection before the handshake was over.
    #[error("the other end closed the connection during the handshake")]
    Disconnected,

    /// A caller claims a key we know no peer by.
    #[error("no peer has the key {key}")]
    UnknownKey {
        /// The key it claims; not proven.
        key: PublicKey,
    },
    /// Who answers at the endpoint is not the peer.
    #[error("expected the peer with key {expected}, found {found}")]
    WrongKey {
        /// The peer's key.
        expected: PublicKey,
        /// The key of who answered; not proven.
        found: PublicKey,
    },

    /// The other end breaks TLS, or is no Trunkline.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// The other end speaks TLS but has not agreed to this protocol.
    #[error("the other end does not speak trunkline/1")]
    NoProtocol,
    /// The other end sends more than a handshake takes.
    #[error("more than {limit} bytes of handshake")]
    TooMuch {
        /// The most that is read.
        limit: usize,
    },
    /// What the other end sends is not of a TLS record's form.
    #[error("record: {0}")]
    Record(#[from] RecordError),
    /// A greeting is malformed.
    #[error("greeting: {0}")]
    Message(#[from] MessageError),
    /// The answer is to another greeting than ours.
    #[error("the answer is for lane {lane} of lane group {lane_group:?}, which we did not ask for")]
    WrongAnswer {
        /// The lane group in the answer.
        lane_group: String,
        /// The number of the lane in the answer.
        lane: u16,
    },

    /// The peer does not know us: our public key is missing in its configuration.
    #[error("the peer does not know our public key")]
    NotAdmitted,
    /// One site wants data encrypted, the other does not.
    #[error("encryption is {:?} here and {:?} at the peer", ours.as_str(), theirs.as_str())]
    EncryptionMismatch {
        /// What this site is configured for.
        ours: Encryption,
        /// What the peer is configured for.
        theirs: Encryption,
    },
    /// The peer declines the lane.
    #[error("the peer declines: {0}")]
    Refused(Refusal),

    /// The handshake was over before this call.
    #[error("the handshake is over")]
    Over,
    /// A library refused what it should not.
    #[error("cannot set up TLS: {0}")]
    Setup(rustls::Error),
}

impl HandshakeError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Io(_) | Self::Disconnected => Fault::Network,
            Self::UnknownKey { .. } | Self::WrongKey { .. } => Fault::Stranger,
            Self::Tls(_)
            | Self::NoProtocol
            | Self::TooMuch { .. }
            | Self::Message(_)
            | Self::WrongAnswer { .. } => Fault::Peer,
            Self::Record(error) if error.is_peers_fault() => Fault::Peer,
            Self::NotAdmitted | Self::EncryptionMismatch { .. } | Self::Refused(_) => Fault::Configuration,
            Self::Record(_) | Self::Over | Self::Setup(_) => Fault::Ours,
        }
    }
}
