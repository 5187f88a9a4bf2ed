//! Whether a path loses packets because it is full.
//!
//! Behind a short buffer a full path shows no queue; it loses. But so does a path with noise. The two differ when less is sent: a full
//! path stops to lose. So when more is lost than usual the rate is lowered a little for some windows, a *trial*. What is lost then is
//! what the path loses at any rate. If that is next to nothing, the path was full, and the rate stays low for some seconds.

use std::time::Duration;

use trunkline_units::Instant;

/// Segments that the lanes sent, and those that they had to retransmit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    pub(super) sent: u32,
    pub(super) lost: u32,
}

impl Losses {
    pub(super) fn add(&mut self, more: Losses) {
        self.sent = self.sent.saturating_add(more.sent);
        self.lost = self.lost.saturating_add(more.lost);
    }

    /// A part that is lost by chance on paths that are called clean.
    const CLEAN: f64 = 0.002;

    /// Whether no more is lost than twice `part`, what is lost on a clean path, and one segment.
    pub(super) fn are_usual(self, part: f64) -> bool {
        f64::from(self.lost) <= f64::from(self.sent) * (2.0 * part + Self::CLEAN) + 1.0
    }
}

/// Watches what a path loses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossWatch {
    /// Segments of late, which count less with each window.
    sent: f64,
    lost: f64,
    /// The part that is lost when the path is not full.
    usual: f64,
    /// Segments in windows without a queue, and those lost of them, which count less with each window.
    quiet: (f64, f64),
    /// Windows left of the trial.
    trial: u32,
    /// The part that was lost when it began.
    cause: f64,
    /// How long the rate stays low after a trial in which the losses ended, and until when.
    rest: Duration,
    low_until: Instant,
}

impl LossWatch {
    /// By how much the rate is below the capacity.
    pub(super) const CUT: f64 = 0.05;
    /// The windows of a trial; what the first ones see was sent before it.
    const TRIAL: u32 = 8;
    const LATE: u32 = 3;
    /// How much a window before the present one counts.
    const MEMORY: f64 = 0.75;
    /// The same for what is lost without a queue.
    const LONG_MEMORY: f64 = 0.98;
    /// It is known after so many segments.
    const KNOWN: f64 = 1000.0;
    /// So many segments are judged, with so many losses among them.
    const MIN_SENT: f64 = 60.0;
    const MIN_LOST: f64 = 4.0;
    /// More than usual is this part more, and three standard deviations of what is lost of so few.
    const MORE: f64 = 0.02;
    const MIN_VARIANCE: f64 = 0.01;
    const DEVIATIONS: f64 = 3.0;
    /// The bounds of the time for which the rate stays low.
    const REST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(8));

    /// Takes what was lost in a window without a queue.
    pub(super) fn handle_quiet(&mut self, losses: Losses) {
        let (sent, lost) = self.quiet;
        self.quiet = (
            sent * Self::LONG_MEMORY + f64::from(losses.sent),
            lost * Self::LONG_MEMORY + f64::from(losses.lost),
        );
    }

    /// The part that is lost without a queue.
    pub(super) fn noise(&self) -> f64 {
        let (sent, lost) = self.quiet;
        self.usual.max(if sent > 0.0 { lost / sent } else { 0.0 })
    }

    /// The same, once enough was sent to know.
    pub(super) fn known_noise(&self) -> Option<f64> {
        (self.quiet.0 >= Self::KNOWN).then(|| self.noise())
    }

    /// Whether the rate is to be below the capacity.
    pub(super) fn holds_back(&self, now: Instant) -> bool {
        self.trial > 0 || now < self.low_until
    }

    /// The rate is bounded from now on: what was lost before says nothing of it.
    pub(super) const fn handle_bound(&mut self) {
        (self.sent, self.lost) = (0.0, 0.0);
    }

    /// Takes what was lost in a window. Whether that is more than usual: a trial begins.
    pub(super) fn update(&mut self, now: Instant, losses: Losses) -> bool {
        self.sent = self.sent * Self::MEMORY + f64::from(losses.sent);
        self.lost = self.lost * Self::MEMORY + f64::from(losses.lost);
        let enough = self.sent >= Self::MIN_SENT;
        let part = if enough { self.lost / self.sent } else { 0.0 };
        if self.trial > 0 {
            self.trial -= 1;
            if enough && self.trial < Self::TRIAL - Self::LATE {
                self.usual += (part - self.usual) / 4.0;
            }
            if self.trial == 0 {
                let ended = self.usual < self.cause / 2.0;
                let rest =
                    if ended { (self.rest * 2).clamp(Self::REST.0, Self::REST.1) } else { Duration::ZERO };
                (self.rest, self.low_until) = (rest, now + rest);
            }
            return false;
        }
        if !enough {
            return false;
        }
        let deviation = (self.usual.max(Self::MIN_VARIANCE) / self.sent).sqrt();
        let more =
            self.lost >= Self::MIN_LOST && part > self.usual + Self::MORE + Self::DEVIATIONS * deviation;
        if more {
            (self.cause, self.trial) = (part, Self::TRIAL);
            (self.sent, self.lost) = (0.0, 0.0);
        } else if part < self.usual {
            self.usual += (part - self.usual) / 16.0;
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of 50 ms and 100 segments over a path that loses `noise` always, and what exceeds its capacity. How often it was held back.
    fn run(noise: f64, full: bool, windows: u64) -> (LossWatch, u64) {
        let (mut watch, mut low, mut due) = (LossWatch::default(), 0, 0.0);
        for window in 0..windows {
            let now = Instant::from_millis(window * 50);
            let low_now = watch.holds_back(now);
            low += u64::from(low_now);
            due += 100.0 * (noise + if full && !low_now { 0.08 } else { 0.0 });
            let lost = due as u32;
            due -= f64::from(lost);
            let _ = watch.update(now, Losses { sent: 100, lost });
        }
        (watch, low)
    }

    #[test]
    fn a_path_that_loses_because_it_is_full_is_held_back_most_of_the_time() {
        let (watch, low) = run(0.0, true, 2000);
        assert!(low > 1500, "{low} of 2000 windows");
        assert!(watch.usual < 0.005, "{}", watch.usual);
    }

    #[test]
    fn what_is_lost_without_a_queue_is_noise() {
        let mut watch = LossWatch::default();
        assert!(watch.noise() < f64::EPSILON && watch.known_noise().is_none());
        for _ in 0..200 {
            watch.handle_quiet(Losses { sent: 100, lost: 1 });
        }
        assert!((watch.noise() - 0.01).abs() < 0.001, "{}", watch.noise());
        assert_eq!(watch.known_noise(), Some(watch.noise()));
        assert!(Losses { sent: 1000, lost: 20 }.are_usual(watch.noise()));
        assert!(!Losses { sent: 1000, lost: 50 }.are_usual(watch.noise()));
    }

    #[test]
    fn what_is_lost_at_any_rate_becomes_usual() {
        for noise in [0.0, 0.001, 0.01, 0.02] {
            let (_, low) = run(noise, false, 2000);
            assert_eq!(low, 0, "{noise}");
        }
        let (watch, low) = run(0.10, false, 2000);
        assert!(low <= 10 * u64::from(LossWatch::TRIAL), "{low} windows");
        assert!((0.06..0.11).contains(&watch.usual), "{}", watch.usual);
    }
}
