//! A keyed hash of flows: `SipHash`-1-3.
//!
//! With an unkeyed hash, anyone who chooses a flow's ports or addresses also chooses its hash, and so the queue,
//! set or lane that the flow shares with others. A secret key prevents that. `SipHash` is made for short inputs and
//! reveals nothing of its key (Aumasson and Bernstein 2012, "`SipHash`: a fast short-input PRF"). Linux also hashes
//! flows with it, with two rounds and four. Hash tables of several languages use one round and three: that is
//! enough where an attacker does not see the hash itself.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::FlowKey;

/// Hashes flows with a key. The same on every machine for the same key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FlowHasher {
    key: [u64; 2],
}

impl fmt::Debug for FlowHasher {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowHasher").finish_non_exhaustive()
    }
}

impl FlowHasher {
    /// A hasher with this key, which only its owner should know.
    pub const fn new(key: [u64; 2]) -> Self {
        FlowHasher { key }
    }

    /// The hash of a flow. All its bits are equally good.
    #[inline]
    pub fn hash(&self, flow: &FlowKey) -> u64 {
        // The flow as bytes: both addresses, the ports, the protocol.
        let ports = u64::from(flow.ports.0) | u64::from(flow.ports.1) << 16;
        let tail = ports | u64::from(flow.protocol) << 32;
        match (flow.source, flow.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                sip_hash::<1, 3>(self.key, &[word_v4(source) | word_v4(destination) << 32], tail, 8 + 5)
            }
            (source, destination) => {
                let [a, b] = words_v6(source);
                let [c, d] = words_v6(destination);
                sip_hash::<1, 3>(self.key, &[a, b, c, d], tail, 32 + 5)
            }
        }
    }
}

fn word_v4(address: Ipv4Addr) -> u64 {
    u64::from(u32::from_le_bytes(address.octets()))
}

fn words_v6(address: IpAddr) -> [u64; 2] {
    let address: Ipv6Addr = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let bits = u128::from_le_bytes(address.octets());
    [bits as u64, (bits >> 64) as u64]
}

/// `SipHash` of `C` rounds a word and `D` at the end, of `len` bytes: those of `words`, and fewer than eight in `tail`.
#[inline]
fn sip_hash<const C: usize, const D: usize>(key: [u64; 2], words: &[u64], tail: u64, len: u8) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    for word in words.iter().copied().chain([tail | u64::from(len) << 56]) {
        v[3] ^= word;
        (0..C).for_each(|_| round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..D).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{DefaultHasher, Hasher as _};

    fn flow(source: &str, destination: &str, ports: (u16, u16)) -> FlowKey {
        let address = |text: &str| text.parse().expect("an address");
        FlowKey { source: address(source), destination: address(destination), protocol: 17, ports }
    }

    #[test]
    fn it_is_sip_hash() {
        // The example of Aumasson and Bernstein 2012, appendix A: key 00 01 … 0f, message 00 01 … 0e, SipHash-2-4.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let hash = sip_hash::<2, 4>(key, &[0x0706_0504_0302_0100], 0x000e_0d0c_0b0a_0908, 15);
        assert_eq!(hash, 0xa129_ca61_49be_45e5);
        // The standard library's is SipHash-1-3 with a key of zeros.
        for len in 0..8_u8 {
            let bytes: Vec<u8> = (0..32).chain(0..len).collect();
            let mut standard = DefaultHasher::new();
            standard.write(&bytes);
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            let words: Vec<u64> = bytes[..32].chunks(8).map(word).collect();
            assert_eq!(sip_hash::<1, 3>([0, 0], &words, word(&bytes[32..]), 32 + len), standard.finish());
        }
    }

    #[test]
    fn every_part_of_a_flow_and_of_the_key_counts() {
        let base = flow("192.0.2.1", "192.0.2.2", (1, 2));
        let flows = [
            base,
            flow("192.0.2.3", "192.0.2.2", (1, 2)),
            flow("192.0.2.1", "192.0.2.3", (1, 2)),
            flow("192.0.2.1", "192.0.2.2", (3, 2)),
            flow("192.0.2.1", "192.0.2.2", (1, 3)),
            FlowKey { protocol: 6, ..base },
            base.reversed(),
            flow("2001:db8::1", "2001:db8::2", (1, 2)),
            flow("2001:db8::1:0:0:1", "2001:db8::2", (1, 2)),
            flow("2001:db8::1", "2001:db8::1:0:0:2", (1, 2)),
            flow("2001:db8::1", "2001:db8::2", (2, 1)),
        ];
        let keys = [[1, 2], [1, 3], [2, 2]];
        let hashes: std::collections::BTreeSet<u64> =
            keys.iter().flat_map(|key| flows.iter().map(|flow| FlowHasher::new(*key).hash(flow))).collect();
        assert_eq!(hashes.len(), keys.len() * flows.len());
        assert_eq!(FlowHasher::new([1, 2]).hash(&base), FlowHasher::new([1, 2]).hash(&base));
    }

    #[test]
    fn flows_that_meet_under_one_key_do_not_under_another() {
        let low =
            |key, port| FlowHasher::new([key, 7]).hash(&flow("192.0.2.1", "192.0.2.2", (port, 80))) % 1024;
        let chosen: Vec<u16> = (0..u16::MAX).filter(|port| low(1, *port) == low(1, 9)).collect();
        assert!(chosen.len() > 40, "{} ports share a queue of 1024 with port 9", chosen.len());
        let still = chosen.iter().filter(|port| low(2, **port) == low(2, 9)).count();
        assert!(still <= 3, "{still} of {}, port 9 itself among them", chosen.len());
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", FlowHasher::new([77, 88])), "FlowHasher { .. }");
    }
}
