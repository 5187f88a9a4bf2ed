//! Reloads: which lanes a new configuration adds, keeps and ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use trunkline_units::Instant;

use super::lane::{Cause, Lane, LaneKey, PathKey, State};
use super::peer::Peer;
use super::{Ended, Life, Wanted, WantedPeer};

impl Life {
    /// Applies a configuration: one lane for each path to each peer, lane group, shard and index. Lanes whose configuration stays the same
    /// are not touched. Returns the lanes that end.
    pub(crate) fn reload(&mut self, now: Instant, wanted: &Wanted) -> Vec<Ended> {
        let mut ended = Vec::new();
        self.lane_groups =
            wanted.lane_groups.iter().map(|group| (Arc::clone(&group.name), group.clone())).collect();
        let further = wanted.peers.iter().filter(|peer| peer.key.path > 0);
        self.on_several = further.map(|peer| peer.key.peer).collect();
        let peers: BTreeMap<PathKey, &WantedPeer> =
            wanted.peers.iter().map(|peer| (peer.key, peer)).collect();
        let gone: Vec<LaneKey> = self
            .lanes
            .keys()
            .filter(|key| {
                let lanes = self.lanes_in_shard(key.peer, &key.lane_group);
                !peers.contains_key(&key.path_key()) || key.index >= lanes
            })
            .cloned()
            .collect();
        for key in gone {
            let Some(lane) = self.lanes.remove(&key) else { continue };
            match lane.state {
                State::Up(up) => {
                    self.serials.remove(&up.serial);
                    ended.push(Ended { key, serial: up.serial, reason: "no longer configured" });
                }
                State::Waiting { dial_at, .. } => {
                    if let Some(peer) = self.peers.get_mut(&key.path_key()) {
                        peer.waiting.remove(&(dial_at, key));
                    }
                }
                State::Dialling { .. } => {}
            }
        }
        self.peers.retain(|key, _| peers.contains_key(key));
        self.due.retain(|(_, key)| peers.contains_key(key));
        self.verifying.retain(|(_, key)| peers.contains_key(key));
        for (key, wanted) in &peers {
            self.reload_peer(now, *key, wanted, &mut ended);
        }
        self.recount_closed();
        ended
    }

    fn reload_peer(&mut self, now: Instant, path: PathKey, wanted: &WantedPeer, ended: &mut Vec<Ended>) {
        let peer = self.peers.entry(path).or_insert_with(|| Peer::new(wanted));
        if peer.endpoint != wanted.endpoint {
            peer.endpoint.clone_from(&wanted.endpoint);
            peer.probe_at = now;
            peer.backoff.reset();
        }
        let changed = if peer.encryption != wanted.encryption {
            Some("its encryption was changed")
        } else if peer.via != wanted.via {
            Some("the way of its path was changed")
        } else if peer.cost != wanted.cost {
            Some("the cost of its path was changed")
        } else {
            None
        };
        (peer.encryption, peer.via, peer.cost) = (wanted.encryption, Arc::clone(&wanted.via), wanted.cost);
        let dial_at = now + self.cross_dial_delay(path.peer);
        let groups: Vec<(Arc<str>, u8)> = self
            .lane_groups
            .keys()
            .map(|name| (Arc::clone(name), self.lanes_in_shard(path.peer, name)))
            .collect();
        for (group, lanes) in groups {
            for (shard, index) in
                (0..self.site.shards).flat_map(|shard| (0..lanes).map(move |index| (shard, index)))
            {
                let lane_group = Arc::clone(&group);
                let key = LaneKey { peer: path.peer, path: path.path, lane_group, shard, index };
                match (self.lanes.get(&key).map(|lane| lane.state), changed) {
                    (None, _) => {
                        self.lanes.insert(key.clone(), Lane::new(now));
                        self.set_waiting(now, &key, dial_at, Cause::Path);
                    }
                    // The lane comes back with the new settings.
                    (Some(State::Up(up)), Some(reason)) => {
                        self.handle_ended(now, up.serial, reason);
                        ended.push(Ended { key, serial: up.serial, reason });
                    }
                    (Some(_), _) => {}
                }
            }
        }
        self.schedule(path);
    }
}
