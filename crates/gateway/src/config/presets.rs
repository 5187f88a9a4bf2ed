//! Classes by one word, and the queue of a class that asks for none.

use trunkline_queue::{CoDelSettings, FqCoDelSettings, Settings, TrunkSettings};

use super::values::{TCP, UDP};
use super::{Behaviour, ClassConfig, LaneGroupConfig, LanesConfig, ProtocolMatch, RuleConfig};

/// Classes that need not be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Preset {
    /// What is urgent or sends little, the rest of TCP, everything else.
    #[default]
    Interactive,
    /// TCP and everything else.
    Split,
    /// One for everything.
    Single,
}

/// The words for presets.
pub(super) const PRESETS: [(&str, Preset); 3] =
    [("interactive", Preset::Interactive), ("split", Preset::Split), ("single", Preset::Single)];

/// The classes of a preset, each with one lane of its own.
pub(super) fn classes(preset: Preset, lanes: &LanesConfig) -> (Vec<ClassConfig>, Vec<LaneGroupConfig>) {
    let protocol = |protocol| RuleConfig { protocol: Some(protocol), ..RuleConfig::default() };
    let tcp = || ("tcp", vec![protocol(ProtocolMatch::Number(TCP))], trunk());
    let classes = match preset {
        Preset::Interactive => {
            let short_talks = |number| RuleConfig {
                port: vec![22..=22, 53..=53, 123..=123],
                ..protocol(ProtocolMatch::Number(number))
            };
            // EF, VA, CS4 to CS7, AF41 to AF43: what RFC 4594 has for voice, video calls, signalling and control.
            let urgent =
                RuleConfig { dscp: vec![46, 44, 32, 40, 48, 56, 34, 36, 38], ..RuleConfig::default() };
            let small = RuleConfig { behaviour: Some(Behaviour::Interactive), ..RuleConfig::default() };
            let rules =
                vec![protocol(ProtocolMatch::Icmp), urgent, short_talks(TCP), short_talks(UDP), small];
            vec![("interactive", rules, fq_codel()), tcp(), ("other", Vec::new(), codel())]
        }
        Preset::Split => vec![tcp(), ("udp", Vec::new(), codel())],
        Preset::Single => vec![("all", Vec::new(), fq_codel())],
    };
    let groups = classes.iter().map(|(name, ..)| LaneGroupConfig {
        name: (*name).to_owned(),
        count: 1,
        congestion_control: lanes.congestion_control.clone(),
        dscp: 0,
    });
    let groups = groups.collect();
    let classes = classes.into_iter().enumerate().map(|(lane_group, (name, rules, queue))| ClassConfig {
        name: name.to_owned(),
        rules,
        queue,
        lane_group,
        weight: 1,
        guarantee: None,
        ceiling: None,
        priority: false,
        admission: None,
        repeat_filter: true,
        header_compression: true,
    });
    (classes.collect(), groups)
}

/// The queue of a class with these rules that asks for none: the trunk's own for TCP, `CoDel` for what does not
/// answer to it, and flows kept apart where both may meet.
pub(super) fn queue(rules: &[RuleConfig]) -> Settings {
    if rules.is_empty() {
        fq_codel()
    } else if rules.iter().all(RuleConfig::is_tcp) {
        trunk()
    } else if rules.iter().any(RuleConfig::may_be_tcp) {
        fq_codel()
    } else {
        codel()
    }
}

fn trunk() -> Settings {
    Settings::Trunk(TrunkSettings::default())
}

fn codel() -> Settings {
    Settings::CoDel(CoDelSettings::default())
}

fn fq_codel() -> Settings {
    Settings::FqCoDel(FqCoDelSettings::default())
}
