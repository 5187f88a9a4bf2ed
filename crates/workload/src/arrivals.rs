//! Requests that arrive whatever became of those before them.
//!
//! A request waits while it has no connection, and those behind it wait too. All that is drawn is drawn as requests arrive, so their
//! sizes and times, and the connections that they are assigned to at random, do not depend on the network.

use std::collections::VecDeque;

use trunkline_units::{Instant, Rng};

use crate::{Assignment, Distribution, seconds};

/// The distributions that requests are drawn from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawn<'d> {
    /// Bytes of an answer.
    pub(crate) response: &'d Distribution,
    /// Seconds from one arrival to the next.
    pub(crate) interval: &'d Distribution,
}

/// A request that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) arrived: Instant,
    /// Bytes of its answer.
    pub(crate) response: u64,
}

/// Connections, and requests that wait for them.
#[derive(Debug, Clone)]
enum Places {
    LongestIdle {
        /// The one that has been idle for the longest time first. There is none while requests wait.
        idle: VecDeque<u32>,
        waiting: VecDeque<Request>,
    },
    Random(Vec<Place>),
}

#[derive(Debug, Clone, Default)]
struct Place {
    busy: bool,
    waiting: VecDeque<Request>,
}

/// The requests of one source.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    /// When the next request arrives; `None` once the source has stopped.
    next: Option<Instant>,
    places: Places,
    /// Requests that have their connection.
    ready: VecDeque<(u32, Request)>,
    /// When a connection last became idle.
    freed: Instant,
}

impl Arrivals {
    pub(crate) fn new(
        (connections, assignment): (u32, Assignment),
        start: Instant,
        drawn: Drawn<'_>,
        rng: &mut Rng,
    ) -> Self {
        let next = Some(start + seconds(drawn.interval.draw(rng)));
        let places = match assignment {
            Assignment::LongestIdle => {
                Places::LongestIdle { idle: (0..connections).collect(), waiting: VecDeque::new() }
            }
            Assignment::Random => Places::Random(vec![Place::default(); connections as usize]),
        };
        Arrivals { next, places, ready: VecDeque::new(), freed: start }
    }

    /// When to ask again.
    pub(crate) fn poll_time(&self) -> Option<Instant> {
        if self.ready.is_empty() { self.next } else { Some(self.freed) }
    }

    /// The next request that begins by now, and its connection.
    pub(crate) fn poll(&mut self, now: Instant, drawn: Drawn<'_>, rng: &mut Rng) -> Option<(u32, Request)> {
        while let Some(arrived) = self.next.filter(|next| *next <= now) {
            let response = drawn.response.draw(rng).clamp(1.0, 1e12) as u64;
            self.arrive(Request { arrived, response }, rng);
            self.next = Some(arrived + seconds(drawn.interval.draw(rng)));
        }
        self.ready.pop_front()
    }

    fn arrive(&mut self, request: Request, rng: &mut Rng) {
        match &mut self.places {
            Places::LongestIdle { idle, waiting } => match idle.pop_front() {
                Some(connection) => self.ready.push_back((connection, request)),
                None => waiting.push_back(request),
            },
            Places::Random(places) => {
                let connection = rng.below(places.len() as u64) as u32;
                let place = &mut places[connection as usize];
                if place.busy {
                    place.waiting.push_back(request);
                } else {
                    place.busy = true;
                    self.ready.push_back((connection, request));
                }
            }
        }
    }

    /// The request of a connection is over.
    pub(crate) fn free(&mut self, connection: u32, now: Instant) {
        self.freed = now;
        let next = match &mut self.places {
            Places::LongestIdle { idle, waiting } => {
                let next = waiting.pop_front();
                idle.extend(next.is_none().then_some(connection));
                next
            }
            Places::Random(places) => {
                let place = &mut places[connection as usize];
                let next = place.waiting.pop_front();
                place.busy = next.is_some();
                next
            }
        };
        self.ready.extend(next.map(|request| (connection, request)));
    }

    /// Nothing begins any more, not even what waits.
    pub(crate) fn stop(&mut self) {
        self.next = None;
        self.ready.clear();
        match &mut self.places {
            Places::LongestIdle { waiting, .. } => waiting.clear(),
            Places::Random(places) => places.iter_mut().for_each(|place| place.waiting.clear()),
        }
    }

    /// Whether nothing is to begin.
    pub(crate) fn is_over(&self) -> bool {
        let waits = match &self.places {
            Places::LongestIdle { waiting, .. } => !waiting.is_empty(),
            Places::Random(places) => places.iter().any(|place| !place.waiting.is_empty()),
        };
        self.next.is_none() && self.ready.is_empty() && !waits
    }
}
