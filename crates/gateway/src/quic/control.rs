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
use std::time::{Duration, Instant as StdInstant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use trunkline_congestion::{
    CongestionAlgorithm, DatagramControl, Departure, Feedback, Settings, TIME_THRESHOLD,
};
use trunkline_trunk::CongestionControl;
use trunkline_trunk::streams::Acknowledged;
use trunkline_units::Instant;

use super::breaker::Breaker;
use super::lengths::Lengths;
use super::signals::Signals;
use crate::line_limit;

/// The maximum of departures that it remembers: of many more batches than can be in flight, as a rule.
const MAX_DEPARTURES: usize = 8192;
/// What a round trip is taken for at least: timers are no finer.
const MIN_RTT: Duration = Duration::from_millis(5);
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
    pub(super) fn place(self) -> u8 {
        let all = CongestionAlgorithm::ALL.iter();
        match self {
            Control::Window(algorithm) => {
                all.clone().position(|one| *one == algorithm).unwrap_or_default() as u8
            }
            Control::Breaker => all.len() as u8,
        }
    }

    pub(super) fn at(place: u8) -> Self {
        CongestionAlgorithm::ALL.get(usize::from(place)).map_or(Control::Breaker, |it| Control::Window(*it))
    }
}

/// At most once a minute and connection: see [`Breaker`]. A peer decides how many connections follow each other.
fn warn_open(why: &str) {
    line_limit::warn(&format!("a lane without congestion control has a congestion window for now: {why}"));
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
    lengths: Lengths,
    initial_window: u64,
    /// Instants of the control count from here.
    start: StdInstant,
    /// How far the far end has everything.
    acknowledged: Acknowledged,
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
        let settings = Settings::of_lane(wanted.algorithm());
        let control = DatagramControl::new(&settings, mtu.into());
        let initial_window = control.cwnd().into();
        let acknowledged = Acknowledged::new(signals.handed_over());
        let adaptor = Adaptor {
            signals,
            wanted,
            control,
            breaker: (wanted == Control::Breaker).then(|| Breaker::new(now)),
            mtu,
            lengths: Lengths::default(),
            initial_window,
            start: now,
            acknowledged,
            departures: VecDeque::new(),
            acked: 0,
            newest: None,
            srtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
        };
        // What is in flight on another path is not bounded here.
        adaptor.signals.set_probe(0);
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
        self.breaker.is_some() && !self.signals.is_circuit_open()
    }

    fn publish(&self, now: StdInstant) {
        if let Some(breaker) = &self.breaker {
            self.signals.set_circuit(breaker.is_open(now), breaker.trips());
        }
        let window = if self.is_free() { u32::MAX } else { self.control.cwnd() };
        let (in_flight, rate) = (self.control.in_flight(), self.control.delivery_rate());
        self.signals.publish(window, self.window(), in_flight, rate);
        let now = self.instant(now);
        self.signals.set_only_short(self.lengths.is_hole(now, self.srtt));
        self.signals.set_length_probes(self.lengths.probes(now, self.srtt));
    }

    fn check_circuit(&mut self, now: StdInstant, feedback: (u64, u64)) {
        if let Some(breaker) = &mut self.breaker
            && breaker.handle_feedback(now, feedback, self.srtt)
        {
            warn_open("more than a tenth of its packets are lost");
        }
    }

    /// Tells the lane how far the far end has everything.
    fn pass_over_acknowledged(&mut self) {
        self.acknowledged.advance();
        if self.control.in_flight() == 0 {
            self.acknowledged.handle_nothing_in_flight();
        }
        self.signals.set_acknowledged(self.acknowledged.position());
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
        self.acknowledged.forget_stale(self.instant(now), self.srtt.max(MIN_RTT) * (TIME_THRESHOLD + 1));
        self.signals.set_acknowledged(self.acknowledged.position());
        if !self.signals.is_eliciting() {
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
        // A batch has packets of one length, and the last may be shorter.
        self.lengths.handle_sent(self.instant(now), bytes.min(self.mtu.into()), self.srtt);
        if self.departures.len() == MAX_DEPARTURES {
            self.departures.pop_front();
        }
        self.departures.push_back((now, departure));
        let handed_over = self.signals.handed_over();
        if handed_over > 0 {
            self.acknowledged.handle_sent(self.instant(now), bytes, handed_over);
        }
        self.publish(now);
    }

    fn on_ack(
        &mut self,
        _now: StdInstant,
        sent: StdInstant,
        bytes: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.signals.handle_acked_packet();
        self.acked += bytes as u32;
        self.lengths.handle_acknowledged(bytes);
        self.acknowledged.handle_acknowledged(self.instant(sent), bytes);
        self.newest = self.newest.max(Some(sent));
        (self.srtt, self.min_rtt) = (rtt.get(), rtt.min());
    }

    fn on_end_acks(
        &mut self,
        now: StdInstant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        let wanted = self.signals.control();
        if wanted != self.wanted {
            self.wanted = wanted;
            self.control.set_algorithm(wanted.algorithm());
            self.breaker = (wanted == Control::Breaker).then(|| Breaker::new(now));
        }
        if app_limited {
            self.signals.set_drained();
        }
        if self.signals.take_blocked() {
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
        self.pass_over_acknowledged();
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
        self.acknowledged.handle_lost(self.instant(now), self.instant(sent), lost_bytes);
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
        self.pass_over_acknowledged();
        self.publish(now);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.signals.set_probe(0);
        self.control.set_segment(new_mtu.into());
    }

    fn window(&self) -> u64 {
        if self.is_free() {
            return NO_WINDOW;
        }
        // The library sends only if a full packet leaves the window unfilled. Without the byte more, one packet of each window would
        // stay at home (RFC 9002 §7). A window of one packet is taken for two. A probe for the path's MTU is in flight for the library,
        // and may be longer than the window: data does not wait until it is acknowledged or lost.
        let window = u64::from(self.control.send_window()).max(2 * u64::from(self.mtu)) + 1;
        window + u64::from(self.signals.probe())
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
mod tests;
