//! Names that a file gives: what they are made of, and that no two name the same metrics.

use crate::experiment::{Experiment, LinkSpec, NodeKind};
use trunkline_schema::{At, Classes};

/// Subjects of metrics that are there anyway.
const RESERVED: [&str; 2] = ["all", "run"];
const ALLOWED: &str = "1 to 32 of A-Z a-z 0-9 _ -";

/// Whether this can be a name.
pub(super) fn check(at: &At<'_>, name: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 32 || !name.chars().all(plain) {
        at.report(format!("{name:?} is no name"), ALLOWED);
    }
}

/// Whether all names can be, beside each other.
pub(super) fn check_all(experiment: &Experiment, root: &At<'_>) {
    for (name, spec) in &experiment.traffic {
        let at = root.key("traffic").key(name);
        check(&at, name);
        let at = if spec.group.is_some() { at.key("group") } else { at };
        subject(&at, spec.group.as_ref().unwrap_or(name));
    }
    for name in experiment.links.keys() {
        let at = root.key("links").key(name);
        check(&at, name);
        subject(&at, name);
    }
    for (name, spec) in &experiment.trunks {
        let at = root.key("trunks").key(name);
        check(&at, name);
        subject(&at, name);
        differs(&at, name, ("trunk", "link"), experiment.links.contains_key(name));
        if let Classes::List(classes) = &spec.classes {
            for (place, class) in classes.iter().enumerate() {
                check_class(&at.key("classes").index(place).key("name"), &class.name.0);
            }
        }
    }
    let damaged = corrupts(experiment);
    for (name, kind) in &experiment.nodes {
        let at = root.key("nodes").key(name);
        check(&at, name);
        subject(&at, name);
        let counts = damaged || *kind == NodeKind::Proxy;
        differs(&at, name, ("node", "link"), counts && experiment.links.contains_key(name));
    }
    for name in experiment.tcp.keys() {
        check(&root.key("tcp").key(name), name);
    }
}

/// Metrics stand behind this name, as those of the whole do behind theirs.
fn subject(at: &At<'_>, name: &str) {
    if RESERVED.contains(&name) {
        at.report(format!("{name} is what metrics of the whole are called"), "another name");
    }
}

/// Two kinds of things some of whose metrics have the same names. (Those of traffic are of its own.)
fn differs(at: &At<'_>, name: &str, (kind, other): (&str, &str), is_both: bool) {
    if is_both {
        let problem = format!("{name} is a {kind} and a {other}: their metrics would have the same names");
        at.report(problem, "another name");
    }
}

/// Whether packets are damaged, which links and nodes count under the same name.
fn corrupts(experiment: &Experiment) -> bool {
    let corrupts = |spec: &LinkSpec| spec.corruption.is_some_and(|share| share.0 > 0.0);
    experiment.links.values().any(|link| corrupts(link) || link.back.as_deref().is_some_and(corrupts))
}

/// A class' metrics stand behind the trunk's name, beside the trunk's own.
fn check_class(at: &At<'_>, name: &str) {
    let taken = ["back", "delivered", "drops", "filtered", "queue", "refused"].contains(&name);
    let lane = name.strip_prefix("lane").is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()));
    if taken || lane {
        at.report("is what a metric of the trunk is called", "another name");
    }
}
