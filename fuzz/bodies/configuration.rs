//! What holds for any text that claims to be a configuration file. Run by the fuzz target of this name and, over
//! the committed corpus, by the tests of `trunkline-gateway`.

use std::path::Path;

use trunkline_gateway::config::{Config, ConfigErrors, MAX_CLASSES, MAX_QUEUES};

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
    assert!((1..=MAX_CLASSES).contains(&config.classes.len()));
    for (index, class) in config.classes.iter().enumerate() {
        let last = index + 1 == config.classes.len();
        assert_eq!(class.rules.is_empty(), last, "the last class, and no other, takes everything");
        assert!(class.queue.packets > 0 && class.queue.bytes >= 64 << 10);
        assert!(config.classes[..index].iter().all(|other| other.name != class.name));
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

fn told(errors: &ConfigErrors, text: &str) {
    let lines = text.matches('\n').count() + 1;
    let mut before = (0, 0);
    for error in errors.iter() {
        assert!((1..=lines).contains(&error.line), "line {} of {lines}", error.line);
        assert!(error.column >= 1 && !error.problem.is_empty());
        assert!((error.line, error.column) >= before, "in the order of the file");
        before = (error.line, error.column);
    }
    assert!(before.0 > 0, "an error without a mistake");
    assert!(errors.to_string().starts_with("site.toml:"));
}
