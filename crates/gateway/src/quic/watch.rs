//! Whether a path still carries UDP: a watch over a connection whose lane can ride on TCP instead.
//!
//! A firewall that begins to drop UDP says nothing; the connection only hears nothing any more. Idle timers take seconds to
//! find that out. The watch asks instead: when a busy connection has heard nothing for [`QUIET`], it sends a PING, and when
//! that is not answered in [`Watch::patience`], the path fails. It costs one PING after each burst of traffic. A path also
//! fails while most packets are lost ([`MAX_LOSS`]), and while it carries only packets that are shorter than QUIC requires
//! ([`super::lengths`]).

use std::time::{Duration, Instant as StdInstant};

/// A busy connection that hears nothing for so long asks.
const QUIET: Duration = Duration::from_millis(250);
/// And while the path fails it says so again.
const REPEAT: Duration = Duration::from_millis(500);
/// The time over which losses are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// The share of packets, in percent, whose loss in two windows after another makes the path fail.
const MAX_LOSS: u64 = 50;
/// Windows with fewer packets say nothing.
const MIN_PACKETS: u64 = 20;

/// Why a path fails that is heard of.
const LOSSY: &str = "most packets are lost";
pub(super) const ONLY_SHORT: &str = "only packets of less than 1200 bytes pass over UDP";

/// Packets of a connection so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Packets {
    pub(super) sent: u64,
    pub(super) lost: u64,
}

/// What the owner of a connection does or says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// It sends a PING.
    Ask,
    /// The path fails, for this reason.
    Failing(&'static str),
    /// It works again.
    Recovered,
}

#[derive(Debug)]
pub(super) struct Watch {
    /// There was data since the last answer, so silence means something.
    busy: bool,
    /// Since when it waits to hear something.
    since: StdInstant,
    asked: Option<StdInstant>,
    /// When it said last that the path fails.
    failing: Option<StdInstant>,
    window: (StdInstant, Packets),
    /// Windows after another in which most was lost.
    lossy: u8,
    only_short: bool,
}

impl Watch {
    pub(super) fn new(now: StdInstant) -> Self {
        Watch {
            busy: false,
            since: now,
            asked: None,
            failing: None,
            window: (now, Packets::default()),
            lossy: 0,
            only_short: false,
        }
    }

    /// How long an answer may take.
    fn patience(rtt: Duration) -> Duration {
        (3 * rtt + Duration::from_millis(50)).max(Duration::from_millis(200))
    }

    /// The lane has data to send, or got some.
    pub(super) fn handle_data(&mut self, now: StdInstant) {
        if !self.busy {
            (self.busy, self.since) = (true, now);
        }
    }

    /// Something came from the other end.
    pub(super) fn handle_received(
        &mut self,
        now: StdInstant,
        packets: impl FnOnce() -> Packets,
    ) -> Option<Finding> {
        self.since = now;
        if self.asked.take().is_some() {
            self.busy = false;
        }
        if now.saturating_duration_since(self.window.0) >= WINDOW {
            self.count(now, packets());
        }
        if self.reason().is_some() {
            return self.fail(now);
        }
        self.failing.take().map(|_| Finding::Recovered)
    }

    /// Whether only packets pass that are shorter than QUIC requires.
    pub(super) fn handle_lengths(&mut self, now: StdInstant, only_short: bool) -> Option<Finding> {
        self.only_short = only_short;
        if only_short { self.fail(now) } else { None }
    }

    /// Why the path fails though something comes.
    fn reason(&self) -> Option<&'static str> {
        if self.only_short { Some(ONLY_SHORT) } else { (self.lossy >= 2).then_some(LOSSY) }
    }

    fn fail(&mut self, now: StdInstant) -> Option<Finding> {
        let reason = self.reason()?;
        let again = self.failing.is_none_or(|at| now.saturating_duration_since(at) >= REPEAT);
        if again {
            self.failing = Some(now);
        }
        again.then_some(Finding::Failing(reason))
    }

    fn count(&mut self, now: StdInstant, packets: Packets) {
        let before = std::mem::replace(&mut self.window, (now, packets)).1;
        let (sent, lost) = (packets.sent - before.sent, packets.lost.saturating_sub(before.lost));
        if sent >= MIN_PACKETS {
            self.lossy = if lost * 100 >= sent * MAX_LOSS { self.lossy.saturating_add(1) } else { 0 };
        }
    }

    /// When to look at it again.
    pub(super) fn next(&self, rtt: Duration) -> Option<StdInstant> {
        match (self.failing, self.asked) {
            (Some(at), _) => Some(at + REPEAT),
            (None, Some(at)) => Some(at + Self::patience(rtt)),
            (None, None) => self.busy.then(|| self.since + QUIET),
        }
    }

    /// What is due.
    pub(super) fn poll(&mut self, now: StdInstant, rtt: Duration) -> Option<Finding> {
        self.next(rtt).filter(|at| *at <= now)?;
        if let Some(reason) = self.reason().filter(|_| self.asked.is_none() && self.failing.is_some()) {
            // Answers come still; they will say more.
            self.failing = Some(now);
            return Some(Finding::Failing(reason));
        }
        if self.asked.is_none() {
            self.asked = Some(now);
            return Some(Finding::Ask);
        }
        self.failing = Some(now);
        Some(Finding::Failing("nothing comes over UDP any more"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    struct Path {
        watch: Watch,
        start: StdInstant,
    }

    impl Path {
        fn new() -> Self {
            let start = StdInstant::now();
            Path { watch: Watch::new(start), start }
        }

        fn at(&self, ms: u64) -> StdInstant {
            self.start + Duration::from_millis(ms)
        }

        fn poll(&mut self, ms: u64) -> Option<Finding> {
            self.watch.poll(self.at(ms), RTT)
        }

        fn received(&mut self, ms: u64, sent: u64, lost: u64) -> Option<Finding> {
            self.watch.handle_received(self.at(ms), || Packets { sent, lost })
        }
    }

    #[test]
    fn an_idle_connection_is_left_alone_and_silence_after_data_is_asked_about_once() {
        let mut path = Path::new();
        assert_eq!((path.poll(10_000), path.watch.next(RTT)), (None, None));
        path.watch.handle_data(path.at(10_000));
        assert_eq!(path.poll(10_249), None);
        assert_eq!(path.poll(10_250), Some(Finding::Ask));
        assert_eq!(path.received(10_300, 0, 0), None);
        assert_eq!((path.poll(20_000), path.watch.next(RTT)), (None, None), "until there is data again");
    }

    #[test]
    fn what_is_heard_in_time_keeps_the_path() {
        let mut path = Path::new();
        for ms in (0..10_000).step_by(100) {
            path.watch.handle_data(path.at(ms));
            assert_eq!(path.poll(ms), None);
            assert_eq!(path.received(ms + 50, ms, 0), None);
        }
    }

    #[test]
    fn an_unanswered_question_is_a_failure_until_something_comes() {
        let mut path = Path::new();
        path.watch.handle_data(path.at(0));
        assert_eq!(path.poll(250), Some(Finding::Ask));
        assert_eq!(path.poll(449), None);
        let failing = Finding::Failing("nothing comes over UDP any more");
        assert_eq!(path.poll(450), Some(failing));
        assert_eq!(path.poll(900), None);
        assert_eq!(path.poll(950), Some(failing), "it says so again");
        assert_eq!(path.received(1000, 0, 0), Some(Finding::Recovered));
        assert_eq!(path.received(1001, 0, 0), None);
        // A long round trip gets more time: 600 ms, so 1.85 s.
        let rtt = Duration::from_millis(600);
        let mut watch = Watch::new(path.start);
        watch.handle_data(path.start);
        assert_eq!(watch.poll(path.at(250), rtt), Some(Finding::Ask));
        assert_eq!(watch.next(rtt), Some(path.at(250 + 1850)));
    }

    #[test]
    fn a_path_that_carries_only_short_packets_fails_whatever_is_heard() {
        let mut path = Path::new();
        path.watch.handle_data(path.at(0));
        let failing = Finding::Failing(ONLY_SHORT);
        assert_eq!(path.watch.handle_lengths(path.at(100), false), None);
        assert_eq!(path.watch.handle_lengths(path.at(2000), true), Some(failing));
        assert_eq!(path.received(2010, 10, 5), None, "it said so a moment ago, and has not recovered");
        assert_eq!(path.received(2600, 10, 5), Some(failing));
        assert_eq!(path.poll(3100), Some(failing));
        assert_eq!(path.watch.handle_lengths(path.at(3200), false), None);
        assert_eq!(path.received(3200, 20, 5), Some(Finding::Recovered), "a longer one was acknowledged");
    }

    #[test]
    fn two_seconds_in_which_most_is_lost_are_a_failure() {
        let mut path = Path::new();
        path.watch.handle_data(path.at(0));
        assert_eq!(path.received(1000, 100, 60), None);
        assert_eq!(path.received(1500, 150, 90), None);
        let failing = Finding::Failing("most packets are lost");
        assert_eq!(path.received(2000, 200, 120), Some(failing));
        assert_eq!(path.received(2100, 210, 126), None, "it said so a moment ago");
        assert_eq!(path.received(2600, 260, 150), Some(failing));
        assert_eq!(path.received(3000, 300, 121), Some(Finding::Recovered), "a good second");
        // Few packets say nothing.
        assert_eq!(path.received(4000, 310, 130), None);
        assert_eq!(path.received(5000, 320, 140), None);
    }
}
