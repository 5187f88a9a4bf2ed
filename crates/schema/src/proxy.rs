//! Proxies, as files say them: `[[proxies]]` and what they have in common.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answers::{ControlTable, MetricsAddress, MetricsTable, SocketPath};
use crate::quantity::{Rate, Size, Time};
use crate::reader::{At, Format, Leaf, Mistakes, Partly, Source, read_partly};
use crate::text::text;
use crate::words::{Name, OneOrMany, Ports};

/// Rules of the packet filter that the proxies of a file may need: each is a comparison for every new connection.
pub const MAX_PROXY_RULES: usize = 4096;
const LINK: &str = "1 to 15 bytes without white space, '/', ':' or '%'";
const PREFIX: &str = "an address and a prefix length, such as \"10.2.0.0/16\" or \"2001:db8:2::/48\"";
const MIN_BUFFER: u64 = 16 << 10;
const MAX_BUFFER: u64 = 64 << 20;

/// What `trunkline proxy` runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Trunkline: proxies")]
pub struct ProxyFile {
    /// How the command line reaches the process.
    pub control: ControlTable,
    /// Where metrics are served; nowhere without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsTable>,
    /// What all proxies have in common.
    pub proxy: ProxySettings,
    /// The first one that a connection is of treats it. A connection of none passes.
    pub proxies: Vec<ProxySpec>,
}

/// What all proxies of a process have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProxySettings {
    /// What becomes of new connections that the proxy cannot serve, and after it has died: "open", they pass without one, or "closed",
    /// they are unreachable. A proxy that is told to end leaves nothing behind.
    pub fail: FailMode,
    /// Threads that move data.
    #[schemars(range(min = 1, max = 64))]
    pub threads: u16,
    /// Connections at a time. One more closes the one that has been idle for longest; if none is idle, it is not served.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub connections: u32,
    /// Connections at a time whose server has not answered, or whose client has not confirmed. One more takes the place of the oldest
    /// of the client that has most.
    #[schemars(range(min = 1, max = 65_536))]
    pub opening: u32,
    /// Bytes that a socket holds in each direction; what the kernel chooses, up to the maxima of `tcp_rmem` and `tcp_wmem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Size>,
    /// Bytes on their way between sockets, of all connections.
    pub memory: Size,
    /// An end that has been silent for so long is asked whether it is still there.
    pub keepalive: Time,
    /// A connection that has been idle for so long may be closed to make room for another.
    pub evict_after: Time,
}

impl Default for ProxySettings {
    fn default() -> Self {
        ProxySettings {
            fail: FailMode::default(),
            threads: 2,
            connections: 16_384,
            opening: 4096,
            buffer: None,
            memory: Size(256 << 20),
            keepalive: Time(Duration::from_secs(15 * 60)),
            evict_after: Time(Duration::from_secs(10)),
        }
    }
}

impl Format for ProxyFile {
    const LEAVES: &'static [Leaf] = &[
        Leaf::new::<LinkName>("link"),
        Leaf::new::<Prefix>("network"),
        Leaf::new::<CellRate>("cell_rate"),
        Leaf::new::<SocketPath>("socket_path"),
        Leaf::new::<MetricsAddress>("metrics_address"),
    ];
    // Which one a connection is of depends on those before.
    const TOGETHER: &'static [&'static str] = &["proxies"];
}

/// What becomes of new connections that the proxy cannot serve.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<LinkName>,
    /// The other ends; any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<Prefix>,
    /// The ports that connections are opened to; any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<OneOrMany<Ports>>,
    /// How it treats them.
    pub mode: ProxyMode,
    /// What the way to the hosts behind carries, all of them together, or "measured". For `path-tail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<CellRate>,
    /// What a segment takes on that way beside its length, on average; nothing. For `path-tail` with a given rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Time>,
    /// Bytes that the emulated link holds; what it sends in half a second, and 64 kB at the least. For `path-tail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Size>,
    /// Segments that it holds; as many as there are. For `path-tail`.
    #[schemars(range(min = 2))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// The most that a host behind may offer to receive. For `clamp-window`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Size>,
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
    /// It lowers the windows that the hosts behind offer. The connections stay those of their ends.
    ClampWindow,
}

impl ProxyMode {
    /// The keys that only some modes have, and which this one has.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            ProxyMode::None | ProxyMode::Split => &[],
            ProxyMode::PathTail => &["rate", "recovery", "queue", "packets"],
            ProxyMode::ClampWindow => &["window"],
        }
    }

    /// Its name in a file.
    pub const fn name(self) -> &'static str {
        match self {
            ProxyMode::None => "none",
            ProxyMode::Split => "split",
            ProxyMode::PathTail => "path-tail",
            ProxyMode::ClampWindow => "clamp-window",
        }
    }
}

/// The rate of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellRate(pub RateSource);

impl CellRate {
    /// Refuses a `recovery` beside a rate that is measured.
    pub fn check_recovery(self, at: &At<'_>) {
        if self.0 == RateSource::Measured && at.key("recovery").is_given() {
            let problem = "is of no use here: a measured rate has the repairs in it";
            at.key("recovery").report(problem, "with a rate that is given");
        }
    }
}

/// Where the rate of a cell is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateSource {
    /// The operator says it.
    Given(Rate),
    /// From what the hosts behind acknowledge.
    Measured,
}

impl fmt::Display for RateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RateSource::Given(rate) => rate.fmt(f),
            RateSource::Measured => f.write_str("measured"),
        }
    }
}

/// The name of a network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkName(pub String);

/// An address with the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix(pub IpNet);

const CELL_RATE: &str = "\"measured\", or a rate, such as \"20 Mbit/s\"";

fn cell_rate(text: &str) -> Result<CellRate, String> {
    if text == "measured" {
        return Ok(CellRate(RateSource::Measured));
    }
    text.parse().map(|rate| CellRate(RateSource::Given(rate))).map_err(|_| format!("{text:?} is no rate"))
}

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

text!(LinkName, "link", link_name, LINK);
text!(Prefix, "network", prefix, PREFIX);
text!(CellRate, "cell_rate", cell_rate, CELL_RATE);

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
        if let Some(metrics) = &self.metrics {
            metrics.check(&at.key("metrics"));
        }
        check_proxies(&self.proxy, &self.proxies, at);
    }
}

/// Checks `[proxy]` and `[[proxies]]` of a file.
pub fn check_proxies(settings: &ProxySettings, proxies: &[ProxySpec], file: &At<'_>) {
    settings.check(&file.key("proxy"));
    let at = file.key("proxies");
    let mut rules = 0_usize;
    for (index, proxy) in proxies.iter().enumerate() {
        let here = at.index(index);
        if proxies[..index].iter().any(|other| other.name == proxy.name) {
            here.key("name").report_plain(format!("{} is there twice", proxy.name.0));
        }
        proxy.check(&here);
        rules = rules.saturating_add(proxy.rules());
    }
    if rules > MAX_PROXY_RULES {
        at.report(
            format!("need {rules} rules of the packet filter"),
            format!(
                "up to {MAX_PROXY_RULES}: two for each prefix behind, for each remote prefix and range of ports, and four with mode = \"clamp-window\""
            ),
        );
    }
}

impl ProxySettings {
    fn check(&self, at: &At<'_>) {
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
        if self.evict_after.0 < Duration::from_secs(1) {
            at.key("evict_after").refuse("at least 1 s");
        }
    }
}

impl ProxySpec {
    fn check(&self, at: &At<'_>) {
        if self.behind.is_empty() {
            at.key("behind").report("is empty", PREFIX);
        }
        self.check_mode(at);
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

    fn check_mode(&self, at: &At<'_>) {
        for mode in [ProxyMode::PathTail, ProxyMode::ClampWindow] {
            for key in mode.keys().iter().filter(|_| mode != self.mode) {
                if at.key(key).is_given() {
                    at.key(key)
                        .misplaced("is of no use here".to_owned(), format!("with mode = {:?}", mode.name()));
                }
            }
        }
        match self.mode {
            ProxyMode::None | ProxyMode::Split => {}
            ProxyMode::PathTail => self.check_tail(at),
            ProxyMode::ClampWindow => match self.window {
                None => at.key("window").report("is missing", "bytes, such as \"64 kB\""),
                Some(window) if window.0 < 536 => at.key("window").refuse("at least 536 bytes: one segment"),
                Some(_) => {}
            },
        }
    }

    fn check_tail(&self, at: &At<'_>) {
        match self.rate.map(|rate| rate.0) {
            None => at.key("rate").report(
                "is missing",
                "what the way to the hosts behind carries, such as \"20 Mbit/s\", or \"measured\"",
            ),
            Some(RateSource::Given(Rate(rate))) if rate.bits_per_second() < 1000 => {
                at.key("rate").refuse("at least 1 kbit/s");
            }
            Some(_) => {}
        }
        if let Some(rate) = self.rate {
            rate.check_recovery(at);
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
        let each = if self.mode == ProxyMode::ClampWindow { 4 } else { 2 };
        each * self.behind.len() * self.remote.len().max(1) * self.port_ranges().len().max(1)
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
        assert!(tail("rate = \"measured\"\npackets = 20").is_ok());
        for (lines, expected) in [
            ("", "rate: is missing; allowed: what the way"),
            ("rate = \"10 bit/s\"", "rate: is \"10 bit/s\"; allowed: at least 1 kbit/s"),
            ("rate = \"fast\"", "rate: \"fast\" is no rate; allowed: \"measured\", or a rate"),
            ("rate = \"measured\"\nrecovery = \"1 ms\"", "recovery: is of no use here: a measured"),
            (
                "rate = \"measured\"\nwindow = \"9 kB\"",
                "window: is of no use here; allowed: with mode = \"clamp-window\"",
            ),
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
        assert_eq!(
            (file.proxy.fail, file.proxy.connections, file.proxy.buffer),
            (FailMode::Open, 16_384, None)
        );
        assert_eq!(file.proxies[0].mode, ProxyMode::Split);
        assert_eq!(file.proxies[0].port_ranges(), []);
    }

    #[test]
    fn a_clamp_has_a_window() {
        let clamp =
            |line: &str| read(&CELL.replace("mode = \"split\"", &format!("mode = \"clamp-window\"\n{line}")));
        assert_eq!(clamp("window = \"5 kB\"").unwrap().proxies[0].rules(), 8, "four for each prefix");
        assert!(clamp("").unwrap_err()[0].contains("window: is missing; allowed: bytes"));
        assert!(
            clamp("window = \"5 B\"").unwrap_err()[0].contains("window: is \"5 B\"; allowed: at least 536")
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = "[control]\nsocket = \"/run/x.sock\"\n[metrics]\nlisten = \"unix:/run/y.sock\"\n[[proxies]]\nname = \"cell\"\nbehind = [\"10.1.0.0/16\"]\nmode = \"path-tail\"\nrate = \"measured\"\n";
        let file = read(text).unwrap();
        assert_eq!(read(&toml::to_string(&file).unwrap()).unwrap(), file);
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
            ("[proxy]\nfail = \"ajar\"\n", "lte.toml:2:1: proxy.fail: "),
            (
                "[proxy]\nbuffer = \"1 kB\"\n",
                "lte.toml:2:1: proxy.buffer: is \"1 kB\"; allowed: 16 KiB to 64 MiB",
            ),
            ("[proxy]\nkeepalive = \"1 ms\"\n", "lte.toml:2:1: proxy.keepalive: "),
            ("[proxy]\nmemory = \"1 kB\"\n", "lte.toml:2:1: proxy.memory: "),
            ("[proxy]\nevict_after = \"1 ms\"\n", "lte.toml:2:1: proxy.evict_after: "),
            (
                "[metrics]\nlisten = \"192.0.2.1:9460\"\n",
                "lte.toml:2:1: metrics.listen: 192.0.2.1:9460 can be",
            ),
            ("[proxy]\nthreads = 0\n", "lte.toml:2:1: proxy.threads: "),
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
