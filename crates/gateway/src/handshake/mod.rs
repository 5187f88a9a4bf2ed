//! From a TCP connection to a lane: who is there, what it is for, and with which keys.
//!
//! 1. **TLS 1.3** with raw public keys both ways proves both sites' Ed25519 keys to each other.
//! 2. **Greetings**, the first record of data each way: the dialer's [`Hello`], and the acceptor's welcome or
//!    [`Refusal`]. They are protected by TLS whatever the lane's [`Encryption`] will be, and both must name
//!    the same, so nobody on the path can talk two sites into clear text.
//! 3. What is left is an [`Established`] connection: the stream, and the keys for [`crate::record`] or, where
//!    both sites say `encryption = "none"`, no keys.
//!
//! The [`Handshake`] reads exactly one TLS record at a time, so that the octet after the last greeting is
//! still in the kernel when the stream is handed on. It owns no clock: the caller gives up on a handshake
//! that takes too long by dropping it.

mod error;
mod input;
mod message;
mod tls;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::crypto::CryptoProvider;
use rustls::server::UnbufferedServerConnection;
use rustls::sign::CertifiedKey;
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{AlertDescription, ClientConfig, CommonState, ServerConfig};

pub use error::{Fault, HandshakeError};
pub(crate) use message::is_class_name;
pub use message::{Hello, MAX_CLASS_BYTES, MAX_TEXT_BYTES, MessageError, Refusal, RefusalReason, VERSION};
pub use tls::ALPN;

use self::input::RecordReader;
use self::message::Message;
use self::tls::Stranger;
use crate::config::Encryption;
use crate::keys::{PublicKey, SecretKey};
use crate::record::{Cipher, KeySchedule, Opened, RecordError, SessionKeys};

/// Says whether a caller with this key is let in. Asked during each handshake, from whatever thread runs it.
pub type Admit = Arc<dyn Fn(&PublicKey) -> bool + Send + Sync>;

/// What this site proves itself with.
#[derive(Clone)]
pub struct Identity {
    provider: Arc<CryptoProvider>,
    key: Arc<CertifiedKey>,
    public: PublicKey,
}

impl Identity {
    /// The identity of this key.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`] when the TLS library does not take the key.
    pub fn new(secret: &SecretKey) -> Result<Self, HandshakeError> {
        let key = tls::certified_key(secret).map_err(HandshakeError::Setup)?;
        Ok(Self { provider: Arc::new(tls::provider()), key: Arc::new(key), public: secret.public() })
    }

    /// The same site, which agrees to this cipher only. Without this call all three are offered, AES-256-GCM
    /// first where the processor has instructions for AES, `ChaCha20-Poly1305` first where it has not.
    #[must_use]
    pub fn with_only(self, cipher: Cipher) -> Self {
        let provider = CryptoProvider { cipher_suites: vec![tls::suite(cipher)], ..tls::provider() };
        Self { provider: Arc::new(provider), ..self }
    }

    /// The key others know this site by.
    pub fn public(&self) -> PublicKey {
        self.public
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Takes in callers.
#[derive(Debug, Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// Takes in callers whose key `admit` lets in.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`].
    pub fn new(identity: &Identity, admit: Admit) -> Result<Self, HandshakeError> {
        let config = tls::server_config(&identity.provider, &identity.key, admit);
        Ok(Self { config: Arc::new(config.map_err(HandshakeError::Setup)?) })
    }

    /// Begins the handshake on a non-blocking connection that was accepted.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`].
    pub fn accept<S: Read + Write>(&self, stream: S) -> Result<Handshake<S>, HandshakeError> {
        let connection = UnbufferedServerConnection::new(Arc::clone(&self.config));
        let connection = connection.map_err(HandshakeError::Setup)?;
        Ok(Handshake::new(stream, Stage::Tls(Tls::Server(Box::new(connection)))))
    }
}

/// Calls one peer.
#[derive(Debug, Clone)]
pub struct Dialer {
    config: Arc<ClientConfig>,
}

impl Dialer {
    /// Calls the peer with this key and talks to no other.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`].
    pub fn new(identity: &Identity, peer: PublicKey) -> Result<Self, HandshakeError> {
        let config = tls::client_config(&identity.provider, &identity.key, peer);
        Ok(Self { config: Arc::new(config.map_err(HandshakeError::Setup)?) })
    }

    /// Begins the handshake on a non-blocking connection to the peer, for the lane `hello` asks for.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`].
    pub fn dial<S: Read + Write>(&self, stream: S, hello: Hello) -> Result<Handshake<S>, HandshakeError> {
        let connection = UnbufferedClientConnection::new(Arc::clone(&self.config), tls::server_name());
        let connection = connection.map_err(HandshakeError::Setup)?;
        Ok(Handshake::new(stream, Stage::Tls(Tls::Client(Box::new(connection), hello))))
    }
}

/// What a handshake waits for.
#[derive(Debug)]
pub enum Progress<S = TcpStream> {
    /// The stream to become readable.
    WantRead,
    /// The stream to become writable.
    WantWrite,
    /// Acceptors only: the caller to decide, with [`Handshake::welcome`] or [`Handshake::refuse`], about what
    /// the peer asks for; then to call [`Handshake::advance`] again.
    HelloReceived {
        /// What it asks for.
        hello: Hello,
        /// Who asks: proven.
        peer: PublicKey,
    },
    /// Nothing: the lane stands.
    Done(Box<Established<S>>),
    /// Nothing: the refusal has been sent. Acceptors only.
    Refused,
}

/// A connection that has become a lane.
#[derive(Debug)]
pub struct Established<S = TcpStream> {
    /// The stream; the next octet read is the first of the lane's data.
    pub stream: S,
    /// Who is at the other end: proven.
    pub peer: PublicKey,
    /// What the other end said.
    pub hello: Hello,
    /// The keys for the lane's records; absent where both ends want data in clear.
    pub keys: Option<SessionKeys>,
}

/// A handshake under way.
///
/// Call [`advance`](Self::advance) at once, and again whenever the stream is ready for what it said it waits
/// for. After an error, [`Progress::Done`] or [`Progress::Refused`] it is over.
#[derive(Debug)]
pub struct Handshake<S = TcpStream> {
    stream: Option<S>,
    input: RecordReader,
    output: Vec<u8>,
    stage: Stage,
}

/// What comes next. Nothing happens while `output` holds anything but in `Stage::Tls`.
#[derive(Debug)]
enum Stage {
    /// TLS itself.
    Tls(Tls),
    /// Acceptor: the dialer's hello.
    AwaitHello(Secured),
    /// Acceptor: the caller's decision.
    Decide(Secured, Hello),
    /// Dialer: the answer to its hello.
    AwaitAnswer(Secured, Hello),
    /// The last octets are on their way; then the lane stands.
    Finish(Secured, Hello),
    /// The last octets are on their way; then the lane is declined, for a reason the caller gave or an error
    /// found here.
    Decline(Option<HandshakeError>),
    /// Over.
    Over,
}

/// A TLS handshake of either side.
enum Tls {
    Client(Box<UnbufferedClientConnection>, Hello),
    Server(Box<UnbufferedServerConnection>),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client(..) => "Client",
            Self::Server(_) => "Server",
        })
    }
}

/// The outcome of TLS.
#[derive(Debug)]
struct Secured {
    peer: PublicKey,
    keys: SessionKeys,
}

/// What a step of TLS asks for.
#[derive(Debug, PartialEq, Eq)]
enum TlsStep {
    /// Another step.
    Again,
    /// Another record, if the handshake is not over.
    Blocked,
}

impl<S: Read + Write> Handshake<S> {
    fn new(stream: S, stage: Stage) -> Self {
        Self { stream: Some(stream), input: RecordReader::default(), output: Vec::new(), stage }
    }

    /// Does all that can be done without waiting.
    ///
    /// # Errors
    /// [`HandshakeError`]; the handshake is then over. Where TLS has a word for it the peer has been told, as
    /// far as the stream would take it.
    pub fn advance(&mut self) -> Result<Progress<S>, HandshakeError> {
        let progress = self.run();
        if progress.is_err() {
            self.stage = Stage::Over;
        }
        progress
    }

    /// The stream, to wait for; `None` once it has been handed on.
    pub fn stream(&self) -> Option<&S> {
        self.stream.as_ref()
    }

    /// Acceptors: gives the peer the lane it asks for, if `encryption` is what it expects; otherwise it is
    /// refused, and [`advance`](Self::advance) ends with [`HandshakeError::EncryptionMismatch`].
    ///
    /// # Errors
    /// [`HandshakeError::Over`] unless [`Progress::HelloReceived`] was the last progress.
    pub fn welcome(&mut self, instance: u64, encryption: Encryption) -> Result<(), HandshakeError> {
        let (mut secured, theirs) = self.decide()?;
        if theirs.encryption != encryption {
            let mismatch = HandshakeError::EncryptionMismatch { ours: encryption, theirs: theirs.encryption };
            let refusal =
                Refusal { reason: RefusalReason::EncryptionMismatch, text: encryption.as_str().to_owned() };
            return self.decline(secured, refusal, Some(mismatch));
        }
        let ours = Hello { version: VERSION, encryption, instance, ..theirs.clone() };
        self.send(&mut secured, &Message::Welcome(ours))?;
        self.stage = Stage::Finish(secured, theirs);
        Ok(())
    }

    /// Acceptors: declines the lane the peer asks for. `text` goes into the peer's log.
    ///
    /// # Errors
    /// As for [`welcome`](Self::welcome).
    pub fn refuse(&mut self, reason: RefusalReason, text: &str) -> Result<(), HandshakeError> {
        let (secured, _) = self.decide()?;
        self.decline(secured, Refusal { reason, text: text.to_owned() }, None)
    }

    fn decide(&mut self) -> Result<(Secured, Hello), HandshakeError> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Decide(secured, hello) => Ok((secured, hello)),
            other => {
                self.stage = other;
                Err(HandshakeError::Over)
            }
        }
    }

    fn run(&mut self) -> Result<Progress<S>, HandshakeError> {
        loop {
            // TLS says itself when its output is to be sent.
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

    /// Steps TLS until it is over or waits for the stream.
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
                    // The peer may be gone already; the error is worth more than its not being told.
                    let _ = self.flush();
                    return Err(translate(error));
                }
            }
        }
    }

    /// TLS is over: takes its keys, and the dialer greets.
    fn secure(&mut self, tls: Tls) -> Result<(), HandshakeError> {
        if tls.common().alpn_protocol() != Some(ALPN) {
            return Err(HandshakeError::NoProtocol);
        }
        if !self.input.records().is_empty() {
            return Err(RecordError::UnexpectedHandshake(0).into());
        }
        let shown = tls.common().peer_certificates().and_then(|shown| shown.first());
        let peer = shown.and_then(tls::shown_key).ok_or(HandshakeError::NoProtocol)?;
        self.stage = match tls {
            Tls::Client(connection, hello) => {
                let (secrets, schedule) =
                    connection.dangerous_into_kernel_connection().map_err(HandshakeError::Setup)?;
                let keys = SessionKeys::new(secrets, KeySchedule::Client(schedule))?;
                let mut secured = Secured { peer, keys };
                self.send(&mut secured, &Message::Hello(hello.clone()))?;
                Stage::AwaitAnswer(secured, hello)
            }
            Tls::Server(connection) => {
                let (secrets, schedule) =
                    connection.dangerous_into_kernel_connection().map_err(HandshakeError::Setup)?;
                let keys = SessionKeys::new(secrets, KeySchedule::Server(schedule))?;
                Stage::AwaitHello(Secured { peer, keys })
            }
        };
        Ok(())
    }

    fn await_hello(&mut self, mut secured: Secured) -> Result<Option<Progress<S>>, HandshakeError> {
        match self.receive(&mut secured) {
            Ok(Some(Message::Hello(hello))) => self.stage = Stage::Decide(secured, hello),
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
        if (&theirs.class, theirs.shard) != (&ours.class, ours.shard) {
            return Err(HandshakeError::WrongAnswer { class: theirs.class, shard: theirs.shard });
        }
        self.stage = Stage::Finish(secured, theirs);
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

    /// Puts a message into the output as a record.
    fn send(&mut self, secured: &mut Secured, message: &Message) -> Result<(), HandshakeError> {
        let mut content = message.encode();
        let (header, trailer) = secured.keys.sealer.seal(&mut content)?;
        self.output.extend(header);
        self.output.extend(content);
        self.output.extend(trailer);
        Ok(())
    }

    /// The next message, if the stream has it already.
    fn receive(&mut self, secured: &mut Secured) -> Result<Option<Message>, HandshakeError> {
        while self.read_record()? {
            let Some((header, mut body)) = self.input.take_record() else { continue };
            match secured.keys.opener.open(header, &mut body) {
                Ok(Opened::Data(0) | Opened::KeyUpdate { .. }) => {}
                Ok(Opened::Data(len)) => return Ok(Some(Message::decode(&body[..len])?)),
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

    /// Writes what the stream takes; whether that was all.
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

impl Tls {
    fn common(&self) -> &CommonState {
        match self {
            Self::Client(connection, _) => connection,
            Self::Server(connection) => connection,
        }
    }

    /// Does the next thing TLS can do with the records at hand.
    fn step(&mut self, input: &mut RecordReader, output: &mut Vec<u8>) -> Result<TlsStep, rustls::Error> {
        let (discard, step) = match self {
            Self::Client(connection, _) => handle(connection.process_tls_records(input.records()), output),
            Self::Server(connection) => handle(connection.process_tls_records(input.records()), output),
        };
        input.consume(discard);
        step
    }

    /// After an error: puts the alert TLS has for it into the output. Nothing more may be processed then, so
    /// it is only asked for while there is something to be sent.
    fn collect_alert(&mut self, input: &mut RecordReader, output: &mut Vec<u8>) {
        while self.common().wants_write() && self.step(input, output) == Ok(TlsStep::Again) {}
    }
}

/// Does what a TLS connection asks for; how much of the input is used up, and what comes next.
fn handle<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    output: &mut Vec<u8>,
) -> (usize, Result<TlsStep, rustls::Error>) {
    let step = match status.state {
        Ok(ConnectionState::EncodeTlsData(mut encode)) => {
            let filled = output.len();
            let mut outcome = encode.encode(&mut []);
            if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = outcome {
                output.resize(filled + required_size, 0);
                outcome = encode.encode(&mut output[filled..]);
            }
            match outcome {
                Ok(_) => Ok(TlsStep::Again),
                Err(error) => Err(rustls::Error::General(error.to_string())),
            }
        }
        Ok(ConnectionState::TransmitTlsData(transmit)) => {
            // What was encoded is in our output now, which is sent in order.
            transmit.done();
            Ok(TlsStep::Again)
        }
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Ok(TlsStep::Blocked),
        // No data has a place before the greetings, which are not TLS's to read.
        Ok(_) => Err(rustls::Error::General("data or an end before the greetings".to_owned())),
        Err(error) => Err(error),
    };
    (status.discard, step)
}

/// What a TLS error means here.
fn translate(error: rustls::Error) -> HandshakeError {
    match Stranger::behind(&error) {
        Some(Stranger::Unknown(key)) => HandshakeError::UnknownKey { key },
        Some(Stranger::Wrong { expected, found }) => HandshakeError::WrongKey { expected, found },
        None => match error {
            rustls::Error::AlertReceived(alert) => alerted(alert),
            rustls::Error::NoApplicationProtocol => HandshakeError::NoProtocol,
            other => HandshakeError::Tls(other),
        },
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

/// What a refusal means to a dialer that wanted this encryption.
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

#[cfg(test)]
pub(crate) mod tests;
