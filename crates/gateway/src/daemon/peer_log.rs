//! Lines of the log about the lanes of a peer, at a limited rate.
//!
//! A peer that holds a key decides how often its lanes come and go, so its lines are bounded as a stranger's are
//! ([`super::rejections`]). Each interval has the lines that a cut and a return of all lanes need. When a peer causes more, the rest of
//! them is counted, and one line at the end of each [`INTERVAL`] tells the counts, until an interval needs no bound again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use trunkline_units::Instant;

use crate::keys::PublicKey;

/// The interval of the bound.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);
/// Lines of an interval beyond those of lanes.
const LINES: u32 = 16;
/// Lines of each lane in an interval: it ends, is dialled in vain, and comes up, twice.
const LINES_PER_LANE: u32 = 6;

/// What a line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Told {
    /// A lane is up.
    Up,
    /// A lane has ended.
    Down,
    /// A dial failed, or goes another way.
    Dial,
}

impl Told {
    const fn text(self) -> &'static str {
        match self {
            Told::Up => "lanes came up",
            Told::Down => "lanes ended",
            Told::Dial => "dials failed",
        }
    }
}

#[derive(Debug)]
struct Tally {
    since: Instant,
    lines: u32,
    /// The interval before had too many, so this one tells counts alone.
    was_bounded: bool,
    left_out: BTreeMap<Told, u64>,
    last: String,
}

impl Tally {
    const fn new(since: Instant, was_bounded: bool) -> Self {
        Tally { since, lines: 0, was_bounded, left_out: BTreeMap::new(), last: String::new() }
    }
}

#[derive(Debug, Default)]
pub(super) struct PeerLog(BTreeMap<PublicKey, Tally>);

impl PeerLog {
    /// Whether the log has this line about a peer with so many lanes; otherwise it is counted.
    pub(super) fn admits(
        &mut self,
        now: Instant,
        peer: PublicKey,
        lanes: usize,
        (told, line): (Told, &str),
    ) -> bool {
        let tally = self.0.entry(peer).or_insert_with(|| Tally::new(now, false));
        tally.lines = tally.lines.saturating_add(1);
        let limit =
            LINES.saturating_add(LINES_PER_LANE.saturating_mul(u32::try_from(lanes).unwrap_or(u32::MAX)));
        if tally.lines <= limit && !tally.was_bounded {
            return true;
        }
        tally.was_bounded |= tally.lines > limit;
        *tally.left_out.entry(told).or_default() += 1;
        line.clone_into(&mut tally.last);
        false
    }

    /// The line about a peer whose interval has ended, if lines were left out.
    pub(super) fn poll_line(&mut self, now: Instant) -> Option<(PublicKey, String)> {
        let ended = |tally: &Tally| now.saturating_since(tally.since) >= INTERVAL;
        loop {
            let (peer, tally) = self.0.iter_mut().find(|(_, tally)| ended(tally))?;
            let peer = *peer;
            if tally.left_out.is_empty() {
                self.0.remove(&peer);
                continue;
            }
            // After an interval with few lines all are told again.
            let goes_on = tally.lines > LINES;
            let tally = std::mem::replace(tally, Tally::new(now, goes_on));
            let mut line = format!("in {:.0} s", now.saturating_since(tally.since).as_secs_f64());
            for (index, (told, count)) in tally.left_out.iter().enumerate() {
                let _ =
                    write!(line, "{} {} {count} more times", if index > 0 { "," } else { "" }, told.text());
            }
            let _ = write!(line, "; the last: {}", tally.last);
            return Some((peer, line));
        }
    }

    /// The time of the next poll.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().map(|tally| tally.since + INTERVAL).min()
    }

    /// Forgets peers that are no longer configured.
    pub(super) fn retain(&mut self, is_peer: impl Fn(&PublicKey) -> bool) {
        self.0.retain(|peer, _| is_peer(peer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANES: usize = 3;

    fn peer(number: u8) -> PublicKey {
        PublicKey::from_bytes([number; 32])
    }

    /// Lines of a peer whose lanes come and go `rate` times a second, for so many seconds from `from` on, as `(second, line)`.
    fn lines(log: &mut PeerLog, seconds: std::ops::Range<u64>, rate: u64) -> Vec<(u64, String)> {
        let mut lines = Vec::new();
        for second in seconds {
            for step in 0..rate {
                let now = Instant::from_millis(second * 1000 + step * 1000 / rate);
                while let Some((_, line)) = log.poll_line(now) {
                    lines.push((second, line));
                }
                for (told, line) in [(Told::Down, "lane x: down"), (Told::Up, "lane x: up")] {
                    if log.admits(now, peer(1), LANES, (told, line)) {
                        lines.push((second, line.to_owned()));
                    }
                }
            }
        }
        lines
    }

    #[test]
    fn a_peer_whose_lanes_come_and_go_has_one_line_a_minute_after_the_first() {
        let mut log = PeerLog::default();
        let told = lines(&mut log, 0..3601, 10);
        let (first, later): (Vec<_>, Vec<_>) = told.into_iter().partition(|(second, _)| *second < 60);
        assert_eq!(first.len(), LINES as usize + LANES * LINES_PER_LANE as usize);
        assert_eq!(later.len(), 60, "{later:?}");
        let whole = "in 60 s lanes came up 600 more times, lanes ended 600 more times; the last: lane x: up";
        assert_eq!(later[1], (120, whole.to_owned()));
        assert!(log.admits(Instant::from_millis(3_600_500), peer(2), LANES, (Told::Up, "of another peer")));
    }

    #[test]
    fn a_cut_of_all_lanes_is_told_in_full_and_so_is_all_after_a_quiet_minute() {
        let mut log = PeerLog::default();
        let count =
            |told: &[(u64, String)]| told.iter().filter(|(_, line)| line.starts_with("lane ")).count();
        assert_eq!(count(&lines(&mut log, 0..LANES as u64 * 2, 1)), LANES * 4);
        assert!(lines(&mut log, 100..200, 10).len() < 40, "a flood");
        for quiet in [400_000, 461_000] {
            while log.poll_line(Instant::from_millis(quiet)).is_some() {}
        }
        assert_eq!(log.poll_timeout(), None, "nothing is kept of a quiet peer");
        assert_eq!(count(&lines(&mut log, 500..503, 1)), 6);
    }
}
