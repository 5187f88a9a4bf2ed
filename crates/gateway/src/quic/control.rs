//! The congestion control of a connection: `trunkline_congestion` behind the library's interface.
//!
//! The library finds losses and keeps count of what is in flight. It asks for a window, and reports packets by the time at
//! which they left. A lane takes no more from the edge than it can send, so the library's notion of a sender without data says
//! nothing here; whether the window is in use is what the lane itself saw ([`Signals::handle_blocked`]).
//!
//! A lane may go without a window ([`Control::Breaker`]). The bookkeeping of one goes on beside it, and its window holds when
//! the [circuit breaker](super::breaker) opens.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant as StdInstant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use trunkline_congestion::{CongestionAlgorithm, DatagramControl, Departure, Feedback, Settings, SlowStart};
use trunkline_trunk::CongestionControl;
use trunkline_units::{Instant, Rate};

use super::breaker::Breaker;

/// The maximum of departures that it remembers: of many more batches than can be in flight, as a rule.
const MAX_DEPARTURES: usize = 8192;
/// A window that bounds nothing. The library does not pace one above 4 GiB.
const NO_WINDOW: u64 = 1 << 40;
/// The name of [`Control::Breaker`] in settings.
pub(crate) const NO_CONTROL: &str = "none";

/// What bounds what a connection has in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// A congestion window.
    Window(CongestionAlgorithm),
    /// Nothing but a circuit breaker: the senders of what the lane carries control themselves.
    Breaker,
}

impl Control {
    /// That of a lane group's connections. One that goes by its path, or that no code of ours has, gets CUBIC.
    pub(crate) fn of(wanted: &CongestionControl) -> Self {
        match wanted {
            CongestionControl::Named(name) if &**name == NO_CONTROL => Control::Breaker,
            CongestionControl::Named(name) => {
                Control::Window(name.parse().unwrap_or(CongestionAlgorithm::Cubic))
            }
            CongestionControl::ByPath | CongestionControl::AsOpened => {
                Control::Window(CongestionAlgorithm::Cubic)
            }
        }
    }

    /// The congestion control of the window, which a lane without one has while its circuit is open.
    const fn algorithm(self) -> CongestionAlgorithm {
        match self {
            Control::Window(algorithm) => algorithm,
            Control::Breaker => CongestionAlgorithm::Reno,
        }
    }

    /// Its place among all, as [`Signals`] has it.
    fn place(self) -> u8 {
        let all = CongestionAlgorithm::ALL.iter();
        match self {
            Control::Window(algorithm) => {
                all.clone().position(|one| *one == algorithm).unwrap_or_default() as u8
            }
            Control::Breaker => all.len() as u8,
        }
    }

    fn at(place: u8) -> Self {
        CongestionAlgorithm::ALL.get(usize::from(place)).map_or(Control::Breaker, |it| Control::Window(*it))
    }
}

/// What the circuit breaker of a lane has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Circuit {
    /// Whether it is open: the lane has a congestion window now.
    pub(crate) is_open: bool,
    /// How often it has opened.
    pub(crate) trips: u32,
}

/// What the owner of a connection and its controller, which belongs to the library, tell each other. Both run in one
/// thread.
#[derive(Debug)]
pub(super) struct Signals {
    /// [`Control::place`] of what is wanted.
    control: AtomicU8,
    /// Data waits that the window or the pacing keeps back.
    blocked: AtomicBool,
    /// What is sent next is to be acknowledged: more than acknowledgements.
    eliciting: AtomicBool,
    window: AtomicU32,
    in_flight: AtomicU32,
    /// Bit/s; 0 before the first acknowledgement.
    delivery_rate: AtomicU64,
    circuit_open: AtomicBool,
    circuit_trips: AtomicU32,
}

impl Signals {
    pub(super) fn new(control: Control) -> Arc<Self> {
        Arc::new(Signals {
            control: AtomicU8::new(control.place()),
            blocked: AtomicBool::new(false),
            eliciting: AtomicBool::new(true),
            window: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            delivery_rate: AtomicU64::new(0),
            circuit_open: AtomicBool::new(false),
            circuit_trips: AtomicU32::new(0),
        })
    }

    /// Changes what bounds the connection, from the next acknowledgement on.
    pub(super) fn set_control(&self, control: Control) {
        self.control.store(control.place(), Relaxed);
    }

    fn control(&self) -> Control {
        Control::at(self.control.load(Relaxed))
    }

    /// Whether nothing of the connection answers to marks: its packets are not to ask for them (RFC 3168 §6.1).
    pub(super) fn ignores_marks(&self) -> bool {
        self.control() == Control::Breaker && !self.circuit_open.load(Relaxed)
    }

    /// The circuit breaker; `None` of a connection that has a window at any time.
    pub(super) fn circuit(&self) -> Option<Circuit> {
        let (is_open, trips) = (self.circuit_open.load(Relaxed), self.circuit_trips.load(Relaxed));
        (self.control() == Control::Breaker).then_some(Circuit { is_open, trips })
    }

    /// Data waits although the connection was asked to send: the window is in use.
    pub(super) fn handle_blocked(&self) {
        self.blocked.store(true, Relaxed);
    }

    /// Whether what is sent from now on is more than acknowledgements, which are not congestion-controlled.
    pub(super) fn set_eliciting(&self, eliciting: bool) {
        self.eliciting.store(eliciting, Relaxed);
    }

    /// Congestion window, bytes.
    pub(super) fn window(&self) -> usize {
        self.window.load(Relaxed) as usize
    }

    /// Bytes sent, and neither acknowledged nor lost.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed) as usize
    }

    pub(super) fn delivery_rate(&self) -> Option<Rate> {
        let rate = self.delivery_rate.load(Relaxed);
        (rate > 0).then(|| Rate::from_bits_per_second(rate))
    }
}

/// At most once a minute and lane: see [`Breaker`].
fn warn_open(why: &str) {
    tracing::warn!("a lane without congestion control has a congestion window for now: {why}");
}

/// Makes the controllers of one connection: one for each path that it takes.
#[derive(Debug)]
pub(super) struct Factory(pub(super) Arc<Signals>);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: StdInstant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Adaptor::new(Arc::clone(&self.0), now, current_mtu))
    }
}

#[derive(Debug, Clone)]
struct Adaptor {
    signals: Arc<Signals>,
    wanted: Control,
    control: DatagramControl,
    /// Of a lane that goes without a window.
    breaker: Option<Breaker>,
    mtu: u16,
    initial_window: u64,
    /// Instants of the control count from here.
    start: StdInstant,
    /// When batches left, in order.
    departures: VecDeque<(StdInstant, Departure)>,
    /// Of the acknowledgement that is being read: bytes, the latest departure, smoothed and smallest round-trip time.
    acked: u32,
    newest: Option<StdInstant>,
    srtt: Duration,
    min_rtt: Duration,
}

impl Adaptor {
    fn new(signals: Arc<Signals>, now: StdInstant, mtu: u16) -> Self {
        let wanted = signals.control();
        let settings = Settings::new(wanted.algorithm()).with_slow_start(SlowStart::HyStartPlusPlus);
        let control = DatagramControl::new(&settings, mtu.into());
        let initial_window = control.cwnd().into();
        let adaptor = Adaptor {
            signals,
            wanted,
            control,
            breaker: (wanted == Control::Breaker).then(|| Breaker::new(now)),
            mtu,
            initial_window,
            start: now,
            departures: VecDeque::new(),
            acked: 0,
            newest: None,
            srtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
        };
        adaptor.publish(now);
        adaptor
    }

    fn instant(&self, at: StdInstant) -> Instant {
        Instant::ZERO + at.saturating_duration_since(self.start)
    }

    /// The departure of what left at this time.
    fn departure(&self, sent: StdInstant) -> Option<Departure> {
        let behind = self.departures.partition_point(|(at, _)| *at <= sent);
        self.departures.get(behind.checked_sub(1)?).map(|(_, departure)| *departure)
    }

    /// Whether the lane goes without a window.
    fn is_free(&self) -> bool {
        self.breaker.is_some() && !self.signals.circuit_open.load(Relaxed)
    }

    fn publish(&self, now: StdInstant) {
        if let Some(breaker) = &self.breaker {
            self.signals.circuit_open.store(breaker.is_open(now), Relaxed);
            self.signals.circuit_trips.store(breaker.trips(), Relaxed);
        }
        let window = if self.is_free() { u32::MAX } else { self.control.cwnd() };
        self.signals.window.store(window, Relaxed);
        self.signals.in_flight.store(self.control.in_flight(), Relaxed);
        let rate = self.control.delivery_rate().map_or(0, Rate::bits_per_second);
        self.signals.delivery_rate.store(rate, Relaxed);
    }

    fn check_circuit(&mut self, now: StdInstant, feedback: (u64, u64)) {
        if let Some(breaker) = &mut self.breaker
            && breaker.handle_feedback(now, feedback, self.srtt)
        {
            warn_open("more than a tenth of its packets are lost");
        }
    }

    fn feedback(&self, now: StdInstant) -> Feedback {
        Feedback {
            now: self.instant(now),
            acked: None,
            lost: None,
            marked: false,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
        }
    }
}

impl Controller for Adaptor {
    fn on_sent(&mut self, now: StdInstant, bytes: u64, _last_packet_number: u64) {
        if !self.signals.eliciting.load(Relaxed) {
            return;
        }
        if let Some(breaker) = &mut self.breaker
            && breaker.handle_sent(now, self.srtt)
        {
            warn_open("nothing is acknowledged");
            self.control.handle_timeout();
            self.publish(now);
        }
        let departure = self.control.handle_sent(self.instant(now), bytes as u32);
        if self.departures.len() == MAX_DEPARTURES {
            self.departures.pop_front();
        }
        self.departures.push_back((now, departure));
        self.signals.in_flight.store(self.control.in_flight(), Relaxed);
    }

    fn on_ack(
        &mut self,
        _now: StdInstant,
        sent: StdInstant,
        bytes: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acked += bytes as u32;
        self.newest = self.newest.max(Some(sent));
        (self.srtt, self.min_rtt) = (rtt.get(), rtt.min());
    }

    fn on_end_acks(
        &mut self,
        now: StdInstant,
        in_flight: u64,
        _app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        let wanted = self.signals.control();
        if wanted != self.wanted {
            self.wanted = wanted;
            self.control.set_algorithm(wanted.algorithm());
            self.breaker = (wanted == Control::Breaker).then(|| Breaker::new(now));
        }
        if self.signals.blocked.swap(false, Relaxed) {
            self.control.handle_blocked();
        }
        let acked = std::mem::take(&mut self.acked);
        self.check_circuit(now, (acked.into(), 0));
        let departure = self.newest.take().and_then(|sent| self.departure(sent));
        if let Some(departure) = departure.filter(|_| acked > 0) {
            let feedback = self.feedback(now);
            self.control.handle_feedback(&Feedback { acked: Some((acked, departure)), ..feedback });
        }
        // The library has the exact count: packets that are not acknowledged ones do not count there.
        self.control.set_in_flight(in_flight as u32);
        self.publish(now);
    }

    fn on_congestion_event(
        &mut self,
        now: StdInstant,
        sent: StdInstant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.check_circuit(now, (0, lost_bytes));
        let Some(departure) = self.departure(sent) else { return };
        let feedback = self.feedback(now);
        if lost_bytes == 0 {
            // A mark: the acknowledgement that told of it has been counted.
            let acked = Some((0, departure));
            self.control.handle_feedback(&Feedback { acked, marked: true, ..feedback });
        } else {
            let lost = Some((lost_bytes as u32, departure));
            self.control.handle_feedback(&Feedback { lost, ..feedback });
        }
        if is_persistent_congestion {
            self.control.handle_timeout();
        }
        self.publish(now);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.control.set_segment(new_mtu.into());
    }

    fn window(&self) -> u64 {
        if self.is_free() {
            return NO_WINDOW;
        }
        // The library sends only if a packet more leaves the window unfilled, so less than two packets would stop it.
        u64::from(self.control.send_window()).max(2 * u64::from(self.mtu) + 1)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(path.controller.window(), 10 * u64::from(MTU));
        let sent = path.fill();
        assert_eq!(sent.len(), 9, "the library leaves the window unfilled");
        path.now += RTT;
        for at in &sent[..3] {
            path.in_flight -= u64::from(MTU);
            path.controller.on_congestion_event(path.now, *at, false, MTU.into());
        }
        assert_eq!(path.signals.window(), 4 * usize::from(MTU), "half of the nine in flight");
        path.ack(sent[3]);
        assert_eq!(path.signals.in_flight(), 5 * usize::from(MTU));
    }

    #[test]
    fn a_mark_reduces_too_and_persistent_congestion_leaves_what_the_library_can_send_with() {
        let mut path = Path::new();
        let sent = path.fill();
        path.controller.on_congestion_event(path.now, sent[0], false, 0);
        assert_eq!(path.signals.window(), 4 * usize::from(MTU));
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
}
