//! Fields of messages, one after the other: integers, texts and prefixes.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The maximum number of prefixes in a message.
pub const MAX_PREFIXES: usize = 32;

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// It ends too early.
    #[error("truncated: {have} bytes where {need} are needed")]
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// Something follows it.
    #[error("{extra} bytes too many")]
    Trailing {
        /// Bytes behind its end.
        extra: usize,
    },
    /// A text is too long, no UTF-8, or has control characters.
    #[error("a text is malformed")]
    Text,
    /// The name of a site that joins is none.
    #[error("the name of the site is not 1 to 64 of A-Z a-z 0-9 . _ -")]
    SiteName,
    /// A prefix that a site is said to have behind it is none, or there are too many.
    #[error("a prefix is malformed, or there are more than 32")]
    Prefix,
}

/// Bytes still to be read.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    taken: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, taken: 0 }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], FieldError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(FieldError::Truncated { need: self.taken + len, have: self.taken + self.rest.len() })?;
        self.rest = rest;
        self.taken += len;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FieldError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, FieldError> {
        self.array().map(|[byte]| byte)
    }

    /// A text behind its length, one byte.
    pub(crate) fn text(&mut self) -> Result<&'a str, FieldError> {
        let len = usize::from(self.byte()?);
        std::str::from_utf8(self.take(len)?).map_err(|_| FieldError::Text)
    }

    /// An address with the length of a prefix; host bits may be set.
    pub(crate) fn network(&mut self) -> Result<IpNet, FieldError> {
        let family = self.byte()?;
        let len = self.byte()?;
        let network = match family {
            4 => Ipv4Net::new(Ipv4Addr::from(self.array::<4>()?), len).map(IpNet::from),
            6 => Ipv6Net::new(Ipv6Addr::from(self.array::<16>()?), len).map(IpNet::from),
            _ => return Err(FieldError::Prefix),
        };
        network.map_err(|_| FieldError::Prefix)
    }

    /// Prefixes behind their number, one byte.
    pub(crate) fn prefixes(&mut self) -> Result<Vec<IpNet>, FieldError> {
        let count = usize::from(self.byte()?);
        if count > MAX_PREFIXES {
            return Err(FieldError::Prefix);
        }
        let prefixes = (0..count).map(|_| self.network()).collect::<Result<Vec<_>, _>>()?;
        if prefixes.iter().all(|prefix| *prefix == prefix.trunc()) {
            Ok(prefixes)
        } else {
            Err(FieldError::Prefix)
        }
    }

    /// Ends with an error if there are bytes left.
    pub(crate) const fn end(&self) -> Result<(), FieldError> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(FieldError::Trailing { extra }),
        }
    }
}

/// Adds a text of at most 255 bytes behind its length.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    debug_assert!(u8::try_from(text.len()).is_ok());
    bytes.push(text.len() as u8);
    bytes.extend(text.as_bytes());
}

/// Adds an address with the length of a prefix.
pub(crate) fn put_network(bytes: &mut Vec<u8>, network: &IpNet) {
    match network {
        IpNet::V4(net) => {
            bytes.extend([4, net.prefix_len()]);
            bytes.extend(net.addr().octets());
        }
        IpNet::V6(net) => {
            bytes.extend([6, net.prefix_len()]);
            bytes.extend(net.addr().octets());
        }
    }
}

/// Adds at most [`MAX_PREFIXES`] prefixes behind their number.
pub(crate) fn put_prefixes(bytes: &mut Vec<u8>, prefixes: &[IpNet]) {
    debug_assert!(prefixes.len() <= MAX_PREFIXES);
    bytes.push(prefixes.len() as u8);
    for prefix in prefixes {
        put_network(bytes, prefix);
    }
}
