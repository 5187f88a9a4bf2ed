//! What holds for any text that claims to be a configuration file. Run by the fuzz target of this name and, over
//! the committed corpus, by the tests of `trunkline-gateway`.

use std::path::Path;

use trunkline_gateway::config::{Config, MAX_CLASSES, MAX_LANES, MAX_QUEUES, Mistakes};
use trunkline_trunk::{ClassId, Over, TrunkPlan};

/// Reads `data` as a file; gives a configuration in which everything has its place, or says what is wrong where.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::parse(text, Path::new("site.toml")) {
        Ok(config) => resolved(&config),
        Err(errors) => told(&errors, text),
    }
}

fn resolved(config: &Config) {
    assert!(!config.name.is_empty());
    let TrunkPlan { classes, groups, .. } = &config.trunk;
    assert!((1..=MAX_CLASSES).contains(&classes.len()));
    for (index, class) in classes.iter().enumerate() {
        let takes_flows_over = |place: usize| {
            let to = Over::Class(ClassId(place as u8));
            classes.iter().filter_map(|class| class.admission).any(|admission| admission.over == to)
        };
        if index + 1 == classes.len() {
            assert!(class.rules.is_empty(), "the last class takes everything");
        } else if class.rules.is_empty() {
            assert!((index + 1..classes.len()).all(takes_flows_over), "a class that never gets a packet");
        }
        let limits = class.queue.limits();
        assert!(limits.segments > 0 && limits.bytes >= 64 << 10);
        assert!(class.share.weight > 0 && class.group < groups.len());
        assert!(class.share.guarantee.is_none_or(|min| class.share.ceiling.is_none_or(|max| min <= max)));
        if let Some(admission) = class.admission {
            assert!(admission.limit > 0);
            if let Over::Class(to) = admission.over {
                let over = classes[to.index()].admission.map(|admission| admission.over);
                assert!(to.index() != index && !matches!(over, Some(Over::Class(_))), "no chains");
            }
        }
        assert!(classes[..index].iter().all(|other| other.name != class.name));
    }
    let lanes: usize = groups.iter().map(|group| usize::from(group.lanes)).sum();
    assert!((1..=MAX_LANES).contains(&lanes));
    for (index, group) in groups.iter().enumerate() {
        assert!(group.lanes > 0 && group.dscp < 64);
        assert!(classes.iter().any(|class| class.group == index), "lanes of nobody");
        assert!(groups[..index].iter().all(|other| other.name != group.name));
    }
    assert!((1..=MAX_QUEUES).contains(&config.tun.queues));
    for (index, peer) in config.peers.iter().enumerate() {
        assert!(!peer.routes.is_empty());
        assert!(peer.routes.iter().all(|route| *route == route.trunc()));
        assert!(peer.endpoint.is_some() || !config.listen.is_empty(), "somebody dials, or an empty listen");
        for other in &config.peers[..index] {
            assert!(other.name != peer.name && other.public_key != peer.public_key);
            assert!(other.routes.iter().all(|route| !peer.routes.contains(route)));
        }
    }
    assert!(config.restart_needed(config).is_empty());
}

fn told(errors: &Mistakes, text: &str) {
    let lines = text.matches('\n').count() + 1;
    let mut before = (0, 0);
    for error in &errors.0 {
        let (line, column) = error.place.expect("every mistake has a place");
        assert!((1..=lines).contains(&line), "line {line} of {lines}");
        assert!(column >= 1 && !error.problem.is_empty());
        assert!((line, column) >= before, "in the order of the file");
        before = (line, column);
    }
    assert!(before.0 > 0, "an error without a mistake");
    assert!(errors.to_string().starts_with("site.toml:"));
}
