//! What a proxy's file comes to.

use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use trunkline_netlink::{Condition, FilterRule};
use trunkline_packet::TcpFlags;
use trunkline_schema::{FailMode, ProxyFile, ProxyMode, ProxySpec};
use trunkline_trunk::path_tail::{Estimate, Limit};
use trunkline_units::Rate;

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
    pub tail: Option<(Estimate, Limit)>,
}

impl From<&ProxyFile> for Plan {
    fn from(file: &ProxyFile) -> Self {
        Plan {
            fail: file.fail,
            threads: usize::from(file.threads),
            limits: Limits {
                connections: file.connections as usize,
                opening: file.opening.min(file.connections) as usize,
            },
            buffer: file.buffer.map(|size| size.0 as usize),
            memory: file.memory.0,
            keepalive: file.keepalive.0,
            treatments: file.proxies.iter().map(Treatment::from).collect(),
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
            tail: spec.rate.filter(|_| spec.mode == ProxyMode::PathTail).map(|rate| {
                let recovery = spec.recovery.map_or(Duration::ZERO, |time| time.0);
                let bytes = spec.queue.map_or_else(|| default_queue(rate.0), |queue| queue.0);
                (Estimate { rate: rate.0, recovery }, Limit { segments: u32::MAX, bytes })
            }),
        }
    }
}

/// Bytes of an emulated link's queue.
fn default_queue(rate: Rate) -> u64 {
    (rate.bits_per_second() / 8 / 2).max(64_000)
}

impl Plan {
    /// Whether any treatment emulates a tail.
    pub(crate) fn has_tails(&self) -> bool {
        self.treatments.iter().any(|treatment| treatment.tail.is_some())
    }

    /// The treatment of a connection that was diverted, and which of its ends is behind. The packet does not tell its interface.
    pub(crate) fn treatment(&self, connection: Connection) -> Option<(usize, Side)> {
        self.treatments
            .iter()
            .enumerate()
            .filter(|(_, treatment)| treatment.mode != ProxyMode::None)
            .find_map(|(index, treatment)| Some((index, treatment.side_behind(connection)?)))
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
        let remotes: Vec<Option<IpNet>> = or_any(&self.remote);
        let ports: Vec<Option<RangeInclusive<u16>>> = or_any(&self.ports);
        let mut rules = Vec::new();
        for behind in &self.behind {
            let same = |net: &IpNet| net.addr().is_ipv4() == behind.addr().is_ipv4();
            for remote in remotes.iter().filter(|remote| remote.as_ref().is_none_or(same)) {
                for port in &ports {
                    let from = [self.link.clone().map(Condition::Link), Some(Condition::Source(*behind))]
                        .into_iter()
                        .chain([remote.map(Condition::Destination)]);
                    let to =
                        [self.link.clone().map(Condition::OtherLink), Some(Condition::Destination(*behind))]
                            .into_iter()
                            .chain([remote.map(Condition::Source)]);
                    for ends in [from.collect::<Vec<_>>(), to.collect()] {
                        let port = port.clone().map(Condition::DestinationPort);
                        let conditions =
                            ends.into_iter().chain([port, Some(syn.clone())]).flatten().collect();
                        let mark = (self.mode != ProxyMode::None).then_some(mark);
                        rules.push(FilterRule { conditions, mark, tproxy: None });
                    }
                }
            }
        }
        rules
    }
}

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
        }
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
}
