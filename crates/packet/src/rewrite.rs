//! Changes of length, in place, for segmenting, trimming and merging. Callers have checked that the fields that
//! they name lie within the bytes.

use crate::{Version, checksum};

#[inline]
pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub(crate) fn write_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Sets the packet's length in its IP header, and then the IPv4 header checksum over all that is there.
#[inline]
pub(crate) fn set_ip_length(head: &mut [u8], version: Version, transport_offset: usize, packet_len: usize) {
    match version {
        Version::V4 => {
            write_u16(head, 2, packet_len as u16);
            let checksum = checksum::ipv4_header_checksum(&head[..transport_offset]);
            write_u16(head, 10, checksum);
        }
        Version::V6 => write_u16(head, 4, packet_len.saturating_sub(40) as u16),
    }
}
