//! Window trajectories of each way to grow and to start, alone on one bottleneck, compared with those on file.
//!
//! The sender here has a scoreboard that knows all and repairs for nothing: what is left is the window's own law.

use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

use trunkline_congestion::{
    Ack, BicVersion, Congestion, CongestionAlgorithm, CongestionSignal, Settings, SlowStart,
};
use trunkline_units::Instant;

const MSS: u32 = 1448;
/// 1000 segments a second over 100 ms: 100 segments fill the path, 50 more its queue.
const SERVICE: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(100);
const PATH: u32 = 100;
const BUFFER: u32 = 50;
const SECONDS: u32 = 60;

struct Sent {
    number: u64,
    at: Instant,
    acknowledged: Instant,
    lost: bool,
    /// Acknowledged once all that was sent before it is.
    round: u64,
}

#[derive(Default)]
struct Outcome {
    /// Segments, at the start of each second.
    windows: Vec<u32>,
    most: u32,
    /// Segments that arrived in the second half.
    arrived: u32,
    losses: u32,
    lost: u32,
}

fn run(settings: &Settings, buffer: u32) -> Outcome {
    let mut congestion = Congestion::new(settings, MSS);
    let mut outcome = Outcome::default();
    let mut flight: VecDeque<Sent> = VecDeque::new();
    let (mut now, mut free) = (Instant::ZERO, Instant::ZERO);
    let (mut next, mut recover, mut round_end) = (0_u64, 0_u64, 0_u64);
    let (mut srtt, mut min_rtt) = (RTT, Duration::MAX);
    let mut limited = true;
    loop {
        while (flight.len() as u32 + 1) * MSS <= congestion.cwnd() {
            let waiting = (free - now).as_nanos() / SERVICE.as_nanos();
            let lost = waiting >= u128::from(buffer);
            if !lost {
                free = free.max(now) + SERVICE;
            }
            flight.push_back(Sent {
                number: next,
                at: now,
                acknowledged: free.max(now) + RTT,
                lost,
                round: next,
            });
            next += 1;
        }
        let Some(head) = flight.pop_front() else { return outcome };
        now = now.max(head.acknowledged);
        while outcome.windows.len() as u64 <= now.as_nanos() / 1_000_000_000 {
            outcome.windows.push(congestion.cwnd() / MSS);
        }
        if outcome.windows.len() as u32 > SECONDS {
            outcome.windows.truncate(SECONDS as usize);
            return outcome;
        }
        if head.lost {
            outcome.lost += 1;
            if head.number >= recover {
                outcome.losses += 1;
                recover = next;
                congestion.reduce((flight.len() as u32 + 1) * MSS, CongestionSignal::Loss);
            }
            continue;
        }
        outcome.arrived += u32::from(outcome.windows.len() as u32 > SECONDS / 2);
        if head.number < recover {
            continue;
        }
        let rtt = now - head.at;
        srtt = (srtt * 7 + rtt) / 8;
        min_rtt = min_rtt.min(rtt);
        let round_ended = head.round >= round_end;
        if round_ended {
            round_end = next;
        }
        let in_flight = (flight.len() as u32 + 1) * MSS;
        limited |= in_flight + MSS > congestion.cwnd();
        let ack = Ack {
            now,
            acked: MSS,
            rtt: Some(rtt),
            srtt,
            min_rtt,
            in_flight,
            round_ended,
            window_limited: limited,
            delivered: None,
        };
        congestion.handle_ack(&ack);
        outcome.most = outcome.most.max(congestion.cwnd() / MSS);
    }
}

fn all() -> Vec<(&'static str, Outcome)> {
    let base = Settings::new(CongestionAlgorithm::Reno);
    let with =
        |growth, slow_start| run(&base.with_congestion_control(growth).with_slow_start(slow_start), BUFFER);
    let classic = SlowStart::Classic;
    vec![
        ("reno", with(CongestionAlgorithm::Reno, classic)),
        ("bic", with(CongestionAlgorithm::Bic(BicVersion::Linux), classic)),
        ("bic-1.0", with(CongestionAlgorithm::Bic(BicVersion::Original), classic)),
        ("bic-2.6.6", with(CongestionAlgorithm::Bic(BicVersion::Linux266), classic)),
        ("cubic", with(CongestionAlgorithm::Cubic, classic)),
        ("compound", with(CongestionAlgorithm::Compound, classic)),
        ("vegas", with(CongestionAlgorithm::Vegas, classic)),
        ("limited", with(CongestionAlgorithm::Reno, SlowStart::Limited { max_ssthresh: 30 })),
        ("hystart", with(CongestionAlgorithm::Cubic, SlowStart::HyStart)),
    ]
}

#[test]
fn windows_are_those_on_file() {
    let outcomes = all();
    let mut table = String::from(
        "# Congestion window, segments, at each second. 1000 segments/s, 100 ms, a queue of 50.\n",
    );
    write!(table, "{:>6}", "s").unwrap();
    for (name, _) in &outcomes {
        write!(table, "{name:>10}").unwrap();
    }
    for second in 0..SECONDS as usize {
        write!(table, "\n{second:>6}").unwrap();
        for (_, outcome) in &outcomes {
            write!(table, "{:>10}", outcome.windows[second]).unwrap();
        }
    }
    table.push('\n');
    let expected = include_str!("trajectories/one-bottleneck.txt");
    assert!(table == expected, "trajectories/one-bottleneck.txt differs; it is now\n{table}");
}

#[test]
fn every_one_fills_the_path_and_no_more_than_path_and_queue() {
    for (name, outcome) in all() {
        // 1000 segments a second for 30 s; half a window after a loss is less than the path.
        let used = f64::from(outcome.arrived) / f64::from(SECONDS / 2 * 1000);
        assert!((0.94..1.001).contains(&used), "{name}: {used}");
        let late = outcome.windows[SECONDS as usize / 2..].iter().max().copied().unwrap_or_default();
        // A maximum of nearly four times the window is never near: S_max segments a round trip, into a full queue.
        let over = if name == "bic-2.6.6" { 32 } else { 20 };
        assert!(late <= PATH + BUFFER + over, "{name}: {late}");
    }
}

#[test]
fn the_sawtooth_has_the_period_that_theory_gives() {
    let losses = |name| all().into_iter().find(|(other, _)| *other == name).unwrap().1.losses;
    // From 75 to 151 segments, one a round trip of 100 ms while the path is not full and of up to 150 ms beyond it:
    // 26 rounds of 100 ms and 50 of 125 ms on average, 8.9 s.
    let reno = losses("reno");
    assert!((6..=8).contains(&reno), "{reno}");
    // Its own growth never fills the queue; slow start does, and loses once more while that queue drains.
    let vegas = losses("vegas");
    assert!(vegas <= 2, "{vegas}");
}

#[test]
fn an_early_exit_from_slow_start_spares_what_an_overshoot_loses() {
    let first = |slow_start, buffer| {
        let outcome = run(&Settings::new(CongestionAlgorithm::Reno).with_slow_start(slow_start), buffer);
        (outcome.most, outcome.lost)
    };
    let limited = SlowStart::Limited { max_ssthresh: 30 };
    // HyStart++ needs a standing queue for it, and so a buffer in which slow start can build one; then it goes on at
    // a quarter of the pace for five rounds.
    for (gentle, buffer, over, parts) in
        [(SlowStart::HyStart, 50, 5, 10), (limited, 50, 20, 5), (SlowStart::HyStartPlusPlus, 200, 100, 3)]
    {
        let (classic, gentle_one) = (first(SlowStart::Classic, buffer), first(gentle, buffer));
        assert!(classic.0 > PATH + buffer + 100, "{buffer}: {classic:?}");
        assert!(gentle_one.0 <= PATH + buffer + over, "{gentle:?}: {gentle_one:?} {classic:?}");
        assert!(gentle_one.1 * parts <= classic.1, "{gentle:?}: {gentle_one:?} {classic:?}");
    }
}
