//! An algorithm that is not of this crate, such as one that a user of the laboratory writes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::{Ack, CongestionSignal};

/// The window as an algorithm sees it, bytes. What it sets is brought into the bounds that hold for every algorithm: cwnd is one segment
/// to 2^30 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CustomWindow {
    /// Congestion window.
    pub cwnd: u32,
    /// Slow-start threshold; `u32::MAX` before the first loss.
    pub ssthresh: u32,
    /// Data in a segment. To change it has no effect.
    pub mss: u32,
}

/// The state of an algorithm for one sender. Slow start, its restart after a timeout, and recovery are those of the sender's settings, as with
/// the algorithms of this crate.
pub trait CustomAlgorithm: fmt::Debug + Send + Sync {
    /// An acknowledgement outside of recovery, before the window grows. Slow start ends if ssthresh is set to cwnd.
    fn observe(&mut self, window: &mut CustomWindow, ack: &Ack);

    /// Grows the window in congestion avoidance; `acked` bytes count for it.
    fn on_congestion_avoidance(&mut self, window: &mut CustomWindow, ack: &Ack, acked: u32);

    /// An acknowledgement that does not grow the window, because the sender did not use it.
    fn on_app_limited(&mut self, now: Instant);

    /// The ssthresh after a congestion signal, bytes. The window becomes it; after a timeout it becomes one segment.
    fn reduce(&mut self, window: &CustomWindow, in_flight: u32, signal: CongestionSignal) -> u32;

    /// The last reduction was spurious; the window of before is restored.
    fn undo(&mut self);

    /// The sender sent nothing for so long.
    fn on_idle(&mut self, now: Instant, idle: Duration);

    /// The rate at which segments leave, if the algorithm paces.
    fn pacing_rate(&self, srtt: Option<Duration>) -> Option<Rate>;

    /// A copy of the state, which goes its own way.
    fn copied(&self) -> Box<dyn CustomAlgorithm>;
}

impl Clone for Box<dyn CustomAlgorithm> {
    fn clone(&self) -> Self {
        (**self).copied()
    }
}

/// Makes the state of an algorithm for a new sender, from the bytes of data in its segments.
#[derive(Clone)]
pub struct CustomCongestion(Arc<dyn Fn(u32) -> Box<dyn CustomAlgorithm> + Send + Sync>);

impl CustomCongestion {
    /// An algorithm whose state this function makes.
    pub fn new(make: impl Fn(u32) -> Box<dyn CustomAlgorithm> + Send + Sync + 'static) -> Self {
        CustomCongestion(Arc::new(make))
    }

    pub(crate) fn make(&self, mss: u32) -> Box<dyn CustomAlgorithm> {
        (self.0)(mss)
    }
}

impl fmt::Debug for CustomCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomCongestion")
    }
}

/// Equal to its copies alone.
impl PartialEq for CustomCongestion {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Congestion, CongestionAlgorithm, Settings};

    /// What `reno.rs` does, with a credit of its own.
    #[derive(Debug, Clone, Default)]
    struct Reno {
        credit: u32,
    }

    impl CustomAlgorithm for Reno {
        fn observe(&mut self, _: &mut CustomWindow, _: &Ack) {}

        fn on_congestion_avoidance(&mut self, window: &mut CustomWindow, _: &Ack, acked: u32) {
            let price = (window.cwnd / window.mss).max(1) * window.mss;
            if self.credit >= price {
                self.credit = 0;
                window.cwnd += window.mss;
            }
            self.credit += acked;
            window.cwnd += self.credit / price * window.mss;
            self.credit %= price;
        }

        fn on_app_limited(&mut self, _: Instant) {}

        fn reduce(&mut self, window: &CustomWindow, in_flight: u32, _: CongestionSignal) -> u32 {
            self.credit = 0;
            in_flight.min(window.cwnd) / 2
        }

        fn undo(&mut self) {}

        fn on_idle(&mut self, _: Instant, _: Duration) {}

        fn pacing_rate(&self, _: Option<Duration>) -> Option<Rate> {
            None
        }

        fn copied(&self) -> Box<dyn CustomAlgorithm> {
            Box::new(self.clone())
        }
    }

    #[test]
    fn a_custom_reno_is_reno_and_its_copy_goes_its_own_way() {
        let mut built_in = Congestion::new(&Settings::new(CongestionAlgorithm::Reno), 1000);
        let mut custom = Congestion::new(&Settings::new(CongestionAlgorithm::Cubic), 1000);
        custom.set_custom(&CustomCongestion::new(|_| Box::<Reno>::default()));
        let ack = |at: u64, acked: u32, in_flight: u32| Ack {
            now: Instant::from_millis(at),
            acked,
            rtt: None,
            srtt: Duration::from_millis(100),
            min_rtt: Duration::from_millis(100),
            in_flight,
            round_ended: false,
            window_limited: true,
            delivered: None,
        };
        let mut copy = None;
        for step in 0..2000_u64 {
            for congestion in [&mut built_in, &mut custom] {
                let flight = congestion.cwnd();
                match step % 397 {
                    301 => congestion.reduce(flight, CongestionSignal::Loss),
                    350 => congestion.reduce(flight, CongestionSignal::Timeout),
                    _ => congestion.handle_ack(&ack(step, 700 + (step % 5) as u32 * 600, flight)),
                }
            }
            assert_eq!((custom.cwnd(), custom.ssthresh()), (built_in.cwnd(), built_in.ssthresh()), "{step}");
            if step == 1000 {
                copy = Some(custom.clone());
            }
        }
        let copy = copy.expect("made in the middle");
        assert_ne!(copy.cwnd(), custom.cwnd());
    }
}
