//! Windows that are smaller than what the receiver has room for.

use trunkline_units::Seq;

/// Where the window ends that the sender of one flow has been offered. It never goes back (RFC 9293 §3.8.6).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OfferedEdge(Option<Seq>);

impl OfferedEdge {
    /// The end of the window that goes out with `ack`, where the receiver has room up to `edge` and the window is to be `bytes` at the
    /// most, if it is bounded.
    pub(super) fn bound(&mut self, ack: Seq, edge: Seq, bytes: Option<u64>) -> Seq {
        let wanted = bytes.map_or(edge, |bytes| ack + u32::try_from(bytes).unwrap_or(u32::MAX).min(1 << 30));
        let offered = self.extend(if wanted.before(edge) { wanted } else { edge });
        if bytes.is_some() { offered } else { edge }
    }

    /// A window that ends at `edge` goes out.
    pub(super) fn extend(&mut self, edge: Seq) -> Seq {
        *self.0.insert(self.0.filter(|offered| edge.before(*offered)).unwrap_or(edge))
    }

    /// Whether the sender may have sent a byte.
    pub(super) fn allows(self, seq: Seq) -> bool {
        self.0.is_none_or(|edge| seq.before(edge))
    }

    /// Bytes from `seq` to the end; none before anything has been offered.
    pub(super) fn room_from(self, seq: Seq) -> u64 {
        self.0.filter(|edge| seq.before(*edge)).map_or(0, |edge| u64::from(edge - seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_bounded_and_its_end_never_goes_back() {
        let at = |offset: u32| Seq(u32::MAX - 1000) + offset;
        let mut offered = OfferedEdge::default();
        assert_eq!(offered.bound(at(0), at(60_000), None), at(60_000), "not bounded");
        assert_eq!(offered.bound(at(10_000), at(100_000), Some(20_000)), at(60_000), "it was promised");
        assert_eq!(offered.bound(at(50_000), at(140_000), Some(20_000)), at(70_000));
        assert_eq!(offered.bound(at(50_000), at(65_000), Some(20_000)), at(70_000));
        assert_eq!(offered.bound(at(50_000), at(65_000), None), at(65_000), "what the receiver says");
        assert_eq!(offered.bound(at(80_000), at(95_000), Some(20_000)), at(95_000), "there is no more room");
        assert_eq!(offered.bound(at(80_000), at(200_000), Some(u64::MAX)), at(200_000));
    }

    #[test]
    fn what_is_beyond_the_largest_window_offered_is_not_allowed() {
        let at = |offset: u32| Seq(u32::MAX - 1000) + offset;
        let mut offered = OfferedEdge::default();
        assert!(offered.allows(at(1 << 20)) && offered.room_from(at(0)) == 0, "nothing has been offered");
        offered.extend(at(5000));
        offered.bound(at(0), at(3000), None);
        assert!(offered.allows(at(4999)) && !offered.allows(at(5000)));
        assert_eq!((offered.room_from(at(1000)), offered.room_from(at(6000))), (4000, 0));
    }
}
