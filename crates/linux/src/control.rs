//! Control messages beside a datagram (cmsg(3)): each has a header of length, level and kind, and begins where a word does.

use libc::c_int;

/// Room for all messages of a datagram, bytes.
const SIZE: usize = 256;
const WORD: usize = size_of::<usize>();
/// Bytes of a header: a length that counts the header too, and two ints.
const HEADER: usize = WORD + 8;

/// Messages, or room for them.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct ControlMessages {
    bytes: [u8; SIZE],
    len: usize,
}

impl Default for ControlMessages {
    fn default() -> Self {
        ControlMessages { bytes: [0; SIZE], len: 0 }
    }
}

impl ControlMessages {
    /// Adds a message.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn push(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let (start, len) = (self.len, HEADER + value.len());
        self.len += len.next_multiple_of(WORD);
        let message = &mut self.bytes[start..self.len];
        message[..WORD].copy_from_slice(&len.to_ne_bytes());
        message[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        message[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER..len].copy_from_slice(value);
    }

    /// The bytes that the kernel is given.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Room for messages that the kernel writes.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The kernel has written so many bytes.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(SIZE);
    }

    /// Each message: level, kind and value.
    pub fn iter(&self) -> impl Iterator<Item = (c_int, c_int, &[u8])> {
        let mut rest = self.bytes();
        std::iter::from_fn(move || {
            let len = usize::from_ne_bytes(*rest.first_chunk()?);
            let value = rest.get(HEADER..len)?;
            let level = c_int::from_ne_bytes(*rest[WORD..].first_chunk()?);
            let kind = c_int::from_ne_bytes(*rest[WORD + 4..].first_chunk()?);
            rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or_default();
            Some((level, kind, value))
        })
    }
}

/// The int that a message's value is.
pub fn int(value: &[u8]) -> Option<c_int> {
    value.first_chunk().copied().map(c_int::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut messages = ControlMessages::default();
        messages.push(1, 2, &[3; 5]);
        messages.push(4, 5, &6_i32.to_ne_bytes());
        let read: Vec<_> =
            messages.iter().map(|(level, kind, value)| (level, kind, value.to_vec())).collect();
        assert_eq!(read, [(1, 2, vec![3; 5]), (4, 5, vec![6, 0, 0, 0])]);
        assert_eq!(messages.iter().last().and_then(|(.., value)| int(value)), Some(6));
    }

    /// As `CMSG_SPACE` and `CMSG_LEN` have it.
    #[test]
    fn messages_lie_where_the_kernel_expects_them() {
        let mut messages = ControlMessages::default();
        messages.push(1, 2, &[3; 5]);
        assert_eq!((messages.bytes().len(), HEADER), (24, size_of::<libc::cmsghdr>()));
        assert_eq!(messages.bytes()[..WORD], 21_usize.to_ne_bytes());
    }

    #[test]
    fn whatever_the_bytes_are_reading_ends() {
        for len in 0..64_usize {
            let mut messages = ControlMessages::default();
            messages.push(1, 2, &[0; 20]);
            messages.bytes[..WORD].copy_from_slice(&len.to_ne_bytes());
            assert!(messages.iter().count() <= 2, "{len}");
            messages.set_len(len);
            assert!(messages.iter().count() <= 2, "{len}");
        }
        let mut messages = ControlMessages::default();
        messages.push(1, 2, &[0; 20]);
        messages.bytes[..WORD].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(messages.iter().count(), 0);
    }
}
