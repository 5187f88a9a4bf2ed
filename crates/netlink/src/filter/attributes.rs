//! Attributes of netlink as bytes.

const NLA_F_NESTED: u16 = 0x8000;

/// Attributes, one after the other.
#[derive(Debug, Default)]
pub(super) struct Attributes(pub(super) Vec<u8>);

impl Attributes {
    pub(super) fn put(&mut self, kind: u16, value: &[u8]) {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Numbers of this family are in network order.
    pub(super) fn number(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_be_bytes());
    }

    pub(super) fn text(&mut self, kind: u16, value: &str) {
        self.put(kind, &[value.as_bytes(), &[0]].concat());
    }

    pub(super) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes)) {
        let mut inner = Attributes::default();
        fill(&mut inner);
        self.put(kind | NLA_F_NESTED, &inner.0);
    }
}
