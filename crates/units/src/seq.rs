use std::ops::{Add, AddAssign, Sub};

/// A 32-bit sequence number that wraps (RFC 9293 §3.4).
///
/// It has no total order; [`Seq::before`] compares two numbers less than 2^31 apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// Whether `self` comes before `other`.
    pub const fn before(self, other: Seq) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }
}

impl Add<u32> for Seq {
    type Output = Seq;
    fn add(self, rhs: u32) -> Seq {
        Seq(self.0.wrapping_add(rhs))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, rhs: u32) {
        *self = *self + rhs;
    }
}

impl Sub for Seq {
    type Output = u32;
    /// The distance from `rhs` forward to `self`, modulo 2^32.
    fn sub(self, rhs: Seq) -> u32 {
        self.0.wrapping_sub(rhs.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let last = Seq(u32::MAX);
        assert!(last.before(last + 1));
        assert!(!(last + 1).before(last));
        assert!(!last.before(last));
        assert_eq!((last + 5) - last, 5);
    }
}
