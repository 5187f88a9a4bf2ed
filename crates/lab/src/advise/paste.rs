//! What is advised, as TOML to paste.

use std::collections::BTreeSet;
use std::fmt::Write;

use toml::{Table, Value};

use crate::experiment::{Carrier, ClassSpec, Discipline, Experiment, QueueSpec, RuleSpec, TrunkSpec};

/// `[trunks…]` of an experiment.
pub(super) fn experiment(experiment: &Experiment) -> String {
    let trunks = Value::try_from(&experiment.trunks).unwrap_or(Value::Boolean(false));
    toml::to_string(&Table::from_iter([("trunks".to_owned(), trunks)])).unwrap_or_default()
}

/// What a gateway's file is to say, for each trunk (see docs/configuration.md). What only a simulator knows is said in comments.
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
    if trunk.carrier == Carrier::Datagrams {
        notes += "# The gateway's lanes are TCP: lanes of datagrams are the simulator's.\n";
    }
    let all = [("all".to_owned(), ClassSpec::default())];
    let classes: Vec<Value> = if trunk.classes.is_empty() {
        all.iter().map(|(name, spec)| class(name, spec, trunk, &mut notes)).collect()
    } else {
        trunk.classes.iter().map(|(name, spec)| class(name, spec, trunk, &mut notes)).collect()
    };
    let mut lanes = Table::from_iter([("edge_pacing".to_owned(), Value::Boolean(trunk.edge_pacing))]);
    match trunk.tcp.as_deref() {
        None | Some("linux-6") => lanes.insert("congestion_control".to_owned(), "cubic".into()),
        Some("linux-6-reno") => lanes.insert("congestion_control".to_owned(), "reno".into()),
        Some(other) => {
            let _ = writeln!(
                notes,
                "# The lanes' TCP is {other}: no gateway's kernel has that; congestion_control is yours to choose."
            );
            None
        }
    };
    let file = Table::from_iter([
        ("lanes".to_owned(), Value::Table(lanes)),
        ("classes".to_owned(), Value::Array(classes)),
    ]);
    notes + &toml::to_string(&file).unwrap_or_default()
}

fn class(name: &str, spec: &ClassSpec, trunk: &TrunkSpec, notes: &mut String) -> Value {
    let mut class = Table::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            class.insert(key.to_owned(), value);
        }
    };
    put("name", Some(name.into()));
    let rules: Vec<Value> = spec.rules.iter().map(|one| rule(one, name, notes)).collect();
    put("match", Some(Value::Array(rules)).filter(|_| !spec.rules.is_empty()));
    if spec.queue.is_some_and(|queue| queue.spare.is_some()) {
        let _ = writeln!(notes, "# Class {name}: spare is the simulator's; a gateway has its own K.");
    }
    put("queue", Some(queue(&spec.queue.unwrap_or(super::variant::EMPTY))));
    put("lane", spec.lane.clone().map(Value::String));
    let lanes = trunk.lanes.get(spec.lane.as_deref().unwrap_or(name));
    put("lanes", lanes.map(|lanes| i64::from(*lanes).into()));
    put("dscp", trunk.dscp.map(|dscp| i64::from(dscp).into()));
    put("weight", spec.weight.map(|weight| i64::from(weight).into()));
    let rate = |rate: crate::quantity::Rate| Value::String(format!("{} bit/s", rate.0.bits_per_second()));
    put("guarantee", spec.guarantee.map(rate));
    put("ceiling", spec.ceiling.map(rate));
    put("priority", spec.priority.map(Value::Boolean));
    put("flows", spec.flows.as_ref().and_then(|flows| Value::try_from(flows).ok()));
    put("repeat_filter", spec.repeat_filter.map(Value::Boolean));
    // The gateway compresses unless told otherwise.
    put("header_compression", (!trunk.compression).then_some(Value::Boolean(false)));
    Value::Table(class)
}

fn rule(rule: &RuleSpec, class: &str, notes: &mut String) -> Value {
    let mut table = Table::new();
    if let Some(protocol) = &rule.protocol {
        table.insert("protocol".to_owned(), protocol.clone().into());
    }
    let list = |values: &mut dyn Iterator<Item = i64>| Value::Array(values.map(Value::Integer).collect());
    if !rule.dscp.is_empty() {
        table.insert("dscp".to_owned(), list(&mut rule.dscp.iter().map(|dscp| i64::from(*dscp))));
    }
    if !rule.port.is_empty() {
        table.insert("port".to_owned(), list(&mut rule.port.iter().map(|port| i64::from(*port))));
    }
    if rule.interactive {
        table.insert("behaviour".to_owned(), "interactive".into());
    }
    for (key, host) in [("source", &rule.source), ("destination", &rule.destination)] {
        if let Some(host) = host {
            let _ = writeln!(notes, "# Class {class}: put the prefix of {host} for its {key}.");
            table.insert(key.to_owned(), format!("PREFIX-OF-{host}").into());
        }
    }
    Value::Table(table)
}

/// The same keys, but for the discipline's own.
fn queue(spec: &QueueSpec) -> Value {
    let mut table = match Value::try_from(spec) {
        Ok(Value::Table(table)) => table,
        _ => Table::new(),
    };
    if let Some(kind) = table.remove("kind") {
        table.insert("discipline".to_owned(), kind);
    }
    table.remove("spare");
    // A gateway marks unless told otherwise.
    if !matches!(spec.kind, Discipline::TailDrop | Discipline::FairTailDrop) {
        table.entry("ecn").or_insert(Value::Boolean(false));
    }
    let in_packets = table.get("discipline").and_then(Value::as_str) == Some("red")
        && table.get("min").is_some_and(Value::is_integer);
    if in_packets {
        table.insert("unit".to_owned(), "packets".into());
    }
    Value::Table(table)
}
