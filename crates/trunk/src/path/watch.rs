//! The watch over several paths to a peer: which of them work, and what each is like.
//!
//! A connection retransmits for seconds before it is given up, and tells nobody. So while lanes hold data, the owner asks how long ago
//! each was acknowledged, and [`Silence`] decides. The transmitter then moves flows, and what waits, to the other paths.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::{LaneSign, Paths, Silence};
use crate::{ClassSettings, Packet, PathConditions, Transmitter};

/// How often paths are looked at while no lane holds data: their round-trip times and capacities change.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// What a look at a path has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathNews {
    /// Nothing is heard of the other end any more.
    Silent,
    /// Something is heard again.
    Heard,
}

/// What is known of the paths to one peer.
///
/// When [it is due](Self::poll_timeout), the owner [begins](Self::begin), shows the lanes of each path ([`look`](Self::look)), and
/// [updates](Self::update) the transmitter.
#[derive(Debug, Default)]
pub struct PathWatch {
    paths: Vec<Watched>,
    /// When to look again; `None` where there is one path.
    next: Option<Instant>,
}

/// One path.
#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    silence: Silence,
    silences: u64,
    capacity: Option<Rate>,
    delay: Option<Duration>,
}

impl PathWatch {
    /// Over so many paths. Where there is one, there is nothing to watch.
    pub fn new(paths: usize) -> Self {
        if paths < 2 {
            return PathWatch::default();
        }
        PathWatch { paths: vec![Watched::default(); paths], next: Some(Instant::ZERO) }
    }

    /// When to look again; `None` where there is one path.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// The number of paths; 0 where there is one.
    pub const fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there is one path, and nothing to watch.
    pub const fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// A lane came or went: the next look is due.
    pub fn handle_lanes_changed(&mut self) {
        if let Some(next) = &mut self.next {
            *next = Instant::ZERO;
        }
    }

    /// Lanes may have taken data.
    #[inline]
    pub fn handle_served(&mut self, now: Instant) {
        if let Some(next) = &mut self.next {
            *next = (*next).min(now + Silence::INTERVAL);
        }
    }

    /// Whether a look at all paths is due. If it is, it begins.
    pub fn begin(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|at| at <= now);
        if is_due {
            self.next = Some(now + IDLE_INTERVAL);
        }
        is_due
    }

    /// Takes the signs of all lanes that a path has, and its capacity as path control knows it.
    pub fn look(
        &mut self,
        now: Instant,
        path: usize,
        signs: &[LaneSign],
        capacity: Option<Rate>,
    ) -> Option<PathNews> {
        if signs.iter().any(|sign| sign.outstanding) {
            self.handle_served(now);
        }
        let watched = &mut self.paths[path];
        watched.delay = signs.iter().filter_map(|sign| sign.srtt).min().or(watched.delay);
        watched.capacity = capacity.or(watched.capacity);
        if !watched.silence.update(now, signs) {
            return None;
        }
        if watched.silence.is_silent() {
            watched.silences += 1;
            return Some(PathNews::Silent);
        }
        // Without lanes it is down.
        (!signs.is_empty()).then_some(PathNews::Heard)
    }

    /// Tells the transmitter how the paths are: [`Transmitter::handle_paths`]. `up` has a bit for each lane that is up. Returns the
    /// lanes for which packets wait now that came from others, a bit each.
    pub fn update<P: Packet>(
        &self,
        now: Instant,
        up: u32,
        transmitter: &mut Transmitter<P>,
        paths: &mut Paths,
        release: impl FnMut(P),
    ) -> u32 {
        let conditions = |path: &Watched| PathConditions {
            is_silent: path.silence.is_silent(),
            capacity: path.capacity,
            delay: path.delay,
        };
        let conditions: Vec<PathConditions> = self.paths.iter().map(conditions).collect();
        let hand_over = |class: &ClassSettings, on| paths.handle_class(now, class, on);
        transmitter.handle_paths(now, up, &conditions, hand_over, release)
    }

    /// Whether nothing is heard on each path, and how often that began.
    pub fn silences(&self) -> impl Iterator<Item = (bool, u64)> {
        self.paths.iter().map(|path| (path.silence.is_silent(), path.silences))
    }
}
