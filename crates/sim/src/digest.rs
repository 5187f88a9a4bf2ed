//! A fingerprint of all events, in order.

use std::fmt;

/// Two runs with the same digest went through the same events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(u64);

impl Digest {
    pub(crate) const fn new(seed: u64) -> Self {
        Digest(seed ^ 0x243f_6a88_85a3_08d3)
    }

    #[inline]
    pub(crate) fn add(&mut self, a: u64, b: u64) {
        let product = u128::from(self.0 ^ a ^ 0x9e37_79b9_7f4a_7c15)
            * u128::from(b.rotate_left(32) ^ 0xbf58_476d_1ce4_e5b9);
        self.0 = self.0.rotate_left(5) ^ (product >> 64) as u64 ^ product as u64;
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
