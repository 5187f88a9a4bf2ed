//! The lanes of the model and those of the gateway are served alike.

use std::convert::Infallible;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_tcp::Preset;
use trunkline_trunk::{Delivery, LaneConnection, LanePump, Served};
use trunkline_units::{Instant, Rate};

use super::*;
use crate::packet::Addressing;
use crate::recorder::{Readings, Recorder};
use crate::{Network, lane_script};
use lane_script::Owner;

/// One end of a lane, in a network in which nothing else happens.
struct Scripted {
    network: Network,
    transmitter: Transmitter<Packet>,
    paths: Paths,
    addressing: Addressing,
}

impl Scripted {
    fn new(quic: Option<Delivery>) -> Self {
        let mut network = Network::new(1);
        let hosts = [network.host("a"), network.host("b")];
        let gateways = [network.gateway("left"), network.gateway("right")];
        let link = LinkSettings::new(Rate::from_mbit(100.0), Duration::from_millis(1));
        network.connect(hosts[0], gateways[0], &link, &link);
        network.connect(gateways[0], gateways[1], &link, &link);
        network.connect(gateways[1], hosts[1], &link, &link);
        let mut plan = lane_script::plan();
        if let Some(delivery) = quic {
            (plan.groups[0].transport, plan.groups[0].delivery) = (Transport::Quic, delivery);
            plan.classes[0].filters_retransmissions = delivery == Delivery::Reliable;
        }
        let sites = hosts.map(|host| vec![host]);
        network.trunk(gateways, TrunkSettings::new(sites, plan.clone(), Preset::Linux6.settings()));
        network.run_for(Duration::from_secs(1));
        let (trunks, net) = network.trunks_and_state();
        // The lane is up; its new pump has seen nothing of that.
        match &mut trunks.halves[0].lanes[0] {
            Carrier::Tcp(tcp) => *tcp.parts(net).0 = LanePump::over_tcp(),
            Carrier::Quic(lane) => *lane.parts(net).0 = LanePump::over_quic(quic.unwrap_or_default()),
        }
        Scripted {
            network,
            transmitter: Transmitter::new(plan, 64, 1),
            paths: Paths::default(),
            addressing: Addressing::new((Version::V4, protocol::UDP), (hosts[0], 1), (hosts[1], 2), 0),
        }
    }
}

impl Owner for Scripted {
    fn configure(&mut self, plan: &TrunkPlan, calls: &mut Vec<String>) {
        let (trunks, net) = self.network.trunks_and_state();
        match &mut trunks.halves[0].lanes[0] {
            Carrier::Tcp(tcp) => configure(tcp.parts(net), plan, calls),
            Carrier::Quic(quic) => configure(quic.parts(net), plan, calls),
        }
    }

    fn offer(&mut self, now: Instant) {
        let packet = Packet::udp(&self.addressing, 1, 100);
        let headers = Headers::parse(packet.header(), packet.length() as usize).expect("a sound packet");
        let _ = self.transmitter.handle_packet(now, &headers, packet, drop);
    }

    fn serve(&mut self, now: Instant, readings: Readings, calls: &mut Vec<String>) -> Served {
        let (trunks, net) = self.network.trunks_and_state();
        net.now = now;
        let edge = LaneEdge { lane: LaneId(0), transmitter: &mut self.transmitter, paths: &mut self.paths };
        match &mut trunks.halves[0].lanes[0] {
            Carrier::Tcp(tcp) => serve(tcp.parts(net), (now, edge), readings, calls),
            Carrier::Quic(quic) => serve(quic.parts(net), (now, edge), readings, calls),
        }
    }

    fn is_dead(&mut self, now: Instant) -> bool {
        match &mut self.network.trunks_and_state().0.halves[0].lanes[0] {
            Carrier::Tcp(tcp) => tcp.is_dead(now),
            Carrier::Quic(quic) => quic.is_dead(now),
        }
    }
}

fn configure<C: LaneConnection>(
    (pump, mut connection): (&mut LanePump, C),
    plan: &TrunkPlan,
    calls: &mut Vec<String>,
) {
    pump.configure(plan, LaneId(0));
    let mut recorder = Recorder { connection: &mut connection, readings: Readings::default(), calls };
    assert!(pump.apply(&mut recorder).is_ok());
}

fn serve<C: LaneConnection<Packet = Packet, Error = Infallible>>(
    (pump, mut connection): (&mut LanePump, C),
    (now, edge): (Instant, LaneEdge<'_, Packet>),
    readings: Readings,
    calls: &mut Vec<String>,
) -> Served {
    let Ok(served) = pump.serve(now, edge, &mut Recorder { connection: &mut connection, readings, calls });
    served
}

#[test]
fn a_lane_is_asked_what_every_owner_of_lanes_is_asked() {
    for quic in [None, Some(Delivery::Datagram), Some(Delivery::Reliable)] {
        lane_script::check(&mut Scripted::new(quic), Instant::from_millis(1001), quic);
    }
}
