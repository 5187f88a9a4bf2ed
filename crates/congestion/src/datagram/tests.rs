use super::*;

const SEGMENT: u32 = 1000;
const RTT: Duration = Duration::from_millis(100);

fn control() -> DatagramControl {
    DatagramControl::new(&Settings::new(CongestionAlgorithm::Reno), SEGMENT)
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Sends while there is room.
fn fill(control: &mut DatagramControl, now: Instant) -> Vec<Departure> {
    let mut left = Vec::new();
    while control.has_room(SEGMENT) {
        left.push(control.handle_sent(now, SEGMENT));
    }
    control.handle_blocked();
    left
}

fn feedback(now: Instant) -> Feedback {
    Feedback { now, acked: None, lost: None, marked: false, srtt: RTT, min_rtt: RTT }
}

fn ack(control: &mut DatagramControl, now: Instant, departure: Departure) -> bool {
    control.handle_feedback(&Feedback { acked: Some((SEGMENT, departure)), ..feedback(now) })
}

fn lose(control: &mut DatagramControl, now: Instant, departure: Departure) -> bool {
    control.handle_feedback(&Feedback { lost: Some((SEGMENT, departure)), ..feedback(now) })
}

#[test]
fn a_window_that_is_filled_doubles_in_slow_start_and_one_that_is_not_stays() {
    let mut full = control();
    for departure in fill(&mut full, at(0)) {
        ack(&mut full, at(100), departure);
        fill(&mut full, at(100));
    }
    assert_eq!((full.cwnd(), full.in_flight()), (20 * SEGMENT, 20 * SEGMENT));
    let mut idle = control();
    for round in 0..50 {
        let departure = idle.handle_sent(at(round * 100), SEGMENT);
        ack(&mut idle, at(round * 100 + 100), departure);
    }
    assert_eq!((idle.cwnd(), idle.in_flight()), (10 * SEGMENT, 0));
}

#[test]
fn losses_of_one_round_trip_reduce_the_window_once() {
    let mut control = control();
    let sent = fill(&mut control, at(0));
    assert!(lose(&mut control, at(100), sent[0]));
    assert_eq!(control.cwnd(), 5 * SEGMENT);
    assert!(!lose(&mut control, at(101), sent[5]) && !ack(&mut control, at(102), sent[9]));
    assert_eq!(control.cwnd(), 5 * SEGMENT);
    let later = control.handle_sent(at(102), SEGMENT);
    assert!(lose(&mut control, at(202), later), "it left after the reduction");
}

#[test]
fn a_mark_reduces_the_window_as_a_loss_does_and_once_too() {
    let mut control = control();
    let sent = fill(&mut control, at(0));
    let marked =
        |departure| Feedback { acked: Some((SEGMENT, departure)), marked: true, ..feedback(at(100)) };
    assert!(control.handle_feedback(&marked(sent[0])));
    assert!(!control.handle_feedback(&marked(sent[1])));
    assert_eq!(control.cwnd(), 5 * SEGMENT);
}

#[test]
fn after_a_reduction_one_datagram_leaves_for_two_that_arrive() {
    let mut control = control();
    let sent = fill(&mut control, at(0));
    lose(&mut control, at(100), sent[0]);
    let mut left = 0;
    for (settled, departure) in sent[1..].iter().enumerate() {
        ack(&mut control, at(101), *departure);
        if control.has_room(SEGMENT) {
            control.handle_sent(at(101), SEGMENT);
            left += 1;
        }
        assert!(2 * left <= settled + 2, "{left} for {}", settled + 2);
    }
    assert_eq!((left, control.in_flight()), (5, 5 * SEGMENT));
}

#[test]
fn a_timeout_empties_the_flight_and_leaves_a_window_of_one() {
    let mut control = control();
    fill(&mut control, at(0));
    control.handle_timeout();
    assert_eq!((control.in_flight(), control.cwnd()), (0, SEGMENT));
    assert!(control.has_room(SEGMENT));
}

#[test]
fn the_delivery_rate_is_that_of_a_round_trip() {
    let mut control = control();
    for departure in fill(&mut control, at(0)) {
        ack(&mut control, at(100), departure);
    }
    // 10 000 bytes in 100 ms.
    assert_eq!(control.delivery_rate(), Some(Rate::from_bits_per_second(800_000)));
}
