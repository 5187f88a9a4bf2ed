//! Reloads: which lanes a new configuration adds, keeps and ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use trunkline_units::Instant;

use super::lane::{Cause, Lane, LaneKey, State};
use super::peer::Peer;
use super::{Ended, Life, Wanted, WantedPeer};
use crate::keys::PublicKey;

impl Life {
    /// Applies a configuration: one lane for each peer, lane group, shard and index. Lanes whose configuration stays the same
    /// are not touched. Returns the lanes that end.
    pub(crate) fn reload(&mut self, now: Instant, wanted: &Wanted) -> Vec<Ended> {
        let mut ended = Vec::new();
        self.lane_groups =
            wanted.lane_groups.iter().map(|group| (Arc::clone(&group.name), group.lanes)).collect();
        let peers: BTreeMap<PublicKey, &WantedPeer> =
            wanted.peers.iter().map(|peer| (peer.key, peer)).collect();
        let gone: Vec<LaneKey> = self
            .lanes
            .keys()
            .filter(|key| {
                let lanes = self.lane_groups.get(&key.lane_group).copied().unwrap_or(0);
                !peers.contains_key(&key.peer) || key.index >= lanes
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
                    if let Some(peer) = self.peers.get_mut(&key.peer) {
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

    fn reload_peer(
        &mut self,
        now: Instant,
        peer_key: PublicKey,
        wanted: &WantedPeer,
        ended: &mut Vec<Ended>,
    ) {
        let new = || Peer::new(wanted.endpoint.clone(), wanted.encryption);
        let peer = self.peers.entry(peer_key).or_insert_with(new);
        if peer.endpoint != wanted.endpoint {
            peer.endpoint.clone_from(&wanted.endpoint);
            peer.probe_at = now;
            peer.backoff.reset();
        }
        let changed = peer.encryption != wanted.encryption;
        peer.encryption = wanted.encryption;
        let dial_at = now + self.cross_dial_delay(peer_key);
        let groups: Vec<(Arc<str>, u8)> =
            self.lane_groups.iter().map(|(name, lanes)| (Arc::clone(name), *lanes)).collect();
        for (group, lanes) in groups {
            for (shard, index) in
                (0..self.site.shards).flat_map(|shard| (0..lanes).map(move |index| (shard, index)))
            {
                let key = LaneKey { peer: peer_key, lane_group: Arc::clone(&group), shard, index };
                match self.lanes.get(&key).map(|lane| lane.state) {
                    None => {
                        self.lanes.insert(key.clone(), Lane::new(now));
                        self.set_waiting(now, &key, dial_at, Cause::Path);
                    }
                    // The lane comes back with the new encryption.
                    Some(State::Up(up)) if changed => {
                        let reason = "its encryption was changed";
                        self.handle_ended(now, up.serial, reason);
                        ended.push(Ended { key, serial: up.serial, reason });
                    }
                    Some(_) => {}
                }
            }
        }
        self.schedule(peer_key);
    }
}
