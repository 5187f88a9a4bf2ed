//! The ways to grow, as one closed set.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::bbr::Bbr;
use super::bic::Bic;
use super::compound::Compound;
use super::cubic::Cubic;
use super::vegas::Vegas;
use super::window::Window;
use super::{Ack, Cause, reno};
use crate::GrowthKind;

/// State of one of them. Boxed: an endpoint is small, and most runs have many that grow as Reno does.
#[derive(Debug, Clone)]
pub(super) enum Growth {
    Reno,
    Bic(Box<Bic>),
    Cubic(Box<Cubic>),
    Compound(Box<Compound>),
    Vegas(Box<Vegas>),
    Bbr(Box<Bbr>),
}

impl Growth {
    pub(super) fn new(kind: GrowthKind, initial_window: u32) -> Self {
        match kind {
            GrowthKind::Reno => Growth::Reno,
            GrowthKind::Bic => Growth::Bic(Box::default()),
            GrowthKind::Cubic => Growth::Cubic(Box::default()),
            GrowthKind::Compound => Growth::Compound(Box::default()),
            GrowthKind::Vegas => Growth::Vegas(Box::default()),
            GrowthKind::Bbr => Growth::Bbr(Box::new(Bbr::new(initial_window))),
        }
    }

    /// Learns from an acknowledgement, before the window grows by it; delay-based ways may leave slow start here.
    pub(super) fn observe(&mut self, window: &mut Window, ack: &Ack) {
        match self {
            Growth::Reno | Growth::Bic(_) => {}
            Growth::Cubic(cubic) => cubic.observe(ack),
            Growth::Compound(compound) => compound.observe(ack),
            Growth::Vegas(vegas) => vegas.observe(window, ack),
            Growth::Bbr(bbr) => bbr.observe(window, ack),
        }
    }

    /// The window follows a model of the path, in slow start too.
    #[inline]
    pub(super) fn models_path(&self) -> bool {
        matches!(self, Growth::Bbr(_))
    }

    /// The pacing rate, if the algorithm paces.
    #[inline]
    pub(super) fn pacing_rate(&self, srtt: Option<Duration>) -> Option<Rate> {
        match self {
            Growth::Bbr(bbr) => Some(bbr.pacing_rate(srtt)),
            _ => None,
        }
    }

    /// Grows above the threshold; `acked` octets count.
    pub(super) fn avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        match self {
            Growth::Reno => reno::avoid(window, acked),
            Growth::Bic(bic) => bic.avoid(window, ack.now, acked),
            Growth::Cubic(cubic) => cubic.avoid(window, ack.now, acked),
            Growth::Compound(compound) => compound.avoid(window, ack, acked),
            Growth::Vegas(vegas) => vegas.avoid(window, ack, acked),
            Growth::Bbr(bbr) => bbr.set_window(window, ack),
        }
    }

    /// An acknowledgement by which the window does not grow, since it was not in use.
    pub(super) fn stall(&mut self, now: Instant) {
        if let Growth::Cubic(cubic) = self {
            cubic.stall(now);
        }
    }

    /// What a loss leaves, octets.
    pub(super) fn reduce(&mut self, window: &Window, _now: Instant, in_flight: u32, cause: Cause) -> u32 {
        match self {
            Growth::Reno | Growth::Vegas(_) => reno::left(window, in_flight),
            Growth::Bic(bic) => bic.reduce(window, cause),
            Growth::Cubic(cubic) => cubic.reduce(window, cause),
            Growth::Compound(compound) => compound.reduce(window, in_flight, cause),
            Growth::Bbr(bbr) => bbr.reduce(window),
        }
    }

    pub(super) fn undo(&mut self, _now: Instant) {
        match self {
            Growth::Reno | Growth::Vegas(_) | Growth::Bbr(_) => {}
            Growth::Bic(bic) => bic.undo(),
            Growth::Cubic(cubic) => cubic.undo(),
            Growth::Compound(compound) => compound.undo(),
        }
    }

    pub(super) fn idle(&mut self, now: Instant, idle: Duration) {
        if let Growth::Cubic(cubic) = self {
            cubic.idle(now, idle);
        }
    }
}
