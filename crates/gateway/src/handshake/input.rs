//! Reads a TLS connection one record at a time.
//!
//! After the handshake, the stream belongs to [`crate::record`] or, in clear, to the frames. So the reader must not take
//! any byte beyond the current record from the kernel: it reads the header first, and then exactly the length that the
//! header gives. A budget for the whole handshake bounds the memory.

use std::io::{self, Read};
use std::ops::RangeInclusive;

use super::error::HandshakeError;
use crate::record::{HEADER_BYTES, MAX_BODY_BYTES, RecordError};

/// The maximum number of bytes that a peer may send in one handshake. This implementation sends about 3000.
pub(super) const BUDGET_BYTES: usize = 64 << 10;

/// The content types of TLS (RFC 8446 §5.1). A stream with another first byte is not TLS, and has no length to wait for.
const CONTENT_TYPES: RangeInclusive<u8> = 20..=23;

/// Records that are read and not consumed; the last may be incomplete.
#[derive(Debug, Default)]
pub(super) struct RecordReader {
    buffer: Vec<u8>,
    /// The position in `buffer` of the record that is being read.
    start: usize,
    /// The number of bytes read so far.
    total: usize,
}

impl RecordReader {
    /// Reads until one more record is complete. `false` if the stream would block.
    pub(super) fn read_record(&mut self, stream: &mut impl Read) -> Result<bool, HandshakeError> {
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                self.start = self.buffer.len();
                return Ok(true);
            }
            if self.total + missing > BUDGET_BYTES {
                return Err(HandshakeError::TooMuch { limit: BUDGET_BYTES });
            }
            let filled = self.buffer.len();
            self.buffer.resize(filled + missing, 0);
            let read = stream.read(&mut self.buffer[filled..]);
            self.buffer.truncate(filled + read.as_ref().map_or(0, |&read| read));
            match read {
                Ok(0) => return Err(HandshakeError::Disconnected),
                Ok(read) => self.total += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The complete records not yet consumed.
    pub(super) fn records(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.start]
    }

    /// The header and body of the one complete record, which is consumed.
    pub(super) fn take_record(&mut self) -> Option<([u8; HEADER_BYTES], Vec<u8>)> {
        let (&header, _) = self.buffer.split_first_chunk()?;
        let body = self.buffer.drain(..self.start).skip(HEADER_BYTES).collect();
        self.start = 0;
        Some((header, body))
    }

    /// Discards the first `count` bytes of the complete records.
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.start);
        self.buffer.drain(..count);
        self.start -= count;
    }

    /// The number of bytes missing from the header or, if the header is complete, from the record.
    fn missing(&self) -> Result<usize, HandshakeError> {
        let have = self.buffer.len() - self.start;
        let Some(&[content_type, _, _, high, low]) = self.buffer[self.start..].first_chunk::<HEADER_BYTES>()
        else {
            return Ok(HEADER_BYTES - have);
        };
        if !CONTENT_TYPES.contains(&content_type) {
            return Err(RecordError::UnexpectedType(content_type).into());
        }
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len > MAX_BODY_BYTES {
            return Err(RecordError::TooLong { len }.into());
        }
        Ok(HEADER_BYTES + len - have)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns at most `step` bytes per read, and `WouldBlock` every other time.
    struct Trickle<'a> {
        data: &'a [u8],
        step: usize,
        blocked: bool,
    }

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.blocked = !self.blocked;
            if self.blocked {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let len = self.step.min(buffer.len()).min(self.data.len());
            buffer[..len].copy_from_slice(&self.data[..len]);
            self.data = &self.data[len..];
            Ok(len)
        }
    }

    #[test]
    fn nothing_beyond_the_record_is_read() {
        for step in [1, 2, 5, 7, 100] {
            let data = [22, 3, 3, 0, 3, b'a', b'b', b'c', 23, 3, 3, 0, 1, b'd'];
            let mut stream = Trickle { data: &data, step, blocked: false };
            let mut reader = RecordReader::default();
            while !reader.read_record(&mut stream).unwrap() {}
            assert_eq!(stream.data.len(), 6, "step {step}");
            assert_eq!(reader.records(), &data[..8]);
            while !reader.read_record(&mut stream).unwrap() {}
            reader.consume(8);
            assert_eq!(reader.take_record(), Some(([23, 3, 3, 0, 1], vec![b'd'])));
            assert_eq!(reader.take_record(), None);
        }
    }

    #[test]
    fn an_empty_record_is_a_record() {
        let mut reader = RecordReader::default();
        assert!(reader.read_record(&mut [22, 3, 3, 0, 0].as_slice()).unwrap());
        assert_eq!(reader.take_record(), Some(([22, 3, 3, 0, 0], vec![])));
    }

    #[test]
    fn a_record_longer_than_tls_allows_is_an_error_at_once() {
        let [high, low] = ((MAX_BODY_BYTES + 1) as u16).to_be_bytes();
        let error = RecordReader::default().read_record(&mut [22, 3, 3, high, low].as_slice()).unwrap_err();
        let HandshakeError::Record(RecordError::TooLong { len }) = error else { panic!("{error}") };
        assert_eq!(len, MAX_BODY_BYTES + 1);
    }

    #[test]
    fn a_stream_that_is_not_tls_is_an_error_at_once() {
        let error = RecordReader::default().read_record(&mut b"GET / HTTP/1.1".as_slice()).unwrap_err();
        assert!(matches!(error, HandshakeError::Record(RecordError::UnexpectedType(b'G'))), "{error}");
    }

    #[test]
    fn an_endless_handshake_ends_at_the_budget() {
        let [high, low] = (MAX_BODY_BYTES as u16).to_be_bytes();
        let mut record = vec![22, 3, 3, high, low];
        record.resize(HEADER_BYTES + MAX_BODY_BYTES, 0);
        let mut reader = RecordReader::default();
        let error = loop {
            match reader.read_record(&mut record.as_slice()) {
                Ok(complete) => assert!(complete),
                Err(error) => break error,
            }
            let all = reader.records().len();
            reader.consume(all);
        };
        assert!(matches!(error, HandshakeError::TooMuch { .. }), "{error}");
        assert!(reader.total <= BUDGET_BYTES);
    }

    #[test]
    fn an_end_inside_a_record_is_a_disconnection() {
        let error = RecordReader::default().read_record(&mut [22, 3].as_slice()).unwrap_err();
        assert!(matches!(error, HandshakeError::Disconnected), "{error}");
    }
}
