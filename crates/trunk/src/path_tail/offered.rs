//! Windows that are smaller than what the receiver has room for.

use trunkline_units::Seq;

/// Where the window ends that the sender of one flow has been offered. It never goes back (RFC 9293 §3.8.6).
#[derive(Debug, Clone, Copy, Default)]
pub struct OfferedEdge(Option<Seq>);

impl OfferedEdge {
    /// The end of the window that goes out with `ack`, where the receiver has room up to `edge` and the window is to be `bytes` at the
    /// most, if it is bounded.
    pub fn bound(&mut self, ack: Seq, edge: Seq, bytes: Option<u64>) -> Seq {
        let Some(bytes) = bytes else { return edge };
        let wanted = ack + u32::try_from(bytes).unwrap_or(u32::MAX).min(1 << 30);
        let bounded = if wanted.before(edge) { wanted } else { edge };
        let offered = self.0.filter(|offered| bounded.before(*offered)).unwrap_or(bounded);
        *self.0.insert(offered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_bounded_and_its_end_never_goes_back() {
        let at = |offset: u32| Seq(u32::MAX - 1000) + offset;
        let mut offered = OfferedEdge::default();
        assert_eq!(offered.bound(at(0), at(90_000), None), at(90_000), "not bounded");
        assert_eq!(offered.bound(at(0), at(90_000), Some(60_000)), at(60_000));
        assert_eq!(offered.bound(at(10_000), at(100_000), Some(20_000)), at(60_000), "it was promised");
        assert_eq!(offered.bound(at(50_000), at(140_000), Some(20_000)), at(70_000));
        assert_eq!(offered.bound(at(50_000), at(65_000), Some(20_000)), at(70_000));
        assert_eq!(offered.bound(at(80_000), at(95_000), Some(20_000)), at(95_000), "there is no more room");
        assert_eq!(offered.bound(at(80_000), at(200_000), Some(u64::MAX)), at(200_000));
    }
}
