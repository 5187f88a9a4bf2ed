//! Proxies, as files say them: `[[proxies]]` and what they have in common.

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use crate::quantity::{Rate, Size, Time};
use crate::reader::{At, Format, Leaf, Mistakes, Partly, Source, read_partly};
use crate::words::{Name, OneOrMany, Ports};

/// Rules of the packet filter that the proxies of a file may need: each is a comparison for every new connection.
pub const MAX_PROXY_RULES: usize = 4096;
const LINK: &str = "1 to 15 bytes without white space, '/', ':' or '%'";
const PREFIX: &str = "an address and a prefix length, such as \"10.2.0.0/16\" or \"2001:db8:2::/48\"";
const MIN_BUFFER: u64 = 16 << 10;
const MAX_BUFFER: u64 = 64 << 20;

/// What `trunkline proxy` runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Trunkline: proxies")]
pub struct ProxyFile {
    /// What becomes of new connections after the proxy has died: "open", they pass without one, or "closed", they are unreachable. A
    /// proxy that is told to end leaves nothing behind.
    pub fail: FailMode,
    /// Threads that move data.
    #[schemars(range(min = 1, max = 64))]
    pub threads: u16,
    /// Connections at a time. One more closes the one that has been idle for longest; if none is idle, it passes without a proxy.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub connections: u32,
    /// Connections at a time to servers that have not answered yet. One more passes without a proxy.
    #[schemars(range(min = 1, max = 65_536))]
    pub opening: u32,
    /// Bytes that a socket holds in each direction; what the kernel chooses, up to the maxima of `tcp_rmem` and `tcp_wmem`.
    pub buffer: Option<Size>,
    /// Bytes on their way between sockets, of all connections.
    pub memory: Size,
    /// An end that has been silent for so long is asked whether it is still there.
    pub keepalive: Time,
    /// The first one that a connection is of treats it. A connection of none passes.
    pub proxies: Vec<ProxySpec>,
}

impl Default for ProxyFile {
    fn default() -> Self {
        ProxyFile {
            fail: FailMode::default(),
            threads: 2,
            connections: 16_384,
            opening: 4096,
            buffer: None,
            memory: Size(256 << 20),
            keepalive: Time(std::time::Duration::from_secs(15 * 60)),
            proxies: Vec::new(),
        }
    }
}

impl Format for ProxyFile {
    const LEAVES: &'static [Leaf] = &[Leaf::new::<LinkName>("link"), Leaf::new::<Prefix>("network")];
    // Which one a connection is of depends on those before.
    const TOGETHER: &'static [&'static str] = &["proxies"];
}

/// What becomes of new connections after the proxy has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailMode {
    /// They pass without a proxy.
    #[default]
    Open,
    /// They are unreachable.
    Closed,
}

/// A proxy: which connections it is for, and how it treats them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxySpec {
    /// Its name in logs and status.
    pub name: Name,
    /// The hosts behind it: those whose network it is the way to.
    pub behind: Vec<Prefix>,
    /// The interface that leads to them; any.
    pub interface: Option<LinkName>,
    /// The other ends; any.
    #[serde(default)]
    pub remote: Vec<Prefix>,
    /// The ports that connections are opened to; any.
    pub ports: Option<OneOrMany<Ports>>,
    /// How it treats them.
    pub mode: ProxyMode,
    /// What the way to the hosts behind carries: all of them together. For `path-tail`.
    pub rate: Option<Rate>,
    /// What a segment takes on that way beside its length, on average; nothing. For `path-tail`.
    pub recovery: Option<Time>,
    /// Bytes that the emulated link holds; what it sends in half a second, and 64 kB at the least. For `path-tail`.
    pub queue: Option<Size>,
}

/// How a proxy treats connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyMode {
    /// They pass.
    None,
    /// It ends them, with a TCP of its own towards each end.
    Split,
    /// It ends them, and acknowledges to the network as a steady link to the hosts behind would.
    PathTail,
}

/// The name of a network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkName(pub String);

/// An address with the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix(pub IpNet);

fn link_name(text: &str) -> Result<LinkName, String> {
    let fits = (1..=15).contains(&text.len())
        && text != "."
        && text != ".."
        && !text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '%'));
    if fits { Ok(LinkName(text.to_owned())) } else { Err(format!("{text:?} cannot name an interface")) }
}

fn prefix(text: &str) -> Result<Prefix, String> {
    let net: IpNet = text.parse().map_err(|_| format!("{text:?} is no prefix"))?;
    if net.trunc() == net {
        Ok(Prefix(net))
    } else {
        Err(format!("{text} has bits behind its prefix: write \"{}\"", net.trunc()))
    }
}

macro_rules! text {
    ($type:ty, $schema:literal, $parse:path, $allowed:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let value = toml::Value::deserialize(from)?;
                let read = value.as_str().map_or_else(|| Err(format!("is {value}")), $parse);
                read.map_err(|problem| de::Error::custom(format!("{problem}; allowed: {}", $allowed)))
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(&self.0)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "description": $allowed })
            }
        }
    };
}

text!(LinkName, "link", link_name, LINK);
text!(Prefix, "network", prefix, PREFIX);

impl ProxyFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// All that is wrong in it.
    pub fn of(source: &Source) -> Result<ProxyFile, Mistakes> {
        let Partly { read, found: form, left_out } = read_partly::<ProxyFile>(source.tree());
        let findings = source.findings::<ProxyFile>().without(left_out);
        if let Some(file) = &read {
            file.check(&findings.root());
        }
        let (found, misplaced) = findings.into_found();
        let all = form.into_iter().chain(found).chain(misplaced).map(|one| (one, None));
        let mistakes = source.mistakes(source.tree(), all);
        match read {
            Some(file) if mistakes.0.is_empty() => Ok(file),
            _ => Err(mistakes),
        }
    }

    fn check(&self, at: &At<'_>) {
        if self.proxies.is_empty() {
            at.key("proxies").report("is missing: there is nothing to do", "at least one [[proxies]]");
        }
        if let Some(Size(bytes)) = self.buffer
            && !(MIN_BUFFER..=MAX_BUFFER).contains(&bytes)
        {
            at.key("buffer").refuse("16 KiB to 64 MiB");
        }
        if self.memory.0 < 1 << 20 {
            at.key("memory").refuse("at least 1 MiB");
        }
        if self.keepalive.0.as_secs() < 1 || self.keepalive.0.as_secs() > 32_767 {
            at.key("keepalive").refuse("1 s to 9 h");
        }
        let mut rules = 0_usize;
        for (index, proxy) in self.proxies.iter().enumerate() {
            let here = at.key("proxies").index(index);
            if self.proxies[..index].iter().any(|other| other.name == proxy.name) {
                here.key("name").report_plain(format!("{} is there twice", proxy.name.0));
            }
            proxy.check(&here);
            rules = rules.saturating_add(proxy.rules());
        }
        if rules > MAX_PROXY_RULES {
            at.key("proxies").report(
                format!("need {rules} rules of the packet filter"),
                format!("up to {MAX_PROXY_RULES}: two for each prefix behind, for each remote prefix and range of ports"),
            );
        }
    }
}

impl ProxySpec {
    fn check(&self, at: &At<'_>) {
        if self.behind.is_empty() {
            at.key("behind").report("is empty", PREFIX);
        }
        self.check_tail(at);
        let link_local = |net: &IpNet| match net.addr() {
            IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
            IpAddr::V4(address) => address.is_link_local(),
        };
        for (key, list) in [("behind", &self.behind), ("remote", &self.remote)] {
            for (index, Prefix(net)) in list.iter().enumerate() {
                if link_local(net) {
                    let problem = format!("{net} is never forwarded");
                    at.key(key).index(index).report(problem, "prefixes of addresses that routers forward");
                }
            }
        }
        let meet = |Prefix(remote): &Prefix| {
            self.behind.iter().any(|Prefix(behind)| behind.addr().is_ipv4() == remote.addr().is_ipv4())
        };
        for (index, remote) in self.remote.iter().enumerate() {
            if !meet(remote) {
                let problem = format!("{} is of another version of IP than all of behind", remote.0);
                at.key("remote").index(index).report_plain(problem);
            }
        }
    }

    fn check_tail(&self, at: &At<'_>) {
        if self.mode != ProxyMode::PathTail {
            for key in ["rate", "recovery", "queue"] {
                if at.key(key).is_given() {
                    at.key(key)
                        .misplaced("is of no use here".to_owned(), "with mode = \"path-tail\"".to_owned());
                }
            }
            return;
        }
        match self.rate {
            None => at
                .key("rate")
                .report("is missing", "what the way to the hosts behind carries, such as \"20 Mbit/s\""),
            Some(Rate(rate)) if rate.bits_per_second() < 1000 => at.key("rate").refuse("at least 1 kbit/s"),
            Some(_) => {}
        }
        if self.queue.is_some_and(|queue| queue.0 < 3000) {
            at.key("queue").refuse("at least 3 kB: two segments");
        }
    }

    /// Ranges of ports; none for all.
    pub fn port_ranges(&self) -> Vec<std::ops::RangeInclusive<u16>> {
        self.ports.iter().flat_map(|ports| ports.0.iter().map(|ports| ports.0.clone())).collect()
    }

    /// How many rules of the packet filter it needs.
    fn rules(&self) -> usize {
        2 * self.behind.len() * self.remote.len().max(1) * self.port_ranges().len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ProxyFile, Vec<String>> {
        Source::parse("lte.toml", text)
            .and_then(|source| ProxyFile::of(&source))
            .map_err(|mistakes| mistakes.0.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_path_tail_has_a_rate_and_others_have_none() {
        let tail =
            |lines: &str| read(&CELL.replace("mode = \"split\"", &format!("mode = \"path-tail\"\n{lines}")));
        assert!(tail("rate = \"20 Mbit/s\"\nqueue = \"100 kB\"").is_ok());
        for (lines, expected) in [
            ("", "rate: is missing; allowed: what the way"),
            ("rate = \"10 bit/s\"", "rate: is \"10 bit/s\"; allowed: at least 1 kbit/s"),
            ("rate = \"1 Mbit/s\"\nqueue = \"1 kB\"", "queue: is \"1 kB\"; allowed: at least 3 kB"),
        ] {
            let told = tail(lines).unwrap_err();
            assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
        }
        let told = read(&format!("{CELL}rate = \"1 Mbit/s\"\n")).unwrap_err();
        assert!(told[0].contains("rate: is of no use here; allowed: with mode"), "{told:?}");
    }

    const CELL: &str =
        "[[proxies]]\nname = \"cell\"\nbehind = [\"10.1.0.0/16\", \"2001:db8:1::/48\"]\nmode = \"split\"\n";

    #[test]
    fn a_short_file_has_the_defaults_of_the_rest() {
        let file = read(CELL).unwrap();
        assert_eq!((file.fail, file.connections, file.buffer), (FailMode::Open, 16_384, None));
        assert_eq!(file.proxies[0].mode, ProxyMode::Split);
        assert_eq!(file.proxies[0].port_ranges(), []);
    }

    #[test]
    fn ports_are_one_or_many_with_ranges() {
        let file =
            read(&format!("{CELL}ports = [80, \"8000-8999\"]\nremote = [\"192.0.2.0/24\"]\n")).unwrap();
        assert_eq!(file.proxies[0].port_ranges(), [80..=80, 8000..=8999]);
        assert_eq!(file.proxies[0].rules(), 8);
    }

    #[test]
    fn mistakes_name_place_key_and_what_is_allowed() {
        for (text, expected) in [
            ("fail = \"ajar\"\n", "lte.toml:1:1: fail: "),
            ("buffer = \"1 kB\"\n", "lte.toml:1:1: buffer: is \"1 kB\"; allowed: 16 KiB to 64 MiB"),
            ("keepalive = \"1 ms\"\n", "lte.toml:1:1: keepalive: "),
            ("memory = \"1 kB\"\n", "lte.toml:1:1: memory: "),
            ("threads = 0\n", "lte.toml:1:1: threads: "),
        ] {
            let told = read(&format!("{text}{CELL}")).unwrap_err();
            assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
        }
        for (line, expected) in [
            (
                "interface = \"a b\"",
                "proxies.cell.interface: \"a b\" cannot name an interface; allowed: 1 to 15",
            ),
            (
                "remote = [\"10.0.0.1/8\"]",
                "10.0.0.1/8 has bits behind its prefix: write \"10.0.0.0/8\"; allowed: an",
            ),
            ("remote = [\"fe80::/10\"]", "fe80::/10 is never forwarded; allowed: prefixes"),
            ("interfce = \"x\"", "proxies.cell.interfce: unknown key, did you mean interface?"),
        ] {
            let told = read(&format!("{CELL}{line}\n")).unwrap_err();
            assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
        }
        let told = read("").unwrap_err();
        assert!(told[0].contains("proxies: is missing"), "{told:?}");
        let told = read(&format!("{CELL}{CELL}")).unwrap_err();
        assert!(told[0].contains("cell is there twice"), "{told:?}");
    }
}
