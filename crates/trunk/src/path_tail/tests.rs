use std::time::Duration;

use trunkline_units::{Rate, Rng};

use super::*;

const ROOMY: Limit = Limit { segments: 1000, bytes: 1 << 30 };
const SEGMENT: u32 = 1250;

fn kbit(kbit: u64) -> Estimate {
    Estimate { rate: Rate::from_bits_per_second(kbit * 1000), recovery: Duration::ZERO }
}

fn data(number: u32) -> Arrival {
    let seq = Seq(u32::MAX - 5000) + number * SEGMENT;
    Arrival { seq, end: seq + SEGMENT, bytes: SEGMENT, fin: false }
}

fn first() -> Seq {
    data(0).seq
}

fn released(tail: &mut PathTail, until: Instant) -> Vec<Release> {
    let mut all = Vec::new();
    while let Some(at) = tail.next_release().filter(|at| *at <= until) {
        all.extend(std::iter::from_fn(|| tail.poll_release(at)));
    }
    all
}

fn acks(releases: &[Release], flow: FlowId) -> Vec<u32> {
    releases
        .iter()
        .filter(|release| release.flow == flow)
        .map(|release| (release.ack - first()) / SEGMENT)
        .collect()
}

#[test]
fn acknowledgements_are_spaced_by_the_rate_and_wait_for_those_before() {
    let mut tail = PathTail::new();
    let cell = tail.add_cell(kbit(1000), ROOMY);
    let flow = tail.open(cell, first());
    for number in 0..5 {
        assert_eq!(
            tail.handle_segment(Instant::from_millis(u64::from(number)), flow, data(number)),
            SegmentAction::Accept
        );
    }
    assert_eq!(tail.poll_release(Instant::from_nanos(9_999_999)), None);
    let all = released(&mut tail, Instant::from_millis(1000));
    assert_eq!(acks(&all, flow), [1, 2, 3, 4, 5]);
    let times: Vec<u64> = all.iter().map(|release| release.at.as_nanos() / 1_000_000).collect();
    assert_eq!(times, [10, 20, 30, 40, 50]);
    assert_eq!(tail.next_release(), None);
}

#[test]
fn what_does_not_fit_is_dropped_and_those_behind_send_the_acknowledgement_again() {
    let mut tail = PathTail::new();
    let cell = tail.add_cell(kbit(1000), Limit { segments: 2, ..ROOMY });
    let flow = tail.open(cell, first());
    let actions: Vec<SegmentAction> =
        (0..4).map(|number| tail.handle_segment(Instant::ZERO, flow, data(number))).collect();
    assert_eq!(
        actions,
        [
            SegmentAction::Accept,
            SegmentAction::Accept,
            SegmentAction::Drop(DropReason::QueueFull),
            SegmentAction::Drop(DropReason::QueueFull)
        ]
    );
    assert_eq!(tail.handle_segment(Instant::from_millis(15), flow, data(3)), SegmentAction::Accept);
    assert_eq!(acks(&released(&mut tail, Instant::from_millis(40)), flow), [1, 2, 2]);
    assert_eq!(tail.handle_segment(Instant::from_millis(50), flow, data(2)), SegmentAction::Accept);
    assert_eq!(acks(&released(&mut tail, Instant::from_millis(60)), flow), [4], "the gap is closed");
}

#[test]
fn a_measured_link_drops_nothing_and_bounds_windows_by_what_it_holds() {
    let mut tail = PathTail::new();
    let measured = CellLink { estimate: None, queue: Some(100_000), packets: None };
    let cells = [tail.add_link(&measured), tail.add_link(&measured)];
    for cell in cells {
        tail.set_estimate(Instant::ZERO, cell, kbit(1000));
    }
    let flows = [0, 1, 2].map(|_| tail.open(cells[0], first()));
    assert_eq!(tail.window(flows[0]), Some(100_000), "it would be the only one");
    for flow in flows {
        tail.handle_offered(flow, data(101).seq);
    }
    for number in 0..100 {
        for flow in &flows[..2] {
            assert_eq!(tail.handle_segment(Instant::ZERO, *flow, data(number)), SegmentAction::Accept);
        }
    }
    assert_eq!(flows.map(|flow| tail.window(flow)), [Some(50_000), Some(50_000), Some(33_333)]);
    tail.move_to(flows[1], cells[1]);
    assert_eq!(flows.map(|flow| tail.window(flow)), [Some(100_000), Some(100_000), Some(50_000)]);
    assert_eq!(released(&mut tail, Instant::from_millis(60_000)).len(), 200);
    assert_eq!(tail.window(flows[2]), Some(100_000), "nothing waits for the others");
    tail.handle_segment(Instant::from_millis(60_000), flows[0], data(100));
    tail.close(flows[0]);
    assert_eq!(tail.window(flows[2]), Some(100_000));
    let given = CellLink { estimate: Some(kbit(1000)), ..measured };
    let given = tail.add_link(&given);
    let dropping = tail.open(given, first());
    assert_eq!(tail.window(dropping), None, "it drops");
}

#[test]
fn flows_of_a_cell_share_it_and_cells_do_not_meet() {
    let mut tail = PathTail::new();
    let (shared, other) = (tail.add_cell(kbit(1000), ROOMY), tail.add_cell(kbit(1000), ROOMY));
    let flows = [tail.open(shared, first()), tail.open(shared, first()), tail.open(other, first())];
    for number in 0..50 {
        for flow in flows {
            tail.handle_segment(Instant::ZERO, flow, data(number));
        }
    }
    let all = released(&mut tail, Instant::from_millis(500));
    assert_eq!(flows.map(|flow| acks(&all, flow).len()), [25, 25, 50]);
}

#[test]
fn a_profile_keeps_its_rate_beside_others() {
    let mut tail = PathTail::new();
    let cell = tail.add_cell(kbit(1000), ROOMY);
    let profile = tail.open_with_profile(kbit(100), ROOMY, first());
    let flow = tail.open(cell, first());
    for number in 0..50 {
        tail.handle_segment(Instant::ZERO, flow, data(number));
        tail.handle_segment(Instant::ZERO, profile, data(number));
    }
    let all = released(&mut tail, Instant::from_millis(500));
    assert_eq!((acks(&all, flow).len(), acks(&all, profile).len()), (50, 5));
    tail.set_estimate(Instant::from_millis(500), tail.cell(profile).unwrap(), kbit(200));
    assert_eq!(acks(&released(&mut tail, Instant::from_millis(1000)), profile).len(), 10);
}

#[test]
fn a_new_estimate_moves_what_is_due_both_ways() {
    let mut tail = PathTail::new();
    let cell = tail.add_cell(kbit(1000), ROOMY);
    let flow = tail.open(cell, first());
    tail.handle_segment(Instant::ZERO, flow, data(0));
    tail.set_estimate(Instant::from_millis(5), cell, kbit(500));
    assert_eq!(tail.next_release(), Some(Instant::from_millis(15)));
    tail.set_estimate(Instant::from_millis(5), cell, kbit(0));
    assert_eq!(tail.next_release(), None, "the mobile network is gone");
    tail.set_estimate(Instant::from_millis(5), cell, kbit(1_000_000));
    assert!(tail.next_release().unwrap() < Instant::from_millis(6));
}

#[test]
fn a_retransmission_takes_no_room_and_is_answered_once_its_acknowledgement_has_gone() {
    let mut tail = PathTail::new();
    let cell = tail.add_cell(kbit(1000), Limit { segments: 1, ..ROOMY });
    let flow = tail.open(cell, first());
    tail.handle_segment(Instant::ZERO, flow, data(0));
    assert_eq!(tail.handle_segment(Instant::ZERO, flow, data(0)), SegmentAction::Duplicate(None));
    assert_eq!(acks(&released(&mut tail, Instant::from_millis(50)), flow), [1]);
    let at = Instant::from_millis(60);
    assert_eq!(tail.handle_segment(at, flow, data(0)), SegmentAction::Duplicate(Some(data(1).seq)));
    assert_eq!(tail.next_release(), None);
}

#[test]
fn from_its_fin_on_the_mobile_host_alone_acknowledges() {
    let mut tail = PathTail::new();
    let cell = tail.add_cell(kbit(1000), ROOMY);
    let flow = tail.open(cell, first());
    tail.handle_segment(Instant::ZERO, flow, data(0));
    let fin = Arrival { fin: true, ..data(1) };
    assert_eq!(tail.handle_segment(Instant::ZERO, flow, fin), SegmentAction::Forward);
    assert_eq!(tail.handle_segment(Instant::ZERO, flow, data(1)), SegmentAction::Forward);
    // What was accepted before it is acknowledged still, and neither the FIN nor its data.
    assert_eq!(acks(&released(&mut tail, Instant::from_millis(1000)), flow), [1]);
}

#[test]
fn a_flow_that_is_forgotten_is_not_acknowledged_and_not_known() {
    let mut tail = PathTail::new();
    let cell = tail.add_cell(kbit(1000), ROOMY);
    let (gone, stays) = (tail.open(cell, first()), tail.open(cell, first()));
    let profile = tail.open_with_profile(kbit(1000), ROOMY, first());
    for flow in [gone, stays, profile] {
        tail.handle_segment(Instant::ZERO, flow, data(0));
    }
    tail.close(gone);
    tail.close(profile);
    let all = released(&mut tail, Instant::from_millis(1000));
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].flow, all[0].at), (stays, Instant::from_millis(20)), "behind the other's time");
    assert_eq!(tail.handle_segment(Instant::ZERO, gone, data(1)), SegmentAction::Forward);
}

#[test]
fn a_host_that_moves_has_its_new_cells_rate_and_no_acknowledgement_goes_back() {
    let mut tail = PathTail::new();
    let (slow, fast) = (tail.add_cell(kbit(10), ROOMY), tail.add_cell(kbit(1000), ROOMY));
    let flow = tail.open(slow, first());
    tail.handle_segment(Instant::ZERO, flow, data(0));
    tail.move_to(flow, fast);
    tail.handle_segment(Instant::ZERO, flow, data(1));
    let all = released(&mut tail, Instant::from_millis(2000));
    assert_eq!(acks(&all, flow), [2], "the first one's is covered");
    assert_eq!(all[0].at, Instant::from_millis(10));
}

#[test]
fn what_is_beyond_the_window_takes_no_time_on_the_link_and_is_answered() {
    for estimate in [Some(kbit(1000)), None] {
        let mut tail = PathTail::new();
        let cell = tail.add_link(&CellLink { estimate, queue: Some(1 << 20), packets: None });
        tail.set_estimate(Instant::ZERO, cell, kbit(1000));
        let flows = [tail.open(cell, first()), tail.open(cell, first())];
        for flow in flows {
            assert_eq!(tail.offer(flow, first(), data(4).seq), data(4).seq);
        }
        for number in 4..2000 {
            let beyond = tail.handle_segment(Instant::ZERO, flows[0], data(number));
            assert_eq!(beyond, SegmentAction::OutOfWindow(Some(first())), "it may probe the window");
        }
        for number in 0..4 {
            assert_eq!(tail.handle_segment(Instant::ZERO, flows[0], data(number)), SegmentAction::Accept);
        }
        let beyond = tail.handle_segment(Instant::ZERO, flows[0], data(4));
        assert_eq!(beyond, SegmentAction::OutOfWindow(None), "what waits will say it");
        assert_eq!(tail.handle_segment(Instant::ZERO, flows[1], data(0)), SegmentAction::Accept);
        let all = released(&mut tail, Instant::from_millis(50));
        assert_eq!((acks(&all, flows[0]), acks(&all, flows[1])), (vec![1, 2, 3, 4], vec![1]));
    }
}

#[test]
fn a_flow_of_short_or_overlapping_segments_has_its_part_of_a_measured_link_and_no_more() {
    let mut tail = PathTail::new();
    let cell = tail.add_link(&CellLink { estimate: None, queue: Some(100_000), packets: None });
    tail.set_estimate(Instant::ZERO, cell, kbit(1000));
    let [flow, other] = [tail.open(cell, first()), tail.open(cell, first())];
    for flow in [flow, other] {
        tail.offer(flow, first(), first() + 50_000);
    }
    // Each brings one byte that is new.
    let mut taken = 0;
    for byte in 0..50_000 {
        let arrival = Arrival { seq: first(), end: first() + byte + 1, bytes: SEGMENT, fin: false };
        match tail.handle_segment(Instant::ZERO, flow, arrival) {
            SegmentAction::Accept => taken += u64::from(SEGMENT),
            action => assert_eq!(action, SegmentAction::Drop(DropReason::ShareFull)),
        }
    }
    assert!(taken > 100_000 && taken <= 2 * 50_000 + MIN_WINDOW, "{taken}");
    assert_eq!(tail.handle_segment(Instant::ZERO, other, data(0)), SegmentAction::Accept);
    let all = released(&mut tail, Instant::from_millis(1000));
    assert_eq!(acks(&all, other), [1], "a second later, not six minutes");
    assert_eq!(
        tail.handle_segment(Instant::from_millis(1000), flow, data(8)),
        SegmentAction::Accept,
        "room again"
    );
}

#[test]
fn a_flow_whose_host_takes_nothing_takes_no_time_on_a_measured_link() {
    let mut tail = PathTail::new();
    let cell = tail.add_link(&CellLink { estimate: None, queue: Some(100_000), packets: None });
    tail.set_estimate(Instant::ZERO, cell, kbit(1000));
    let [stuck, other] = [tail.open(cell, first()), tail.open(cell, first())];
    for flow in [stuck, other] {
        tail.offer(flow, first(), data(60).seq);
    }
    let send = |tail: &mut PathTail, now: u64, flow, number| {
        assert_eq!(tail.handle_segment(Instant::from_millis(now), flow, data(number)), SegmentAction::Accept);
    };
    send(&mut tail, 0, stuck, 0);
    tail.set_host(stuck, HostState::Stuck);
    for number in 1..50 {
        send(&mut tail, 0, stuck, number);
        assert_eq!(tail.next_release(), Some(Instant::ZERO), "at once");
    }
    send(&mut tail, 0, other, 0);
    let all = released(&mut tail, Instant::from_millis(20));
    assert_eq!(acks(&all, stuck), (2..=50).collect::<Vec<_>>(), "what it had on the link has been overtaken");
    assert_eq!((acks(&all, other), all[49].at), (vec![1], Instant::from_millis(20)));
    assert!(!tail.is_waiting(stuck) && !tail.is_waiting(other));
    tail.set_host(stuck, HostState::Taking);
    send(&mut tail, 20, stuck, 50);
    assert_eq!(tail.next_release(), Some(Instant::from_millis(30)));
}

/// Whatever arrives: everything accepted is acknowledged, in order, no sooner than the link could have sent it.
#[test]
fn releases_are_those_of_a_link_under_any_operations() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed, "path tail");
        let limit = Limit { segments: 1 + rng.below(20) as u32, bytes: 20_000 };
        let mut tail = PathTail::new();
        let cell = tail.add_cell(kbit(1000), limit);
        let flows = [tail.open(cell, first()), tail.open(cell, first())];
        let mut now = Instant::ZERO;
        let (mut accepted, mut dropped, mut releases) = (0_u32, 0, Vec::new());
        for _ in 0..400 {
            now += Duration::from_micros(rng.below(15_000));
            releases.extend(std::iter::from_fn(|| tail.poll_release(now)));
            match tail.handle_segment(now, flows[rng.below(2) as usize], data(rng.below(60) as u32)) {
                SegmentAction::Accept => accepted += 1,
                SegmentAction::Drop(_) => dropped += 1,
                SegmentAction::Duplicate(_) => {}
                SegmentAction::OutOfWindow(_) => panic!("no window was offered"),
                SegmentAction::Forward => panic!("no flow was closed"),
            }
            // What is waiting fits, and is served within what the limit takes to send.
            let bound = now + Duration::from_millis(u64::from(limit.segments.min(16)) * 10);
            assert!(tail.next_release().is_none_or(|at| at > now && at <= bound));
        }
        releases.extend(released(&mut tail, Instant::FAR_FUTURE));
        assert_eq!(releases.len() as u32, accepted);
        assert!(accepted > 40 && (dropped > 0 || limit.segments > 5), "{accepted} {dropped}");
        assert!(releases.windows(2).all(|pair| pair[1].at >= pair[0].at + Duration::from_millis(10)));
        for flow in flows {
            assert!(acks(&releases, flow).is_sorted());
        }
    }
}
