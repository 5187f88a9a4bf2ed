//! A link whose owner polls it: times, fates and counters, in time and late.

use std::time::Duration;

use trunkline_link::mobile::{BlockErrors, Mobile, Rlp};
use trunkline_link::{Delivery, Impairments, Jitter, LinkChange, LinkSettings, Loss, Payload, PolledLink};
use trunkline_queue::{CoDelSettings, Item, Limits, Settings as QueueSettings};
use trunkline_units::{Instant, Rate, Rng};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Packet {
    id: u32,
    bytes: usize,
    corrupted: bool,
}

impl Item for Packet {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Payload for Packet {
    fn corrupt(&mut self, _: &mut Rng) {
        self.corrupted = true;
    }
}

fn packet(id: u32, bytes: usize) -> Packet {
    Packet { id, bytes, corrupted: false }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// 8 Mbit/s: a byte takes a microsecond.
fn slow() -> LinkSettings {
    LinkSettings::new(Rate::from_mbit(8.0), Duration::ZERO)
}

fn limit(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

fn link(settings: &LinkSettings) -> PolledLink<Packet> {
    assert_eq!(settings.check(), Ok(()));
    PolledLink::new(settings, 1, Instant::ZERO)
}

/// All that is there by `now`.
fn take(link: &mut PolledLink<Packet>, now: Instant) -> Vec<Delivery<Packet>> {
    std::iter::from_fn(|| link.poll(now)).collect()
}

/// What is delivered up to `until`: microseconds and number.
fn drain(link: &mut PolledLink<Packet>, until: Instant) -> Vec<(u64, u32)> {
    take(link, until).iter().map(|one| (one.due.as_nanos() / 1000, one.packet.id)).collect()
}

#[test]
fn a_packet_arrives_after_its_transmission_and_the_delay() {
    let mut link = link(&LinkSettings { delay: ms(20), ..slow() });
    link.offer(at(1), packet(1, 1000));
    link.offer(at(1), packet(2, 500));
    assert_eq!(drain(&mut link, at(100)), [(22_000, 1), (22_500, 2)]);
    assert_eq!(link.next_wakeup(), None);
}

#[test]
fn a_full_queue_drops_the_arriving_packet_and_not_the_one_being_sent() {
    let mut link = link(&slow().queue(limit(2)));
    for id in 1..=4 {
        link.offer(Instant::ZERO, packet(id, 1000));
    }
    assert_eq!((link.link().queue().dropped_total(), link.link().queue().backlog_segments), (1, 2));
    assert_eq!(drain(&mut link, at(10)), [(1000, 1), (2000, 2), (3000, 3)]);
}

#[test]
fn a_bandwidth_delay_product_beyond_the_buffer_still_fills_the_link() {
    // 8 Mbit/s × 500 ms = 500 packets of 1000 bytes on the way, with a queue of five.
    let mut link = link(&LinkSettings { delay: ms(500), ..slow().queue(limit(5)) });
    let mut delivered = 0;
    for millisecond in 0..2000 {
        delivered += take(&mut link, at(millisecond)).len();
        link.offer(at(millisecond), packet(1, 1000));
    }
    assert_eq!(link.link().queue().dropped_total(), 0);
    assert!(link.link().in_flight() >= 499, "{}", link.link().in_flight());
    // Sent at 0, 1, … ms, each 1 ms in transmission and 500 ms on the way: those sent by 1498 ms are there.
    assert_eq!(delivered, 1499);
}

#[test]
fn lateness_of_the_owner_is_no_error_of_the_rate() {
    let mut link = link(&slow());
    for id in 0..100 {
        link.offer(Instant::ZERO, packet(id, 1000));
    }
    // Nobody polls for 95 ms.
    let late = take(&mut link, at(95));
    let dues: Vec<u64> = late.iter().map(|one| one.due.as_nanos() / 1_000_000).collect();
    assert_eq!(dues, (1..=95).collect::<Vec<u64>>());
    let rest: Vec<u64> = drain(&mut link, at(200)).iter().map(|(at, _)| *at).collect();
    assert_eq!(rest, [96_000, 97_000, 98_000, 99_000, 100_000]);
    // The queue goes by the times at which packets left it, too: 0, 1, … 99 ms.
    assert_eq!(link.link().queue().sojourn.sum(), ms(99 * 100 / 2));
}

#[test]
fn an_unlimited_rate_takes_no_time_and_a_rate_of_zero_holds_packets_until_there_is_one() {
    let mut free = link(&LinkSettings { rate: Rate::MAX, delay: ms(3), ..slow() });
    for id in 0..3 {
        free.offer(at(1), packet(id, 65_000));
    }
    assert_eq!(drain(&mut free, at(4)), [(4000, 0), (4000, 1), (4000, 2)]);
    assert_eq!(free.link().busy_time(at(4)), Duration::ZERO);

    let change = (ms(5), LinkChange::Rate(Rate::MAX));
    let mut held = link(&LinkSettings { rate: Rate::ZERO, changes: vec![change], ..slow() });
    held.offer(at(1), packet(1, 1000));
    held.offer(at(2), packet(2, 1000));
    assert_eq!(drain(&mut held, at(9)), [(5000, 1), (5000, 2)]);
}

#[test]
fn new_settings_hold_for_what_has_not_started_and_leave_the_rest() {
    let changes = vec![(ms(1), LinkChange::Delay(ms(7)))];
    let before = LinkSettings { changes, ..slow() };
    let mut link = link(&before);
    for id in 0..3 {
        link.offer(Instant::ZERO, packet(id, 1000));
    }
    assert_eq!(drain(&mut link, Instant::from_nanos(1_500_000)), [(1000, 0)]);
    // Ten times the rate, from the third packet on, which also has the delay of 7 ms that the change made: the second began to
    // be sent at the instant of the change, and before it.
    let faster = LinkSettings { rate: Rate::from_mbit(80.0), ..before };
    link.reconfigure(Instant::from_nanos(1_500_000), &faster);
    assert_eq!(drain(&mut link, at(30)), [(2000, 1), (9100, 2)]);
    assert_eq!(link.link().delay(), ms(7));
    // Another discipline drops what waits.
    for id in 3..6 {
        link.offer(at(30), packet(id, 1000));
    }
    let codel = QueueSettings::CoDel(CoDelSettings::default());
    link.reconfigure(at(30), &faster.clone().queue(codel));
    assert_eq!(drain(&mut link, at(60)).len(), 1);
    assert_eq!(link.link().queue().dropped_total(), 2);
}

#[test]
fn reordering_begins_and_ends_with_new_settings() {
    let jitter =
        |reorders| Impairments { jitter: Jitter::Uniform { max: ms(5), reorders }, ..Impairments::default() };
    let fast = LinkSettings { rate: Rate::from_mbit(1000.0), ..slow() };
    let mut link = link(&fast);
    for (round, reorders) in [false, true, false].into_iter().enumerate() {
        let start = at(1000 * round as u64);
        link.reconfigure(start, &LinkSettings { impairments: jitter(reorders), ..fast.clone() });
        let mut ids = Vec::new();
        for id in 0..1000 {
            let now = start + Duration::from_micros(10) * id;
            ids.extend(drain(&mut link, now).iter().map(|(_, id)| *id));
            link.offer(now, packet(id, 100));
        }
        ids.extend(drain(&mut link, start + ms(500)).iter().map(|(_, id)| *id));
        assert_eq!((ids.len(), ids.is_sorted()), (1000, !reorders), "reorders: {reorders}");
    }
}

#[test]
fn a_cut_loses_what_waits_and_what_is_on_its_way() {
    let mut link = link(&LinkSettings { delay: ms(5), ..slow() });
    for id in 0..4 {
        link.offer(Instant::ZERO, packet(id, 1000));
    }
    let now = Instant::from_nanos(1_500_000);
    assert!(take(&mut link, now).is_empty());
    assert_eq!(link.cut(now), 2);
    assert_eq!(link.link().queue().dropped_total(), 2);
    assert!(take(&mut link, at(10)).is_empty());
    link.offer(at(10), packet(7, 1000));
    assert_eq!(drain(&mut link, at(30)), [(16_000, 7)]);
}

#[test]
fn changes_count_from_when_they_are_restarted() {
    let rate = |mbit| LinkChange::Rate(Rate::from_mbit(mbit));
    let changes = vec![(ms(10), rate(80.0)), (ms(20), rate(8.0))];
    let mut link = link(&LinkSettings { changes, repeat: Some(ms(20)), ..slow() });
    let mut rates = Vec::new();
    for now in [5, 15, 25, 35, 45] {
        assert!(link.poll(at(now)).is_none());
        rates.push(link.link().rate().as_mbit() as u32);
        if now == 25 {
            link.restart_changes(at(25), at(25));
        }
    }
    assert_eq!(rates, [8, 80, 8, 80, 8]);
}

/// Everything at once, as a bad link has it.
fn everything(reorders: bool) -> LinkSettings {
    let impairments = Impairments {
        loss: Loss::Bursts { to_bad: 0.05, to_good: 0.3, good: 0.01, bad: 0.6 },
        corruption: 0.05,
        duplication: 0.05,
        jitter: Jitter::Exponential { mean: ms(2), reorders },
    };
    let worse = Impairments { loss: Loss::Uniform(0.3), ..impairments };
    LinkSettings {
        impairments,
        mobile: Some(Mobile::Rlp(Rlp {
            block: 400,
            interval: Duration::from_micros(400),
            feedback: 3,
            errors: BlockErrors::Fading { to_bad: 0.05, to_good: 0.2, good: 0.05, bad: 0.8 },
        })),
        changes: vec![
            (ms(100), LinkChange::Impairments(worse)),
            (ms(150), LinkChange::Delay(ms(9))),
            (ms(200), LinkChange::Impairments(impairments)),
            (ms(230), LinkChange::Delay(ms(1))),
        ],
        repeat: Some(ms(250)),
        ..slow().queue(limit(20))
    }
}

/// Deliveries of the same packets, by an owner that polls in time or at most 30 ms late.
fn deliveries(settings: &LinkSettings, late: Option<u64>) -> (Vec<Delivery<Packet>>, String) {
    let mut link = link(settings);
    let (mut arrivals, mut late) = (Rng::new(5, "arrivals"), late.map(|seed| Rng::new(seed, "late")));
    let (mut now, mut all) = (Instant::ZERO, Vec::new());
    for id in 0..5000 {
        now += Duration::from_nanos(arrivals.below(2_500_000));
        while let Some(wake) = link.next_wakeup().filter(|wake| *wake < now) {
            let asleep = late.as_mut().map_or(0, |rng| rng.below(30_000_000));
            all.extend(take(&mut link, (wake + Duration::from_nanos(asleep)).min(now)));
        }
        all.extend(take(&mut link, now));
        link.offer(now, packet(id, 20 + arrivals.below(1480) as usize));
    }
    all.extend(take(&mut link, now + Duration::from_secs(10)));
    let stats = format!("{:?} {:?}", link.link().stats(), link.link().queue());
    (all, stats)
}

#[test]
fn a_late_owner_sees_the_same_fates_and_times_as_one_in_time() {
    for reorders in [false, true] {
        let settings = everything(reorders);
        let (in_time, stats) = deliveries(&settings, None);
        assert!(in_time.len() > 2000, "{}", in_time.len());
        assert!(in_time.iter().any(|one| one.duplicated) && in_time.iter().any(|one| one.packet.corrupted));
        assert_eq!(in_time.is_sorted_by_key(|one| one.packet.id), !reorders);
        assert!(in_time.is_sorted_by_key(|one| one.due));
        for seed in 0..5 {
            assert!(deliveries(&settings, Some(seed)) == (in_time.clone(), stats.clone()), "{seed}");
        }
    }
}

#[test]
fn every_packet_is_delivered_lost_or_dropped() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed, "operations");
        let settings = everything(rng.chance(0.5));
        let mut link = PolledLink::new(&settings, seed, Instant::ZERO);
        let (mut now, mut offered, mut delivered, mut cut) = (Instant::ZERO, 0, 0, 0);
        for id in 0..400 {
            now += Duration::from_nanos(rng.below(1_500_000));
            delivered += take(&mut link, now).len();
            match rng.below(20) {
                0 => cut += link.cut(now),
                1 => link.reconfigure(now, &LinkSettings { delay: ms(rng.below(5)), ..settings.clone() }),
                _ => {
                    offered += 1;
                    link.offer(now, packet(id, 20 + rng.below(1480) as usize));
                }
            }
        }
        delivered += take(&mut link, now + Duration::from_secs(10)).len();
        let (stats, queue) = (link.link().stats(), link.link().queue());
        assert_eq!(delivered as u64, stats.delivered);
        assert_eq!(offered, stats.delivered + stats.lost + queue.dropped_total() + cut as u64);
        assert_eq!((queue.backlog_segments, link.link().in_flight()), (0, 0));
    }
}
