//! What the packets of both directions tell about their flows.

use trunkline_packet::{Headers, TcpFlags};
use trunkline_queue::FlowIndex;
use trunkline_units::Instant;

use super::{Packet, Transmitter};
use crate::Behaviour;
use crate::flow::Flow;
use crate::segment::{Sacks, Segment};

impl<P: Packet> Transmitter<P> {
    /// Writes a packet into its flow's record: connections that begin and end, bytes, how the flow behaves.
    #[inline]
    pub(super) fn record(
        &mut self,
        now: Instant,
        index: FlowIndex,
        fresh: bool,
        segment: Option<&Segment>,
        headers: &Headers,
        packet: &P,
    ) -> Behaviour {
        // The header of a super-packet is counted as if it were data: at most 120 bytes over all segments.
        let length = headers.packet_len.div_ceil(packet.segments() as usize).min(usize::from(u16::MAX));
        let mut behaviour = Behaviour { length: length as u16, interactive: false };
        let Some(flow) = self.flows.get_mut(index) else { return behaviour };
        if let Some(segment) = segment {
            flow.near_answer(now);
            if fresh || (segment.flags.contains(TcpFlags::SYN) && flow.is_another(segment.seq)) {
                flow.begin(segment.seq);
            }
            if segment.flags.intersects(TcpFlags::RST) {
                flow.in_transit.clear();
            }
            if segment.flags.intersects(TcpFlags::RST | TcpFlags::FIN) {
                flow.close();
            }
        }
        flow.count_bytes(packet.bytes());
        if self.asks_behaviour {
            behaviour.interactive = flow.behaves_interactively(now, packet.bytes());
        }
        behaviour
    }

    /// Takes note of a packet that came out of the trunk and goes to the local site: what it acknowledges has left
    /// the trunk the other way.
    #[inline]
    pub fn handle_returning(&mut self, now: Instant, headers: &Headers, prefix: &[u8]) {
        let Some(segment) = Segment::parse(headers, prefix) else { return };
        let key = headers.flow().reversed();
        let hash = self.hasher.hash(&key);
        let opens = segment.flags.contains(TcpFlags::SYN);
        let index = if opens {
            // The answer to it will be the flow's first packet in our direction.
            Some(self.flows.touch(hash, &key, now, Flow::default).0)
        } else {
            self.flows.find(hash, &key)
        };
        let Some(flow) = index.and_then(|index| self.flows.get_mut(index)) else { return };
        let acknowledges = segment.flags.contains(TcpFlags::ACK);
        if acknowledges {
            if let Some(rtt) = flow.acknowledged(now, segment.ack)
                && let Some(edge_queue) = flow.edge_queue().and_then(|index| self.edge_queues.get_mut(index))
            {
                edge_queue.rtt.sample(rtt);
            }
            if !flow.in_transit.is_empty() {
                if let Some(edge) = Sacks::parse(headers, prefix).highest {
                    flow.in_transit.release(edge);
                    flow.set_sacks(true);
                }
                flow.in_transit.release(segment.ack);
                let duplicate = segment.ack == flow.returned_ack && !segment.is_sequenced();
                // With SACK a block says so if something is missing: without one, something came twice.
                if duplicate && !flow.sacks() {
                    flow.in_transit.release(segment.ack + 1);
                }
            }
            flow.returned_ack = segment.ack;
        }
        if opens {
            flow.near_probe(now);
            flow.set_sacks(Sacks::parse(headers, prefix).permitted);
        }
        if segment.flags.intersects(TcpFlags::RST) {
            flow.close();
            flow.in_transit.clear();
        }
    }
}
