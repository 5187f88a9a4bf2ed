//! From a TCP connection to a lane: who is there, what it is for, and with which keys.
//!
//! 1. **TLS 1.3** with raw public keys both ways proves both sites' Ed25519 keys to each other.
//! 2. **Greetings**, the first record of data each way: the dialer's [`Hello`], and the acceptor's welcome or
//!    [`Refusal`]. They are protected by TLS whatever the lane's [encryption](Hello::encryption)
//!    will be, and both must name the same, so nobody on the path can talk two sites into clear text.
//! 3. What is left is an [`Established`] connection: the stream, and the keys for [`crate::record`] or, where
//!    both sites say `encryption = "none"`, no keys.
//!
//! The [`Handshake`] reads exactly one TLS record at a time, so that the octet after the last greeting is
//! still in the kernel when the stream is handed on. It owns no clock: the caller gives up on a handshake
//! that takes too long by dropping it.

mod driver;
mod error;
mod input;
mod message;
mod tls;

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::crypto::CryptoProvider;
use rustls::server::UnbufferedServerConnection;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig};

pub use driver::Handshake;
pub use error::{Fault, HandshakeError};
pub(crate) use message::is_lane_group_name;
pub use message::{
    Hello, MAX_LANE_GROUP_BYTES, MAX_TEXT_BYTES, Message, MessageError, Refusal, RefusalReason, VERSION,
};
pub use tls::ALPN;

use self::driver::Tls;
use crate::keys::{PublicKey, SecretKey};
use crate::record::{Cipher, SessionKeys};

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
        Ok(Handshake::new(stream, Tls::Server(Box::new(connection))))
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
        Ok(Handshake::new(stream, Tls::Client(Box::new(connection), hello)))
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

#[cfg(test)]
pub(crate) mod tests;
