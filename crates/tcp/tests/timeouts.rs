//! Segment scripts: the retransmission timer, what it measures, and when it was wrong.

use crate::common::{CLIENT_ISS, End, MSS, Pair, PathAction, ms, plain};
use trunkline_tcp::{Recovery, ResetReason, Settings, SpuriousDetection, State, Wakeup};
use trunkline_units::Instant;

const DELAY: std::time::Duration = std::time::Duration::from_millis(50);

fn silence(pair: &mut Pair, from: Instant, to: Instant) {
    pair.impair(
        move |trace| if trace.at >= from && trace.at < to { PathAction::Drop } else { PathAction::Deliver },
    );
}

#[test]
fn the_timeout_doubles_and_goes_back_to_the_first_segment() {
    let mut pair = Pair::connected(plain(), DELAY);
    let now = pair.now;
    silence(&mut pair, now, now + ms(5000));
    pair.client.write(3000);
    pair.run_for(ms(20_000));
    let times: Vec<_> =
        pair.data_sent().iter().filter(|sent| sent.1 == 0).map(|sent| (sent.0 - now).as_millis()).collect();
    // One sample of 100 ms, of the SYN: RTO = 100 + 4·50.
    assert_eq!(times, [0, 300, 900, 2100, 4500, 9300]);
    assert_eq!(pair.client.stats().timeouts, 5);
    // Slow start from one segment once it arrives.
    assert_eq!(pair.server.received(), 3000);
    assert_eq!(pair.client.ssthresh(), 2 * MSS);
}

#[test]
fn a_retransmitted_segment_gives_no_sample_without_timestamps() {
    for timestamps in [false, true] {
        let mut pair = Pair::connected(Settings { timestamps, ..plain() }, DELAY);
        let before = (pair.client.stats().rtt.samples, pair.client.rto());
        let now = pair.now;
        silence(&mut pair, now, now + ms(100));
        pair.client.write(500);
        pair.run_for(ms(1500));
        let after = (pair.client.stats().rtt.samples, pair.client.rto());
        if timestamps {
            assert_eq!(after.0, before.0 + 1);
            assert!(after.1 <= before.1, "a sample ends the back-off");
        } else {
            assert_eq!(after, (before.0, before.1 * 2), "Karn: neither sample nor end of the back-off");
        }
    }
}

#[test]
fn an_acknowledgement_puts_the_timer_off_and_the_last_one_stops_it() {
    let mut pair = Pair::connected(plain(), DELAY);
    let now = pair.now;
    pair.client.write(1000);
    pair.run_for(ms(60));
    pair.client.write(1000);
    pair.run_for(ms(60));
    // The first was acknowledged after 100 ms; the timer runs from then.
    let (at, why) = pair.client.next_wakeup().unwrap();
    assert_eq!(why, Wakeup::Retransmission);
    assert_eq!(at, now + ms(100) + pair.client.rto());
    pair.run_for(ms(100));
    assert_eq!(pair.client.next_wakeup(), None);
}

#[test]
fn a_connection_is_given_up_after_so_many_timeouts() {
    let mut settings = plain();
    settings.timers.max_retransmissions = 3;
    let mut pair = Pair::connected(settings, DELAY);
    let now = pair.now;
    silence(&mut pair, now, Instant::FAR_FUTURE);
    pair.client.write(1000);
    pair.run_for(ms(20_000));
    assert_eq!(pair.client.state(), State::Closed);
    let heard = pair.events.iter().map(|event| event.2).collect::<Vec<_>>();
    assert_eq!(heard, [trunkline_tcp::Event::Reset(ResetReason::TimedOut)]);
    assert_eq!(pair.data_sent().len(), 4);
}

#[test]
fn a_timeout_keeps_what_sack_reported() {
    // 0 and the retransmission of 0 are lost, 1 to 9 are delivered: only 0 is sent after the timeout.
    for recovery in [Recovery::Sack, Recovery::RackTlp] {
        let mut pair = Pair::connected(Settings { recovery, sack: true, ..plain() }, DELAY);
        let mut count = 0;
        pair.impair(move |trace| {
            let first =
                trace.from == End::Client && trace.segment.seq == CLIENT_ISS + 1 && trace.segment.payload > 0;
            count += u32::from(first);
            if first && count <= 2 { PathAction::Drop } else { PathAction::Deliver }
        });
        pair.client.write(10_000);
        pair.run_for(ms(2000));
        assert_eq!(pair.client.stats().timeouts, 1, "{recovery:?}");
        let sent: Vec<_> = pair.data_sent()[10..].iter().map(|sent| sent.1).collect();
        assert!(sent.iter().all(|number| *number == 0) && sent.len() == 2, "{recovery:?}: {sent:?}");
        assert_eq!(pair.server.received(), 10_000);
    }
}

/// A delay spike: what the client sends comes in order, but nothing before 600 ms have passed.
fn spike(settings: Settings) -> Pair {
    let mut pair = Pair::connected(settings, DELAY);
    let now = pair.now;
    let end = now + ms(600);
    pair.impair(move |trace| {
        if trace.from == End::Client { PathAction::Delay(end - trace.at) } else { PathAction::Deliver }
    });
    pair.client.write(40_000);
    pair.run_for(ms(5000));
    assert_eq!(pair.server.received(), 40_000);
    pair
}

#[test]
fn frto_sends_new_data_and_takes_a_needless_timeout_back() {
    for (recovery, sack) in [(Recovery::NewReno, false), (Recovery::Sack, true), (Recovery::RackTlp, true)] {
        let settings = |spurious| Settings { recovery, sack, spurious, ..plain() };
        let without = spike(settings(SpuriousDetection::None));
        let with = spike(settings(SpuriousDetection::FRto));
        let (without, with) = (without.client.stats(), with.client.stats());
        assert!(without.undone_reductions == 0 && with.undone_reductions >= 1, "{recovery:?}: {with:?}");
        // The first segment, and what the window of one still allowed. RACK takes the answer for that of the retransmission,
        // and so finds more lost until duplicates are reported; time stamps would tell it.
        let most = if recovery == Recovery::RackTlp { 10 } else { 2 };
        assert!(with.retransmitted_segments <= most, "{recovery:?}: {with:?}");
        assert!(without.retransmitted_segments >= 8, "{recovery:?}: {without:?}");
    }
}

#[test]
fn frto_goes_on_retransmitting_when_the_loss_was_real() {
    for (recovery, sack) in [(Recovery::NewReno, false), (Recovery::Sack, true), (Recovery::RackTlp, true)] {
        let settings = Settings { recovery, sack, spurious: SpuriousDetection::FRto, ..plain() };
        let mut pair = Pair::connected(settings, DELAY);
        let now = pair.now;
        silence(&mut pair, now, now + ms(120));
        pair.client.write(40_000);
        pair.run_for(ms(5000));
        let stats = pair.client.stats();
        assert_eq!(pair.server.received(), 40_000, "{recovery:?}");
        // The SACK of a probe that was sent before the timeout looks like that of a late segment, as it does to Linux.
        let most = u64::from(recovery == Recovery::RackTlp);
        assert!(stats.undone_reductions <= most && stats.timeouts > 0, "{recovery:?}");
        assert!((10..=12).contains(&stats.retransmitted_segments), "{recovery:?}: {stats:?}");
    }
}

#[test]
fn eifel_takes_a_needless_timeout_back_by_the_time_stamp() {
    for (recovery, sack) in [(Recovery::NewReno, false), (Recovery::Sack, true), (Recovery::RackTlp, true)] {
        let settings =
            Settings { recovery, sack, timestamps: true, spurious: SpuriousDetection::Eifel, ..plain() };
        let pair = spike(settings);
        let stats = pair.client.stats();
        assert_eq!(stats.undone_reductions, 1, "{recovery:?}");
        assert!(stats.retransmitted_segments <= 2, "{recovery:?}: {stats:?}");
        assert_eq!(pair.client.ssthresh(), u32::MAX, "{recovery:?}");
    }
}

#[test]
fn eifel_takes_a_needless_fast_retransmit_back() {
    for (recovery, sack) in [(Recovery::NewReno, false), (Recovery::Sack, true), (Recovery::RackTlp, true)] {
        let settings =
            Settings { recovery, sack, timestamps: true, spurious: SpuriousDetection::Eifel, ..plain() };
        let mut pair = Pair::connected(settings, DELAY);
        pair.delay_next(ms(60));
        pair.client.write(10_000);
        pair.run_for(ms(1000));
        let stats = pair.client.stats();
        assert_eq!(
            (stats.fast_recoveries, stats.undone_reductions, stats.retransmitted_segments),
            (1, 1, 1),
            "{recovery:?}"
        );
        assert!(pair.client.cwnd() >= 10 * (MSS - 12), "{recovery:?}: {}", pair.client.cwnd());
    }
}

#[test]
fn reported_duplicates_take_a_needless_reduction_back() {
    let settings =
        Settings { recovery: Recovery::RackTlp, sack: true, spurious: SpuriousDetection::FRto, ..plain() };
    let mut pair = Pair::connected(settings, DELAY);
    pair.delay_next(ms(60));
    pair.client.write(10_000);
    pair.run_for(ms(1000));
    let stats = pair.client.stats();
    assert_eq!((stats.fast_recoveries, stats.undone_reductions, stats.retransmitted_segments), (1, 1, 1));
    assert_eq!(pair.server.stats().duplicates_received, 1);
    assert!(pair.client.cwnd() >= 10 * MSS);
}

#[test]
fn timers_run_out_with_the_ticks_of_an_old_clock() {
    let mut settings = plain();
    settings.timers.granularity = ms(500);
    settings.timers.min_rto = ms(1000);
    settings.timers.initial_rto = ms(3000);
    let mut pair = Pair::connected(settings, DELAY);
    // The round trip of 100 ms counts as one tick: RTO = 500 + 4·250.
    assert_eq!((pair.client.srtt(), pair.client.rto()), (Some(ms(100)), ms(300).max(ms(1000))));
    let now = pair.now;
    silence(&mut pair, now, now + ms(100));
    pair.client.write(500);
    pair.run_for(ms(5000));
    assert_eq!(pair.client.rto(), ms(1500) * 2);
    let again = pair.data_sent()[1].0;
    assert_eq!(again, Instant::from_millis(2000));
}

/// RACK with ten segments: five written at once and five 20 ms later, of which the first is lost as often as `times` says, and all
/// acknowledgements from `deaf` on.
fn first_lost(times: u32, deaf: Option<u64>) -> (Pair, Instant) {
    let settings = Settings { recovery: Recovery::RackTlp, sack: true, ..plain() };
    let mut pair = Pair::connected(settings, DELAY);
    let begin = pair.now;
    let mut lost = 0;
    pair.impair(move |trace| {
        let first = trace.segment.payload > 0 && trace.segment.seq == CLIENT_ISS + 1;
        lost += u32::from(first);
        let unheard = trace.from == End::Server && deaf.is_some_and(|deaf| trace.at >= begin + ms(deaf));
        if (first && lost <= times) || unheard { PathAction::Drop } else { PathAction::Deliver }
    });
    pair.client.write(5000);
    pair.run_for(ms(20));
    pair.client.write(5000);
    (pair, begin)
}

#[test]
fn retransmitting_what_is_first_in_flight_begins_the_timer_anew() {
    let (mut pair, begin) = first_lost(1, Some(51));
    // Acknowledgements that left by 51 ms say that four are beyond a gap; the retransmission leaves at 100 ms.
    pair.run_for(ms(90));
    let retransmissions: Vec<_> =
        pair.data_sent().iter().filter(|sent| sent.1 == 0).map(|sent| sent.0 - begin).collect();
    assert_eq!(retransmissions, [ms(0), ms(100)]);
    let expected = (begin + ms(100) + pair.client.rto(), Wakeup::Retransmission);
    assert_eq!(pair.client.next_wakeup(), Some(expected));
}

#[test]
fn what_left_before_the_first_was_retransmitted_puts_the_timer_off_and_what_left_later_does_not() {
    let (mut pair, begin) = first_lost(2, None);
    pair.run_for(ms(130));
    // The second five left at 20 ms, before the retransmission at 100 ms, and were reported at 120 ms.
    let rto = pair.client.rto();
    assert_eq!(pair.client.next_wakeup(), Some((begin + ms(120) + rto, Wakeup::Retransmission)));
    pair.client.write(500);
    pair.run_for(ms(60));
    assert_eq!(pair.client.stats().timeouts, 0);
    let before = pair.client.next_wakeup();
    // Reported at 250 ms: what left after the retransmission says that the retransmission is lost too, and that one begins the timer anew.
    pair.run_for(ms(45));
    let third = pair.data_sent().iter().filter(|sent| sent.1 == 0).count();
    assert!(third == 3 && pair.client.next_wakeup() != before);
    pair.run_for(ms(500));
    assert_eq!((pair.client.stats().timeouts, pair.server.received()), (0, 10_500));
}
