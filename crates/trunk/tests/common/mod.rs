//! Packets and plans for the tests of the transmitter.

use trunkline_packet::{Headers, Offload, TcpFlags, build};
use trunkline_queue::{Item, Limits, Settings};
use trunkline_trunk::{ClassSettings, LaneId, Offered, Packet, Poll, Protocol, Rule, Transmitter, TrunkPlan};
use trunkline_units::Instant;

/// A packet in one vector, as a test or a simulator holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    pub(crate) offload: Offload,
}

impl Whole {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Whole { bytes, offload: Offload::None }
    }

    pub(crate) fn headers(&self) -> Headers {
        Headers::parse(&self.bytes, self.bytes.len()).expect("a built packet is sound")
    }
}

impl Item for Whole {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn segments(&self) -> u32 {
        self.offload.segments(self.bytes.len()).max(1)
    }

    fn mark(&mut self) {
        self.bytes[1] |= 3;
    }

    fn trim(&mut self, keep: u32) {
        let Offload::Segments(segmentation) = self.offload else { panic!("only super-packets are trimmed") };
        let headers = self.headers();
        let trimmed = trunkline_packet::trim(&mut self.bytes, &headers, segmentation, keep);
        self.bytes.truncate(trimmed.len);
        self.offload = trimmed.offload;
    }
}

impl Packet for Whole {
    fn prefix(&self) -> &[u8] {
        &self.bytes
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

pub(crate) fn udp(source_port: u16, destination_port: u16, payload: usize) -> Whole {
    Whole::new(build::udp(&build::Ip::v4(), (source_port, destination_port), &vec![7; payload]))
}

/// A data segment of the flow of `port`.
pub(crate) fn segment(port: u16, seq: u32, payload: usize) -> Whole {
    let tcp = build::Tcp { ports: (port, 80), seq, ack: 1, flags: TcpFlags::ACK, ..build::Tcp::default() };
    Whole::new(build::tcp(&build::Ip::v4(), &tcp, &vec![0; payload]))
}

pub(crate) fn super_packet(segments: usize) -> Whole {
    let payload: Vec<u8> = (0..segments * 1000).map(|byte| byte as u8).collect();
    let tcp = build::Tcp { flags: TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN, ..build::Tcp::default() };
    let (bytes, offload) = build::tcp_offloaded(&build::Ip::v4(), &tcp, &payload, 1000);
    Whole { bytes, offload }
}

pub(crate) fn tail_drop(segments: u32) -> Settings {
    Settings::TailDrop(Limits { segments, bytes: 1 << 24 })
}

pub(crate) fn class(name: &str, rules: Vec<Rule>, segments: u32) -> ClassSettings {
    ClassSettings::new(name, rules, tail_drop(segments), 0)
}

pub(crate) fn protocol(number: u8) -> Rule {
    Rule { protocol: Some(Protocol::Number(number)), ..Rule::default() }
}

pub(crate) fn transmitter(plan: TrunkPlan) -> Transmitter<Whole> {
    Transmitter::new(plan, 1024, 1)
}

/// Offers a packet and forgets what is dropped.
pub(crate) fn offer(transmitter: &mut Transmitter<Whole>, now: Instant, packet: Whole) -> Offered<Whole> {
    transmitter.handle_packet(now, &packet.headers(), packet, drop)
}

/// The next packet for a lane with plenty of room.
pub(crate) fn next(transmitter: &mut Transmitter<Whole>, now: Instant, lane: LaneId) -> Option<Whole> {
    match transmitter.poll_transmit(now, lane, &mut (1 << 20), drop) {
        Poll::Packet(packet) | Poll::Labelled(_, packet) => Some(packet),
        Poll::Wait(_) | Poll::Nothing => None,
    }
}
