//! What is allowed and still unlikely to work as meant.

use super::{ClassConfig, Config, Endpoint, Host};

pub(super) fn of(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for class in &config.classes {
        let shares = config.classes.iter().filter(|other| other.lane_group == class.lane_group).count() > 1;
        if shares {
            warnings.extend(unbounded_priority(config, class));
            warnings.extend(beside_priority(class));
        } else {
            warnings.extend(alone(class));
        }
    }
    if config.lanes.fwmark.is_none() {
        warnings.extend(endpoints_in_the_trunk(config));
    }
    warnings
}

/// What only decides between classes, of a class that has its lanes to itself.
fn alone(class: &ClassConfig) -> impl Iterator<Item = String> {
    [
        ("weight", class.weight != 1),
        ("guarantee", class.guarantee.is_some()),
        ("priority", class.priority),
    ]
    .into_iter()
    .filter(|(_, given)| *given)
    .map(|(key, _)| {
        format!(
            "classes.{}.{key}: has no effect, since it decides among classes that share a lane and this class \
             shares none; give another class lane = {:?}",
            class.name, class.name
        )
    })
}

fn unbounded_priority(config: &Config, class: &ClassConfig) -> Option<String> {
    (class.priority && class.ceiling.is_none()).then(|| {
        format!(
            "classes.{}.priority: without a ceiling it can take all of lane {:?} from the classes it shares it \
             with",
            class.name,
            config.lane_group(class).name
        )
    })
}

/// What a class that goes first anyway does not need.
fn beside_priority(class: &ClassConfig) -> impl Iterator<Item = String> {
    [("weight", class.weight != 1), ("guarantee", class.guarantee.is_some())]
        .into_iter()
        .filter(|(_, given)| class.priority && *given)
        .map(|(key, _)| {
            format!(
                "classes.{}.{key}: has no effect, since the class has priority over the others",
                class.name
            )
        })
}

/// Lanes that would be routed into the trunk they make.
fn endpoints_in_the_trunk(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for peer in &config.peers {
        let Some(Endpoint { host: Host::Address(address), .. }) = &peer.endpoint else { continue };
        for owner in &config.peers {
            if let Some(route) = owner.routes.iter().find(|route| route.contains(address)) {
                warnings.push(format!(
                    "peers.{}.endpoint: {address} lies within {route}, which is routed into the trunk itself; \
                     give its lanes a route of their own, by lanes.fwmark and a rule or by a host route",
                    peer.name
                ));
            }
        }
    }
    warnings
}
