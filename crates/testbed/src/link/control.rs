//! Changes of a link while it carries traffic.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_queue::Settings as QueueSettings;
use trunkline_units::Rate;

use super::counters::Shared;
use super::model::{Counters, DirectionSettings};
use super::{Direction, LinkSettings};

/// What the forwarding thread is to do, as a whole state and not as a list of changes: later ones replace earlier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wanted {
    pub(super) forward: DirectionSettings,
    pub(super) backward: DirectionSettings,
    pub(super) up: bool,
    pub(super) running: bool,
}

#[derive(Debug)]
pub(super) struct Control {
    wanted: Mutex<Wanted>,
    bell: OwnedFd,
    forward: Shared,
    backward: Shared,
}

impl Control {
    pub(super) fn new(settings: &LinkSettings, bell: OwnedFd) -> Self {
        let wanted =
            Wanted { forward: settings.forward, backward: settings.backward, up: true, running: true };
        Self { wanted: Mutex::new(wanted), bell, forward: Shared::default(), backward: Shared::default() }
    }

    pub(super) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    pub(super) fn shared(&self, way: Direction) -> &Shared {
        match way {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// Clears the bell and says what is wanted now.
    pub(super) fn wanted(&self) -> Wanted {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        // The bell's counter overflows only with a reader asleep for 2^64 changes.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// Changes a link and reads its counters. A change takes effect within the time it takes to wake a thread; on a link
/// that has gone it has none.
#[derive(Debug, Clone)]
pub struct LinkHandle {
    pub(super) control: Arc<Control>,
}

impl LinkHandle {
    /// The counters of one direction.
    pub fn counters(&self, way: Direction) -> Counters {
        self.control.shared(way).read()
    }

    /// Changes any parameters of one direction. The kind of its queue must stay.
    pub fn change(&self, way: Direction, change: impl FnOnce(&mut DirectionSettings)) {
        self.control.change(|wanted| match way {
            Direction::Forward => change(&mut wanted.forward),
            Direction::Backward => change(&mut wanted.backward),
        });
    }

    /// Changes the rate of one direction; `None` is unlimited.
    pub fn set_rate(&self, way: Direction, rate: Option<Rate>) {
        self.change(way, |direction| direction.rate = rate);
    }

    /// Changes the propagation delay of one direction. Nothing overtakes.
    pub fn set_delay(&self, way: Direction, delay: Duration) {
        self.change(way, |direction| direction.delay = delay);
    }

    /// Changes the probability of losses in one direction.
    pub fn set_loss(&self, way: Direction, loss: f64) {
        self.change(way, |direction| direction.loss = loss);
    }

    /// Changes the limits of one direction's queue.
    pub fn set_queue(&self, way: Direction, queue: QueueSettings) {
        self.change(way, |direction| direction.queue = queue);
    }

    /// Cuts the wire: what is on it and in its queues is lost, and what comes is dropped. The devices stay up.
    pub fn cut(&self) {
        self.control.change(|wanted| wanted.up = false);
    }

    /// Mends the wire.
    pub fn restore(&self) {
        self.control.change(|wanted| wanted.up = true);
    }

    pub(super) fn stop(&self) {
        self.control.change(|wanted| wanted.running = false);
    }
}
