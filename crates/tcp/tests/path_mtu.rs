//! Segment scripts: what routers say of segments that they could not pass on.

use std::time::Duration;

use crate::common::{CLIENT_ISS, End, MSS, Pair, PathAction, ms, plain};
use trunkline_tcp::{Event, PathError, Recovery, ResetReason, Settings, State};
use trunkline_units::Seq;

const DELAY: Duration = Duration::from_millis(50);

fn discovers(recovery: Recovery) -> Settings {
    let sack = matches!(recovery, Recovery::Sack | Recovery::RackTlp);
    Settings { path_mtu_discovery: true, recovery, sack, receive_buffer: 1 << 20, ..plain() }
}

/// A path that takes so many bytes of data, and a router that says so 10 ms after what it drops.
fn narrow(settings: Settings, max: u16, options: u16) -> Pair {
    let mut pair = Pair::connected(settings, DELAY);
    pair.impair(
        move |trace| {
            if trace.segment.payload > max.into() { PathAction::Drop } else { PathAction::Deliver }
        },
    );
    pair.client.write(100_000);
    pair.run_for(ms(10));
    let too_long: Vec<Seq> = pair
        .sent_by(End::Client)
        .filter(|trace| trace.segment.payload > max.into())
        .map(|trace| trace.segment.seq)
        .collect();
    assert_eq!(too_long.len(), 10, "the initial window");
    for seq in too_long {
        let now = pair.now;
        pair.client.handle_path_error(now, seq, PathError::TooLong { mss: max + options });
    }
    pair
}

#[test]
fn what_is_too_long_is_sent_again_at_once_in_shorter_segments_and_without_a_reduction() {
    for recovery in [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::RackTlp] {
        let mut pair = narrow(discovers(recovery), 400, 0);
        assert_eq!(pair.client.mss(), 400);
        assert_eq!(pair.client.cwnd(), 4000, "{recovery:?}: as many segments as before");
        let now = pair.now;
        pair.flush();
        let again: Vec<_> = pair.data_sent().into_iter().filter(|(at, _)| *at == now).collect();
        assert_eq!(again.len(), 12, "{recovery:?}: 400, 400 and 200 bytes, four times");
        pair.run_for(ms(3000));
        assert_eq!(pair.server.received(), 100_000, "{recovery:?}");
        let stats = pair.client.stats();
        // Ten segments of 1000 bytes as 400, 400 and 200.
        assert_eq!((stats.retransmitted_segments, stats.timeouts), (30, 0), "{recovery:?}");
        assert_eq!((stats.fast_recoveries, stats.undone_reductions), (0, 0), "{recovery:?}");
        assert!(pair.client.cwnd() > 10_000, "{recovery:?}: {}", pair.client.cwnd());
        assert!(pair.sent_by(End::Client).skip(20).all(|trace| trace.segment.payload <= 400));
    }
}

#[test]
fn options_are_taken_off_what_the_path_takes() {
    let pair = narrow(Settings { timestamps: true, ..discovers(Recovery::RackTlp) }, 500, 12);
    assert_eq!(pair.client.mss(), 500);
}

#[test]
fn only_a_message_about_a_segment_in_flight_counts_and_only_where_it_was_asked_for() {
    let long = PathError::TooLong { mss: 300 };
    let mut pair = Pair::connected(discovers(Recovery::RackTlp), DELAY);
    pair.client.write(5000);
    pair.run_for(ms(10));
    let now = pair.now;
    for beyond in [0, 5001, 100_000] {
        pair.client.handle_path_error(now, CLIENT_ISS + beyond, long);
        assert_eq!(pair.client.mss(), MSS, "{beyond}");
    }
    pair.client.handle_path_error(now, CLIENT_ISS + 4001, long);
    assert_eq!(pair.client.mss(), 300);
    pair.client.handle_path_error(now, CLIENT_ISS + 4001, PathError::TooLong { mss: 900 });
    assert_eq!(pair.client.mss(), 300, "it never grows");
    let mut pair = Pair::connected(plain(), DELAY);
    pair.client.write(5000);
    pair.run_for(ms(10));
    let now = pair.now;
    pair.client.handle_path_error(now, CLIENT_ISS + 1, long);
    assert_eq!(pair.client.mss(), MSS);
}

#[test]
fn a_limit_from_before_the_handshake_holds_after_it() {
    let settings = Settings { timestamps: true, ..discovers(Recovery::RackTlp) };
    let mut pair = Pair::new(settings.clone(), settings, DELAY);
    let now = pair.now;
    pair.client.limit_mss(now, 600);
    pair.run_for(ms(200));
    assert_eq!((pair.client.mss(), pair.server.mss()), (588, MSS - 12));
}

#[test]
fn an_open_connection_survives_errors_and_one_that_is_being_opened_by_its_stack() {
    let mut pair = Pair::connected(plain(), DELAY);
    pair.client.write(5000);
    pair.run_for(ms(10));
    for error in [PathError::Unreachable, PathError::Refused] {
        let now = pair.now;
        pair.client.handle_path_error(now, CLIENT_ISS + 1, error);
    }
    pair.run_for(ms(500));
    assert_eq!(pair.server.received(), 5000);
    let opening = |fails: bool, error| {
        let settings = Settings { fails_on_soft_errors: fails, ..plain() };
        let mut pair = Pair::new(settings.clone(), settings, DELAY);
        pair.impair(|_| PathAction::Drop);
        pair.run_for(ms(10));
        let now = pair.now;
        pair.client.handle_path_error(now, CLIENT_ISS, error);
        pair.run_for(ms(1));
        let event = pair.events.iter().find(|event| event.1 == End::Client).map(|event| event.2);
        (pair.client.state(), event)
    };
    assert_eq!(opening(false, PathError::Unreachable), (State::SynSent, None));
    let ended = |reason| (State::Closed, Some(Event::Reset(reason)));
    assert_eq!(opening(true, PathError::Unreachable), ended(ResetReason::Unreachable));
    assert_eq!(opening(false, PathError::Refused), ended(ResetReason::Refused));
}
