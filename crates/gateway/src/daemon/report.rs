//! Builds the [`Status`] of the daemon.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use trunkline_packet::protocol;
use trunkline_proxy::ProxyThread;
use trunkline_queue::Histogram;
use trunkline_status::{
    Callers, Class, ClassHandover, EdgePacing, FLOWS, Flow, FlowTable, Lane, LaneState, LogStatus, Path,
    PathShare, Peer, Received, Sojourn, Status, Tun, Uplink, UplinkState,
};
use trunkline_trunk::path::GroupStatus;
use trunkline_trunk::{
    ClassReport, ClassSettings, LaneGroup, PathId, PathMode, PathSettings, PathStatus, Signal,
};
use trunkline_units::{Instant, Rate};

use super::Daemon;
use crate::clock::now;
use crate::config::PeerConfig;
use crate::keys::PublicKey;
use crate::lane_rx::LaneRxStats;
use crate::life::{LaneKey, PathKey, Serial, State};
use crate::rx::{RxPeerReport, RxReport};
use crate::tx::{LaneTxReport, PeerTxReport, TxReport, WatchedPath};

/// The reports of the workers, indexed by peer and by lane, so that the cost stays linear with many peers.
struct Reports<'a> {
    sent: BTreeMap<PublicKey, Vec<&'a PeerTxReport>>,
    received: BTreeMap<PublicKey, Vec<&'a RxPeerReport>>,
    lanes_sent: BTreeMap<Serial, &'a LaneTxReport>,
    lanes_received: BTreeMap<Serial, &'a LaneRxStats>,
}

impl<'a> Reports<'a> {
    fn new(tx: &'a [TxReport], rx: &'a [RxReport]) -> Self {
        let (mut sent, mut received): (BTreeMap<_, Vec<_>>, BTreeMap<_, Vec<_>>) = Default::default();
        for peer in tx.iter().flat_map(|report| &report.peers) {
            sent.entry(peer.key).or_default().push(peer);
        }
        for peer in rx.iter().flat_map(|report| &report.peers) {
            received.entry(peer.key).or_default().push(peer);
        }
        Reports {
            sent,
            received,
            lanes_sent: tx.iter().flat_map(|report| &report.lanes).map(|lane| (lane.0, lane)).collect(),
            lanes_received: rx
                .iter()
                .flat_map(|report| &report.lanes)
                .map(|(serial, stats)| (*serial, stats))
                .collect(),
        }
    }
}

impl Daemon {
    /// The status, from the reports of the workers; with the busiest flows on request.
    pub(super) fn status(&mut self, with_flows: bool) -> Status {
        let (tx, rx) = self.workers.reports(if with_flows { FLOWS } else { 0 });
        let losses = self.log.losses();
        Status {
            name: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: now().saturating_since(self.started).as_secs_f64(),
            public_key: self.identity.public().to_string(),
            tun: self.tun_status(&tx, &rx),
            peers: self.peer_status(&tx, &rx),
            callers: Callers {
                half_open: self.half_open.len() as u64,
                rejected: self.rejections.list(now()),
                ..self.callers.clone()
            },
            unresponsive_workers: self.workers.unresponsive(),
            log: LogStatus { lost_queue_full: losses.queue_full, lost_failed: losses.failed },
            proxies: self.proxies.as_ref().map(ProxyThread::status),
        }
    }

    fn tun_status(&mut self, tx: &[TxReport], rx: &[RxReport]) -> Tun {
        let granted =
            [("checksum", self.offloads.checksum), ("tcp", self.offloads.tcp), ("udp", self.offloads.udp)];
        let mut tun = Tun {
            name: self.config.tun.name.clone(),
            mtu: self.config.tun.mtu,
            queues: self.config.tun.queues,
            offloads: granted.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()).collect(),
            dropped_device_queue: self.device.queue_drops(),
            ..Tun::default()
        };
        for report in tx {
            tun.super_read += report.device.packets;
            tun.read_bytes += report.device.bytes;
            tun.dropped_no_route += report.device.no_route;
            tun.dropped_multicast += report.device.multicast;
            tun.dropped_malformed += report.device.malformed;
            tun.dropped_too_long += report.device.too_long;
            tun.dropped_no_memory += report.device.no_memory;
            tun.pool_bytes += report.pool_bytes as u64;
        }
        for report in rx {
            tun.super_written += report.device.writes;
            tun.coalesced += report.device.coalesced;
            tun.write_refused += report.device.refused;
        }
        tun
    }

    fn peer_status(&self, tx: &[TxReport], rx: &[RxReport]) -> Vec<Peer> {
        let reports = Reports::new(tx, rx);
        let at = now();
        let uptime_s = at.saturating_since(self.started).as_secs_f64().max(f64::MIN_POSITIVE);
        let mut peers = Vec::new();
        for config in &self.config.peers {
            let (mut total, mut waits) = (Received::default(), Histogram::default());
            for RxPeerReport { received: stats, ordered, .. } in
                reports.received.get(&config.public_key).into_iter().flatten().copied()
            {
                total.packets += stats.segments;
                total.bytes += stats.bytes;
                total.refused_malformed += stats.malformed;
                total.refused_bad_offload += stats.bad_offload;
                total.refused_forged_source += stats.forged_source;
                total.duplicates += stats.duplicates + ordered.duplicates;
                waits.merge(&ordered.waits);
                total.late += ordered.late;
                total.gaps_given_up += ordered.given_up;
            }
            total.resequencing = Sojourn::from(&waits);
            let sent = reports.sent.get(&config.public_key).map_or(&[][..], Vec::as_slice);
            let mut flow_table = FlowTable::default();
            for (known, limit, forgotten) in sent.iter().map(|peer| peer.flow_table) {
                flow_table.known += known as u64;
                flow_table.limit += limit as u64;
                flow_table.forgotten += forgotten;
            }
            let paths = self.paths_to(config);
            let name = |path: u8| paths.get(usize::from(path)).map_or("", |path| &path.name).to_owned();
            let classes = self.config.trunk.classes.iter().enumerate().map(|(index, class_config)| {
                let shards: Vec<&ClassReport> =
                    sent.iter().filter_map(|peer| peer.classes.get(index)).collect();
                let mut class = self.class_status(at, class_config, &shards);
                class.mean_backlog_packets = class.backlog_packet_seconds / uptime_s;
                class.handover = class_handover(sent, &class.name, name);
                class
            });
            let mut lanes: Vec<_> = self.life.lanes_of(config.public_key).collect();
            // In the order of the configuration file.
            let groups = &self.config.trunk.groups;
            lanes.sort_by_key(|(key, _)| groups.iter().position(|group| *group.name == *key.lane_group));
            let lanes = lanes.into_iter().map(|(key, lane)| Lane {
                path: name(key.path),
                ..self.lane_status(key, lane, config.endpoint_on(key.path).is_some(), &reports)
            });
            let known_paths = path_status(sent, &self.config.trunk.groups, name);
            let lanes = lanes.map(|lane| {
                let on = |path: &&Path| (path.dscp, &path.path) == (lane.dscp, &lane.path);
                let loss = known_paths.iter().find(on).and_then(|path| path.loss);
                let bound = loss.filter(|loss| *loss > 0.0).and_then(|loss| lane.bound_by(loss));
                Lane { loss_bound: bound.map(|rate| rate as u64), ..lane }
            });
            peers.push(Peer {
                name: config.name.clone(),
                public_key: config.public_key.to_string(),
                endpoint: config.endpoint.as_ref().map(ToString::to_string),
                routes: config.routes.iter().map(ToString::to_string).collect(),
                encryption: config.encryption.as_str().to_owned(),
                received: total,
                classes: classes.collect(),
                flow_table,
                lanes: lanes.collect(),
                paths: known_paths,
                uplinks: self.uplinks(config, &paths, &reports),
                flows: self.flow_status(sent),
            });
        }
        peers
    }

    /// The status of the paths to one peer, if there are several, or one with a quota.
    fn uplinks(&self, peer: &PeerConfig, paths: &[PathSettings], reports: &Reports<'_>) -> Vec<Uplink> {
        if paths.len() < 2 && peer.paths.iter().all(|path| path.quota.is_none()) {
            return Vec::new();
        }
        let shards = reports.sent.get(&peer.public_key).map_or(&[][..], Vec::as_slice);
        let rtt_us = |lane: &crate::life::Lane| {
            let State::Up(up) = &lane.state else { return None };
            let (_, _, kernel) = reports.lanes_sent.get(&up.serial)?;
            kernel.as_ref()?.0.fresh_rtt_us()
        };
        let uplink = |(number, settings): (u8, &PathSettings)| {
            let key = PathKey { peer: peer.public_key, path: number };
            let is_up = |lane: &crate::life::Lane| matches!(lane.state, State::Up(_));
            let lanes = self.life.lanes_on(key).count() as u32;
            let lanes_up = self.life.lanes_on(key).filter(|(_, lane)| is_up(lane)).count() as u32;
            let watched: Vec<&WatchedPath> =
                shards.iter().filter_map(|shard| shard.watched.get(usize::from(number))).collect();
            let state = match lanes_up {
                0 => UplinkState::Down,
                _ if watched.iter().any(|path| path.is_silent) => UplinkState::Silent,
                _ => UplinkState::Up,
            };
            let via = self.own_via_of(&key).to_string();
            Uplink {
                name: settings.name.to_string(),
                endpoint: peer.endpoint_on(number).map(ToString::to_string),
                via: (!via.is_empty()).then_some(via),
                cost: settings.cost,
                quota: self.quota_status(peer, number),
                state,
                lanes,
                lanes_up,
                flows: watched.iter().map(|path| path.flows).sum(),
                rtt_us: self.life.lanes_on(key).filter_map(|(_, lane)| rtt_us(lane)).min().map(u64::from),
                silences: watched.iter().map(|path| path.silences).max().unwrap_or_default(),
            }
        };
        (0..).zip(paths).map(uplink).collect()
    }

    /// The status of one class to one peer, summed over the shards.
    fn class_status(&self, at: Instant, config: &ClassSettings, shards: &[&ClassReport]) -> Class {
        let mut class = Class {
            name: config.name.to_string(),
            lane_group: self.config.lane_group(config).name.to_string(),
            discipline: config.queue.description().word.to_owned(),
            weight: config.share.weight,
            guarantee: config.share.guarantee.map(Rate::bits_per_second),
            ceiling: config.share.ceiling.map(Rate::bits_per_second),
            ..Class::default()
        };
        let mut sojourn = Histogram::default();
        for report in shards {
            class.add(at, &report.queue);
            class.filtered += report.stats.filtered;
            class.filtered_bytes += report.stats.filtered_bytes;
            class.refused += report.stats.refused;
            class.copies += report.stats.copies;
            class.resent += report.stats.resent;
            class.lanes = report.lanes.len() as u64;
            class.lanes_in_use = class.lanes_in_use.max(report.lanes_in_use as u64);
            class.admission_fallback += report.stats.moved;
            sojourn.merge(&report.queue.sojourn);
            for lane in &report.lanes {
                class.capacity_packets += u64::from(lane.control.capacity_segments);
                class.capacity_bytes += lane.control.capacity_bytes;
                class.flows += u64::from(lane.flows);
                largest(&mut class.rtt_up_us, lane.rtt_up.map(|time| time.as_micros() as u64));
                largest(&mut class.k_packets, lane.control.holdoff_segments.map(u64::from));
                class.drop_probability =
                    class.drop_probability.into_iter().chain(lane.control.drop_probability).reduce(f64::max);
                let rate = lane.conditions.bandwidth.bits_per_second();
                if rate > 0 {
                    *class.bandwidth.get_or_insert_default() += rate;
                    *class.window_bytes.get_or_insert_default() += lane.conditions.window_bytes;
                }
            }
        }
        class.sojourn = Sojourn::from(&sojourn);
        class
    }

    /// The busiest flows of a peer over all shards.
    fn flow_status(&self, shards: &[&PeerTxReport]) -> Vec<Flow> {
        let mut flows: Vec<Flow> = shards
            .iter()
            .flat_map(|peer| &peer.flows)
            .map(|flow| {
                let end = |address: IpAddr, port: u16| match flow.key.protocol {
                    protocol::TCP | protocol::UDP => SocketAddr::new(address, port).to_string(),
                    _ => address.to_string(),
                };
                Flow {
                    class: self
                        .config
                        .trunk
                        .classes
                        .get(flow.class.index())
                        .map_or_else(String::new, |class| class.name.to_string()),
                    protocol: match flow.key.protocol {
                        protocol::TCP => "tcp".to_owned(),
                        protocol::UDP => "udp".to_owned(),
                        protocol::ICMP | protocol::ICMPV6 => "icmp".to_owned(),
                        other => other.to_string(),
                    },
                    source: end(flow.key.source, flow.key.ports.0),
                    destination: end(flow.key.destination, flow.key.ports.1),
                    bytes: flow.bytes,
                    filtered: flow.filtered.into(),
                    rtt_us: flow.rtt.map(|time| time.as_micros() as u64),
                    idle_s: flow.idle.as_secs_f64(),
                }
            })
            .collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
        flows.truncate(FLOWS);
        flows
    }

    fn lane_status(
        &self,
        key: &LaneKey,
        lane: &crate::life::Lane,
        dials: bool,
        reports: &Reports<'_>,
    ) -> Lane {
        let group = self.group_config(&key.lane_group);
        let mut status = Lane {
            lane_group: key.lane_group.to_string(),
            index: key.index.into(),
            shard: key.shard,
            transport: group.map_or_else(String::new, |group| group.transport.to_string()),
            dscp: group.map_or(0, |group| group.dscp),
            congestion_control: group.map_or_else(String::new, |group| group.congestion_control.to_string()),
            for_s: now().saturating_since(lane.since).as_secs_f64(),
            established: lane.established,
            last_error: lane.last_error.clone(),
            ..Lane::default()
        };
        let up = match &lane.state {
            State::Waiting { .. } => {
                status.state = if dials { LaneState::Waiting } else { LaneState::Listening };
                return status;
            }
            State::Dialling { .. } => {
                status.state = LaneState::Dialling;
                return status;
            }
            State::Up(up) => up,
        };
        status.state = LaneState::Up;
        if let Some(transport) = self.transport_of(up.serial) {
            status.transport = transport.to_string();
        }
        if let Some(socket) = self.lane_sockets.get(&up.serial) {
            status.remote = Some(socket.remote.to_string());
            status.delivery = socket.delivery.map(|delivery| delivery.to_string());
        }
        status.dialled = up.dialled;
        if let Some(stats) = reports.lanes_received.get(&up.serial) {
            status.frames_received = stats.frames;
            status.bytes_received = stats.bytes;
            status.restored = stats.compression.restored;
            status.key_updates += stats.key_updates;
        }
        if let Some((_, stats, kernel)) = reports.lanes_sent.get(&up.serial) {
            status.frames_sent = stats.frames;
            if let Some(chosen) = stats.chosen {
                chosen.clone_into(&mut status.congestion_control);
            }
            status.circuit_open = stats.circuit.map(|circuit| circuit.is_open);
            status.circuit_trips = stats.circuit.map_or(0, |circuit| circuit.trips.into());
            status.edge_pacing = stats.pacing.map_or(EdgePacing::Off, edge_pacing);
            status.bytes_sent = stats.bytes;
            status.compressed = stats.compression.compressed;
            status.uncompressed = stats.compression.uncompressed();
            status.headers_in_bytes = stats.compression.header_bytes_before;
            status.headers_out_bytes = stats.compression.header_bytes_after;
            status.key_updates += stats.key_updates;
            if let Some((info, snapshot)) = kernel {
                status.cwnd = info.cwnd;
                status.ssthresh = info.ssthresh;
                status.mss = info.snd_mss;
                status.rtt_us = info.fresh_rtt_us();
                status.min_rtt_us = (info.min_rtt_us != u32::MAX).then_some(info.min_rtt_us);
                status.queue_in_core_us =
                    status.rtt_us.zip(status.min_rtt_us).map(|(rtt, min)| rtt.saturating_sub(min));
                status.pacing_rate =
                    (info.pacing_rate != u64::MAX).then(|| info.pacing_rate.saturating_mul(8));
                status.delivery_rate = info.delivery_rate.saturating_mul(8);
                status.retransmits = info.retransmits.into();
                status.segments_sent = info.segments_out.into();
                status.unsent_bytes = snapshot.unsent as u64;
                status.unacked_bytes = snapshot.unacknowledged as u64;
            }
        }
        status
    }
}

/// The paths to one peer. All shards share them, so the report of any of them has all.
fn path_status(shards: &[&PeerTxReport], groups: &[LaneGroup], name: impl Fn(u8) -> String) -> Vec<Path> {
    let paths = shards.first().into_iter().flat_map(|report| &report.paths);
    let path = |(id, path): &(PathId, PathStatus)| Path {
        path: name(id.path),
        dscp: id.dscp,
        mode: edge_pacing(path.mode),
        rate: path.rate.map(Rate::bits_per_second),
        capacity: path.capacity.map(Rate::bits_per_second),
        queue_us: path.queue.map(|queue| queue.as_micros() as u64),
        target_us: path.target.as_micros() as u64,
        reported: path.signal == Signal::OneWay,
        loss: path.loss,
        cause: path.change.map(|change| change.to_string()),
        left_out_us: path.left_out.as_micros() as u64,
        lane_groups: path.groups.iter().filter_map(|share| path_share(share, groups)).collect(),
    };
    paths.map(path).collect()
}

/// What becomes of the guarantee of a class. All shards share it, as the paths.
fn class_handover(
    shards: &[&PeerTxReport],
    class: &str,
    name: impl Fn(u8) -> String,
) -> Option<ClassHandover> {
    let known = shards.first()?.class_paths.iter().find(|known| *known.class == *class)?;
    let path = known.assigned.map(name);
    Some(ClassHandover { missed: known.misses, path, count: known.handovers })
}

/// None of a group that a reload has just taken away.
fn path_share(share: &GroupStatus, groups: &[LaneGroup]) -> Option<PathShare> {
    Some(PathShare {
        lane_group: groups.get(share.group as usize)?.name.to_string(),
        granted: share.granted.map(Rate::bits_per_second),
        delivered: share.delivered.bits_per_second(),
    })
}

const fn edge_pacing(mode: PathMode) -> EdgePacing {
    match mode {
        PathMode::Free => EdgePacing::Free,
        PathMode::Held => EdgePacing::Held,
        PathMode::Varying => EdgePacing::Varying,
        PathMode::Competing => EdgePacing::Competing,
    }
}

fn largest(max: &mut Option<u64>, value: Option<u64>) {
    *max = (*max).into_iter().chain(value).max();
}
