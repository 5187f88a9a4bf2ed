//! When connections are looked at.
//!
//! What an end has acknowledged, nothing reports. So a connection is looked at for as long as something of it is held: every
//! [`MIN_INTERVAL`] while looks find something new, and after each that finds nothing after twice the time, up to [`MAX_INTERVAL`].
//! However many connections there are, [`AT_A_TIME`] have their turn in each [`MIN_INTERVAL`], those first that have waited for longest.
//!
//! An end that is to take a close has [`CLOSE_TIMEOUT`] since it last acknowledged something: the user timeout of RFC 9293 §3.9.1.1. Its
//! host may answer probes of its closed window for ever.
//!
//! Pure: `now` is an argument. It does not go backwards.

use std::collections::BTreeSet;
use std::time::Duration;

use trunkline_units::Instant;

use crate::slots::Key;

const MIN_INTERVAL: Duration = Duration::from_millis(20);
const MAX_INTERVAL: Duration = Duration::from_secs(5);
const AT_A_TIME: u32 = 64;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(300);

/// What is known of one connection, which its owner keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Polled {
    /// When it is looked at next.
    at: Option<Instant>,
    interval: Duration,
    /// When something was new.
    changed: Instant,
}

impl Default for Polled {
    fn default() -> Self {
        Polled { at: None, interval: MIN_INTERVAL, changed: Instant::ZERO }
    }
}

impl Polled {
    /// Whether a close has not been taken in time.
    pub(crate) fn is_given_up(&self, now: Instant) -> bool {
        now.saturating_since(self.changed) >= CLOSE_TIMEOUT
    }
}

/// All that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    due: BTreeSet<(Instant, Key)>,
    /// Turns begin anew.
    turns_at: Instant,
    turns: u32,
}

impl Polling {
    /// Something has happened to a connection.
    pub(crate) fn handle_change(&mut self, now: Instant, key: Key, polled: &mut Polled) {
        polled.changed = now;
        if polled.at.is_none() || polled.interval > MIN_INTERVAL {
            polled.interval = MIN_INTERVAL;
            self.set(key, polled, now + MIN_INTERVAL);
        }
    }

    /// A look has found something new, and more is to come.
    pub(crate) fn handle_news(&mut self, now: Instant, key: Key, polled: &mut Polled) {
        (polled.changed, polled.interval) = (now, MIN_INTERVAL);
        self.set(key, polled, now + MIN_INTERVAL);
    }

    /// A look has found nothing new.
    pub(crate) fn handle_no_news(&mut self, now: Instant, key: Key, polled: &mut Polled) {
        polled.interval = (polled.interval * 2).min(MAX_INTERVAL);
        self.set(key, polled, now + polled.interval);
    }

    /// A connection is not to be looked at any more.
    pub(crate) fn stop(&mut self, key: Key, polled: &mut Polled) {
        if let Some(at) = polled.at.take() {
            self.due.remove(&(at, key));
        }
    }

    /// When to come back.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let (at, _) = *self.due.first()?;
        Some(if self.turns == 0 { at.max(self.turns_at) } else { at })
    }

    /// The next to be looked at. The owner says what it has found.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Key> {
        if now >= self.turns_at {
            (self.turns_at, self.turns) = (now + MIN_INTERVAL, AT_A_TIME);
        }
        let (_, key) = *self.due.first().filter(|(at, _)| *at <= now && self.turns > 0)?;
        self.due.pop_first();
        self.turns -= 1;
        Some(key)
    }

    fn set(&mut self, key: Key, polled: &mut Polled, at: Instant) {
        self.stop(key, polled);
        polled.at = Some(at);
        self.due.insert((at, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;

    /// Connections that nothing happens to but what `news` says: looks in each second.
    fn looks(connections: u32, seconds: u64, news: impl Fn(Key, Instant) -> bool) -> Vec<u32> {
        let (mut polling, mut slots) = (Polling::default(), Slots::new());
        for _ in 0..connections {
            let key = slots.insert(Polled::default());
            polling.handle_change(Instant::ZERO, key, slots.get_mut(key).expect("it is there"));
        }
        let mut looks = vec![0; seconds as usize];
        while let Some(now) = polling.next_timeout().filter(|at| *at < Instant::from_millis(seconds * 1000)) {
            while let Some(key) = polling.poll(now) {
                looks[now.as_secs_f64() as usize] += 1;
                let polled = slots.get_mut(key).expect("it is there");
                if news(key, now) {
                    polling.handle_news(now, key, polled);
                } else {
                    polling.handle_no_news(now, key, polled);
                }
            }
        }
        looks
    }

    #[test]
    fn an_end_that_acknowledges_nothing_is_asked_less_and_less_often() {
        let looks = looks(1, 100, |_, _| false);
        assert!((5..=6).contains(&looks[0]), "20, 60, 140, 300, 620 ms: {looks:?}");
        assert_eq!(looks[50..].iter().sum::<u32>(), 10, "every five seconds");
    }

    #[test]
    fn six_thousand_ends_cost_a_bounded_number_of_looks_and_delay_others_little() {
        let looks = looks(6000, 100, |_, _| false);
        assert!(looks.iter().all(|looks| *looks <= 50 * AT_A_TIME), "{looks:?}");
        let late = looks[60..].iter().sum::<u32>();
        assert!((6000 * 7..=6000 * 8).contains(&late), "{late} in 40 s");
    }

    #[test]
    fn an_end_in_use_is_looked_at_often_beside_many_that_are_not() {
        let news = std::cell::Cell::new(0);
        let first = Slots::new().insert(());
        looks(6000, 100, |key, now| {
            let in_use = key == first;
            news.set(news.get() + u32::from(in_use && now > Instant::from_millis(60_000)));
            in_use
        });
        assert!(news.get() > 40 * 20, "{} in 40 s", news.get());
    }

    #[test]
    fn an_end_that_takes_no_close_is_given_up_five_minutes_after_it_last_acknowledged_something() {
        let (mut polling, mut polled, key) = (Polling::default(), Polled::default(), Slots::new().insert(()));
        polling.handle_change(Instant::ZERO, key, &mut polled);
        let (mut looks, mut last_news) = (0, Instant::ZERO);
        let given_up = loop {
            let now = polling.next_timeout().expect("it is looked at");
            assert_eq!((polling.poll(now), polling.poll(now)), (Some(key), None));
            if polled.is_given_up(now) {
                break now;
            }
            if looks == 20 {
                last_news = now;
                polling.handle_news(now, key, &mut polled);
            } else {
                polling.handle_no_news(now, key, &mut polled);
            }
            looks += 1;
        };
        let after = (given_up - last_news).as_secs_f64();
        assert!((300.0..306.0).contains(&after) && looks < 100, "{after} s, {looks} looks");
        polling.handle_change(given_up, key, &mut polled);
        assert!(!polled.is_given_up(given_up));
        assert_eq!(polling.next_timeout(), Some(given_up + MIN_INTERVAL), "often again");
        polling.stop(key, &mut polled);
        assert_eq!((polling.next_timeout(), polling.poll(given_up + CLOSE_TIMEOUT)), (None, None));
    }
}
