//! The state machine of the handshake, over a non-blocking stream.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustls::AlertDescription;

use super::connection::{Ask, Tls, TlsStep};
use super::error::HandshakeError;
use super::input::RecordReader;
use super::message::{Hello, Join, Message, MessageError, Refusal, RefusalReason};
use super::tls::{self, KeyRejection};
use super::{Established, Progress};
use crate::keys::PublicKey;
use crate::record::{KeySchedule, Opened, RecordError, SessionKeys};
use trunkline_schema::Encryption;

/// The longest filling before a greeting: interfaces with longer packets lead to no wide area.
const MAX_FILL_BYTES: usize = 9216;

/// A handshake in progress.
///
/// Call [`advance`](Self::advance) at once, and again whenever the stream is ready for the operation that it waits for. An
/// error, [`Progress::Done`] and [`Progress::Refused`] end it.
#[derive(Debug)]
pub struct Handshake<S = TcpStream> {
    stream: Option<S>,
    input: RecordReader,
    output: Vec<u8>,
    /// Bytes that the message of this end fills at least.
    fill: usize,
    stage: Stage,
}

/// The next step. Except in `Stage::Tls`, no step begins before `output` is sent.
#[derive(Debug)]
enum Stage {
    /// TLS itself.
    Tls(Tls),
    /// Acceptor: waits for the dialer's hello.
    AwaitHello(Secured),
    /// Acceptor: waits for the decision of this type's caller.
    Decide(Secured, Hello),
    /// Acceptor: waits for the decision about a site that comes with an invitation.
    DecideJoin(Secured, Join),
    /// Dialer: waits for the answer to its hello.
    AwaitAnswer(Secured, Hello),
    /// Dialer: waits for the answer to its request to be a peer.
    AwaitJoined(Secured),
    /// The last message is sent; the lane is established.
    Finish(Secured, Hello),
    /// The dialer is a peer, and both ends know it.
    Joined,
    /// The refusal is sent; the handshake ends, with an error if this module found one.
    Decline(Option<HandshakeError>),
    /// Over.
    Over,
}

/// The outcome of TLS.
#[derive(Debug)]
struct Secured {
    peer: PublicKey,
    /// The version of the protocol that both ends have.
    version: u16,
    keys: SessionKeys,
}

impl<S: Read + Write> Handshake<S> {
    pub(super) fn new(stream: S, tls: Tls) -> Self {
        let stage = Stage::Tls(tls);
        Self { stream: Some(stream), input: RecordReader::default(), output: Vec::new(), fill: 0, stage }
    }

    /// Puts so many bytes before the greeting of this end, 9216 at most: a segment of that size has arrived if the
    /// other end answers.
    #[must_use]
    pub fn filling(self, bytes: usize) -> Self {
        Self { fill: bytes.min(MAX_FILL_BYTES), ..self }
    }

    /// Advances as far as possible without blocking.
    ///
    /// # Errors
    /// [`HandshakeError`], which ends the handshake. If TLS has an alert for the error, it is sent to the peer, unless the
    /// stream would block.
    pub fn advance(&mut self) -> Result<Progress<S>, HandshakeError> {
        let progress = self.run();
        if progress.is_err() {
            self.stage = Stage::Over;
        }
        progress
    }

    /// The stream, to poll for readiness; `None` after it has been handed on.
    pub fn stream(&self) -> Option<&S> {
        self.stream.as_ref()
    }

    /// Acceptors: accepts the peer's request if it expects `encryption`. Otherwise refuses it, and
    /// [`advance`](Self::advance) ends with [`HandshakeError::EncryptionMismatch`].
    ///
    /// # Errors
    /// [`HandshakeError::Over`] unless [`Progress::HelloReceived`] was the last progress.
    pub fn welcome(&mut self, instance: u64, encryption: Encryption) -> Result<(), HandshakeError> {
        let (mut secured, theirs) = self.decide(|stage| match stage {
            Stage::Decide(secured, hello) => Ok((secured, hello)),
            other => Err(Box::new(other)),
        })?;
        if theirs.encryption != encryption {
            let mismatch = HandshakeError::EncryptionMismatch { ours: encryption, theirs: theirs.encryption };
            let refusal =
                Refusal { reason: RefusalReason::EncryptionMismatch, text: encryption.as_str().to_owned() };
            return self.decline(secured, refusal, Some(mismatch));
        }
        let ours = Hello { encryption, instance, ..theirs.clone() };
        self.send(&mut secured, &Message::Welcome(ours))?;
        self.stage = Stage::Finish(secured, theirs);
        Ok(())
    }

    /// Acceptors: tells a site that came with an invitation that it is a peer.
    ///
    /// # Errors
    /// [`HandshakeError::Over`] unless [`Progress::JoinReceived`] was the last progress.
    pub fn joined(&mut self) -> Result<(), HandshakeError> {
        let mut secured = self.decide(|stage| match stage {
            Stage::DecideJoin(secured, _) => Ok(secured),
            other => Err(Box::new(other)),
        })?;
        self.send(&mut secured, &Message::Joined)?;
        self.output.extend(secured.keys.sealer.close()?);
        self.stage = Stage::Joined;
        Ok(())
    }

    /// Acceptors: refuses the peer's request. `text` goes into the peer's log.
    ///
    /// # Errors
    /// [`HandshakeError::Over`] unless the last progress was one that waits for a decision.
    pub fn refuse(&mut self, reason: RefusalReason, text: &str) -> Result<(), HandshakeError> {
        let secured = self.decide(|stage| match stage {
            Stage::Decide(secured, _) | Stage::DecideJoin(secured, _) => Ok(secured),
            other => Err(Box::new(other)),
        })?;
        self.decline(secured, Refusal { reason, text: text.to_owned() }, None)
    }

    /// What `take` has of the stage, if it is one that waits for this decision; another one stays.
    fn decide<T>(&mut self, take: impl FnOnce(Stage) -> Result<T, Box<Stage>>) -> Result<T, HandshakeError> {
        take(std::mem::replace(&mut self.stage, Stage::Over)).map_err(|other| {
            self.stage = *other;
            HandshakeError::Over
        })
    }

    fn run(&mut self) -> Result<Progress<S>, HandshakeError> {
        loop {
            // In Stage::Tls the library decides when its output is sent.
            if !matches!(self.stage, Stage::Tls(_)) && !self.flush()? {
                return Ok(Progress::WantWrite);
            }
            let blocked = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Tls(tls) => self.advance_tls(tls)?,
                Stage::AwaitHello(secured) => self.await_hello(secured)?,
                Stage::AwaitAnswer(secured, ours) => self.await_answer(secured, ours)?,
                Stage::Decide(secured, hello) => {
                    let progress = Progress::HelloReceived { hello: hello.clone(), peer: secured.peer };
                    self.stage = Stage::Decide(secured, hello);
                    Some(progress)
                }
                Stage::DecideJoin(secured, join) => {
                    let progress = Progress::JoinReceived { join: join.clone(), invitation: secured.peer };
                    self.stage = Stage::DecideJoin(secured, join);
                    Some(progress)
                }
                Stage::AwaitJoined(secured) => self.await_joined(secured)?,
                Stage::Joined => Some(Progress::Joined),
                Stage::Finish(secured, hello) => Some(self.finish(secured, hello)?),
                Stage::Decline(None) => Some(Progress::Refused),
                Stage::Decline(Some(error)) => return Err(error),
                Stage::Over => return Err(HandshakeError::Over),
            };
            if let Some(progress) = blocked {
                return Ok(progress);
            }
        }
    }

    /// Runs TLS until it has finished or waits for the stream.
    fn advance_tls(&mut self, mut tls: Tls) -> Result<Option<Progress<S>>, HandshakeError> {
        loop {
            match tls.step(&mut self.input, &mut self.output) {
                Ok(TlsStep::Again) => {}
                Ok(TlsStep::Blocked) if !tls.common().is_handshaking() => {
                    self.secure(tls)?;
                    return Ok(None);
                }
                Ok(TlsStep::Blocked) => {
                    let flushed = self.flush()?;
                    let waits = if flushed { Progress::WantRead } else { Progress::WantWrite };
                    if !flushed || !self.read_record()? {
                        self.stage = Stage::Tls(tls);
                        return Ok(Some(waits));
                    }
                }
                Err(error) => {
                    tls.collect_alert(&mut self.input, &mut self.output);
                    // If the alert cannot be sent, the first error is still the one to report.
                    let _ = self.flush();
                    return Err(translate(error));
                }
            }
        }
    }

    /// TLS has finished: takes its keys; the dialer sends its hello.
    fn secure(&mut self, tls: Tls) -> Result<(), HandshakeError> {
        let version =
            tls.common().alpn_protocol().and_then(tls::version).ok_or(HandshakeError::NoProtocol)?;
        if !self.input.records().is_empty() {
            return Err(RecordError::UnexpectedHandshake(0).into());
        }
        let presented = tls.common().peer_certificates().and_then(|keys| keys.first());
        let peer = presented.and_then(tls::presented_key).ok_or(HandshakeError::NoProtocol)?;
        self.stage = match tls {
            Tls::Client(connection, ask) => {
                let (secrets, schedule) =
                    connection.dangerous_into_kernel_connection().map_err(HandshakeError::Setup)?;
                let keys = SessionKeys::new(secrets, KeySchedule::Client(schedule))?;
                let mut secured = Secured { peer, version, keys };
                match ask {
                    Ask::Lane(hello) => {
                        let hello = Hello { version: hello.version.min(version), ..hello };
                        self.send(&mut secured, &Message::Hello(hello.clone()))?;
                        Stage::AwaitAnswer(secured, hello)
                    }
                    Ask::Join(join) => {
                        self.send(&mut secured, &Message::Join(join))?;
                        Stage::AwaitJoined(secured)
                    }
                }
            }
            Tls::Server(connection) => {
                let (secrets, schedule) =
                    connection.dangerous_into_kernel_connection().map_err(HandshakeError::Setup)?;
                let keys = SessionKeys::new(secrets, KeySchedule::Server(schedule))?;
                Stage::AwaitHello(Secured { peer, version, keys })
            }
        };
        Ok(())
    }

    fn await_hello(&mut self, mut secured: Secured) -> Result<Option<Progress<S>>, HandshakeError> {
        match self.receive(&mut secured) {
            Ok(Some(Message::Hello(hello))) => self.stage = Stage::Decide(secured, hello),
            Ok(Some(Message::Join(join))) => self.stage = Stage::DecideJoin(secured, join),
            Ok(Some(other)) => return Err(MessageError::UnexpectedKind(other.kind()).into()),
            Ok(None) => {
                self.stage = Stage::AwaitHello(secured);
                return Ok(Some(Progress::WantRead));
            }
            Err(HandshakeError::Message(error @ MessageError::UnknownVersion { .. })) => {
                let refusal = Refusal { reason: RefusalReason::UnsupportedVersion, text: error.to_string() };
                self.decline(secured, refusal, Some(error.into()))?;
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    fn await_answer(
        &mut self,
        mut secured: Secured,
        ours: Hello,
    ) -> Result<Option<Progress<S>>, HandshakeError> {
        let theirs = match self.receive(&mut secured)? {
            Some(Message::Welcome(hello)) => hello,
            Some(Message::Refusal(refusal)) => return Err(refused(refusal, ours.encryption)),
            Some(other) => return Err(MessageError::UnexpectedKind(other.kind()).into()),
            None => {
                self.stage = Stage::AwaitAnswer(secured, ours);
                return Ok(Some(Progress::WantRead));
            }
        };
        if theirs.encryption != ours.encryption {
            let (ours, theirs) = (ours.encryption, theirs.encryption);
            return Err(HandshakeError::EncryptionMismatch { ours, theirs });
        }
        if (&theirs.lane_group, theirs.lane) != (&ours.lane_group, ours.lane) {
            return Err(HandshakeError::WrongAnswer { lane_group: theirs.lane_group, lane: theirs.lane });
        }
        self.stage = Stage::Finish(secured, theirs);
        Ok(None)
    }

    fn await_joined(&mut self, mut secured: Secured) -> Result<Option<Progress<S>>, HandshakeError> {
        match self.receive(&mut secured)? {
            Some(Message::Joined) => self.stage = Stage::Joined,
            Some(Message::Refusal(refusal)) => return Err(HandshakeError::Refused(refusal)),
            Some(other) => return Err(MessageError::UnexpectedKind(other.kind()).into()),
            None => {
                self.stage = Stage::AwaitJoined(secured);
                return Ok(Some(Progress::WantRead));
            }
        }
        Ok(None)
    }

    fn finish(&mut self, secured: Secured, hello: Hello) -> Result<Progress<S>, HandshakeError> {
        let stream = self.stream.take().ok_or(HandshakeError::Over)?;
        let keys = match hello.encryption {
            Encryption::Tls => Some(secured.keys),
            Encryption::None => None,
        };
        Ok(Progress::Done(Box::new(Established { stream, peer: secured.peer, hello, keys })))
    }

    /// Sends a refusal and the end of the connection after it.
    fn decline(
        &mut self,
        mut secured: Secured,
        refusal: Refusal,
        error: Option<HandshakeError>,
    ) -> Result<(), HandshakeError> {
        self.send(&mut secured, &Message::Refusal(refusal))?;
        self.output.extend(secured.keys.sealer.close()?);
        self.stage = Stage::Decline(error);
        Ok(())
    }

    /// Adds a message to the output, as a record, behind one without data that fills a segment.
    fn send(&mut self, secured: &mut Secured, message: &Message) -> Result<(), HandshakeError> {
        if self.fill > 0 {
            self.output.extend(secured.keys.sealer.padding(self.fill)?);
        }
        let mut content = message.encode();
        let (header, trailer) = secured.keys.sealer.seal(&mut content)?;
        self.output.extend(header);
        self.output.extend(content);
        self.output.extend(trailer);
        Ok(())
    }

    /// The next message, if the stream has it without blocking.
    fn receive(&mut self, secured: &mut Secured) -> Result<Option<Message>, HandshakeError> {
        while self.read_record()? {
            let Some((header, mut body)) = self.input.take_record() else { continue };
            match secured.keys.opener.open(header, &mut body) {
                Ok(Opened::Data(0) | Opened::KeyUpdate { .. }) => {}
                Ok(Opened::Data(len)) => {
                    let message = Message::decode(&body[..len])?;
                    return match &message {
                        Message::Hello(hello) | Message::Welcome(hello)
                            if hello.version != secured.version =>
                        {
                            Err(MessageError::UnknownVersion { theirs: hello.version }.into())
                        }
                        _ => Ok(Some(message)),
                    };
                }
                Ok(Opened::Closed) => return Err(HandshakeError::Disconnected),
                Err(RecordError::PeerAlert { code }) => return Err(alerted(AlertDescription::from(code))),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn read_record(&mut self) -> Result<bool, HandshakeError> {
        let stream = self.stream.as_mut().ok_or(HandshakeError::Over)?;
        self.input.read_record(stream)
    }

    /// Writes as much output as the stream takes. Whether it took all.
    fn flush(&mut self) -> Result<bool, HandshakeError> {
        let stream = self.stream.as_mut().ok_or(HandshakeError::Over)?;
        while !self.output.is_empty() {
            match stream.write(&self.output) {
                Ok(0) => return Err(HandshakeError::Disconnected),
                Ok(written) => drop(self.output.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// Translates an error of the TLS library.
fn translate(error: rustls::Error) -> HandshakeError {
    match KeyRejection::from_tls(&error) {
        Some(rejection) => rejection.into(),
        None => match error {
            rustls::Error::AlertReceived(alert) => alerted(alert),
            rustls::Error::NoApplicationProtocol => HandshakeError::NoProtocol,
            other => HandshakeError::Tls(other),
        },
    }
}

/// The key that this site has refused, by the text of a TLS error.
pub(crate) fn rejected_key(text: &str) -> Option<HandshakeError> {
    KeyRejection::from_text(text).map(HandshakeError::from)
}

/// What an alert of the peer means here, by its number.
pub(crate) fn of_alert(number: u8) -> HandshakeError {
    alerted(AlertDescription::from(number))
}

impl From<KeyRejection> for HandshakeError {
    fn from(rejection: KeyRejection) -> Self {
        match rejection {
            KeyRejection::Unknown(key) => HandshakeError::UnknownKey { key },
            KeyRejection::Wrong { expected, found } => HandshakeError::WrongKey { expected, found },
        }
    }
}

/// What an alert of the peer means here.
fn alerted(alert: AlertDescription) -> HandshakeError {
    match alert {
        // How an acceptor of ours says that it knows no peer by our key.
        AlertDescription::CertificateUnknown | AlertDescription::AccessDenied => HandshakeError::NotAdmitted,
        AlertDescription::NoApplicationProtocol => HandshakeError::NoProtocol,
        other => HandshakeError::Tls(rustls::Error::AlertReceived(other)),
    }
}

/// Translates a refusal, for a dialer with this encryption.
fn refused(refusal: Refusal, ours: Encryption) -> HandshakeError {
    let theirs = match ours {
        Encryption::Tls => Encryption::None,
        Encryption::None => Encryption::Tls,
    };
    match refusal.reason {
        RefusalReason::EncryptionMismatch => HandshakeError::EncryptionMismatch { ours, theirs },
        _ => HandshakeError::Refused(refusal),
    }
}
