//! Classes by one word.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::{Dscp, LaneCount, OneOrMany, Ports, Protocol};
use crate::{Behaviour, ClassSpec, QueueSpec, RuleSpec};

/// Classes that need not be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Urgent packets and flows that send little; the rest of TCP; everything else.
    #[default]
    Interactive,
    /// TCP, and everything else.
    Split,
    /// One for everything.
    Single,
}

impl Preset {
    const ALL: [(&str, Preset); 3] =
        [("interactive", Preset::Interactive), ("split", Preset::Split), ("single", Preset::Single)];

    /// All words in quotes.
    pub(crate) fn words() -> String {
        Self::ALL.map(|(word, _)| format!("{word:?}")).join(", ")
    }

    pub(crate) fn of_word(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(word, _)| *word == text).map(|(_, preset)| *preset)
    }

    /// Its classes, each with lanes of its own: TCP more than one on a path that loses packets.
    pub fn classes(self) -> Vec<ClassSpec> {
        let tcp = || ClassSpec {
            rules: Some(vec![protocol(Protocol::TCP)]),
            lanes: Some(LaneCount::Auto),
            ..ClassSpec::new("tcp")
        };
        // What is no TCP is the rest of these, though a class without match does not say so.
        let rest = |name| ClassSpec { queue: QueueSpec::of("codel"), ..ClassSpec::new(name) };
        match self {
            Preset::Interactive => {
                let interactive = ClassSpec {
                    rules: Some(interactive()),
                    replicate: Some(true),
                    ..ClassSpec::new("interactive")
                };
                vec![interactive, tcp(), rest("other")]
            }
            Preset::Split => vec![tcp(), rest("udp")],
            Preset::Single => vec![ClassSpec::new("all")],
        }
    }
}

fn protocol(protocol: Protocol) -> RuleSpec {
    RuleSpec { protocol: Some(protocol), ..RuleSpec::default() }
}

fn interactive() -> Vec<RuleSpec> {
    let short_talks = |transport| RuleSpec {
        port: Some(OneOrMany([22, 53, 123].map(|port| Ports(port..=port)).to_vec())),
        ..protocol(transport)
    };
    // EF, VA, CS4 to CS7, AF41 to AF43: what RFC 4594 has for voice, video calls, signalling and control.
    let urgent = [46, 44, 32, 40, 48, 56, 34, 36, 38].map(Dscp).to_vec();
    vec![
        protocol(Protocol::Icmp),
        RuleSpec { dscp: Some(OneOrMany(urgent)), ..RuleSpec::default() },
        short_talks(Protocol::TCP),
        short_talks(Protocol::UDP),
        RuleSpec { behaviour: Some(Behaviour::Interactive), ..RuleSpec::default() },
    ]
}
