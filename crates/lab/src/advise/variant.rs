//! Settings that are tried.

use indexmap::IndexMap;
use trunkline_trunk::TrunkPlan;

use crate::experiment::{Carrier, ClassSpec, Discipline, Experiment, QueueSpec, RuleSpec, TrunkSpec};

/// A network with certain settings of its trunks.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    /// What is different, in words.
    pub(super) name: String,
    pub(super) experiment: Experiment,
}

impl Variant {
    pub(super) fn without(network: &Experiment) -> Self {
        Variant::new("no trunk", network, &|trunk| trunk.enabled = false)
    }

    pub(super) fn as_is(network: &Experiment) -> Self {
        Variant::new("the trunk as it is written", network, &|trunk| trunk.enabled = true)
    }

    fn new(name: &str, from: &Experiment, change: &dyn Fn(&mut TrunkSpec)) -> Self {
        let mut experiment = from.clone();
        experiment.trunks.values_mut().for_each(change);
        Variant { name: name.to_owned(), experiment }
    }
}

/// A setting that is varied while the others stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Classes,
    Queue,
    Carrier,
    Shares,
    Lanes,
    Pacing,
    Filter,
    Compression,
}

impl Stage {
    /// What matters most comes first.
    pub(super) const ALL: [Stage; 8] = [
        Stage::Classes,
        Stage::Queue,
        Stage::Carrier,
        Stage::Shares,
        Stage::Lanes,
        Stage::Pacing,
        Stage::Filter,
        Stage::Compression,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Stage::Classes => "classes and their lanes",
            Stage::Queue => "the queue at the edge",
            Stage::Carrier => "what carries the lanes",
            Stage::Shares => "weights and priority",
            Stage::Lanes => "how many lanes",
            Stage::Pacing => "edge pacing",
            Stage::Filter => "the repeat filter",
            Stage::Compression => "header compression",
        }
    }

    /// What the best so far has of it, in words.
    pub(super) fn now(self, best: &Variant) -> String {
        let Some(trunk) = best.experiment.trunks.values().next() else { return String::new() };
        let on = |yes: bool| if yes { "on" } else { "off" }.to_owned();
        match self {
            Stage::Classes => "the classes as they are".to_owned(),
            Stage::Queue => "the queues as they are".to_owned(),
            Stage::Carrier if trunk.carrier == Carrier::Datagrams => DATAGRAMS.to_owned(),
            Stage::Carrier => TCP.to_owned(),
            Stage::Lanes => "as many lanes as there are".to_owned(),
            Stage::Shares => "the shares as they are".to_owned(),
            Stage::Pacing => format!("edge pacing {}", on(trunk.edge_pacing)),
            Stage::Filter => {
                format!(
                    "the repeat filter {}",
                    on(trunk.classes.is_empty()
                        || trunk.classes.values().any(|class| class.repeat_filter != Some(false)))
                )
            }
            Stage::Compression => format!("header compression {}", on(trunk.compression)),
        }
    }

    /// What is tried beside the best so far.
    pub(super) fn variants(self, best: &Variant) -> Vec<Variant> {
        let experiment = &best.experiment;
        let Some(trunk) = experiment.trunks.values().next() else { return Vec::new() };
        let tcp = trunk.carrier == Carrier::Tcp;
        let vary = |name: &str, change: &dyn Fn(&mut TrunkSpec)| Variant::new(name, experiment, change);
        let all = match self {
            Stage::Classes => vec![
                vary("one class on one lane", &|trunk| lay_out(trunk, &[("all", Vec::new())])),
                vary("a lane for datagrams and one for the rest", &|trunk| lay_out(trunk, &split())),
                vary("the same two classes on one lane, by equal weights", &|trunk| {
                    lay_out(trunk, &split());
                    share(trunk);
                }),
                vary("lanes for flows that send little, for datagrams and for the rest", &|trunk| {
                    lay_out(trunk, &interactive());
                }),
                vary("its own classes on one lane, by their weights", &share),
            ],
            Stage::Queue => vec![
                vary("queues of tail drop, 1000 packets", &|trunk| queues(trunk, Discipline::TailDrop)),
                vary("queues of tail drop, 100 packets", &|trunk| {
                    queues(trunk, Discipline::TailDrop);
                    let short = |queue: &mut QueueSpec| queue.packets = Some(100);
                    trunk.classes.values_mut().filter_map(|class| class.queue.as_mut()).for_each(short);
                }),
                vary("queues of codel", &|trunk| queues(trunk, Discipline::CoDel)),
                vary("queues of fq-codel", &|trunk| queues(trunk, Discipline::FqCoDel)),
                vary("queues of the discipline trunk (P1, P2 and P3)", &|trunk| {
                    queues(trunk, Discipline::Trunk);
                }),
            ],
            Stage::Carrier if tcp => vec![vary(DATAGRAMS, &|trunk| carry(trunk, Carrier::Datagrams))],
            Stage::Carrier => vec![vary(TCP, &|trunk| carry(trunk, Carrier::Tcp))],
            Stage::Shares => favoured(trunk)
                .flat_map(|name| {
                    [
                        vary(&format!("classes on one lane, {name} with priority"), &|trunk| {
                            favour(trunk, name, |class| class.priority = Some(true));
                        }),
                        vary(&format!("classes on one lane, {name} with three times its weight"), &|trunk| {
                            favour(trunk, name, |class| class.weight = Some(class.weight.unwrap_or(1) * 3));
                        }),
                    ]
                })
                .collect(),
            Stage::Lanes => [2, 4]
                .map(|times| {
                    vary(&format!("{times} lanes in place of each"), &|trunk| multiply(trunk, times))
                })
                .into_iter()
                .filter(|variant| variant.experiment.trunks.values().all(has_lanes_enough))
                .collect(),
            // A lane of datagrams has neither of these.
            Stage::Pacing | Stage::Filter | Stage::Compression if !tcp => Vec::new(),
            Stage::Pacing if trunk.edge_pacing => {
                vec![vary("edge pacing off", &|trunk| trunk.edge_pacing = false)]
            }
            Stage::Pacing => vec![vary("edge pacing on", &|trunk| trunk.edge_pacing = true)],
            Stage::Filter => vec![vary("the repeat filter off", &|trunk| filter(trunk, Some(false)))],
            Stage::Compression if trunk.compression => {
                vec![vary("header compression off", &|trunk| trunk.compression = false)]
            }
            Stage::Compression => vec![vary("header compression on", &|trunk| trunk.compression = true)],
        };
        all.into_iter().filter(|variant| variant.experiment.trunks != experiment.trunks).collect()
    }
}

/// Classes whose share is varied: the first ones, which are matched first.
const MOST_FAVOURED: usize = 4;

/// Lanes that a gateway's class may have.
const MOST_OF_A_CLASS: u8 = 8;

const TCP: &str = "TCP lanes, which repeat what is lost";
const DATAGRAMS: &str =
    "lanes of datagrams, which repeat nothing (in the simulator alone: the gateway's lanes are TCP)";

fn datagrams() -> RuleSpec {
    RuleSpec { protocol: Some("udp".to_owned()), ..RuleSpec::default() }
}

type Layout = Vec<(&'static str, Vec<RuleSpec>)>;

fn split() -> Layout {
    vec![("udp", vec![datagrams()]), ("rest", Vec::new())]
}

fn interactive() -> Layout {
    let little = RuleSpec { interactive: true, ..RuleSpec::default() };
    vec![("interactive", vec![little]), ("udp", vec![datagrams()]), ("rest", Vec::new())]
}

/// These classes in place of the trunk's own, each on a lane, with the queue that the last of its own has.
fn lay_out(trunk: &mut TrunkSpec, layout: &[(&str, Vec<RuleSpec>)]) {
    let queue = trunk.classes.values().next_back().and_then(|class| class.queue);
    let repeat_filter = (trunk.carrier == Carrier::Datagrams).then_some(false);
    let class = |rules: &Vec<RuleSpec>| ClassSpec {
        rules: rules.clone(),
        queue,
        repeat_filter,
        ..ClassSpec::default()
    };
    trunk.classes = layout.iter().map(|(name, rules)| ((*name).to_owned(), class(rules))).collect();
    trunk.lanes = IndexMap::new();
}

/// All classes on one lane.
fn share(trunk: &mut TrunkSpec) {
    if trunk.classes.len() < 2 {
        return;
    }
    trunk.classes.values_mut().for_each(|class| class.lane = Some("shared".to_owned()));
    trunk.lanes = IndexMap::new();
}

/// Classes that shares are tried for: a trunk of one class has none to share out.
fn favoured(trunk: &TrunkSpec) -> impl Iterator<Item = &str> {
    let several = trunk.classes.len() > 1;
    trunk.classes.keys().filter(move |_| several).take(MOST_FAVOURED).map(String::as_str)
}

/// All classes on one lane, and one of them more than it was.
fn favour(trunk: &mut TrunkSpec, name: &str, change: impl Fn(&mut ClassSpec)) {
    share(trunk);
    trunk.classes.get_mut(name).into_iter().for_each(change);
}

/// So many lanes for each that there is.
fn multiply(trunk: &mut TrunkSpec, times: u8) {
    ensure_class(trunk);
    let lane = |(name, class): (&String, &ClassSpec)| class.lane.clone().unwrap_or_else(|| name.clone());
    let names: Vec<String> = trunk.classes.iter().map(lane).collect();
    for name in names {
        let lanes = trunk.lanes.get(&name).copied().unwrap_or(1);
        trunk.lanes.insert(name, lanes);
    }
    trunk.lanes.values_mut().for_each(|lanes| *lanes = lanes.saturating_mul(times));
}

/// Whether a gateway would take them.
fn has_lanes_enough(trunk: &TrunkSpec) -> bool {
    let all: usize = trunk.lanes.values().map(|lanes| usize::from(*lanes)).sum();
    trunk.lanes.values().all(|lanes| *lanes <= MOST_OF_A_CLASS) && all <= TrunkPlan::MAX_LANES
}

/// One class of its own, if it has none.
fn ensure_class(trunk: &mut TrunkSpec) {
    if trunk.classes.is_empty() {
        trunk.classes.insert("all".to_owned(), ClassSpec::default());
    }
}

fn queues(trunk: &mut TrunkSpec, kind: Discipline) {
    ensure_class(trunk);
    for class in trunk.classes.values_mut() {
        class.queue = Some(QueueSpec { kind, ..EMPTY });
    }
}

pub(super) const EMPTY: QueueSpec = QueueSpec {
    kind: Discipline::TailDrop,
    packets: None,
    bytes: None,
    min: None,
    max: None,
    max_p: None,
    weight: None,
    gentle: None,
    min_flow: None,
    target: None,
    interval: None,
    queues: None,
    sized: None,
    early: None,
    spares: None,
    spare: None,
    threshold: None,
    ecn: None,
};

fn filter(trunk: &mut TrunkSpec, filter: Option<bool>) {
    ensure_class(trunk);
    trunk.classes.values_mut().for_each(|class| class.repeat_filter = filter);
}

fn carry(trunk: &mut TrunkSpec, carrier: Carrier) {
    trunk.carrier = carrier;
    if carrier == Carrier::Datagrams {
        filter(trunk, None);
        (trunk.compression, trunk.edge_pacing, trunk.sealed) = (false, false, false);
    }
}
