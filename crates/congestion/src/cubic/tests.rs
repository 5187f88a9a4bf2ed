use super::*;

const MSS: u32 = 1000;

/// A sender with a window's worth of acknowledgements each `rtt`, evenly spaced.
struct Path {
    cubic: Cubic,
    window: Window,
    now: Instant,
    rtt: Duration,
}

impl Path {
    fn new(segments: u32, rtt: Duration) -> Self {
        Path {
            cubic: Cubic { delay_min: Some(rtt), ..Cubic::default() },
            window: Window::new(segments * MSS, 2 * MSS, MSS),
            now: Instant::from_millis(1000),
            rtt,
        }
    }

    fn lose(&mut self) {
        let left = self.cubic.reduce(&self.window, CongestionSignal::Loss);
        self.window.set_ssthresh(left);
        self.window.set(self.window.ssthresh);
        self.window.forget_credit();
    }

    /// Segments after each `step` until `end`.
    fn run(&mut self, end: Duration, step: Duration) -> Vec<(f64, f64)> {
        let start = self.now;
        let mut next = start + step;
        let mut points = Vec::new();
        while self.now - start < end {
            self.now += self.rtt / self.window.segments();
            self.cubic.on_congestion_avoidance(&mut self.window, self.now, MSS);
            if self.now >= next {
                points.push(((self.now - start).as_secs_f64(), f64::from(self.window.segments())));
                next += step;
            }
        }
        points
    }
}

#[test]
fn the_window_follows_the_cubic_of_time_since_the_loss() {
    // With a window that large, Reno's is below the curve.
    let mut path = Path::new(2000, Duration::from_millis(100));
    path.lose();
    let k = 11.447; // The cube root of 2000 · 0.3 / 0.4.
    let points = path.run(Duration::from_secs(20), Duration::from_millis(500));
    assert_eq!(points.len(), 40);
    for (time, segments) in points {
        // Between the curve now and one round trip ahead, at which it aims.
        let curve = |time: f64| 0.4 * (time - k).powi(3) + 2000.0;
        let (low, high) = (curve(time - 0.1) - 3.0, curve(time + 0.1) + 3.0);
        assert!((low..=high).contains(&segments), "{time} s: {segments} and not {low}..{high}");
    }
}

#[test]
fn it_is_flat_at_the_last_maximum_and_convex_beyond() {
    let mut path = Path::new(2000, Duration::from_millis(50));
    path.lose();
    assert_eq!(path.window.cwnd, 1400 * MSS);
    let points = path.run(Duration::from_secs(23), Duration::from_secs(1));
    let gains: Vec<f64> = points.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    // K = 11.4 s.
    assert!(gains[..10].is_sorted_by(|earlier, later| earlier >= later), "{gains:?}");
    assert!(gains[12..].is_sorted(), "{gains:?}");
    assert!(gains[10..12].iter().all(|gain| *gain <= 2.0), "{gains:?}");
}

#[test]
fn two_round_trip_times_grow_alike() {
    let window_after = |millis| {
        let mut path = Path::new(1000, Duration::from_millis(millis));
        path.lose();
        path.run(Duration::from_secs(10), Duration::from_secs(9)).pop().unwrap().1
    };
    let (near, far) = (window_after(30), window_after(120));
    assert!((near / far - 1.0).abs() < 0.01, "{near} {far}");
}

#[test]
fn where_reno_would_be_faster_it_grows_as_an_aimd_of_the_same_mean() {
    // 20 segments at 10 ms: K = 2.5 s, in which Reno's estimate grows by 0.53 a round trip, 132 segments.
    let mut path = Path::new(20, Duration::from_millis(10));
    path.lose();
    for (time, segments) in path.run(Duration::from_secs(2), Duration::from_millis(200)) {
        let expected = 14.0 + 0.53 * time / 0.01;
        assert!((segments - expected).abs() < 0.05 * expected + 1.5, "{time} s: {segments}, not {expected}");
    }
}

#[test]
fn growth_is_no_faster_than_half_of_the_window_a_round_trip() {
    let mut path = Path::new(10, Duration::from_millis(100));
    // As if the maximum lay far away in time and in height.
    path.cubic.curve.w_max = 100_000;
    path.cubic.curve.epoch = Some(Epoch { start: Instant::from_nanos(0), k: 0, origin: 100_000 });
    path.now = Instant::from_millis(60_000);
    path.cubic.on_congestion_avoidance(&mut path.window, path.now, MSS);
    assert_eq!(path.cubic.curve.count, 2);
    for _ in 0..9 {
        path.cubic.on_congestion_avoidance(&mut path.window, path.now, MSS);
    }
    assert_eq!(path.window.cwnd, 15 * MSS);
}

#[test]
fn a_loss_leaves_seven_tenths_and_a_falling_maximum_yields_more() {
    let mut path = Path::new(1000, Duration::from_millis(100));
    path.lose();
    assert_eq!((path.window.cwnd, path.cubic.curve.w_max), (700 * MSS, 1000));
    path.lose();
    assert_eq!((path.window.cwnd, path.cubic.curve.w_max), (490 * MSS, 594), "0.85 of 700, rounded down");
    path.window.set(800 * MSS);
    path.lose();
    assert_eq!(path.cubic.curve.w_max, 800, "it rose again");
}

#[test]
fn a_timeout_forgets_the_curve_and_begins_flat() {
    let mut path = Path::new(1000, Duration::from_millis(100));
    path.lose();
    path.run(Duration::from_secs(1), Duration::from_secs(1));
    assert_eq!(path.cubic.reduce(&Window::new(500 * MSS, 2 * MSS, MSS), CongestionSignal::Timeout), 350_097);
    assert_eq!(path.cubic.curve.w_max, 0);
    path.window.set(350 * MSS);
    path.cubic.on_congestion_avoidance(&mut path.window, path.now, MSS);
    let epoch = path.cubic.curve.epoch.unwrap();
    assert_eq!((epoch.k, epoch.origin), (0, 350));
}

#[test]
fn an_undo_goes_on_with_the_curve_before() {
    let mut path = Path::new(1000, Duration::from_millis(100));
    path.lose();
    path.run(Duration::from_secs(2), Duration::from_secs(2));
    let (w_max, start) = (path.cubic.curve.w_max, path.cubic.curve.epoch.unwrap().start);
    path.lose();
    assert!(path.cubic.curve.epoch.is_none());
    path.cubic.undo();
    assert_eq!(path.cubic.curve.w_max, w_max);
    assert_eq!(path.cubic.curve.epoch.unwrap().start, start);
}

#[test]
fn time_without_use_of_the_window_is_none_of_the_curves() {
    let straight = {
        let mut path = Path::new(1000, Duration::from_millis(100));
        path.lose();
        path.run(Duration::from_secs(4), Duration::from_secs(4));
        path.window.cwnd
    };
    let mut path = Path::new(1000, Duration::from_millis(100));
    path.lose();
    path.run(Duration::from_secs(2), Duration::from_secs(2));
    for _ in 0..50 {
        path.now += Duration::from_millis(100);
        path.cubic.on_app_limited(path.now);
    }
    path.now += Duration::from_secs(30);
    path.cubic.on_idle(path.now, Duration::from_secs(30));
    path.run(Duration::from_secs(2), Duration::from_secs(2));
    assert!(path.window.cwnd.abs_diff(straight) <= 4 * MSS, "{} {straight}", path.window.cwnd);
}

#[test]
fn round_trips_of_a_draining_queue_are_not_believed() {
    let ack = |now, millis| Ack {
        now,
        acked: MSS,
        rtt: Some(Duration::from_millis(millis)),
        srtt: Duration::ZERO,
        min_rtt: Duration::ZERO,
        in_flight: 0,
        round_ended: false,
        window_limited: true,
        delivered: None,
    };
    let mut path = Path::new(1000, Duration::from_millis(100));
    path.lose();
    path.cubic.on_congestion_avoidance(&mut path.window, path.now, MSS);
    path.cubic.observe(&ack(path.now + Duration::from_millis(900), 60));
    assert_eq!(path.cubic.delay_min, Some(Duration::from_millis(100)));
    path.cubic.observe(&ack(path.now + Duration::from_secs(1), 80));
    assert_eq!(path.cubic.delay_min, Some(Duration::from_millis(80)));
}

#[test]
fn the_cube_root_is_the_largest_whole_number_below() {
    for value in (0..5000).chain([1 << 40, (1 << 51) - 1, 1_000_000_000_000_000, u64::from(u32::MAX).pow(2)])
    {
        let root = u128::from(cube_root(value));
        assert!(root.pow(3) <= u128::from(value) && (root + 1).pow(3) > u128::from(value), "{value}: {root}");
    }
}
