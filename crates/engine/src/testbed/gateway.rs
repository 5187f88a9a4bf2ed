//! The gateways of a scenario as processes: their files, and their counters.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use trunkline_schema::{Classes, CongestionControlName, Encryption, LanesSpec, quantity};
use trunkline_status::{Class, EdgePacing, Lane as LaneStatus, LaneState, Peer as PeerStatus, Status};
use trunkline_testbed::clock;
use trunkline_testbed::gateway::{Directory, GatewayError, GatewayProcess, Keys};
use trunkline_testbed::namespace::Host;
use trunkline_testbed::network::{Detour, device};
use trunkline_trunk::{LaneSnapshot, PathSettings};
use trunkline_units::Rate;

use super::Misfit;
use super::build::{address, addresses, prefix};
use super::paths::detours;
use crate::catalogue::measured::{ClassState, Lane, LaneCounts, QueueReading};
use crate::measure::{ClassCounters, TrunkCounters};
use crate::scenario::{Family, Scenario, Trunk};
use crate::site::SiteTrunks;

const PORT: u16 = 4600;
/// How long lanes may take to come up after a start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A gateway's file.
#[derive(Debug, Serialize)]
struct Site {
    name: String,
    private_key_file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption: Option<Encryption>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listen: Vec<String>,
    classes: Classes,
    lanes: LanesSpec,
    tun: Tun,
    control: Control,
    peers: Vec<Peer>,
}

#[derive(Debug, Serialize)]
struct Tun {
    name: &'static str,
}

#[derive(Debug, Serialize)]
struct Control {
    socket: PathBuf,
}

#[derive(Debug, Serialize)]
struct Peer {
    name: String,
    public_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    routes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<quantity::Rate>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<SitePath>,
}

/// A path to a peer; without address and interface at the site that is dialled.
#[derive(Debug, Serialize)]
struct SitePath {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    cost: u8,
}

/// The gateways of a scenario that have a trunk.
#[derive(Debug)]
pub(super) struct Gateways {
    /// By node; `None` of a node without a trunk.
    processes: Vec<Option<GatewayProcess>>,
    // Last, so that the processes end before their files go.
    _directory: Directory,
}

/// Whether the gateways of this machine can be these trunks.
pub(super) fn check(scenario: &Scenario) -> Result<(), Misfit> {
    for (number, trunk) in scenario.trunks.iter().enumerate() {
        let part = format!("trunks.{}", trunk.name);
        let before = &scenario.trunks[..number];
        let same = |other: &&Trunk| trunk.gateways.iter().all(|gateway| other.gateways.contains(gateway));
        if let Some(other) = before.iter().find(same) {
            let problem = format!(
                "joins the same gateways as {}; allowed on this engine: one trunk between two gateways (a peer has one key)",
                other.name
            );
            return Err(Misfit::new(part, problem));
        }
        let shared = |other: &Trunk| trunk.gateways.iter().any(|gateway| other.gateways.contains(gateway));
        let differs = |other: &Trunk| other.site != trunk.site;
        let other = before.iter().find(|other| shared(other) && differs(other));
        if let Some(other) = other {
            let problem = format!(
                "has other classes, lanes or encryption than {}, with which it shares a gateway; allowed on this engine: the same (a gateway has one list for all its peers)",
                other.name
            );
            return Err(Misfit::new(part, problem));
        }
    }
    Ok(())
}

impl Gateways {
    /// Starts the gateways of all trunks and waits until their lanes are up. `congestion_control` is that of each trunk's lanes, unless
    /// a class or `lanes` names another.
    pub(super) fn start(
        scenario: &Scenario,
        hosts: &[Arc<Host>],
        program: &Path,
        congestion_control: &[Option<String>],
        stop: &AtomicBool,
    ) -> Result<Self, GatewayError> {
        let directory = Directory::new()?;
        let mut keys = Vec::new();
        for (node, settings) in scenario.nodes.iter().enumerate() {
            let has_trunk = scenario.trunks.iter().any(|trunk| trunk.gateways.contains(&node));
            let own = has_trunk.then(|| Keys::make(program, &directory, &format!("{}.key", settings.name)));
            keys.push(own.transpose()?);
        }
        let mut processes = Vec::new();
        let detours = detours(scenario);
        for (node, settings) in scenario.nodes.iter().enumerate() {
            let Some(own) = &keys[node] else {
                processes.push(None);
                continue;
            };
            let mut site = Site::new(&settings.name, own, &directory);
            for (number, trunk) in scenario.trunks.iter().enumerate() {
                let Some(side) = trunk.gateways.iter().position(|gateway| *gateway == node) else { continue };
                let far = trunk.gateways[1 - side];
                let public_key = keys[far].as_ref().map_or_else(String::new, |keys| keys.public.clone());
                site.add(scenario, (trunk, side), public_key, congestion_control[number].as_deref());
                if let Some(peer) = site.peers.last_mut() {
                    peer.paths = site_paths(trunk, side, &detours[number]);
                }
            }
            let text = toml::to_string(&site).unwrap_or_default();
            let host = Arc::clone(&hosts[node]);
            let mut process = GatewayProcess::new(&settings.name, host, program, &directory, &text)?;
            process.start()?;
            processes.push(Some(process));
        }
        let mut gateways = Self { processes, _directory: directory };
        let end = clock::now() + START_LIMIT;
        for process in gateways.processes.iter_mut().flatten() {
            process.wait_until_up(end, || stop.load(Ordering::Relaxed))?;
        }
        Ok(gateways)
    }

    /// An error if one that should run has ended.
    pub(super) fn check_alive(&mut self) -> Result<(), GatewayError> {
        self.processes.iter_mut().flatten().try_for_each(GatewayProcess::check_alive)
    }

    /// What the gateway at a node says of itself; nothing of a node without a trunk.
    pub(super) fn status(&self, node: usize) -> Result<Status, GatewayError> {
        let process = self.processes[node].as_ref();
        process.map_or_else(|| Ok(Status::default()), GatewayProcess::status)
    }

    /// Ends all of them in order.
    pub(super) fn end(&mut self) -> Result<(), GatewayError> {
        self.processes.iter().flatten().for_each(GatewayProcess::ask_to_end);
        self.processes.iter_mut().flatten().try_for_each(GatewayProcess::end)
    }
}

impl Site {
    fn new(name: &str, keys: &Keys, directory: &Directory) -> Self {
        Site {
            name: name.to_owned(),
            private_key_file: keys.file.clone(),
            encryption: None,
            listen: Vec::new(),
            classes: Classes::default(),
            lanes: LanesSpec::default(),
            tun: Tun { name: "trunk" },
            control: Control { socket: GatewayProcess::socket(directory, name) },
            peers: Vec::new(),
        }
    }

    /// Adds one side of a trunk: the first gateway dials, the second listens. A trunk's name is its peer's.
    fn add(
        &mut self,
        scenario: &Scenario,
        (trunk, side): (&Trunk, usize),
        public_key: String,
        congestion_control: Option<&str>,
    ) {
        let of_family = |family| {
            let mut site: SiteTrunks = trunk.site.clone();
            site.name_hosts(|_, _, host| {
                let node = scenario.nodes.iter().position(|node| node.name == host);
                node.map_or_else(String::new, |node| prefix(address(node, family)))
            });
            site
        };
        let mut own = of_family(Family::Ipv4);
        if scenario.sends(Family::Ipv6) {
            own.add_rules(&of_family(Family::Ipv6));
        }
        if own.lanes.congestion_control.is_none() {
            own.lanes.congestion_control =
                congestion_control.map(|name| CongestionControlName(name.to_owned()));
        }
        (self.encryption, self.classes, self.lanes) = (own.encryption, own.classes, own.lanes);
        let socket = SocketAddr::new(address(trunk.gateways[1], trunk.family), PORT).to_string();
        if side == 1 && self.listen.is_empty() {
            self.listen.push(socket.clone());
        }
        self.peers.push(Peer {
            name: trunk.name.clone(),
            public_key,
            endpoint: (side == 0).then_some(socket),
            routes: trunk.sites[1 - side]
                .iter()
                .flat_map(|host| addresses(scenario, *host))
                .map(prefix)
                .collect(),
            reserved: trunk.plan.reserved.map(quantity::Rate),
            paths: Vec::new(),
        });
    }
}

/// The paths of a trunk, as the file of one of its gateways has them.
fn site_paths(trunk: &Trunk, side: usize, detours: &[Detour]) -> Vec<SitePath> {
    let path = |(settings, detour): (&PathSettings, &Detour)| SitePath {
        name: settings.name.to_string(),
        address: (side == 0).then_some(detour.addresses[0]),
        interface: detour.links[0].filter(|_| side == 0).map(device),
        cost: settings.cost,
    };
    trunk.plan.paths.iter().zip(detours).map(path).collect()
}

/// The peer at the other end of a trunk.
pub(super) fn peer<'s>(status: &'s Status, trunk: &str) -> Result<&'s PeerStatus, GatewayError> {
    status.peers.iter().find(|peer| peer.name == trunk).ok_or_else(|| GatewayError::Silent {
        gateway: status.name.clone(),
        reason: format!("its status has no peer {trunk}"),
    })
}

/// All counters of one side of a trunk. `has_peaks` says whether the daemon has counted for no longer than the laboratory does.
pub(super) fn trunk_counters(peer: &PeerStatus, has_peaks: bool) -> TrunkCounters {
    let queue =
        |class: &Class| QueueReading { stats: class.queue(), occupancy: Some(class.occupancy()), has_peaks };
    TrunkCounters {
        classes: peer
            .classes
            .iter()
            .map(|class| ClassCounters { queue: queue(class), filtered: class.filtered })
            .collect(),
        lanes: peer.lanes.iter().map(lane_counts).collect(),
        delivered_bytes: peer.received.bytes,
        refused: peer.classes.iter().map(|class| class.refused).sum(),
    }
}

pub(super) fn class_state(class: &Class) -> ClassState {
    ClassState {
        packets: class.backlog_packets,
        bytes: class.backlog_bytes,
        drops: class.dropped(),
        filtered: class.filtered,
    }
}

/// Of a lane that is up.
pub(super) fn lane(lane: &LaneStatus) -> Option<Lane> {
    let time = |micros: Option<u32>| micros.map(|micros| Duration::from_micros(micros.into()));
    (lane.state == LaneState::Up).then(|| Lane {
        snapshot: LaneSnapshot {
            unsent: lane.unsent_bytes as usize,
            unacknowledged: lane.unacked_bytes as usize,
            srtt: time(lane.rtt_us),
            min_rtt: time(lane.min_rtt_us),
            window: lane.cwnd as usize * lane.mss as usize,
            delivery_rate: Some(Rate::from_bits_per_second(lane.delivery_rate)),
            ..LaneSnapshot::default()
        },
        max_pacing_rate: lane
            .pacing_rate
            .filter(|_| lane.edge_pacing == EdgePacing::Held)
            .map(Rate::from_bits_per_second),
    })
}

fn lane_counts(lane: &LaneStatus) -> LaneCounts {
    // Of a lane of datagrams the gateway counts what was lost.
    let repairs = lane.delivery.as_deref() != Some("datagram");
    LaneCounts {
        retransmitted: Some(if repairs { lane.retransmits } else { 0 }),
        timeouts: None,
        rtt_samples: None,
        rtt_ns: None,
        bytes: Some(lane.bytes_sent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_of_a_gateway_has_all_its_trunks_and_one_that_is_missing_is_an_error() {
        let of = |name: &str| PeerStatus { name: name.to_owned(), ..PeerStatus::default() };
        let status =
            Status { name: "a".to_owned(), peers: vec![of("north"), of("south")], ..Status::default() };
        assert_eq!(peer(&status, "south").map(|peer| peer.name.as_str()).ok(), Some("south"));
        let error = peer(&status, "west").expect_err("there is none").to_string();
        assert!(error.contains("gateway a") && error.contains("no peer west"), "{error}");
    }
}
