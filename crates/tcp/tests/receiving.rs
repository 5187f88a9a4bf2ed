//! Segment scripts: acknowledgements and windows, one rule each.

use crate::common::{CLIENT_ISS, End, MSS, Pair, PathAction, SERVER_ISS, delayed, ms, plain};
use trunkline_packet::TcpFlags;
use trunkline_tcp::{Recovery, Segment, Settings, Wakeup};
use trunkline_units::Rate;

const DELAY: std::time::Duration = std::time::Duration::from_millis(50);

/// When the server acknowledged after `segments` were written at once, in milliseconds after they came.
fn acks_after(settings: Settings, segments: u32) -> Vec<(u128, u32)> {
    acks_of(settings, segments * MSS)
}

/// The same of so many bytes.
fn acks_of(settings: Settings, bytes: u32) -> Vec<(u128, u32)> {
    let mut pair = Pair::connected(settings, DELAY);
    let now = pair.now;
    pair.client.write(u64::from(bytes));
    pair.run_for(ms(1000));
    pair.acks().iter().map(|(at, bytes)| ((*at - now).as_millis() - 50, bytes / MSS)).collect()
}

#[test]
fn a_delayed_acknowledgement_waits_for_its_time_or_a_second_segment() {
    let settings = Settings { delayed_ack: Some(delayed(200, 2, 0)), ..plain() };
    assert_eq!(acks_after(settings.clone(), 1), [(200, 1)]);
    assert_eq!(acks_after(settings.clone(), 4), [(0, 2), (0, 4)]);
    assert_eq!(acks_after(settings, 3), [(0, 2), (200, 3)]);
}

#[test]
fn without_delay_every_segment_is_acknowledged() {
    assert_eq!(acks_after(plain(), 3), [(0, 1), (0, 2), (0, 3)]);
}

#[test]
fn the_first_segments_are_acknowledged_at_once_each() {
    let settings = Settings { delayed_ack: Some(delayed(200, 2, 3)), ..plain() };
    assert_eq!(acks_after(settings, 6), [(0, 1), (0, 2), (0, 3), (0, 5), (200, 6)]);
}

#[test]
fn segments_beyond_a_gap_and_those_that_fill_it_are_acknowledged_at_once() {
    let mut pair =
        Pair::connected(Settings { delayed_ack: Some(delayed(200, 2, 0)), sack: true, ..plain() }, DELAY);
    pair.drop_data(&[1]);
    let now = pair.now;
    pair.client.write(6000);
    pair.run_for(ms(60));
    // 0 is kept back until 2 shows a gap; each one beyond it is reported.
    let bytes: Vec<_> = pair.acks().iter().map(|ack| ack.1).collect();
    assert_eq!(bytes, [1000; 4]);
    pair.run_for(ms(100));
    assert_eq!(pair.acks().last().unwrap().1, 6000);
    assert_eq!((pair.acks().last().unwrap().0 - now).as_millis(), 150);
    assert_eq!(pair.server.stats().out_of_order_received, 4);
}

#[test]
fn sack_reports_the_newest_block_first() {
    let mut pair = Pair::connected(Settings { sack: true, recovery: Recovery::NewReno, ..plain() }, DELAY);
    pair.drop_data(&[0, 2, 4, 6, 8]);
    pair.client.write(10_000);
    pair.run_for(ms(60));
    let last = pair.sent_by(End::Server).last().unwrap().segment;
    let first = CLIENT_ISS + 1;
    let blocks: Vec<_> = last
        .options
        .sack
        .as_slice()
        .iter()
        .map(|(start, end)| ((*start - first) / MSS, (*end - first) / MSS))
        .collect();
    assert_eq!(blocks, [(9, 10), (7, 8), (5, 6), (3, 4)]);
    assert!(last.header_len() <= Segment::MAX_HEADER_LEN);
}

#[test]
fn sack_and_timestamps_fit_one_header() {
    let settings = Settings { sack: true, timestamps: true, recovery: Recovery::Sack, ..plain() };
    let mut pair = Pair::connected(settings, DELAY);
    pair.drop_data(&[0, 2, 4, 6, 8]);
    pair.client.write(10_000);
    pair.run_for(ms(60));
    let last = pair.sent_by(End::Server).last().unwrap().segment;
    assert_eq!(last.options.sack.as_slice().len(), 3);
    assert_eq!(last.header_len(), 60);
}

#[test]
fn a_duplicate_is_reported_and_counted() {
    let mut pair = Pair::connected(Settings { sack: true, recovery: Recovery::Sack, ..plain() }, DELAY);
    pair.impair(|trace| if trace.from == End::Client { PathAction::Duplicate } else { PathAction::Deliver });
    pair.client.write(1000);
    pair.run_for(ms(60));
    let last = pair.sent_by(End::Server).last().unwrap().segment;
    let first = CLIENT_ISS + 1;
    assert_eq!(last.options.sack.as_slice(), [(first, first + 1000)]);
    let stats = pair.server.stats();
    assert_eq!((stats.duplicates_received, stats.duplicate_bytes_received), (1, 1000));
    assert_eq!(pair.server.received(), 1000);
}

#[test]
fn a_full_buffer_closes_the_window_and_reading_opens_it() {
    let mut pair = Pair::connected(Settings { receive_buffer: 4000, ..plain() }, DELAY);
    pair.reads = false;
    pair.client.write(10_000);
    pair.run_for(ms(250));
    assert_eq!((pair.server.readable(), pair.client.peer_window()), (4000, 0));
    assert!(matches!(pair.client.next_wakeup(), Some((_, Wakeup::Persist))));
    // A little does not open it (RFC 9293 §3.8.6.2.2); a segment does.
    let sent = pair.trace.len();
    pair.server.read(900);
    pair.flush();
    assert_eq!(pair.trace.len(), sent);
    pair.server.read(1100);
    pair.flush();
    assert_eq!(pair.trace.len(), sent + 1);
    assert_eq!(pair.trace.last().unwrap().segment.window, 2000);
    pair.run_for(ms(110));
    assert_eq!(pair.server.received(), 6000);
    assert_eq!(pair.client.stats().timeouts, 0);
}

#[test]
fn a_lost_window_update_is_asked_for_with_back_off() {
    let mut pair = Pair::connected(Settings { receive_buffer: 4000, ..plain() }, DELAY);
    pair.reads = false;
    pair.client.write(6000);
    pair.run_for(ms(200));
    let shut = pair.now;
    // For two seconds nothing comes back.
    pair.impair(move |trace| {
        if trace.from == End::Server && trace.at < shut + ms(2000) {
            PathAction::Drop
        } else {
            PathAction::Deliver
        }
    });
    pair.server.read(4000);
    pair.run_for(ms(8000));
    assert_eq!(pair.server.received(), 6000);
    let stats = pair.client.stats();
    let probes: Vec<_> = pair
        .sent_by(End::Client)
        .filter(|trace| trace.segment.payload == 0 && trace.at > shut)
        .map(|trace| trace.at)
        .collect();
    assert_eq!(stats.window_probes as usize, probes.len());
    assert_eq!((stats.window_probes, stats.timeouts), (4, 0));
    let gaps: Vec<_> = probes.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] == 2 * pair[0]), "{gaps:?}");
}

#[test]
fn a_window_that_closes_over_data_in_flight_freezes_the_sender() {
    // What M-TCP does: an acknowledgement with a window of nothing, while segments are under way that will be lost.
    let mut pair = Pair::connected(plain(), DELAY);
    let now = pair.now;
    pair.impair(move |trace| {
        if trace.from == End::Client && trace.at < now + ms(3000) {
            PathAction::Drop
        } else {
            PathAction::Deliver
        }
    });
    pair.client.write(20_000);
    pair.run_for(ms(20));
    let cwnd = pair.client.cwnd();
    let frozen = Segment {
        seq: SERVER_ISS + 1,
        ack: CLIENT_ISS + 1,
        flags: TcpFlags::ACK,
        window: 0,
        ..Segment::default()
    };
    let now = pair.now;
    pair.client.handle_segment(now, &frozen);
    pair.run_for(ms(2500));
    let stats = pair.client.stats();
    assert_eq!((stats.timeouts, stats.retransmitted_segments, pair.client.cwnd()), (0, 0, cwnd));
    assert!(stats.window_probes >= 2);
    // Three duplicates of the frozen acknowledgement are no loss.
    let now = pair.now;
    for _ in 0..4 {
        pair.client.handle_segment(now, &frozen);
    }
    assert_eq!(pair.client.stats().fast_recoveries, 0);
    pair.client.handle_segment(now, &Segment { window: 60_000, ..frozen });
    pair.run_for(ms(5000));
    assert_eq!(pair.server.received(), 20_000);
}

#[test]
fn a_window_without_scaling_is_64_kilobytes_at_the_most() {
    for (window_scaling, most) in [(false, 65_535), (true, 300_000)] {
        let settings = Settings { window_scaling, initial_window: 400, receive_buffer: 300_000, ..plain() };
        let mut pair = Pair::connected(settings, DELAY);
        let now = pair.now;
        pair.client.write(1_000_000);
        let mut seen = 0;
        while pair.step(now + ms(1000)) {
            seen = seen.max(pair.client.unacknowledged());
        }
        assert!(seen <= most && seen > most - 2000, "{seen}");
    }
}

#[test]
fn an_offered_window_is_never_taken_back() {
    let settings = Settings { receive_buffer: 100_001, initial_window: 60, ..plain() };
    let mut pair = Pair::connected(settings, DELAY);
    pair.reads = false;
    let now = pair.now;
    pair.client.write(500_000);
    let until = now + ms(3000);
    let mut asked = 0_u64;
    while pair.step(until) {
        asked += 1;
        pair.server.read(asked % 700);
    }
    // Scaled by two: 100 001 bytes do not fit 16 bits otherwise.
    let edges: Vec<_> = pair
        .sent_by(End::Server)
        .map(|trace| (trace.segment.ack - CLIENT_ISS) + (u32::from(trace.segment.window) << 1))
        .collect();
    assert!(edges.windows(2).all(|pair| pair[0] <= pair[1]), "{edges:?}");
    assert!(edges.len() > 50);
}

#[test]
fn a_small_window_is_not_filled_with_small_segments() {
    // The server reads 300 bytes at a time: the client must not send segments of 300 bytes.
    let mut pair = Pair::connected(Settings { receive_buffer: 3000, ..plain() }, ms(5));
    pair.reads = false;
    let start = pair.now;
    pair.client.write(60_000);
    while pair.server.received() < 60_000 && pair.now < start + ms(60_000) {
        pair.run_for(ms(20));
        pair.server.read(300);
    }
    assert_eq!(pair.server.received(), 60_000);
    let stats = pair.client.stats();
    assert!(stats.data_segments_sent <= 62, "{}", stats.data_segments_sent);
}

#[test]
fn a_segment_from_before_the_wrap_is_dropped_by_its_time_stamp() {
    let settings = Settings { timestamps: true, ..plain() };
    let mut pair = Pair::connected(settings, DELAY);
    pair.run_for(ms(1000));
    pair.client.write(500);
    pair.run_for(ms(100));
    let mut old = *pair
        .sent_by(End::Client)
        .find(|trace| trace.segment.payload > 0)
        .map(|trace| &trace.segment)
        .unwrap();
    old.seq += 500;
    old.options.timestamps = old.options.timestamps.map(|(value, echo)| (value - 900, echo));
    let now = pair.now;
    pair.server.handle_segment(now, &old);
    assert_eq!(pair.server.received(), 500);
    pair.flush();
    assert_eq!(pair.trace.last().unwrap().from, End::Server);
}

#[test]
fn while_the_window_widens_every_segment_is_acknowledged_at_once() {
    let settings = Settings {
        delayed_ack: Some(delayed(200, 2, 0)),
        receive_buffer: 40_000,
        initial_receive_window: Some(30_000),
        initial_window: 20,
        ..plain()
    };
    let mut pair = Pair::connected(settings.clone(), DELAY);
    let windows = |pair: &Pair| -> Vec<u64> {
        pair.sent_by(End::Server).map(|trace| u64::from(trace.segment.window)).collect()
    };
    assert_eq!(pair.client.peer_window(), 30_000);
    pair.client.write(9000);
    pair.run_for(ms(60));
    // Two segments for each, up to the buffer, in which the last one still lies; then every second one.
    assert_eq!(windows(&pair), [32_000, 34_000, 36_000, 38_000, 39_000, 39_000, 39_000]);
    let bytes: Vec<_> = pair.acks().iter().map(|ack| ack.1).collect();
    assert_eq!(bytes, [1000, 2000, 3000, 4000, 5000, 7000, 9000]);
    // Too little data to widen it.
    let mut small = Pair::connected(Settings { nagle: false, ..settings }, DELAY);
    small.client.write(127);
    small.run_for(ms(60));
    assert_eq!(windows(&small), [] as [u64; 0]);
}

#[test]
fn what_ends_a_write_is_acknowledged_once_it_is_read_by_a_side_that_only_receives() {
    let settings = |pushed| Settings {
        delayed_ack: Some(trunkline_tcp::DelayedAck { pushed, ..delayed(200, 2, 0) }),
        ..plain()
    };
    // Full or short, it ends a write; the first of two is followed by more.
    for (bytes, acks) in [(1000, vec![(0, 1)]), (300, vec![(0, 0)]), (3000, vec![(0, 2), (0, 3)])] {
        let seen = acks_of(settings(true), bytes);
        assert_eq!(seen, acks, "{bytes}");
    }
    assert_eq!(acks_of(settings(false), 1000), [(200, 1)]);
    // Not before it is read.
    let mut pair = Pair::connected(settings(true), DELAY);
    pair.reads = false;
    pair.client.write(1000);
    pair.run_for(ms(100));
    assert_eq!(pair.acks().len(), 0);
    pair.server.read(999);
    pair.run_for(ms(10));
    assert_eq!(pair.acks().len(), 0);
    pair.server.read(1);
    pair.run_for(ms(10));
    assert_eq!(pair.acks().len(), 1);
    // A side that answers may have its answer soon: the acknowledgement waits for that.
    let mut pair = Pair::connected(settings(true), DELAY);
    pair.server.write(100);
    pair.run_for(ms(200));
    pair.trace.clear();
    pair.client.write(1000);
    pair.run_for(ms(100));
    assert_eq!(pair.acks().len(), 0);
}

#[test]
fn a_long_write_is_pushed_at_every_half_of_the_largest_window() {
    let settings = Settings { receive_buffer: 40_000, window_scaling: false, ..plain() };
    let mut pair = Pair::connected(settings, DELAY);
    pair.client.write(100_000);
    pair.run_for(ms(5000));
    let pushed: Vec<u32> = pair
        .sent_by(End::Client)
        .filter(|trace| trace.segment.flags.contains(TcpFlags::PSH))
        .map(|trace| (trace.segment.seq - (CLIENT_ISS + 1)) / MSS)
        .collect();
    // Where twenty segments end, and the last.
    assert_eq!(pushed, [19, 39, 59, 79, 99]);
}

/// Requests of 100 bytes each `gap`, and responses of two segments to each; acknowledgements alone that the client sent.
fn acks_of_responses(settings: Settings, gap: u64, requests: usize) -> usize {
    let mut pair = Pair::connected(settings, ms(20));
    let mut answered = 0;
    for request in 1..=requests {
        pair.client.write(100);
        let until = pair.now + ms(gap);
        while pair.now < until {
            pair.run_for(ms(1));
            if answered < request && pair.server.received() as usize >= 100 * request {
                answered = request;
                pair.server.write(1500);
            }
        }
    }
    assert_eq!(pair.client.received() as usize, 1500 * requests);
    pair.sent_by(End::Client).filter(|trace| trace.segment.payload == 0).count()
}

#[test]
fn a_side_that_answers_soon_leaves_its_acknowledgements_to_its_answers() {
    let adaptive = |adaptive, quick| Settings {
        delayed_ack: Some(trunkline_tcp::DelayedAck { pushed: true, adaptive, ..delayed(40, 2, quick) }),
        ..plain()
    };
    // Two segments are acknowledged with the second, whatever comes next.
    assert_eq!(acks_of_responses(adaptive(true, 0), 60, 20), 20);
    // Quick acknowledgements double that until the client's requests are answers to responses.
    let held = acks_of_responses(adaptive(true, 16), 60, 20);
    let eager = acks_of_responses(adaptive(false, 16), 60, 20);
    assert!(held <= 22 && eager >= held + 6, "{held} and {eager} acknowledgements");
}

#[test]
fn a_buffer_that_grows_lets_the_window_follow_the_rate() {
    let settings = |timestamps| Settings {
        delayed_ack: Some(delayed(40, 2, 0)),
        receive_buffer: 3 << 20,
        initial_receive_window: Some(65_535),
        initial_receive_buffer: Some(81_920),
        timestamps,
        ..plain()
    };
    for timestamps in [true, false] {
        let mut pair = Pair::connected(settings(timestamps), ms(50));
        pair.keeps_trace = false;
        pair.rate = Some(Rate::from_mbit(20.0));
        let mut largest = 0;
        for _ in 0..400 {
            pair.client.write(u64::MAX / 2);
            pair.run_for(ms(10));
            largest = largest.max(pair.client.peer_window());
        }
        // A round trip of 100 ms holds 250 kB.
        assert!((400_000..3 << 20).contains(&largest), "timestamps {timestamps}: {largest}");
        assert!(pair.server.received() > 8_000_000, "timestamps {timestamps}: {}", pair.server.received());
        // Once the window has widened, two segments have one acknowledgement.
        let (acks, segments) = (pair.server.stats().acks_sent, pair.server.stats().data_segments_received);
        assert!(acks < segments * 3 / 4, "timestamps {timestamps}: {acks} for {segments}");
    }
    // A reader that never reads keeps the buffer that it began with.
    let mut pair = Pair::connected(settings(true), ms(50));
    pair.reads = false;
    pair.client.write(1 << 20);
    pair.run_for(ms(3000));
    // What is offered is rounded up to a multiple of 64 bytes, with each acknowledgement.
    assert!(pair.server.received() <= 85_000, "{}", pair.server.received());
}
