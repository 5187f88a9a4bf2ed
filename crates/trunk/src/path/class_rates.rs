//! Divides the ceiling and the guarantee of a class among its edge queues: one for each of its lanes in each shard.

use std::sync::Arc;
use std::time::Duration;

use trunkline_queue::Share;
use trunkline_units::{Instant, Rate};

use super::PathLane;
use super::division::{Demand, max_min};

/// What the edge queue of a class on one lane does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EdgeQueueDemand {
    /// Bytes that have left it in all.
    pub sent: u64,
    /// Whether packets wait in it.
    pub backlogged: bool,
}

/// An edge queue as it was reported last.
#[derive(Debug, Clone)]
struct EdgeQueue {
    class: Arc<str>,
    lane: PathLane,
    at: Instant,
    sent: u64,
    backlogged: bool,
    /// bit/s.
    rate: f64,
}

/// The edge queues of all classes with a ceiling or a guarantee, of all shards.
#[derive(Debug, Clone, Default)]
pub(super) struct ClassRates {
    edge_queues: Vec<EdgeQueue>,
    demands: Vec<Demand>,
    shares: Vec<f64>,
}

impl ClassRates {
    /// A report that is older than this says nothing of now: the owner of an idle lane makes none.
    const MAX_AGE: Duration = Duration::from_millis(200);
    /// An edge queue in which nothing waits may send so many times what it does.
    const HEADROOM: f64 = 1.25;
    /// And this part of an equal share, so that it need not wait when it wakes up.
    const MIN_PART: f64 = 0.1;

    /// Takes what an edge queue of `class` does. Its part of what the class may have.
    pub(super) fn handle_demand(
        &mut self,
        now: Instant,
        lane: PathLane,
        class: &Arc<str>,
        share: Share,
        demand: EdgeQueueDemand,
    ) -> Share {
        self.record(now, lane, class, demand);
        let recent =
            |queue: &&EdgeQueue| queue.class == *class && now.saturating_since(queue.at) <= Self::MAX_AGE;
        let count = self.edge_queues.iter().filter(recent).count();
        let place = self.edge_queues.iter().filter(recent).position(|queue| queue.lane == lane);
        let mut part = |rate: Rate| {
            if count == 1 {
                return rate;
            }
            let rate = rate.bits_per_second() as f64;
            let least = rate / count as f64 * Self::MIN_PART;
            self.demands.clear();
            self.demands.extend(self.edge_queues.iter().filter(recent).map(|queue| Demand {
                weight: 1.0,
                rate: if queue.backlogged { f64::INFINITY } else { (queue.rate * Self::HEADROOM).max(least) },
            }));
            max_min(rate, &self.demands, &mut self.shares);
            // What nobody asks for is there for whoever wakes up.
            let left = (rate - self.shares.iter().sum::<f64>()).max(0.0) / count as f64;
            let part = place.and_then(|place| self.shares.get(place)).copied().unwrap_or(least);
            Rate::from_bits_per_second((part + left).max(1.0) as u64)
        };
        Share { ceiling: share.ceiling.map(&mut part), guarantee: share.guarantee.map(part), ..share }
    }

    fn record(&mut self, now: Instant, lane: PathLane, class: &Arc<str>, demand: EdgeQueueDemand) {
        let EdgeQueueDemand { sent, backlogged } = demand;
        let known = self.edge_queues.iter_mut().find(|queue| queue.lane == lane && queue.class == *class);
        let Some(queue) = known else {
            let class = Arc::clone(class);
            return self.edge_queues.push(EdgeQueue { class, lane, at: now, sent, backlogged, rate: 0.0 });
        };
        let elapsed = now.saturating_since(queue.at).as_secs_f64();
        if elapsed > 0.0 {
            let rate = sent.saturating_sub(queue.sent) as f64 * 8.0 / elapsed;
            queue.rate += (rate - queue.rate) / 4.0;
            (queue.at, queue.sent) = (now, sent);
        }
        queue.backlogged = backlogged;
    }

    /// A lane's connection has ended.
    pub(super) fn remove_lane(&mut self, lane: PathLane) {
        self.edge_queues.retain(|queue| queue.lane != lane);
    }

    /// A shard's lanes are gone, or have other numbers from now on.
    pub(super) fn remove_shard(&mut self, shard: u16) {
        self.edge_queues.retain(|queue| queue.lane.shard() != shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneId;

    fn lane(shard: u16, number: u8) -> PathLane {
        PathLane::new(shard, LaneId(number))
    }

    fn share() -> Share {
        let [guarantee, ceiling] = [4.0, 10.0].map(|rate| Some(Rate::from_mbit(rate)));
        Share { guarantee, ceiling, ..Share::default() }
    }

    /// Edge queues that send what they may if they are busy and 1 Mbit/s if not, reported every 20 ms, for a second. The ceiling of each
    /// at the end, Mbit/s.
    fn ceilings(rates: &mut ClassRates, from: u64, lanes: &[(PathLane, bool)]) -> Vec<f64> {
        let class: Arc<str> = "a".into();
        let mut sent = vec![0.0; lanes.len()];
        let mut may = vec![1.0; lanes.len()];
        for tick in 0..50 {
            let now = Instant::from_millis(from + tick * 20);
            for (place, (lane, busy)) in lanes.iter().enumerate() {
                sent[place] += if *busy { may[place] } else { 1.0 } * 1e6 * 0.020 / 8.0;
                let demand = EdgeQueueDemand { sent: sent[place] as u64, backlogged: *busy };
                let part = rates.handle_demand(now, *lane, &class, share(), demand);
                may[place] = part.ceiling.expect("a ceiling").as_mbit();
                let ratio = may[place] / part.guarantee.expect("a guarantee").as_mbit();
                assert!(lanes.len() > 1 || (ratio - 2.5).abs() < 1e-9, "{ratio}");
            }
        }
        may
    }

    #[test]
    fn a_class_on_one_lane_has_all_that_it_may() {
        assert_eq!(ceilings(&mut ClassRates::default(), 0, &[(lane(0, 0), true)]), [10.0]);
    }

    #[test]
    fn lanes_and_shards_have_one_ceiling_together_and_what_one_leaves_the_others_get() {
        let mut rates = ClassRates::default();
        let all = [(lane(0, 0), true), (lane(0, 1), true), (lane(1, 0), true), (lane(1, 1), true)];
        assert_eq!(ceilings(&mut rates, 0, &all), [2.5; 4]);
        let one_idle = [(lane(0, 0), true), (lane(0, 1), true), (lane(1, 0), true), (lane(1, 1), false)];
        let parts = ceilings(&mut rates, 1000, &one_idle);
        assert!((parts[3] - 1.25).abs() < 0.01 && (parts[0] - 8.75 / 3.0).abs() < 0.01, "{parts:?}");
        // The others are silent.
        assert_eq!(ceilings(&mut rates, 3000, &all[..1]), [10.0]);
        rates.remove_shard(1);
        assert_eq!(ceilings(&mut rates, 3000, &all[..2]), [5.0; 2]);
        rates.remove_lane(lane(0, 1));
        assert_eq!(ceilings(&mut rates, 4000, &all[..1]), [10.0]);
    }

    #[test]
    fn idle_lanes_divide_what_nobody_asks_for() {
        let parts = ceilings(&mut ClassRates::default(), 0, &[(lane(0, 0), false), (lane(1, 0), false)]);
        assert!(parts.iter().all(|part| (part - 5.0).abs() < 0.01), "{parts:?}");
    }
}
