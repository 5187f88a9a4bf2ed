use std::collections::VecDeque;

use super::*;

const MSS: u32 = 1000;

struct Sent {
    at: Instant,
    acknowledged: Instant,
    delivered: u64,
    delivered_at: Instant,
    round: u64,
}

/// A paced sender alone on a link with a queue that never overflows.
struct Path {
    bbr: Bbr,
    window: Window,
    flight: VecDeque<Sent>,
    now: Instant,
    /// When the link and the sender's pace are ready for the next segment.
    link_free: Instant,
    send_next: Instant,
    rate: Rate,
    rtt: Duration,
    sent: u64,
    delivered: u64,
    delivered_at: Instant,
    round_end: u64,
    /// Segments a second that the application writes at the most, by its own pace.
    app: Option<Duration>,
}

#[derive(Debug, Default)]
struct Seen {
    delivered: u64,
    min_flight: u32,
    max_flight: u32,
    max_wait: Duration,
}

impl Path {
    fn new(mbit: f64, rtt: u64) -> Self {
        Path {
            bbr: Bbr::new(10 * MSS),
            window: Window::new(10 * MSS, u32::MAX, MSS),
            flight: VecDeque::new(),
            now: Instant::from_millis(1),
            link_free: Instant::ZERO,
            send_next: Instant::ZERO,
            rate: Rate::from_mbit(mbit),
            rtt: Duration::from_millis(rtt),
            sent: 0,
            delivered: 0,
            delivered_at: Instant::from_millis(1),
            round_end: 0,
            app: None,
        }
    }

    fn inflight_target(&self) -> u32 {
        (self.rate.bytes_in(self.rtt) / u64::from(MSS)) as u32
    }

    fn run(&mut self, time: Duration) -> Seen {
        let end = self.now + time;
        let mut seen = Seen { min_flight: u32::MAX, ..Seen::default() };
        let before = self.delivered;
        while self.now < end {
            let in_flight = self.flight.len() as u32 * MSS;
            let ready = self.send_next.max(self.now);
            let next_ack = self.flight.front().map_or(Instant::FAR_FUTURE, |head| head.acknowledged);
            if in_flight + MSS <= self.window.cwnd && ready <= next_ack {
                self.now = ready;
                self.send();
                continue;
            }
            seen.max_flight = seen.max_flight.max(in_flight / MSS);
            seen.min_flight = seen.min_flight.min(in_flight / MSS);
            let Some(head) = self.flight.pop_front() else { break };
            self.now = self.now.max(head.acknowledged);
            seen.max_wait = seen.max_wait.max((self.now - head.at).saturating_sub(self.rtt));
            self.delivered += u64::from(MSS);
            let bytes = self.delivered - head.delivered;
            let span = (self.now - head.delivered_at).as_nanos().max(1);
            self.delivered_at = self.now;
            let rate = Rate::from_bits_per_second((u128::from(bytes) * 8_000_000_000 / span) as u64);
            let round_ended = head.round >= self.round_end;
            if round_ended {
                self.round_end = self.sent;
            }
            let rtt = self.now - head.at;
            let ack = Ack {
                now: self.now,
                acked: MSS,
                rtt: Some(rtt),
                srtt: rtt,
                min_rtt: rtt,
                in_flight,
                round_ended,
                window_limited: true,
                delivered: Some((rate, self.app.is_some())),
            };
            self.bbr.observe(&mut self.window, &ack);
            self.bbr.set_window(&mut self.window, &ack);
        }
        seen.delivered = self.delivered - before;
        seen
    }

    fn send(&mut self) {
        let pace = self.bbr.pacing_rate(None).time_for(u64::from(MSS), &mut 0);
        self.send_next = self.now + self.app.map_or(pace, |app| app.max(pace));
        self.link_free = self.link_free.max(self.now) + self.rate.time_for(u64::from(MSS), &mut 0);
        let (delivered, delivered_at) = (self.delivered, self.delivered_at);
        if self.flight.is_empty() {
            self.delivered_at = self.now;
        }
        let round = self.sent;
        self.sent += 1;
        let acknowledged = self.link_free + self.rtt;
        self.flight.push_back(Sent { at: self.now, acknowledged, delivered, delivered_at, round });
    }

    fn mbit(&self) -> f64 {
        self.bbr.bandwidth.best() as f64 / 1e6
    }
}

fn share(seen: &Seen, path: &Path, seconds: u64) -> f64 {
    seen.delivered as f64 * 8.0 / (path.rate.bits_per_second() * seconds) as f64
}

#[test]
fn startup_finds_the_bandwidth_and_drain_empties_the_queue_that_it_made() {
    let mut path = Path::new(20.0, 50);
    let start = path.run(Duration::from_millis(1500));
    assert!(matches!(path.bbr.mode, Mode::ProbeBandwidth { .. }), "{:?}", path.bbr.mode);
    assert!((19.8..20.3).contains(&path.mbit()), "{}", path.mbit());
    assert!(start.max_flight > 2 * path.inflight_target(), "{start:?}");
    let later = path.run(Duration::from_secs(5));
    let product = path.inflight_target();
    assert!(later.max_flight < product * 3 / 2 && later.max_flight >= product, "{later:?}");
    assert!(later.max_wait < Duration::from_millis(20), "{later:?}");
    assert!(share(&later, &path, 5) > 0.95, "{later:?}");
}

#[test]
fn a_round_trip_time_of_ten_seconds_ago_is_looked_at_again_by_emptying_the_path() {
    let mut path = Path::new(20.0, 50);
    path.run(Duration::from_secs(2));
    assert_eq!(path.bbr.min_rtt.map(|rtt| rtt.as_millis()), Some(50));
    path.rtt = Duration::from_millis(60);
    let early = path.run(Duration::from_secs(7));
    assert!(early.min_flight > path.inflight_target() / 2, "{early:?}");
    let late = path.run(Duration::from_secs(6));
    assert!(late.min_flight <= MIN_WINDOW_SEGMENTS, "{late:?}");
    assert_eq!(path.bbr.min_rtt.map(|rtt| rtt.as_millis()), Some(60));
    // 200 ms and a round trip or two in 6 s.
    assert!((0.92..0.98).contains(&share(&late, &path, 6)), "{}", share(&late, &path, 6));
}

#[test]
fn a_path_that_becomes_faster_is_found_in_a_cycle_or_two_and_a_slower_one_in_ten_rounds() {
    let mut path = Path::new(10.0, 50);
    path.run(Duration::from_secs(2));
    path.rate = Rate::from_mbit(20.0);
    path.run(Duration::from_secs(2));
    assert!((19.0..20.5).contains(&path.mbit()), "{}", path.mbit());
    path.rate = Rate::from_mbit(5.0);
    // What was in flight is a queue of a third of a second now, and so are the first rounds.
    path.run(Duration::from_secs(8));
    assert!((4.9..5.5).contains(&path.mbit()), "{}", path.mbit());
}

#[test]
fn losses_say_nothing_and_a_timeout_comes_back_to_the_window() {
    let mut path = Path::new(20.0, 50);
    path.run(Duration::from_secs(2));
    assert_eq!(path.bbr.reduce(&path.window), path.window.cwnd);
    let before = path.window.cwnd;
    path.window.set(MSS);
    path.run(Duration::from_secs(1));
    assert!(path.window.cwnd >= before * 9 / 10, "{before} {}", path.window.cwnd);
}

#[test]
fn samples_of_a_sender_with_too_little_to_send_do_not_lower_the_estimate() {
    let mut path = Path::new(20.0, 50);
    path.run(Duration::from_secs(2));
    path.app = Some(Duration::from_millis(4));
    path.run(Duration::from_secs(6));
    assert!(path.mbit() > 19.0, "{}", path.mbit());
}

#[test]
fn before_the_first_round_trip_the_initial_window_is_sent_within_a_millisecond() {
    let bbr = Bbr::new(10 * MSS);
    let rate = bbr.pacing_rate(None).as_mbit();
    assert!((rate / (10.0 * 8.0 * 2.885) - 1.0).abs() < 0.01, "{rate}");
}

/// The first acknowledgement reports one segment in a round trip.
#[test]
fn startup_is_paced_by_the_initial_window_until_the_path_is_known_to_be_faster() {
    let mut path = Path::new(10.0, 120);
    let rate = |path: &Path| path.bbr.pacing_rate(Some(path.rtt)).as_mbit();
    let before = rate(&path);
    path.run(path.rtt + Duration::from_millis(3));
    assert!(path.mbit() * 2.885 < before, "{} Mbit/s were delivered", path.mbit());
    assert!((rate(&path) / before - 1.0).abs() < 0.05, "{} of {before}", rate(&path));
}

/// The round trip of the handshake was shorter than any since.
#[test]
fn the_smallest_round_trip_is_known_from_the_handshake_on() {
    let (mut bbr, mut window) = (Bbr::new(10 * MSS), Window::new(10 * MSS, u32::MAX, MSS));
    let (handshake, rtt) = (Duration::from_millis(40), Duration::from_millis(90));
    let ack = Ack {
        now: Instant::from_millis(130),
        acked: MSS,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: handshake,
        in_flight: 10 * MSS,
        round_ended: true,
        window_limited: true,
        delivered: Some((Rate::from_mbit(1.0), false)),
    };
    bbr.observe(&mut window, &ack);
    assert_eq!(bbr.min_rtt, Some(handshake));
}
