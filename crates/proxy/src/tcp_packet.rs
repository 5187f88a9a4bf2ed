//! TCP packets without data.

use std::net::IpAddr;

use trunkline_packet::{checksum, protocol};

const HOP_LIMIT: u8 = 64;
const CHECKSUM: usize = 16;

/// A packet of a TCP header without data, whose checksum is filled in. Empty if the addresses are of two versions of IP.
pub(crate) fn tcp_packet(source: IpAddr, destination: IpAddr, tcp: &mut [u8; 20]) -> Vec<u8> {
    let pseudo = checksum::pseudo_header(source, destination, protocol::TCP, tcp.len() as u32);
    let sum = !checksum::fold(pseudo + checksum::sum(tcp));
    tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    let mut packet = Vec::with_capacity(60);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            packet.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, HOP_LIMIT, protocol::TCP, 0, 0]);
            packet.extend(source.octets());
            packet.extend(destination.octets());
            let sum = checksum::ipv4_header_checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            packet.extend([0x60, 0, 0, 0, 0, 20, protocol::TCP, HOP_LIMIT]);
            packet.extend(source.octets());
            packet.extend(destination.octets());
        }
        _ => return packet,
    }
    packet.extend(&tcp[..]);
    packet
}
