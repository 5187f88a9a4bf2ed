//! A source of datagrams.

use std::time::Duration;

use trunkline_packet::protocol;
use trunkline_units::{Instant, Rng};

use super::{Timing, UdpTraffic};
use crate::Packet;
use crate::agenda::Kind;
use crate::packet::Addressing;
use crate::sockets::Socket;
use crate::state::NetworkState;

#[derive(Debug)]
pub(crate) struct DatagramSource {
    pub(crate) traffic: UdpTraffic,
    addressing: Addressing,
    /// Its place among the flows of datagrams.
    pub(crate) flow: u32,
    rng: Rng,
    next: Instant,
    carry: u64,
    /// Of on and off.
    on_until: Instant,
    /// Of a trace: the next datagram and the start of its round.
    place: (usize, Instant),
}

impl DatagramSource {
    pub(crate) fn new(net: &mut NetworkState, traffic: UdpTraffic, rng: Rng) -> Self {
        let local = net.free_port(traffic.from, traffic.to, traffic.port);
        let flow = net.datagrams.len() as u32;
        net.datagrams.push(crate::Datagrams::default());
        net.bind((traffic.to, traffic.port), (traffic.from, local), Socket::Datagrams(flow));
        let (from, to) = ((traffic.from.address(), local), (traffic.to.address(), traffic.port));
        let addressing = Addressing::new(protocol::UDP, from, to, traffic.dscp);
        let next = Instant::ZERO + traffic.start;
        DatagramSource { traffic, addressing, flow, rng, next, carry: 0, on_until: next, place: (0, next) }
    }

    /// Asks for the first call.
    pub(crate) fn begin(&mut self, net: &mut NetworkState, index: u32) {
        match &self.traffic.timing {
            Timing::OnOff { on, .. } => self.on_until = self.next + seconds(on.draw(&mut self.rng)),
            Timing::Trace { datagrams, .. } => match datagrams.first() {
                Some((after, _)) => self.next += *after,
                None => return,
            },
            Timing::Constant(_) | Timing::Poisson(_) => {}
        }
        net.agenda.set(Kind::Source, index, self.next.max(net.now));
    }

    pub(crate) fn run(&mut self, net: &mut NetworkState, index: u32) {
        let now = net.now;
        if self.traffic.stop.is_some_and(|stop| now >= Instant::ZERO + stop) {
            return;
        }
        let data = match &self.traffic.timing {
            Timing::Trace { datagrams, .. } => datagrams[self.place.0].1,
            _ => self.traffic.data,
        };
        let id = net.nodes[self.traffic.from.index()].take_id();
        let packet = Packet::udp(&self.addressing, id, data).sent_at(now);
        let flow = &mut net.datagrams[self.flow as usize];
        flow.sent += 1;
        flow.sent_bytes += u64::from(packet.length());
        net.send(self.traffic.from, packet);
        if let Some(next) = self.after(now) {
            self.next = next;
            net.agenda.set(Kind::Source, index, next);
        }
    }

    fn after(&mut self, now: Instant) -> Option<Instant> {
        let bytes = u64::from(self.traffic.data + UdpTraffic::HEADERS);
        Some(match &self.traffic.timing {
            Timing::Constant(rate) => now + rate.time_for(bytes, &mut self.carry),
            Timing::Poisson(rate) => {
                let mean = bytes as f64 * 8.0 / rate.bits_per_second() as f64;
                now + seconds(trunkline_units::random::exponential(&mut self.rng, mean))
            }
            Timing::OnOff { rate, on, off } => {
                let mut next = now + rate.time_for(bytes, &mut self.carry);
                if next >= self.on_until {
                    next = self.on_until + seconds(off.draw(&mut self.rng));
                    self.on_until = next + seconds(on.draw(&mut self.rng));
                }
                next.max(now)
            }
            Timing::Trace { datagrams, repeat } => {
                self.place.0 += 1;
                if self.place.0 == datagrams.len() {
                    let repeat = (*repeat).filter(|repeat| !repeat.is_zero())?;
                    self.place = (0, self.place.1 + repeat);
                }
                (self.place.1 + datagrams[self.place.0].0).max(now)
            }
        })
    }
}

/// A time that was drawn, within reason.
pub(super) fn seconds(drawn: f64) -> Duration {
    Duration::from_secs_f64(drawn.clamp(0.0, 1e9))
}
