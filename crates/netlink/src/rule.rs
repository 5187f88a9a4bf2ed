//! Policy rules: the table in which the kernel looks up a packet's route (ip-rule(8)).

use std::fmt;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::error::{NetlinkError, Request};
use crate::handle::Handle;
use crate::reply::{Reply, word};

const HEADER_BYTES: usize = 12;
pub(crate) const RTM_NEWRULE: u16 = 32;
pub(crate) const RTM_DELRULE: u16 = 33;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_PROTOCOL: u16 = 21;
const FIB_RULE_INVERT: u32 = 2;
/// `FR_ACT_TO_TBL`.
const TO_TABLE: u8 = 1;
/// The value of the kernel for no suppression.
const NO_SUPPRESSION: u32 = u32::MAX;

/// A version of IP, each of which has rules of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both of them.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    const fn number(self) -> AddressFamily {
        match self {
            Self::V4 => AddressFamily::Inet,
            Self::V6 => AddressFamily::Inet6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Which packets a rule applies to, by their mark (`SO_MARK`, or a packet filter's).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleMark {
    /// Those with this mark.
    Is(u32),
    /// All others.
    IsNot(u32),
}

/// A rule that sends packets to a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The IP version of the packets that it applies to.
    pub family: Family,
    /// The kernel evaluates rules in ascending order of priority.
    pub priority: u32,
    /// The table where the route is looked up.
    pub table: u32,
    /// By the packet's mark; `None`: all packets.
    pub mark: Option<RuleMark>,
    /// Routes of the table with prefixes of this length or less do not count.
    pub suppress_prefix_len: Option<u32>,
    /// Who made it, as in [`Route::protocol`](crate::Route::protocol).
    pub protocol: u8,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:", self.family, self.priority)?;
        match self.mark {
            Some(RuleMark::Is(mark)) => write!(f, " fwmark {mark:#x}")?,
            Some(RuleMark::IsNot(mark)) => write!(f, " not fwmark {mark:#x}")?,
            None => {}
        }
        write!(f, " lookup {}", self.table)?;
        if let Some(len) = self.suppress_prefix_len {
            write!(f, " suppress_prefixlength {len}")?;
        }
        Ok(())
    }
}

impl Handle {
    /// Makes a rule; `EEXIST` if this very rule is there.
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        let message = RouteNetlinkMessage::NewRule(describe(rule));
        self.change(Request::AddRule(rule.clone()), message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes a rule.
    pub fn delete_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        self.change(Request::DeleteRule(rule.clone()), RouteNetlinkMessage::DelRule(describe(rule)), 0)
    }

    /// The rules of a family that send packets to a table, as far as a [`Rule`] can describe them. None where the
    /// kernel was built without the family.
    pub fn rules(&mut self, family: Family) -> Result<Vec<Rule>, NetlinkError> {
        let mut message = RuleMessage::default();
        message.header.family = family.number();
        let request = Request::ListRules(family);
        match self.list(request, RouteNetlinkMessage::GetRule(message)) {
            Ok(replies) => Ok(replies.iter().filter_map(|reply| parse(reply, family)).collect()),
            Err(error) if error.is_unsupported() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

fn describe(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = rule.family.number();
    message.header.action = RuleAction::ToTable;
    message.header.table = u8::try_from(rule.table).unwrap_or(0);
    let attributes = &mut message.attributes;
    attributes.push(RuleAttribute::Priority(rule.priority));
    attributes.push(RuleAttribute::Table(rule.table));
    match rule.mark {
        Some(RuleMark::Is(mark)) => attributes.push(RuleAttribute::FwMark(mark)),
        Some(RuleMark::IsNot(mark)) => {
            message.header.flags = RuleFlags::Invert;
            attributes.push(RuleAttribute::FwMark(mark));
        }
        None => {}
    }
    attributes.extend(rule.suppress_prefix_len.map(RuleAttribute::SuppressPrefixLen));
    attributes.push(RuleAttribute::Protocol(rule.protocol.into()));
    message
}

fn parse(reply: &Reply, family: Family) -> Option<Rule> {
    if reply.kind != RTM_NEWRULE || reply.byte(7)? != TO_TABLE {
        return None;
    }
    let mut rule = Rule {
        family,
        // The kernel leaves a priority of 0 out.
        priority: 0,
        table: u32::from(reply.byte(4)?),
        mark: None,
        suppress_prefix_len: None,
        protocol: 0,
    };
    let inverted = reply.word(8)? & FIB_RULE_INVERT != 0;
    for attribute in reply.attributes(HEADER_BYTES) {
        let value = attribute.value();
        match attribute.kind() {
            FRA_PRIORITY => rule.priority = word(value)?,
            FRA_TABLE => rule.table = word(value)?,
            FRA_FWMARK if inverted => rule.mark = word(value).map(RuleMark::IsNot),
            FRA_FWMARK => rule.mark = word(value).map(RuleMark::Is),
            FRA_SUPPRESS_PREFIXLEN => {
                rule.suppress_prefix_len = word(value).filter(|len| *len != NO_SUPPRESSION);
            }
            FRA_PROTOCOL => rule.protocol = *value.first()?,
            _ => {}
        }
    }
    Some(rule)
}
