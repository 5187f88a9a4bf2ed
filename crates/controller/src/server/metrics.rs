//! Metrics, in the text form of Prometheus (version 0.0.4).

use std::fmt::Write as _;

use super::fleet::FleetStatus;

/// What is measured of a network.
pub(super) fn text(status: &FleetStatus) -> String {
    let count = |what: &dyn Fn(&super::fleet::SiteStatus) -> bool| {
        status.sites.iter().filter(|site| what(site)).count() as u64
    };
    let short = status.sites.iter().map(|site| site.short.len() as u64).sum();
    let failed =
        |site: &super::fleet::SiteStatus| site.report.as_ref().is_some_and(|report| report.error.is_some());
    let gauges: [(&str, &str, u64); 11] = [
        ("revision", "The revision of the network's document.", status.revision),
        ("sequence", "Changes so far.", status.sequence),
        ("trunks_carried", "Trunks that have what they ask for.", status.carried as u64),
        ("trunks_refused", "Trunks that have no guarantee.", status.refused as u64),
        ("trunks_with_problems", "Trunks that cannot come up.", status.problems.len() as u64),
        ("trunks_short", "Trunks whose measured capacity is below what is reserved.", short),
        (
            "rollout_step",
            "The step of the roll-out that runs; 0: none does.",
            status.rollout.as_ref().map_or(0, |rollout| rollout.step as u64),
        ),
        ("sites", "Sites.", status.sites.len() as u64),
        ("sites_connected", "Sites that ask for their configuration.", count(&|site| site.connected)),
        (
            "sites_current",
            "Sites that have the configuration that they are to have.",
            count(&|site| site.current),
        ),
        ("sites_failed", "Sites that have refused their configuration.", count(&failed)),
    ];
    let mut text = String::new();
    for (name, help, value) in gauges {
        let name = format!("trunkline_controller_{name}");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    }
    text
}
