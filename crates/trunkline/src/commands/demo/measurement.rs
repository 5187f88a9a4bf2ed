//! What is measured in a phase, and the few numbers made of it.

use std::time::Duration;

use serde::Serialize;
use trunkline_testbed::statistics::percentile;
use trunkline_units::Instant;

/// Which of the two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Plain routing.
    Before,
    /// Through the trunk.
    After,
}

impl Phase {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Before => "without trunks",
            Self::After => "with trunks",
        }
    }
}

/// The state of a phase at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sample {
    /// Seconds since the flood began; negative before.
    pub(super) at_s: f64,
    /// TCP goodput at the receiver since the sample before.
    pub(super) tcp_mbit: f64,
    /// UDP goodput likewise.
    pub(super) udp_mbit: f64,
    /// Transfers complete since the flood began.
    pub(super) transfers: u64,
    /// The slowest response since the sample before, or how long a request has been waiting if that is longer.
    pub(super) request: RequestState,
    /// What waits in the core's queue, as the time that the WAN takes for it.
    pub(super) core_ms: f64,
    /// What waits in the edge queues of the two classes, likewise.
    pub(super) edge_ms: Option<EdgeBacklog>,
    /// Drops since the flood began.
    pub(super) drops: Tallies,
}

/// How the requests do.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum RequestState {
    /// None was due.
    #[default]
    Idle,
    /// The slowest of those that were answered took so many milliseconds.
    Answered(f64),
    /// The oldest has been waiting for so many milliseconds.
    Waiting(f64),
}

impl RequestState {
    pub(super) fn ms(self) -> Option<f64> {
        match self {
            Self::Idle => None,
            Self::Answered(ms) | Self::Waiting(ms) => Some(ms),
        }
    }
}

/// What waits at the edge, as the time that the WAN takes for it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct EdgeBacklog {
    /// In front of the lane of class `tcp`.
    pub(super) tcp: f64,
    /// In front of that of class `udp`.
    pub(super) udp: f64,
}

/// Packets offered to a queue, and dropped by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) offered: u64,
    pub(super) dropped: u64,
}

impl Tally {
    pub(super) fn percent(self) -> f64 {
        if self.offered == 0 { 0.0 } else { self.dropped as f64 * 100.0 / self.offered as f64 }
    }

    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        Self { offered: self.offered + other.offered, dropped: self.dropped + other.dropped }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            offered: self.offered.saturating_sub(earlier.offered),
            dropped: self.dropped.saturating_sub(earlier.dropped),
        }
    }
}

/// What happened in the queues, each of which counts for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tallies {
    /// The WAN's.
    pub(super) core: Tally,
    /// The edge queue of class `tcp`.
    pub(super) edge_tcp: Tally,
    /// That of class `udp`.
    pub(super) edge_udp: Tally,
    /// What the gateway's device dropped before any class saw it: all of it was offered, and dropped.
    pub(super) device: Tally,
}

impl Tallies {
    #[must_use]
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            core: self.core.since(earlier.core),
            edge_tcp: self.edge_tcp.since(earlier.edge_tcp),
            edge_udp: self.edge_udp.since(earlier.edge_udp),
            device: self.device.since(earlier.device),
        }
    }

    /// Everything at the edge.
    pub(super) fn edge(self) -> Tally {
        self.edge_tcp.and(self.edge_udp).and(self.device)
    }
}

/// A request of the measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Request {
    /// When it was due, in seconds since the flood began.
    pub(super) at_s: f64,
    /// Until its response, or until the end.
    pub(super) took: Duration,
    /// Whether there was a response.
    pub(super) answered: bool,
}

/// The times at which requests were due, and the responses that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLog<'a> {
    /// When the first was due.
    pub(super) begin: Instant,
    /// From one to the next.
    pub(super) interval: Duration,
    /// When the answered ones were due.
    pub(super) due: &'a [Instant],
    /// How long each of those took.
    pub(super) took: &'a [Duration],
}

impl RequestLog<'_> {
    /// Every request that was due in `from..to`, whether or not it could be sent: one that stands behind another
    /// on the connection waits as much as one on the wire.
    pub(super) fn requests(self, from: Instant, to: Instant) -> Vec<Request> {
        let interval = self.interval.as_nanos().max(1) as u64;
        let number = |due: Instant| ((due - self.begin).as_nanos() as u64 + interval / 2) / interval;
        let mut answers = self.due.iter().zip(self.took).peekable();
        let mut requests = Vec::new();
        for k in 0.. {
            let due = self.begin + Duration::from_nanos(interval.saturating_mul(k));
            if due >= to {
                break;
            }
            while answers.next_if(|(at, _)| number(**at) < k).is_some() {}
            let answer = answers.next_if(|(at, _)| number(**at) == k).map(|(_, took)| *took);
            // What came after the end was not there at the end.
            let answer = answer.filter(|took| due + *took <= to);
            if due >= from {
                requests.push(Request {
                    at_s: (due - from).as_secs_f64(),
                    took: answer.unwrap_or(to - due),
                    answered: answer.is_some(),
                });
            }
        }
        requests
    }
}

/// A phase in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Summary {
    /// TCP goodput at the receiver of the transfers.
    pub(super) tcp_mbit: f64,
    /// UDP goodput at the receiver.
    pub(super) udp_mbit: f64,
    /// Transfers that were completed.
    pub(super) transfers_completed: u64,
    /// Median of the time from request to response.
    pub(super) request_p50_ms: f64,
    /// Its 99th percentile.
    pub(super) request_p99_ms: f64,
    /// Packets dropped by the WAN's queue, of those offered to it.
    pub(super) core_drop_percent: f64,
    /// Packets dropped by the edge queues, of those offered to them.
    pub(super) edge_drop_percent: f64,
    /// Likewise of class `tcp` alone.
    #[serde(skip)]
    pub(super) edge_tcp_drop_percent: f64,
    /// Likewise of class `udp` alone.
    #[serde(skip)]
    pub(super) edge_udp_drop_percent: f64,
}

/// A phase as it went.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) samples: Vec<Sample>,
    pub(super) requests: Vec<Request>,
    pub(super) summary: Summary,
}

/// The quantiles of what all requests took, in milliseconds. Zero without requests, which the shortest phase has
/// already more than twenty of.
pub(super) fn request_ms(requests: &[Request], p: f64) -> f64 {
    let took: Vec<Duration> = requests.iter().map(|request| request.took).collect();
    percentile(&took, p).map_or(0.0, |took| took.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    #[test]
    fn requests_without_a_response_count_with_the_time_they_have_waited() {
        let begin = Instant::from_millis(1000);
        let due = [begin, begin + INTERVAL];
        let took = [Duration::from_millis(30), Duration::from_millis(40)];
        let log = RequestLog { begin, interval: INTERVAL, due: &due, took: &took };
        let requests = log.requests(begin + INTERVAL, begin + Duration::from_millis(450));
        let ms: Vec<(u128, bool)> = requests.iter().map(|r| (r.took.as_millis(), r.answered)).collect();
        assert_eq!(ms, [(40, true), (250, false), (150, false), (50, false)]);
        assert!((request_ms(&requests, 0.99) - 250.0).abs() < 1e-9);
    }

    #[test]
    fn a_response_after_the_end_is_none_and_a_lost_request_is_not_forgotten() {
        let begin = Instant::ZERO;
        // The second one failed, the third came late.
        let due = [begin, begin + 2 * INTERVAL];
        let took = [Duration::from_millis(10), Duration::from_millis(500)];
        let log = RequestLog { begin, interval: INTERVAL, due: &due, took: &took };
        let requests = log.requests(begin, begin + Duration::from_millis(300));
        let ms: Vec<(u128, bool)> = requests.iter().map(|r| (r.took.as_millis(), r.answered)).collect();
        assert_eq!(ms, [(10, true), (200, false), (100, false)]);
    }

    #[test]
    fn without_any_response_there_is_still_a_percentile() {
        let log = RequestLog { begin: Instant::ZERO, interval: INTERVAL, due: &[], took: &[] };
        let requests = log.requests(Instant::ZERO, Instant::from_millis(1000));
        assert_eq!(requests.len(), 10);
        assert!((request_ms(&requests, 0.5) - 500.0).abs() < 1e-9);
    }

    #[test]
    fn drops_are_percent_of_what_was_offered() {
        let tally = |offered, dropped| Tally { offered, dropped };
        let tallies = Tallies {
            core: tally(200, 50),
            edge_tcp: tally(90, 1),
            edge_udp: tally(100, 89),
            device: tally(10, 10),
        };
        assert!((tallies.core.percent() - 25.0).abs() < 1e-9);
        assert!((tallies.edge().percent() - 50.0).abs() < 1e-9);
        assert_eq!(tallies.since(tallies), Tallies::default());
        assert!(Tally::default().percent().abs() < 1e-9);
    }
}
