//! `[[peers]]`: the other sites, and what no two of them may share.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::reader::{Field, Place, Section};
use super::values;
use super::{Encryption, PeerConfig};
use crate::keys::PublicKey;

const PUBLIC_KEY: &str = "the 44 characters `trunkline pubkey` prints at the peer";
const ROUTES: &str = "a list of prefixes, such as [\"10.2.0.0/16\", \"2001:db8:2::/48\"]";
/// What `encryption` may be.
pub(super) const ENCRYPTIONS: [(&str, Encryption); 2] =
    [("tls", Encryption::Tls), ("none", Encryption::None)];

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
pub(super) fn parse(root: &mut Section<'_>, site: &Site) -> Vec<PeerConfig> {
    let sections = root.sections("peers").unwrap_or_default();
    let mut owners = Owners { site, names: BTreeSet::new(), keys: BTreeMap::new(), routes: BTreeMap::new() };
    sections.into_iter().filter_map(|section| peer(section, &mut owners)).collect()
}

/// Which peer has what only one peer can have.
struct Owners<'s> {
    site: &'s Site,
    names: BTreeSet<String>,
    keys: BTreeMap<PublicKey, String>,
    routes: BTreeMap<IpNet, String>,
}

fn peer(mut section: Section<'_>, owners: &mut Owners<'_>) -> Option<PeerConfig> {
    let place = section.place().clone();
    let name = section.required("name", values::SITE_NAME).and_then(|field| {
        let name = field.parse(values::SITE_NAME, values::site_name)?;
        owners.claim_name(&field, &name);
        Some(name)
    });
    let label = name.clone().unwrap_or_else(|| place.key().to_owned());
    let public_key = section.required("public_key", PUBLIC_KEY).and_then(|field| {
        let key = field.parse(PUBLIC_KEY, |text| text.parse().map_err(|error| format!("{error}")))?;
        owners.claim_key(&field, key, &label);
        Some(key)
    });
    let endpoint = section.field("endpoint").map(|field| field.parse(values::ENDPOINT, values::endpoint));
    if endpoint.is_none() && !owners.site.listens {
        place.report(
            "can neither be dialled nor dial: it has no endpoint and this site has no listen",
            "an endpoint for the peer, or a listen for this site",
        );
    }
    let routes = section.required("routes", ROUTES).map(|field| owners.routes(field, &label));
    let encryption = section.field("encryption").and_then(|field| field.word(&ENCRYPTIONS));
    section.finish();
    Some(PeerConfig {
        name: name?,
        public_key: public_key?,
        endpoint: endpoint.flatten(),
        routes: routes?,
        encryption: encryption.unwrap_or(owners.site.encryption),
    })
}

impl Owners<'_> {
    fn claim_name(&mut self, field: &Field<'_>, name: &str) {
        if !self.names.insert(name.to_owned()) {
            field.place().report_plain(format!("{name:?} is the name of two peers"));
        }
    }

    fn claim_key(&mut self, field: &Field<'_>, key: PublicKey, peer: &str) {
        if self.site.own_key == Some(key) {
            field.place().report("is this site's own public key", PUBLIC_KEY);
        }
        if let Some(other) = self.keys.insert(key, peer.to_owned()) {
            field.place().report(format!("is the key of peer {other} as well"), PUBLIC_KEY);
        }
    }

    fn routes(&mut self, field: Field<'_>, peer: &str) -> Vec<IpNet> {
        let place = field.place().clone();
        let Some(fields) = field.list(ROUTES) else { return Vec::new() };
        if fields.is_empty() {
            place.report("is empty: nothing would be sent to the peer or accepted from it", ROUTES);
        }
        fields.iter().filter_map(|field| self.route(field, peer)).collect()
    }

    fn route(&mut self, field: &Field<'_>, peer: &str) -> Option<IpNet> {
        let place: &Place<'_> = field.place();
        let prefix = field.parse(values::PREFIX, values::prefix)?;
        match self.routes.insert(prefix, peer.to_owned()) {
            Some(other) if other == peer => place.report_plain(format!("{prefix} is there twice")),
            Some(other) => place.report(
                format!("{prefix} is behind peer {other} already"),
                "each prefix behind one peer; a longer prefix inside another's is fine",
            ),
            None => {}
        }
        Some(prefix)
    }
}
