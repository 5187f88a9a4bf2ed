//! `lab check`: checks experiments, and prints a summary of each.

use std::collections::BTreeMap;

use trunkline_engine::Engine;
use trunkline_lab::campaign::{Study, work};
use trunkline_lab::experiment::NodeKind;

use super::Errors;
use crate::cli::laboratory::CheckArguments;
use crate::failure::Failure;
use crate::output::print;

pub(super) fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let mut errors = Errors::default();
    for file in &arguments.files {
        let document = errors.check(arguments.changes.read(file, &Engine::Sim));
        if let Some(study) = document.and_then(|document| errors.check(Study::new(&document))) {
            print(&meaning(&file.display().to_string(), &study))?;
        }
    }
    errors.finish("correct them first")
}

fn meaning(file: &str, study: &Study) -> String {
    let experiment = &study.experiment;
    let mut lines = vec![format!("{file}: fine")];
    let mut line = |name: &str, text: String| lines.push(format!("  {name:<9} {text}"));
    line("id", experiment.id.clone());
    line("title", experiment.title.clone());
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in experiment.nodes.values() {
        let name = match kind {
            NodeKind::Host => "hosts",
            NodeKind::Router => "routers",
            NodeKind::Gateway => "gateways",
            NodeKind::Proxy => "proxies",
        };
        *kinds.entry(name).or_default() += 1;
    }
    let kinds: Vec<_> = kinds.iter().map(|(name, count)| format!("{count} {name}")).collect();
    line(
        "network",
        format!("{}, {} links, {} trunks", kinds.join(", "), experiment.links.len(), experiment.trunks.len()),
    );
    let traffic: Vec<_> = experiment
        .traffic
        .iter()
        .map(|(name, spec)| format!("{name} from {} to {}", spec.from, spec.to))
        .collect();
    line("traffic", traffic.join(", "));
    for (axis, _) in &experiment.sweep {
        let mut values: Vec<&str> =
            study.points.iter().filter_map(|planned| planned.point.get(axis)).map(String::as_str).collect();
        let mut seen = std::collections::BTreeSet::new();
        values.retain(|value| seen.insert(*value));
        line("sweep", format!("{axis}: {}", values.join(", ")));
    }
    let cells: usize = experiment.published.iter().map(|published| published.values.len()).sum();
    line("asks", format!("{} claims, {cells} published values", experiment.claims.len()));
    line(
        "runs",
        format!(
            "{} points × {} = {} of {} at most",
            study.points.len(),
            experiment.runs,
            study.runs(),
            experiment.duration
        ),
    );
    let all: f64 = study.points.iter().map(|planned| work(&planned.scenario, &Engine::Sim)).sum();
    line("work", format!("about {} packets over links", thousands(all * f64::from(experiment.runs))));
    lines.join("\n") + "\n"
}

/// A count with two digits: `1.2 million`.
fn thousands(count: f64) -> String {
    match count {
        _ if count >= 1e9 => format!("{:.1} thousand million", count / 1e9),
        _ if count >= 1e6 => format!("{:.1} million", count / 1e6),
        _ => format!("{:.0} thousand", (count / 1e3).max(1.0)),
    }
}
