use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use trunkline_packet::{Headers, protocol};
use trunkline_queue::{Settings, Share};

use crate::path::PathPolicy;

/// The place of a class in its [`Classifier`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// The place as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A protocol that a rule asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// This number in the IP header (the last header's, for IPv6).
    Number(u8),
    /// ICMP or `ICMPv6`.
    AnyIcmp,
}

/// A set of DSCPs (RFC 2474 §3), one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DscpSet(u64);

impl DscpSet {
    /// Whether `dscp` (0 to 63) is in it.
    pub const fn contains(self, dscp: u8) -> bool {
        dscp < 64 && self.0 & (1 << dscp) != 0
    }
}

impl FromIterator<u8> for DscpSet {
    /// Values above 63 are left out: no packet carries them.
    fn from_iter<I: IntoIterator<Item = u8>>(values: I) -> Self {
        DscpSet(values.into_iter().filter(|dscp| *dscp < 64).fold(0, |set, dscp| set | (1 << dscp)))
    }
}

/// A packet matches a rule if every field that is given holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The protocol.
    pub protocol: Option<Protocol>,
    /// One of these DSCPs.
    pub dscp: Option<DscpSet>,
    /// The source address lies in this prefix.
    pub source: Option<IpNet>,
    /// The destination address lies in this prefix.
    pub destination: Option<IpNet>,
    /// The source port lies in one of these ranges; empty: any.
    pub source_ports: Vec<RangeInclusive<u16>>,
    /// The destination port lies in one of these ranges; empty: any.
    pub destination_ports: Vec<RangeInclusive<u16>>,
    /// One of the two ports lies in one of these ranges; empty: any.
    pub either_ports: Vec<RangeInclusive<u16>>,
    /// Bytes of the IP packet, of a super-packet those of one segment; empty: any.
    pub lengths: Vec<RangeInclusive<u16>>,
    /// Its flow sends little. Holds for TCP and UDP only.
    pub interactive: bool,
}

/// What a rule may ask of a packet beyond its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behaviour {
    /// Bytes of the packet, of a super-packet those of its first segment.
    pub length: u16,
    /// Whether its flow sends little.
    pub interactive: bool,
}

impl Rule {
    /// Whether `headers` match. A packet without ports (a later fragment, another protocol) matches no rule
    /// that asks for one.
    pub fn matches(&self, headers: &Headers, behaviour: Behaviour) -> bool {
        let protocol = match self.protocol {
            None => true,
            Some(Protocol::Number(number)) => headers.protocol == number,
            Some(Protocol::AnyIcmp) => matches!(headers.protocol, protocol::ICMP | protocol::ICMPV6),
        };
        protocol
            && self.dscp.is_none_or(|set| set.contains(headers.dscp()))
            && self.source.is_none_or(|prefix| prefix.contains(&headers.source))
            && self.destination.is_none_or(|prefix| prefix.contains(&headers.destination))
            && self.ports_match(headers.ports)
            && (self.lengths.is_empty() || self.lengths.iter().any(|range| range.contains(&behaviour.length)))
            && (!self.interactive
                || behaviour.interactive && matches!(headers.protocol, protocol::TCP | protocol::UDP))
    }

    fn ports_match(&self, ports: Option<(u16, u16)>) -> bool {
        let within =
            |ranges: &[RangeInclusive<u16>], port: u16| ranges.iter().any(|range| range.contains(&port));
        let any =
            self.source_ports.is_empty() && self.destination_ports.is_empty() && self.either_ports.is_empty();
        let Some((source, destination)) = ports else { return any };
        any || ((self.source_ports.is_empty() || within(&self.source_ports, source))
            && (self.destination_ports.is_empty() || within(&self.destination_ports, destination))
            && (self.either_ports.is_empty()
                || within(&self.either_ports, source)
                || within(&self.either_ports, destination)))
    }
}

/// A class: which packets are in it, the queue they wait in, and what it is promised of its lanes.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSettings {
    /// The name.
    pub name: Arc<str>,
    /// A packet that matches any of these is in the class. No rule at all matches every packet.
    pub rules: Vec<Rule>,
    /// Its edge queue, one for each of its lanes.
    pub queue: Settings,
    /// The group of lanes it rides on: its place in [`TrunkPlan::groups`](crate::TrunkPlan::groups).
    pub group: usize,
    /// Its share of them.
    pub share: Share,
    /// How many flows it takes at a time, if that is bounded.
    pub admission: Option<AdmissionSettings>,
    /// Whether retransmissions of data that is still in transit in the trunk are dropped. For lanes that deliver all
    /// they take.
    pub filters_retransmissions: bool,
    /// Whether its packets are sent over two lanes where the path loses some. For lanes over TCP, at least two of them.
    pub replicates: bool,
    /// Packets that have waited at the edge for longer are dropped.
    pub max_wait: Option<Duration>,
    /// Which paths its flows take, where there are several.
    pub paths: PathPolicy,
    /// On bonded paths: none that is slower than the fastest by more takes its packets.
    pub reorder_wait: Option<Duration>,
}

impl ClassSettings {
    /// A class on the lanes of `group` with nothing special about it.
    pub fn new(name: &str, rules: Vec<Rule>, queue: Settings, group: usize) -> Self {
        ClassSettings {
            name: name.into(),
            rules,
            queue,
            group,
            share: Share::default(),
            admission: None,
            filters_retransmissions: true,
            replicates: false,
            max_wait: None,
            paths: PathPolicy::default(),
            reorder_wait: None,
        }
    }
}

/// A bound on the flows of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Flows at a time.
    pub limit: u32,
    /// What becomes of one more.
    pub over: Over,
}

/// What becomes of a flow that a class has no place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Its sender is told that it is prohibited.
    Refuse,
    /// It is in this class instead, whatever the bound of that one.
    Class(ClassId),
}

/// Finds the class of a packet: the first whose rules match. Cost grows with the rules, never with flows.
#[derive(Debug, Clone, Default)]
pub struct Classifier {
    rules: Vec<(Rule, ClassId)>,
    otherwise: ClassId,
}

impl Default for ClassId {
    /// The first class.
    fn default() -> Self {
        ClassId(0)
    }
}

impl Classifier {
    /// A classifier over `classes`, in their order. A packet that no class asks for is in the last one.
    pub fn new(classes: &[ClassSettings]) -> Self {
        let mut rules = Vec::new();
        for (class, id) in classes.iter().zip(0..) {
            if class.rules.is_empty() {
                return Classifier { rules, otherwise: ClassId(id) };
            }
            rules.extend(class.rules.iter().map(|rule| (rule.clone(), ClassId(id))));
        }
        Classifier { rules, otherwise: ClassId(classes.len().saturating_sub(1) as u8) }
    }

    /// The class of a packet with these headers that behaves so.
    #[inline]
    pub fn classify(&self, headers: &Headers, behaviour: Behaviour) -> ClassId {
        self.rules
            .iter()
            .find(|(rule, _)| rule.matches(headers, behaviour))
            .map_or(self.otherwise, |(_, class)| *class)
    }

    /// Whether any rule asks how a flow behaves.
    pub fn asks_behaviour(&self) -> bool {
        self.rules.iter().any(|(rule, _)| rule.interactive)
    }
}
