//! Settings that are tried.

use std::collections::BTreeMap;

use trunkline_schema::{
    Behaviour, ClassSpec, Classes, Delivery, LaneCount, Name, Protocol, QueueSpec, RuleSpec, Transport,
};
use trunkline_trunk::TrunkPlan;

use crate::experiment::{Experiment, TrunkSpec};

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
        let change = |trunk: &mut TrunkSpec| {
            trunk.enabled = true;
            // Another program has nothing to advise on.
            trunk.program = None;
            // Nobody is advised to send in clear.
            trunk.encryption = None;
        };
        Variant::new("the trunk as it is written", network, &change)
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
            Stage::Filter => "the retransmission filter",
            Stage::Compression => "header compression",
        }
    }

    /// What the best so far has of it, in words.
    pub(super) fn now(self, best: &Variant) -> String {
        let Some(trunk) = best.experiment.trunks.values().next() else { return String::new() };
        match self {
            Stage::Classes => "the classes as they are".to_owned(),
            Stage::Queue => "the queues as they are".to_owned(),
            Stage::Carrier => {
                carried(trunk).map_or_else(|| "what carries them now".to_owned(), str::to_owned)
            }
            Stage::Lanes => "as many lanes as there are".to_owned(),
            Stage::Shares => "the shares as they are".to_owned(),
            Stage::Pacing => format!("edge pacing {}", on(is_paced(trunk))),
            Stage::Filter => {
                let filters = |class: &ClassSpec| class.retransmission_filter != Some(false);
                format!("the retransmission filter {}", on(trunk.classes.list().iter().any(filters)))
            }
            Stage::Compression => format!("header compression {}", on(compresses(trunk))),
        }
    }

    /// What is tried beside the best so far.
    pub(super) fn variants(self, best: &Variant) -> Vec<Variant> {
        let experiment = &best.experiment;
        let Some(trunk) = experiment.trunks.values().next() else { return Vec::new() };
        let vary = |name: &str, change: &dyn Fn(&mut TrunkSpec)| Variant::new(name, experiment, change);
        let all = match self {
            Stage::Classes => vec![
                vary("one class on one lane", &|trunk| lay_out(trunk, &[("all", None)])),
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
                vary("queues of tail drop, 1000 packets", &|trunk| queues(trunk, "tail-drop")),
                vary("queues of tail drop, 100 packets", &|trunk| {
                    queues(trunk, "tail-drop");
                    each(trunk, |class| class.queue.iter_mut().for_each(|queue| queue.packets = Some(100)));
                }),
                vary("queues of codel", &|trunk| queues(trunk, "codel")),
                vary("queues of fq-codel", &|trunk| queues(trunk, "fq-codel")),
                vary("queues of the discipline trunk (P1, P2 and P3)", &|trunk| queues(trunk, "trunk")),
            ],
            Stage::Carrier => CARRIERS
                .iter()
                .filter(|(name, _)| carried(trunk) != Some(*name))
                .map(|(name, delivery)| vary(name, &|trunk| carry(trunk, *delivery)))
                .collect(),
            Stage::Shares => favoured(trunk)
                .iter()
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
            // A lane of datagrams has no filter, and one over QUIC no header compression.
            Stage::Filter if carried(trunk) == Some(DATAGRAMS) => Vec::new(),
            Stage::Compression if trunk.has_quic() => Vec::new(),
            Stage::Pacing => {
                let other = !is_paced(trunk);
                let name = format!("edge pacing {}", on(other));
                vec![vary(&name, &|trunk| trunk.lanes.edge_pacing = Some(other))]
            }
            Stage::Filter => vec![vary("the retransmission filter off", &|trunk| {
                each(trunk, |class| class.retransmission_filter = Some(false));
            })],
            Stage::Compression => {
                let other = !compresses(trunk);
                let name = format!("header compression {}", on(other));
                vec![vary(&name, &|trunk| {
                    each(trunk, |class| class.header_compression = Some(other));
                })]
            }
        };
        all.into_iter().filter(|variant| variant.experiment.trunks != experiment.trunks).collect()
    }
}

const fn on(yes: bool) -> &'static str {
    if yes { "on" } else { "off" }
}

/// Classes whose share is varied: the first ones, which are matched first.
const MAX_FAVOURED: usize = 4;

/// Lanes that a gateway's class may have.
const MAX_LANES_OF_A_CLASS: u32 = 8;

const TCP: &str = "TCP lanes, which retransmit what is lost";
const DATAGRAMS: &str = "lanes of datagrams over QUIC, which retransmit nothing";
const STREAMS: &str = "lanes of streams over QUIC, in which a loss delays its own flow only";
const CARRIERS: [(&str, Option<Delivery>); 3] =
    [(TCP, None), (DATAGRAMS, Some(Delivery::Datagram)), (STREAMS, Some(Delivery::Reliable))];

/// What carries all classes, if it is the same.
fn carried(trunk: &TrunkSpec) -> Option<&'static str> {
    let of = |class: &ClassSpec| match (class.transport, class.delivery) {
        (None | Some(Transport::Tcp), _) => TCP,
        (_, Some(Delivery::Reliable)) => STREAMS,
        (_, None | Some(Delivery::Datagram)) => DATAGRAMS,
    };
    let classes = trunk.classes.list();
    let first = of(classes.first()?);
    classes.iter().all(|class| of(class) == first).then_some(first)
}

fn datagrams() -> RuleSpec {
    RuleSpec { protocol: Some(Protocol::UDP), ..RuleSpec::default() }
}

type Layout = Vec<(&'static str, Option<Vec<RuleSpec>>)>;

fn split() -> Layout {
    vec![("udp", Some(vec![datagrams()])), ("rest", None)]
}

fn interactive() -> Layout {
    let little = RuleSpec { behaviour: Some(Behaviour::Interactive), ..RuleSpec::default() };
    vec![("interactive", Some(vec![little])), ("udp", Some(vec![datagrams()])), ("rest", None)]
}

/// Changes every class, which are written out for it.
fn each(trunk: &mut TrunkSpec, change: impl FnMut(&mut ClassSpec)) {
    let mut classes = trunk.classes.list();
    classes.iter_mut().for_each(change);
    trunk.classes = Classes::List(classes);
}

fn is_paced(trunk: &TrunkSpec) -> bool {
    trunk.lanes.edge_pacing != Some(false)
}

/// Whether any lane compresses headers: one that no class with another wish rides on.
fn compresses(trunk: &TrunkSpec) -> bool {
    trunk.classes.list().iter().any(|class| class.header_compression != Some(false))
}

/// These classes in place of the trunk's own, each on a lane, and otherwise as the last of its own is.
fn lay_out(trunk: &mut TrunkSpec, layout: &[(&str, Option<Vec<RuleSpec>>)]) {
    let Some(last) = trunk.classes.list().pop() else { return };
    let class = |(name, rules): &(&str, Option<Vec<RuleSpec>>)| ClassSpec {
        rules: rules.clone(),
        queue: last.queue.clone(),
        max_wait: last.max_wait,
        retransmission_filter: last.retransmission_filter,
        header_compression: last.header_compression,
        transport: last.transport,
        delivery: last.delivery,
        ..ClassSpec::new(name)
    };
    trunk.classes = Classes::List(layout.iter().map(class).collect());
}

/// All classes on one lane.
fn share(trunk: &mut TrunkSpec) {
    if trunk.classes.list().len() < 2 {
        return;
    }
    each(trunk, |class| {
        class.lane_group = Some(Name("shared".to_owned()));
        (class.lanes, class.congestion_control, class.dscp) = (None, None, None);
    });
}

/// Classes that shares are tried for: a trunk of one class has none to share out.
fn favoured(trunk: &TrunkSpec) -> Vec<String> {
    let classes = trunk.classes.list();
    let several = classes.len() > 1;
    classes.into_iter().filter(|_| several).take(MAX_FAVOURED).map(|class| class.name.0).collect()
}

/// All classes on one lane, and one of them more than it was.
fn favour(trunk: &mut TrunkSpec, name: &str, change: impl Fn(&mut ClassSpec)) {
    share(trunk);
    each(trunk, |class| {
        if class.name.0 == name {
            change(class);
        }
    });
}

/// The lanes of each group: what one of its classes says, and `auto` where the path decides.
fn lanes(classes: &[ClassSpec], auto: u32) -> BTreeMap<&str, u32> {
    let mut lanes = BTreeMap::new();
    for class in classes {
        let group = lanes.entry(class.lane_group()).or_insert(1);
        match class.lanes {
            Some(LaneCount::Number(number)) => *group = number,
            Some(LaneCount::Auto) => *group = auto,
            None => {}
        }
    }
    lanes
}

/// So many lanes for each that there is.
fn multiply(trunk: &mut TrunkSpec, times: u32) {
    let classes = trunk.classes.list();
    let lanes = lanes(&classes, 1);
    each(trunk, |class| {
        let number = lanes.get(class.lane_group()).map(|lanes| lanes.saturating_mul(times));
        class.lanes = number.map(LaneCount::Number);
    });
}

/// Whether a gateway would take them.
fn has_lanes_enough(trunk: &TrunkSpec) -> bool {
    let classes = trunk.classes.list();
    let lanes = lanes(&classes, TrunkPlan::ADAPTIVE_LANES.into());
    let all: u32 = lanes.values().sum();
    lanes.values().all(|lanes| *lanes <= MAX_LANES_OF_A_CLASS) && all as usize <= TrunkPlan::MAX_LANES
}

fn queues(trunk: &mut TrunkSpec, discipline: &str) {
    each(trunk, |class| class.queue = QueueSpec::of(discipline));
}

fn carry(trunk: &mut TrunkSpec, quic: Option<Delivery>) {
    each(trunk, |class| {
        (class.transport, class.delivery) = (quic.map(|_| Transport::Quic), quic);
        if quic.is_some() {
            (class.header_compression, class.replicate) = (None, None);
        }
        if quic == Some(Delivery::Datagram) {
            class.retransmission_filter = None;
        }
    });
}
