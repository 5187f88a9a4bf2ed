//! Messages of `nf_tables` as bytes: a header of netlink, one of netfilter, attributes.

use super::attributes::Attributes;
use super::{
    DELETE_TABLE, FilterChain, FilterRule, GET_TABLE, Hook, INET, NEW_CHAIN, NEW_RULE, NF_ACCEPT,
    NLM_F_APPEND, NLM_F_CREATE, expressions,
};

/// `NFNL_SUBSYS_NFTABLES`.
pub(super) const SUBSYSTEM: u8 = 10;
/// `NFNL_MSG_BATCH_BEGIN` and `_END`.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const MESSAGE_HEADER: usize = 16;
/// The sequence number of the first message of a batch; that before it opens the batch.
const FIRST: u32 = 1;

/// Messages that take effect together.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    next: u32,
}

impl Batch {
    pub(super) fn new() -> Self {
        let mut batch = Batch { bytes: Vec::new(), next: FIRST };
        batch.bytes.extend(message(BATCH_BEGIN, NLM_F_REQUEST, FIRST - 1, 0, SUBSYSTEM.into(), &[]));
        batch
    }

    pub(super) fn table(&mut self, kind: u8, flags: u16, name: &str, table_flags: u32) {
        let mut attributes = Attributes::default();
        attributes.text(1, name);
        if kind != DELETE_TABLE {
            attributes.number(2, table_flags);
        }
        self.push(kind, flags, &attributes);
    }

    pub(super) fn chain(&mut self, table: &str, chain: &FilterChain) {
        // The kernel's numbers, and the type of chain: a change of a mark counts for the route only in one of type "route".
        let (hook, kind) = match chain.hook {
            Hook::Prerouting => (0, "filter"),
            Hook::Output => (3, "route"),
            Hook::Postrouting => (4, "nat"),
        };
        let mut attributes = Attributes::default();
        attributes.text(1, table);
        attributes.text(3, &chain.name);
        attributes.nest(4, |at| {
            at.number(1, hook);
            at.number(2, chain.priority.cast_unsigned());
        });
        attributes.number(5, NF_ACCEPT);
        attributes.text(7, kind);
        self.push(NEW_CHAIN, NLM_F_CREATE, &attributes);
    }

    pub(super) fn rule(&mut self, table: &str, chain: &str, rule: &FilterRule) {
        let mut attributes = Attributes::default();
        attributes.text(1, table);
        attributes.text(2, chain);
        attributes.nest(4, |at| expressions::write(at, rule));
        self.push(NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, &attributes);
    }

    fn push(&mut self, kind: u8, flags: u16, attributes: &Attributes) {
        let kind = u16::from(SUBSYSTEM) << 8 | u16::from(kind);
        self.bytes.extend(message(kind, NLM_F_REQUEST | flags, self.next, INET, 0, &attributes.0));
        self.next += 1;
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend(message(BATCH_END, NLM_F_REQUEST, self.next, 0, SUBSYSTEM.into(), &[]));
        self.bytes
    }
}

/// A question for a table, outside a batch.
pub(super) fn get_table(name: &str) -> Vec<u8> {
    let mut attributes = Attributes::default();
    attributes.text(1, name);
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(GET_TABLE);
    message(kind, NLM_F_REQUEST | NLM_F_ACK, FIRST, INET, 0, &attributes.0)
}

/// Which message of a batch has this sequence number.
pub(super) fn number_of(sequence: u32) -> usize {
    sequence.saturating_sub(FIRST) as usize
}

fn message(kind: u16, flags: u16, sequence: u32, family: u8, resource: u16, attributes: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MESSAGE_HEADER + 4 + attributes.len());
    bytes.extend(((MESSAGE_HEADER + 4 + attributes.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(attributes);
    bytes
}
