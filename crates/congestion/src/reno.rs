//! Reno (RFC 5681 §3.1, with the counting of RFC 3465 §2.1): one segment each round trip, half after a loss.

use crate::window::Window;

pub(crate) fn on_congestion_avoidance(window: &mut Window, acked: u32) {
    window.grow_one_in(window.segments(), acked);
}

/// Half of the flight size (equation 4), but at most half of the window: segments that limited transmit sent beyond
/// it do not count (RFC 5681 §3.2 step 2).
pub(crate) fn ssthresh(window: &Window, in_flight: u32) -> u32 {
    in_flight.min(window.cwnd) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_acknowledged_adds_a_segment() {
        let mut window = Window::new(20_000, 2000, 1000);
        for _ in 0..20 {
            on_congestion_avoidance(&mut window, 1000);
        }
        assert_eq!(window.cwnd, 21_000);
        for _ in 0..7 {
            on_congestion_avoidance(&mut window, 3000);
        }
        assert_eq!(window.cwnd, 22_000);
    }

    #[test]
    fn half_of_the_flight_is_left_and_no_more_than_half_of_the_window() {
        let window = Window::new(20_000, 2000, 1000);
        assert_eq!(ssthresh(&window, 12_000), 6000);
        assert_eq!(ssthresh(&window, 22_000), 10_000);
    }
}
