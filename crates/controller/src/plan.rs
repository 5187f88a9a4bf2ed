//! The plan of a document: which trunks are carried, on which ways, and what is left of each link.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use trunkline_admission::{Demand, Direction, Held, Lacking, Outcome, Placement, Rates, Refusal, Way, admit};
use trunkline_units::Rate;

use crate::document::Document;

/// The version of a plan's JSON.
pub const PLAN_VERSION: u32 = 1;

/// A rate in each direction, bit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Both {
    /// From the first end to the second.
    pub forth: u64,
    /// From the second end to the first.
    pub back: u64,
}

impl From<Rates> for Both {
    fn from(rates: Rates) -> Self {
        Both { forth: rates.forth.bits_per_second(), back: rates.back.bits_per_second() }
    }
}

impl From<Both> for Rates {
    fn from(bits: Both) -> Self {
        let [forth, back] = [bits.forth, bits.back].map(Rate::from_bits_per_second);
        Rates { forth, back }
    }
}

/// Which trunks are carried, and what is left. Rates are in bit/s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The version of this form.
    pub version: u32,
    /// Trunks, as in the document.
    pub trunks: Vec<PlannedTrunk>,
    /// Trunks that the plan before had, and the document has not.
    pub removed: Vec<String>,
    /// Links: uplinks by site, then those of the core.
    pub links: Vec<PlannedLink>,
}

/// A trunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedTrunk {
    /// Its name.
    pub name: String,
    /// The sites that it joins.
    pub sites: [String; 2],
    /// The rate that it asks for.
    pub guarantee: Both,
    /// Whether it is carried, compared with the plan before.
    pub change: Change,
    /// Whether it asks for a backup.
    pub asks_backup: bool,
    /// The links that it takes, from the first site to the second; none, if it is refused.
    pub way: Vec<String>,
    /// The links of its backup.
    pub backup: Option<Vec<String>>,
    /// Why it is refused.
    pub refused: Option<Refused>,
}

/// What is different from the plan before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It is carried, and was not.
    New,
    /// It is carried on the ways that it had.
    Kept,
    /// It is carried on other ways than it had.
    Moved,
    /// It is refused, and was not carried.
    Refused,
    /// It is refused, and was carried.
    Lost,
}

/// Why a trunk is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// What links lack on the way, or the two ways, that carry the largest part of what is asked. None: no way joins the sites, or no two
    /// that share no link.
    pub short: Vec<Short>,
    /// The largest rates, in the proportion that is asked, that would be carried.
    pub fits: Option<Both>,
    /// The trunk to which it gave way.
    pub gave_way_to: Option<String>,
}

/// What a link lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Short {
    /// The link.
    pub link: String,
    /// Where it lacks it: the ends of the link, in this direction.
    pub from: String,
    /// The other end.
    pub to: String,
    /// What it lacks.
    pub resource: Resource,
    /// What is left of it for this trunk; of a window, the rate that is asked. In bit/s.
    pub left: u64,
    /// What is missing.
    pub missing: u64,
}

/// What a link may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// A rate that guarantees may take.
    Rate,
    /// Windows of five packets for the trunk's lanes, for which the rate is too small.
    Window,
}

/// A link, and what is reserved of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedLink {
    /// Its name.
    pub name: String,
    /// The nodes that it joins.
    pub ends: [String; 2],
    /// What guarantees may take.
    pub reservable: Both,
    /// What they take.
    pub reserved: Both,
}

/// Why a text is no plan.
#[derive(Debug)]
pub enum PlanError {
    /// It is no such JSON.
    Form(serde_json::Error),
    /// It is one of another version.
    Version(u32),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Form(error) => {
                write!(f, "is no plan: {error}; allowed: what `trunkline controller plan --json` prints")
            }
            PlanError::Version(version) => {
                write!(f, "is a plan of version {version}; allowed: {PLAN_VERSION}")
            }
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Reads a plan.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_str(text).map_err(PlanError::Form)?;
        if version != PLAN_VERSION {
            return Err(PlanError::Version(version));
        }
        serde_json::from_str(text).map_err(PlanError::Form)
    }

    /// It as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers")
    }

    /// Trunks that are refused.
    pub fn refused(&self) -> impl Iterator<Item = (&PlannedTrunk, &Refused)> {
        self.trunks.iter().filter_map(|trunk| Some((trunk, trunk.refused.as_ref()?)))
    }
}

/// Plans a document. What the plan before carries stays as it is where it can.
pub fn plan(document: &Document, before: Option<&Plan>) -> Plan {
    let had: BTreeMap<&str, &PlannedTrunk> =
        before.iter().flat_map(|plan| &plan.trunks).map(|trunk| (trunk.name.as_str(), trunk)).collect();
    let held: Vec<Option<Held>> = document
        .trunks
        .iter()
        .zip(&document.demands)
        .map(|(name, demand)| had.get(name.as_str()).and_then(|trunk| held(document, demand, trunk)))
        .collect();
    let outcomes = admit(&document.network, &document.demands, &held);
    let trunks = outcomes.iter().enumerate().map(|(place, outcome)| {
        let name = document.trunks[place].as_str();
        trunk(document, place, outcome, had.get(name).copied())
    });
    let here: BTreeSet<&str> = document.trunks.iter().map(String::as_str).collect();
    Plan {
        version: PLAN_VERSION,
        trunks: trunks.collect(),
        removed: had.keys().filter(|name| !here.contains(*name)).map(|name| (*name).to_owned()).collect(),
        links: links(document, &outcomes),
    }
}

/// What a trunk had, in this document's network; nothing if it is not there, or is of other sites.
fn held(document: &Document, demand: &Demand, trunk: &PlannedTrunk) -> Option<Held> {
    if trunk.refused.is_some() {
        return None;
    }
    let way = |links: &[String]| way(document, demand.ends[0], links);
    let backup = match &trunk.backup {
        Some(links) => Some(way(links)?),
        None => None,
    };
    let placement = Placement { way: way(&trunk.way)?, backup };
    Some(Held { placement, rates: trunk.guarantee.into() })
}

fn way(document: &Document, from: usize, names: &[String]) -> Option<Way> {
    let mut node = from;
    let mut links = Vec::new();
    for name in names {
        let link = document.links.find(name)?;
        let [first, second] = document.network.links()[link].ends;
        let passed = if first == node { Direction::Forth } else { Direction::Back };
        node = if first == node { second } else { first };
        links.push((link, passed));
    }
    Some(Way { links })
}

fn trunk(document: &Document, place: usize, outcome: &Outcome, had: Option<&PlannedTrunk>) -> PlannedTrunk {
    let demand = &document.demands[place];
    let names = |way: &Way| {
        way.links.iter().map(|(link, _)| document.links.name(*link).to_owned()).collect::<Vec<_>>()
    };
    let (way, backup) = match outcome.placement() {
        Some(placement) => (names(&placement.way), placement.backup.as_ref().map(names)),
        None => (Vec::new(), None),
    };
    let refused = match outcome {
        Outcome::Admitted(_) => None,
        Outcome::Refused(refusal) => Some(refused(document, refusal)),
    };
    let carried = had.filter(|trunk| trunk.refused.is_none());
    let change = match (carried, &refused) {
        (None, None) => Change::New,
        (None, Some(_)) => Change::Refused,
        (Some(_), Some(_)) => Change::Lost,
        (Some(trunk), None) if trunk.way == way && trunk.backup == backup => Change::Kept,
        (Some(_), None) => Change::Moved,
    };
    PlannedTrunk {
        name: document.trunks[place].clone(),
        sites: demand.ends.map(|site| document.nodes.name(site).to_owned()),
        guarantee: demand.rates.into(),
        change,
        asks_backup: demand.backup,
        way,
        backup,
        refused,
    }
}

fn refused(document: &Document, refusal: &Refusal) -> Refused {
    let short = |shortage: &trunkline_admission::Shortage| {
        let ends = document.network.links()[shortage.link].ends;
        let (resource, direction, left, missing) = match shortage.lacking {
            Lacking::Rate { direction, left, missing } => {
                (Resource::Rate, direction, left.bits_per_second(), missing.bits_per_second())
            }
            Lacking::Window { direction, asked, missing } => {
                (Resource::Window, direction, asked.bits_per_second(), missing.bits_per_second())
            }
        };
        let [from, to] = match direction {
            Direction::Forth => ends,
            Direction::Back => [ends[1], ends[0]],
        };
        Short {
            link: document.links.name(shortage.link).to_owned(),
            from: document.nodes.name(from).to_owned(),
            to: document.nodes.name(to).to_owned(),
            resource,
            left,
            missing,
        }
    };
    Refused {
        short: refusal.shortages.iter().map(short).collect(),
        fits: refusal.fits.map(Both::from),
        gave_way_to: refusal.gave_way_to.map(|other| document.trunks[other].clone()),
    }
}

fn links(document: &Document, outcomes: &[Outcome]) -> Vec<PlannedLink> {
    let links = document.network.links();
    let mut reserved = vec![Both { forth: 0, back: 0 }; links.len()];
    for (demand, outcome) in document.demands.iter().zip(outcomes) {
        for (link, passed) in outcome.placement().into_iter().flat_map(Placement::links) {
            let bits = &mut reserved[link];
            bits.forth += demand.rates[passed.of(Direction::Forth)].bits_per_second();
            bits.back += demand.rates[passed.of(Direction::Back)].bits_per_second();
        }
    }
    let planned = |(place, reserved): (usize, Both)| PlannedLink {
        name: document.links.name(place).to_owned(),
        ends: links[place].ends.map(|node| document.nodes.name(node).to_owned()),
        reservable: links[place].reservable.into(),
        reserved,
    };
    reserved.into_iter().enumerate().map(planned).collect()
}
