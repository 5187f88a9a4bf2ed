//! Why a connection did not become a lane, sorted by who is at fault.

use std::io;

use super::message::{MessageError, Refusal, VERSION};
use crate::keys::PublicKey;
use crate::record::RecordError;
use trunkline_schema::Encryption;

/// Who is at fault: where the operator should look, and whether another attempt may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The network between the sites. Another attempt may help.
    Network,
    /// A host that is not authenticated as the peer.
    Unauthenticated,
    /// The peer's software, or an attacker who alters its data.
    Peer,
    /// The two sites' configurations do not match. Another attempt helps once one of them has changed.
    Configuration,
    /// This process.
    Ours,
}

/// Why a connection did not become a lane.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The other end closed the connection before the handshake was over.
    #[error("the other end closed the connection during the handshake")]
    Disconnected,

    /// The caller's key belongs to no configured peer.
    #[error("no peer has the key {key}")]
    UnknownKey {
        /// The key that it claims, not authenticated.
        key: PublicKey,
    },
    /// The host at the endpoint has another key than the peer.
    #[error("expected the peer with key {expected}, found {found}")]
    WrongKey {
        /// The peer's key.
        expected: PublicKey,
        /// The key that the host claims, not authenticated.
        found: PublicKey,
    },

    /// The other end violates TLS, or does not run Trunkline.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// The other end speaks TLS and has not agreed to this protocol.
    #[error("the other end does not speak trunkline/1 to trunkline/{VERSION}")]
    NoProtocol,
    /// The other end sends more than a handshake needs.
    #[error("more than {limit} bytes of handshake")]
    TooMuch {
        /// The maximum number of bytes.
        limit: usize,
    },
    /// The other end sends an invalid TLS record.
    #[error("record: {0}")]
    Record(#[from] RecordError),
    /// A greeting is malformed.
    #[error("greeting: {0}")]
    Message(#[from] MessageError),
    /// The answer names another lane than our greeting.
    #[error("the answer is for lane {lane} of lane group {lane_group:?}, which we did not request")]
    WrongAnswer {
        /// The lane group in the answer.
        lane_group: String,
        /// The number of the lane in the answer.
        lane: u16,
    },

    /// The peer's configuration lacks our public key.
    #[error("the peer does not know our public key")]
    NotAdmitted,
    /// The two sites' configurations of encryption differ.
    #[error("encryption is {:?} here and {:?} at the peer", ours.as_str(), theirs.as_str())]
    EncryptionMismatch {
        /// The configuration of this site.
        ours: Encryption,
        /// The configuration of the peer.
        theirs: Encryption,
    },
    /// The peer declines the lane.
    #[error("the peer declines: {0}")]
    Refused(Refusal),

    /// The handshake had ended before this call.
    #[error("the handshake is over")]
    Over,
    /// The TLS library returned an error that input cannot cause.
    #[error("cannot set up TLS: {0}")]
    Setup(rustls::Error),
}

impl HandshakeError {
    /// Whether what was dialled answers with something else than a gateway's handshake.
    pub fn is_of_another_service(&self) -> bool {
        match self {
            Self::Tls(_) | Self::NoProtocol => true,
            Self::Record(error) => error.is_peers_fault(),
            _ => false,
        }
    }

    /// Who is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Io(_) | Self::Disconnected => Fault::Network,
            Self::UnknownKey { .. } | Self::WrongKey { .. } => Fault::Unauthenticated,
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
