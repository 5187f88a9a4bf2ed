//! Flows of every habit over one lane: what comes out is what went in.

use trunkline_packet::TcpFlags;
use trunkline_packet::build::{self, Ip, Tcp};
use trunkline_units::Rng;

use super::super::Whole;
use super::{Lane, Packet, complete, incompressible, open, sack, stamps};

/// A flow as hosts make them, with habits of its own.
struct Flow {
    ip: Ip,
    tcp: bool,
    ports: (u16, u16),
    seq: u32,
    ack: u32,
    stamps: Option<(u32, u32)>,
    id_habit: u64,
    open: bool,
    window: u16,
}

impl Flow {
    fn new(rng: &mut Rng) -> Self {
        let base = if rng.chance(0.5) { Ip::v4() } else { Ip::v6() };
        // Half of all numbers start just below the wrap.
        let number = |rng: &mut Rng| {
            if rng.chance(0.5) { u32::MAX - rng.below(20_000) as u32 } else { rng.next_u64() as u32 }
        };
        Flow {
            ip: Ip { id: number(rng) as u16, dont_fragment: rng.chance(0.7), ..base },
            tcp: rng.chance(0.7),
            ports: (rng.below(65_536) as u16, rng.below(1024) as u16),
            seq: number(rng),
            ack: number(rng),
            stamps: rng.chance(0.6).then(|| (number(rng), number(rng))),
            id_habit: rng.below(4),
            open: rng.chance(0.5),
            window: number(rng) as u16,
        }
    }

    fn next(&mut self, rng: &mut Rng) -> Packet {
        self.ip.id = match self.id_habit {
            0 => 0,
            1 => rng.next_u64() as u16,
            2 => self.ip.id.wrapping_add(rng.below(9) as u16),
            _ => self.ip.id.wrapping_add(1),
        };
        if rng.chance(0.03) {
            self.ip.hop_limit = rng.below(256) as u8;
        }
        if rng.chance(0.03) {
            self.ip.traffic_class = rng.below(256) as u8;
        }
        if rng.chance(0.02) {
            self.open = !self.open;
        }
        let payload = match rng.below(3) {
            0 => vec![],
            1 => vec![7; rng.below(30) as usize],
            _ => vec![7; rng.below(1460) as usize],
        };
        if self.tcp { self.segment(rng, &payload) } else { self.datagram(rng, &payload) }
    }

    fn datagram(&mut self, rng: &mut Rng, payload: &[u8]) -> Packet {
        if self.open {
            return build::udp_offloaded(&self.ip, self.ports, payload, 60_000);
        }
        let mut packet = build::udp(&self.ip, self.ports, payload);
        if rng.chance(0.2) {
            let at = packet.len() - payload.len() - 2;
            packet[at..at + 2].fill(0);
        }
        complete(packet)
    }

    fn segment(&mut self, rng: &mut Rng, payload: &[u8]) -> Packet {
        if rng.chance(0.02) {
            self.seq = rng.next_u64() as u32;
        }
        if rng.chance(0.05) {
            self.seq = self.seq.wrapping_sub(rng.below(5000) as u32);
        }
        if rng.chance(0.5) {
            self.ack = self.ack.wrapping_add(rng.below(70_000) as u32);
        }
        if rng.chance(0.2) {
            self.window = self.window.wrapping_add(rng.below(200) as u16).wrapping_sub(100);
        }
        let mut options = match &mut self.stamps {
            Some((value, echo)) => {
                *value = value.wrapping_add(rng.below(20) as u32);
                *echo = echo.wrapping_add(rng.below(300) as u32);
                stamps(*value, *echo)
            }
            None => vec![],
        };
        if rng.chance(0.15) {
            let count = 1 + rng.below(if options.is_empty() { 4 } else { 3 });
            let edge = |rng: &mut Rng| self.ack.wrapping_add(rng.below(100_000) as u32).wrapping_sub(3000);
            let blocks: Vec<_> = (0..count).map(|_| (edge(rng), edge(rng))).collect();
            options.extend(sack(&blocks));
        }
        let mut flags = TcpFlags::ACK;
        for (flag, chance) in [
            (TcpFlags::PSH, 0.3),
            (TcpFlags::ECE, 0.05),
            (TcpFlags::CWR, 0.02),
            (TcpFlags::URG, 0.02),
            (TcpFlags::SYN, 0.005),
            (TcpFlags::FIN, 0.005),
        ] {
            if rng.chance(chance) {
                flags = flags | flag;
            }
        }
        let Flow { ports, seq, ack, window, .. } = *self;
        let tcp = Tcp { ports, seq, ack, flags, window, options: &options };
        self.seq = self.seq.wrapping_add(payload.len() as u32);
        let (mut packet, offload) = if self.open {
            open(&self.ip, &tcp, payload)
        } else {
            complete(build::tcp(&self.ip, &tcp, payload))
        };
        let transport = packet.len() - payload.len() - options.len() - 20;
        if flags.contains(TcpFlags::URG) {
            packet[transport + 19] = rng.below(256) as u8;
        }
        if rng.chance(0.01) {
            packet[transport + 16] ^= 1;
        }
        (packet, offload)
    }
}

/// Sequences of packets of many flows, of every habit, with what cannot be compressed in between.
#[test]
fn whatever_flows_do_every_packet_is_restored_bit_for_bit() {
    let odd = incompressible();
    let (mut compressed, mut packets) = (0, 0);
    for (seed, flows) in (0..60).zip([1, 3, 20, 600].into_iter().cycle()) {
        let mut rng = Rng::new(seed, "flows");
        let mut flows: Vec<Flow> = (0..flows).map(|_| Flow::new(&mut rng)).collect();
        let mut lane = Lane::new();
        for _ in 0..3000 {
            packets += 1;
            if rng.chance(0.02) {
                lane.send(&odd[rng.below(odd.len() as u64) as usize].1);
                continue;
            }
            let at = rng.below(flows.len() as u64) as usize;
            let mut packet = flows[at].next(&mut rng);
            if rng.chance(0.01) && packet.0[0] >> 4 == 6 {
                packet.0[3] = rng.below(4) as u8;
            }
            compressed += u64::from(lane.send(&packet).compressed);
        }
        let (sent, received) = (lane.compressor.stats(), lane.decompressor.stats());
        assert_eq!(sent.compressed, received.restored);
        assert_eq!(sent.whole(Whole::Context), received.contexts);
        assert!(sent.replaced <= received.contexts);
        assert_eq!(sent.compressed + sent.uncompressed() + sent.whole(Whole::SuperPacket), 3000);
    }
    // With 600 flows for 256 contexts most packets find theirs gone; the rest is nearly all compressed.
    let share = compressed as f64 / f64::from(packets);
    assert!((0.7..0.85).contains(&share), "{share}");
}
