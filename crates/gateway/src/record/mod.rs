//! TLS 1.3 record protection, with the secrets of a finished handshake.
//!
//! The record layer of a TLS library copies each byte twice: into its buffer and out again. This module seals and opens a
//! record in place, in the caller's buffer. The two directions are two values, which may be on two threads. The wire
//! format is TLS 1.3 (RFC 8446 §5.2): the opaque header, then content and inner content type under one AEAD with the
//! header as associated data. The nonce includes the sequence number of the record (§5.3), which is not sent. So a record
//! that is lost, duplicated, reordered or truncated fails to open.
//!
//! **Key updates** (§4.6.3). AES-GCM may protect 2^24.5 records under one key (§5.5). [`Sealer::needs_update`] requests a
//! new key well before, and [`Sealer::seal`] fails at the limit. The next secrets come from the key schedule of the
//! handshake, which both directions share behind a lock that an update takes once. If the peer requests our update, the
//! `Opener` sets a shared flag, and the `Sealer` updates before its next data. So the two threads need no other channel.

mod error;
mod keys;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aws_lc_rs::aead::Aad;
use keys::{Keys, Shared};

pub use error::RecordError;
pub(crate) use keys::KeySchedule;
pub use keys::{Cipher, SessionKeys};

/// The length of a record's header.
pub const HEADER_BYTES: usize = 5;
/// The length of the trailer after a sealed record's content: the inner content type and the tag.
pub const TRAILER_BYTES: usize = 1 + TAG_BYTES;
/// The maximum content of one record (RFC 8446 §5.1).
pub const MAX_CONTENT_BYTES: usize = 1 << 14;
/// The maximum length of a record after its header (RFC 8446 §5.2).
pub const MAX_BODY_BYTES: usize = MAX_CONTENT_BYTES + 256;
/// The length of the record that [`Sealer::update`] returns.
pub const UPDATE_BYTES: usize = HEADER_BYTES + KEY_UPDATE.len() + TRAILER_BYTES;
/// The length of the record that [`Sealer::close`] returns.
pub const CLOSE_BYTES: usize = HEADER_BYTES + CLOSE_NOTIFY.len() + TRAILER_BYTES;
/// The default number of records after which [`Sealer::needs_update`] is true: 128 GiB of full records.
pub const DEFAULT_UPDATE_AFTER: u64 = 1 << 23;

const TAG_BYTES: usize = 16;
/// RFC 8446 §5.5: 2^24.5 full records under one AES-GCM key, rounded down.
const KEY_LIMIT_RECORDS: u64 = 23_726_566;
/// The maximum number of consecutive records without data: each costs processor time and carries nothing.
const MAX_EMPTY_RUN: u32 = 32;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
/// `KeyUpdate` with `update_not_requested`.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
/// A `close_notify` alert; its level is ignored in TLS 1.3.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// Data: the first bytes of the body, of this number. May be 0.
    Data(usize),
    /// The peer has changed its sending key, and the opener has followed.
    KeyUpdate {
        /// The peer requests that this site change its sending key too. [`Sealer::needs_update`] is true then.
        request: bool,
    },
    /// The peer has closed its direction in order (`close_notify`).
    Closed,
}

/// The sending direction: seals records in place.
///
/// If [`needs_update`](Self::needs_update) is true before a record of data, send the record that
/// [`update`](Self::update) returns first. Send all records in the order in which they were sealed, each exactly once.
pub struct Sealer {
    keys: Keys,
    shared: Arc<Shared>,
    update_after: u64,
}

impl Sealer {
    /// Updates the key after this number of records (minimum 1) instead of [`DEFAULT_UPDATE_AFTER`].
    #[must_use]
    pub fn with_update_after(mut self, records: u64) -> Self {
        self.update_after = records.clamp(1, DEFAULT_UPDATE_AFTER);
        self
    }

    /// Seals one record of data in place. Send the header, the sealed `content` and the trailer.
    ///
    /// # Errors
    /// [`RecordError::TooLong`] above [`MAX_CONTENT_BYTES`]; [`RecordError::KeyExhausted`] if
    /// [`update`](Self::update) is long overdue.
    pub fn seal(
        &mut self,
        content: &mut [u8],
    ) -> Result<([u8; HEADER_BYTES], [u8; TRAILER_BYTES]), RecordError> {
        if self.keys.sequence >= KEY_LIMIT_RECORDS {
            return Err(RecordError::KeyExhausted);
        }
        self.seal_as(APPLICATION_DATA, content)
    }

    /// Whether [`update`](Self::update) is due: the key has protected enough records, or the peer has requested it.
    pub fn needs_update(&self) -> bool {
        self.keys.sequence >= self.update_after || self.shared.update_requested.load(Ordering::Relaxed)
    }

    /// Changes the sending key. Send the returned record before any record that is sealed later.
    ///
    /// # Errors
    /// [`RecordError::Crypto`] if the library cannot derive the next key.
    pub fn update(&mut self) -> Result<[u8; UPDATE_BYTES], RecordError> {
        // Cleared first, so that a request that arrives meanwhile leads to another update.
        self.shared.update_requested.store(false, Ordering::Relaxed);
        let record = self.seal_message(HANDSHAKE, KEY_UPDATE)?;
        self.keys = Keys::new(self.shared.next_tx()?)?;
        Ok(record)
    }

    /// A record of at least this length, at most [`MAX_CONTENT_BYTES`], without data (RFC 8446 §5.4).
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn padding(&mut self, bytes: usize) -> Result<Vec<u8>, RecordError> {
        // The type of the content, and zeros behind it, of which the sealer adds the last.
        let mut padding = vec![0; bytes.max(1)];
        padding[0] = APPLICATION_DATA;
        let (header, trailer) = self.seal_as(0, &mut padding)?;
        Ok([&header[..], &padding, &trailer].concat())
    }

    /// The record that closes this direction (`close_notify`). Seal nothing afterwards.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn close(&mut self) -> Result<[u8; CLOSE_BYTES], RecordError> {
        self.seal_message(ALERT, CLOSE_NOTIFY)
    }

    /// The number of records sealed under the current key.
    pub fn records(&self) -> u64 {
        self.keys.sequence
    }

    /// A complete record with a message; `N` is the length of header, message and trailer.
    fn seal_message<const M: usize, const N: usize>(
        &mut self,
        content_type: u8,
        mut message: [u8; M],
    ) -> Result<[u8; N], RecordError> {
        let (header, trailer) = self.seal_as(content_type, &mut message)?;
        let mut record = [0; N];
        record[..HEADER_BYTES].copy_from_slice(&header);
        record[HEADER_BYTES..HEADER_BYTES + M].copy_from_slice(&message);
        record[HEADER_BYTES + M..].copy_from_slice(&trailer);
        Ok(record)
    }

    /// As [`seal`](Self::seal), with any inner content type. Tests of receivers need types that this module never sends.
    ///
    /// # Errors
    /// As [`seal`](Self::seal), but without the key's limit.
    pub fn seal_as(
        &mut self,
        content_type: u8,
        content: &mut [u8],
    ) -> Result<([u8; HEADER_BYTES], [u8; TRAILER_BYTES]), RecordError> {
        if content.len() > MAX_CONTENT_BYTES {
            return Err(RecordError::TooLong { len: content.len() });
        }
        let [high, low] = ((content.len() + TRAILER_BYTES) as u16).to_be_bytes();
        let header = [APPLICATION_DATA, 3, 3, high, low];
        let mut trailer = [0; TRAILER_BYTES];
        self.keys
            .key
            .seal_in_place_scatter(
                self.keys.nonce(),
                Aad::from(header),
                content,
                &[content_type],
                &mut trailer,
            )
            .map_err(|_| RecordError::Crypto("to seal"))?;
        self.keys.sequence += 1;
        Ok((header, trailer))
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("records", &self.keys.sequence).finish_non_exhaustive()
    }
}

/// Whether the opener accepts more records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A `close_notify` or an error has ended it.
    Closed,
}

/// The receiving direction: opens records in place, in the order of their arrival.
///
/// After an error or [`Opened::Closed`], each further call returns [`RecordError::Closed`].
pub struct Opener {
    keys: Keys,
    shared: Arc<Shared>,
    empty_run: u32,
    state: State,
}

impl Opener {
    /// The number of bytes that follow this header.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open) that concern the header alone.
    pub fn body_len(header: [u8; HEADER_BYTES]) -> Result<usize, RecordError> {
        let [content_type, _, _, high, low] = header;
        let len = usize::from(u16::from_be_bytes([high, low]));
        if content_type != APPLICATION_DATA {
            Err(RecordError::UnexpectedType(content_type))
        } else if len > MAX_BODY_BYTES {
            Err(RecordError::TooLong { len })
        } else if len < TRAILER_BYTES {
            Err(RecordError::TooShort { len })
        } else {
            Ok(len)
        }
    }

    /// Opens one record in place. `body` is the ciphertext and tag after `header`.
    ///
    /// # Errors
    /// Any [`RecordError`] except [`RecordError::KeyExhausted`]. After an error the content of `body` is unusable.
    pub fn open(&mut self, header: [u8; HEADER_BYTES], body: &mut [u8]) -> Result<Opened, RecordError> {
        if self.state == State::Closed {
            return Err(RecordError::Closed);
        }
        let opened = self.open_next(header, body);
        if matches!(opened, Err(_) | Ok(Opened::Closed)) {
            self.state = State::Closed;
        }
        opened
    }

    /// The number of records opened under the current key.
    pub fn records(&self) -> u64 {
        self.keys.sequence
    }

    fn open_next(&mut self, header: [u8; HEADER_BYTES], body: &mut [u8]) -> Result<Opened, RecordError> {
        let announced = Self::body_len(header)?;
        if announced != body.len() {
            return Err(RecordError::LengthMismatch { header: announced, body: body.len() });
        }
        let (ciphertext, tag) = body.split_at_mut(announced - TAG_BYTES);
        let inner = self
            .keys
            .key
            .open_in_place_separate_tag(self.keys.nonce(), Aad::from(header), tag, ciphertext)
            .map_err(|_| RecordError::BadTag)?;
        self.keys.sequence += 1;
        if inner.len() > MAX_CONTENT_BYTES + 1 {
            return Err(RecordError::TooLong { len: inner.len() });
        }
        let last = inner.iter().rposition(|&byte| byte != 0).ok_or(RecordError::NoType)?;
        let content = &inner[..last];
        if inner[last] == APPLICATION_DATA && last > 0 {
            self.empty_run = 0;
            return Ok(Opened::Data(last));
        }
        self.empty_run += 1;
        if self.empty_run > MAX_EMPTY_RUN {
            return Err(RecordError::EmptyFlood);
        }
        match (inner[last], content) {
            (APPLICATION_DATA, _) => Ok(Opened::Data(0)),
            (ALERT, &[_, description]) => match description {
                0 => Ok(Opened::Closed),
                code => Err(RecordError::PeerAlert { code }),
            },
            (ALERT, _) => Err(RecordError::MalformedAlert),
            (HANDSHAKE, &[24, 0, 0, 1, request @ (0 | 1)]) => self.follow_update(request == 1),
            (HANDSHAKE, message) => {
                Err(RecordError::UnexpectedHandshake(message.first().copied().unwrap_or(0)))
            }
            (other, _) => Err(RecordError::UnexpectedType(other)),
        }
    }

    fn follow_update(&mut self, request: bool) -> Result<Opened, RecordError> {
        self.keys = Keys::new(self.shared.next_rx()?)?;
        if request {
            self.shared.update_requested.store(true, Ordering::Relaxed);
        }
        Ok(Opened::KeyUpdate { request })
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener")
            .field("records", &self.keys.sequence)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
