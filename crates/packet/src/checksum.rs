//! The Internet checksum.
//!
//! The ones-complement sum does not depend on the byte order it is taken in, only its result does (RFC 1071
//! §2(B)), nor on the width of the words as long as carries are folded back (§2(C)). So the sum is taken over
//! native 32-bit words in a 64-bit accumulator, which has room for every carry of 16 GB and which compilers turn
//! into vector instructions, and is swapped once at the end.
//!
//! Partial sums are plain numbers and may be added. A part other than the last must have an even length.
//! A sum over anything but zeros never folds to 0, so each sum has one folded form.

use std::net::IpAddr;

/// Ones-complement sum of `bytes` as big-endian 16-bit words, a last odd byte padded with zero. At most 65535.
#[inline]
#[must_use]
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        total += u64::from(u32::from_ne_bytes(last));
    }
    u64::from(u16::from_be(fold(total)))
}

/// Folds the carries of a sum back into 16 bits.
#[inline]
#[must_use]
pub fn fold(mut total: u64) -> u16 {
    total = (total & 0xffff_ffff) + (total >> 32);
    total = (total & 0xffff_ffff) + (total >> 32);
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    total as u16
}

/// Sum of the pseudo header (RFC 9293 §3.1, RFC 8200 §8.1). `length` counts the transport header and its data.
#[inline]
#[must_use]
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: u32) -> u64 {
    addresses(source) + addresses(destination) + u64::from(protocol) + u64::from(length)
}

/// The checksum of an IPv4 header, whatever its checksum field holds now. 0 if `header` has no such field.
#[inline]
#[must_use]
pub fn ipv4_header_checksum(header: &[u8]) -> u16 {
    match (header.get(..10), header.get(12..)) {
        (Some(before), Some(after)) => !fold(sum(before) + sum(after)),
        _ => 0,
    }
}

/// The checksum after a 16-bit word under it changed from `old` to `new` (RFC 1624 §3, equation 3).
#[inline]
#[must_use]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !replace(!checksum, old, new)
}

/// The same for a sum that is not complemented, as the partial checksum of an offload is.
#[inline]
#[must_use]
pub fn replace(sum: u16, old: u16, new: u16) -> u16 {
    fold(u64::from(sum) + u64::from(!old) + u64::from(new))
}

#[inline]
fn addresses(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(bytes: &[u8]) -> u16 {
        let mut total = 0_u32;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn the_sum_of_the_example_in_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), 0xddf2);
    }

    #[test]
    fn the_update_of_the_example_in_rfc_1624() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn folding_loses_no_carry() {
        for total in
            [0, 1, 0xffff, 0x1_0000, u64::from(u32::MAX), u64::MAX, u64::MAX - 1, 0xffff_0000_ffff_0001]
        {
            let expected = if total == 0 { 0 } else { ((total - 1) % 0xffff + 1) as u16 };
            assert_eq!(fold(total), expected, "{total:#x}");
        }
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_the_naive_one(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(fold(sum(&bytes)), naive(&bytes));
        }

        #[test]
        fn parts_of_even_length_add_up(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0_usize..150) {
            let (first, second) = bytes.split_at((cut * 2).min(bytes.len() & !1));
            prop_assert_eq!(fold(sum(first) + sum(second)), naive(&bytes));
        }

        #[test]
        fn an_update_gives_what_summing_again_gives(
            mut bytes in prop::collection::vec(any::<u8>(), 4..100), at in 0_usize..49, new: u16,
        ) {
            let at = (at * 2).min((bytes.len() - 2) & !1);
            bytes.push(1); // never all zero, so that each sum has one form
            let before = !naive(&bytes);
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), !naive(&bytes));
        }

        #[test]
        fn a_pseudo_header_is_the_sum_of_its_bytes(
            source: [u8; 16], destination: [u8; 16], protocol: u8, length in 0_u32..65536,
        ) {
            let mut bytes = [source, destination].concat();
            bytes.extend(length.to_be_bytes());
            bytes.extend([0, 0, 0, protocol]);
            let total = pseudo_header(source.into(), destination.into(), protocol, length);
            prop_assert_eq!(fold(total), naive(&bytes));
        }
    }
}
