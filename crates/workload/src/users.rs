//! When users begin their transfers, and what they transfer.
//!
//! The owner asks for the next time ([`Users::poll_time`]), at which it first asks whether the source stops
//! ([`Users::poll_stop`]), then which transfers begin ([`Users::poll_beginning`]). It reports each transfer's end
//! ([`Users::handle_end`]), on which the user's next one depends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trunkline_units::{Instant, Rng};

use crate::arrivals::{Arrivals, Drawn};
use crate::{Pattern, seconds};

/// The state of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferState {
    /// It runs.
    Running,
    /// All that was to be sent has been received.
    Completed,
    /// A connection was reset or given up.
    Failed,
}

/// A transfer that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beginning {
    /// The flow, user or connection, from 0.
    pub user: u32,
    /// When it was asked for: now, or before that if it waited for a connection.
    pub asked: Instant,
    /// Bytes that the client sends; `None`: until the source stops.
    pub request: Option<u64>,
    /// Bytes that the server sends when it has them; 0: it does not answer.
    pub response: u64,
}

#[derive(Debug, Clone, Copy)]
struct User {
    /// When its transfer began.
    started: Instant,
    /// Objects that its page has still.
    objects: u32,
}

/// The users of one source.
#[derive(Debug, Clone)]
pub struct Users {
    pattern: Pattern,
    rng: Rng,
    places: Vec<User>,
    /// When users do something next.
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Of [`Pattern::Arrivals`], in place of `due`.
    arrivals: Option<Arrivals>,
    /// Not reached yet.
    stop: Option<Instant>,
    stopped: bool,
}

impl Users {
    /// Users who begin at `start`, and begin nothing from `stop` on.
    pub fn new(pattern: Pattern, (start, stop): (Instant, Option<Instant>), mut rng: Rng) -> Self {
        let users = pattern.users();
        let mut due = BinaryHeap::new();
        let mut arrivals = None;
        let stagger = match &pattern {
            Pattern::Bulk { stagger, .. } => Some(stagger),
            Pattern::Web { think, .. } => Some(think),
            Pattern::RequestResponse { interval, .. } => Some(interval),
            Pattern::Arrivals { assignment, response, interval, .. } => {
                let drawn = Drawn { response, interval };
                arrivals = Some(Arrivals::new((users, *assignment), start, drawn, &mut rng));
                None
            }
        };
        if let Some(stagger) = stagger {
            let in_turn = matches!(pattern, Pattern::Bulk { .. });
            let mut at = start;
            for user in 0..users {
                due.push(Reverse((at, user)));
                let gap = seconds(stagger.draw(&mut rng));
                // Users do not begin all at once, nor one after the other.
                at = if in_turn { at + gap } else { start + gap.mul_f64(rng.uniform()) };
            }
        }
        let places = vec![User { started: start, objects: 0 }; users as usize];
        Users { pattern, rng, places, due, arrivals, stop, stopped: false }
    }

    /// What they do.
    pub const fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// How many.
    pub fn count(&self) -> u32 {
        self.places.len() as u32
    }

    /// Whether the source has stopped.
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether no transfer is to begin, unless the end of one that runs leads to it.
    pub fn is_idle(&self) -> bool {
        self.due.is_empty() && self.arrivals.as_ref().is_none_or(Arrivals::is_over)
    }

    /// When to ask again; `None`: not before a transfer ends.
    pub fn poll_time(&self) -> Option<Instant> {
        let next = self.due.peek().map(|Reverse((at, _))| *at);
        let arrival = self.arrivals.as_ref().and_then(Arrivals::poll_time);
        next.into_iter().chain(arrival).chain(self.stop).min()
    }

    /// Whether the source stops, once: what has no end of its own ends now, and connections without a transfer close.
    pub fn poll_stop(&mut self, now: Instant) -> bool {
        let stops = self.stop.take_if(|stop| now >= *stop).is_some();
        if stops {
            self.stopped = true;
            self.due.clear();
            self.arrivals.iter_mut().for_each(Arrivals::stop);
        }
        stops
    }

    /// The next transfer that begins, if one does by now.
    pub fn poll_beginning(&mut self, now: Instant) -> Option<Beginning> {
        if let (Pattern::Arrivals { request, response, interval, .. }, Some(arrivals)) =
            (&self.pattern, &mut self.arrivals)
        {
            let begun = arrivals.poll(now, Drawn { response, interval }, &mut self.rng);
            return begun.map(|(user, arrival)| Beginning {
                user,
                asked: arrival.arrived,
                request: Some(*request),
                response: arrival.response,
            });
        }
        let Reverse((_, user)) = *self.due.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.due.pop();
        let place = &mut self.places[user as usize];
        place.started = now;
        let (request, response) = match &self.pattern {
            Pattern::Bulk { bytes, .. } => (*bytes, 0),
            Pattern::Web { request, response, objects, .. } => {
                if place.objects == 0 {
                    place.objects = objects.draw(&mut self.rng).clamp(1.0, 1e4) as u32;
                }
                place.objects -= 1;
                (Some(*request), response.draw(&mut self.rng).clamp(1.0, 1e12) as u64)
            }
            Pattern::RequestResponse { request, response, .. } => (Some(*request), *response),
            Pattern::Arrivals { .. } => return None,
        };
        Some(Beginning { user, asked: now, request, response })
    }

    /// A user's transfer is over. A user whose transfer failed gives up what was left of its page.
    pub fn handle_end(&mut self, user: u32, state: TransferState, now: Instant) {
        let place = &mut self.places[user as usize];
        if state == TransferState::Failed {
            place.objects = 0;
        }
        let next = match &self.pattern {
            Pattern::Bulk { .. } => return,
            Pattern::Arrivals { .. } => {
                self.arrivals.iter_mut().for_each(|arrivals| arrivals.free(user, now));
                return;
            }
            Pattern::RequestResponse { interval, .. } => {
                place.started + seconds(interval.draw(&mut self.rng))
            }
            Pattern::Web { gap, think, .. } => {
                let pause = if place.objects > 0 { gap } else { think };
                now + seconds(pause.draw(&mut self.rng))
            }
        };
        if !self.stopped {
            self.due.push(Reverse((next.max(now), user)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Assignment, Distribution, stream};

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn begun(users: &mut Users, now: Instant) -> Vec<Beginning> {
        std::iter::from_fn(|| users.poll_beginning(now)).collect()
    }

    fn web(objects: f64) -> Pattern {
        let fixed = Distribution::Fixed;
        Pattern::Web {
            users: 1,
            request: 300,
            response: fixed(8000.0),
            objects: fixed(objects),
            gap: fixed(0.5),
            think: fixed(3.0),
        }
    }

    #[test]
    fn flows_begin_one_after_the_other_and_once() {
        let pattern = Pattern::Bulk { flows: 3, bytes: None, stagger: Distribution::Fixed(0.1) };
        let mut users = Users::new(pattern, (at(1000), None), stream(1, 0));
        for (number, ms) in [1000, 1100, 1200].into_iter().enumerate() {
            assert_eq!(users.poll_time(), Some(at(ms)));
            assert_eq!(begun(&mut users, at(ms - 1)), []);
            let user = number as u32;
            let asked = at(ms);
            assert_eq!(begun(&mut users, asked), [Beginning { user, asked, request: None, response: 0 }]);
        }
        users.handle_end(0, TransferState::Completed, at(1300));
        assert_eq!((users.poll_time(), users.is_idle()), (None, true));
    }

    #[test]
    fn a_web_user_pauses_between_objects_and_longer_between_pages() {
        let mut users = Users::new(web(2.0), (at(0), None), stream(1, 0));
        let first = Beginning { user: 0, asked: at(0), request: Some(300), response: 8000 };
        assert_eq!(begun(&mut users, at(0)), [first]);
        assert_eq!(users.poll_time(), None, "it waits for its object");
        users.handle_end(0, TransferState::Completed, at(200));
        assert_eq!(users.poll_time(), Some(at(700)));
        assert_eq!(begun(&mut users, at(700)).len(), 1);
        users.handle_end(0, TransferState::Completed, at(1000));
        assert_eq!(users.poll_time(), Some(at(4000)));
    }

    #[test]
    fn a_failed_object_ends_its_page() {
        let mut users = Users::new(web(5.0), (at(0), None), stream(1, 0));
        assert_eq!(begun(&mut users, at(0)).len(), 1);
        users.handle_end(0, TransferState::Failed, at(100));
        assert_eq!(users.poll_time(), Some(at(3100)), "the next page, not the next object");
    }

    #[test]
    fn a_request_waits_for_its_interval_and_for_the_answer_before_it() {
        let interval = Distribution::Fixed(1.0);
        let pattern = Pattern::RequestResponse { connections: 1, request: 10, response: 20, interval };
        let mut users = Users::new(pattern, (at(0), None), stream(1, 0));
        assert_eq!(begun(&mut users, at(0)).len(), 1);
        users.handle_end(0, TransferState::Completed, at(300));
        assert_eq!(users.poll_time(), Some(at(1000)));
        assert_eq!(begun(&mut users, at(1000)).len(), 1);
        users.handle_end(0, TransferState::Completed, at(2500));
        assert_eq!(users.poll_time(), Some(at(2500)));
    }

    #[test]
    fn nothing_begins_from_the_stop_on() {
        let mut users = Users::new(web(2.0), (at(0), Some(at(400))), stream(1, 0));
        assert_eq!(begun(&mut users, at(0)).len(), 1);
        assert!(!users.poll_stop(at(399)));
        assert_eq!(users.poll_time(), Some(at(400)));
        assert!(users.poll_stop(at(400)) && !users.poll_stop(at(401)), "once");
        users.handle_end(0, TransferState::Completed, at(450));
        assert_eq!((users.poll_time(), users.is_idle(), users.is_stopped()), (None, true, true));
    }

    /// Two connections, and a request of 8000 bytes each second.
    fn arrivals() -> Pattern {
        Pattern::Arrivals {
            connections: 2,
            assignment: Assignment::LongestIdle,
            request: 100,
            response: Distribution::Fixed(8000.0),
            interval: Distribution::Fixed(1.0),
        }
    }

    #[test]
    fn requests_arrive_though_others_run_and_wait_for_a_connection() {
        let mut users = Users::new(arrivals(), (at(0), None), stream(1, 0));
        assert_eq!(users.poll_time(), Some(at(1000)));
        let who = |users: &mut Users, now| -> Vec<_> {
            begun(users, now).into_iter().map(|one| (one.user, one.asked)).collect()
        };
        assert_eq!(who(&mut users, at(1000)), [(0, at(1000))]);
        assert_eq!(who(&mut users, at(2000)), [(1, at(2000))]);
        assert_eq!(who(&mut users, at(4500)), [], "both connections are busy");
        assert_eq!(users.poll_time(), Some(at(5000)), "the next arrival");
        users.handle_end(1, TransferState::Completed, at(4600));
        assert_eq!(users.poll_time(), Some(at(4600)));
        assert_eq!(who(&mut users, at(4600)), [(1, at(3000))], "the first that waits, since when it arrived");
        users.handle_end(0, TransferState::Failed, at(4700));
        users.handle_end(1, TransferState::Completed, at(4800));
        assert_eq!(who(&mut users, at(4800)), [(0, at(4000))], "the connection that was idle for longer");
        assert_eq!(who(&mut users, at(5000)), [(1, at(5000))]);
    }

    #[test]
    fn a_request_that_is_assigned_at_random_waits_for_its_own_connection() {
        let Pattern::Arrivals { request, response, interval, .. } = arrivals() else { return };
        let assignment = Assignment::Random;
        let pattern = Pattern::Arrivals { connections: 2, assignment, request, response, interval };
        let mut users = Users::new(pattern, (at(0), None), stream(1, 0));
        // Nothing ends, so each connection gets one request, and the others wait though both may be needed.
        let begun = begun(&mut users, at(50_000));
        assert_eq!(begun.len(), 2);
        let first = begun[0];
        users.handle_end(first.user, TransferState::Completed, at(50_500));
        assert_eq!(users.poll_time(), Some(at(50_500)));
        let next = users.poll_beginning(at(50_500)).expect("one of 24 or so waits for it");
        assert!(next.user == first.user && next.asked > first.asked, "{next:?} after {first:?}");
        assert_eq!(users.poll_beginning(at(50_500)), None, "the others wait for the other one");
    }

    #[test]
    fn requests_that_wait_when_the_source_stops_never_begin() {
        let mut users = Users::new(arrivals(), (at(0), Some(at(3500))), stream(1, 0));
        assert_eq!(begun(&mut users, at(3400)).len(), 2);
        assert_eq!(users.poll_time(), Some(at(3500)));
        assert!(users.poll_stop(at(3500)) && users.is_idle());
        users.handle_end(0, TransferState::Completed, at(3600));
        assert_eq!((users.poll_time(), begun(&mut users, at(9000))), (None, vec![]));
    }

    #[test]
    fn requests_arrive_at_the_same_times_and_ask_for_the_same_whatever_the_network_does() {
        let pattern = |assignment| Pattern::Arrivals {
            connections: 3,
            assignment,
            request: 100,
            response: Distribution::Exponential { mean: 20_000.0 },
            interval: Distribution::Exponential { mean: 0.1 },
        };
        let asked = |assignment, delay: u64| {
            let mut users = Users::new(pattern(assignment), (at(0), None), stream(5, 0));
            let mut ends = std::collections::VecDeque::new();
            let mut all = Vec::new();
            for now in (0..60_000).step_by(5).map(at) {
                while ends.front().is_some_and(|(end, _)| *end <= now) {
                    if let Some((_, user)) = ends.pop_front() {
                        users.handle_end(user, TransferState::Completed, now);
                    }
                }
                for one in begun(&mut users, now) {
                    ends.push_back((now + std::time::Duration::from_millis(delay), one.user));
                    all.push((one.asked, one.response));
                }
            }
            all
        };
        let [fast, slow] = [10, 500].map(|delay| asked(Assignment::LongestIdle, delay));
        assert!(slow.len() > 300 && fast.len() > slow.len(), "{} and {}", fast.len(), slow.len());
        assert_eq!(fast[..slow.len()], slow);
        // Those of a busy connection are late, and begin after others that arrived later.
        let [fast, slow] = [10, 500].map(|delay| asked(Assignment::Random, delay));
        assert!(slow.len() > 250 && fast.len() > slow.len(), "{} and {}", fast.len(), slow.len());
        assert!(slow.iter().all(|one| fast.contains(one)) && fast[..slow.len()] != slow);
    }

    #[test]
    fn users_of_one_stream_ask_for_the_same_whatever_the_network_does() {
        let sizes = |delay: Duration| {
            let mut users = Users::new(Pattern::surge(1), (at(0), None), stream(7, 3));
            let mut now = at(0);
            let size = || {
                now = now.max(users.poll_time()?);
                let response = users.poll_beginning(now)?.response;
                now += delay;
                users.handle_end(0, TransferState::Completed, now);
                Some(response)
            };
            std::iter::from_fn(size).take(50).collect::<Vec<_>>()
        };
        assert_eq!(sizes(Duration::from_millis(1)), sizes(Duration::from_secs(2)));
    }
}
