//! A source of datagrams.

use trunkline_packet::{Version, protocol};
use trunkline_units::{Instant, Rng};
use trunkline_workload::{Datagrams, Schedule};

use super::{UdpTraffic, headers};
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
    schedule: Schedule,
}

impl DatagramSource {
    pub(crate) fn new(net: &mut NetworkState, version: Version, traffic: UdpTraffic, rng: Rng) -> Self {
        let local = net.free_port(traffic.from, traffic.to, traffic.port);
        let flow = net.datagrams.len() as u32;
        net.datagrams.push(Datagrams::default());
        net.bind((traffic.to, traffic.port), (traffic.from, local), Socket::Datagrams(flow));
        let (from, to) = ((traffic.from, local), (traffic.to, traffic.port));
        let addressing = Addressing::new((version, protocol::UDP), from, to, traffic.dscp);
        let at = |time| Instant::ZERO + time;
        let times = (at(traffic.start), traffic.stop.map(at));
        let sizes = (traffic.data, headers(version));
        let schedule = Schedule::new(traffic.timing.clone(), sizes, times, rng);
        DatagramSource { traffic, addressing, flow, schedule }
    }

    pub(crate) const fn version(&self) -> Version {
        self.addressing.version
    }

    /// Asks for the first call.
    pub(crate) fn begin(&mut self, net: &mut NetworkState, index: u32) {
        self.schedule.begin(net.now);
        self.ask(net, index);
    }

    pub(crate) fn run(&mut self, net: &mut NetworkState, index: u32) {
        let Some(datagram) = self.schedule.poll_datagram(net.now) else { return };
        let id = net.nodes[self.traffic.from.index()].take_id();
        let packet = Packet::udp(&self.addressing, id, datagram.data).sent_at(net.now);
        net.datagrams[self.flow as usize].handle_sent(packet.length().into());
        net.send(self.traffic.from, packet);
        self.ask(net, index);
    }

    fn ask(&self, net: &mut NetworkState, index: u32) {
        if let Some(at) = self.schedule.poll_time() {
            net.agenda.set(Kind::Source, index, at);
        }
    }
}
