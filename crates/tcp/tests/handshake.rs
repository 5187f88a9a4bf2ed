//! Segment scripts: how connections begin and end.

use std::sync::Arc;

use crate::common::{CLIENT_ISS, End, Pair, PathAction, SERVER_ISS, ms, plain};
use trunkline_packet::TcpFlags;
use trunkline_tcp::{Endpoint, Event, Options, Preset, ResetReason, Segment, Settings, State, Timers};
use trunkline_units::{Instant, Seq};

const DELAY: std::time::Duration = std::time::Duration::from_millis(50);

fn new() -> Pair {
    Pair::new(plain(), plain(), DELAY)
}

fn is_syn(segment: &Segment) -> bool {
    segment.flags.contains(TcpFlags::SYN)
}

#[test]
fn options_are_agreed_by_both() {
    let all =
        Settings { sack: true, timestamps: true, window_scaling: true, ecn: true, mss: 1460, ..plain() };
    let none = Settings { window_scaling: false, mss: 536, ..plain() };
    for (client, server, both) in
        [(&all, &all, true), (&all, &none, false), (&none, &all, false), (&none, &none, false)]
    {
        let mut pair = Pair::new(client.clone(), server.clone(), DELAY);
        pair.run_for(ms(200));
        let agreed = (pair.client.uses_sack(), pair.client.uses_timestamps());
        assert_eq!(agreed, (both, both));
        assert_eq!(agreed, (pair.server.uses_sack(), pair.server.uses_timestamps()));
        let mss = if both { 1460 - 12 } else { u32::from(client.mss.min(server.mss)) };
        assert_eq!((pair.client.mss(), pair.server.mss()), (mss, mss));
        let answer = pair.sent_by(End::Server).next().unwrap().segment;
        assert_eq!(answer.flags.contains(TcpFlags::ECE), both);
        assert_eq!(answer.options.window_scale.is_some(), both);
    }
}

#[test]
fn a_lost_syn_is_retransmitted_with_back_off() {
    let mut pair = new();
    let mut left = 3;
    pair.impair(move |trace| {
        let lost = trace.from == End::Client && is_syn(&trace.segment) && left > 0;
        left -= i32::from(lost);
        if lost { PathAction::Drop } else { PathAction::Deliver }
    });
    pair.run_for(ms(10_000));
    let times: Vec<_> = pair
        .sent_by(End::Client)
        .filter(|trace| is_syn(&trace.segment))
        .map(|trace| trace.at.as_nanos() / 1_000_000)
        .collect();
    assert_eq!(times, [1, 1001, 3001, 7001]);
    assert_eq!(pair.client.state(), State::Established);
    // RFC 5681 §3.1 and RFC 6298 §5.7.
    pair.client.write(10_000);
    pair.flush();
    assert_eq!((pair.client.cwnd(), pair.data_sent().len()), (1000, 1));
    assert_eq!(pair.client.rto(), ms(3000));
}

#[test]
fn a_lost_answer_and_a_lost_acknowledgement_do_not_matter() {
    for lost in 1..=2 {
        let mut pair = new();
        let mut count = 0;
        pair.impair(move |_| {
            count += 1;
            if count == lost + 1 { PathAction::Drop } else { PathAction::Deliver }
        });
        pair.run_for(ms(130));
        pair.client.write(5000);
        pair.run_for(ms(5000));
        assert_eq!(
            (pair.client.state(), pair.server.state()),
            (State::Established, State::Established),
            "{lost}"
        );
        assert_eq!(pair.server.received(), 5000, "{lost}");
    }
}

#[test]
fn a_syn_that_nobody_answers_is_given_up() {
    let mut settings = plain();
    settings.timers.max_syn_retransmissions = 2;
    let mut pair = Pair::new(settings.clone(), settings, DELAY);
    pair.impair(|_| PathAction::Drop);
    pair.run_for(ms(20_000));
    assert_eq!(pair.client.state(), State::Closed);
    assert_eq!(pair.events.last().unwrap().2, Event::Reset(ResetReason::TimedOut));
    assert_eq!(pair.trace.len(), 3);
}

#[test]
fn a_syn_ack_that_nobody_answers_is_given_up_earlier_than_a_syn() {
    let mut settings = plain();
    settings.timers.max_syn_ack_retransmissions = 1;
    settings.timers.max_syn_retransmissions = 5;
    let mut pair = Pair::new(settings.clone(), settings, DELAY);
    let mut syns = 0;
    pair.impair(move |trace| {
        syns += u32::from(trace.from == End::Client);
        if trace.from == End::Client && syns == 1 { PathAction::Deliver } else { PathAction::Drop }
    });
    pair.run_for(ms(4000));
    assert_eq!((pair.client.state(), pair.server.state()), (State::SynSent, State::Closed));
}

/// The times of a client's SYNs, seconds, if nothing comes back.
fn syns_of(settings: Settings) -> Vec<u64> {
    let mut pair = Pair::new(settings.clone(), settings, DELAY);
    let begin = pair.now;
    pair.impair(|_| PathAction::Drop);
    pair.run_for(ms(140_000));
    assert_eq!(pair.client.state(), State::Closed);
    pair.trace.iter().map(|sent| (sent.at - begin).as_secs()).collect()
}

#[test]
fn the_first_repetitions_of_a_linux_syn_come_a_second_apart() {
    let linux = Preset::Linux6.settings();
    assert_eq!(syns_of(linux.clone()), [0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67]);
    let timers = Timers { linear_syn_retransmissions: 0, max_syn_retransmissions: 5, ..linux.timers };
    assert_eq!(syns_of(Settings { timers, ..linux }), [0, 1, 3, 7, 15, 31]);
}

#[test]
fn both_may_open_at_once() {
    let mut pair = new();
    pair.server = Endpoint::connect(&Arc::new(plain()), pair.now, SERVER_ISS);
    pair.run_for(ms(500));
    assert_eq!((pair.client.state(), pair.server.state()), (State::Established, State::Established));
    pair.client.write(5000);
    pair.server.write(3000);
    pair.run_for(ms(500));
    assert_eq!((pair.client.received(), pair.server.received()), (3000, 5000));
}

#[test]
fn data_written_before_the_answer_goes_with_the_first_flight() {
    let mut pair = new();
    assert_eq!(pair.client.write(3000), 3000);
    pair.client.close();
    pair.run_for(ms(200));
    assert_eq!((pair.server.received(), pair.server.state()), (3000, State::CloseWait));
    assert_eq!(pair.client.state(), State::FinWait2);
}

#[test]
fn both_may_close_at_once() {
    let mut pair = Pair::connected(plain(), DELAY);
    pair.client.write(2000);
    pair.client.close();
    pair.server.close();
    pair.run_for(ms(60));
    assert_eq!((pair.client.state(), pair.server.state()), (State::Closing, State::Closing));
    pair.run_for(ms(200));
    assert_eq!((pair.client.state(), pair.server.state()), (State::TimeWait, State::TimeWait));
    assert_eq!(pair.server.received(), 2000);
    pair.run_for(ms(61_000));
    assert_eq!((pair.client.state(), pair.server.state()), (State::Closed, State::Closed));
}

#[test]
fn a_lost_fin_and_a_lost_last_acknowledgement_are_retransmitted() {
    for lost in [(End::Client, 0), (End::Server, 1)] {
        let mut pair = Pair::connected(plain(), DELAY);
        let mut count = 0;
        pair.impair(move |trace| {
            if trace.from != lost.0 {
                return PathAction::Deliver;
            }
            count += 1;
            if count == lost.1 + 1 { PathAction::Drop } else { PathAction::Deliver }
        });
        pair.client.close();
        pair.run_for(ms(1000));
        pair.server.close();
        pair.run_for(ms(10_000));
        assert_eq!((pair.client.state(), pair.server.state()), (State::TimeWait, State::Closed), "{lost:?}");
    }
}

#[test]
fn time_wait_answers_a_fin_that_comes_again() {
    let mut pair = Pair::connected(plain(), DELAY);
    pair.server.close();
    pair.run_for(ms(110));
    // The acknowledgement of the client's FIN is lost, so that it comes again.
    pair.impair(|trace| {
        if trace.at < Instant::from_millis(600) && trace.from == End::Server {
            PathAction::Drop
        } else {
            PathAction::Deliver
        }
    });
    pair.client.close();
    pair.run_for(ms(10_000));
    assert_eq!((pair.client.state(), pair.server.state()), (State::Closed, State::TimeWait));
    assert!(pair.client.stats().retransmitted_segments >= 1);
}

#[test]
fn a_refused_connection_is_reset() {
    let mut pair = new();
    pair.server = Endpoint::accept(&Arc::new(plain()), SERVER_ISS);
    pair.server.abort();
    let now = pair.now;
    let rst = Segment {
        seq: Seq(0),
        ack: CLIENT_ISS + 1,
        flags: TcpFlags::RST | TcpFlags::ACK,
        ..Segment::default()
    };
    pair.client.handle_segment(now, &Segment { ack: CLIENT_ISS, ..rst });
    assert_eq!(pair.client.state(), State::SynSent, "it answers nothing that was sent");
    pair.client.handle_segment(now, &rst);
    assert_eq!(pair.client.state(), State::Closed);
    assert_eq!(pair.client.poll_event(), Some(Event::Reset(ResetReason::Refused)));
    assert_eq!(pair.client.next_wakeup(), None);
}

#[test]
fn calling_off_resets_the_peer() {
    let mut pair = Pair::connected(plain(), DELAY);
    pair.client.write(30_000);
    pair.run_for(ms(10));
    pair.client.abort();
    pair.run_for(ms(500));
    assert_eq!((pair.client.state(), pair.server.state()), (State::Closed, State::Closed));
    let heard = |end| pair.events.iter().filter(|event| event.1 == end).map(|event| event.2).next_back();
    assert_eq!(heard(End::Client), Some(Event::Reset(ResetReason::Aborted)));
    assert_eq!(heard(End::Server), Some(Event::Reset(ResetReason::Peer)));
    assert_eq!(pair.client.next_wakeup(), None);
}

#[test]
fn a_reset_must_hit_the_next_number() {
    let mut pair = Pair::connected(plain(), DELAY);
    let now = pair.now;
    let rst = Segment { flags: TcpFlags::RST, ..Segment::default() };
    // Outside of the window: nothing. Inside: a challenge (RFC 5961 §3.2). At its edge: the end.
    for (offset, answered, state) in
        [(2_000_000, false, State::Established), (100, true, State::Established), (0, false, State::Closed)]
    {
        pair.server.handle_segment(now, &Segment { seq: CLIENT_ISS + 1 + offset, ..rst });
        assert_eq!(pair.server.poll_transmit(now).is_some(), answered, "{offset}");
        assert_eq!(pair.server.state(), state, "{offset}");
    }
}

#[test]
fn an_end_that_knows_of_no_connection_answers_with_reset() {
    let mut listener = Endpoint::accept(&Arc::new(plain()), SERVER_ISS);
    let stray = Segment { seq: Seq(5), ack: Seq(99), flags: TcpFlags::ACK, ..Segment::default() };
    listener.handle_segment(Instant::ZERO, &stray);
    let answer = listener.poll_transmit(Instant::ZERO).unwrap();
    assert_eq!((answer.flags, answer.seq), (TcpFlags::RST, Seq(99)));
    assert_eq!(listener.state(), State::Listen);
}

#[test]
fn a_syn_in_the_middle_is_challenged() {
    let mut pair = Pair::connected(plain(), DELAY);
    let now = pair.now;
    let syn = Segment {
        seq: CLIENT_ISS + 500,
        flags: TcpFlags::SYN,
        options: Options { mss: Some(1000), ..Options::default() },
        ..Segment::default()
    };
    pair.server.handle_segment(now, &syn);
    let answer = pair.server.poll_transmit(now).unwrap();
    assert_eq!((answer.flags, answer.ack), (TcpFlags::ACK, CLIENT_ISS + 1));
    assert_eq!(pair.server.state(), State::Established);
}
