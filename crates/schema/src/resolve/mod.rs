//! From the classes of a file to the plan of a trunk: defaults are filled in, names become places in lists, and all is checked.

mod groups;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use trunkline_queue::{CoDelSettings, FqCoDelSettings, Settings, Share, TrunkSettings};
use trunkline_trunk::{
    AdmissionSettings, ClassId, ClassSettings, CongestionControl, Over, PathPolicy, Rule, Transport,
    TrunkPlan,
};
use trunkline_units::Rate;

use crate::words::{Name, OneOrMany};
use crate::{At, ClassSpec, Classes, FlowsSpec, LanesSpec, QueuePlace, quantity};

/// Classes of a trunk.
pub const MAX_CLASSES: usize = TrunkPlan::MAX_CLASSES;
/// Lanes of all groups together, to each peer in each shard.
pub const MAX_LANES: usize = TrunkPlan::MAX_LANES;
/// The heaviest class.
pub const MAX_WEIGHT: u32 = 1000;
const MAX_FLOWS: u32 = 1_000_000;
/// A packet of full size still takes less than two seconds.
const MIN_RATE: Rate = Rate::from_bits_per_second(8_000);
const MAX_RATE: Rate = Rate::from_bits_per_second(1_000_000_000_000);
const RATES: &str = "8 kbit/s to 1000 Gbit/s";
/// The bounds of `max_wait`.
const MAX_WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
/// The bounds of `reorder_wait`: beyond the longest, the far end passes on what came early.
const REORDER_WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(400);
/// The word for refusing in `flows.over`, which therefore names no class.
const REFUSE: &str = "refuse";
const OVER: &str = "\"refuse\" or the name of another class";

/// What differs between a site and an experiment.
pub struct Resolver<'r> {
    /// What a rule's `source` or `destination` is, or `None` after a mistake or where it is no prefix.
    pub prefix: &'r dyn Fn(&At<'_>, &str) -> Option<IpNet>,
    /// The congestion control of lanes of which none is named.
    pub congestion_control: CongestionControl,
    /// Whether a class filters retransmissions unless told otherwise.
    pub retransmission_filter: bool,
    /// How many lanes a group may have.
    pub max_lanes: u8,
    /// Whether lanes may ride on either transport: there are paths that carry no UDP.
    pub either_transport: bool,
    /// Whether there may be several paths to a peer.
    pub paths: bool,
}

impl Resolver<'_> {
    /// The plan of `classes` and `lanes`, which are keys of the table at `at`. If a mistake is reported, it is of no use.
    pub fn plan(&self, at: &At<'_>, lanes: &LanesSpec, classes: &Classes) -> TrunkPlan {
        let default =
            lanes.congestion_control.as_ref().map_or_else(|| self.congestion_control.clone(), groups::named);
        let paths = self.paths(&at.key("lanes").key("paths"), lanes.paths.as_ref());
        let specs = classes.list();
        let at = at.key("classes");
        if specs.is_empty() {
            at.report("is an empty list", "at least one class, or no classes for the default ones");
        }
        if specs.len() > MAX_CLASSES {
            at.index(MAX_CLASSES).report("is one class too many", format!("at most {MAX_CLASSES} classes"));
        }
        let all = &specs;
        let specs = &specs[..specs.len().min(MAX_CLASSES)];
        let (groups, memberships) = self.groups(&at, specs, &default);
        let overs: Vec<_> = (0..specs.len()).map(|place| over(&at.index(place), specs, place)).collect();
        let settings = specs.iter().enumerate().map(|(place, spec)| {
            let at = at.index(place);
            names(&at, specs, place);
            let rules = self.rules(&at, spec);
            let group = memberships[place];
            let class = self.class(&at, spec, rules, &paths);
            check_paths(&at, spec, &class.paths, groups[group].transport);
            let filters_retransmissions = class.filters_retransmissions && groups[group].is_reliable();
            // What other lanes than those that go by their path make of the word is one lane.
            let replicates = spec.replicate == Some(true)
                && groups[group].lanes > 1
                && class.paths != PathPolicy::Duplicate;
            ClassSettings { group, admission: overs[place], filters_retransmissions, replicates, ..class }
        });
        let settings: Vec<_> = settings.collect();
        catch_all(&at, all, &overs);
        TrunkPlan {
            classes: settings,
            groups,
            paths: Vec::new(),
            edge_pacing: lanes.edge_pacing.unwrap_or(true),
            reserved: None,
        }
    }

    /// The settings of a class with these rules, which takes `default_paths` if it says nothing of paths.
    fn class(
        &self,
        at: &At<'_>,
        spec: &ClassSpec,
        rules: Vec<Rule>,
        default_paths: &PathPolicy,
    ) -> ClassSettings {
        let weight = spec.weight.unwrap_or(1);
        if !(1..=MAX_WEIGHT).contains(&weight) {
            at.key("weight").refuse(format!("1 to {MAX_WEIGHT}"));
        }
        let [guarantee, ceiling] =
            [("guarantee", spec.guarantee), ("ceiling", spec.ceiling)].map(|(key, rate)| {
                let rate = rate?.0;
                if !(MIN_RATE..=MAX_RATE).contains(&rate) {
                    at.key(key).report(format!("{rate} is out of range"), RATES);
                }
                Some(rate)
            });
        if let (Some(guarantee), Some(ceiling)) = (guarantee, ceiling)
            && guarantee > ceiling
        {
            let problem = format!("guarantee {guarantee} is above ceiling {ceiling}");
            at.report(problem, "a guarantee of at most the ceiling");
        }
        let default = default_queue(&rules);
        let queue = match &spec.queue {
            Some(queue) => queue.resolve(&at.key("queue"), QueuePlace::Edge(default)).unwrap_or(default),
            None => default,
        };
        ClassSettings {
            share: Share {
                weight: weight.max(1),
                guarantee,
                ceiling,
                priority: spec.priority.unwrap_or(false),
            },
            filters_retransmissions: spec.retransmission_filter.unwrap_or(self.retransmission_filter),
            max_wait: wait(&at.key("max_wait"), spec.max_wait, &MAX_WAIT, "1 ms to 1 min"),
            paths: match (&spec.paths, default_paths) {
                // Its copies go over another path; a packet of bonded paths travels once.
                (None, PathPolicy::Bonded) if spec.replicate == Some(true) => PathPolicy::LowestDelay,
                (None, default_paths) => default_paths.clone(),
                (given, _) => self.paths(&at.key("paths"), given.as_ref()),
            },
            reorder_wait: wait(&at.key("reorder_wait"), spec.reorder_wait, &REORDER_WAIT, "1 ms to 400 ms"),
            ..ClassSettings::new(&spec.name.0, rules, queue, 0)
        }
    }
}

/// The rate that is reserved for a trunk of this plan, as `at` says it.
pub fn check_reserved(at: &At<'_>, rate: quantity::Rate, plan: &TrunkPlan) -> Rate {
    let quantity::Rate(rate) = rate;
    if rate != Rate::ZERO && !(MIN_RATE..=MAX_RATE).contains(&rate) {
        at.report(format!("{rate} is out of range"), format!("0 bit/s, or {RATES}"));
    }
    if !plan.edge_pacing {
        at.report(
            "is given, and lanes.edge_pacing is false: nothing keeps it",
            "edge_pacing = true, or no reserved rate",
        );
    }
    let dscps: BTreeSet<u8> = plan.groups.iter().map(|group| group.dscp).collect();
    if dscps.len() > 1 {
        at.report(
            format!(
                "is given, and lanes have {} values of dscp, each of which is a path of its own",
                dscps.len()
            ),
            "one dscp, or no reserved rate",
        );
    }
    rate
}

impl Resolver<'_> {
    fn paths(&self, at: &At<'_>, given: Option<&OneOrMany<Name>>) -> PathPolicy {
        let Some(OneOrMany(words)) = given else { return PathPolicy::default() };
        if !self.paths {
            at.report("is given, and the trunk has no paths of its own", "its key paths too, or none here");
        }
        let policy = |word: &Name| PathPolicy::of_word(&word.0);
        if let [word] = &words[..]
            && let Some(policy) = policy(word)
        {
            return policy;
        }
        if words.is_empty() {
            at.report("is an empty list", path_words());
        }
        for (place, word) in words.iter().enumerate() {
            if policy(word).is_some() {
                at.index(place).report(format!("{:?} stands alone", word.0), path_words());
            } else if words[..place].contains(word) {
                at.index(place).report_plain(format!("{:?} is there twice", word.0));
            }
        }
        let names = words.iter().filter(|word| policy(word).is_none());
        PathPolicy::Named(names.map(|word| word.0.as_str().into()).collect())
    }
}

/// What `paths` may be.
fn path_words() -> String {
    let words = PathPolicy::WORDS.map(|(word, _)| format!("{word:?}"));
    format!("{}, or a list of names of paths", words.join(", "))
}

/// A time within bounds, which `allowed` says in words.
fn wait(
    at: &At<'_>,
    given: Option<quantity::Time>,
    bounds: &RangeInclusive<Duration>,
    allowed: &str,
) -> Option<Duration> {
    let wait = given?.0;
    if !bounds.contains(&wait) {
        at.report(format!("{wait:?} is out of range"), allowed);
    }
    Some(wait)
}

/// What takes several paths at once needs lanes that deliver in order, repair losses and carry labels.
fn check_paths(at: &At<'_>, spec: &ClassSpec, paths: &PathPolicy, transport: Transport) {
    if spec.reorder_wait.is_some() && *paths != PathPolicy::Bonded {
        let problem = format!("is given, and the class's paths are \"{paths}\"");
        at.key("reorder_wait").report(problem, "paths = \"bonded\" too, or none here");
    }
    if !matches!(paths, PathPolicy::Bonded | PathPolicy::Duplicate) {
        return;
    }
    if transport != Transport::Tcp {
        at.key("paths").report(
            format!("is \"{paths}\", and the class's lanes are not all over TCP"),
            "other paths, or transport = \"tcp\"",
        );
    }
    // That of all classes, all packets twice, includes what the class asks for.
    if spec.replicate == Some(true) && spec.paths.is_some() {
        at.key("replicate").report(
            format!("is true, and the class's paths are \"{paths}\""),
            "false, or other paths: these say which packets are sent twice",
        );
    }
}

/// The edge queue of a class with these rules that asks for none: the trunk's own for TCP, `CoDel` for what does not answer to it,
/// and flows kept apart where both may meet.
pub fn default_queue(rules: &[Rule]) -> Settings {
    if rules.is_empty() {
        Settings::FqCoDel(FqCoDelSettings::default())
    } else if rules.iter().all(rules::is_tcp) {
        Settings::Trunk(TrunkSettings::default())
    } else if rules.iter().any(rules::may_be_tcp) {
        Settings::FqCoDel(FqCoDelSettings::default())
    } else {
        Settings::CoDel(CoDelSettings::default())
    }
}

fn names(at: &At<'_>, specs: &[ClassSpec], place: usize) {
    let name = &specs[place].name.0;
    if name == REFUSE {
        at.key("name").report("is the word for refusing in flows.over", "another name");
    }
    if specs[..place].iter().any(|other| other.name.0 == *name) {
        at.key("name").report_plain(format!("{name:?} is the name of two classes"));
    }
}

/// The last class takes everything. So does no other, unless those behind it take flows that it has no place for.
fn catch_all(at: &At<'_>, specs: &[ClassSpec], overs: &[Option<AdmissionSettings>]) {
    let Some(last) = specs.len().checked_sub(1) else { return };
    let takes_over = |place: usize| {
        overs.iter().flatten().any(|admission| admission.over == Over::Class(ClassId(place as u8)))
    };
    for (place, spec) in specs.iter().enumerate().filter(|(place, _)| *place < last) {
        if spec.rules.is_none() && !(place + 1..=last).all(takes_over) {
            at.index(place).report(
                "takes every packet, so that later classes never get one",
                "a class without match as the last one only",
            );
        }
    }
    if specs[last].rules.is_some() {
        let problem = "is the last class but does not take every packet";
        at.index(last).report(problem, "no match in the last class");
    }
}

/// The bound on a class's flows. A class that takes those beyond may have a limit, but passes no flow on: there are no chains and no
/// cycles.
fn over(at: &At<'_>, specs: &[ClassSpec], place: usize) -> Option<AdmissionSettings> {
    let FlowsSpec { limit, over } = specs[place].flows.as_ref()?;
    let at = at.key("flows");
    if !(1..=MAX_FLOWS).contains(limit) {
        at.key("limit").refuse(format!("a whole number, 1 to {MAX_FLOWS}"));
    }
    let refuse = Some(AdmissionSettings { limit: *limit, over: Over::Refuse });
    let Some(over) = over.as_ref().filter(|over| over.0 != REFUSE) else { return refuse };
    let at = at.key("over");
    let Some(to) = specs.iter().position(|other| other.name == *over) else {
        at.report(format!("there is no class {:?}", over.0), OVER);
        return refuse;
    };
    if to == place {
        at.report("is the class itself", OVER);
        return refuse;
    }
    let next = specs[to].flows.as_ref().and_then(|flows| flows.over.as_ref());
    if let Some(next) = next.filter(|next| next.0 != REFUSE) {
        at.report(
            format!("class {:?} passes flows on itself, to {:?}", over.0, next.0),
            "\"refuse\" or a class whose own flows are unlimited or refused",
        );
    }
    Some(AdmissionSettings { limit: *limit, over: Over::Class(ClassId(to as u8)) })
}
