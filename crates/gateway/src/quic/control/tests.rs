//! The controller as the library calls it.

use super::*;
use crate::lane::Circuit;

const MTU: u16 = 1200;
const RTT: Duration = Duration::from_millis(50);

struct Path {
    signals: Arc<Signals>,
    controller: Box<dyn Controller>,
    now: StdInstant,
    in_flight: u64,
}

impl Path {
    fn new() -> Self {
        Self::with(Control::Window(CongestionAlgorithm::Reno))
    }

    fn with(control: Control) -> Self {
        let signals = Signals::new(control);
        let now = StdInstant::now();
        let controller = Arc::new(Factory(Arc::clone(&signals))).build(now, MTU);
        Path { signals, controller, now, in_flight: 0 }
    }

    /// Sends what the window allows, as the library does. When each packet left.
    fn fill(&mut self) -> Vec<StdInstant> {
        let mut sent = Vec::new();
        while self.in_flight + u64::from(MTU) < self.controller.window() {
            self.now += Duration::from_micros(10);
            self.controller.on_sent(self.now, MTU.into(), sent.len() as u64);
            self.in_flight += u64::from(MTU);
            sent.push(self.now);
        }
        self.signals.handle_blocked();
        sent
    }

    fn ack(&mut self, sent: StdInstant) {
        self.in_flight = self.in_flight.saturating_sub(MTU.into());
        // The library's estimator cannot be made outside of it: times are not needed here.
        let Path { now, in_flight, controller, .. } = self;
        let any: &mut dyn Controller = controller.as_mut();
        any.on_end_acks(*now, *in_flight, true, None);
        let _ = sent;
    }
}

#[test]
fn the_window_is_that_of_the_algorithm_and_a_loss_halves_it_once() {
    let mut path = Path::new();
    assert_eq!(path.controller.window(), 10 * u64::from(MTU) + 1);
    let sent = path.fill();
    assert_eq!(sent.len(), 10, "all of the window");
    path.now += RTT;
    for at in &sent[..3] {
        path.in_flight -= u64::from(MTU);
        path.controller.on_congestion_event(path.now, *at, false, MTU.into());
    }
    assert_eq!(path.signals.window(), 5 * usize::from(MTU), "half of the ten in flight");
    path.ack(sent[3]);
    assert_eq!(path.signals.in_flight(), 6 * usize::from(MTU));
}

#[test]
fn a_mark_reduces_too_and_persistent_congestion_leaves_what_the_library_can_send_with() {
    let mut path = Path::new();
    let sent = path.fill();
    path.controller.on_congestion_event(path.now, sent[0], false, 0);
    assert_eq!(path.signals.window(), 5 * usize::from(MTU));
    path.controller.on_congestion_event(path.now, sent[8], true, 9 * u64::from(MTU));
    assert_eq!(path.signals.window(), usize::from(MTU));
    assert!(path.controller.window() > 2 * u64::from(MTU));
}

#[test]
fn a_lane_without_a_window_gets_one_while_its_circuit_is_open() {
    let mut path = Path::with(Control::Breaker);
    assert_eq!((path.controller.window(), path.signals.ignores_marks()), (NO_WINDOW, true));
    // Everything is lost, second after second.
    let mut seconds = 0;
    while path.signals.circuit().is_some_and(|circuit| !circuit.is_open) {
        seconds += 1;
        assert!(seconds < 10, "it never opens");
        for _ in 0..100 {
            path.now += Duration::from_millis(10);
            path.controller.on_sent(path.now, 1000, 0);
            let at = path.now;
            path.controller.on_congestion_event(at, at, false, 1000);
            path.in_flight = 0;
            path.ack(at);
        }
    }
    assert_eq!(seconds, 3);
    assert_eq!(path.signals.circuit(), Some(Circuit { is_open: true, trips: 1 }));
    assert!(path.controller.window() < 10 * u64::from(MTU), "{}", path.controller.window());
    assert!(!path.signals.ignores_marks());
    // Another plan takes the breaker away.
    path.signals.set_control(Control::Window(CongestionAlgorithm::Cubic));
    path.ack(path.now);
    assert_eq!(path.signals.circuit(), None);
}

#[test]
fn every_control_has_a_place_of_its_own() {
    let all = CongestionAlgorithm::ALL.map(Control::Window).into_iter().chain([Control::Breaker]);
    for control in all {
        assert_eq!(Control::at(control.place()), control);
    }
    assert_eq!(Control::of(&CongestionControl::Named("none".into())), Control::Breaker);
    assert_eq!(Control::of(&CongestionControl::ByPath), Control::Window(CongestionAlgorithm::Cubic));
}

#[test]
fn acknowledgements_alone_are_not_in_flight() {
    let mut path = Path::new();
    path.signals.set_eliciting(false);
    path.controller.on_sent(path.now, 40, 0);
    assert_eq!(path.signals.in_flight(), 0);
    path.signals.set_eliciting(true);
    path.controller.on_sent(path.now, 1200, 1);
    assert_eq!(path.signals.in_flight(), 1200);
}

/// What counts as sent and is never acknowledged, such as an acknowledgement that left while data waited, holds nothing up.
#[test]
fn all_is_delivered_once_nothing_is_in_flight() {
    let mut path = Path::new();
    path.signals.set_handed_over(5000);
    path.controller.on_sent(path.now, 1200, 0);
    path.controller.on_sent(path.now, 40, 1);
    path.now += RTT;
    path.controller.on_end_acks(path.now, 600, false, Some(0));
    assert_eq!(path.signals.acknowledged(), 0);
    path.controller.on_end_acks(path.now, 0, false, Some(0));
    assert_eq!(path.signals.acknowledged(), 5000);
}

/// The library counts a probe for the path's MTU as in flight, and sends nothing beside one that is longer than the window; after a
/// `CONNECTION_CLOSE` it hears of no acknowledgement any more, and would not even send that.
#[test]
fn a_probe_for_the_mtu_takes_nothing_from_the_window() {
    let mut path = Path::new();
    let before = path.controller.window();
    path.signals.set_probe(33_000);
    path.in_flight = 33_000;
    assert_eq!(path.fill().len(), 10, "as many as without the probe");
    // It was acknowledged, and packets have its length from now on.
    path.controller.on_mtu_update(33_000);
    assert_eq!(path.controller.window(), 2 * 33_000 + 1, "two of them at least");
    path.controller.on_mtu_update(MTU);
    assert_eq!(path.controller.window(), before);
}
