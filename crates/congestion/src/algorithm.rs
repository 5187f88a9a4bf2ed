//! The congestion control algorithms, as one closed set.

use std::time::Duration;

use trunkline_units::{Instant, Rate, Region};

use crate::bbr::Bbr;
use crate::bic::Bic;
use crate::compound::Compound;
use crate::cubic::Cubic;
use crate::custom::CustomAlgorithm;
use crate::vegas::Vegas;
use crate::window::Window;
use crate::{Ack, CongestionAlgorithm, CongestionSignal, reno};

/// The state of one algorithm, boxed: an endpoint stays small, and most runs have many with Reno, which has no state.
#[derive(Debug, Clone)]
pub(crate) enum Algorithm {
    Reno,
    Bic(Box<Bic>),
    Cubic(Box<Cubic>),
    Compound(Box<Compound>),
    Vegas(Box<Vegas>),
    Bbr(Box<Bbr>),
    Held,
    /// In two boxes, since one of a trait object is larger than the others.
    Custom(Box<Box<dyn CustomAlgorithm>>),
}

impl Algorithm {
    pub(crate) fn new(kind: CongestionAlgorithm, initial_window: u32) -> Self {
        match kind {
            CongestionAlgorithm::Reno => Algorithm::Reno,
            CongestionAlgorithm::Bic(version) => Algorithm::Bic(Box::new(Bic::new(version))),
            CongestionAlgorithm::Cubic => Algorithm::Cubic(Box::default()),
            CongestionAlgorithm::Compound => Algorithm::Compound(Box::default()),
            CongestionAlgorithm::Vegas => Algorithm::Vegas(Box::default()),
            CongestionAlgorithm::Bbr => Algorithm::Bbr(Box::new(Bbr::new(initial_window))),
            CongestionAlgorithm::Held => Algorithm::Held,
        }
    }

    /// The connection has delivered data before this algorithm began.
    pub(crate) fn handle_continued(&mut self) {
        if let Algorithm::Bbr(bbr) = self {
            bbr.handle_continued();
        }
    }

    /// Updates the state by an acknowledgement, before the window grows. A delay-based algorithm may leave slow start.
    pub(crate) fn observe(&mut self, window: &mut Window, ack: &Ack) {
        match self {
            Algorithm::Reno | Algorithm::Bic(_) | Algorithm::Held => {}
            Algorithm::Cubic(cubic) => cubic.observe(ack),
            Algorithm::Compound(compound) => compound.observe(ack),
            Algorithm::Vegas(vegas) => vegas.observe(window, ack),
            Algorithm::Bbr(bbr) => bbr.observe(window, ack),
            Algorithm::Custom(custom) => window.lend(|window| custom.observe(window, ack)),
        }
    }

    /// Has its state loaded into the processor's caches.
    #[inline]
    pub(crate) fn prefetch(&self, load: impl Fn(Region)) {
        match self {
            Algorithm::Reno | Algorithm::Held => {}
            Algorithm::Bic(bic) => load(Region::of(&**bic)),
            Algorithm::Cubic(cubic) => load(Region::of(&**cubic)),
            Algorithm::Compound(compound) => load(Region::of(&**compound)),
            Algorithm::Vegas(vegas) => load(Region::of(&**vegas)),
            Algorithm::Bbr(bbr) => load(Region::of(&**bbr)),
            Algorithm::Custom(custom) => load(Region::of(&**custom)),
        }
    }

    /// The window follows a model of the path, in slow start too.
    #[inline]
    pub(crate) fn models_path(&self) -> bool {
        matches!(self, Algorithm::Bbr(_))
    }

    /// The pacing rate, if the algorithm paces.
    #[inline]
    pub(crate) fn pacing_rate(&self, srtt: Option<Duration>) -> Option<Rate> {
        match self {
            Algorithm::Bbr(bbr) => Some(bbr.pacing_rate(srtt)),
            Algorithm::Custom(custom) => custom.pacing_rate(srtt),
            _ => None,
        }
    }

    /// Grows the window in congestion avoidance by `acked` bytes.
    pub(crate) fn on_congestion_avoidance(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        match self {
            Algorithm::Reno => reno::on_congestion_avoidance(window, acked),
            Algorithm::Bic(bic) => bic.on_congestion_avoidance(window, ack.now, acked),
            Algorithm::Cubic(cubic) => cubic.on_congestion_avoidance(window, ack.now, acked),
            Algorithm::Compound(compound) => compound.on_congestion_avoidance(window, ack, acked),
            Algorithm::Vegas(vegas) => vegas.on_congestion_avoidance(window, acked),
            Algorithm::Bbr(bbr) => bbr.set_window(window, ack),
            Algorithm::Held => {}
            Algorithm::Custom(custom) => {
                window.lend(|window| custom.on_congestion_avoidance(window, ack, acked));
            }
        }
    }

    /// Sets the window during recovery, where that is the algorithm's own affair.
    pub(crate) fn on_recovery(&mut self, window: &mut Window, ack: &Ack, in_flight: u32, lost: u32) {
        if let Algorithm::Bbr(bbr) = self {
            bbr.set_window_in_recovery(window, ack, in_flight, lost);
        }
    }

    /// An acknowledgement that does not grow the window, because the sender did not use it.
    pub(crate) fn on_app_limited(&mut self, now: Instant) {
        match self {
            Algorithm::Cubic(cubic) => cubic.on_app_limited(now),
            Algorithm::Custom(custom) => custom.on_app_limited(now),
            _ => {}
        }
    }

    /// The ssthresh after a congestion signal, bytes.
    pub(crate) fn reduce(&mut self, window: &Window, in_flight: u32, signal: CongestionSignal) -> u32 {
        match self {
            Algorithm::Reno | Algorithm::Vegas(_) => reno::ssthresh(window, in_flight),
            Algorithm::Bic(bic) => bic.reduce(window, signal),
            Algorithm::Cubic(cubic) => cubic.reduce(window, signal),
            Algorithm::Compound(compound) => compound.reduce(window, in_flight, signal),
            Algorithm::Bbr(bbr) => bbr.reduce(window),
            // The window that was set is where a recovery ends, and where slow start ends after a timeout.
            Algorithm::Held => window.ssthresh,
            Algorithm::Custom(custom) => custom.reduce(&window.view(), in_flight, signal),
        }
    }

    pub(crate) fn undo(&mut self) {
        match self {
            Algorithm::Reno | Algorithm::Vegas(_) | Algorithm::Bbr(_) | Algorithm::Held => {}
            Algorithm::Bic(bic) => bic.undo(),
            Algorithm::Cubic(cubic) => cubic.undo(),
            Algorithm::Compound(compound) => compound.undo(),
            Algorithm::Custom(custom) => custom.undo(),
        }
    }

    pub(crate) fn on_idle(&mut self, now: Instant, idle: Duration) {
        match self {
            Algorithm::Cubic(cubic) => cubic.on_idle(now, idle),
            Algorithm::Custom(custom) => custom.on_idle(now, idle),
            _ => {}
        }
    }
}
