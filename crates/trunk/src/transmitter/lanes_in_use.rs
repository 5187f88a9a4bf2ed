//! How many of its lanes a class uses, where that follows the path.
//!
//! One lane is one TCP connection. On a path that loses packets everything on it waits behind each loss, and where round trips vary too the
//! window of its congestion control is too small. Several lanes have these faults by parts. But a connection cannot have less than a few
//! packets in flight: on a path that holds ten packets four of them keep a queue and lose. And on a path without losses one lane
//! has neither fault, and path control holds it more exactly. So a class uses one lane, and on a path that loses packets without being
//! full as many as it holds packets for.

use std::time::Duration;

use trunkline_units::Instant;

/// How many lanes are in use, from the first one on.
#[derive(Debug, Clone, Copy)]
pub(super) struct LanesInUse {
    lanes: usize,
    number: usize,
    /// What the path holds, packets, in the mean over times in which it loses some and others; `None` until its capacity is known.
    held: Option<f64>,
    updated: Instant,
    /// Until when the number stays.
    rests_until: Instant,
    /// Until when flows may move to lanes that have fewer, since it has grown.
    spreads_until: Instant,
}

impl LanesInUse {
    /// Packets that the path must hold for each lane in use.
    const PACKETS: f64 = 12.0;
    /// The number changes when the path holds packets for twice as many lanes, or for less than this part of them: when it does, flows move,
    /// and some of their packets overtake each other.
    const MORE: f64 = 2.0;
    const LESS: f64 = 0.6;
    /// Nor does it change more often than this.
    const REST: Duration = Duration::from_secs(4);
    /// The time over which the mean is taken.
    const MEMORY: Duration = Duration::from_secs(1);
    /// For so long after the number has grown, flows move to lanes that have fewer.
    const SPREADING: Duration = Duration::from_secs(2);

    /// One of so many lanes, until the path is known.
    pub(super) const fn new(lanes: usize) -> Self {
        let at = Instant::ZERO;
        LanesInUse { lanes, number: 1, held: None, updated: at, rests_until: at, spreads_until: at }
    }

    /// The same, with what the class knows that had as many lanes before.
    pub(super) fn inheriting(self, old: Option<Self>) -> Self {
        old.filter(|old| old.lanes == self.lanes).unwrap_or(self)
    }

    pub(super) const fn number(&self) -> usize {
        self.number
    }

    /// Whether flows that have a lane may move to one that has fewer.
    pub(super) fn spreads(&self, now: Instant) -> bool {
        now < self.spreads_until
    }

    /// Takes how many packets the path holds, 0 if it loses none without being full.
    pub(super) fn update(&mut self, now: Instant, packets: f64) {
        let elapsed = now.saturating_since(std::mem::replace(&mut self.updated, now));
        let Some(held) = &mut self.held else {
            (self.held, self.rests_until) = (Some(packets), now + Self::MEMORY);
            return;
        };
        *held += (packets - *held) * (elapsed.as_secs_f64() / Self::MEMORY.as_secs_f64()).min(1.0);
        let wanted = *held / Self::PACKETS;
        let number = self.number as f64;
        if now >= self.rests_until && (wanted >= number * Self::MORE || wanted < number * Self::LESS) {
            let before = std::mem::replace(&mut self.number, (wanted as usize).clamp(1, self.lanes));
            if self.number != before {
                self.rests_until = now + Self::REST;
            }
            if self.number > before {
                self.spreads_until = now + Self::SPREADING;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look every 20 ms for so many seconds, at a path that holds `packets`.
    fn look(lanes: &mut LanesInUse, seconds: std::ops::Range<u64>, packets: impl Fn(u64) -> f64) -> usize {
        for tick in seconds.start * 50..seconds.end * 50 {
            lanes.update(Instant::from_millis(tick * 20), packets(tick));
        }
        lanes.number()
    }

    #[test]
    fn as_many_lanes_are_in_use_as_the_path_holds_packets_for() {
        for (packets, number) in [(0.0, 1), (20.0, 1), (25.0, 2), (30.0, 2), (60.0, 4), (1000.0, 4)] {
            let mut lanes = LanesInUse::new(4);
            assert_eq!(lanes.number(), 1, "before anything is known");
            assert_eq!(look(&mut lanes, 4..8, |_| packets), number, "{packets} packets");
        }
    }

    #[test]
    fn a_path_that_varies_does_not_move_flows_all_the_time() {
        let mut lanes = LanesInUse::new(4);
        let varying = |tick: u64| if tick.is_multiple_of(7) { 60.0 } else { 20.0 };
        let number = look(&mut lanes, 4..20, varying);
        for second in 20..60 {
            assert_eq!(look(&mut lanes, second..second + 1, varying), number);
        }
        assert_eq!(look(&mut lanes, 60..70, |_| 5.0), 1);
        assert!(!lanes.spreads(Instant::from_millis(61_000)), "fewer lanes: flows move once, by themselves");
        assert_eq!(look(&mut lanes, 70..80, |_| 200.0), 4);
        assert_eq!(look(&mut lanes, 80..90, |_| 5.0), 1);
        assert_eq!(look(&mut lanes, 90..91, |_| 200.0), 2, "one step at a time");
        assert!(lanes.spreads(Instant::from_millis(91_500)));
        assert_eq!(look(&mut lanes, 91..94, |_| 5.0), 2, "it rests");
        assert!(!lanes.spreads(Instant::from_millis(94_000)));
    }
}
