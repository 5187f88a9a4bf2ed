//! The lanes' connections, as [`crate::life::Life`] decides: configured, verified, handed to the workers, closed.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use trunkline_trunk::compress::Compressor;
use trunkline_trunk::{LaneGroup, Transport};

use super::accept::request;
use super::connection::{Dialled, Liveness};
use super::{Daemon, DaemonError, LaneSocket, Source, Told};
use crate::clock::now;
use crate::config::{Encryption, PeerConfig};
use crate::handshake::Established;
use crate::keys::PublicKey;
use crate::lane_rx::LaneRx;
use crate::lane_tx::LaneTx;
use crate::life::{Candidate, Failure, Installed, LaneKey, PathKey, Serial, State, Wanted, WantedLaneGroup};
use crate::record::SessionKeys;
use crate::sys;
use crate::worker::{Command, NewLane, Place, WorkerEvent};

impl Daemon {
    pub(super) fn peer_config(&self, key: &PublicKey) -> Option<&PeerConfig> {
        self.config.peers.iter().find(|peer| peer.public_key == *key)
    }

    /// The name of a peer in the log. A lane may outlive its peer's place in the configuration for a moment.
    pub(super) fn peer_name(&self, key: &PublicKey) -> String {
        let configured = self.peer_config(key).map(|peer| &peer.name);
        let known = configured.or_else(|| self.former_names.get(key));
        known.map_or_else(|| format!("with the key {key}"), String::clone)
    }

    /// This site in the log.
    pub(super) fn site_label(&self) -> String {
        format!("site {}", self.config.name)
    }

    /// Logs a line about a lane, at a limited rate: the peer decides how often its lanes come and go.
    pub(super) fn log_of_lane(&mut self, peer: PublicKey, told: Told, line: &str) {
        let lanes = self.life.lanes_of(peer).count();
        if !self.peer_log.admits(now(), peer, lanes, (told, line)) {
            tracing::debug!("{line}");
        } else if told == Told::Up {
            tracing::info!("{line}");
        } else {
            tracing::warn!("{line}");
        }
    }

    pub(super) fn group_config(&self, name: &str) -> Option<&LaneGroup> {
        self.config.trunk.groups.iter().find(|group| *group.name == *name)
    }

    /// The name of a lane in the log, among those of its peer.
    pub(super) fn lane_name(&self, key: &LaneKey) -> String {
        match self.life.lane_count(key.peer, &key.lane_group) {
            1 => key.lane_group.to_string(),
            _ => format!("{}/{}", key.lane_group, key.number_on_path(self.config.tun.queues)),
        }
    }

    pub(super) fn label(&self, key: &LaneKey) -> String {
        format!("lane {} to {}", self.lane_name(key), self.path_label(&key.path_key()))
    }

    /// Applies the configuration of peers and lane groups. Lanes that it still has stay up.
    pub(super) fn apply_lanes(&mut self) {
        let wanted = Wanted {
            peers: self.config.peers.iter().flat_map(|peer| self.wanted_paths(peer)).collect(),
            lane_groups: self
                .config
                .trunk
                .groups
                .iter()
                .map(|group| WantedLaneGroup {
                    name: Arc::clone(&group.name),
                    lanes: group.lanes,
                    on_each: group.lanes_on_each(2),
                })
                .collect(),
        };
        let configured = |key: &PublicKey| wanted.peers.iter().any(|path| path.key.peer == *key);
        self.known.retain(configured);
        self.request_warnings.retain(|key, _| configured(key));
        self.peer_log.retain(configured);
        self.apply_endpoints();
        for lane in self.life.reload(now(), &wanted) {
            let reason = match self.renamed_key(&lane.key.peer) {
                Some(name) => format!("the key of peer {name} was changed"),
                None => lane.reason.to_owned(),
            };
            tracing::warn!("{}: down: {reason}", self.label(&lane.key));
            self.close_lane(lane.key.shard, lane.serial);
        }
        self.apply_auto();
        self.apply_quic();
        for listener in self.sources.values() {
            if let Source::Listener(listener) = listener
                && let Err(error) = sys::set_mark(listener.as_fd(), self.config.fwmark.unwrap_or(0))
                // Without the privilege, the socket never had a mark to remove.
                && self.config.fwmark.is_some()
            {
                tracing::warn!("cannot mark a listening socket: {error}");
            }
        }
        for (serial, key) in self.life.up() {
            let (Some(socket), Some(group)) =
                (self.lane_sockets.get(&serial), self.group_config(&key.lane_group))
            else {
                continue;
            };
            // The workers set the congestion control, since they may choose it by the path.
            let Some(fd) = &socket.fd else { continue };
            let _ = sys::set_dscp(fd.as_fd(), group.dscp);
            // A new default route would lead the packets of a lane without the mark into the trunk.
            let _ = sys::set_mark(fd.as_fd(), self.via_of(&key.path_key()).fwmark.unwrap_or(0));
            if !self.life.is_verifying(key.path_key()) {
                let _ = self.usual_liveness(&key.path_key()).apply(fd.as_fd());
            }
        }
    }

    /// Addresses or routes of this machine may have changed: dials lanes that wait for a path, and verifies the others.
    pub(super) fn network_changed(&mut self) {
        let now = now();
        self.life.handle_network_changed(now);
        self.quic_network_changed();
        self.auto_network_changed();
        // A lane whose local address is gone is dead. Any other lane is verified.
        let mut gone: BTreeMap<SocketAddr, bool> = BTreeMap::new();
        let up: Vec<(Serial, LaneKey)> = self.life.up().map(|(serial, key)| (serial, key.clone())).collect();
        for (serial, key) in up {
            let Some(mut local) = self.lane_sockets.get(&serial).and_then(|socket| socket.local) else {
                continue;
            };
            local.set_port(0);
            if *gone.entry(local).or_insert_with(|| is_gone(local)) {
                self.end_lane(serial, &format!("its local address {} is not on this machine", local.ip()));
            } else {
                self.verify(key.path_key());
            }
        }
    }

    /// Probes the lanes on a path at once. Dead ones end within seconds; lanes on a working path stay.
    fn verify(&mut self, path: PathKey) {
        if self.life.handle_suspect(now(), path) {
            self.set_liveness(path, Liveness::Verify);
        }
    }

    /// How soon a dead lane on a path is to be detected while nothing is amiss.
    pub(super) fn usual_liveness(&self, path: &PathKey) -> Liveness {
        if self.cost_of(path) > 0 { Liveness::Rare(self.config.keepalive) } else { Liveness::Usual }
    }

    pub(super) fn set_liveness(&self, path: PathKey, liveness: Liveness) {
        for (_, lane) in self.life.lanes_on(path) {
            if let State::Up(up) = &lane.state
                && let Some(socket) = self.lane_sockets.get(&up.serial)
                && let Some(fd) = &socket.fd
            {
                let _ = liveness.apply(fd.as_fd());
            }
        }
    }

    /// Makes an authenticated connection a lane, and hands it to its worker.
    pub(super) fn handle_established(
        &mut self,
        made: Established<TcpStream>,
        dialled: Option<&Dialled>,
        remote: SocketAddr,
    ) {
        let now = now();
        let key = match dialled {
            Some(dialled) => dialled.key.clone(),
            None => match self.life.find_lane(now, request(&made.hello, made.peer)) {
                Ok(key) => key,
                // A reload has removed the lane meanwhile, or our own dial was faster.
                Err(_) => return,
            },
        };
        let serial = self.life.next_serial();
        let fd = Arc::new(OwnedFd::from(made.stream));
        let encryption = if made.keys.is_some() { Encryption::Tls } else { Encryption::None };
        let attempt = dialled.and_then(|dialled| self.attempt_of(dialled));
        let max_segment = dialled.and_then(|dialled| self.max_segment_of(dialled));
        // Before the old lane is replaced, so that a failure here does not end it.
        let new = match self.new_lane(&key, serial, &fd, (made.keys, made.hello.has_reports())) {
            Ok(new) => new,
            Err(error) => {
                let reason = format!("{remote}: cannot set up the lane: {error}");
                match dialled {
                    Some(dialled) => self.candidate_failed(dialled, Failure::Lane, &reason),
                    None => self.warn_of_request(key.peer, &reason),
                }
                return;
            }
        };
        let instance = made.hello.instance;
        let dialled_by_us = dialled.is_some();
        let candidate =
            Candidate { key: key.clone(), serial, attempt, dialled: dialled_by_us, instance, encryption };
        let Ok(Installed { replaced }) = self.life.handle_up(now, candidate) else {
            if let Some(dialled) = dialled {
                self.candidate_not_wanted(dialled);
            }
            return;
        };
        // The worker gets the end of the old connection first: a lane is one connection at a time there too.
        match replaced {
            // It may work still.
            Some(old) if self.transport_of(old) == Some(Transport::Tcp) => self.retire_lane(key.shard, old),
            Some(old) => self.close_lane(key.shard, old),
            None => {}
        }
        let local = rustix::net::getsockname(&fd).ok().and_then(|address| address.try_into().ok());
        let path = key.path_key();
        self.lane_sockets
            .insert(serial, LaneSocket { path, fd: Some(fd), local, remote, delivery: None, max_segment });
        self.workers.shards[usize::from(key.shard)].commands.post(Command::LaneUp(Box::new(new)));
        let how = if dialled_by_us { "dialled" } else { "accepted from" };
        self.known.handle_lane(key.peer, remote.ip());
        let line = format!("{}: up, {how} {remote}", self.label(&key));
        self.log_of_lane(key.peer, Told::Up, &line);
        if let Some(dialled) = dialled {
            self.candidate_up(dialled);
        }
    }

    /// Creates both directions of a lane, for its worker.
    fn new_lane(
        &self,
        key: &LaneKey,
        serial: Serial,
        fd: &Arc<OwnedFd>,
        (keys, reports): (Option<SessionKeys>, bool),
    ) -> io::Result<NewLane> {
        let group = self
            .group_config(&key.lane_group)
            .ok_or_else(|| io::Error::other(format!("the lane group {} no longer exists", key.lane_group)))?;
        sys::set_congestion_control(fd.as_fd(), group.congestion_control.initial())?;
        sys::set_dscp(fd.as_fd(), group.dscp)?;
        self.usual_liveness(&key.path_key()).apply(fd.as_fd())?;
        let (sealer, opener) = keys.map(|keys| (keys.sealer, keys.opener)).unzip();
        let receiving = LaneRx::new(serial, Arc::clone(fd), opener, reports)?;
        let compressor = Compressor::new(group.compression, self.seed);
        let sending = LaneTx::new(serial, Arc::clone(fd), sealer, compressor, reports);
        let lane_group = Arc::clone(&key.lane_group);
        let place = Place { peer: key.peer, path: key.path, group: lane_group, index: key.index };
        Ok(NewLane { place, sending, receiving })
    }

    /// Tells the worker to close a lane's connection.
    pub(super) fn close_lane(&mut self, shard: u16, serial: Serial) {
        self.forget_socket(serial);
        self.workers.shards[usize::from(shard)].commands.post(Command::LaneDown { serial });
    }

    /// Another connection has taken the place of this one over TCP, which works: what is in it still arrives.
    pub(super) fn retire_lane(&mut self, shard: u16, serial: Serial) {
        self.forget_socket(serial);
        self.workers.shards[usize::from(shard)].commands.post(Command::LaneRetired { serial });
    }

    /// Ends a lane, for a reason of this site.
    pub(super) fn end_lane(&mut self, serial: Serial, reason: &str) {
        if let Some(key) = self.handle_lane_ended(serial, reason) {
            self.close_lane(key.shard, serial);
        }
    }

    /// Handles the end of a lane's connection. Returns the lane, unless another connection has replaced this one.
    fn handle_lane_ended(&mut self, serial: Serial, reason: &str) -> Option<LaneKey> {
        self.forget_socket(serial);
        let key = self.life.handle_ended(now(), serial, reason)?;
        let line = format!("{}: down: {reason}", self.label(&key));
        self.log_of_lane(key.peer, Told::Down, &line);
        Some(key)
    }

    pub(super) fn handle_worker_events(&mut self) {
        for event in self.workers.events.take() {
            match event {
                WorkerEvent::LaneEnded { serial, reason, clean } => {
                    let reason = if clean { reason } else { format!("{reason} (data in transit is lost)") };
                    // `None` if the connection was replaced or closed meanwhile.
                    let key = self.handle_lane_ended(serial, &reason);
                    if let Some(key) = key.filter(|_| !clean) {
                        // The other lanes on the path may be dead for the same reason.
                        self.verify(key.path_key());
                        self.prove_quic(Some(key.path_key()));
                    }
                }
                WorkerEvent::LaneStalled { serial } => self.handle_stalled(serial),
                WorkerEvent::LaneRecovered { serial } => self.handle_recovered(serial),
                WorkerEvent::Quic { shard, event } => self.handle_quic_event(shard, event),
                WorkerEvent::DeviceLost => self.device_changed(),
                WorkerEvent::Ended { shard, reason } => {
                    self.failed = Some(DaemonError::Worker { shard, reason });
                    self.stopping = true;
                }
            }
        }
    }
}

/// Whether this machine no longer has the address.
fn is_gone(address: SocketAddr) -> bool {
    UdpSocket::bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}
