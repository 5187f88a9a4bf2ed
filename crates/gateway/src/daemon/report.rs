//! The daemon's state as a [`Status`].

use std::collections::BTreeMap;

use trunkline_queue::Histogram;
use trunkline_units::Rate;

use super::lanes::State;
use super::{Daemon, Source};
use crate::clock::now;
use crate::rx::{LaneRxStats, RxReport};
use crate::status::{Class, Lane, Peer, Received, Sojourn, Status, Strangers, Tun};
use crate::tx::TxReport;

impl Daemon {
    /// Asks the workers and puts everything together.
    pub(super) fn status(&mut self) -> Status {
        let (tx, rx) = self.workers.reports();
        let half_open = self
            .sources
            .values()
            .filter(|source| matches!(source, Source::Connection(c) if c.stranger().is_some()))
            .count();
        Status {
            name: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: now().saturating_since(self.started).as_secs_f64(),
            public_key: self.identity.public().to_string(),
            tun: self.tun_status(&tx, &rx),
            peers: self.peer_status(&tx, &rx),
            strangers: Strangers { half_open: half_open as u64, ..self.strangers },
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
        let received: BTreeMap<u64, LaneRxStats> =
            rx.iter().flat_map(|report| report.lanes.iter().copied()).collect();
        let at = now();
        let uptime_s = at.saturating_since(self.started).as_secs_f64().max(f64::MIN_POSITIVE);
        let mut peers = Vec::new();
        for config in &self.config.peers {
            let mut total = Received::default();
            for (_, stats) in rx.iter().flat_map(|r| &r.peers).filter(|(key, _)| *key == config.public_key) {
                total.packets += stats.segments;
                total.bytes += stats.bytes;
                total.refused_malformed += stats.malformed;
                total.refused_bad_offload += stats.bad_offload;
                total.refused_forged_source += stats.forged_source;
            }
            let mut classes = Vec::new();
            let mut lanes = Vec::new();
            for class_config in &self.config.classes {
                let mut class = Class {
                    name: class_config.name.clone(),
                    lane_group: class_config.name.clone(),
                    discipline: class_config.discipline().to_owned(),
                    weight: class_config.weight.into(),
                    guarantee: class_config.guarantee.map(Rate::bits_per_second),
                    ceiling: class_config.ceiling.map(Rate::bits_per_second),
                    ..Class::default()
                };
                let limits = class_config.queue.limits();
                let mut sojourn = Histogram::default();
                let queues = tx.iter().flat_map(|report| &report.classes);
                for (_, _, stats) in
                    queues.filter(|(key, name, _)| *key == config.public_key && **name == *class_config.name)
                {
                    class.add(at, stats);
                    class.capacity_packets += u64::from(limits.segments);
                    class.capacity_bytes += limits.bytes;
                    sojourn.merge(&stats.sojourn);
                }
                class.mean_backlog_packets = class.backlog_packet_seconds / uptime_s;
                class.sojourn = Sojourn::from(&sojourn);
                let group = self.config.lane_group(class_config);
                lanes.extend(
                    self.lanes
                        .iter()
                        .filter(|lane| {
                            lane.key.peer == config.public_key && *lane.key.class == *class_config.name
                        })
                        .map(|lane| Self::lane_status(lane, config.endpoint.is_some(), tx, &received))
                        .map(|lane| Lane { congestion_control: group.congestion_control.clone(), ..lane }),
                );
                classes.push(class);
            }
            peers.push(Peer {
                name: config.name.clone(),
                public_key: config.public_key.to_string(),
                endpoint: config.endpoint.as_ref().map(ToString::to_string),
                routes: config.routes.iter().map(ToString::to_string).collect(),
                encryption: config.encryption.as_str().to_owned(),
                received: total,
                classes,
                lanes,
                flows: Vec::new(),
            });
        }
        peers
    }

    fn lane_status(
        lane: &super::lanes::Lane,
        dials: bool,
        tx: &[TxReport],
        received: &BTreeMap<u64, LaneRxStats>,
    ) -> Lane {
        let mut status = Lane {
            group: lane.key.class.to_string(),
            shard: lane.key.shard,
            for_s: now().saturating_since(lane.since).as_secs_f64(),
            established: lane.established,
            last_error: lane.last_error.clone(),
            ..Lane::default()
        };
        let up = match &lane.state {
            State::Waiting { .. } if dials => {
                "waiting".clone_into(&mut status.state);
                return status;
            }
            State::Waiting { .. } => {
                "listening".clone_into(&mut status.state);
                return status;
            }
            State::Dialling => {
                "dialling".clone_into(&mut status.state);
                return status;
            }
            State::Up(up) => up,
        };
        "up".clone_into(&mut status.state);
        status.remote = up.remote.map(|remote| remote.to_string());
        status.dialled = up.dialled;
        if let Some(stats) = received.get(&up.serial) {
            status.frames_received = stats.frames;
            status.bytes_received = stats.bytes;
            status.key_updates += stats.key_updates;
        }
        let sent = tx.iter().flat_map(|report| &report.lanes).find(|(serial, ..)| *serial == up.serial);
        if let Some((_, stats, kernel)) = sent {
            status.frames_sent = stats.frames;
            status.bytes_sent = stats.bytes;
            status.key_updates += stats.key_updates;
            if let Some((info, snapshot)) = kernel {
                status.cwnd = info.cwnd;
                status.ssthresh = info.ssthresh;
                status.mss = info.snd_mss;
                status.rtt_us = info.rtt_us;
                status.min_rtt_us = (info.min_rtt_us != u32::MAX).then_some(info.min_rtt_us);
                status.queue_in_core_us = status.min_rtt_us.map(|min| info.rtt_us.saturating_sub(min));
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
