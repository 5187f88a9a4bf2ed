//! The rules of [`Life`](super::Life).

mod bounds;
mod rules;
mod schedules;

use super::{Wanted, WantedLaneGroup, WantedPeer};
use crate::keys::PublicKey;
use trunkline_schema::Encryption;

const SHARDS: u16 = 2;

fn key_of(site: usize) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(site as u64 + 1).to_be_bytes());
    PublicKey::from_bytes(bytes)
}

fn wanted(peers: impl IntoIterator<Item = PublicKey>, lanes: u8, dials: bool) -> Wanted {
    let peer = |key: PublicKey| WantedPeer {
        key: key.into(),
        via: "".into(),
        cost: 0,
        endpoint: dials.then(|| "192.0.2.1:4600".into()),
        encryption: Encryption::Tls,
    };
    Wanted {
        peers: peers.into_iter().map(peer).collect(),
        lane_groups: vec![WantedLaneGroup { name: "tcp".into(), lanes, on_each: lanes }],
    }
}
