//! `[[peers]]`: the other sites, and what no two of them may share.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use trunkline_schema::{At, check_reserved};
use trunkline_trunk::TrunkPlan;

use super::file::PeerTable;
use super::values::PUBLIC_KEY;
use super::{Encryption, PeerConfig, paths};
use crate::keys::PublicKey;

const ROUTES: &str = "a list of prefixes, such as [\"10.2.0.0/16\", \"2001:db8:2::/48\"]";

/// What the rest of the file says that matters to peers.
pub(super) struct Site {
    /// Whether peers may dial us.
    pub(super) listens: bool,
    /// The encryption of peers that name none.
    pub(super) encryption: Encryption,
    /// Our own key, if it is in the file.
    pub(super) own_key: Option<PublicKey>,
}

/// The peers of a site.
pub(super) fn resolve(
    tables: Vec<PeerTable>,
    site: &Site,
    trunk: &TrunkPlan,
    at: &At<'_>,
) -> Vec<PeerConfig> {
    let mut owners =
        Owners { site, trunk, names: BTreeSet::new(), keys: BTreeMap::new(), routes: BTreeMap::new() };
    tables.into_iter().enumerate().map(|(index, table)| peer(table, &mut owners, &at.index(index))).collect()
}

/// Which peer has what only one peer can have.
struct Owners<'s> {
    site: &'s Site,
    trunk: &'s TrunkPlan,
    names: BTreeSet<String>,
    keys: BTreeMap<PublicKey, String>,
    routes: BTreeMap<IpNet, String>,
}

fn peer(table: PeerTable, owners: &mut Owners<'_>, at: &At<'_>) -> PeerConfig {
    let name = table.name.0;
    owners.claim_name(&name, &at.key("name"));
    owners.claim_key(table.public_key.0, &name, &at.key("public_key"));
    let is_dialled = table.endpoint.is_some() || table.paths.iter().any(|path| path.endpoint.is_some());
    if !is_dialled && !owners.site.listens {
        at.report(
            "can neither be dialled nor dial: it has no endpoint and this site has no listen",
            "an endpoint for the peer, or a listen for this site",
        );
    }
    let endpoint = table.endpoint.map(|endpoint| endpoint.0);
    let paths = paths::resolve(table.paths, endpoint.as_ref(), at);
    let reserved = table.reserved.map(|rate| {
        let at = at.key("reserved");
        if paths.len() > 1 {
            at.report("is given, and there are several paths to the peer", "one path, or no reserved rate");
        }
        check_reserved(&at, rate, owners.trunk)
    });
    let routes: Vec<IpNet> = table.routes.into_iter().map(|prefix| prefix.0).collect();
    if routes.is_empty() {
        at.key("routes").report("is empty: nothing would be sent to the peer or accepted from it", ROUTES);
    }
    for (index, prefix) in routes.iter().enumerate() {
        owners.claim_route(*prefix, &name, &at.key("routes").index(index));
    }
    PeerConfig {
        name,
        public_key: table.public_key.0,
        endpoint,
        routes,
        encryption: table.encryption.unwrap_or(owners.site.encryption),
        reserved,
        paths,
    }
}

impl Owners<'_> {
    fn claim_name(&mut self, name: &str, at: &At<'_>) {
        if !self.names.insert(name.to_owned()) {
            at.report_plain(format!("{name:?} is the name of two peers"));
        }
    }

    fn claim_key(&mut self, key: PublicKey, peer: &str, at: &At<'_>) {
        if self.site.own_key == Some(key) {
            at.report("is this site's own public key", PUBLIC_KEY);
        }
        if let Some(other) = self.keys.insert(key, peer.to_owned()) {
            at.report(format!("is the key of peer {other} as well"), PUBLIC_KEY);
        }
    }

    fn claim_route(&mut self, prefix: IpNet, peer: &str, at: &At<'_>) {
        match self.routes.insert(prefix, peer.to_owned()) {
            Some(other) if other == peer => at.report_plain(format!("{prefix} is there twice")),
            Some(other) => at.report(
                format!("{prefix} is behind peer {other} already"),
                "each prefix behind one peer; a longer prefix inside another's is fine",
            ),
            None => {}
        }
    }
}
