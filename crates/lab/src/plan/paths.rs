//! The paths of a trunk: the links by which each leaves its gateways.

use std::sync::Arc;

use trunkline_schema::At;
use trunkline_trunk::{PathPolicy, PathSettings, TrunkPlan};

use super::context::Context;
use super::keys;
use crate::experiment::TrunkSpec;

/// The links of each path at both gateways, where they are named.
type Links = Vec<[Option<usize>; 2]>;

/// Puts a plan for one path on those of the trunk, and gives their links.
pub(super) fn on_paths(
    context: &Context<'_>,
    at: &At<'_>,
    spec: &TrunkSpec,
    gateways: [usize; 2],
    plan: &TrunkPlan,
) -> (TrunkPlan, Links) {
    check_policies(at, spec, plan);
    let at = at.key("paths");
    let count = spec.paths.len();
    if count == 0 {
        return (plan.clone(), Vec::new());
    }
    let mut links: Links = Vec::with_capacity(count);
    for (number, path) in spec.paths.iter().enumerate() {
        let at = at.index(number);
        if PathPolicy::of_word(&path.name.0).is_some() {
            at.key("name")
                .report(format!("{:?} is a word for a choice among paths", path.name.0), "another name");
        }
        if spec.paths[..number].iter().any(|other| other.name == path.name) {
            at.key("name").report_plain(format!("{:?} is the name of two paths", path.name.0));
        }
        if path.cost > PathSettings::MAX_COST {
            at.key("cost").refuse(format!("0 to {}", PathSettings::MAX_COST));
        }
        let found = links_of(context, &at.key("links"), &path.links, gateways);
        if links.contains(&found) {
            at.key("links").report("are those of another path", "links of its own at one gateway or both");
        }
        links.push(found);
    }
    if count > 1 && spec.reserved.is_some() {
        at.report(
            format!("are {count}, and a rate is reserved for the trunk"),
            "one path, or no reserved rate",
        );
    }
    if !plan.fits_paths(count) {
        let (lanes, edge_queues) = plan.counts_on_paths(count);
        at.report(
            format!("are {count}, on which there would be {lanes} lanes and {edge_queues} edge queues"),
            format!(
                "up to {} paths, {} lanes and {} edge queues in all",
                TrunkPlan::MAX_PATHS,
                TrunkPlan::MAX_LANES,
                TrunkPlan::MAX_EDGE_QUEUES
            ),
        );
        return (plan.clone(), Vec::new());
    }
    let settings = spec.paths.iter();
    let settings = settings.map(|path| PathSettings { name: Arc::from(&*path.name.0), cost: path.cost });
    (plan.on_paths(settings.collect()), links)
}

/// A class that names paths names those of the trunk.
fn check_policies(at: &At<'_>, spec: &TrunkSpec, plan: &TrunkPlan) {
    let known = || spec.paths.iter().map(|path| path.name.0.as_str());
    for class in &plan.classes {
        let PathPolicy::Named(names) = &class.paths else { continue };
        if let Some(name) = names.iter().find(|name| known().all(|known| known != &***name)) {
            let problem =
                format!("class {} is to take the path {name:?}, which the trunk does not have", class.name);
            at.key("paths").report(problem, keys::listed(known()));
        }
    }
}

/// The link of a path at each gateway.
fn links_of(
    context: &Context<'_>,
    at: &At<'_>,
    names: &[String],
    gateways: [usize; 2],
) -> [Option<usize>; 2] {
    let mut found = [None; 2];
    if names.is_empty() {
        at.report("is an empty list", "the links by which the path leaves its gateways");
    }
    for (number, name) in names.iter().enumerate() {
        let at = at.index(number);
        let Some((place, _, link)) = context.experiment.links.get_full(name.as_str()) else {
            let links = context.experiment.links.keys().map(String::as_str);
            at.report(format!("there is no link {name:?}"), keys::listed(links));
            continue;
        };
        let ends = link.ends.iter().flatten().filter_map(|end| context.experiment.nodes.get_index_of(end));
        let ends: Vec<usize> = ends.collect();
        let sides: Vec<usize> = (0..2).filter(|side| ends.contains(&gateways[*side])).collect();
        if sides.is_empty() {
            let names = gateways.map(|gateway| context.graph.name(gateway));
            at.report(
                format!("{name} ends at no gateway of the trunk"),
                format!("links of {}", keys::listed(names)),
            );
        }
        for side in sides {
            if found[side].replace(place).is_some() {
                let gateway = context.graph.name(gateways[side]);
                at.report(format!("{name} is the second link at {gateway}"), "one link at each gateway");
            }
        }
    }
    found
}
