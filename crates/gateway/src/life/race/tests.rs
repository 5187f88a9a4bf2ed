use trunkline_units::Rng;

use super::*;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1000) + Duration::from_millis(ms)
}

fn tcp(last: u8) -> DialCandidate {
    let remote = SocketAddr::from(([192, 0, 2, last], 4600));
    DialCandidate { remote, transport: Transport::Tcp, max_segment: None }
}

fn quic(last: u8) -> DialCandidate {
    DialCandidate { transport: Transport::Quic, ..tcp(last) }
}

fn short(last: u8, max_segment: u16) -> DialCandidate {
    DialCandidate { max_segment: Some(max_segment), ..tcp(last) }
}

/// One race, in which nothing happens but what the test says.
struct Track(Races);

impl Track {
    fn new(candidates: &[DialCandidate]) -> Self {
        let mut races = Races::default();
        races.begin(at(0), candidates.iter().copied(), Shortens::Yes);
        Track(races)
    }

    /// The candidate that begins now.
    fn begins(&mut self, ms: u64, expected: DialCandidate) -> CandidateId {
        match self.0.poll(at(ms)) {
            Some(RaceAction::Begin(id, candidate)) if candidate == expected => id,
            other => panic!("{other:?} at {ms} ms, not {expected:?}"),
        }
    }

    fn rests(&mut self, ms: u64) {
        assert_eq!(self.0.poll(at(ms)), None, "at {ms} ms");
    }

    fn looks(&mut self, ms: u64, id: CandidateId) {
        self.rests(ms - 1);
        assert_eq!(self.0.poll(at(ms)), Some(RaceAction::Look(id)), "at {ms} ms");
    }
}

#[test]
fn the_next_begins_after_250_ms_or_when_one_fails() {
    let mut track = Track::new(&[tcp(1), tcp(2), tcp(3), tcp(4)]);
    let first = track.begins(0, tcp(1));
    track.rests(249);
    let second = track.begins(250, tcp(2));
    track.rests(300);
    assert!(!track.0.handle_failed(at(300), second));
    let third = track.begins(300, tcp(3));
    track.rests(549);
    let fourth = track.begins(550, tcp(4));
    track.rests(60_000);
    assert_eq!(track.0.poll_timeout(), None);
    assert!(!track.0.handle_failed(at(2000), first));
    assert!(!track.0.handle_failed(at(2300), third));
    assert!(track.0.handle_failed(at(2550), fourth), "the last");
    assert!(!track.0.handle_failed(at(2550), fourth), "once");
}

#[test]
fn a_dead_address_costs_the_delay_and_the_winner_ends_the_race() {
    let mut track = Track::new(&[tcp(1), tcp(2), tcp(3)]);
    track.begins(0, tcp(1));
    let second = track.begins(250, tcp(2));
    track.0.handle_connected(at(251), second);
    track.rests(600);
    let won = track.0.handle_up(second).expect("it wins");
    assert_eq!(won, Won { candidate: tcp(2), beside: None, has_quic_failed: false });
    assert_eq!((track.0.poll(at(9000)), track.0.poll_timeout()), (None, None));
}

#[test]
fn who_connects_and_does_not_finish_holds_the_others_up_for_a_second() {
    let mut track = Track::new(&[tcp(1), tcp(2)]);
    let first = track.begins(0, tcp(1));
    track.0.handle_connected(at(10), first);
    track.looks(1050, first);
    assert!(!track.0.handle_look(at(1050), first, false), "all is acknowledged");
    track.begins(1050, tcp(2));
    assert!(!track.0.handle_failed(at(1060), first));
    track.rests(2000);
}

#[test]
fn one_that_connects_while_another_goes_on_is_second() {
    let mut track = Track::new(&[tcp(1), tcp(2), quic(3)]);
    let first = track.begins(0, tcp(1));
    let second = track.begins(250, tcp(2));
    track.begins(500, quic(3));
    track.0.handle_connected(at(600), second);
    track.0.handle_connected(at(700), first);
    assert!(track.0.is_second(first) && !track.0.is_second(second));
    track.0.handle_failed(at(800), second);
    assert!(!track.0.is_second(first), "nothing is before it any more");
}

#[test]
fn what_is_not_acknowledged_goes_in_shorter_segments_after_a_second() {
    let mut track = Track::new(&[tcp(1)]);
    let first = track.begins(0, tcp(1));
    track.0.handle_connected(at(100), first);
    track.looks(1500, first);
    assert!(track.0.handle_look(at(1500), first, true));
    assert!(!track.0.handle_failed(at(1500), first));
    let second = track.begins(1500, short(1, 1220));
    track.0.handle_connected(at(1600), second);
    track.looks(3000, second);
    assert!(track.0.handle_look(at(3000), second, true));
    assert!(!track.0.handle_failed(at(3000), second));
    let third = track.begins(3000, short(1, 536));
    track.0.handle_connected(at(3100), third);
    track.looks(4500, third);
    assert!(!track.0.handle_look(at(4500), third, true), "there is nothing shorter: it goes on");
    assert_eq!(track.0.poll_timeout(), None);
    assert_eq!(track.0.handle_up(third).map(|won| won.candidate), Some(short(1, 536)));
}

#[test]
fn an_acceptor_that_gets_all_and_does_not_answer_has_two_and_a_half_seconds() {
    let mut track = Track::new(&[tcp(1)]);
    let first = track.begins(0, tcp(1));
    track.0.handle_connected(at(0), first);
    track.looks(1000, first);
    assert!(!track.0.handle_look(at(1000), first, false));
    track.looks(2500, first);
    assert!(track.0.handle_look(at(2500), first, false));
    track.0.handle_failed(at(2500), first);
    track.begins(2500, short(1, 1220));
}

#[test]
fn a_race_for_long_segments_alone_is_not_shortened() {
    let mut races = Races::default();
    races.begin(at(0), [tcp(1)], Shortens::No);
    let Some(RaceAction::Begin(id, _)) = races.poll(at(0)) else { panic!("it begins") };
    races.handle_connected(at(0), id);
    assert_eq!(races.poll(at(1000)), Some(RaceAction::Look(id)));
    assert!(!races.handle_look(at(1000), id, true));
    assert!(races.handle_failed(at(8000), id));
}

#[test]
fn quic_goes_on_beside_tcp_to_the_same_address_and_its_failure_is_told() {
    let mut track = Track::new(&[quic(1), tcp(1), quic(2), tcp(2)]);
    let first = track.begins(0, quic(1));
    let second = track.begins(250, tcp(1));
    let won = track.0.handle_up(second).expect("it wins");
    assert_eq!(won, Won { candidate: tcp(1), beside: Some(first), has_quic_failed: false });
    track.rests(5000);
    assert_eq!(track.0.handle_up(first).map(|won| won.candidate), Some(quic(1)), "and takes over");

    let mut track = Track::new(&[quic(1), tcp(1), quic(2), tcp(2)]);
    let first = track.begins(0, quic(1));
    assert!(!track.0.handle_failed(at(20), first));
    let second = track.begins(20, tcp(1));
    assert_eq!(track.0.handle_up(second).map(|won| won.has_quic_failed), Some(true));

    // One that failed at another address says nothing of UDP.
    let mut track = Track::new(&[quic(1), tcp(1), quic(2), tcp(2)]);
    let first = track.begins(0, quic(1));
    track.0.handle_failed(at(0), first);
    track.begins(0, tcp(1));
    let third = track.begins(250, quic(2));
    let fourth = track.begins(500, tcp(2));
    let won = track.0.handle_up(fourth).expect("it wins");
    assert_eq!((won.beside, won.has_quic_failed), (Some(third), false));
}

/// Whatever happens, each race ends, each candidate begins once, and there is a wake for what is due.
#[test]
fn every_race_ends_and_nothing_spins() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed, "race");
        let mut draw = |below: u64| (rng.uniform() * below as f64) as u64;
        let mut races = Races::default();
        let all = [quic(1), tcp(1), quic(2), tcp(2), tcp(3)];
        let count = 1 + draw(5) as usize;
        races.begin(at(0), all[..count].iter().copied(), Shortens::Yes);
        let (mut live, mut begun, mut ended): (Vec<CandidateId>, _, _) = (Vec::new(), 0, false);
        for ms in (0..60_000).step_by(50) {
            let now = at(ms);
            let mut turns = 0;
            while let Some(action) = races.poll(now) {
                turns += 1;
                assert!(turns < 20, "seed {seed}: it spins");
                match action {
                    RaceAction::Begin(id, _) => {
                        begun += 1;
                        live.push(id);
                    }
                    RaceAction::Look(id) => {
                        if races.handle_look(now, id, draw(2) == 0) {
                            live.retain(|other| *other != id);
                            ended |= races.handle_failed(now, id);
                        }
                    }
                }
            }
            assert!(races.poll_timeout().is_none_or(|at| at > now), "seed {seed}");
            if draw(10) > 0 || live.is_empty() {
                continue;
            }
            let id = live[draw(live.len() as u64) as usize];
            match draw(3) {
                0 => races.handle_connected(now, id),
                1 => {
                    live.retain(|other| *other != id);
                    ended |= races.handle_failed(now, id);
                }
                _ => {
                    let beside = races.handle_up(id).and_then(|won| won.beside);
                    live = beside.into_iter().collect();
                    ended |= live.is_empty();
                }
            }
        }
        for id in live {
            ended |= races.handle_failed(at(60_000), id);
        }
        assert!(ended, "seed {seed}");
        assert!(begun <= count + 2 * 3, "seed {seed}: {begun} of {count} begun");
        assert!(races.by_id.is_empty() && races.due.is_empty(), "seed {seed}");
    }
}
