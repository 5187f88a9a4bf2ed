//! Whether anything is heard of the other end of a path.
//!
//! A path that fails says nothing. Its lanes retransmit for seconds before they give up; the flows on it can move to another path
//! long before. A lane that holds data is acknowledged within a round trip, and within one more or the time of a delayed
//! acknowledgement (RFC 9293 §3.8.6.3; 40 ms in Linux) if little is under way. Acknowledgements of data behind a gap count too: a lane
//! that repairs losses is not silent. What else comes does not count: it shows nothing of the way to the other end. So `LIMIT` and two round trips without any, on all lanes of the path, are a failure, or look
//! like one: nothing is lost by a mistake, since the lanes stay and the path is used again when something is acknowledged.

use std::time::Duration;

use trunkline_units::Instant;

/// A path of which nothing is heard for this time and two round trips is silent.
const LIMIT: Duration = Duration::from_millis(100);

/// What a lane knows of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSign {
    /// Whether it has sent data that is not acknowledged.
    pub outstanding: bool,
    /// When the other end last acknowledged something new; at first when the lane came up.
    pub heard: Instant,
    /// Its smoothed round-trip time.
    pub srtt: Option<Duration>,
}

/// When the other end of a lane last acknowledged something new, as far as its owner has looked.
#[derive(Debug, Clone, Copy)]
pub struct Heard {
    count: u64,
    at: Instant,
}

impl Heard {
    /// Of a lane that comes up now.
    pub const fn new(now: Instant) -> Self {
        Heard { count: 0, at: now }
    }

    /// What the lane says of its path: so much has been acknowledged so far, in any unit.
    pub fn sign(
        &mut self,
        now: Instant,
        acknowledged: u64,
        outstanding: bool,
        srtt: Option<Duration>,
    ) -> LaneSign {
        if acknowledged != self.count {
            *self = Heard { count: acknowledged, at: now };
        }
        LaneSign { outstanding, heard: self.at, srtt }
    }
}

/// Whether one path is silent, by the signs of its lanes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silence {
    /// Since when data has been outstanding without a break.
    busy_since: Option<Instant>,
    /// Looks in a row that found nothing heard for long: one alone may be a machine that stood still.
    suspicions: u32,
    /// Since when it is silent.
    silent_since: Option<Instant>,
}

impl Silence {
    /// How often the owner of a path looks, while its lanes hold data.
    pub const INTERVAL: Duration = Duration::from_millis(10);
    const SUSPICIONS: u32 = 2;

    /// Whether the path is silent.
    pub const fn is_silent(&self) -> bool {
        self.silent_since.is_some()
    }

    /// Takes the signs of all lanes of the path. Whether it has become silent, or is no longer.
    pub fn update(&mut self, now: Instant, lanes: &[LaneSign]) -> bool {
        let heard = lanes.iter().map(|lane| lane.heard).max();
        if let Some(since) = self.silent_since {
            // Without lanes it is down, which is for others to say.
            let ends = heard.is_none_or(|heard| heard > since);
            if ends {
                *self = Silence::default();
            }
            return ends;
        }
        if !lanes.iter().any(|lane| lane.outstanding) {
            *self = Silence::default();
            return false;
        }
        let busy_since = *self.busy_since.get_or_insert(now);
        let quiet_since = heard.map_or(busy_since, |heard| heard.max(busy_since));
        let srtt = lanes.iter().filter(|lane| lane.outstanding).filter_map(|lane| lane.srtt).max();
        let is_quiet = now.saturating_since(quiet_since) >= LIMIT + srtt.unwrap_or_default() * 2;
        self.suspicions = if is_quiet { self.suspicions + 1 } else { 0 };
        if self.suspicions < Self::SUSPICIONS {
            return false;
        }
        *self = Silence { silent_since: Some(now), ..Silence::default() };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn lane(outstanding: bool, heard: u64) -> LaneSign {
        LaneSign { outstanding, heard: at(heard), srtt: Some(Duration::from_millis(30)) }
    }

    /// When a path changes, looked at every 10 ms.
    fn changes(until: u64, lanes: impl Fn(u64) -> Vec<LaneSign>) -> Vec<u64> {
        let mut silence = Silence::default();
        (0..until).step_by(10).filter(|ms| silence.update(at(*ms), &lanes(*ms))).collect()
    }

    #[test]
    fn a_busy_path_is_silent_after_two_round_trips_and_100_ms() {
        let told = changes(2_000, |ms| vec![lane(true, ms.min(500))]);
        assert_eq!(told, [670], "500 + 60 + 100, and a second look");
        assert_eq!(
            changes(2_000, |ms| vec![lane(true, ms.min(500)), lane(false, ms)]),
            [],
            "another lane hears"
        );
    }

    #[test]
    fn an_idle_path_is_never_silent_and_its_next_data_has_the_whole_time() {
        assert_eq!(changes(60_000, |_| vec![lane(false, 0)]), []);
        assert_eq!(changes(60_000, |ms| vec![lane(ms >= 50_000, 0)]), [50_170]);
        assert_eq!(changes(60_000, |_| Vec::new()), []);
    }

    #[test]
    fn it_is_not_silent_any_more_when_something_is_heard_or_no_lane_is_left() {
        let told = changes(5_000, |ms| vec![lane(true, if ms < 3_000 { ms.min(500) } else { 3_000 })]);
        assert_eq!(told, [670, 3_000, 3_180]);
        let told = changes(5_000, |ms| if ms < 3_000 { vec![lane(true, ms.min(500))] } else { Vec::new() });
        assert_eq!(told, [670, 3_000]);
    }

    #[test]
    fn one_look_after_a_standstill_of_the_machine_is_no_proof() {
        let mut silence = Silence::default();
        assert!(!silence.update(at(0), &[lane(true, 0)]));
        assert!(!silence.update(at(900), &[lane(true, 0)]), "acknowledgements may not have been read yet");
        assert!(!silence.update(at(910), &[lane(true, 905)]));
        assert!(!silence.is_silent());
    }
}
