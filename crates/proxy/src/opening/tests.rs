use trunkline_units::Rng;

use super::*;

const LIMITS: Limits = Limits { connections: 3, opening: 2 };
const NOW: Instant = Instant::ZERO;
const CONNECT: SynAction = SynAction::Connect { instead_of: None };

fn from(host: u16, port: u16, isn: u32) -> Syn {
    let [high, low] = host.to_be_bytes();
    let connection =
        Connection { client: ([10, 0, high, low], port).into(), server: ([10, 1, 0, 2], 80).into() };
    Syn { connection, isn, len: 1, hops: 64, traffic_class: 0 }
}

fn syn(port: u16, isn: u32) -> Syn {
    from(1, port, isn)
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A SYN where the proxy's own has the number 99.
fn judge(openings: &mut Openings, now: Instant, syn: &Syn) -> SynAction {
    openings.handle_syn(now, syn, || Some(99))
}

#[test]
fn a_retransmission_waits_until_the_server_has_accepted_and_then_goes_to_the_kernel() {
    let mut openings = Openings::new(LIMITS);
    let one = syn(1, 7);
    assert_eq!(judge(&mut openings, NOW, &one), CONNECT);
    assert_eq!(judge(&mut openings, NOW, &one), SynAction::Wait);
    assert!(!openings.handle_accepted(one.connection), "nobody accepted it");
    assert!(openings.handle_connected(NOW, one.connection));
    assert!(!openings.handle_connected(NOW, one.connection), "twice");
    assert_eq!(judge(&mut openings, NOW, &one), SynAction::Deliver);
    assert!(openings.handle_accepted(one.connection));
    assert_eq!((openings.len(), openings.opening(), openings.next_timeout()), (1, 0, None));
    assert_eq!(judge(&mut openings, NOW, &one), SynAction::Deliver, "the kernel answers it again");
    assert_eq!(judge(&mut openings, NOW, &syn(1, 8)), SynAction::Wait, "the old one may be over");
    assert_eq!(judge(&mut openings, NOW, &syn(1, 8)), SynAction::Deliver, "the kernel finds it out");
    assert_eq!(judge(&mut openings, NOW, &syn(1, 9)), SynAction::Wait);
    openings.remove(one.connection);
    assert_eq!(judge(&mut openings, NOW, &syn(1, 8)), CONNECT);
}

#[test]
fn the_proxys_own_syn_that_comes_back_ends_the_opening() {
    let mut openings = Openings::new(LIMITS);
    assert_eq!(judge(&mut openings, NOW, &syn(1, 7)), CONNECT);
    assert_eq!(judge(&mut openings, NOW, &syn(1, 99)), SynAction::Loop);
    assert!(openings.is_empty());
    assert!(!openings.handle_connected(NOW, syn(1, 7).connection));
}

#[test]
fn a_forged_syn_with_another_number_changes_nothing_in_any_stage() {
    let mut openings = Openings::new(LIMITS);
    let one = syn(1, 7);
    judge(&mut openings, NOW, &one);
    for isn in (0..1000).filter(|isn| ![7, 99].contains(isn)) {
        assert_eq!(judge(&mut openings, NOW, &syn(1, isn)), SynAction::Wait);
    }
    assert_eq!(openings.next_timeout(), Some(at(10_000)), "nor for how long the client asks");
    assert!(openings.handle_connected(NOW, one.connection));
    assert_eq!(judge(&mut openings, NOW, &syn(1, 8)), SynAction::Wait, "the kernel has the other");
    assert_eq!(judge(&mut openings, NOW, &syn(1, 99)), SynAction::Wait);
    assert!(openings.handle_accepted(one.connection));
}

#[test]
fn the_own_number_is_asked_for_only_where_another_syn_opens_the_connection() {
    let mut openings = Openings::new(LIMITS);
    let never = || -> Option<u32> { panic!("asked") };
    let one = syn(1, 7);
    openings.handle_syn(NOW, &one, never);
    openings.handle_syn(NOW, &one, never);
    assert_eq!(openings.handle_syn(NOW, &syn(1, 8), || None), SynAction::Wait, "it is not known");
    openings.handle_connected(NOW, one.connection);
    openings.handle_syn(NOW, &syn(1, 8), never);
}

#[test]
fn if_all_places_are_taken_the_source_with_most_loses_its_oldest() {
    let mut openings = Openings::new(Limits { connections: 100, opening: 10 });
    assert_eq!(judge(&mut openings, NOW, &from(1, 1, 7)), CONNECT);
    for port in 0..9 {
        assert_eq!(judge(&mut openings, NOW, &from(2, port, 7)), CONNECT);
    }
    let oldest = Some(from(2, 0, 7).connection);
    assert_eq!(judge(&mut openings, NOW, &from(3, 1, 7)), SynAction::Connect { instead_of: oldest });
    // It goes on, at its own cost alone, whether its servers have answered or not.
    assert!(openings.handle_connected(NOW, from(2, 1, 7).connection));
    for port in 9..1000 {
        let SynAction::Connect { instead_of: Some(displaced) } = judge(&mut openings, NOW, &from(2, port, 7))
        else {
            panic!("it is full");
        };
        assert_eq!(displaced.client.ip(), from(2, 1, 7).connection.client.ip());
    }
    assert!(!openings.handle_accepted(from(2, 1, 7).connection), "it was displaced");
    for host in [1, 3] {
        assert!(openings.handle_connected(NOW, from(host, 1, 7).connection), "{host}");
        assert!(openings.handle_accepted(from(host, 1, 7).connection), "{host}");
    }
    assert_eq!((openings.opening(), openings.len()), (8, 10));
}

#[test]
fn beyond_the_limit_of_connections_only_openings_of_a_larger_source_give_way() {
    let mut openings = Openings::new(LIMITS);
    let full = |openings: &mut Openings, host| judge(openings, NOW, &from(host, 1, 7));
    for host in [1, 2] {
        judge(&mut openings, NOW, &from(host, 1, 7));
        openings.handle_connected(NOW, from(host, 1, 7).connection);
        openings.handle_accepted(from(host, 1, 7).connection);
    }
    judge(&mut openings, NOW, &from(3, 1, 7));
    assert_eq!(full(&mut openings, 4), SynAction::Full, "one each");
    openings.remove(from(1, 1, 7).connection);
    judge(&mut openings, NOW, &from(3, 2, 7));
    let oldest = Some(from(3, 1, 7).connection);
    assert_eq!(full(&mut openings, 4), SynAction::Connect { instead_of: oldest });
    assert_eq!(judge(&mut openings, NOW, &from(3, 3, 7)), SynAction::Full);
    assert_eq!(openings.len(), 3);
}

#[test]
fn an_opening_lasts_as_long_as_its_client_asks() {
    let mut openings = Openings::new(LIMITS);
    judge(&mut openings, NOW, &syn(1, 7));
    judge(&mut openings, NOW, &syn(2, 7));
    // As Linux asks; one of its SYNs is lost.
    for second in [1, 3, 15, 31, 63, 127] {
        let now = at(second * 1000);
        if second > 10 {
            assert_eq!(
                openings.poll_timeout(now),
                (second == 15).then_some((syn(2, 7).connection, Late::Server))
            );
        }
        assert_eq!(openings.poll_timeout(now), None);
        assert_eq!(judge(&mut openings, now, &syn(1, 7)), SynAction::Wait, "{second}");
    }
    assert_eq!(openings.next_timeout(), Some(at(180_000)));
    assert_eq!(openings.poll_timeout(at(180_000)), Some((syn(1, 7).connection, Late::Server)));
    assert_eq!((openings.len(), openings.opening(), openings.next_timeout()), (0, 0, None));
}

/// What 40 forged SYNs a second to servers that do not answer hold.
#[test]
fn a_syn_that_is_not_retransmitted_is_soon_forgotten() {
    let mut openings = Openings::new(Limits { connections: 16_384, opening: 4096 });
    for number in 0..40 * 60 {
        let now = at(25 * number);
        while openings.poll_timeout(now).is_some() {}
        assert_eq!(judge(&mut openings, now, &from(number as u16, 1, 7)), CONNECT);
        assert!(openings.opening() <= 400, "{}", openings.opening());
    }
}

#[test]
fn a_server_waits_for_a_client_for_eight_seconds_and_for_two_while_many_wait() {
    let mut openings = Openings::new(Limits { connections: 100, opening: 16 });
    let connect = |openings: &mut Openings, host: u16, now| {
        judge(openings, now, &from(host, 1, 7));
        assert!(openings.handle_connected(now, from(host, 1, 7).connection));
    };
    connect(&mut openings, 1, NOW);
    connect(&mut openings, 2, at(500));
    assert_eq!(openings.next_timeout(), Some(at(8000)));
    assert_eq!(openings.poll_timeout(at(7999)), None);
    connect(&mut openings, 3, at(1000));
    assert_eq!(openings.next_timeout(), Some(at(2000)));
    assert_eq!(openings.poll_timeout(at(2000)), Some((from(1, 1, 7).connection, Late::Client)));
    assert_eq!(openings.poll_timeout(at(8499)), None, "two are not many");
    assert_eq!(openings.poll_timeout(at(8500)), Some((from(2, 1, 7).connection, Late::Client)));
}

/// Forged SYNs to a server that accepts, beside clients that confirm after a round trip.
#[test]
fn a_flood_of_forged_syns_keeps_few_connections_at_servers_and_no_client_out() {
    for per_second in [100_u64, 1000, 2000] {
        let mut openings = Openings::new(Limits { connections: 16_384, opening: 4096 });
        let (mut opened, round_trip) = (0, 600);
        let tenth = per_second / 10;
        let mut most = 0;
        for number in 0..20 * per_second {
            let now = at(number * 1000 / per_second);
            while openings.poll_timeout(now).is_some() {}
            let forged = from(1000 + (number % 60_000) as u16, (number / 60_000) as u16, 7);
            judge(&mut openings, now, &forged);
            openings.handle_connected(now, forged.connection);
            // A client each tenth of a second.
            if number % tenth == 0 {
                let client = from(1, (number / tenth) as u16, 7);
                judge(&mut openings, now, &client);
                openings.handle_connected(now, client.connection);
            }
            let before = now.saturating_since(at(round_trip)).as_millis() as u64 / 100;
            if number % tenth == tenth - 1 && now >= at(round_trip) {
                opened += usize::from(openings.handle_accepted(from(1, before as u16, 7).connection));
                openings.remove(from(1, before as u16, 7).connection);
            }
            most = most.max(openings.opening() as u64);
        }
        assert!(opened >= 190, "{opened} of 194 clients at {per_second} SYNs a second");
        assert!(most <= (2 * per_second).max(8 * 100) + 520, "{most} at {per_second} SYNs a second");
    }
}

/// Whatever comes in whatever order: the bounds hold, and what is being opened has a deadline.
#[test]
fn bounds_hold_under_any_operations() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed, "openings");
        let limits = Limits { connections: 1 + rng.below(8) as usize, opening: 1 + rng.below(8) as usize };
        let mut openings = Openings::new(limits);
        let mut now = NOW;
        for _ in 0..500 {
            now += Duration::from_secs(rng.below(5));
            let syn = from(rng.below(4) as u16, rng.below(4) as u16, rng.below(2) as u32);
            match rng.below(5) {
                0 | 1 => {
                    openings.handle_syn(now, &syn, || Some(1));
                }
                2 => {
                    openings.handle_connected(now, syn.connection);
                }
                3 => {
                    openings.handle_accepted(syn.connection);
                }
                _ => openings.remove(syn.connection),
            }
            while openings.poll_timeout(now).is_some() {}
            assert!(openings.len() <= limits.connections && openings.opening() <= limits.opening);
            assert_eq!(openings.opening(), openings.asking.len() + openings.confirming.len());
            assert!(openings.opening() <= openings.len());
            assert!(openings.next_timeout().is_none_or(|at| at > now));
        }
    }
}
