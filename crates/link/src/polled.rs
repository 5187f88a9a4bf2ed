//! A link that keeps its own timers, for an owner without an agenda, who may be late.

use trunkline_units::Instant;

use crate::{Link, LinkSettings, Owner, Payload, Timer};

/// The times of a link's timers; the far future where one is not set.
#[derive(Debug)]
struct Timers([Instant; Timers::ALL.len()]);

impl Timers {
    const ALL: [Timer; 3] = [Timer::Arrival, Timer::Free, Timer::Change];

    /// The next one to run out: of two at one instant the first in order.
    fn next(&self) -> Option<(Instant, Timer)> {
        let all = self.0.into_iter().zip(Timers::ALL);
        all.min_by_key(|(at, _)| *at).filter(|(at, _)| *at < Instant::FAR_FUTURE)
    }
}

impl<T> Owner<T> for Timers {
    fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = at;
    }
}

/// A packet that a link delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<T> {
    /// When it is at the far end, which may be earlier than the call that says so.
    pub due: Instant,
    /// The packet.
    pub packet: T,
    /// Whether it arrives twice.
    pub duplicated: bool,
}

/// A [`Link`] that computes times and does not observe them: each of its events happens at the time that the model has for it,
/// however late the owner polls. A packet that waited begins to be sent at the instant its predecessor ended. So lateness of the
/// owner delays single packets and never changes the rate.
///
/// At each time the owner first calls [`PolledLink::poll`] until it returns `None`, and then whatever else it has to.
#[derive(Debug)]
pub struct PolledLink<T> {
    link: Link<T>,
    settings: LinkSettings,
    timers: Timers,
}

impl<T: Payload> PolledLink<T> {
    /// An idle link, whose changes count their times from `now`. What is random in it follows from `seed`.
    pub fn new(settings: &LinkSettings, seed: u64, now: Instant) -> Self {
        let mut polled = PolledLink {
            link: Link::new(settings, seed),
            settings: settings.clone(),
            timers: Timers([Instant::FAR_FUTURE; Timers::ALL.len()]),
        };
        polled.restart_changes(now, now);
        polled
    }

    /// The link: its counters and what holds now.
    pub const fn link(&self) -> &Link<T> {
        &self.link
    }

    /// The next packet that is at the far end by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Delivery<T>> {
        while let Some((at, timer)) = self.timers.next().filter(|(at, _)| *at <= now) {
            self.timers.0[timer as usize] = Instant::FAR_FUTURE;
            match timer {
                Timer::Arrival => {
                    if let Some(arrival) = self.link.arrive(&mut self.timers) {
                        let crate::Arrival { packet, duplicated } = arrival;
                        return Some(Delivery { due: at, packet, duplicated });
                    }
                }
                Timer::Free => self.link.begin(at, &mut self.timers),
                Timer::Change => self.link.change(at, &mut self.timers),
            }
        }
        None
    }

    /// When to poll next.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.next().map(|(at, _)| at)
    }

    /// Enqueues a packet.
    pub fn offer(&mut self, now: Instant, packet: T) {
        self.assert_polled(now);
        self.link.offer(now, packet, &mut self.timers);
    }

    /// Counts a packet that its owner refused, for it is longer than the MTU.
    pub fn count_too_big(&mut self) {
        self.link.count_too_big();
    }

    /// Counts the peaks of its queue from now on.
    pub fn reset_peaks(&mut self) {
        self.link.reset_peaks();
    }

    /// Takes new settings. What is the same as in those before stays as it is, with what the changes made of it; other changes
    /// count their times from `now`. What waits or is on its way keeps its place, unless the queue becomes another discipline.
    pub fn reconfigure(&mut self, now: Instant, settings: &LinkSettings) {
        self.assert_polled(now);
        let before = std::mem::replace(&mut self.settings, settings.clone());
        if before.delay != settings.delay {
            self.link.set_delay(settings.delay);
        }
        if before.impairments != settings.impairments {
            self.link.set_impairments(settings.impairments);
        }
        if before.queue != settings.queue {
            self.link.set_queue(now, settings.queue);
        }
        if before.mtu != settings.mtu {
            self.link.set_mtu(settings.mtu);
        }
        if before.mobile != settings.mobile {
            self.link.set_mobile(settings.mobile.as_ref());
        }
        if before.rate != settings.rate {
            self.link.set_rate(now, settings.rate, &mut self.timers);
        }
        if before.deliveries != settings.deliveries {
            self.link.set_deliveries((now, now), settings.deliveries.clone(), &mut self.timers);
        }
        if (&before.changes, before.repeat) != (&settings.changes, settings.repeat) {
            self.restart_changes(now, now);
        }
    }

    /// Lets the changes count their times from `start`. What they have changed so far stays changed.
    pub fn restart_changes(&mut self, now: Instant, start: Instant) {
        let changes = (self.settings.changes.clone(), self.settings.repeat);
        self.link.set_changes((now, start), changes, &mut self.timers);
    }

    /// Loses everything that waits and that is on its way; how many packets on their way that was. [`Link::cut`] says where
    /// those that waited are counted.
    pub fn cut(&mut self, now: Instant) -> usize {
        self.assert_polled(now);
        self.link.cut(now)
    }

    /// What was due earlier must have happened, or events would come in another order than with an owner in time.
    fn assert_polled(&self, now: Instant) {
        debug_assert!(self.next_wakeup().is_none_or(|at| at >= now), "poll({now:?}) until it returns None");
    }
}
