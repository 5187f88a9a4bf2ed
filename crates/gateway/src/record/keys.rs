//! The keys of a connection, and the next ones.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::aead::{self, LessSafeKey, Nonce, UnboundKey};
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};

use super::{DEFAULT_UPDATE_AFTER, Opener, RecordError, Sealer, State};

const NONCE_BYTES: usize = 12;

/// The cipher of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// `TLS_AES_128_GCM_SHA256`.
    Aes128Gcm,
    /// `TLS_AES_256_GCM_SHA384`.
    Aes256Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`.
    ChaCha20Poly1305,
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        })
    }
}

/// Both directions of a connection.
#[derive(Debug)]
pub struct SessionKeys {
    /// The sending direction.
    pub sealer: Sealer,
    /// The receiving direction.
    pub opener: Opener,
    /// The cipher of both.
    pub cipher: Cipher,
}

/// The handshake's key schedule, from which the next secrets come.
pub(crate) enum KeySchedule {
    /// This site dialled.
    Client(KernelConnection<ClientConnectionData>),
    /// This site accepted.
    Server(KernelConnection<ServerConnectionData>),
}

/// The state that both directions share.
pub(super) struct Shared {
    schedule: Mutex<KeySchedule>,
    pub(super) update_requested: AtomicBool,
}

impl Shared {
    pub(super) fn next_tx(&self) -> Result<(u64, ConnectionTrafficSecrets), RecordError> {
        match &mut *self.schedule.lock().unwrap_or_else(PoisonError::into_inner) {
            KeySchedule::Client(connection) => connection.update_tx_secret(),
            KeySchedule::Server(connection) => connection.update_tx_secret(),
        }
        .map_err(|_| RecordError::Crypto("the next sending key"))
    }

    pub(super) fn next_rx(&self) -> Result<(u64, ConnectionTrafficSecrets), RecordError> {
        match &mut *self.schedule.lock().unwrap_or_else(PoisonError::into_inner) {
            KeySchedule::Client(connection) => connection.update_rx_secret(),
            KeySchedule::Server(connection) => connection.update_rx_secret(),
        }
        .map_err(|_| RecordError::Crypto("the next receiving key"))
    }
}

impl SessionKeys {
    /// The two directions of a connection, with the secrets of its handshake.
    ///
    /// # Errors
    /// [`RecordError::Crypto`] for a cipher that this module does not support.
    pub(crate) fn new(secrets: ExtractedSecrets, schedule: KeySchedule) -> Result<Self, RecordError> {
        let shared =
            Arc::new(Shared { schedule: Mutex::new(schedule), update_requested: AtomicBool::new(false) });
        let cipher = match &secrets.tx.1 {
            ConnectionTrafficSecrets::Aes128Gcm { .. } => Cipher::Aes128Gcm,
            ConnectionTrafficSecrets::Aes256Gcm { .. } => Cipher::Aes256Gcm,
            ConnectionTrafficSecrets::Chacha20Poly1305 { .. } => Cipher::ChaCha20Poly1305,
            _ => return Err(RecordError::Crypto("this cipher suite")),
        };
        Ok(Self {
            cipher,
            sealer: Sealer {
                keys: Keys::new(secrets.tx)?,
                shared: Arc::clone(&shared),
                update_after: DEFAULT_UPDATE_AFTER,
            },
            opener: Opener { keys: Keys::new(secrets.rx)?, shared, empty_run: 0, state: State::Open },
        })
    }
}

/// One direction's key, its nonce base and the sequence number of its next record.
pub(super) struct Keys {
    pub(super) key: LessSafeKey,
    pub(super) iv: [u8; NONCE_BYTES],
    pub(super) sequence: u64,
}

impl Keys {
    pub(super) fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, RecordError> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err(RecordError::Crypto("this cipher suite")),
        };
        let key =
            UnboundKey::new(algorithm, key.as_ref()).map_err(|_| RecordError::Crypto("the traffic key"))?;
        let iv = iv.as_ref().try_into().map_err(|_| RecordError::Crypto("the nonce base"))?;
        Ok(Self { key: LessSafeKey::new(key), iv, sequence })
    }

    /// The nonce of the next record (RFC 8446 §5.3).
    pub(super) fn nonce(&self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_BYTES - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}
