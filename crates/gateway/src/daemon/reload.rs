//! The configuration: applied at the start, and by each reload.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use trunkline_schema::count;

use super::{Daemon, Source, network};
use crate::clock::now;
use crate::config::{Config, Encryption, PeerConfig};
use crate::handshake::{Acceptor, Admit, HandshakeError, Identity};
use crate::keys::{PublicKey, SecretKey};
use crate::life::{Failure, Serial};
use crate::preflight;

impl Daemon {
    /// Reads the file again and applies it. After an error nothing has changed.
    pub(super) fn reload(&mut self) -> Result<String, String> {
        let usec = now().as_nanos() / 1000;
        let _ = sd_notify::notify(&[
            sd_notify::NotifyState::Reloading,
            sd_notify::NotifyState::MonotonicUsec(i128::from(usec)),
        ]);
        let result = self.try_reload();
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        result
    }

    fn try_reload(&mut self) -> Result<String, String> {
        let new = Config::load(&self.path).map_err(|mistakes| mistakes.to_string())?;
        let fixed = self.config.restart_needed(&new);
        if !fixed.is_empty() {
            return Err(format!("{}: needs a restart, nothing was changed", fixed.join(", ")));
        }
        let accepted = preflight::check(&new).map_err(|refusals| refusals.to_string())?;
        let renewed = self.new_identity(&accepted.identity).map_err(|error| error.to_string())?;
        // The device is the last step that can fail, so that a failed reload leaves the rest untouched.
        self.device.apply(&new).map_err(|error| {
            // Restores the old state, as far as the kernel allows.
            let _ = self.device.apply(&self.config);
            format!("{error}; nothing else was changed")
        })?;
        let old = std::mem::replace(&mut self.config, new);
        let is_gone = |peer: &&PeerConfig| self.peer_config(&peer.public_key).is_none();
        self.former_names =
            old.peers.iter().filter(is_gone).map(|peer| (peer.public_key, peer.name.clone())).collect();
        let own_key = if renewed.is_some() { "; the private key was changed" } else { "" };
        if let Some((identity, acceptor)) = renewed {
            self.apply_identity(identity, acceptor);
        }
        self.apply_config(&accepted.warnings);
        // New routes or a new mark may have opened or closed paths of lanes.
        self.network_changed();
        let peers = count(self.config.peers.len(), "peer", "peers");
        let classes = count(self.config.trunk.classes.len(), "class", "classes");
        let renamed: Vec<String> =
            self.former_names.keys().filter_map(|key| self.renamed_key(key)).map(str::to_owned).collect();
        let keys = match &renamed[..] {
            [] => String::new(),
            [one] => format!("; the key of peer {one} was changed"),
            several => format!("; the keys of peers {} were changed", several.join(", ")),
        };
        Ok(format!("{}: reloaded: {peers}, {classes}{own_key}{keys}", self.site_label()))
    }

    /// The name of the peer that had this key before the last reload and has another now.
    pub(super) fn renamed_key(&self, key: &PublicKey) -> Option<&str> {
        let name = self.former_names.get(key)?;
        self.config.peers.iter().any(|peer| peer.name == *name).then_some(name.as_str())
    }

    /// The identity of a changed private key; `None` if it is the same key.
    fn new_identity(&self, secret: &SecretKey) -> Result<Option<(Identity, Acceptor)>, HandshakeError> {
        if secret.public() == self.identity.public() {
            return Ok(None);
        }
        let identity = Identity::new(secret)?;
        let acceptor = Acceptor::new(&identity, admit(&self.admitted))?;
        Ok(Some((identity, acceptor)))
    }

    /// Applies the part of the configuration that a reload may change.
    pub(super) fn apply_config(&mut self, warnings: &[String]) {
        self.admit_keys();
        for peer in self.config.peers.iter().filter(|peer| peer.encryption == Encryption::None) {
            tracing::warn!("peer {}: encryption = \"none\": data to and from it travels in clear", peer.name);
        }
        for warning in warnings {
            tracing::warn!("{}: {warning}", self.site_label());
        }
        network::warn_of_strict_filters(&self.config);
        let peers = &self.config.peers;
        self.learnt_paths.retain(|key, _| peers.iter().any(|peer| peer.public_key == *key));
        self.start_quotas();
        self.leave_out_lanes();
        self.judge_quotas(now());
        self.apply_plan();
        self.apply_lanes();
        self.answer_joined();
    }

    /// Admits the peers of the configuration, and who comes with an invitation, to the handshake.
    pub(super) fn admit_keys(&self) {
        let peers = self.config.peers.iter().map(|peer| peer.public_key);
        *self.admitted.write().unwrap_or_else(PoisonError::into_inner) =
            peers.chain(self.invitations.keys()).collect();
    }

    /// Uses `identity` for all further handshakes. Lanes and handshakes with the old key end.
    fn apply_identity(&mut self, identity: Identity, acceptor: Acceptor) {
        const REASON: &str = "the private key was changed";
        tracing::info!("{}: the private key was changed, now key {}", self.site_label(), identity.public());
        (self.identity, self.acceptor) = (identity, acceptor);
        self.life.handle_identity(self.identity.public());
        let is_connection = |(_, source): &(&u64, &Source)| matches!(source, Source::Connection(_));
        let under_way: Vec<u64> =
            self.sources.iter().filter(is_connection).map(|(token, _)| *token).collect();
        for token in under_way {
            self.half_open.remove(token);
            if let Some(Source::Connection(connection)) = self.sources.remove(&token)
                && let Some(dialled) = &connection.dialled
            {
                self.candidate_failed(dialled, Failure::Lane, REASON);
            }
        }
        self.end_quic_dials(REASON);
        self.accept_quic();
        let up: Vec<Serial> = self.life.up().map(|(serial, _)| serial).collect();
        for serial in up {
            self.end_lane(serial, REASON);
        }
    }
}

/// Admits the keys in `admitted`.
pub(super) fn admit(admitted: &Arc<RwLock<BTreeSet<PublicKey>>>) -> Admit {
    let admitted = Arc::clone(admitted);
    Arc::new(move |key| admitted.read().unwrap_or_else(PoisonError::into_inner).contains(key))
}
