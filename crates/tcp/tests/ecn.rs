//! Segment scripts: explicit congestion notification (RFC 3168), as Linux has it where its recovery is meant.

use std::time::Duration;

use crate::common::{CLIENT_ISS, End, MSS, Pair, PathAction, ms, plain};
use trunkline_packet::TcpFlags;
use trunkline_tcp::{CongestionAlgorithm, DelayedAck, Recovery, Settings, SpuriousDetection};

const DELAY: Duration = Duration::from_millis(50);

/// Twenty segments at first, and room for many more.
fn linux() -> Settings {
    Settings {
        ecn: true,
        recovery: Recovery::RackTlp,
        sack: true,
        initial_window: 20,
        receive_buffer: 1 << 20,
        ..plain()
    }
}

/// A connection, of whose first transmissions some have another fate: by the number of the segment.
fn pair(settings: Settings, mut fate: impl FnMut(u32) -> PathAction + 'static) -> Pair {
    let mut pair = Pair::connected(settings, DELAY);
    let mut next = 0;
    pair.impair(move |trace| {
        let number = (trace.segment.seq - CLIENT_ISS - 1) / MSS;
        if trace.from == End::Server || trace.segment.payload == 0 || number < next {
            return PathAction::Deliver;
        }
        next = number + 1;
        fate(number)
    });
    pair
}

fn marks(numbers: std::ops::Range<u32>) -> impl Fn(u32) -> PathAction {
    move |number| if numbers.contains(&number) { PathAction::Mark } else { PathAction::Deliver }
}

fn with_flag(pair: &Pair, from: End, flag: TcpFlags) -> usize {
    pair.sent_by(from).filter(|trace| trace.segment.flags.contains(flag)).count()
}

#[test]
fn a_mark_halves_the_window_over_a_round_trip() {
    let mut pair = pair(linux(), marks(0..20));
    let now = pair.now;
    pair.client.write(400_000);
    pair.run_for(ms(199));
    let sent: Vec<_> = pair.data_sent().into_iter().filter(|(at, _)| *at > now).collect();
    // Each second of twenty acknowledgements, all of one instant here, lets a segment out, the first one too.
    assert_eq!(sent.len(), 10, "{sent:?}");
    assert_eq!(pair.client.ssthresh(), 10 * MSS);
    pair.run_for(ms(2));
    assert_eq!(pair.client.stats().ecn_reductions, 1);
    // The reduction is over with the first acknowledgement of what was sent since, and the window grows again.
    assert!((10 * MSS..=11 * MSS).contains(&pair.client.cwnd()), "{}", pair.client.cwnd());
}

#[test]
fn a_mark_of_what_is_sent_after_the_reduction_reduces_again() {
    let mut pair = pair(linux(), marks(0..25));
    pair.client.write(400_000);
    pair.run_for(ms(400));
    assert_eq!(pair.client.stats().ecn_reductions, 2);
    assert_eq!(with_flag(&pair, End::Client, TcpFlags::CWR), 2);
}

#[test]
fn a_mark_during_a_recovery_reduces_nothing_more() {
    for (recovery, sack) in [(Recovery::NewReno, false), (Recovery::Sack, true), (Recovery::RackTlp, true)] {
        let fate = |number| match number {
            0 => PathAction::Drop,
            4..20 => PathAction::Mark,
            _ => PathAction::Deliver,
        };
        let mut pair = pair(Settings { recovery, sack, ..linux() }, fate);
        pair.client.write(400_000);
        pair.run_for(ms(190));
        let stats = pair.client.stats();
        assert_eq!((stats.ecn_reductions, stats.fast_recoveries), (0, 1), "{recovery:?}");
        assert!((9 * MSS..=11 * MSS).contains(&pair.client.ssthresh()), "{recovery:?}");
        assert!(pair.server.stats().ce_marks_received >= 16);
    }
}

#[test]
fn a_loss_in_the_round_trip_of_a_mark_reduces_nothing_more() {
    let fate = |number| match number {
        2 => PathAction::Mark,
        10 => PathAction::Drop,
        _ => PathAction::Deliver,
    };
    let mut pair = pair(linux(), fate);
    pair.client.write(400_000);
    pair.run_for(ms(190));
    let stats = pair.client.stats();
    assert_eq!((stats.ecn_reductions, stats.fast_recoveries, stats.retransmitted_segments), (1, 1, 1));
    assert!((10 * MSS..=12 * MSS).contains(&pair.client.ssthresh()), "{}", pair.client.ssthresh());
}

#[test]
fn a_reduction_by_a_mark_is_not_undone() {
    let fate = |number| match number {
        0 => PathAction::Mark,
        // Which the peer reports as a duplicate.
        10 => PathAction::Duplicate,
        _ => PathAction::Deliver,
    };
    let mut pair = pair(Settings { spurious: SpuriousDetection::Eifel, ..linux() }, fate);
    pair.client.write(400_000);
    pair.run_for(ms(190));
    let stats = pair.client.stats();
    assert_eq!((stats.ecn_reductions, stats.undone_reductions), (1, 0));
    assert!(pair.client.ssthresh() < 12 * MSS, "{}", pair.client.ssthresh());
}

#[test]
fn a_model_of_the_path_hears_of_marks_and_keeps_its_window() {
    let window = |marked| {
        let settings = Settings { congestion_control: CongestionAlgorithm::Bbr, ..linux() };
        let mut pair = pair(settings, marks(0..marked));
        pair.rate = Some(trunkline_units::Rate::from_mbit(10.0));
        pair.client.write(4_000_000);
        pair.run_for(ms(1000));
        (pair.client.cwnd(), pair.client.acknowledged(), with_flag(&pair, End::Client, TcpFlags::CWR))
    };
    let (unmarked, marked) = (window(0), window(60));
    assert_eq!((unmarked.0, unmarked.1, 0), (marked.0, marked.1, unmarked.2));
    assert!((1..=4).contains(&marked.2), "{marked:?}: once in each window with marks");
}

#[test]
fn a_repeated_syn_offers_no_ecn() {
    let mut pair = Pair::new(linux(), linux(), DELAY);
    let mut dropped = false;
    pair.impair(
        move |_| if std::mem::replace(&mut dropped, true) { PathAction::Deliver } else { PathAction::Drop },
    );
    pair.run_for(ms(2000));
    pair.client.write(10_000);
    pair.run_for(ms(500));
    let syns: Vec<_> = pair
        .sent_by(End::Client)
        .filter(|trace| trace.segment.flags.contains(TcpFlags::SYN))
        .map(|trace| trace.segment.flags.contains(TcpFlags::ECE | TcpFlags::CWR))
        .collect();
    assert_eq!(syns, [true, false]);
    assert_eq!(pair.server.received(), 10_000);
    assert!(pair.sent_by(End::Client).all(|trace| !trace.segment.ecn_capable));
}

/// Linux's receiver, whose peer has just been told to slow down.
#[test]
fn a_mark_and_the_answer_to_it_are_acknowledged_at_once() {
    let delayed =
        DelayedAck { timeout: ms(40), ticks: false, every: 2, quick: 0, pushed: false, adaptive: true };
    // A segment each 10 ms, the second of which is marked.
    let acks = |marked: u32| {
        let settings = Settings { delayed_ack: Some(delayed), ..linux() };
        let mut pair = pair(settings, marks(marked..marked + 1));
        let now = pair.now;
        for _ in 0..16 {
            pair.client.write(u64::from(MSS));
            pair.run_for(ms(10));
        }
        pair.run_for(ms(300));
        let at = pair.acks().into_iter().map(|(at, _)| (at - now).as_millis() as u64 - 50);
        at.collect::<Vec<_>>()
    };
    let (plain, marked) = (acks(1000), acks(1));
    assert!(plain.starts_with(&[0, 20, 40, 60, 80, 100, 120, 140]), "every second one: {plain:?}");
    // The marked one and the next, then every second one again.
    assert!(marked.starts_with(&[0, 10, 20, 40, 60, 80, 100]), "{marked:?}");
    // The first with CWR.
    assert!(marked.contains(&110), "{marked:?}");
}
