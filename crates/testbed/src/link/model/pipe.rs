//! Propagation: packets that have left the transmitter and not yet arrived.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::Instant;

/// A wire of some length. It keeps the order: after its delay was shortened, packets arrive behind those that were
/// sent before and not earlier.
#[derive(Debug)]
pub struct Pipe<T> {
    delay: Duration,
    last: Instant,
    in_flight: VecDeque<(Instant, T)>,
}

impl<T> Pipe<T> {
    /// An empty wire.
    pub fn new(delay: Duration) -> Self {
        Self { delay, last: Instant::ZERO, in_flight: VecDeque::new() }
    }

    /// The propagation delay.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Changes the delay for what is sent from now on.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// Takes in what left the transmitter at `at`.
    pub fn send(&mut self, at: Instant, item: T) {
        self.last = self.last.max(at + self.delay);
        self.in_flight.push_back((self.last, item));
    }

    /// When the first item arrives.
    pub fn next(&self) -> Option<Instant> {
        self.in_flight.front().map(|(arrival, _)| *arrival)
    }

    /// The first item, if it has arrived by `now`.
    pub fn receive(&mut self, now: Instant) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        self.in_flight.pop_front().map(|(_, item)| item)
    }

    /// Items on their way.
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Loses everything that is on its way; how many items that was.
    pub fn cut(&mut self) -> usize {
        let lost = self.in_flight.len();
        self.in_flight.clear();
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_arrives_exactly_one_delay_after_it_was_sent() {
        let mut pipe = Pipe::new(Duration::from_millis(10));
        pipe.send(Instant::from_millis(5), 'a');
        assert_eq!(pipe.receive(Instant::from_nanos(14_999_999)), None);
        assert_eq!(pipe.receive(Instant::from_millis(15)), Some('a'));
    }

    #[test]
    fn a_shortened_delay_overtakes_nothing() {
        let mut pipe = Pipe::new(Duration::from_millis(10));
        pipe.send(Instant::from_millis(0), 'a');
        pipe.set_delay(Duration::from_millis(1));
        pipe.send(Instant::from_millis(2), 'b');
        pipe.send(Instant::from_millis(30), 'c');
        assert_eq!(pipe.receive(Instant::from_millis(9)), None);
        assert_eq!(pipe.receive(Instant::from_millis(10)), Some('a'));
        assert_eq!(pipe.receive(Instant::from_millis(10)), Some('b'));
        assert_eq!(pipe.next(), Some(Instant::from_millis(31)));
        assert_eq!(pipe.cut(), 1);
        assert!(pipe.is_empty());
    }
}
