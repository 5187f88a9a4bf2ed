//! What is said of classes and of the lanes they ride on, resolved.

use std::ops::RangeInclusive;

use ipnet::IpNet;
use trunkline_queue::Settings;
use trunkline_units::Rate;

/// One of `[[classes]]`: a kind of traffic that has a queue of its own, and lanes of its own or a share of some.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassConfig {
    /// Its name, `[a-z0-9_-]{1,32}`.
    pub name: String,
    /// A packet belongs here if any of these rules takes it. Empty: every packet.
    pub rules: Vec<RuleConfig>,
    /// The queue in front of its lanes.
    pub queue: Settings,
    /// The index in [`Config::lane_groups`](super::Config::lane_groups) of the lanes it rides on.
    pub lane_group: usize,
    /// Its share among the classes of its lanes, 1 to 1000.
    pub weight: u16,
    /// The rate it gets on its lanes before weights count, while they carry that much.
    pub guarantee: Option<Rate>,
    /// The rate it never exceeds; at least the guarantee.
    pub ceiling: Option<Rate>,
    /// Whether it is served before the classes of its lanes that have no priority.
    pub priority: bool,
    /// How many flows it takes at a time, if that is bounded.
    pub admission: Option<AdmissionConfig>,
    /// Whether segments that are still on their way are not carried a second time.
    pub repeat_filter: bool,
    /// Whether headers are compressed where that pays.
    pub header_compression: bool,
}

impl ClassConfig {
    /// The word for its queue's discipline in a configuration file.
    pub const fn discipline(&self) -> &'static str {
        super::queue::word(&self.queue)
    }
}

/// The flows of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionConfig {
    /// Most flows at a time to each peer in each shard; at least one.
    pub limit: u32,
    /// What becomes of the flows beyond.
    pub over: Over,
}

/// What becomes of a flow that a class has no place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Its packets are answered by ICMP and dropped.
    Refuse,
    /// It goes to the class of this index, under that class's own limit. That class passes nothing on.
    Class(usize),
}

/// Lanes that one class rides on, or several by their weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneGroupConfig {
    /// Its name, which both ends of a trunk must have: `[a-z0-9_-]{1,32}`.
    pub name: String,
    /// Lanes to each peer in each shard, 1 to 8; a flow stays on one.
    pub count: u8,
    /// The kernel's name of their congestion control, or [`AUTO_CONGESTION_CONTROL`](super::AUTO_CONGESTION_CONTROL).
    pub congestion_control: String,
    /// The code point of their outer packets, 0 to 63.
    pub dscp: u8,
}

impl LaneGroupConfig {
    /// Whether their congestion control is left to us.
    pub fn adapts_congestion_control(&self) -> bool {
        self.congestion_control == super::AUTO_CONGESTION_CONTROL
    }

    /// The kernel's name of what their connections begin with.
    pub fn usual_congestion_control(&self) -> &str {
        if self.adapts_congestion_control() {
            trunkline_trunk::LaneControl::USUAL_CONGESTION_CONTROL
        } else {
            &self.congestion_control
        }
    }
}

/// A rule takes a packet for which all that is given holds. Something is always given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleConfig {
    /// The protocol above IP.
    pub protocol: Option<ProtocolMatch>,
    /// Any of these code points (0 to 63); empty: whatever it is.
    pub dscp: Vec<u8>,
    /// The prefix the source address lies in.
    pub source: Option<IpNet>,
    /// The prefix the destination address lies in.
    pub destination: Option<IpNet>,
    /// Ranges one of which the source port lies in; empty: whatever it is.
    pub source_port: Vec<RangeInclusive<u16>>,
    /// Ranges one of which the destination port lies in; empty: whatever it is.
    pub destination_port: Vec<RangeInclusive<u16>>,
    /// Ranges one of which the source or the destination port lies in; empty: whatever they are.
    pub port: Vec<RangeInclusive<u16>>,
    /// Ranges one of which the packet's length lies in, in octets with the IP header; of a super-packet, the
    /// length of one segment. Empty: whatever it is.
    pub length: Vec<RangeInclusive<u16>>,
    /// How the flow behaves. Holds for TCP and UDP only.
    pub behaviour: Option<Behaviour>,
}

impl RuleConfig {
    /// Whether it takes TCP and nothing else.
    pub(super) fn is_tcp(&self) -> bool {
        self.protocol == Some(ProtocolMatch::Number(super::values::TCP))
    }

    /// Whether it may take TCP.
    pub(super) fn may_be_tcp(&self) -> bool {
        self.protocol.is_none() || self.is_tcp()
    }
}

/// Which protocol above IP a rule takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolMatch {
    /// ICMP and `ICMPv6`.
    Icmp,
    /// The protocol of this number.
    Number(u8),
}

/// How a flow behaves, as the core finds by watching it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// It sends little: requests and responses, keystrokes, calls.
    Interactive,
}
