//! The paths to each peer: those of the configuration, and those that a peer has dialled.
//!
//! A site that has no table of paths to a peer learns of them by the numbers of the lanes that the peer dials
//! (docs/wire-format.md): how many there are, and which of them are backups. It never forgets one while it runs: a path without lanes
//! is down, and takes no flow. So what a peer can change here is bounded.

use std::sync::Arc;
use std::time::Duration;

use trunkline_trunk::{PathSettings, TrunkPlan};
use trunkline_units::Instant;

use super::Daemon;
use crate::config::{PeerConfig, Via};
use crate::handshake::Hello;
use crate::keys::PublicKey;
use crate::life::{LaneKey, PathKey, Serial, WantedPeer};
use crate::plan::Plan;

/// A peer may change at most so often which of its paths are backups.
const BACKUP_CHANGE_INTERVAL: Duration = Duration::from_secs(10);

/// What is known of the paths on which a peer dials.
#[derive(Debug)]
pub(super) struct LearntPaths {
    /// Whether each is a backup; never empty.
    backups: Vec<bool>,
    changed_at: Instant,
}

impl Daemon {
    /// The paths to a peer; none if there is one.
    pub(super) fn paths_to(&self, peer: &PeerConfig) -> Vec<PathSettings> {
        if !peer.paths.is_empty() {
            let settings = |path: &crate::config::PathConfig| PathSettings {
                name: path.name.as_str().into(),
                backup: path.backup,
            };
            return peer.paths.iter().map(settings).collect();
        }
        let Some(learnt) = self.learnt_paths.get(&peer.public_key) else { return Vec::new() };
        let mut paths: Vec<PathSettings> = (1..)
            .zip(&learnt.backups)
            .map(|(number, backup)| PathSettings { name: format!("{number}").into(), backup: *backup })
            .collect();
        // A reload may have added lanes since.
        while !self.config.trunk.fits_paths(paths.len()) {
            paths.pop();
        }
        paths
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
            WantedPeer {
                key,
                via: self.own_via_of(&key).to_string().into(),
                endpoint: peer.endpoint_on(path).map(|endpoint| endpoint.to_string().into()),
                encryption: peer.encryption,
            }
        };
        (0..self.paths_to(peer).len().max(1) as u8).map(wanted).collect()
    }

    /// What a dial says is the number of its lane.
    pub(super) fn lane_on_wire(&self, key: &LaneKey) -> u16 {
        let path = self.peer_config(&key.peer).and_then(|peer| peer.path(key.path));
        let backup = if path.is_some_and(|path| path.backup) { Hello::BACKUP } else { 0 };
        self.life.number(key) | backup
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
        if path == 0 || !config.paths.is_empty() || !self.config.trunk.fits_paths(count) {
            return;
        }
        let learnt = self
            .learnt_paths
            .entry(peer)
            .or_insert_with(|| LearntPaths { backups: vec![false], changed_at: now });
        let known = learnt.backups.get(usize::from(path)).copied();
        let is_due = now.saturating_since(learnt.changed_at) >= BACKUP_CHANGE_INTERVAL;
        if known == Some(hello.is_backup()) || known.is_some() && !is_due {
            return;
        }
        learnt.backups.resize(learnt.backups.len().max(count), false);
        learnt.backups[usize::from(path)] = hello.is_backup();
        learnt.changed_at = now;
        debug_assert!(learnt.backups.len() <= TrunkPlan::MAX_PATHS);
        let word = if hello.is_backup() { ", a backup" } else { "" };
        tracing::info!("peer {}: it dials on path {count}{word}", self.peer_name(&peer));
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
