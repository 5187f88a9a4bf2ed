//! Why a record cannot be sealed or opened.

use super::MAX_EMPTY_RUN;

/// Why a record could not be sealed or opened. The connection is unusable afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The header, or the content to seal, exceeds the maximum length of a record.
    #[error("a record of {len} bytes is longer than TLS allows")]
    TooLong {
        /// Bytes announced or given.
        len: usize,
    },
    /// The header's length is too short for a content type and a tag.
    #[error("a record of {len} bytes is too short to be protected")]
    TooShort {
        /// Bytes announced.
        len: usize,
    },
    /// The body does not have the length in the header.
    #[error("the header announces {header} bytes, the body has {body}")]
    LengthMismatch {
        /// Bytes announced.
        header: usize,
        /// Bytes given.
        body: usize,
    },
    /// The record was altered, reordered or duplicated, an earlier one was lost, or it belongs to another connection.
    #[error("the record does not open: altered, out of order, or of another connection")]
    BadTag,
    /// A record with an unexpected content type, outer or inner.
    #[error("unexpected record of content type {0}")]
    UnexpectedType(u8),
    /// A record of zeros only: padding without a content type.
    #[error("a record without a content type")]
    NoType,
    /// A handshake message after the handshake that is not a valid key update.
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
    /// Too many consecutive records without data.
    #[error("{MAX_EMPTY_RUN} records in a row without data")]
    EmptyFlood,
    /// The peer has closed the connection, or an earlier record had an error.
    #[error("the connection is closed")]
    Closed,
    /// The key has reached its limit of records; an update is overdue.
    #[error("the key is used up: an update is overdue")]
    KeyExhausted,
    /// The cryptographic library returned an error.
    #[error("the cryptographic library refuses {0}")]
    Crypto(&'static str),
}

impl RecordError {
    /// Whether the peer (or an attacker on the path) is at fault, and not this process.
    pub fn is_peers_fault(&self) -> bool {
        !matches!(self, Self::KeyExhausted | Self::Crypto(_) | Self::LengthMismatch { .. })
    }
}

/// The name of an alert in RFC 8446 §6.
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
