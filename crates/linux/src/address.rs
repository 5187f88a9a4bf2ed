//! Addresses of sockets in the kernel's form (`struct sockaddr_in` and `sockaddr_in6`, ip(7) and ipv6(7)).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of the longest one (`struct sockaddr_storage`).
const SIZE: usize = size_of::<libc::sockaddr_storage>();
const V4_BYTES: usize = 16;
const V6_BYTES: usize = 28;

/// An address, or room for one.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct SocketAddress {
    bytes: [u8; SIZE],
    len: usize,
}

impl Default for SocketAddress {
    fn default() -> Self {
        SocketAddress { bytes: [0; SIZE], len: 0 }
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; SIZE];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                (libc::AF_INET, V4_BYTES)
            }
            SocketAddr::V6(address) => {
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                (libc::AF_INET6, V6_BYTES)
            }
        };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        SocketAddress { bytes, len }
    }
}

impl SocketAddress {
    /// The bytes that the kernel is given.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Room for an address that the kernel writes.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The kernel has written so many bytes.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(SIZE);
    }

    /// The address, if it is one of IP.
    pub fn get(&self) -> Option<SocketAddr> {
        let bytes = self.bytes();
        let family = u16::from_ne_bytes(*bytes.first_chunk()?);
        let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
        match libc::c_int::from(family) {
            libc::AF_INET => {
                let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
                Some(SocketAddr::new(Ipv4Addr::from(ip).into(), port))
            }
            libc::AF_INET6 => {
                let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
                let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
                Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_after_the_kernel_had_it() {
        for text in ["192.0.2.1:4600", "[2001:db8::1]:53"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(SocketAddress::from(address).get(), Some(address));
        }
        let mut linked = SocketAddress::from(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 1, 0, 7)));
        assert!(matches!(linked.get(), Some(SocketAddr::V6(address)) if address.scope_id() == 7));
        // What the kernel did not write whole is no address.
        linked.set_len(V6_BYTES - 1);
        assert_eq!(linked.get(), None);
        assert_eq!(SocketAddress::default().get(), None);
    }
}
