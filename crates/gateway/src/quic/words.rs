//! Why a connection was lost, in words without the numbers of QUIC.

use quinn_proto::{ConnectionError, TransportErrorCode};

use super::link::CLOSED;
use crate::handshake::{self, HandshakeError};
use crate::lane_rx::RxError;

/// The maximum of what the other end says that is repeated.
const MAX_REASON: usize = 100;

/// Why a connection was lost, if that is known of handshakes: which key was refused, and by whom.
pub(super) fn refusal(error: &ConnectionError) -> Option<HandshakeError> {
    match error {
        ConnectionError::TransportError(error) => {
            alert(error.code).and_then(|_| handshake::rejected_key(&error.reason))
        }
        ConnectionError::ConnectionClosed(close) => alert(close.error_code)
            .map(handshake::of_alert)
            .filter(|error| matches!(error, HandshakeError::NotAdmitted | HandshakeError::NoProtocol)),
        _ => None,
    }
}

/// Why a connection was lost.
pub(super) fn lost(error: &ConnectionError) -> String {
    if let Some(error) = refusal(error) {
        return error.to_string();
    }
    match error {
        ConnectionError::VersionMismatch => {
            "the other end speaks no version of QUIC that this site does".to_owned()
        }
        ConnectionError::TransportError(error) => match alert(error.code) {
            Some(_) => format!("TLS: {}", error.reason),
            None => format!("the other end violates QUIC: {}{}", error.code, said(error.reason.as_bytes())),
        },
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code) {
            Some(alert) => handshake::of_alert(alert).to_string(),
            None => format!("the other end gave up: {}{}", close.error_code, said(&close.reason)),
        },
        ConnectionError::ApplicationClosed(close) if close.error_code == CLOSED => {
            RxError::Closed.to_string()
        }
        ConnectionError::ApplicationClosed(close) => {
            format!("the other end closed the connection because of an error{}", said(&close.reason))
        }
        ConnectionError::Reset => {
            "the other end does not know the connection any more: it was restarted".to_owned()
        }
        ConnectionError::TimedOut => "nothing came from the other end any more".to_owned(),
        ConnectionError::LocallyClosed => "this site closed the connection".to_owned(),
        ConnectionError::CidsExhausted => "there are too many connections".to_owned(),
    }
}

/// The alert of TLS that an error stands for (RFC 9001 §4.8).
fn alert(code: TransportErrorCode) -> Option<u8> {
    let code = u64::from(code);
    (0x100..0x200).contains(&code).then_some(code as u8)
}

/// What the other end says, as far as it can be printed.
fn said(reason: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(reason)
        .chars()
        .filter(|character| character.is_ascii_graphic() || *character == ' ')
        .take(MAX_REASON)
        .collect();
    if text.is_empty() { text } else { format!(" ({text})") }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use quinn_proto::{ApplicationClose, ConnectionClose, TransportError, VarInt};

    use super::*;
    use crate::keys::PublicKey;

    fn closed(code: TransportErrorCode, reason: &'static [u8]) -> String {
        let reason = Bytes::from_static(reason);
        lost(&ConnectionError::ConnectionClosed(ConnectionClose {
            error_code: code,
            frame_type: None,
            reason,
        }))
    }

    #[test]
    fn no_reason_has_a_number_of_quic() {
        let application = |code| {
            let reason = Bytes::from_static(b"so\x1b[31m");
            lost(&ConnectionError::ApplicationClosed(ApplicationClose {
                error_code: VarInt::from_u32(code),
                reason,
            }))
        };
        for (words, expected) in [
            (closed(TransportErrorCode::crypto(46), b""), HandshakeError::NotAdmitted.to_string()),
            (closed(TransportErrorCode::crypto(120), b""), HandshakeError::NoProtocol.to_string()),
            (
                closed(TransportErrorCode::crypto(40), b"x"),
                "TLS: received fatal alert: HandshakeFailure".to_owned(),
            ),
            (
                closed(TransportErrorCode::CONNECTION_REFUSED, b"\xff\n"),
                "the other end gave up: the server refused to accept a new connection".to_owned(),
            ),
            (application(0), "the peer closed the lane".to_owned()),
            (application(1), "the other end closed the connection because of an error (so[31m)".to_owned()),
            (
                lost(&ConnectionError::Reset),
                "the other end does not know the connection any more: it was restarted".to_owned(),
            ),
        ] {
            assert_eq!(words, expected);
            assert!(!words.contains("error 4") && !words.contains("crypto"), "{words}");
        }
    }

    #[test]
    fn the_key_that_was_refused_is_that_of_the_connections_own_error() {
        let key = |number| PublicKey::from_bytes([number; 32]);
        let rejected = |reason: String| {
            let error = TransportError { code: TransportErrorCode::crypto(46), frame: None, reason };
            refusal(&ConnectionError::TransportError(error))
        };
        // How the library shows an error of ours.
        let unknown = format!("invalid peer certificate: Other(OtherError(no peer has the key {}))", key(1));
        let Some(HandshakeError::UnknownKey { key: found }) = rejected(unknown) else { panic!("no key") };
        assert_eq!(found, key(1));
        let wrong = format!("x: Other(OtherError(expected the peer with key {}, found {}))", key(2), key(3));
        let Some(HandshakeError::WrongKey { expected, found }) = rejected(wrong) else { panic!("no key") };
        assert_eq!((expected, found), (key(2), key(3)));
        assert!(rejected("invalid peer certificate: BadEncoding".to_owned()).is_none());
    }
}
