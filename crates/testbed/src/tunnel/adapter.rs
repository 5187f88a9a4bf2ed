//! What is known of a tunnel program: a file of `tunnels/` for each, which names its programs and its commands.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;

use crate::namespace::Host;
use crate::tool::{self, find};

/// How a tunnel of another program is set up.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// What it is, for readers.
    pub title: String,
    /// The programs that it runs.
    pub(super) needs: Vec<String>,
    /// The type of device that the kernel must have for it.
    device_type: Option<String>,
    /// The longest packet inside, bytes.
    pub(super) mtu: u32,
    /// The name of the device of an end.
    #[serde(default = "device")]
    pub(super) device: String,
    /// What makes its keys.
    #[serde(default)]
    pub(super) prepare: Vec<Step>,
    pub(super) near: End,
    pub(super) far: End,
}

/// One end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    /// What makes the device, if not the program.
    #[serde(default)]
    pub(super) create: Vec<Step>,
    /// The program, which stays in the foreground; nothing of a tunnel in the kernel.
    #[serde(default)]
    pub(super) start: Vec<String>,
    /// What is done once the device is there.
    #[serde(default)]
    pub(super) configure: Vec<Step>,
}

/// A command that ends by itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) run: Vec<String>,
    /// The file of the directory that is its standard input.
    pub(super) input: Option<String>,
    /// The file of the directory that its standard output goes to.
    pub(super) output: Option<String>,
}

fn device() -> String {
    "tunnel{number}".to_owned()
}

/// The name of each, and its text.
const TEXTS: [(&str, &str); 4] = [
    ("openvpn-udp", include_str!("../../tunnels/openvpn-udp.toml")),
    ("openvpn-tcp", include_str!("../../tunnels/openvpn-tcp.toml")),
    ("wireguard", include_str!("../../tunnels/wireguard.toml")),
    ("wireguard-go", include_str!("../../tunnels/wireguard-go.toml")),
];

static ADAPTERS: LazyLock<BTreeMap<&str, Adapter>> = LazyLock::new(|| {
    let adapter = |(name, text)| {
        let adapter = toml::from_str(text).unwrap_or_else(|error| panic!("tunnels/{name}.toml: {error}"));
        (name, adapter)
    };
    TEXTS.into_iter().map(adapter).collect()
});

impl Adapter {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Adapter> {
        ADAPTERS.get(name)
    }

    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ADAPTERS.keys().copied()
    }

    /// What it needs and this machine lacks: programs, and a device of the kernel's.
    pub fn missing(&self) -> Vec<String> {
        let mut missing: Vec<String> =
            self.needs.iter().filter(|program| find(program).is_none()).cloned().collect();
        if let Some(kind) = self.device_type.as_ref().filter(|kind| missing.is_empty() && !has_devices(kind))
        {
            missing.push(format!("a kernel with devices of the type {kind}"));
        }
        missing
    }
}

/// Whether the kernel makes devices of a type: tried in a namespace of its own.
fn has_devices(kind: &str) -> bool {
    let words = ["ip", "link", "add", "probe", "type", kind].map(str::to_owned);
    let silent = (Stdio::null(), Stdio::null());
    Host::new("probe").is_ok_and(|host| tool::run(&host, &words, silent, PROBE_LIMIT).is_ok())
}

/// How long the kernel may take for that: it may have to load a module.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_adapter_runs_only_programs_that_it_says_it_needs() {
        for name in Adapter::names() {
            let adapter = Adapter::named(name).expect("known");
            let ends = [&adapter.near, &adapter.far];
            let steps = ends.iter().flat_map(|end| end.create.iter().chain(&end.configure));
            let steps = adapter.prepare.iter().chain(steps).map(|step| &step.run);
            let starts = ends.iter().map(|end| &end.start).filter(|start| !start.is_empty());
            for words in steps.chain(starts) {
                assert!(adapter.needs.contains(&words[0]), "{name}: {words:?}");
            }
            assert!((576..=65_535).contains(&adapter.mtu), "{name}");
            let makes_device = |end: &End| !end.start.is_empty() || !end.create.is_empty();
            assert!(ends.into_iter().all(makes_device), "{name}");
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let text = "title = 't'\nneeds = ['sh', 'no-such-program']\nmtu = 1500\n[near]\n[far]\n";
        let adapter: Adapter = toml::from_str(text).expect("an adapter");
        assert_eq!(adapter.missing(), ["no-such-program"]);
    }
}
