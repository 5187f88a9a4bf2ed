//! Why a record cannot be sealed or opened.

use super::MAX_EMPTY_RUN;

/// Why a record could not be sealed or opened. The connection is of no use afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The header announces, or the caller wants to seal, more than a record may hold.
    #[error("a record of {len} bytes is longer than TLS allows")]
    TooLong {
        /// Bytes announced or given.
        len: usize,
    },
    /// The header announces less than a content type and a tag.
    #[error("a record of {len} bytes is too short to be protected")]
    TooShort {
        /// Bytes announced.
        len: usize,
    },
    /// The caller's body is not what the header announces.
    #[error("the header announces {header} bytes, the body has {body}")]
    LengthMismatch {
        /// Bytes announced.
        header: usize,
        /// Bytes given.
        body: usize,
    },
    /// The record was altered, lost a predecessor, was repeated, or is of another connection.
    #[error("the record does not open: altered, out of order, or of another connection")]
    BadTag,
    /// A record, outside or inside the protection, of a type that has no place here.
    #[error("unexpected record of content type {0}")]
    UnexpectedType(u8),
    /// A record of zeros only: padding around nothing.
    #[error("a record without a content type")]
    NoType,
    /// A handshake message after the handshake that is no well-formed key update.
    #[error("unexpected handshake message of type {0}")]
    UnexpectedHandshake(u8),
    /// An alert that is not two bytes.
    #[error("malformed alert")]
    MalformedAlert,
    /// The peer reports an error and ends the connection.
    #[error("the peer ended the connection with alert {code} ({})", alert_name(*code))]
    PeerAlert {
        /// The alert's number (RFC 8446 §6).
        code: u8,
    },
    /// Too many records in a row that carried no data.
    #[error("{MAX_EMPTY_RUN} records in a row without data")]
    EmptyFlood,
    /// The peer had closed the connection, or a record before this one was in error.
    #[error("the connection is closed")]
    Closed,
    /// The key has protected as many records as it may; an update is overdue.
    #[error("the key is used up: an update is overdue")]
    KeyExhausted,
    /// The cryptographic library refused.
    #[error("the cryptographic library refuses {0}")]
    Crypto(&'static str),
}

impl RecordError {
    /// Whether the peer (or somebody on the path) is at fault rather than this process.
    pub fn is_peers_fault(&self) -> bool {
        !matches!(self, Self::KeyExhausted | Self::Crypto(_) | Self::LengthMismatch { .. })
    }
}

/// The name RFC 8446 §6 gives an alert that can reach us.
fn alert_name(description: u8) -> &'static str {
    match description {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        90 => "user_canceled",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => "unknown",
    }
}
