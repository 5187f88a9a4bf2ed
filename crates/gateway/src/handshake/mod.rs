//! The handshake that turns a TCP connection into a lane: it authenticates the peer, and agrees on the lane and its keys.
//!
//! 1. **TLS 1.3** with raw public keys in both directions proves both sites' Ed25519 keys to each other.
//! 2. **Greetings** are the first record of data in each direction: the dialer's [`Hello`], and the acceptor's welcome or
//!    [`Refusal`]. TLS protects them, whatever the lane's [encryption](Hello::encryption). Both must name the same
//!    encryption, so an attacker on the path cannot downgrade two sites to clear text.
//!    A site with an invitation, whose key is that of the invitation, sends a [`Join`] instead, and is told whether it is a
//!    peer now; the connection ends there.
//! 3. The result is an [`Established`] connection: the stream, and the keys for [`crate::record`], or no keys if both sites
//!    have `encryption = "none"`.
//!
//! The [`Handshake`] reads exactly one TLS record at a time, so that the byte after the last greeting is still in the
//! kernel when the stream is handed on. It has no clock: the caller ends a handshake that takes too long by dropping it.

mod connection;
mod cursor;
mod driver;
mod error;
mod input;
mod message;
mod tls;

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use aws_lc_rs::hmac;
use rustls::client::UnbufferedClientConnection;
use rustls::crypto::CryptoProvider;
use rustls::server::UnbufferedServerConnection;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig};
use trunkline_trunk::Delivery;

pub(crate) use cursor::{Cursor, put_network, put_prefixes, put_text};
pub use cursor::{FieldError, MAX_PREFIXES};
pub use driver::Handshake;
pub(crate) use driver::{of_alert, rejected_key};
pub use error::{Fault, HandshakeError};
pub use message::{
    Hello, Join, MAX_LANE_GROUP_BYTES, MAX_TEXT_BYTES, Message, MessageError, Refusal, RefusalReason, VERSION,
};
pub(crate) use tls::{presented_key, quic_delivery};

use self::connection::{Ask, Tls};
use crate::keys::{PublicKey, SecretKey};
use crate::record::{Cipher, SessionKeys};

/// Whether the site admits a caller with this key. Each handshake calls it, on the thread that runs the handshake.
pub type Admit = Arc<dyn Fn(&PublicKey) -> bool + Send + Sync>;

/// The key with which this site authenticates itself.
#[derive(Clone)]
pub struct Identity {
    provider: Arc<CryptoProvider>,
    key: Arc<CertifiedKey>,
    reset_key: hmac::Key,
    public: PublicKey,
    version: u16,
}

impl Identity {
    /// The identity with this key.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`] if the TLS library does not accept the key.
    pub fn new(secret: &SecretKey) -> Result<Self, HandshakeError> {
        let key = tls::certified_key(secret).map_err(HandshakeError::Setup)?;
        let provider = Arc::new(tls::provider());
        let reset_key = tls::reset_key(secret);
        Ok(Self { provider, key: Arc::new(key), reset_key, public: secret.public(), version: VERSION })
    }

    /// The same identity with this cipher only. Without this call the site offers all three: AES-256-GCM first if the
    /// processor has instructions for AES, otherwise `ChaCha20-Poly1305` first.
    #[must_use]
    pub fn with_only(self, cipher: Cipher) -> Self {
        let provider = CryptoProvider { cipher_suites: vec![tls::suite(cipher)], ..tls::provider() };
        Self { provider: Arc::new(provider), ..self }
    }

    /// The same identity with no higher version of the protocol than this one, as older peers have.
    #[must_use]
    pub fn with_version(self, version: u16) -> Self {
        Self { version, ..self }
    }

    /// The TLS settings with which QUIC dials the peer with this key, for a lane that delivers like this.
    pub(crate) fn quic_client(
        &self,
        peer: PublicKey,
        delivery: Delivery,
    ) -> Result<ClientConfig, rustls::Error> {
        let mut config = tls::client_config(self, peer)?;
        config.alpn_protocols = vec![tls::quic_protocol(delivery).to_vec()];
        Ok(config)
    }

    /// The TLS settings with which QUIC accepts callers whose key `admit` admits.
    pub(crate) fn quic_server(&self, admit: Admit) -> Result<ServerConfig, rustls::Error> {
        let mut config = tls::server_config(self, admit)?;
        let deliveries = [Delivery::Datagram, Delivery::Reliable];
        config.alpn_protocols = deliveries.map(|it| tls::quic_protocol(it).to_vec()).into();
        Ok(config)
    }

    /// The key of the tokens of stateless resets (RFC 9000 §10.3.2): a site that was killed and started again resets the
    /// connections that it had before.
    pub(crate) fn reset_key(&self) -> &hmac::Key {
        &self.reset_key
    }

    /// The public key of this site.
    pub fn public(&self) -> PublicKey {
        self.public
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Accepts connections of callers.
#[derive(Debug, Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// Accepts callers whose key `admit` admits.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`].
    pub fn new(identity: &Identity, admit: Admit) -> Result<Self, HandshakeError> {
        let config = tls::server_config(identity, admit);
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

/// Dials one peer.
#[derive(Debug, Clone)]
pub struct Dialer {
    config: Arc<ClientConfig>,
}

impl Dialer {
    /// Dials the peer with this key, and accepts no other key.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`].
    pub fn new(identity: &Identity, peer: PublicKey) -> Result<Self, HandshakeError> {
        let config = tls::client_config(identity, peer);
        Ok(Self { config: Arc::new(config.map_err(HandshakeError::Setup)?) })
    }

    /// Begins the handshake on a non-blocking connection to the peer, for the lane that `hello` requests.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`].
    pub fn dial<S: Read + Write>(&self, stream: S, hello: Hello) -> Result<Handshake<S>, HandshakeError> {
        self.ask(stream, Ask::Lane(hello))
    }

    /// Begins the handshake on a connection to a site that has invited this one; the identity is the invitation's.
    ///
    /// # Errors
    /// [`HandshakeError::Setup`].
    pub fn join<S: Read + Write>(&self, stream: S, join: Join) -> Result<Handshake<S>, HandshakeError> {
        self.ask(stream, Ask::Join(join))
    }

    fn ask<S: Read + Write>(&self, stream: S, ask: Ask) -> Result<Handshake<S>, HandshakeError> {
        let connection = UnbufferedClientConnection::new(Arc::clone(&self.config), tls::server_name());
        let connection = connection.map_err(HandshakeError::Setup)?;
        Ok(Handshake::new(stream, Tls::Client(Box::new(connection), ask)))
    }
}

/// The progress of a handshake: what it waits for, or its end.
#[derive(Debug)]
pub enum Progress<S = TcpStream> {
    /// It waits until the stream is readable.
    WantRead,
    /// It waits until the stream is writable.
    WantWrite,
    /// Acceptors only: it waits for [`Handshake::welcome`] or [`Handshake::refuse`], and then for
    /// [`Handshake::advance`].
    HelloReceived {
        /// The request.
        hello: Hello,
        /// The peer's key, authenticated.
        peer: PublicKey,
    },
    /// Acceptors only: it waits for [`Handshake::joined`] or [`Handshake::refuse`], and then for [`Handshake::advance`].
    JoinReceived {
        /// What the site says of itself.
        join: Join,
        /// The key of the invitation, authenticated.
        invitation: PublicKey,
    },
    /// The site is a peer: the answer has come, or has been sent.
    Joined,
    /// The lane is established.
    Done(Box<Established<S>>),
    /// The refusal has been sent. Acceptors only.
    Refused,
}

/// A connection that has become a lane.
#[derive(Debug)]
pub struct Established<S = TcpStream> {
    /// The stream; the next byte is the first of the lane's data.
    pub stream: S,
    /// The peer's key, authenticated.
    pub peer: PublicKey,
    /// The peer's greeting.
    pub hello: Hello,
    /// The keys for the lane's records; `None` if both sites send data in clear.
    pub keys: Option<SessionKeys>,
}

#[cfg(test)]
pub(crate) mod tests;
