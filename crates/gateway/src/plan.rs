//! What the workers need of a configuration: classes, peers, routes. Plain values, made anew at each reload.

use std::iter;
use std::sync::Arc;

use ipnet::IpNet;
use trunkline_trunk::{ClassSettings, Protocol, Rule};

use crate::config::{ClassConfig, Config, ProtocolMatch, RuleConfig};
use crate::keys::PublicKey;

/// The workers' view of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) classes: Vec<ClassSettings>,
    pub(crate) peers: Vec<PeerPlan>,
}

/// One peer in a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerPlan {
    pub(crate) key: PublicKey,
    pub(crate) routes: Vec<IpNet>,
}

impl Plan {
    pub(crate) fn new(config: &Config) -> Arc<Plan> {
        Arc::new(Plan {
            classes: config.classes.iter().map(class).collect(),
            peers: config
                .peers
                .iter()
                .map(|peer| PeerPlan { key: peer.public_key, routes: peer.routes.clone() })
                .collect(),
        })
    }
}

fn class(config: &ClassConfig) -> ClassSettings {
    ClassSettings {
        name: config.name.as_str().into(),
        rules: config.rules.iter().map(rule).collect(),
        queue: config.queue,
    }
}

fn rule(config: &RuleConfig) -> Rule {
    Rule {
        protocol: config.protocol.map(|protocol| match protocol {
            ProtocolMatch::Number(number) => Protocol::Number(number),
            ProtocolMatch::Icmp => Protocol::AnyIcmp,
        }),
        // The core judges neither lengths nor behaviour yet: such a rule takes nothing, instead of more than it says.
        dscp: if config.length.is_empty() && config.behaviour.is_none() {
            (!config.dscp.is_empty()).then(|| config.dscp.iter().copied().collect())
        } else {
            Some(iter::empty().collect())
        },
        source: config.source,
        destination: config.destination,
        source_ports: config.source_port.clone(),
        destination_ports: config.destination_port.clone(),
        either_ports: config.port.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_rule_never_takes_more_than_it_says() {
        let config = Config::parse("private_key_file = \"k\"\n", Path::new("a.toml")).expect("the defaults");
        let plan = Plan::new(&config);
        for class in &plan.classes[..plan.classes.len() - 1] {
            assert!(
                class.rules.iter().all(|rule| rule.protocol.is_some() || rule.dscp.is_some()),
                "{class:?}"
            );
        }
    }
}
