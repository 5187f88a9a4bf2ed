use trunkline_packet::build::{self, Ip, Tcp};
use trunkline_packet::{Headers, Offload, TcpFlags, checksum};

use super::context::Context;
use super::header::{Chain, Header};
use super::number::Writer;
use super::*;
use crate::flow;
use crate::frame::Frame;

mod flows;
mod wire;

type Packet = (Vec<u8>, Offload);

/// Both ends of a lane.
struct Lane {
    compressor: Compressor,
    decompressor: Decompressor,
}

/// How one packet travelled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    /// Bytes in place of the header, but for the two of the length.
    header: usize,
    compressed: bool,
    frame: Vec<u8>,
}

impl Lane {
    fn new() -> Self {
        Lane { compressor: Compressor::new(Compression::On, 1), decompressor: Decompressor::new() }
    }

    /// Sends a packet and asserts that it arrives as it was.
    fn send(&mut self, packet: &Packet) -> Sent {
        self.send_by(packet, |chain| flow::hasher(1).hash(&chain.flow()))
    }

    /// The same, whatever the hash of its flow is.
    fn send_as(&mut self, packet: &Packet, flow: u64) -> Sent {
        self.send_by(packet, |_| flow)
    }

    fn send_by(&mut self, (packet, offload): &Packet, hash: impl FnOnce(&Chain) -> u64) -> Sent {
        let single = Single { head: packet, len: packet.len(), offload: *offload };
        let mut out = [0xaa; MAX_FRAMED];
        let head = self.compressor.frame_by(hash, &single, &mut out);
        assert!(head.len <= head.replaced + MAX_HEAD, "there is room for it before the payload");
        let frame = [&out[..head.len], &packet[head.replaced..]].concat();
        let (restored, restored_offload) = receive(&mut self.decompressor, &frame).expect("a sound frame");
        assert_eq!(&restored, packet);
        assert_eq!(restored_offload, *offload);
        let headers = Headers::parse(packet, packet.len()).map_or(0, |headers| headers.transport_offset);
        let header = if head.replaced > 0 { head.len - 2 } else { headers };
        Sent { header, compressed: head.replaced > 0, frame }
    }
}

/// What a receiver does with one frame.
fn receive(decompressor: &mut Decompressor, frame: &[u8]) -> Result<Packet, CompressError> {
    let (head, len) = Frame::decode(frame).expect("a frame").expect("all of its head");
    let content = &frame[len..];
    assert_eq!(content.len(), head.content_len());
    match head {
        Frame::Packet { head, context } => {
            if let Some(context) = context {
                decompressor.establish(context, &head, content)?;
            }
            Ok((content.to_vec(), head.offload))
        }
        Frame::Compressed { bits, len } => {
            let mut header = [0x55; MAX_HEADER];
            let prefix = &content[..len.min(MAX_FIELDS)];
            let restored = decompressor.restore(bits, prefix, len, &mut header)?;
            let packet = [&header[..restored.header_len], &content[restored.consumed..]].concat();
            assert_eq!(packet.len(), restored.head.packet_len);
            Ok((packet, restored.head.offload))
        }
        Frame::Report { .. } | Frame::Number { .. } | Frame::Order { .. } => {
            panic!("a compressor makes packets")
        }
    }
}

const STAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];

fn stamps(value: u32, echo: u32) -> Vec<u8> {
    [&STAMPS[..4], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
}

fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![1, 1, 5, (2 + 8 * blocks.len()) as u8];
    for (left, right) in blocks {
        option.extend(left.to_be_bytes());
        option.extend(right.to_be_bytes());
    }
    option
}

fn complete(packet: Vec<u8>) -> Packet {
    (packet, Offload::None)
}

fn open(ip: &Ip, tcp: &Tcp, payload: &[u8]) -> Packet {
    build::tcp_offloaded(ip, tcp, payload, u16::MAX - 1)
}

fn fix_ipv4(packet: &mut [u8]) {
    let sum = checksum::ipv4_header_checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn a_pure_acknowledgement_without_options_takes_what_changed_and_no_more() {
    for ip in [Ip::v4(), Ip::v6()] {
        let mut lane = Lane::new();
        let mut id = 100_u16;
        let mut ack = |lane: &mut Lane, ack, window, closed| {
            id += 1;
            let (ip, tcp) = (Ip { id, ..ip }, Tcp { ack, window, ..Tcp::default() });
            let packet = if closed { complete(build::tcp(&ip, &tcp, &[])) } else { open(&ip, &tcp, &[]) };
            let sent = lane.send(&packet);
            (sent.compressed, sent.header)
        };
        assert!(!ack(&mut lane, 1, 512, false).0, "the first of a flow makes its context");
        assert_eq!(ack(&mut lane, 2897, 512, false), (true, 3), "kind and two bytes of difference");
        assert_eq!(ack(&mut lane, 2897, 512, false), (true, 1), "a duplicate one is its kind");
        assert_eq!(ack(&mut lane, 5793, 510, false), (true, 4));
        assert_eq!(ack(&mut lane, 5793, 510, true), (true, 5), "extension, how, and the checksum");
        assert_eq!(ack(&mut lane, 8689, 510, true), (true, 5), "a complete checksum is carried");
    }
}

#[test]
fn data_that_follows_data_needs_no_sequence_number() {
    let mut lane = Lane::new();
    let mut seq = u32::MAX - 1500;
    for n in 0..4_u16 {
        let options = stamps(7000 + u32::from(n), 9000);
        let tcp = Tcp { seq, options: &options, flags: TcpFlags::ACK | TcpFlags::PSH, ..Tcp::default() };
        let sent = lane.send(&open(&Ip { id: n, ..Ip::v4() }, &tcp, &[9; 1000]));
        seq = seq.wrapping_add(1000);
        if n > 0 {
            assert_eq!((sent.compressed, sent.header), (true, 3), "kind and two timestamps");
        }
    }
    // A retransmission of the last goes back by 1000, and what follows it goes on from there.
    for (n, header) in [(4, 5), (5, 3)] {
        let options = stamps(7010 + u32::from(n), 9000);
        let tcp = Tcp { seq: seq.wrapping_sub(1000), options: &options, ..Tcp::default() };
        let sent = lane.send(&open(&Ip { id: n, ..Ip::v4() }, &tcp, &[9; 1000]));
        assert_eq!(sent.header, header);
        seq = seq.wrapping_add(1000);
    }
}

#[test]
fn a_datagram_takes_its_kind_and_its_checksum_if_it_has_one() {
    for ip in [Ip::v4(), Ip::v6()] {
        for id_step in [0, 1] {
            let mut lane = Lane::new();
            let packets = (0..6_u16).map(|n| {
                let ip = Ip { id: n * id_step, ..ip };
                match n {
                    0..3 => build::udp_offloaded(&ip, (5, 6), &[1; 172], 500),
                    _ => complete(build::udp(&ip, (5, 6), &[1; 172])),
                }
            });
            let headers: Vec<usize> = packets.map(|packet| lane.send(&packet).header).collect();
            let settled = [headers[2], headers[4], headers[5]];
            assert_eq!(settled, [1, 3, 3], "{headers:?}");
            assert_eq!(lane.compressor.stats().compressed, 5);
        }
    }
}

#[test]
fn sack_blocks_cost_their_distance_from_the_acknowledgement() {
    let mut lane = Lane::new();
    let mut send = |options: Vec<u8>| {
        let tcp = Tcp { ack: 10_000, options: &options, ..Tcp::default() };
        lane.send(&open(&Ip::v6(), &tcp, &[]))
    };
    send(stamps(1, 1));
    let one = send([stamps(2, 1), sack(&[(11_448, 12_896)])].concat());
    // Kind, extension, timestamps 2, count, two bytes for each edge.
    assert_eq!((one.compressed, one.header), (true, 9));
    let three = send([stamps(2, 1), sack(&[(14_344, 15_792), (11_448, 12_896), (9000, 9500)])].concat());
    assert_eq!(three.header, 3 + 4 + 4 + 7, "a block below the acknowledgement takes a long way round");
    assert_eq!(send(stamps(2, 1)).header, 1, "without blocks nothing is said of them");
    // Without timestamps a flow is another chain, and may have four blocks.
    assert!(!send(sack(&[(1, 2); 4])).compressed);
    assert_eq!(send(sack(&[(10_001, 10_002); 4])).header, 3 + 8);
}

#[test]
fn what_changes_seldom_is_carried_exactly() {
    let mut lane = Lane::new();
    let base = Ip { traffic_class: 0xb8, ..Ip::v4() };
    let tcp = Tcp::default();
    lane.send(&open(&base, &tcp, &[]));
    let ip = Ip { id: 2, ..base };
    let cases = [
        (Ip { hop_limit: 63, ..ip }, tcp, 3),
        (Ip { hop_limit: 63, traffic_class: 0xbb, id: 3, ..ip }, tcp, 3),
        // Hop limit and traffic class back, and the identification 3 below what was expected.
        (Ip { id: 1, ..ip }, tcp, 5),
        (Ip { id: 2, ..ip }, Tcp { flags: TcpFlags::ACK | TcpFlags::ECE, ..tcp }, 3),
        (Ip { id: 3, ..ip }, Tcp { flags: TcpFlags::ACK | TcpFlags::ECE, ..tcp }, 1),
        (Ip { id: 4, ..ip }, Tcp { flags: TcpFlags::ACK | TcpFlags::ECE | TcpFlags::PSH, ..tcp }, 1),
    ];
    for (ip, tcp, header) in cases {
        let sent = lane.send(&open(&ip, &tcp, &[]));
        assert_eq!((sent.compressed, sent.header), (true, header), "{ip:?} {tcp:?}");
    }
    let (mut urgent, offload) = open(&Ip { id: 5, ..ip }, &Tcp { flags: TcpFlags(0x30), ..tcp }, b"now");
    urgent[38..40].copy_from_slice(&[0, 3]);
    assert_eq!(lane.send(&(urgent, offload)).header, 5);
}

/// Why a packet must travel whole, for each reason but those that are not the packet's.
fn incompressible() -> Vec<(Whole, Packet)> {
    let (ip, tcp) = (Ip::v4(), Tcp::default());
    let flags = |flags| complete(build::tcp(&ip, &Tcp { flags, ..tcp }, &[]));
    let options = |options| complete(build::tcp(&ip, &Tcp { options, ..tcp }, &[]));
    let changed = |packet: Vec<u8>, at: usize, value: u8| {
        let mut packet = packet;
        packet[at] = value;
        if packet[0] == 0x45 && at < 20 {
            fix_ipv4(&mut packet);
        }
        complete(packet)
    };
    let plain = build::tcp(&ip, &tcp, b"data");
    let mut wrong_sum = plain.clone();
    wrong_sum[10] ^= 1;
    let mut not_partial = open(&ip, &tcp, b"data");
    not_partial.0[36] ^= 1;
    let mut stray = open(&ip, &tcp, b"data");
    stray.1 = Offload::Checksum { start: 24, offset: 16 };
    let udp6 = build::udp(&Ip::v6(), (5, 6), b"data");
    let behind_options = build::ip(&Ip::v6(), 60, &[&[17, 0, 1, 4, 0, 0, 0, 0], &udp6[40..]].concat());
    let mut ip_options = [&plain[..20], &[1; 4], &plain[20..]].concat();
    ip_options[0] = 0x46;
    ip_options[3] += 4;
    vec![
        (Whole::SuperPacket, build::tcp_offloaded(&ip, &tcp, &[1; 300], 100)),
        (Whole::Protocol, complete(build::icmp_echo(&ip, 1, 2, b"ping"))),
        (Whole::Protocol, complete(behind_options)),
        (Whole::Fragment, changed(plain.clone(), 6, 0x20)),
        (Whole::Fragment, changed(plain.clone(), 7, 0x01)),
        (Whole::IpHeader, complete(wrong_sum)),
        (Whole::IpHeader, complete(ip_options)),
        (Whole::IpHeader, changed(plain.clone(), 3, 43)),
        (Whole::IpHeader, complete(vec![0x45; 20])),
        (Whole::TcpFlags, flags(TcpFlags::SYN)),
        (Whole::TcpFlags, flags(TcpFlags::SYN | TcpFlags::ACK)),
        (Whole::TcpFlags, flags(TcpFlags::FIN | TcpFlags::ACK)),
        (Whole::TcpFlags, flags(TcpFlags::RST)),
        (Whole::TcpFlags, flags(TcpFlags::PSH)),
        (Whole::TcpFlags, changed(plain.clone(), 32, 0x51)),
        (Whole::TcpOptions, changed(plain.clone(), 32, 0x40)),
        (Whole::TcpOptions, changed(plain.clone(), 32, 0xf0)),
        (Whole::TcpOptions, options(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1])),
        (Whole::TcpOptions, options(&[2, 4, 5, 0xb4])),
        (Whole::TcpOptions, options(&[1, 1, 5, 2])),
        (Whole::TcpOptions, options(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 1, 1])),
        (Whole::UdpLength, changed(udp6, 45, 11)),
        (Whole::Checksum, not_partial),
        (Whole::Checksum, stray),
    ]
}

#[test]
fn what_has_no_exact_form_travels_whole_and_leaves_the_context_alone() {
    for (reason, odd) in incompressible() {
        let mut lane = Lane::new();
        lane.send_as(&open(&Ip::v4(), &Tcp::default(), &[]), 7);
        assert!(!lane.send_as(&odd, 7).compressed, "{reason:?}");
        assert_eq!(lane.compressor.stats().whole(reason), 1, "{reason:?} {:?}", lane.compressor.stats());
        let next = lane.send_as(&open(&Ip { id: 2, ..Ip::v4() }, &Tcp::default(), &[]), 7);
        assert_eq!((next.compressed, next.header), (true, 1), "{reason:?}");
    }
}

#[test]
fn a_packet_that_cannot_be_compressed_makes_no_context() {
    for (reason, (packet, offload)) in incompressible() {
        let mut decompressor = Decompressor::new();
        let head = crate::frame::FrameHead { packet_len: packet.len(), offload };
        let error = CompressError::NoForm { context: 9, reason };
        assert_eq!(decompressor.establish(9, &head, &packet), Err(error));
    }
}

#[test]
fn a_flow_whose_constant_part_changes_makes_its_context_anew_in_the_same_place() {
    let mut lane = Lane::new();
    let mut packet = open(&Ip::v6(), &Tcp::default(), &[]);
    let first = lane.send(&packet);
    packet.0[3] = 0x17;
    let relabelled = lane.send(&packet);
    assert!(!relabelled.compressed);
    assert_eq!(relabelled.frame[3], first.frame[3]);
    assert_eq!(lane.send(&packet).header, 1);
    assert_eq!(lane.compressor.stats().replaced, 0, "no other flow lost its context");
}

#[test]
fn of_eight_places_the_one_longest_not_used_is_taken() {
    let mut lane = Lane::new();
    let flow = |n: u64| n << 32 | 5;
    let packet = |n: u64| open(&Ip::v6(), &Tcp { ports: (n as u16, 80), ..Tcp::default() }, &[]);
    for n in 0..8 {
        assert!(!lane.send_as(&packet(n), flow(n)).compressed);
    }
    for n in [0, 1, 3, 4, 5, 6, 7] {
        assert_eq!(lane.send_as(&packet(n), flow(n)).header, 2, "kind and context");
    }
    assert_eq!(lane.compressor.stats().replaced, 0);
    assert!(!lane.send_as(&packet(8), flow(8)).compressed);
    assert_eq!(lane.compressor.stats().replaced, 1);
    for n in [0, 1, 3, 4, 5, 6, 7, 8] {
        assert!(lane.send_as(&packet(n), flow(n)).compressed, "{n} is still there");
    }
    assert!(!lane.send_as(&packet(2), flow(2)).compressed, "and 2 is not");
}

#[test]
fn a_chain_names_the_flow_of_its_packets() {
    for ip in [Ip::v4(), Ip::v6()] {
        for (packet, offload) in
            [open(&ip, &Tcp::default(), &[]), build::udp_offloaded(&ip, (40_000, 443), &[], 100)]
        {
            let header = Header::parse(&packet, packet.len(), offload).expect("it can be compressed");
            let headers = Headers::parse(&packet, packet.len()).expect("sound");
            assert_eq!(header.chain.flow(), headers.flow());
        }
    }
}

#[test]
fn flows_whose_hashes_agree_are_not_mixed_up() {
    let mut lane = Lane::new();
    for n in 0..20_u16 {
        let tcp = Tcp { ports: (n % 2, 80), ..Tcp::default() };
        assert!(!lane.send_as(&open(&Ip::v4(), &tcp, &[]), 1).compressed, "each takes the other's place");
    }
}

#[test]
fn a_lane_that_is_told_not_to_compresses_nothing() {
    let mut lane = Lane { compressor: Compressor::new(Compression::Off, 1), ..Lane::new() };
    for _ in 0..3 {
        let sent = lane.send(&open(&Ip::v4(), &Tcp::default(), &[]));
        assert_eq!((sent.compressed, sent.frame[2]), (false, 2));
    }
    assert_eq!(*lane.compressor.stats(), CompressorStats::default());
    lane.compressor.set(Compression::On);
    let compressed = |lane: &mut Lane| lane.send(&open(&Ip::v6(), &Tcp::default(), &[])).compressed;
    assert_eq!([compressed(&mut lane), compressed(&mut lane)], [false, true]);
    lane.compressor.set(Compression::Off);
    assert!(!compressed(&mut lane));
    lane.compressor.set(Compression::On);
    assert!(compressed(&mut lane), "contexts are kept at both ends");
}

#[test]
fn where_it_does_not_pay_it_pauses_and_contexts_outlive_the_pause() {
    let mut lane = Lane::new();
    let keeper = |id| open(&Ip { id, ..Ip::v4() }, &Tcp::default(), &[]);
    lane.send(&keeper(0));
    // Every packet is a flow of its own, and none of them in the keeper's set: it costs a byte each.
    let keeper_flow = Headers::parse(&keeper(0).0, 40).expect("sound").flow();
    let keeper_set = flow::hasher(1).hash(&keeper_flow) % 32;
    let mut whole = 0;
    for n in 1..trial::TRIAL {
        let tcp = Tcp { ports: (n as u16, 80), ..Tcp::default() };
        let packet = open(&Ip::v6(), &tcp, &[0; 100]);
        whole += u32::from(!lane.send_as(&packet, u64::from(n) << 32 | (keeper_set + 1)).compressed);
    }
    assert_eq!(whole, trial::TRIAL - 1);
    assert_eq!(lane.compressor.stats().pauses, 1);
    for id in 0..trial::PAUSE {
        let sent = lane.send(&keeper(id as u16));
        assert_eq!((sent.compressed, sent.frame[2]), (false, 2));
    }
    assert_eq!(lane.compressor.stats().whole(Whole::Pause), u64::from(trial::PAUSE));
    assert_eq!(lane.send(&keeper(1)).header, 2, "kind and context: the identification is the expected one");
    for id in 2..3 * trial::TRIAL {
        assert!(lane.send(&keeper(id as u16)).compressed);
    }
    assert_eq!(lane.compressor.stats().pauses, 1, "it pays now");
}

#[test]
fn the_longest_fields_fit_exactly_and_are_shorter_than_their_header() {
    let widest = |timestamps: bool| {
        let far = (0x8000_0000, 0x7fff_ffff);
        let last = if timestamps { stamps(0, 0) } else { vec![] };
        let next =
            if timestamps { [stamps(u32::MAX, u32::MAX), sack(&[far; 3])].concat() } else { sack(&[far; 4]) };
        let header = |ip: Ip, tcp: Tcp, urgent: u8, offload: bool| {
            let (mut packet, offload) =
                if offload { open(&ip, &tcp, &[]) } else { complete(build::tcp(&ip, &tcp, &[])) };
            packet[39] = urgent;
            Header::parse(&packet, packet.len(), offload).expect("it can be compressed")
        };
        let was = Tcp { seq: 0, ack: 0, window: 0, options: &last, ..Tcp::default() };
        let is =
            Tcp { seq: 1 << 31, ack: u32::MAX, window: 0x8000, options: &next, flags: TcpFlags(0x70), ..was };
        let context = Context::new(&header(Ip { id: 0, ..Ip::v4() }, was, 0, true), 0);
        let ip = Ip { id: 0x8001, hop_limit: 1, traffic_class: 1, ..Ip::v4() };
        let mut fields = [0; MAX_FIELDS];
        let mut writer = Writer::new(&mut fields);
        let header = header(ip, is, 9, false);
        context.encode(&header, Some(255), &mut writer);
        (writer.len(), header.len())
    };
    assert_eq!([widest(true), widest(false)], [(MAX_FIELDS, 80), (MAX_FIELDS, 76)]);
    // The shortest headers leave out as much as they are shorter.
    let mut lane = Lane::new();
    let mut send = |id: u16, class: u8| {
        let ip = Ip { id, traffic_class: class, hop_limit: class, ..Ip::v4() };
        lane.send_as(&complete(build::udp(&ip, (1, 2), &[])), 1).header
    };
    assert_eq!([send(0, 0), send(0x8001, 1)], [20, 9]);
}
