//! Replies of the kernel as bytes, read only as far as a call needs them.

use std::net::IpAddr;

use netlink_packet_core::{NlaBuffer, NlasIterator};

/// The body of one message: a fixed header of the message's family, then attributes.
pub(crate) struct Reply {
    pub(crate) kind: u16,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A byte of the fixed header.
    pub(crate) fn byte(&self, offset: usize) -> Option<u8> {
        self.body.get(offset).copied()
    }

    /// A word of the fixed header.
    pub(crate) fn word(&self, offset: usize) -> Option<u32> {
        word(self.body.get(offset..)?)
    }

    /// The attributes that follow a fixed header of `header_bytes`, up to the first malformed one.
    pub(crate) fn attributes(&self, header_bytes: usize) -> impl Iterator<Item = NlaBuffer<&[u8]>> {
        attributes(self.body.get(header_bytes..).unwrap_or_default())
    }
}

/// The attributes in `bytes`, up to the first malformed one.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = NlaBuffer<&[u8]>> {
    NlasIterator::new(bytes).map_while(Result::ok)
}

/// The native-order word at the start of `bytes`.
pub(crate) fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// The native-order double word at `offset` in `bytes`.
pub(crate) fn double_word(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

/// The address that `bytes` are.
pub(crate) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// The text that `bytes` are, without the terminating zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_end_at_the_first_malformed_one() {
        // Type 7 with a word, then an attribute that claims more bytes than there are.
        let bytes = [8, 0, 7, 0, 1, 2, 3, 4, 200, 0, 1, 0];
        let kinds: Vec<u16> = attributes(&bytes).map(|nla| nla.kind()).collect();
        assert_eq!(kinds, [7]);
    }

    #[test]
    fn text_stops_at_the_zero() {
        assert_eq!(text(b"lo\0\0"), "lo");
        assert_eq!(text(b"lo"), "lo");
    }

    #[test]
    fn an_address_has_four_or_sixteen_bytes() {
        assert_eq!(ip(&[10, 0, 0, 1]), Some("10.0.0.1".parse().expect("address")));
        assert_eq!(ip(&[0; 5]), None);
    }
}
