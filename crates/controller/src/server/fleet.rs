//! What a controller has in memory of its sites: what each is to have, and how each was when it asked last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use trunkline_sites::{
    CONFIGURATION_VERSION, Configuration, ConfiguredPeer, PeerReport, Report, Signed, Signer, digest_of,
    fingerprint, now,
};
use utoipa::ToSchema;

use crate::configuration::configurations;
use crate::document::Document;
use crate::store::{Holder, Member, Revision};

/// A site that has not asked for so long is away: it asks each minute.
const AWAY_S: u64 = 150;

/// What a site is to have.
#[derive(Debug)]
struct Prepared {
    fingerprint: String,
    signed: Arc<Signed>,
    reserved: BTreeMap<String, u64>,
}

/// How a site was when it asked last.
#[derive(Debug)]
struct Seen {
    at: u64,
    have: Option<String>,
    report: Report,
}

/// The latest revision.
#[derive(Debug)]
struct Applied {
    revision: Revision,
    document: Document,
}

/// All sites.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    /// Of the store, when it was read; none: it was not.
    sequence: Option<u64>,
    applied: Option<Applied>,
    sites: BTreeMap<String, Prepared>,
    members: Vec<Member>,
    holders: BTreeMap<String, Holder>,
    problems: BTreeMap<String, String>,
    seen: HashMap<String, Seen>,
}

/// A network, and how its sites are.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct FleetStatus {
    /// The revision of its document; 0: none.
    pub(super) revision: u64,
    /// How many changes there were.
    pub(super) sequence: u64,
    /// Trunks that are carried.
    pub(super) carried: usize,
    /// Trunks that are refused.
    pub(super) refused: usize,
    /// Trunks that cannot come up, and why.
    pub(super) problems: BTreeMap<String, String>,
    /// Its sites.
    pub(super) sites: Vec<SiteStatus>,
}

/// How a site is.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct SiteStatus {
    /// Its name.
    pub(super) name: String,
    /// The key that it enrolled with; nothing: it has not.
    pub(super) public_key: Option<String>,
    /// How long ago it asked last, seconds; nothing: not since the controller started.
    pub(super) seen_s: Option<u64>,
    /// Whether it asks.
    pub(super) connected: bool,
    /// Whether what it has is what it is to have.
    pub(super) current: bool,
    /// How it was then.
    pub(super) report: Option<Report>,
    /// Trunks whose measured capacity is below what is reserved for them: the document is wrong there, or the link is.
    pub(super) short: Vec<ShortTrunk>,
}

/// A trunk that has less than the document says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct ShortTrunk {
    /// The site at its other end.
    pub(super) peer: String,
    /// What is reserved, bit/s.
    pub(super) reserved: u64,
    /// What was measured, bit/s.
    pub(super) capacity: u64,
}

impl Fleet {
    pub(super) const fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// The revision that is known; 0: none.
    pub(super) fn revision(&self) -> u64 {
        self.applied.as_ref().map_or(0, |applied| applied.revision.number)
    }

    /// The latest revision.
    pub(super) fn latest(&self) -> Option<&Revision> {
        self.applied.as_ref().map(|applied| &applied.revision)
    }

    /// Takes what the store has now, with its latest revision if that is not known yet.
    pub(super) fn update(
        &mut self,
        sequence: u64,
        latest: Option<Revision>,
        members: Vec<Member>,
        holders: BTreeMap<String, Holder>,
    ) {
        // What was applied was read then.
        let applied = latest.and_then(|revision| Some(Applied { document: revision.read().ok()?, revision }));
        self.applied = applied.or(self.applied.take());
        self.sequence = Some(sequence);
        let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
        self.seen.retain(|name, _| names.contains(name.as_str()));
        (self.members, self.holders) = (members, holders);
    }

    /// Makes what sites are to have. One whose peers are the same keeps its configuration.
    pub(super) fn prepare(&mut self, network: &str, signer: &Signer) {
        let sequence = self.sequence.unwrap_or(0);
        let key = |member: &Member| (member.name.clone(), member.public_key.clone());
        let keys: BTreeMap<String, String> = self.members.iter().map(key).collect();
        let all = self
            .applied
            .as_ref()
            .map(|applied| configurations(&applied.document, &applied.revision.plan, &keys));
        let (all, revision) = (all.unwrap_or_default(), self.revision());
        let mut before = std::mem::take(&mut self.sites);
        for (site, peers) in all.peers {
            let fingerprint = fingerprint(&peers);
            let same = before.remove(&site).filter(|prepared| prepared.fingerprint == fingerprint);
            let prepared = same.unwrap_or_else(|| {
                let reserved = |peer: &ConfiguredPeer| (peer.name.clone(), peer.reserved);
                let reserved = peers.iter().map(reserved).collect();
                let version = CONFIGURATION_VERSION;
                let (network, site) = (network.to_owned(), site.clone());
                let configuration = Configuration { version, network, site, sequence, revision, peers };
                Prepared { fingerprint, signed: Arc::new(signer.sign(&configuration)), reserved }
            });
            self.sites.insert(site, prepared);
        }
        self.problems = all.problems;
    }

    /// Who shows this token.
    pub(super) fn holder(&self, token: &str) -> Option<Holder> {
        self.holders.get(&digest_of(token)).cloned()
    }

    /// Whether there is such a site in the document.
    pub(super) fn has_site(&self, name: &str) -> bool {
        self.sites.contains_key(name)
    }

    /// Takes what a site says of itself.
    pub(super) fn see(&mut self, site: &str, have: Option<String>, report: Report) {
        self.seen.insert(site.to_owned(), Seen { at: now(), have, report });
    }

    /// What a site is to have, if that is not what it has. Of a site that the document no longer has, nothing is known: it keeps what it has.
    pub(super) fn newer(&self, site: &str, have: Option<&str>) -> Option<Arc<Signed>> {
        let prepared = self.sites.get(site)?;
        (have != Some(prepared.fingerprint.as_str())).then(|| Arc::clone(&prepared.signed))
    }

    pub(super) fn status(&self) -> FleetStatus {
        let keys: BTreeMap<&str, &String> =
            self.members.iter().map(|member| (member.name.as_str(), &member.public_key)).collect();
        let gone =
            self.members.iter().map(|member| &member.name).filter(|name| !self.sites.contains_key(*name));
        let names = self.sites.keys().chain(gone);
        let site = |name: &String| self.site(name, keys.get(name.as_str()).map(|key| (*key).clone()));
        let entry = self.applied.as_ref().map(|applied| applied.revision.entry());
        let (carried, refused) = entry.map_or((0, 0), |entry| (entry.carried, entry.refused));
        FleetStatus {
            revision: self.revision(),
            sequence: self.sequence.unwrap_or(0),
            carried,
            refused,
            problems: self.problems.clone(),
            sites: names.map(site).collect(),
        }
    }

    fn site(&self, name: &str, public_key: Option<String>) -> SiteStatus {
        let (seen, prepared) = (self.seen.get(name), self.sites.get(name));
        let seen_s = seen.map(|seen| now().saturating_sub(seen.at));
        let is_short = |peer: &PeerReport| {
            let reserved = *prepared?.reserved.get(&peer.name)?;
            let capacity = peer.capacity.filter(|capacity| *capacity < reserved)?;
            Some(ShortTrunk { peer: peer.name.clone(), reserved, capacity })
        };
        SiteStatus {
            name: name.to_owned(),
            public_key,
            seen_s,
            connected: seen_s.is_some_and(|seen_s| seen_s <= AWAY_S),
            current: seen.zip(prepared).is_some_and(|(seen, prepared)| {
                seen.have.as_deref() == Some(prepared.fingerprint.as_str()) && seen.report.error.is_none()
            }),
            report: seen.map(|seen| seen.report.clone()),
            short: seen.iter().flat_map(|seen| &seen.report.peers).filter_map(is_short).collect(),
        }
    }
}
