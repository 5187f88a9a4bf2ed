//! What a name of a series stands for in a scenario, and how it is read.

use super::measured::{ClassState, Lane, LinkState, Reading, User};
use super::{CLASS_SERIES, GROUP_SERIES, LANE_SERIES, LINK_SERIES, USER_SERIES, way};
use crate::scenario::{Load, Scenario};

/// A subject of a series, by places in the scenario, and how the series is read from its state.
#[derive(Debug, Clone)]
pub(crate) enum Recorded {
    /// Bytes of data that arrived of these sources.
    Sources(Vec<usize>, fn(&u64) -> Reading),
    /// A user of a source.
    User(usize, u32, fn(&User) -> Reading),
    /// One way of a link.
    Link(usize, usize, fn(&LinkState) -> Reading),
    /// A class at one side of a trunk.
    Class((usize, usize), usize, fn(&ClassState) -> Reading),
    /// A lane at one side of a trunk.
    Lane((usize, usize), usize, fn(&Lane) -> Reading),
}

/// `None` of what the scenario has not, such as a class of a trunk that is not enabled.
pub(crate) fn recorded(scenario: &Scenario, name: &str) -> Option<Recorded> {
    let of = |subject: &str| name.strip_prefix(subject)?.strip_prefix('.');
    let groups = scenario.traffic.iter().map(|traffic| traffic.group.as_str()).chain(["all"]);
    for group in groups {
        if let Some(read) = of(group).and_then(|quantity| GROUP_SERIES.reader(quantity)) {
            let sources = scenario.traffic.iter().enumerate();
            let own = sources.filter(|(_, traffic)| group == "all" || traffic.group == group);
            return Some(Recorded::Sources(own.map(|(source, _)| source).collect(), read));
        }
    }
    for (source, traffic) in scenario.traffic.iter().enumerate() {
        let Some((user, quantity)) = of(&traffic.name).and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let Ok(user) = user.parse::<u32>() else { continue };
        let there = match &traffic.load {
            Load::Tcp { pattern, .. } => user < pattern.users(),
            Load::Udp { .. } => user == 0 && quantity == "goodput",
        };
        if let Some(read) = USER_SERIES.reader(quantity).filter(|_| there) {
            return Some(Recorded::User(source, user, read));
        }
    }
    let sides = |count: usize| (0..count).flat_map(|number| [(number, 0), (number, 1)]);
    for (link, side) in sides(scenario.links.len()) {
        let quantity = of(&way(&scenario.links[link].name, side));
        if let Some(read) = quantity.and_then(|quantity| LINK_SERIES.reader(quantity)) {
            return Some(Recorded::Link(link, side, read));
        }
    }
    for (number, side) in sides(scenario.trunks.len()) {
        let trunk = &scenario.trunks[number];
        let rest = of(&way(&trunk.name, side)).and_then(|rest| rest.split_once('.'));
        let Some((part, quantity)) = rest else { continue };
        let class = trunk.plan.classes.iter().position(|class| *class.name == *part);
        if let Some((class, read)) = class.zip(CLASS_SERIES.reader(quantity)) {
            return Some(Recorded::Class((number, side), class, read));
        }
        let lane = part.strip_prefix("lane").and_then(|number| number.parse::<usize>().ok());
        let lane = lane.filter(|lane| *lane < trunk.plan.lane_count());
        if let Some((lane, read)) = lane.zip(LANE_SERIES.reader(quantity)) {
            return Some(Recorded::Lane((number, side), lane, read));
        }
    }
    None
}
