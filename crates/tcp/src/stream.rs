//! Places in a stream of bytes, which do not wrap, and their sequence numbers, which do.
//!
//! SYN is at 0, the first byte of data at 1, FIN behind the last. So a place is one more than the number of bytes
//! before it.

use trunkline_units::Seq;

/// Where in the sequence space a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Origin(pub(crate) Seq);

impl Origin {
    #[inline]
    pub(crate) fn seq(self, place: u64) -> Seq {
        self.0 + place as u32
    }

    /// The place of `seq` that is nearest to `near`; `None` if it were before the stream.
    #[inline]
    pub(crate) fn place(self, seq: Seq, near: u64) -> Option<u64> {
        let distance = (seq - self.seq(near)).cast_signed();
        near.checked_add_signed(i64::from(distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_on_where_sequence_numbers_wrap() {
        let origin = Origin(Seq(u32::MAX - 1));
        for place in [0, 1, 2, 3, 1 << 32, (1 << 40) + 7] {
            assert_eq!(origin.place(origin.seq(place), place), Some(place));
            assert_eq!(origin.place(origin.seq(place), place + 1000), Some(place));
        }
        assert_eq!(origin.place(Seq(u32::MAX - 2), 0), None);
    }
}
