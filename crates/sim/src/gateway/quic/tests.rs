//! Two ends of a connection without a network: rules of RFC 9002 and of the gateway's library.

use trunkline_congestion::{DatagramControl, PACKET_THRESHOLD, Settings};

use super::*;
use connection::MAX_BYTES;

const RTT: Duration = Duration::from_millis(100);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// A connection of datagrams after its PING was acknowledged, 100 ms after the start, and an other end that knows of it.
fn connected() -> [Connection; 2] {
    let mut ends = [(); 2].map(|()| Connection::new(Delivery::Datagram, CongestionAlgorithm::Reno));
    let number = send(&mut ends[0], at(0)).expect("a PING");
    arrive(&mut ends, at(50), number);
    let ack = ends[1].arrivals.take(at(50)).expect("an acknowledgement");
    ends[0].handle_ack(at(100), &ack);
    assert_eq!(ends[0].rtt.smoothed(), RTT);
    ends
}

/// Sends a packet if one may leave: its number.
fn send(end: &mut Connection, now: Instant) -> Option<u32> {
    let outgoing = end.poll_transmit(now)?;
    Outgoing::decode(outgoing.front()).0
}

/// Sends what may leave now.
fn send_all(end: &mut Connection, now: Instant) -> Vec<u32> {
    std::iter::from_fn(|| send(end, now)).collect()
}

fn arrive(ends: &mut [Connection; 2], now: Instant, number: u32) {
    assert!(ends[1].arrivals.note(now, number, false));
}

/// The first end hears at this time of all that has come.
fn acknowledge(ends: &mut [Connection; 2], now: Instant) {
    if let Some(ack) = ends[1].arrivals.take(now) {
        ends[0].handle_ack(now, &ack);
    }
}

fn fill(end: &mut Connection, datagrams: u32) {
    (0..datagrams).for_each(|_| end.send_datagram(vec![0; MAX_DATAGRAM]));
}

#[test]
fn a_full_packet_has_one_full_datagram_and_small_datagrams_share_one() {
    let mut ends = connected();
    fill(&mut ends[0], 1);
    (0..8).for_each(|_| ends[0].send_datagram(vec![0; 200]));
    let sizes: Vec<u32> =
        std::iter::from_fn(|| ends[0].poll_transmit(at(100))).map(|outgoing| outgoing.bytes).collect();
    assert_eq!(sizes, [29 + 3 + 1414, 29 + 7 * 203, 29 + 203]);
}

#[test]
fn a_packet_leaves_only_if_a_full_one_more_leaves_the_window_unfilled() {
    let mut ends = connected();
    fill(&mut ends[0], 100);
    let cwnd = ends[0].control.cwnd();
    assert_eq!(cwnd, 10 * MAX_BYTES);
    let sent = send_all(&mut ends[0], at(100));
    // Packets of 1446 bytes: nine and one more of 1452 are less than the window, ten are not.
    assert_eq!(sent.len(), 10);
    assert!(ends[0].in_flight.1 + MAX_BYTES >= cwnd);
}

#[test]
fn a_packet_is_lost_by_time_and_not_because_a_few_have_overtaken_it() {
    let mut ends = connected();
    fill(&mut ends[0], 8);
    let sent = send_all(&mut ends[0], at(200));
    assert_eq!(sent.len(), 8);
    sent[1..].iter().for_each(|number| arrive(&mut ends, at(250), *number));
    acknowledge(&mut ends, at(300));
    assert_eq!((ends[0].stats.lost, ends[0].in_flight.0), (0, 1));
    // Two round trips after it was sent.
    let found = at(400);
    assert_eq!(ends[0].next_timeout(), Some(found));
    ends[0].handle_timeout(found);
    assert_eq!((ends[0].stats.lost, ends[0].stats.reductions, ends[0].in_flight), (1, 1, (0, 0)));
    // It comes after all.
    arrive(&mut ends, at(420), sent[0]);
    acknowledge(&mut ends, at(470));
    assert_eq!((ends[0].stats.lost, ends[0].stats.late), (1, 1));
}

#[test]
fn a_packet_that_many_have_overtaken_is_lost_at_once() {
    let mut ends = connected();
    let settings = Settings::of_lane(CongestionAlgorithm::Reno);
    let settings = Settings { initial_window: 8000, ..settings };
    ends[0].control = DatagramControl::new(&settings, MAX_BYTES);
    fill(&mut ends[0], 300);
    let sent = send_all(&mut ends[0], at(200));
    for (overtaken, number) in sent[1..].iter().enumerate() {
        assert_eq!(ends[0].stats.lost, u64::from(overtaken >= PACKET_THRESHOLD as usize), "{overtaken}");
        arrive(&mut ends, at(250), *number);
        acknowledge(&mut ends, at(300));
    }
    assert!(sent.len() > 150, "{}", sent.len());
}

#[test]
fn silence_makes_probes_leave_whatever_the_window_says_and_no_loss() {
    let mut ends = connected();
    fill(&mut ends[0], 100);
    let sent = send_all(&mut ends[0], at(200)).len();
    let cwnd = ends[0].control.cwnd();
    // The round trip, four times its variation of 50 ms, and the delay of an acknowledgement.
    ends[0].handle_timeout(at(524));
    assert_eq!(ends[0].stats.timeouts, 0);
    ends[0].handle_timeout(at(525));
    assert_eq!((ends[0].stats.timeouts, ends[0].stats.lost), (1, 0));
    let probes = send_all(&mut ends[0], at(525));
    assert_eq!((probes.len(), ends[0].control.cwnd()), (2, cwnd));
    // The next one is twice as long.
    ends[0].handle_timeout(at(525 + 649));
    assert_eq!(ends[0].stats.timeouts, 1);
    ends[0].handle_timeout(at(525 + 650));
    assert_eq!(ends[0].stats.timeouts, 2);
    // Once a probe is acknowledged, after 725 ms, what is older than two such round trips is lost. It left at one time: no persistent
    // congestion.
    arrive(&mut ends, at(1200), probes[1]);
    acknowledge(&mut ends, at(1250));
    assert_eq!((ends[0].stats.lost, ends[0].next_timeout()), (0, Some(at(1650))));
    ends[0].handle_timeout(at(1650));
    assert_eq!(ends[0].stats.lost as usize, sent);
    assert_eq!(ends[0].control.cwnd(), cwnd / 2);
    assert_eq!(ends[0].probe_timeouts, 0);
}

#[test]
fn losses_over_three_probe_timeouts_without_anything_between_are_persistent_congestion() {
    let mut ends = connected();
    fill(&mut ends[0], 100);
    send_all(&mut ends[0], at(200));
    let mut last = None;
    for ms in [525, 1175, 2475] {
        ends[0].handle_timeout(at(ms));
        last = send_all(&mut ends[0], at(ms)).pop();
    }
    arrive(&mut ends, at(2500), last.expect("a probe"));
    acknowledge(&mut ends, at(2575));
    // From 200 to 2475 ms: more than three times 325 ms.
    assert_eq!(ends[0].control.cwnd(), MAX_BYTES);
    fill(&mut ends[0], 1);
    assert!(send(&mut ends[0], at(2600)).is_some(), "two packets always fit");
}

#[test]
fn an_acknowledgement_that_is_due_precedes_a_full_datagram_and_shares_a_packet_with_a_short_one() {
    let mut ends = connected();
    for number in 1..=2 {
        ends[0].arrivals.note(at(200), number, false);
    }
    fill(&mut ends[0], 1);
    let packets: Vec<_> = std::iter::from_fn(|| ends[0].poll_transmit(at(200)))
        .map(|outgoing| {
            let (number, ack) = Outgoing::decode(outgoing.front());
            (number.is_some(), ack.is_some(), outgoing.bytes)
        })
        .collect();
    assert_eq!(packets, [(false, true, 54), (true, false, 1446)]);
    ends[0].arrivals.note(at(201), 3, false);
    ends[0].send_datagram(vec![0; 100]);
    let outgoing = ends[0].poll_transmit(at(201)).expect("a datagram");
    let (number, ack) = Outgoing::decode(outgoing.front());
    assert_eq!((number.is_some(), ack.map(|ack| ack.largest)), (true, Some(3)));
    assert_eq!(ends[0].poll_transmit(at(300)).map(|outgoing| outgoing.bytes), None);
}

#[test]
fn what_is_lost_of_a_stream_leaves_again_and_what_is_lost_of_datagrams_does_not() {
    for delivery in [Delivery::Datagram, Delivery::Reliable] {
        let mut ends = connected();
        ends[0] = Connection::new(delivery, CongestionAlgorithm::Reno);
        ends[1] = Connection::new(delivery, CongestionAlgorithm::Reno);
        ends[0].write(3, &[7; 3000]);
        fill(&mut ends[0], 3);
        let sent = send_all(&mut ends[0], at(0));
        assert_eq!(sent.len(), 3);
        arrive(&mut ends, at(50), sent[2]);
        acknowledge(&mut ends, at(100));
        ends[0].handle_timeout(at(500));
        assert_eq!(ends[0].stats.lost, 2);
        assert_eq!(ends[0].lost_bytes, 2 * u64::from(1446 + 6 * u32::from(delivery == Delivery::Reliable)));
        let again = send_all(&mut ends[0], at(500)).len();
        assert_eq!(again, if delivery == Delivery::Reliable { 2 } else { 0 }, "{delivery}");
    }
}
