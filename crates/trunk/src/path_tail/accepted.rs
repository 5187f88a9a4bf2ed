//! What of a flow's stream has been accepted: all of it to a point, and stretches beyond.

use trunkline_units::Seq;

/// A segment would be one stretch too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scattered;

#[derive(Debug, Clone)]
pub(super) struct Accepted {
    next: Seq,
    /// Disjoint, not touching, in order.
    beyond: Vec<(Seq, Seq)>,
}

impl Accepted {
    /// Stretches kept beyond the first gap.
    const MAX_RANGES: usize = 64;

    pub(super) fn new(first: Seq) -> Self {
        Accepted { next: first, beyond: Vec::new() }
    }

    /// Everything before it has been accepted.
    pub(super) fn next(&self) -> Seq {
        self.next
    }

    /// Whether all of `seq..end` has been accepted.
    pub(super) fn has(&self, seq: Seq, end: Seq) -> bool {
        !self.next.before(end) || self.beyond.iter().any(|(from, to)| !seq.before(*from) && !to.before(end))
    }

    pub(super) fn insert(&mut self, seq: Seq, end: Seq) -> Result<(), Scattered> {
        if self.has(seq, end) {
            return Ok(());
        }
        if self.next.before(seq) {
            self.insert_beyond(seq, end)?;
        } else {
            self.next = end;
        }
        let reached = self.beyond.iter().take_while(|(from, _)| !self.next.before(*from)).count();
        for (_, to) in self.beyond.drain(..reached) {
            self.next = if self.next.before(to) { to } else { self.next };
        }
        Ok(())
    }

    fn insert_beyond(&mut self, mut seq: Seq, mut end: Seq) -> Result<(), Scattered> {
        let at = self.beyond.partition_point(|(_, to)| to.before(seq));
        let touching = self.beyond[at..].iter().take_while(|(from, _)| !end.before(*from)).count();
        if touching == 0 && self.beyond.len() == Self::MAX_RANGES {
            return Err(Scattered);
        }
        for (from, to) in self.beyond.drain(at..at + touching) {
            seq = if from.before(seq) { from } else { seq };
            end = if end.before(to) { to } else { end };
        }
        self.beyond.insert(at, (seq, end));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;

    #[test]
    fn it_is_the_set_of_bytes_that_were_accepted_in_any_order() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed, "accepted");
            let first = Seq(u32::MAX - 300);
            let mut accepted = Accepted::new(first);
            let mut bytes = [false; 600];
            for _ in 0..60 {
                let from = rng.below(580) as usize;
                let to = from + 1 + rng.below(20) as usize;
                let (seq, end) = (first + from as u32, first + to as u32);
                assert_eq!(accepted.has(seq, end), bytes[from..to].iter().all(|byte| *byte));
                if accepted.insert(seq, end).is_ok() {
                    bytes[from..to].fill(true);
                }
                let prefix = bytes.iter().take_while(|byte| **byte).count() as u32;
                assert_eq!(accepted.next(), first + prefix);
            }
        }
    }

    #[test]
    fn stretches_are_bounded_and_a_segment_that_joins_some_is_not_refused() {
        let mut accepted = Accepted::new(Seq(0));
        for number in 0..Accepted::MAX_RANGES as u32 {
            assert_eq!(accepted.insert(Seq(10 + 20 * number), Seq(20 + 20 * number)), Ok(()));
        }
        assert_eq!(accepted.insert(Seq(5000), Seq(5010)), Err(Scattered));
        assert_eq!(accepted.insert(Seq(20), Seq(30)), Ok(()));
        assert_eq!(accepted.insert(Seq(5000), Seq(5010)), Ok(()), "two became one");
        assert_eq!(accepted.insert(Seq(0), Seq(10)), Ok(()));
        assert_eq!(accepted.next(), Seq(40));
    }
}
