//! What a controller has in memory of its sites: what each is to have, and how each was when it asked last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use trunkline_sites::{
    CONFIGURATION_VERSION, Configuration, ConfiguredPeer, PeerReport, Report, Signed, Signer, digest_of,
    fingerprint, now,
};
use utoipa::ToSchema;

use super::rolling::{Followed, Peers, Rolling, Verdict};
use crate::configuration::configurations;
use crate::document::Document;
use crate::store::{Holder, Member, Revision, Rollout};

/// A site that has not asked for so long is away: it asks each minute.
const AWAY_S: u64 = 150;
/// So much of what a roll-out waits for is told.
const WAITS: usize = 20;

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

impl Seen {
    fn age(&self) -> u64 {
        now().saturating_sub(self.at)
    }

    /// Whether it asks.
    fn is_near(&self) -> bool {
        self.age() <= AWAY_S
    }
}

/// A revision that was read.
#[derive(Debug)]
struct Applied {
    revision: Revision,
    document: Document,
}

/// What the store has that the fleet does not know.
pub(super) struct News {
    /// How many changes there were.
    pub(super) sequence: u64,
    /// The latest revision, if it is another one.
    pub(super) latest: Option<Revision>,
    pub(super) members: Vec<Member>,
    pub(super) holders: BTreeMap<String, Holder>,
    /// The roll-out that runs, with the revision before it, if that is another one.
    pub(super) rollout: Option<Rollout>,
    pub(super) base: Option<Revision>,
}

/// All sites.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    /// Of the store, when it was read; none: it was not.
    sequence: Option<u64>,
    applied: Option<Applied>,
    /// The revision before the one that is rolled out, and how far that is.
    base: Option<Applied>,
    rolling: Option<Rolling>,
    sites: BTreeMap<String, Prepared>,
    /// In the order of their names.
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
    /// The roll-out that runs.
    pub(super) rollout: Option<RolloutStatus>,
    /// Trunks that cannot come up, and why.
    pub(super) problems: BTreeMap<String, String>,
    /// Its sites.
    pub(super) sites: Vec<SiteStatus>,
}

/// A revision that its sites get in steps.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct RolloutStatus {
    /// The revision.
    pub(super) revision: u64,
    /// The step that runs, of which the first is 1.
    pub(super) step: usize,
    /// How many there are.
    pub(super) steps: usize,
    /// How long ago it began, seconds.
    pub(super) since_s: u64,
    /// Trunks that have changed.
    pub(super) changed: usize,
    /// Trunks that change.
    pub(super) changing: usize,
    /// What is waited for.
    pub(super) waits_for: Vec<String>,
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

    /// The revision before the one that is rolled out, if it is known; 0: it is not.
    pub(super) fn base(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.revision.number)
    }

    /// Takes what the store has now, and makes what sites are to have. One whose peers are the same keeps its configuration.
    pub(super) fn update(&mut self, news: News, network: &str, signer: &Signer) {
        let News { sequence, latest, members, holders, rollout, base } = news;
        // What was applied was read then.
        let applied = |revision: Revision| Some(Applied { document: revision.read().ok()?, revision });
        self.applied = latest.and_then(applied).or(self.applied.take());
        self.base = rollout.as_ref().and_then(|_| base.and_then(applied).or(self.base.take()));
        self.sequence = Some(sequence);
        let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
        self.seen.retain(|name, _| names.contains(name.as_str()));
        (self.members, self.holders) = (members, holders);

        let key = |member: &Member| (member.name.clone(), member.public_key.clone());
        let keys: BTreeMap<String, String> = self.members.iter().map(key).collect();
        let peers = |applied: &Applied| configurations(&applied.document, &applied.revision.plan, &keys);
        let all = self.applied.as_ref().map(peers).unwrap_or_default();
        self.problems = all.problems;
        let before = self.rolling.take();
        let wanted = match rollout.zip(self.base.as_ref()) {
            Some((rollout, base)) => {
                let report = |site: &str| self.near(site).map(|seen| &seen.report);
                let rolling = Rolling::new(rollout, peers(base).peers, all.peers, report).after(before);
                self.rolling.insert(rolling).peers()
            }
            None => all.peers,
        };
        self.prepare(wanted, network, signer);
    }

    fn prepare(&mut self, wanted: Peers, network: &str, signer: &Signer) {
        let (sequence, revision) = (self.sequence.unwrap_or(0), self.revision());
        let mut before = std::mem::take(&mut self.sites);
        for (site, peers) in wanted {
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
    }

    /// Whether the step of a roll-out that runs is over.
    pub(super) fn verdict(&self) -> Option<(Rollout, Verdict)> {
        let rolling = self.rolling.as_ref()?;
        let verdict = rolling.verdict(
            rolling.age(),
            |site| self.members.binary_search_by(|member| member.name.as_str().cmp(site)).is_ok(),
            |site| {
                let seen = self.near(site)?;
                Some(Followed { has: self.has(site, seen), report: &seen.report })
            },
        );
        Some((rolling.rollout.clone(), verdict))
    }

    /// How a site was that asks.
    fn near(&self, site: &str) -> Option<&Seen> {
        self.seen.get(site).filter(|seen| seen.is_near())
    }

    /// Whether a site has what it is to have, or has refused that.
    fn has(&self, site: &str, seen: &Seen) -> bool {
        self.sites.get(site).is_some_and(|prepared| seen.have.as_ref() == Some(&prepared.fingerprint))
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
            rollout: self.rollout(),
            problems: self.problems.clone(),
            sites: names.map(site).collect(),
        }
    }

    fn rollout(&self) -> Option<RolloutStatus> {
        let rolling = self.rolling.as_ref()?;
        let (changed, changing) = rolling.progress();
        let mut waits_for = match self.verdict()?.1 {
            Verdict::Waits(waits_for) => waits_for,
            Verdict::Failed(why) => vec![why],
            Verdict::Goes => Vec::new(),
        };
        let more = waits_for.len().saturating_sub(WAITS);
        if more > 0 {
            waits_for.truncate(WAITS);
            waits_for.push(format!("and {more} more"));
        }
        Some(RolloutStatus {
            revision: rolling.rollout.revision,
            step: rolling.rollout.step,
            steps: rolling.rollout.steps.count(),
            since_s: rolling.age().as_secs(),
            changed,
            changing,
            waits_for,
        })
    }

    fn site(&self, name: &str, public_key: Option<String>) -> SiteStatus {
        let (seen, prepared) = (self.seen.get(name), self.sites.get(name));
        let is_short = |peer: &PeerReport| {
            let reserved = *prepared?.reserved.get(&peer.name)?;
            let capacity = peer.capacity.filter(|capacity| *capacity < reserved)?;
            Some(ShortTrunk { peer: peer.name.clone(), reserved, capacity })
        };
        SiteStatus {
            name: name.to_owned(),
            public_key,
            seen_s: seen.map(Seen::age),
            connected: seen.is_some_and(Seen::is_near),
            current: seen.is_some_and(|seen| self.has(name, seen) && seen.report.error.is_none()),
            report: seen.map(|seen| seen.report.clone()),
            short: seen.iter().flat_map(|seen| &seen.report.peers).filter_map(is_short).collect(),
        }
    }
}
