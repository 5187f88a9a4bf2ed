//! What is advised, as TOML to paste.
//!
//! Of a site's file it is tables alone, with absolute names: they mean the same wherever they are put, as long as that is not within
//! another table. A key of the file itself, such as `classes = "split"`, would become one of the last table before it. What
//! protects data is the site's own to say, and never advised.

use std::collections::BTreeSet;
use std::fmt::Write;

use indexmap::IndexMap;
use trunkline_schema::{Classes, CongestionControlName, LanesSpec};

use crate::experiment::{Experiment, TrunkSpec};

/// `[trunks…]` of an experiment.
pub(super) fn experiment(experiment: &Experiment) -> String {
    toml::to_string(&IndexMap::from([("trunks", &experiment.trunks)])).unwrap_or_default()
}

/// The end of a gateway's file, for each trunk (see docs/configuration.md). What only a simulator knows is said in comments.
pub(super) fn gateway(experiment: &Experiment) -> String {
    let several = experiment.trunks.len() > 1;
    let each = experiment.trunks.iter().map(|(name, trunk)| {
        let [near, far] = &trunk.gateways;
        let head = if several {
            format!("# ---- trunk {name}: for the files of {near} and {far} ----\n")
        } else {
            String::new()
        };
        head + &of_trunk(trunk)
    });
    let each = each.collect::<Vec<_>>().join("\n");
    let ends = || experiment.trunks.values().flat_map(|trunk| &trunk.gateways);
    let twice: BTreeSet<&str> =
        ends().filter(|end| ends().filter(|other| other == end).count() > 1).map(String::as_str).collect();
    let shared = twice.iter().map(|gateway| {
        format!("# {gateway} ends several trunks: its file has one [lanes] and one list of classes, for all peers.\n")
    });
    shared.collect::<String>() + &each
}

fn of_trunk(trunk: &TrunkSpec) -> String {
    let mut notes = String::new();
    let mut site = trunk.site();
    if site.lanes.congestion_control.is_none() {
        let named = |name: &str| Some(CongestionControlName(name.to_owned()));
        site.lanes.congestion_control = match trunk.tcp.as_deref() {
            None => None,
            Some("linux-6") => named("cubic"),
            Some("linux-6-reno") => named("reno"),
            Some(other) => {
                let _ = writeln!(
                    notes,
                    "# The lanes' TCP is {other}: no gateway's kernel has that; congestion_control is yours to choose."
                );
                None
            }
        };
    }
    site.name_hosts(|class, key, host| {
        let _ = writeln!(notes, "# Class {class}: put the prefix of {host} for its {key}.");
        format!("PREFIX-OF-{host}")
    });
    site.encryption = None;
    site.classes = Classes::List(site.classes.list());
    let _ = writeln!(notes, "# In place of the file's own classes: `classes = …` or [[classes]].");
    if site.lanes != LanesSpec::default() {
        let _ = writeln!(
            notes,
            "# In place of its [lanes] too: what that says of fwmark and keepalive belongs here."
        );
    }
    notes + &toml::to_string(&site).unwrap_or_default()
}
