//! Two workers' connections over the loopback interface, stepped in turn.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::time::Instant as Wall;

use trunkline_congestion::CongestionAlgorithm;
use trunkline_schema::Encryption;
use trunkline_trunk::datagram::{HEAD_BYTES, Packer};

use super::*;
use crate::clock::now;
use crate::handshake::{Admit, HandshakeError, Identity, RefusalReason, VERSION};
use crate::keys::SecretKey;
use crate::known::KnownAddresses;
use crate::sys::udp::{self, Outgoing};

const LIMIT: Duration = Duration::from_secs(10);

struct End {
    quic: Quic,
    port: usize,
    address: SocketAddr,
    /// Datagrams of lanes: serial and bytes.
    got: VecDeque<(u64, Vec<u8>)>,
    changes: VecDeque<Change>,
}

impl End {
    fn new() -> Self {
        let mut quic = Quic::new(0, 1);
        let fd = udp::open("127.0.0.1:0".parse().expect("an address"), None, false).expect("a socket");
        let address = rustix::net::getsockname(&fd).expect("its address").try_into().expect("an IP address");
        let port = quic.add_port(fd);
        End { quic, port, address, got: VecDeque::new(), changes: VecDeque::new() }
    }

    fn step(&mut self) {
        let mut changes = Vec::new();
        self.quic.receive(now(), self.port, &mut changes);
        let got = &mut self.got;
        self.quic.advance(now(), &mut changes, |serial, _, datagram| {
            got.extend(datagram.map(|datagram| (serial, datagram.to_vec())));
            Ok(())
        });
        self.changes.extend(changes.into_iter().filter(|change| !matches!(change, Change::Writable { .. })));
    }

    fn event(&mut self) -> Option<Event> {
        match self.changes.pop_front()? {
            Change::Event(event) => Some(event),
            other => panic!("{other:?}"),
        }
    }
}

fn secret(seed: u8) -> SecretKey {
    SecretKey::from_seed(zeroize::Zeroizing::new([seed; 32])).expect("a seed")
}

fn identity(seed: u8) -> Identity {
    Identity::new(&secret(seed)).expect("an identity")
}

fn hello() -> Hello {
    Hello {
        version: VERSION,
        encryption: Encryption::Tls,
        lane: 0,
        instance: 7,
        lane_group: "rest".to_owned(),
    }
}

fn options() -> Options {
    Options { dscp: 46, control: Control::Window(CongestionAlgorithm::Reno) }
}

/// Site 1 dials site 2, which admits the keys that `admits` says.
struct Pair {
    ends: [End; 2],
}

impl Pair {
    fn new(admits: u8) -> Self {
        let mut ends = [End::new(), End::new()];
        let admitted = secret(admits).public();
        let admit: Admit = Arc::new(move |key| *key == admitted);
        ends[1].quic.set_acceptor(
            Acceptor::new(&identity(2), admit).expect("an acceptor"),
            KnownAddresses::default(),
        );
        Pair { ends }
    }

    fn dial(&mut self, expected: u8) {
        let dialer = Dialer::new(&identity(1), secret(expected).public()).expect("a dialer");
        let remote = self.ends[1].address;
        let dial = Dial { serial: 1, remote, dialer, hello: hello(), timeout: LIMIT, options: options() };
        let port = self.ends[0].port;
        self.ends[0].quic.dial(now(), dial, port).expect("it begins");
    }

    /// Steps both ends until `done` gives something.
    fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut [End; 2]) -> Option<T>) -> T {
        let start = Wall::now();
        loop {
            self.ends.iter_mut().for_each(End::step);
            if let Some(found) = done(&mut self.ends) {
                return found;
            }
            assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Both ends of a lane.
    fn lane() -> (Self, [QuicTx; 2]) {
        let mut pair = Pair::new(1);
        pair.dial(2);
        let asked = pair.until("a request", |ends| ends[1].event());
        let Event::Asked { number, peer, hello, .. } = asked else { panic!("{asked:?}") };
        assert_eq!((peer, &hello), (secret(1).public(), &super::tests::hello()));
        let welcome = Hello { instance: 8, ..hello };
        let answer = Answer::Welcome { serial: 5, hello: welcome, options: options() };
        let far = pair.ends[1].quic.answer(now(), number, answer).expect("it is there");
        let welcomed = pair.until("a welcome", |ends| ends[0].event());
        let Event::Welcomed { serial: 1, hello } = welcomed else { panic!("{welcomed:?}") };
        assert_eq!(hello.instance, 8);
        let near = pair.ends[0].quic.install(1).expect("it is there");
        (pair, [near, far])
    }
}

#[test]
fn a_dial_becomes_a_lane_whose_datagrams_arrive_both_ways() {
    let (mut pair, lanes) = Pair::lane();
    for (from, lane) in lanes.iter().enumerate() {
        let mut packer = Packer::new(1160);
        packer.put(&[&[from as u8; 3000]]);
        let mut pieces = Vec::new();
        let bytes = packer.take(&mut pieces);
        let expected: Vec<Vec<u8>> = pieces.iter().map(|it| bytes[it.start..it.end].to_vec()).collect();
        {
            let mut link = lane.link.borrow_mut();
            link.hand_over(bytes, &pieces);
            link.touch(&lane.shared);
        }
        let to = 1 - from;
        pair.until("all datagrams", |ends| (ends[to].got.len() == expected.len()).then_some(()));
        let got: Vec<_> = pair.ends[to].got.drain(..).collect();
        let serial = [1, 5][to];
        assert_eq!(got, expected.into_iter().map(|it| (serial, it)).collect::<Vec<_>>());
    }
}

#[test]
fn a_lane_that_is_closed_ends_cleanly_at_the_other_end() {
    let (mut pair, lanes) = Pair::lane();
    pair.ends[0].quic.close(now(), lanes[0].serial, true);
    let ended = pair.until("the end", |ends| ends[1].changes.pop_front());
    assert!(matches!(&ended, Change::Ended { serial: 5, clean: true, .. }), "{ended:?}");
    drop(lanes);
    pair.until("nothing is left", |ends| ends.iter().all(|end| end.quic.links.is_empty()).then_some(()));
    assert!(pair.ends.iter().all(|end| end.quic.timers.is_empty() && end.quic.numbers.is_empty()));
}

#[test]
fn a_refusal_reaches_the_dialer_with_its_reason() {
    let mut pair = Pair::new(1);
    pair.dial(2);
    let asked = pair.until("a request", |ends| ends[1].event());
    let Event::Asked { number, .. } = asked else { panic!("{asked:?}") };
    let refusal = Refusal { reason: RefusalReason::UnknownLaneGroup, text: "none such".to_owned() };
    assert!(pair.ends[1].quic.answer(now(), number, Answer::Refuse(refusal)).is_none());
    let failed = pair.until("the refusal", |ends| ends[0].event());
    let Event::DialFailed { serial: 1, failure: Failure::Lane, reason } = &failed else {
        panic!("{failed:?}")
    };
    assert!(reason.contains("unknown lane group (none such)"), "{reason}");
    pair.until("nothing is left", |ends| ends.iter().all(|end| end.quic.links.is_empty()).then_some(()));
    assert_eq!(pair.ends[1].quic.callers.taken(), 0);
}

#[test]
fn a_stranger_fails_with_its_key_and_a_wrong_host_is_found_out() {
    let mut pair = Pair::new(9);
    pair.dial(2);
    let failed = pair.until("the caller's failure", |ends| ends[1].event());
    assert!(
        matches!(&failed, Event::CallerFailed { key: Some(key), .. } if *key == secret(1).public()),
        "{failed:?}"
    );
    let failed = pair.until("the dial's failure", |ends| ends[0].event());
    let Event::DialFailed { failure: Failure::Lane, reason, .. } = &failed else { panic!("{failed:?}") };
    assert_eq!(*reason, HandshakeError::NotAdmitted.to_string());
    let mut pair = Pair::new(1);
    pair.dial(3);
    let failed = pair.until("the dial's failure", |ends| ends[0].event());
    assert!(matches!(failed, Event::DialFailed { .. }), "{failed:?}");
    assert!(pair.ends[1].event().is_none_or(|event| !matches!(event, Event::Asked { .. })));
}

#[test]
fn a_dial_that_nobody_answers_fails_at_its_time() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut pair = Pair::new(1);
    let dialer = Dialer::new(&identity(1), secret(2).public()).expect("a dialer");
    let remote = silent.local_addr().expect("its address");
    let timeout = Duration::from_millis(200);
    let dial = Dial { serial: 1, remote, dialer, hello: hello(), timeout, options: options() };
    let start = Wall::now();
    pair.ends[0].quic.dial(now(), dial, 0).expect("it begins");
    let failed = pair.until("the failure", |ends| ends[0].event());
    assert!(matches!(failed, Event::DialFailed { failure: Failure::Path, .. }), "{failed:?}");
    assert!(start.elapsed() >= timeout && start.elapsed() < timeout * 10);
}

/// Whatever a host sends whose address is not proved, it gets no more than three times as much (RFC 9000 §8.1), and nothing
/// is kept of it.
#[test]
fn an_address_that_is_not_proved_gets_little_and_leaves_nothing() {
    let mut pair = Pair::new(1);
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    stranger.set_nonblocking(true).expect("a socket option");
    // First packets, as a dialer makes them: it never hears the answers.
    let mut firsts = Vec::new();
    for _ in 0..100 {
        let mut dialer = End::new();
        let to = stranger.local_addr().expect("its address");
        let of = Dialer::new(&identity(1), secret(2).public()).expect("a dialer");
        let dial =
            Dial { serial: 1, remote: to, dialer: of, hello: hello(), timeout: LIMIT, options: options() };
        dialer.quic.dial(now(), dial, dialer.port).expect("it begins");
        dialer.step();
        let mut buffer = [0; 2000];
        let start = Wall::now();
        let len = loop {
            match stranger.recv(&mut buffer) {
                Ok(len) => break len,
                Err(_) => assert!(start.elapsed() < LIMIT, "no first packet"),
            }
        };
        firsts.push(buffer[..len].to_vec());
    }
    let (mut sent, mut received) = (0, 0);
    let mut count = |stranger: &UdpSocket| {
        while let Ok(len) = stranger.recv(&mut [0; 2000]) {
            received += len;
        }
    };
    let mut rng = trunkline_units::Rng::new(1, "stranger");
    for round in 0..2000 {
        let mut packet = firsts[round % firsts.len()].clone();
        if round % 3 == 1 {
            packet.truncate(rng.below(1200) as usize);
        }
        if round % 3 == 2 {
            let at = rng.below(packet.len() as u64) as usize;
            packet[at] = rng.below(256) as u8;
        }
        stranger.send_to(&packet, pair.ends[1].address).expect("sent");
        sent += packet.len();
        pair.ends[1].step();
        count(&stranger);
    }
    assert!(received > 0, "it is asked to prove its address");
    assert!(received <= 3 * sent, "{received} for {sent}");
    assert!(pair.ends[1].quic.links.is_empty() && pair.ends[1].quic.callers.taken() == 0);
    assert_eq!(pair.ends[1].quic.endpoint.open_connections(), 0);
    // Whoever can prove its address is served.
    pair.dial(2);
    pair.until("a request", |ends| ends[1].event());
}

/// Datagrams that somebody else sends from the peer's port are no part of the lane.
#[test]
fn forged_and_replayed_datagrams_change_nothing() {
    let (mut pair, lanes) = Pair::lane();
    let mut rng = trunkline_units::Rng::new(2, "forger");
    let to = pair.ends[1].address;
    for round in 0..500 {
        let mut forged: Vec<u8> = (0..20 + rng.below(1300)).map(|_| rng.below(256) as u8).collect();
        forged[0] = if round % 2 == 0 { 0x40 } else { 0xc0 } | forged[0] & 0x3f;
        let headers = Outgoing { to, from: None, traffic_class: 0, segment: None };
        pair.ends[0].quic.with_port(0, |fd| udp::send(fd, &headers, &forged)).expect("a port").expect("sent");
        pair.ends[1].step();
    }
    assert!(pair.ends[1].changes.is_empty() && pair.ends[1].got.is_empty());
    let mut packer = Packer::new(1160);
    packer.put(&[&[3; 100]]);
    let mut pieces = Vec::new();
    let bytes = packer.take(&mut pieces);
    lanes[0].link.borrow_mut().hand_over(bytes, &pieces);
    lanes[0].link.borrow_mut().touch(&lanes[0].shared);
    pair.until("the lane goes on", |ends| ends[1].got.pop_front());
}

/// The dialer's packets come from another port from now on, as when a NAT forgets it or the machine moves. The other end has
/// something to say, the dialer has not: it shows where it is when it is told.
#[test]
fn a_lane_goes_on_when_its_dialers_address_changes() {
    let (mut pair, lanes) = Pair::lane();
    let moved = End::new();
    std::mem::swap(
        &mut *pair.ends[0].quic.shared.ports.borrow_mut(),
        &mut *moved.quic.shared.ports.borrow_mut(),
    );
    // Nobody listens at the old address any more.
    drop(moved);
    pair.ends[0].quic.handle_network_changed();
    let start = Wall::now();
    for number in 0..10 {
        for (from, lane) in lanes.iter().enumerate().rev() {
            let mut packer = Packer::new(1160);
            packer.put(&[&[number; 100]]);
            let mut pieces = Vec::new();
            let bytes = packer.take(&mut pieces);
            lane.link.borrow_mut().hand_over(bytes, &pieces);
            lane.link.borrow_mut().touch(&lane.shared);
            let got = pair.until("the datagram", |ends| ends[1 - from].got.pop_front());
            assert_eq!(got.1[HEAD_BYTES], number);
        }
    }
    assert!(start.elapsed() < Duration::from_secs(2), "it takes round trips and no timeout");
    assert!(pair.ends.iter().all(|end| end.changes.is_empty()));
}
