//! Whatever plain routing forwards, a trunk forwards: packets of every kind pass the transmitter, each kind of lane, the receiver
//! and what merges packets for the device. They arrive as they were, and in order within their flow. The one kind of packet that
//! a trunk drops of its own accord is a copy of bytes that it is about to deliver.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::common::{Whole, class, offer, transmitter};
use trunkline_packet::build::Ip;
use trunkline_packet::build::forwardable::{self, Kind};
use trunkline_packet::{Fragment, Headers, Run, Segmenter, TcpFlags, TcpView, Version, protocol};
use trunkline_trunk::compress::{Compression, Compressor, Decompressor, MAX_FRAMED, MAX_HEADER, Single};
use trunkline_trunk::datagram::{DatagramError, MIN_DATAGRAM, Packer, Reassembler};
use trunkline_trunk::frame::{Frame, FrameHead, MAX_HEAD};
use trunkline_trunk::streams::{Deframer, Framing, StreamError};
use trunkline_trunk::{LaneId, Offered, PeerId, Poll, Receiver, Transmitter, TrunkPlan};
use trunkline_units::{Instant, Rng, Seq};

const LANE: LaneId = LaneId(0);
/// The start of a packet that a gateway has in one piece at both ends.
const PREFIX: usize = 2048;
const STREAMS: usize = 16;

/// A lane from end to end.
#[allow(clippy::large_enum_variant, reason = "a test has one")]
enum Lane {
    /// A byte stream: TCP.
    Stream(Compressor, Decompressor),
    /// QUIC datagrams.
    Datagrams(Packer, Reassembler),
    /// QUIC streams.
    Streams(Framing, Vec<Deframer>),
}

impl Lane {
    fn all() -> Vec<(&'static str, Lane)> {
        let stream = |compression| Lane::Stream(Compressor::new(compression, 1), Decompressor::new());
        let mut framing = Framing::new(1);
        framing.grow(STREAMS);
        vec![
            ("TCP", stream(Compression::On)),
            ("TCP without header compression", stream(Compression::Off)),
            ("datagrams", Lane::Datagrams(Packer::new(MIN_DATAGRAM), Reassembler::default())),
            ("streams", Lane::Streams(framing, (0..STREAMS).map(|_| Deframer::default()).collect())),
        ]
    }

    /// Carries a packet. What comes out of the far end.
    fn carry(&mut self, now: Instant, packet: &Whole) -> Vec<(FrameHead, Vec<u8>)> {
        let bytes = &packet.bytes;
        let head = FrameHead { packet_len: bytes.len(), offload: packet.offload };
        let mut room = [0; MAX_HEAD];
        let start = MAX_HEAD - head.encode_before(&mut room);
        let mut out = Vec::new();
        match self {
            Lane::Stream(compressor, decompressor) => {
                let mut room = [0; MAX_FRAMED];
                let single = Single {
                    head: &bytes[..bytes.len().min(PREFIX)],
                    len: bytes.len(),
                    offload: packet.offload,
                };
                let framed = compressor.frame(&single, &mut room);
                let wire = [&room[..framed.len], &bytes[framed.replaced..]].concat();
                out.push(receive(decompressor, &wire));
            }
            Lane::Datagrams(packer, reassembler) => {
                packer.put(&[&room[start..], bytes]);
                let mut pieces = Vec::new();
                let wire = packer.take(&mut pieces, Vec::new());
                for piece in pieces {
                    let datagram = &wire[piece.start..piece.end];
                    let each = |frame: Frame, content: &[u8]| {
                        out.push(whole_frame(&frame, content));
                        Ok::<(), DatagramError>(())
                    };
                    reassembler.handle_datagram(now, datagram, each).expect("a sound datagram");
                }
            }
            Lane::Streams(framing, deframers) => {
                let flow = packet.headers().flow();
                let put = |piece: &mut Vec<u8>| piece.extend([&room[start..], &bytes[..]].concat());
                assert!(framing.put(now, &flow, framing.position(), put));
                for (stream, wire) in framing.take() {
                    let each = |frame: &Frame, content: &[u8]| {
                        out.push(whole_frame(frame, content));
                        Ok::<(), StreamError>(())
                    };
                    deframers[usize::from(stream)].handle_bytes(&wire, each).expect("a sound stream");
                }
            }
        }
        out
    }
}

fn whole_frame(frame: &Frame, content: &[u8]) -> (FrameHead, Vec<u8>) {
    let Frame::Packet { head, context: None } = frame else { panic!("{frame:?}") };
    (*head, content.to_vec())
}

fn receive(decompressor: &mut Decompressor, wire: &[u8]) -> (FrameHead, Vec<u8>) {
    let (frame, head_len) = Frame::decode(wire).expect("a frame").expect("all of its head");
    let content = &wire[head_len..];
    match frame {
        Frame::Packet { head, context } => {
            if let Some(context) = context {
                decompressor.establish(context, &head, content).expect("a context");
            }
            (head, content.to_vec())
        }
        Frame::Compressed { bits, len } => {
            let mut header = [0; MAX_HEADER];
            let restored = decompressor.restore(bits, content, len, &mut header).expect("a sound frame");
            (restored.head, [&header[..restored.header_len], &content[restored.consumed..]].concat())
        }
        Frame::Report { .. } | Frame::Number { .. } | Frame::Order { .. } => {
            panic!("nobody reports, and nothing is sent twice")
        }
    }
}

/// The receiving end of a trunk, up to the packets that its kernel makes of what is written to the device.
struct Site {
    receiver: Receiver,
    run: Option<(Run, Vec<Vec<u8>>)>,
    packets: Vec<Arrived>,
}

/// A packet, and whether it was one of several that were merged.
struct Arrived {
    bytes: Vec<u8>,
    merged: bool,
}

impl Site {
    fn new() -> Self {
        let everywhere = ["0.0.0.0/0", "::/0"].map(|prefix| (prefix.parse().expect("a prefix"), PeerId(0)));
        let receiver = Receiver::new(PeerId(0), Arc::new(everywhere.into_iter().collect()));
        Site { receiver, run: None, packets: Vec::new() }
    }

    fn handle(&mut self, head: FrameHead, packet: Vec<u8>) {
        let prefix = &packet[..packet.len().min(PREFIX)];
        let judged = self.receiver.handle_frame(&head, prefix);
        let (headers, offload) = judged.unwrap_or_else(|refusal| panic!("{refusal}: {packet:02x?}"));
        if let Some((run, packets)) = &mut self.run
            && run.push([&packet, &[]], &headers, offload)
        {
            return packets.push(packet);
        }
        self.finish();
        match Run::start([&packet, &[]], &headers, offload) {
            Some(run) => self.run = Some((run, vec![packet])),
            None => self.packets.push(Arrived { bytes: packet, merged: false }),
        }
    }

    /// The kernel takes apart what was merged.
    fn finish(&mut self) {
        let Some((mut run, packets)) = self.run.take() else { return };
        let (header_len, merged) = (run.header_len(), run.count() > 1);
        let (header, offload) = run.finish();
        let mut whole = header.to_vec();
        for packet in &packets {
            whole.extend_from_slice(&packet[header_len..]);
        }
        let headers = Headers::parse(&whole, whole.len()).expect("a run is a packet");
        let mut segmenter = Segmenter::new(&whole, &headers, offload).expect("its offload fits");
        let mut segment = vec![0; segmenter.longest()];
        while let Some(len) = segmenter.next_into(&mut segment) {
            self.packets.push(Arrived { bytes: segment[..len].to_vec(), merged });
        }
    }
}

/// What of a packet is the same behind a kernel that took it out of others. The identification of an IPv4 packet that nobody
/// fragments means nothing (RFC 6864 §4.1).
fn without_id(mut packet: Vec<u8>) -> Vec<u8> {
    if packet[0] >> 4 == 4 && packet[6] & 0x40 != 0 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

/// The sequence numbers that a packet takes up.
fn sequence(packet: &[u8]) -> Option<(Seq, Seq)> {
    let headers = Headers::parse(packet, packet.len()).expect("a packet");
    if headers.protocol != protocol::TCP || headers.fragment != Fragment::Whole {
        return None;
    }
    let view = TcpView::new(&packet[headers.transport_offset..]).ok()?;
    let data = headers.transport_len().checked_sub(view.header_len())? as u32;
    let flag = |flag| u32::from(view.flags().contains(flag));
    let len = data + flag(TcpFlags::SYN) + flag(TcpFlags::FIN);
    (len > 0).then(|| (Seq(view.seq()), Seq(view.seq()) + len))
}

/// A flow, and the sequence numbers of a packet of it, if it has some.
type Bytes = (usize, Option<(Seq, Seq)>);

/// Which bytes of which flow are in the trunk.
#[derive(Default)]
struct InTrunk {
    waiting: VecDeque<Bytes>,
    /// By the position at which each ends.
    lane: VecDeque<(u64, Bytes)>,
}

impl InTrunk {
    /// Whether all of these bytes will be delivered.
    fn has(&self, flow: usize, (seq, end): (Seq, Seq)) -> bool {
        let all = self.waiting.iter().chain(self.lane.iter().map(|(_, bytes)| bytes));
        let ranges: Vec<(Seq, Seq)> =
            all.filter(|(of, _)| *of == flow).filter_map(|(_, range)| *range).collect();
        let inside = |at: Seq| ranges.iter().any(|(from, to)| !at.before(*from) && at.before(*to));
        (0..end - seq).all(|more| inside(seq + more))
    }
}

/// A flow that packets of it are left of.
struct Sending {
    kind: Kind,
    packets: VecDeque<Vec<u8>>,
}

fn flows(rng: &mut Rng) -> Vec<Sending> {
    let flow = |number: u8, rng: &mut Rng| {
        let kind = Kind::ALL[rng.below(Kind::ALL.len() as u64) as usize];
        let ip = if rng.chance(0.5) {
            Ip { source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)), ..Ip::v4() }
        } else {
            Ip { source: IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into())), ..Ip::v6() }
        };
        let count = 1 + rng.below(12) as usize;
        let packets = forwardable::flow(kind, &ip, count, &mut |bound| rng.below(bound));
        Sending { kind, packets: packets.into() }
    };
    (0..10).map(|number| flow(number, rng)).collect()
}

/// Sends what the lane is given, and takes note of where it is.
fn transmit(
    now: Instant,
    transmitter: &mut Transmitter<Whole>,
    (lane, site): (&mut Lane, &mut Site),
    (in_trunk, position): (&mut InTrunk, &mut u64),
) {
    while let Poll::Packet(packet) = transmitter.poll_transmit(now, LANE, &mut 1500, drop) {
        *position += packet.bytes.len() as u64;
        transmitter.handle_transmitted(LANE, *position);
        let (flow, range) = in_trunk.waiting.pop_front().expect("it waited");
        in_trunk.lane.push_back((*position, (flow, range)));
        for (head, packet) in lane.carry(now, &packet) {
            site.handle(head, packet);
        }
    }
}

/// Packets dropped as copies.
fn differences(seed: u64, what: &str, lane: &mut Lane) -> usize {
    let mut rng = Rng::new(seed, "forwarding");
    let mut sending = flows(&mut rng);
    let plan = TrunkPlan::one_lane_per_class(vec![class("all", Vec::new(), 1000)]);
    let (mut transmitter, mut site) = (transmitter(plan), Site::new());
    let mut routed: Vec<Vec<Vec<u8>>> = sending.iter().map(|_| Vec::new()).collect();
    let (mut in_trunk, mut position, mut filtered) = (InTrunk::default(), 0, 0);
    for millis in 0.. {
        let now = Instant::from_millis(millis);
        let left: Vec<usize> = (0..sending.len()).filter(|flow| !sending[*flow].packets.is_empty()).collect();
        let Some(flow) = left.get(rng.below(left.len().max(1) as u64) as usize).copied() else { break };
        // Runs stay together now and then.
        for _ in 0..=rng.below(8) {
            let Some(bytes) = sending[flow].packets.pop_front() else { break };
            let range = sequence(&bytes);
            match offer(&mut transmitter, now, Whole::new(bytes.clone())) {
                Offered::Queued(_) => {
                    in_trunk.waiting.push_back((flow, range));
                    routed[flow].push(bytes);
                }
                Offered::Dropped => {
                    let kind = sending[flow].kind;
                    let range =
                        range.unwrap_or_else(|| panic!("{what}, {seed}: dropped {kind:?} {bytes:02x?}"));
                    assert!(
                        in_trunk.has(flow, range),
                        "{what}, {seed}: {range:?} of {kind:?} is not in transit"
                    );
                    filtered += 1;
                }
                Offered::Refused(_) => panic!("no class has a limit"),
                Offered::QueuedFor(_) => panic!("no class is sent twice"),
            }
        }
        if rng.chance(0.6) {
            transmit(now, &mut transmitter, (&mut *lane, &mut site), (&mut in_trunk, &mut position));
        }
        if rng.chance(0.3) {
            let delivered = position - rng.below(3000).min(position);
            transmitter.handle_delivered(LANE, delivered);
            while in_trunk.lane.front().is_some_and(|(end, _)| *end <= delivered) {
                in_trunk.lane.pop_front();
            }
        }
    }
    let end = Instant::from_millis(1 << 20);
    transmit(end, &mut transmitter, (&mut *lane, &mut site), (&mut in_trunk, &mut position));
    site.finish();
    compare(&format!("{what}, seed {seed}"), &routed, &site.packets);
    filtered
}

fn compare(what: &str, routed: &[Vec<Vec<u8>>], arrived: &[Arrived]) {
    let source = |packet: &[u8]| {
        let headers = Headers::parse(packet, packet.len()).expect("a packet");
        packet[if headers.version == Version::V4 { 15 } else { 23 }]
    };
    assert_eq!(routed.iter().map(Vec::len).sum::<usize>(), arrived.len(), "{what}");
    for (flow, routed) in routed.iter().enumerate() {
        let arrived = arrived.iter().filter(|packet| usize::from(source(&packet.bytes)) == flow);
        for (routed, Arrived { bytes, merged }) in routed.iter().zip(arrived) {
            let same = if *merged {
                without_id(routed.clone()) == without_id(bytes.clone())
            } else {
                routed == bytes
            };
            assert!(same, "{what}, flow {flow}:\n{routed:02x?}\n{bytes:02x?}");
        }
    }
}

#[test]
fn whatever_plain_routing_forwards_each_kind_of_lane_forwards() {
    let mut filtered = 0;
    for seed in 0..400 {
        for (what, mut lane) in Lane::all() {
            filtered += differences(seed, what, &mut lane);
        }
    }
    assert!(filtered > 1000, "copies of bytes in transit are dropped: {filtered}");
}
