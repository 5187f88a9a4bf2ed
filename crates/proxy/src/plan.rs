//! What a proxy's file comes to.

use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use trunkline_netlink::{Condition, FilterRule};
use trunkline_packet::{TcpFlags, protocol};
use trunkline_schema::{FailMode, ProxyMode, ProxySettings, ProxySpec, RateSource};
use trunkline_trunk::path_tail::{CellLink, Estimate};

use crate::opening::Limits;
use crate::relay::{PIPE_BYTES, Side};
use crate::syn::Connection;

/// What all proxies of a process do, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What becomes of new connections after the process has died.
    pub fail: FailMode,
    /// Threads that move data.
    pub threads: usize,
    /// How many connections there may be.
    pub limits: Limits,
    /// Bytes that a socket holds in each direction, if not what the kernel chooses.
    pub buffer: Option<usize>,
    /// Bytes on their way between sockets.
    pub memory: u64,
    /// After how long a silent end is asked whether it is there.
    pub keepalive: Duration,
    /// After how long an idle connection may be closed to make room.
    pub evict_after: Duration,
    /// Which connections are treated how: the first that fits.
    pub treatments: Vec<Treatment>,
}

/// Which connections a proxy treats, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Treatment {
    /// Its name.
    pub name: String,
    /// The hosts behind it.
    pub behind: Vec<IpNet>,
    /// The link that leads to them.
    pub link: Option<String>,
    /// The other ends; none for all.
    pub remote: Vec<IpNet>,
    /// The ports that connections are opened to; none for all.
    pub ports: Vec<RangeInclusive<u16>>,
    /// How.
    pub mode: ProxyMode,
    /// The emulated link of `path-tail`.
    pub tail: Option<CellLink>,
    /// The maximum window of `clamp-window`, bytes.
    pub window: Option<u64>,
}

impl Plan {
    /// What `[proxy]` and `[[proxies]]` of a file come to.
    pub fn new(settings: &ProxySettings, proxies: &[ProxySpec]) -> Self {
        Plan {
            fail: settings.fail,
            threads: usize::from(settings.threads),
            limits: Limits {
                connections: settings.connections as usize,
                opening: settings.opening.min(settings.connections) as usize,
            },
            buffer: settings.buffer.map(|size| size.0 as usize),
            memory: settings.memory.0,
            keepalive: settings.keepalive.0,
            evict_after: settings.evict_after.0,
            treatments: proxies.iter().map(Treatment::from).collect(),
        }
    }
}

impl From<&ProxySpec> for Treatment {
    fn from(spec: &ProxySpec) -> Self {
        Treatment {
            name: spec.name.0.clone(),
            behind: spec.behind.iter().map(|prefix| prefix.0).collect(),
            link: spec.interface.as_ref().map(|link| link.0.clone()),
            remote: spec.remote.iter().map(|prefix| prefix.0).collect(),
            ports: spec.port_ranges(),
            mode: spec.mode,
            tail: spec.rate.filter(|_| spec.mode == ProxyMode::PathTail).map(|rate| CellLink {
                estimate: match rate.0 {
                    RateSource::Given(rate) => {
                        let recovery = spec.recovery.map_or(Duration::ZERO, |time| time.0);
                        Some(Estimate { rate: rate.0, recovery })
                    }
                    RateSource::Measured => None,
                },
                queue: spec.queue.map(|queue| queue.0),
                packets: spec.packets,
            }),
            window: spec.window.filter(|_| spec.mode == ProxyMode::ClampWindow).map(|window| window.0),
        }
    }
}

impl Plan {
    /// Whether any treatment emulates a tail.
    pub(crate) fn has_tails(&self) -> bool {
        self.treatments.iter().any(|treatment| treatment.tail.is_some())
    }

    /// Whether any treatment ends connections, in sockets of the proxy.
    pub(crate) fn ends_connections(&self) -> bool {
        self.treatments
            .iter()
            .any(|treatment| matches!(treatment.mode, ProxyMode::Split | ProxyMode::PathTail))
    }

    /// Whether any treatment lowers windows.
    pub(crate) fn has_clamps(&self) -> bool {
        self.treatments.iter().any(|treatment| treatment.window.is_some())
    }

    /// The treatments that a connection may be of which was diverted, and which of its ends is behind. The packet does not tell its
    /// interface.
    pub(crate) fn candidates(&self, connection: Connection) -> impl Iterator<Item = (usize, Side)> {
        self.treatments
            .iter()
            .enumerate()
            .filter(|(_, treatment)| treatment.mode != ProxyMode::None)
            .filter_map(move |(index, treatment)| Some((index, treatment.side_behind(connection)?)))
    }

    /// Descriptors that its connections need, with their pipes.
    pub(crate) fn descriptors(&self) -> u64 {
        let (sockets, pipes) = (2 * self.limits.connections as u64, 2 * self.memory / PIPE_BYTES as u64);
        if self.ends_connections() { sockets + pipes.min(sockets) } else { 0 }
    }

    /// With as many connections as there are descriptors for. Pipes get a small part of them, since data can be copied instead.
    pub(crate) fn within_descriptors(mut self, free: u64) -> Self {
        if self.descriptors() > free {
            let pipes = (free / 32).min(self.memory / PIPE_BYTES as u64);
            self.memory = pipes * PIPE_BYTES as u64;
            let connections = ((free - 2 * pipes) / 2).max(1) as usize;
            self.limits.connections = self.limits.connections.min(connections);
            self.limits.opening = self.limits.opening.min(self.limits.connections);
        }
        self
    }

    /// Pipes that a worker may fill at a time.
    pub(crate) fn pipes_per_worker(&self) -> usize {
        (self.memory / PIPE_BYTES as u64 / self.threads.max(1) as u64) as usize
    }
}

impl Treatment {
    fn side_behind(&self, Connection { client, server }: Connection) -> Option<Side> {
        let port = self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&server.port()));
        let is = |nets: &[IpNet], ip| nets.iter().any(|net| net.contains(&ip));
        let remote = |ip| self.remote.is_empty() || is(&self.remote, ip);
        if !port {
            None
        } else if is(&self.behind, client.ip()) && remote(server.ip()) {
            Some(Side::Client)
        } else if is(&self.behind, server.ip()) && remote(client.ip()) {
            Some(Side::Server)
        } else {
            None
        }
    }

    /// The rules that take the SYNs of its connections, those from behind and those to there. They get `mark`, unless they pass.
    pub(crate) fn rules(&self, mark: u32) -> Vec<FilterRule> {
        let opening = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN;
        let syn = Condition::TcpFlags { mask: opening.0, value: TcpFlags::SYN.0 };
        let mark = (self.mode != ProxyMode::None).then_some(mark);
        let mut rules = Vec::new();
        for (ends, ports) in self.ends() {
            let port = ports.map(Condition::DestinationPort);
            for ends in ends {
                let conditions = ends.into_iter().chain(port.clone()).chain([syn.clone()]).collect();
                rules.push(FilterRule { conditions, mark, ..FilterRule::default() });
            }
        }
        rules
    }

    /// The rules that take what decides about windows: all that the hosts behind send, and the answers to their SYNs. They come after
    /// those for packets of sockets.
    pub(crate) fn window_rules(&self, mark: u32) -> Vec<FilterRule> {
        let answer = Condition::TcpFlags { mask: TcpFlags::SYN.0, value: TcpFlags::SYN.0 };
        let tcp = Condition::Protocol(protocol::TCP);
        let mut rules = Vec::new();
        for ([from, to], ports) in self.ends() {
            // Who opened a connection has no port of the list: of the host behind it may be either.
            let client = ports.clone().map(Condition::DestinationPort);
            let server = ports.map(Condition::SourcePort);
            let mut take = |ends: &[Condition], rest: [Option<Condition>; 2]| {
                let conditions = ends.iter().cloned().chain(rest.into_iter().flatten()).collect();
                rules.push(FilterRule { conditions, mark: Some(mark), ..FilterRule::default() });
            };
            take(&from, [Some(tcp.clone()), client.clone()]);
            if server.is_some() {
                take(&from, [Some(tcp.clone()), server.clone()]);
            }
            take(&to, [Some(answer.clone()), server]);
        }
        rules
    }

    /// What holds of its packets' ends, from behind and to there, with the ports that connections are opened to.
    fn ends(&self) -> Vec<Ends> {
        let remotes: Vec<Option<IpNet>> = or_any(&self.remote);
        let ports: Vec<Option<RangeInclusive<u16>>> = or_any(&self.ports);
        let mut all = Vec::new();
        for behind in &self.behind {
            let same = |net: &IpNet| net.addr().is_ipv4() == behind.addr().is_ipv4();
            for remote in remotes.iter().filter(|remote| remote.as_ref().is_none_or(same)) {
                let from = [self.link.clone().map(Condition::Link), Some(Condition::Source(*behind))]
                    .into_iter()
                    .chain([remote.map(Condition::Destination)]);
                let to = [self.link.clone().map(Condition::OtherLink), Some(Condition::Destination(*behind))]
                    .into_iter()
                    .chain([remote.map(Condition::Source)]);
                let ends: [Vec<Condition>; 2] = [from.flatten().collect(), to.flatten().collect()];
                all.extend(ports.iter().map(|port| (ends.clone(), port.clone())));
            }
        }
        all
    }
}

/// Conditions on packets from behind and on those to there, and the ports that connections are opened to.
type Ends = ([Vec<Condition>; 2], Option<RangeInclusive<u16>>);

fn or_any<T: Clone>(list: &[T]) -> Vec<Option<T>> {
    if list.is_empty() { vec![None] } else { list.iter().cloned().map(Some).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn treatment() -> Treatment {
        Treatment {
            name: "cell".to_owned(),
            behind: vec!["10.1.0.0/16".parse().unwrap(), "2001:db8:1::/48".parse().unwrap()],
            link: Some("wwan0".to_owned()),
            remote: vec!["192.0.2.0/24".parse().unwrap()],
            ports: vec![80..=80, 8000..=8999],
            mode: ProxyMode::Split,
            tail: None,
            window: None,
        }
    }

    #[test]
    fn there_are_no_more_connections_than_descriptors_for_them() {
        let plan = |connections: u32, mode| {
            let settings = ProxySettings { connections, ..ProxySettings::default() };
            Plan { treatments: vec![Treatment { mode, ..treatment() }], ..Plan::new(&settings, &[]) }
        };
        let split = plan(16_384, ProxyMode::Split);
        assert_eq!(split.clone().within_descriptors(100_000), split, "enough");
        for free in [0, 1, 2, 40, 1000, 20_000] {
            let fitting = split.clone().within_descriptors(free);
            let Limits { connections, opening } = fitting.limits;
            assert!(opening <= connections && connections >= 1, "{free}");
            assert!(fitting.descriptors() <= free.max(2), "{free}: {}", fitting.descriptors());
            assert!(connections as u64 >= free * 15 / 32, "{free}: {connections}");
        }
        // Windows are lowered without sockets.
        let clamp = plan(16_384, ProxyMode::ClampWindow);
        assert_eq!(clamp.clone().within_descriptors(10), clamp);
    }

    #[test]
    fn the_side_behind_follows_from_the_addresses() {
        let side = |client: &str, server: &str| {
            let connection = Connection { client: client.parse().unwrap(), server: server.parse().unwrap() };
            treatment().side_behind(connection)
        };
        assert_eq!(side("10.1.0.1:5", "192.0.2.1:80"), Some(Side::Client));
        assert_eq!(side("192.0.2.1:5", "10.1.0.1:8080"), Some(Side::Server));
        assert_eq!(side("10.1.0.1:5", "192.0.2.1:443"), None, "another port");
        assert_eq!(side("10.1.0.1:5", "192.0.3.1:80"), None, "another network");
    }

    #[test]
    fn connections_from_behind_and_to_there_are_taken_by_their_syn() {
        let rules: Vec<String> = treatment().rules(7).iter().map(ToString::to_string).collect();
        assert_eq!(
            rules[..2],
            [
                "iifname wwan0 saddr 10.1.0.0/16 daddr 192.0.2.0/24 dport 80-80 tcp flags & 0x17 == 0x2 mark set 0x7 accept",
                "iifname != wwan0 daddr 10.1.0.0/16 saddr 192.0.2.0/24 dport 80-80 tcp flags & 0x17 == 0x2 mark set 0x7 accept",
            ]
        );
        assert_eq!(rules.len(), 4, "no rule has two versions of IP: {rules:?}");
    }

    #[test]
    fn what_passes_gets_no_mark() {
        let rules =
            Treatment { mode: ProxyMode::None, link: None, ports: Vec::new(), ..treatment() }.rules(7);
        assert!(rules.iter().all(|rule| rule.mark.is_none()) && rules.len() == 2, "{rules:?}");
    }

    #[test]
    fn what_decides_about_windows_is_all_from_behind_and_the_answers_to_it() {
        let clamp = Treatment {
            mode: ProxyMode::ClampWindow,
            behind: vec!["10.1.0.0/16".parse().unwrap()],
            link: None,
            remote: Vec::new(),
            ports: vec![80..=80],
            ..treatment()
        };
        let rules: Vec<String> = clamp.window_rules(7).iter().map(ToString::to_string).collect();
        assert_eq!(
            rules,
            [
                "saddr 10.1.0.0/16 l4proto 6 dport 80-80 mark set 0x7 accept",
                "saddr 10.1.0.0/16 l4proto 6 sport 80-80 mark set 0x7 accept",
                "daddr 10.1.0.0/16 tcp flags & 0x2 == 0x2 sport 80-80 mark set 0x7 accept",
            ]
        );
        assert_eq!(Treatment { ports: Vec::new(), ..clamp }.window_rules(7).len(), 2);
    }
}
