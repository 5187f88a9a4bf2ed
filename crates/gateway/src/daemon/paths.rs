//! The paths to each peer: those of the configuration, and those that a peer has dialled.
//!
//! A site that has no table of paths to a peer learns of them by the numbers of the lanes that the peer dials
//! (docs/wire-format.md): how many there are, and what each costs. It never forgets one while it runs: a path without lanes
//! is down, and takes no flow. So what a peer can change here is bounded.

use std::sync::Arc;
use std::time::Duration;

use trunkline_trunk::{PathSettings, TrunkPlan};
use trunkline_units::Instant;

use super::Daemon;
use crate::config::{PathConfig, PeerConfig, Via};
use crate::handshake::Hello;
use crate::keys::PublicKey;
use crate::life::{LaneKey, PathKey, Serial, WantedPeer};
use crate::plan::Plan;

/// A peer may change at most so often what a path costs.
const COST_CHANGE_INTERVAL: Duration = Duration::from_secs(10);

/// What is known of a path on which a peer dials.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LearntPath {
    /// What it costs here.
    cost: u8,
    /// What the peer said last that it costs.
    said: u8,
    changed_at: Option<Instant>,
}

impl LearntPath {
    /// When the peer may change the cost again; at any time if it never has.
    fn may_change_at(&self) -> Option<Instant> {
        self.changed_at.map(|at| at + COST_CHANGE_INTERVAL)
    }
}

impl Daemon {
    /// The paths to a peer; none if there is one.
    pub(super) fn paths_to(&self, peer: &PeerConfig) -> Vec<PathSettings> {
        if !peer.paths.is_empty() {
            let settings = |(number, path): (u8, &PathConfig)| PathSettings {
                name: path.name.as_str().into(),
                cost: self.cost_of(&PathKey { peer: peer.public_key, path: number }),
            };
            return (0..).zip(&peer.paths).map(settings).collect();
        }
        let Some(learnt) = self.learnt_paths.get(&peer.public_key) else { return Vec::new() };
        let mut paths: Vec<PathSettings> = (1..)
            .zip(learnt)
            .map(|(number, path)| PathSettings { name: format!("{number}").into(), cost: path.cost })
            .collect();
        // A reload may have added lanes since.
        while !self.config.trunk.fits_paths(paths.len()) {
            paths.pop();
        }
        paths
    }

    /// What the use of a path costs: the higher of what both sites say.
    pub(super) fn cost_of(&self, path: &PathKey) -> u8 {
        let learnt = self.learnt_paths.get(&path.peer).and_then(|paths| paths.get(usize::from(path.path)));
        self.own_cost_of(path).max(learnt.map_or(0, |path| path.cost))
    }

    /// The name of a path, if there are several to its peer.
    pub(super) fn path_name(&self, path: &PathKey) -> Option<Arc<str>> {
        let paths = self.paths_to(self.peer_config(&path.peer)?);
        paths.into_iter().nth(usize::from(path.path)).map(|path| path.name)
    }

    /// A peer and the path to it, for the log.
    pub(super) fn path_label(&self, path: &PathKey) -> String {
        let peer = self.peer_name(&path.peer);
        match self.path_name(path) {
            Some(name) => format!("{peer} on path {name}"),
            None => peer,
        }
    }

    /// What connections are bound to that have no path.
    pub(super) fn common_via(&self) -> Via {
        Via { fwmark: self.config.fwmark, ..Via::default() }
    }

    /// What the connections of a path are bound to.
    pub(super) fn via_of(&self, path: &PathKey) -> Via {
        let own = self.own_via_of(path);
        Via { fwmark: own.fwmark.or(self.config.fwmark), ..own }
    }

    /// What the connections of a path are bound to that others are not.
    pub(super) fn own_via_of(&self, path: &PathKey) -> Via {
        let own = self.peer_config(&path.peer).and_then(|peer| peer.path(path.path));
        own.map(|path| path.via.clone()).unwrap_or_default()
    }

    /// The paths to a peer as life has them.
    pub(super) fn wanted_paths(&self, peer: &PeerConfig) -> Vec<WantedPeer> {
        let wanted = |path: u8| {
            let key = PathKey { peer: peer.public_key, path };
            let endpoint = peer.endpoint_on(path).filter(|_| !self.is_off(&key));
            WantedPeer {
                key,
                via: self.own_via_of(&key).to_string().into(),
                // What the peer says that it costs ends no lane.
                cost: self.own_cost_of(&key),
                endpoint: endpoint.map(|endpoint| endpoint.to_string().into()),
                encryption: peer.encryption,
            }
        };
        (0..self.paths_to(peer).len().max(1) as u8).map(wanted).collect()
    }

    /// What a dial says is the number of its lane.
    pub(super) fn lane_on_wire(&self, key: &LaneKey) -> u16 {
        Hello::lane_on(self.life.number(key), self.own_cost_of(&key.path_key()))
    }

    /// Gives the workers the configuration.
    pub(super) fn apply_plan(&mut self) {
        let paths: Vec<_> = self.config.peers.iter().map(|peer| self.paths_to(peer)).collect();
        self.workers.apply_plan(&Plan::new(&self.config, self.seed, &mut self.paths, paths));
    }

    /// A peer asks for a lane, perhaps on a path that is not known yet.
    pub(super) fn learn_path(&mut self, now: Instant, peer: PublicKey, hello: &Hello) {
        let (path, _, _) = LaneKey::of_number(hello.number(), self.config.tun.queues);
        let Some(config) = self.peer_config(&peer) else { return };
        let count = usize::from(path) + 1;
        let has_names = !config.paths.is_empty();
        let fits = match config.paths.len() {
            0 => self.config.trunk.fits_paths(count),
            paths => count <= paths,
        };
        if !fits {
            return;
        }
        if count == 1 && hello.cost() == 0 && !self.learnt_paths.contains_key(&peer) {
            return;
        }
        let learnt = self.learnt_paths.entry(peer).or_insert_with(|| vec![LearntPath::default()]);
        let is_new = learnt.len() < count && !has_names;
        learnt.resize(learnt.len().max(count), LearntPath::default());
        debug_assert!(learnt.len() <= TrunkPlan::MAX_PATHS);
        learnt[usize::from(path)].said = hello.cost();
        if is_new {
            tracing::info!("peer {}: it dials on path {count}", self.peer_name(&peer));
        }
        self.apply_learnt_paths(now, is_new);
    }

    /// Takes on what peers say that their paths cost, as often as they may change it. Returns when more of that is due.
    pub(super) fn handle_learnt_deadlines(&mut self, now: Instant) -> Option<Instant> {
        self.apply_learnt_paths(now, false);
        let paths = self.learnt_paths.values().flatten();
        paths.filter(|path| path.said != path.cost).filter_map(LearntPath::may_change_at).min()
    }

    fn apply_learnt_paths(&mut self, now: Instant, is_new: bool) {
        let mut changed = Vec::new();
        for (peer, paths) in &mut self.learnt_paths {
            for (number, path) in (0..).zip(paths) {
                let is_due = path.may_change_at().is_none_or(|at| at <= now);
                if path.said != path.cost && is_due {
                    (path.cost, path.changed_at) = (path.said, Some(now));
                    changed.push((PathKey { peer: *peer, path: number }, path.cost));
                }
            }
        }
        if !is_new && changed.is_empty() {
            return;
        }
        for (path, cost) in changed {
            tracing::info!("peer {}: it says that the path costs {cost}", self.path_label(&path));
        }
        self.apply_plan();
        self.apply_lanes();
    }

    /// An interface went down, or has lost its carrier: ends the lanes of paths that are bound to it at once, if their peers have other
    /// paths.
    pub(super) fn interface_down(&mut self, name: &str) {
        let is_bound = |key: &LaneKey| {
            let peer = self.peer_config(&key.peer);
            let path = peer.filter(|peer| peer.paths.len() > 1).and_then(|peer| peer.path(key.path));
            path.is_some_and(|path| path.via.interface.as_deref() == Some(name))
        };
        let bound: Vec<Serial> =
            self.life.up().filter(|(_, key)| is_bound(key)).map(|(serial, _)| serial).collect();
        for serial in bound {
            self.end_lane(serial, &format!("its interface {name} is down"));
        }
    }
}
