use trunkline_packet::{Headers, TcpFlags, TcpView, build};
use trunkline_tcp::{Options, SackBlocks};

use super::*;

fn ends(version: Version, protocol: u8) -> Addressing {
    Addressing::new((version, protocol), (NodeId(1), 40_000), (NodeId(0x0203), 80), 46)
}

/// The same in the words of crate `packet`.
fn ip(version: Version) -> build::Ip {
    let base = if version == Version::V4 { build::Ip::v4() } else { build::Ip::v6() };
    build::Ip {
        source: NodeId(1).ip(version),
        destination: NodeId(0x0203).ip(version),
        traffic_class: 46 << 2 | 2,
        id: 9,
        dont_fragment: false,
        ..base
    }
}

fn segment(payload: u32) -> Segment {
    let mut sack = SackBlocks::default();
    for start in [5000, 3000, 9000] {
        sack.push(Seq(start), Seq(start + 1000));
    }
    let options = Options { timestamps: Some((7, 9)), sack, ..Options::default() };
    let flags = TcpFlags::ACK;
    Segment {
        seq: Seq(77),
        ack: Seq(99),
        flags,
        window: 4096,
        payload,
        options,
        ecn_capable: true,
        ..Segment::default()
    }
}

#[test]
fn an_ipv6_header_has_the_bytes_of_rfc_8200() {
    let addressing = ends(Version::V6, protocol::TCP);
    let packet = Packet::tcp(&addressing, 9, &segment(1000));
    let header = packet.header();
    let label = u32::from_be_bytes([0, header[1] & 0xf, header[2], header[3]]);
    assert_eq!(header[..2], [0x6b, 0xa0 | header[1] & 0xf], "version 6, DSCP 46, ECT(0)");
    assert_eq!(header[4..8], [(1060_u16 >> 8) as u8, 1060_u16 as u8, 6, 64], "60 bytes of TCP and the data");
    assert_eq!(header[8..24], [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 1, 1]);
    assert_eq!(header[24..40], [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 2, 3, 1]);
    assert_eq!((header.len(), packet.length()), (100, 1100));
    let again = Packet::tcp(&addressing, 10, &segment(5));
    assert_eq!(again.header()[..4], header[..4], "one label for a flow");
    let other = Addressing::new((Version::V6, protocol::TCP), (NodeId(1), 40_001), (NodeId(0x0203), 80), 46);
    let other = Packet::tcp(&other, 9, &segment(5));
    assert!(label != 0 && other.header()[..4] != header[..4], "and another for another");
}

#[test]
fn packets_are_those_that_crate_packet_builds() {
    for version in [Version::V4, Version::V6] {
        let packet = Packet::tcp(&ends(version, protocol::TCP), 9, &segment(4));
        let (mut ours, mut options) = (Vec::new(), [0; 60]);
        packet.checksummed(&mut ours);
        ours.extend([0; 4]);
        segment(4).write((40_000, 80), &mut options);
        let tcp = build::Tcp {
            ports: (40_000, 80),
            seq: 77,
            ack: 99,
            flags: TcpFlags::ACK,
            window: 4096,
            options: &options[20..],
        };
        let mut theirs = build::tcp(&ip(version), &tcp, &[0; 4]);
        label(version, &mut theirs, &ours);
        assert_eq!(ours, theirs, "{version:?}");

        let packet = Packet::udp(&ends(version, protocol::UDP), 9, 3);
        packet.checksummed(&mut ours);
        ours.extend([0; 3]);
        let mut theirs =
            build::udp(&build::Ip { traffic_class: 46 << 2, ..ip(version) }, (40_000, 80), &[0; 3]);
        label(version, &mut theirs, &ours);
        assert_eq!(ours, theirs, "{version:?}");
    }
}

/// Takes the IPv6 flow label over.
fn label(version: Version, theirs: &mut [u8], ours: &[u8]) {
    if version == Version::V6 {
        theirs[1] |= ours[1] & 0xf;
        theirs[2..4].copy_from_slice(&ours[2..4]);
    }
}

#[test]
fn a_checksum_of_a_datagram_over_ipv6_is_never_zero() {
    let sums = (0..3000).map(|data| {
        let mut bytes = Vec::new();
        Packet::udp(&ends(Version::V6, protocol::UDP), 0, data).checksummed(&mut bytes);
        let total = checksum::pseudo_header(
            NodeId(1).ip(Version::V6),
            NodeId(0x0203).ip(Version::V6),
            protocol::UDP,
            8 + data,
        ) + checksum::sum(&bytes[40..]);
        assert_eq!(checksum::fold(total), 0xffff);
        [bytes[46], bytes[47]]
    });
    assert!(sums.clone().all(|sum| sum != [0, 0]));
}

#[test]
fn a_mark_is_one_that_readers_of_headers_see() {
    for version in [Version::V4, Version::V6] {
        let mut packet = Packet::tcp(&ends(version, protocol::TCP), 9, &segment(1000));
        assert!(packet.is_ecn_capable() && !packet.congestion_experienced());
        packet.mark();
        assert!(packet.congestion_experienced());
        let headers = Headers::parse(packet.header(), packet.length() as usize).expect("headers");
        assert_eq!((headers.ecn(), headers.dscp(), headers.version), (3, 46, version));
        assert_eq!(headers.source, NodeId(1).ip(version));
        assert_eq!(headers.destination, NodeId(0x0203).ip(version));
        assert_eq!(headers.ports, Some((40_000, 80)));
        let view = TcpView::new(packet.transport()).expect("TCP");
        assert_eq!((view.seq(), view.window()), (77, 4096));
    }
}

#[test]
fn queues_tell_flows_of_both_versions_apart_and_packets_of_one_not() {
    let flow = |version, from, ports: (u16, u16), payload| {
        let addressing =
            Addressing::new((version, protocol::TCP), (NodeId(from), ports.0), (NodeId(9), ports.1), 0);
        let packet = Packet::tcp(&addressing, payload as u16, &segment(payload));
        assert_eq!(packet.flow(), addressing.hash);
        packet.flow()
    };
    let mut flows = std::collections::BTreeSet::new();
    for version in [Version::V4, Version::V6] {
        for from in [1, 2] {
            for ports in [(1, 2), (2, 1)] {
                assert_eq!(flow(version, from, ports, 1), flow(version, from, ports, 1000));
                flows.insert(flow(version, from, ports, 1));
            }
        }
    }
    assert_eq!(flows.len(), 8);
    let error = Addressing::new((Version::V6, protocol::ICMPV6), (NodeId(1), 0), (NodeId(2), 0), 0);
    let original = Packet::udp(&ends(Version::V6, protocol::UDP), 0, 2000);
    assert_eq!(Packet::icmp(&error, 0, (2, 0, [0, 0, 5, 0]), &original).flow(), error.hash);
}

/// RFC 4443 §3.2 and §2.4(c).
#[test]
fn an_icmpv6_error_has_the_mtu_the_original_and_a_checksum_over_the_pseudo_header() {
    let original = Packet::udp(&ends(Version::V6, protocol::UDP), 0, 1400);
    let addressing = Addressing::new((Version::V6, protocol::ICMPV6), (NodeId(5), 0), (NodeId(1), 0), 0);
    let packet = Packet::icmp(&addressing, 0, (2, 0, 1280_u32.to_be_bytes()), &original);
    assert_eq!(packet.length(), 1280, "no longer than what every path takes");
    let mut bytes = Vec::new();
    packet.checksummed(&mut bytes);
    assert_eq!((bytes[6], &bytes[40..42], &bytes[44..48]), (58, &[2, 0][..], &[0, 0, 5, 0][..]));
    assert_eq!(bytes[48..], original.header()[..48]);
    let [source, destination] = [5, 1].map(|node| NodeId(node).ip(Version::V6));
    let pseudo_header = checksum::pseudo_header(source, destination, 58, 1240);
    assert_eq!(checksum::fold(pseudo_header + checksum::sum(&bytes[40..])), 0xffff);
    let short = Packet::udp(&ends(Version::V6, protocol::UDP), 0, 100);
    assert_eq!(Packet::icmp(&addressing, 0, (3, 0, [0; 4]), &short).length(), 48 + 148);
}

#[test]
fn hops_are_counted_and_nothing_of_ipv6_is_fragmented() {
    for version in [Version::V4, Version::V6] {
        let mut packet = Packet::tcp(&ends(version, protocol::TCP), 9, &segment(1000));
        assert_eq!((0..70).take_while(|_| packet.take_hop()).count(), 63);
        assert!(!packet.is_fragment());
        assert_eq!(packet.dont_fragment(), version == Version::V6);
    }
}
