//! The way of a connection from its handshake to a lane, or to its end.

use std::time::Instant as StdInstant;

use quinn_proto::ConnectionError;
use trunkline_schema::Encryption;

use super::link::{CLOSED, FAILED, Link, Stage};
use super::{Change, Event, Quic, words};
use crate::handshake::{HandshakeError, Hello, Message, MessageError, Refusal, RefusalReason, VERSION};
use crate::life::Failure;

impl Quic {
    /// Continues with the greetings, as far as the handshake and the other end are.
    pub(super) fn advance_greetings(
        &mut self,
        at: StdInstant,
        link: &mut Link,
        changes: &mut Vec<Change>,
    ) -> Result<(), HandshakeError> {
        if link.inner.is_handshaking() || link.inner.is_closed() {
            return Ok(());
        }
        match &mut link.stage {
            Stage::Dialling { hello, asked: asked @ false, .. } => {
                *asked = true;
                let hello = Message::Hello(hello.clone());
                link.send_greeting(&hello);
            }
            Stage::Dialling { serial, hello, asked: true } => {
                let (serial, ours) = (*serial, hello.clone());
                let theirs = match link.receive_greeting()? {
                    None => return Ok(()),
                    Some(Message::Welcome(hello)) => hello,
                    Some(Message::Refusal(refusal)) => return Err(HandshakeError::Refused(refusal)),
                    Some(other) => return Err(MessageError::UnexpectedKind(other.kind()).into()),
                };
                check_version(&theirs)?;
                if (&theirs.lane_group, theirs.lane) != (&ours.lane_group, ours.lane) {
                    let Hello { lane_group, lane, .. } = theirs;
                    return Err(HandshakeError::WrongAnswer { lane_group, lane });
                }
                link.deadline = None;
                link.stage = Stage::Deciding;
                changes.push(Change::Event(Event::Welcomed { serial, hello: theirs }));
            }
            Stage::Accepting => {
                let hello = match link.receive_greeting() {
                    Ok(None) => return Ok(()),
                    Ok(Some(Message::Hello(hello))) => hello,
                    Ok(Some(other)) => return Err(MessageError::UnexpectedKind(other.kind()).into()),
                    Err(HandshakeError::Message(error @ MessageError::UnknownVersion { .. })) => {
                        let reason = RefusalReason::UnsupportedVersion;
                        self.callers.release(link);
                        link.refuse(at, Refusal { reason, text: error.to_string() });
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                };
                check_version(&hello)?;
                let peer = link.peer().ok_or(HandshakeError::NoProtocol)?;
                let delivery = link.delivery().ok_or(HandshakeError::NoProtocol)?;
                let (number, remote) = (link.number, link.inner.remote_address());
                link.stage = Stage::Deciding;
                changes.push(Change::Event(Event::Asked { number, peer, hello, delivery, remote }));
            }
            Stage::Deciding | Stage::Lane { .. } | Stage::Over => {}
        }
        Ok(())
    }

    /// A connection is lost.
    pub(super) fn handle_lost(
        &mut self,
        link: &mut Link,
        error: &ConnectionError,
        changes: &mut Vec<Change>,
    ) {
        link.deadline = None;
        let clean = matches!(error, ConnectionError::ApplicationClosed(close) if close.error_code == CLOSED);
        let reason = words::lost(error);
        let refusal = words::refusal(error);
        match std::mem::replace(&mut link.stage, Stage::Over) {
            Stage::Lane { serial } => {
                self.lanes.remove(&serial);
                changes.push(Change::Ended { serial, reason, clean });
            }
            Stage::Dialling { serial, .. } => {
                self.lanes.remove(&serial);
                let failure = if link.inner.is_handshaking() || matches!(error, ConnectionError::TimedOut) {
                    Failure::Path
                } else {
                    Failure::Lane
                };
                // Who refuses a key is there.
                let failure = if refusal.is_some() { Failure::Lane } else { failure };
                changes.push(Change::Event(Event::DialFailed { serial, failure, reason }));
            }
            Stage::Accepting => {
                self.callers.release(link);
                let remote = link.inner.remote_address();
                let key = match refusal {
                    Some(HandshakeError::UnknownKey { key }) => Some(key),
                    _ => None,
                };
                changes.push(Change::Event(Event::CallerFailed { remote, key, reason }));
            }
            // The control thread's answer finds it over.
            Stage::Deciding if link.inner.side().is_server() => {
                self.callers.release(link);
            }
            Stage::Deciding | Stage::Over => {}
        }
    }

    /// Closes a connection that does not become a lane.
    pub(super) fn fail(
        &mut self,
        at: StdInstant,
        link: &mut Link,
        failure: Failure,
        reason: &str,
        changes: &mut Vec<Change>,
    ) {
        match std::mem::replace(&mut link.stage, Stage::Over) {
            Stage::Dialling { serial, .. } => {
                self.lanes.remove(&serial);
                // A handshake that began shows that there is a path.
                let failure = if link.inner.is_handshaking() { failure } else { Failure::Lane };
                let reason = reason.to_owned();
                changes.push(Change::Event(Event::DialFailed { serial, failure, reason }));
            }
            Stage::Accepting => {
                self.callers.release(link);
                let (remote, reason) = (link.inner.remote_address(), reason.to_owned());
                changes.push(Change::Event(Event::CallerFailed { remote, key: None, reason }));
            }
            Stage::Deciding if link.inner.side().is_server() => {
                self.callers.release(link);
            }
            Stage::Lane { serial } => link.stage = Stage::Lane { serial },
            Stage::Deciding | Stage::Over => {}
        }
        if !matches!(link.stage, Stage::Lane { .. }) {
            link.close(at, FAILED, "");
        }
    }
}

/// A lane over QUIC has the version that its ALPN names, and TLS.
fn check_version(hello: &Hello) -> Result<(), HandshakeError> {
    if hello.version != VERSION {
        return Err(MessageError::UnknownVersion { theirs: hello.version }.into());
    }
    if hello.encryption != Encryption::Tls {
        let (ours, theirs) = (Encryption::Tls, hello.encryption);
        return Err(HandshakeError::EncryptionMismatch { ours, theirs });
    }
    Ok(())
}
