use std::collections::VecDeque;

use super::*;

const RTT: Duration = Duration::from_millis(60);
/// No interval is a multiple of it: timers are late, as they are.
const STEP: Duration = Duration::from_millis(43);
const HOUR: u64 = 3600;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A NAT in front of the dialer that forgets it after a time without a packet from it.
struct Nat {
    forgets_after: Duration,
    changes_port: bool,
    port: u16,
    last: StdInstant,
}

impl Nat {
    fn knows(&self, now: StdInstant) -> bool {
        now.duration_since(self.last) <= self.forgets_after
    }
}

struct Packet {
    at: StdInstant,
    to: usize,
    /// The port that the acceptor sees, or writes to.
    port: u16,
    asks: bool,
}

/// One connection through a NAT, the dialer first. What is not answered is sent again, at intervals that double.
struct Connection {
    ends: [Keepalive; 2],
    bindings: [Bindings; 2],
    again: [Option<(StdInstant, Duration)>; 2],
    nat: Nat,
    wire: VecDeque<Packet>,
    is_cut: bool,
    start: StdInstant,
    now: StdInstant,
    /// PINGs of each end.
    pings: [u64; 2],
    /// For how long the acceptor could not reach the dialer.
    unreachable: Duration,
    dead: [Option<StdInstant>; 2],
}

fn remote(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

impl Connection {
    fn new(max: u64, forgets_after: u64, changes_port: bool) -> Self {
        let now = StdInstant::now();
        let mut bindings = [Bindings::default(), Bindings::default()];
        let way = |role, port| (0, remote(port), role);
        let dialer = Keepalive::new(now, 1, way(Role::Dialer, 4600), secs(max), &mut bindings[0]);
        let acceptor = Keepalive::new(now, 2, way(Role::Acceptor, 1000), secs(max), &mut bindings[1]);
        Connection {
            ends: [dialer, acceptor],
            bindings,
            again: [None; 2],
            nat: Nat { forgets_after: secs(forgets_after), changes_port, port: 1000, last: now },
            wire: VecDeque::new(),
            is_cut: false,
            start: now,
            now,
            pings: [0; 2],
            unreachable: Duration::ZERO,
            dead: [None; 2],
        }
    }

    fn send(&mut self, from: usize, asks: bool) {
        let now = self.now;
        self.ends[from].handle_sent(now, asks, RTT);
        if asks && self.again[from].is_none() {
            self.again[from] = Some((now + RTT * 2, RTT * 2));
        }
        let arrives = if from == 0 {
            if !self.nat.knows(now) && self.nat.changes_port {
                self.nat.port += 1;
            }
            self.nat.last = now;
            true
        } else {
            self.nat.knows(now) && self.ends[1].way.1.port() == self.nat.port
        };
        if arrives && !self.is_cut {
            let (to, port) = (1 - from, if from == 0 { self.nat.port } else { 4600 });
            self.wire.push_back(Packet { at: now + RTT / 2, to, port, asks });
        }
    }

    fn run(&mut self, seconds: u64) {
        let until = self.now + secs(seconds);
        while self.now < until {
            self.now += STEP;
            while let Some(Packet { to, port, asks, .. }) =
                self.wire.pop_front_if(|packet| packet.at <= self.now)
            {
                self.again[to] = None;
                self.ends[to].handle_heard(self.now, remote(port), RTT, &mut self.bindings[to]);
                if asks {
                    self.send(to, false);
                }
            }
            for end in 0..2 {
                match self.ends[end].poll(self.now) {
                    Some(Due::Ping) => {
                        self.pings[end] += 1;
                        self.send(end, true);
                    }
                    Some(Due::Dead) => {
                        self.dead[end].get_or_insert(self.now);
                    }
                    None => {}
                }
                if let Some((at, gap)) = self.again[end].filter(|(at, _)| *at <= self.now) {
                    self.again[end] = Some((at + gap * 2, gap * 2));
                    self.send(end, true);
                }
            }
            if !self.nat.knows(self.now) || self.ends[1].way.1.port() != self.nat.port {
                self.unreachable += STEP;
            }
        }
    }

    fn test(&self) -> Duration {
        self.ends[1].binding.borrow().test
    }

    /// PINGs of both ends, and the time that the dialer could not be reached, in so many seconds.
    fn count(&mut self, seconds: u64) -> (u64, Duration) {
        let (pings, unreachable) = (self.pings.iter().sum::<u64>(), self.unreachable);
        self.run(seconds);
        (self.pings.iter().sum::<u64>() - pings, self.unreachable.saturating_sub(unreachable))
    }
}

#[test]
fn silences_grow_to_the_bound_where_nothing_forgets() {
    for (max, rarely) in [(30, 60), (300, 6), (10, 180)] {
        let mut connection = Connection::new(max, 100_000, false);
        connection.run(HOUR);
        assert_eq!(connection.test(), secs(max));
        let (pings, _) = connection.count(HOUR / 2);
        assert!((rarely - 2..=rarely).contains(&pings), "{pings} in half an hour, at most every {max} s");
        assert_eq!((connection.pings[0], connection.dead), (0, [None; 2]), "the acceptor tests");
    }
}

#[test]
fn a_nat_that_forgets_is_not_left_alone_for_longer_than_it_remembers() {
    for changes_port in [false, true] {
        for (forgets_after, at_least) in [(20, 10), (40, 20), (125, 70), (10, 5)] {
            let mut connection = Connection::new(300, forgets_after, changes_port);
            connection.run(HOUR / 2);
            let (test, case) = (connection.test().as_secs(), (forgets_after, changes_port));
            assert!((at_least..=forgets_after).contains(&test), "{test} s, {case:?}");
            // Until the dialer makes itself known.
            let each = (2 * forgets_after).max(30) - forgets_after;
            let unreachable = connection.unreachable;
            assert!(unreachable <= secs(each + 1), "{unreachable:?}, {case:?}");
            let (_, unreachable) = connection.count(HOUR / 2);
            assert!(unreachable <= RTT * 2, "{unreachable:?}, {case:?}");
            // It is tried again, once an hour.
            let (_, unreachable) = connection.count(3 * HOUR);
            assert!(unreachable <= secs(3 * each + 1), "{unreachable:?}, {case:?}");
            assert_eq!(connection.dead, [None; 2], "{case:?}");
        }
    }
}

#[test]
fn an_end_that_is_gone_is_found_out() {
    for (idle_for, until) in [(7, [45, 68]), (HOUR, [46, 69])] {
        let mut connection = Connection::new(30, 100_000, false);
        connection.run(idle_for);
        connection.is_cut = true;
        let cut = connection.now;
        connection.run(120);
        for (end, limit) in until.into_iter().enumerate() {
            let after = connection.dead[end].expect("it is found out") - cut;
            assert!((secs(8)..=secs(limit)).contains(&after), "end {end}: {after:?}");
        }
    }
}

#[test]
fn data_that_is_not_answered_shows_it_within_eight_seconds() {
    let mut connection = Connection::new(30, 100_000, false);
    connection.run(1);
    connection.is_cut = true;
    let cut = connection.now;
    for end in 0..2 {
        connection.send(end, true);
    }
    connection.run(20);
    for dead in connection.dead {
        let after = dead.expect("it is found out") - cut;
        assert!((secs(8)..=secs(10)).contains(&after), "{after:?}");
    }
    assert_eq!(connection.pings, [1, 1], "each has asked before");
    // Within a few where there is reason to doubt it, and not at all once it answers.
    let mut connection = Connection::new(30, 100_000, false);
    connection.is_cut = true;
    connection.ends[0].expect_proof(connection.now, RTT);
    connection.run(5);
    let after = connection.dead[0].expect("it is found out") - connection.start;
    assert!((PROOF..=PROOF + STEP).contains(&after), "{after:?}");
    let mut connection = Connection::new(30, 100_000, false);
    connection.ends[0].expect_proof(connection.now, RTT);
    connection.send(0, true);
    connection.run(60);
    assert_eq!(connection.dead, [None; 2]);
}

#[test]
fn connections_on_one_way_know_the_same_and_speak_together() {
    let start = StdInstant::now();
    let mut bindings = Bindings::default();
    let way = (0, remote(1000), Role::Acceptor);
    let mut lanes = [1, 2].map(|link| Keepalive::new(start, link, way, secs(300), &mut bindings));
    let other = Keepalive::new(start, 3, (0, remote(1001), Role::Acceptor), secs(300), &mut bindings);
    assert_eq!((lanes[0].beside(), other.beside()), (vec![1, 2], vec![3]));
    // The second has traffic: the silence of the first says nothing of the way.
    for second in 1..=15 {
        let now = start + secs(second);
        lanes[1].handle_sent(now, true, RTT);
        lanes[1].handle_heard(now + RTT, way.1, RTT, &mut bindings);
    }
    let now = start + secs(15);
    assert_eq!((lanes[0].poll(now), lanes[1].is_nearly_due(now + RTT)), (Some(Due::Ping), false));
    lanes[0].handle_sent(now, true, RTT);
    lanes[0].handle_heard(now + RTT, way.1, RTT, &mut bindings);
    assert_eq!(lanes[0].binding.borrow().test, START);
    assert!(lanes[1].is_nearly_due(now + secs(8)), "it joins in when the first speaks");
    lanes[0].retain(|link| link == 2);
    assert_eq!(lanes[1].beside(), [2]);
}

#[test]
fn another_address_is_another_way_and_so_is_a_changed_network() {
    let mut connection = Connection::new(300, 100_000, false);
    connection.run(HOUR);
    assert_eq!(connection.test(), secs(300));
    let [_, acceptor] = &mut connection.ends;
    acceptor.handle_heard(connection.now, ([198, 51, 100, 7], 1000).into(), RTT, &mut connection.bindings[1]);
    assert_eq!(acceptor.interval(), START);
    let [dialer, _] = &mut connection.ends;
    assert!(dialer.interval() > START * 2);
    dialer.handle_network_changed(connection.now);
    assert_eq!((dialer.interval(), dialer.beside()), (START * 2, vec![1]));
}

/// Both wait as long, though the first has just spoken when the second does.
#[test]
fn all_lanes_of_a_way_wait_for_a_dialer_that_a_nat_has_forgotten() {
    let (start, mut bindings) = (StdInstant::now(), Bindings::default());
    let way = (0, remote(1), Role::Acceptor);
    let mut lanes = [1, 2].map(|link| Keepalive::new(start, link, way, secs(120), &mut bindings));
    let asked = start + secs(15);
    for lane in &mut lanes {
        assert_eq!(lane.poll(asked), Some(Due::Ping));
        lane.handle_sent(asked, true, RTT);
    }
    for lane in &lanes {
        assert!(lane.dead_at >= Some(asked + secs(8 + 15)), "{lane:?}");
    }
    assert_eq!(lanes[0].beside(), [1, 2]);
}

#[test]
fn a_lane_that_is_about_to_be_given_up_is_not_given_more_time() {
    let (start, mut bindings) = (StdInstant::now(), Bindings::default());
    let mut lane = Keepalive::new(start, 1, (0, remote(1), Role::Dialer), secs(30), &mut bindings);
    lane.handle_sent(start, true, RTT);
    lane.expect_proof(start + secs(7), RTT);
    assert_eq!(lane.next(), start + secs(8));
}
