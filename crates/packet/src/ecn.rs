//! Marks a packet: Congestion Experienced (RFC 3168 §5).

use crate::rewrite::{read_u16, write_u16};
use crate::{Version, checksum};

/// Sets the ECN field of the packet that `head` starts to CE, and brings an IPv4 header's checksum up to date. The
/// packet must be ECN-capable (ECT(0), ECT(1) or CE already); nothing else is looked at. A `head` too short to have
/// the field is left as it is.
pub fn mark_ce(head: &mut [u8], version: Version) {
    match version {
        Version::V4 if head.len() >= 20 => {
            let old = read_u16(head, 0);
            let new = old | 0x0003;
            write_u16(head, 0, new);
            let sum = checksum::update(read_u16(head, 10), old, new);
            write_u16(head, 10, sum);
        }
        Version::V6 if head.len() >= 2 => head[1] |= 0x30,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Headers, build};

    #[test]
    fn a_marked_packet_is_ce_and_otherwise_the_same() {
        for ecn in [1_u8, 2, 3] {
            for (ip, version) in [(build::Ip::v4(), Version::V4), (build::Ip::v6(), Version::V6)] {
                let ip = |ecn: u8| build::Ip { traffic_class: 0xb8 | ecn, ..ip };
                let mut packet = build::udp(&ip(ecn), (1, 2), b"data");
                mark_ce(&mut packet, version);
                assert_eq!(packet, build::udp(&ip(3), (1, 2), b"data"), "ECN {ecn} of {version:?}");
                assert_eq!(Headers::parse(&packet, packet.len()).unwrap().ecn(), 3);
            }
        }
    }

    #[test]
    fn what_is_no_header_is_left_alone() {
        let mut short = [0x45; 19];
        mark_ce(&mut short, Version::V4);
        assert_eq!(short, [0x45; 19]);
        mark_ce(&mut [], Version::V6);
    }
}
