//! Two workers' connections over the loopback interface, stepped in turn.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::time::Instant as Wall;

use trunkline_congestion::CongestionAlgorithm;
use trunkline_packet::{Headers, Offload, build};
use trunkline_queue::Settings;
use trunkline_schema::Encryption;
use trunkline_trunk::datagram::{HEAD_BYTES, MIN_DATAGRAM, Packer};
use trunkline_trunk::{LaneEdge, LaneId, Paths, Served, Stalling, Transmitter, TrunkPlan};

use super::*;
use crate::clock::now;
use crate::config::Via;
use crate::handshake::{Admit, HandshakeError, Identity, RefusalReason, VERSION};
use crate::keys::SecretKey;
use crate::known::KnownAddresses;
use crate::lane_script::{self, Owner};
use crate::pool::{PacketBuf, Pool};
use crate::recorder::{Readings, Recorder};
use crate::sys::udp::{self, Outgoing};

const LIMIT: Duration = Duration::from_secs(10);

struct End {
    quic: Quic,
    port: usize,
    address: SocketAddr,
    /// Datagrams of lanes: serial and bytes.
    got: VecDeque<(u64, Vec<u8>)>,
    /// What came in the streams of lanes, by their numbers.
    streams: BTreeMap<u16, Vec<u8>>,
    changes: VecDeque<Change>,
}

impl End {
    /// The end of the site with this key.
    fn new(seed: u8) -> Self {
        Self::at([127, 0, 0, 1], seed)
    }

    fn at(address: [u8; 4], seed: u8) -> Self {
        let mut quic = Quic::new(0, 1, identity(seed).reset_key().clone());
        let fd = udp::open((address, 0).into(), None, false).expect("a socket");
        let address = rustix::net::getsockname(&fd).expect("its address").try_into().expect("an IP address");
        let port = quic.add_port(fd);
        End { quic, port, address, got: VecDeque::new(), streams: BTreeMap::new(), changes: VecDeque::new() }
    }

    /// Another process with the same key and address.
    fn restart(&mut self, seed: u8) {
        let socket = self.quic.with_port(self.port, |fd| fd.try_clone_to_owned());
        self.quic = Quic::new(0, 1, identity(seed).reset_key().clone());
        self.port = self.quic.add_port(socket.expect("a port").expect("a descriptor"));
    }

    fn step(&mut self) {
        let mut changes = Vec::new();
        self.quic.receive(now(), self.port, &mut changes);
        let (got, streams) = (&mut self.got, &mut self.streams);
        self.quic.advance(now(), &mut changes, |serial, _, arrived| {
            match arrived {
                Arrived::Datagram(datagram) => got.push_back((serial, datagram.to_vec())),
                Arrived::Stream(number, bytes) => streams.entry(number).or_default().extend(bytes),
                Arrived::Nothing => {}
            }
            Ok(())
        });
        self.quic.settle_sent(now());
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

fn options(delivery: Delivery) -> Options {
    Options { dscp: 46, control: Control::Window(CongestionAlgorithm::Reno), delivery, seed: 1 }
}

/// Site 1 dials site 2, which admits the keys that `admits` says.
struct Pair {
    ends: [End; 2],
}

impl Pair {
    fn new(admits: u8) -> Self {
        let mut ends = [End::new(1), End::new(2)];
        let admitted = secret(admits).public();
        let admit: Admit = Arc::new(move |key| *key == admitted);
        ends[1].quic.set_acceptor(
            Acceptor::new(&identity(2), admit).expect("an acceptor"),
            KnownAddresses::default(),
        );
        Pair { ends }
    }

    fn dial(&mut self, expected: u8) {
        self.dial_for(expected, Delivery::Datagram);
    }

    fn dial_for(&mut self, expected: u8, delivery: Delivery) {
        let dialer = Dialer::new(&identity(1), secret(expected).public(), delivery).expect("a dialer");
        let (remote, options) = (self.ends[1].address, options(delivery));
        let dial =
            Dial { serial: 1, remote, via: Via::default(), dialer, hello: hello(), timeout: LIMIT, options };
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
        Self::lane_of(Delivery::Datagram)
    }

    fn lane_of(expected: Delivery) -> (Self, [QuicTx; 2]) {
        let mut pair = Pair::new(1);
        pair.dial_for(2, expected);
        let asked = pair.until("a request", |ends| ends[1].event());
        let Event::Asked { number, peer, hello, delivery, .. } = asked else { panic!("{asked:?}") };
        assert_eq!((peer, &hello, delivery), (secret(1).public(), &super::tests::hello(), expected));
        let welcome = Hello { instance: 8, ..hello };
        let answer = Answer::Welcome { serial: 5, hello: welcome, options: options(expected) };
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
        let mut packer = Packer::new(1150);
        packer.put(&[&[from as u8; 3000]]);
        let mut pieces = Vec::new();
        let bytes = packer.take(&mut pieces, Vec::new());
        let expected: Vec<Vec<u8>> = pieces.iter().map(|it| bytes[it.start..it.end].to_vec()).collect();
        {
            let mut link = lane.link.borrow_mut();
            link.hand_over(&bytes.into(), &pieces);
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
fn a_lane_that_is_doubted_stays_if_it_answers_and_ends_if_not() {
    let (mut pair, _lanes) = Pair::lane();
    let doubts = |end: &End| {
        end.quic.links.values().any(|link| {
            link.borrow()
                .keepalive
                .as_ref()
                .is_some_and(|keepalive| keepalive.next() < StdInstant::now() + LIMIT / 2)
        })
    };
    let is_kept = |ends: &mut [End; 2]| (!ends.iter().any(doubts)).then_some(());
    pair.until("both are idle", is_kept);
    pair.ends[0].quic.prove(now(), 1);
    assert!(doubts(&pair.ends[0]), "it is asked");
    pair.until("an answer", is_kept);
    assert!(pair.ends.iter().all(|end| end.changes.is_empty()));
    // The other end does nothing any more.
    let [near, _] = &mut pair.ends;
    near.quic.prove(now(), 1);
    let asked = Wall::now();
    while near.changes.is_empty() {
        near.step();
        assert!(asked.elapsed() < LIMIT, "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    let ended = near.changes.pop_front();
    assert!(matches!(&ended, Some(Change::Ended { serial: 1, clean: false, .. })), "{ended:?}");
    assert!(asked.elapsed() >= Duration::from_secs(2), "{:?}", asked.elapsed());
}

/// What it sees of packets to connections of an earlier process ends those (RFC 9000 §10.3), if it has the key of that process.
#[test]
fn an_end_that_has_started_again_resets_the_lanes_that_it_had() {
    for (key, is_reset) in [(2, true), (3, false)] {
        let (mut pair, _lanes) = Pair::lane();
        pair.ends[1].restart(key);
        pair.ends[0].quic.prove(now(), 1);
        let ended = pair.until("the end", |ends| ends[0].changes.pop_front());
        let Change::Ended { serial: 1, reason, clean: false } = &ended else { panic!("{ended:?}") };
        assert_eq!(reason.contains("does not know the connection any more"), is_reset, "{reason}");
    }
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
    let Event::DialFailed { failure: Failure::Lane, reason, .. } = &failed else { panic!("{failed:?}") };
    let (expected, found) = (secret(3).public(), secret(2).public());
    assert_eq!(*reason, HandshakeError::WrongKey { expected, found }.to_string());
    assert!(pair.ends[1].event().is_none_or(|event| !matches!(event, Event::Asked { .. })));
}

#[test]
fn a_dial_that_nobody_answers_fails_at_its_time() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut pair = Pair::new(1);
    let delivery = Delivery::Datagram;
    let dialer = Dialer::new(&identity(1), secret(2).public(), delivery).expect("a dialer");
    let remote = silent.local_addr().expect("its address");
    let timeout = Duration::from_millis(200);
    let options = options(delivery);
    let dial = Dial { serial: 1, remote, via: Via::default(), dialer, hello: hello(), timeout, options };
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
        let mut dialer = End::new(1);
        let to = stranger.local_addr().expect("its address");
        let options = options(Delivery::Datagram);
        let of = Dialer::new(&identity(1), secret(2).public(), options.delivery).expect("a dialer");
        let dial = Dial {
            serial: 1,
            remote: to,
            via: Via::default(),
            dialer: of,
            hello: hello(),
            timeout: LIMIT,
            options,
        };
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

/// Has `end` dial an address with the key of this seed.
fn dial_from(end: &mut End, seed: u8, serial: u64, remote: SocketAddr) {
    let options = options(Delivery::Datagram);
    let dialer = Dialer::new(&identity(seed), secret(2).public(), options.delivery).expect("a dialer");
    let dial = Dial { serial, remote, via: Via::default(), dialer, hello: hello(), timeout: LIMIT, options };
    let port = end.port;
    end.quic.dial(now(), dial, port).expect("it begins");
}

/// A first packet with the token of a Retry, which a stranger got for the address of its socket.
fn proved_packet(stranger: &UdpSocket, acceptor: &mut End) -> Vec<u8> {
    let mut dialer = End::new(1);
    dial_from(&mut dialer, 3, 1, stranger.local_addr().expect("its address"));
    let mut buffer = [0; 2000];
    let start = Wall::now();
    loop {
        assert!(start.elapsed() < LIMIT, "no packet with a token");
        dialer.step();
        acceptor.step();
        let Ok((len, from)) = stranger.recv_from(&mut buffer) else { continue };
        let is_retry = from == acceptor.address;
        // The length of the token stands behind the version and two connection IDs (RFC 9000 §17.2.2).
        let token_at = 7 + usize::from(buffer[5]) + usize::from(buffer[6 + usize::from(buffer[5])]);
        if !is_retry && buffer[token_at] > 0 {
            return buffer[..len].to_vec();
        }
        let to = if is_retry { dialer.address } else { acceptor.address };
        stranger.send_to(&buffer[..len], to).expect("sent");
    }
}

/// One Retry is enough for as many first packets as a stranger likes, each for another connection.
#[test]
fn a_stranger_that_has_proved_its_address_keeps_no_peer_out() {
    let mut pair = Pair::new(1);
    let stranger = UdpSocket::bind("127.0.0.2:0").expect("a socket");
    stranger.set_nonblocking(true).expect("a socket option");
    let packet = proved_packet(&stranger, &mut pair.ends[1]);
    let mut rng = trunkline_units::Rng::new(4, "stranger");
    let mut flood = move |ends: &mut [End; 2]| {
        let mut packet = packet.clone();
        packet[6..14].copy_from_slice(&rng.below(u64::MAX).to_be_bytes());
        let _ = stranger.send_to(&packet, ends[1].address);
    };
    let start = Wall::now();
    while start.elapsed() < Duration::from_secs(1) {
        flood(&mut pair.ends);
        pair.ends[1].step();
    }
    let garbage = pair.ends[1].changes.len();
    assert!(garbage <= 1, "a token serves once, and served {garbage} times");
    pair.dial(2);
    let is_asked = |change: &Change| matches!(change, Change::Event(Event::Asked { .. }));
    pair.until("a request", |ends| {
        flood(ends);
        ends[1].changes.iter().any(is_asked).then_some(())
    });
}

#[test]
fn a_peer_waits_for_one_handshake_of_a_stranger_that_begins_many() {
    let mut pair = Pair::new(1);
    let mut stranger = End::at([127, 0, 0, 2], 3);
    for serial in 1..=60 {
        dial_from(&mut stranger, 3, serial, pair.ends[1].address);
    }
    let waiting = |end: &End| end.quic.callers.taken();
    let start = Wall::now();
    while waiting(&pair.ends[1]) < 40 {
        stranger.step();
        pair.ends[1].step();
        assert!(start.elapsed() < LIMIT, "{} wait", waiting(&pair.ends[1]));
    }
    pair.dial(2);
    let mut before = None;
    let served = pair.until("a request", |ends| {
        stranger.step();
        let end = &ends[1];
        let failed = end.changes.iter().filter(|it| matches!(it, Change::Event(Event::CallerFailed { .. })));
        let (failed, asked) = (failed.count(), end.changes.len());
        // Its turn is the next once its packet is there.
        let before = *before.get_or_insert(failed);
        (asked > failed).then(|| failed - before)
    });
    assert!(served <= 20, "{served} handshakes of the stranger came first");
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
    let mut packer = Packer::new(1150);
    packer.put(&[&[3; 100]]);
    let mut pieces = Vec::new();
    let bytes = packer.take(&mut pieces, Vec::new());
    lanes[0].link.borrow_mut().hand_over(&bytes.into(), &pieces);
    lanes[0].link.borrow_mut().touch(&lanes[0].shared);
    pair.until("the lane goes on", |ends| ends[1].got.pop_front());
}

/// The dialer's packets come from another port from now on, as when a NAT forgets it or the machine moves. The other end has
/// something to say, the dialer has not: it shows where it is when it is told.
#[test]
fn a_lane_goes_on_when_its_dialers_address_changes() {
    let (mut pair, lanes) = Pair::lane();
    let moved = End::new(3);
    std::mem::swap(
        &mut *pair.ends[0].quic.shared.ports.borrow_mut(),
        &mut *moved.quic.shared.ports.borrow_mut(),
    );
    // Nobody listens at the old address any more.
    drop(moved);
    pair.ends[0].quic.handle_network_changed(now());
    let start = Wall::now();
    for number in 0..10 {
        for (from, lane) in lanes.iter().enumerate().rev() {
            let mut packer = Packer::new(1150);
            packer.put(&[&[number; 100]]);
            let mut pieces = Vec::new();
            let bytes = packer.take(&mut pieces, Vec::new());
            lane.link.borrow_mut().hand_over(&bytes.into(), &pieces);
            lane.link.borrow_mut().touch(&lane.shared);
            let got = pair.until("the datagram", |ends| ends[1 - from].got.pop_front());
            assert_eq!(got.1[HEAD_BYTES], number);
        }
    }
    assert!(start.elapsed() < Duration::from_secs(2), "it takes round trips and no timeout");
    assert!(pair.ends.iter().all(|end| end.changes.is_empty()));
}

fn write(lane: &QuicTx, stream: u16, bytes: &[u8]) -> usize {
    let mut link = lane.link.borrow_mut();
    let mut left = bytes::Bytes::copy_from_slice(bytes);
    link.open_streams();
    link.write(stream, &mut left).expect("the stream is open");
    link.touch(&lane.shared);
    bytes.len() - left.len()
}

#[test]
fn all_streams_of_a_lane_carry_their_bytes_in_order_both_ways() {
    let (mut pair, lanes) = Pair::lane_of(Delivery::Reliable);
    for lane in &lanes {
        pair.until("streams", |_| (lane.link.borrow_mut().open_streams() == 256).then_some(()));
    }
    let bytes = |from: usize, stream: u16| vec![(usize::from(stream) * 2 + from) as u8; 3000];
    for (from, lane) in lanes.iter().enumerate() {
        for stream in 0..256 {
            assert_eq!(write(lane, stream, &bytes(from, stream)), 3000);
        }
    }
    for from in 0..2 {
        let whole = |end: &End| end.streams.len() == 256 && end.streams.values().all(|got| got.len() == 3000);
        pair.until("all bytes", |ends| whole(&ends[1 - from]).then_some(()));
        for (stream, got) in &pair.ends[1 - from].streams {
            assert_eq!(*got, bytes(from, *stream), "stream {stream}");
        }
        pair.until("all is acknowledged", |_| (lanes[from].link.borrow().in_flight() == 0).then_some(()));
        assert_eq!(lanes[from].link.borrow_mut().unsent(), 0);
    }
}

/// Packets grow to what the loopback interface takes, and what the lane hands over follows them.
#[test]
fn packets_grow_to_what_the_interface_takes() {
    let (mut pair, lanes) = Pair::lane();
    let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("the loopback interface");
    let expected = mtu.trim().parse::<usize>().expect("a number").min(65_535) - 28;
    let size = |lane: &QuicTx| usize::from(lane.link.borrow().inner.current_mtu());
    pair.until("the longest packets", |_| {
        for lane in &lanes {
            lane.link.borrow_mut().touch(&lane.shared);
        }
        lanes.iter().all(|lane| size(lane) == expected).then_some(())
    });
    let longest = lanes[0].link.borrow_mut().max_datagram().expect("it takes datagrams");
    assert!((expected - 60..expected).contains(&longest), "{longest} of {expected}");
    let mut packer = Packer::new(longest);
    (0..20).for_each(|number| packer.put(&[&vec![number; longest / 2]]));
    let mut pieces = Vec::new();
    let bytes = packer.take(&mut pieces, Vec::new());
    let sent = pieces.len();
    {
        let mut link = lanes[0].link.borrow_mut();
        link.hand_over(&bytes.into(), &pieces);
        link.touch(&lanes[0].shared);
    }
    let got = pair.until("all datagrams", |ends| (ends[1].got.len() == sent).then(|| ends[1].got.clone()));
    assert!(got.iter().all(|(_, bytes)| bytes.len() > longest / 2));
    // The route takes shorter ones from now on: they leave before any loss tells.
    {
        let mut link = lanes[0].link.borrow_mut();
        link.handle_route(pair.ends[0].quic.shared.to_std(now()), 1472);
        assert_eq!(link.inner.current_mtu(), 1200);
        let shortest = link.max_datagram().expect("it takes datagrams");
        assert!((MIN_DATAGRAM..1200).contains(&shortest), "{shortest}");
    }
    assert_eq!(size(&lanes[1]), expected);
}

/// The far end of a lane bounds what it keeps: what it has not read, it lets nobody send more of.
#[test]
fn a_lane_whose_peer_reads_nothing_takes_no_more_than_a_window() {
    let (mut pair, lanes) = Pair::lane_of(Delivery::Reliable);
    pair.until("streams", |_| (lanes[0].link.borrow_mut().open_streams() == 256).then_some(()));
    let window = 4 << 20;
    let mut taken = 0;
    for stream in 0..256 {
        taken += write(&lanes[0], stream, &vec![1; window]);
    }
    // The greeting has used some of it.
    assert!(taken <= window && taken > window - 1024, "{taken}");
    // What is read makes room.
    let mut more = 0;
    pair.until("room", |ends| {
        let got: usize = ends[1].streams.values().map(Vec::len).sum();
        more += write(&lanes[0], 7, &[2; 1000]);
        (got > window / 2 && more > 0).then_some(())
    });
}

#[test]
fn a_stream_that_ends_ends_the_lane() {
    for reset in [false, true] {
        let (mut pair, lanes) = Pair::lane_of(Delivery::Reliable);
        pair.until("streams", |_| (lanes[0].link.borrow_mut().open_streams() == 256).then_some(()));
        write(&lanes[0], 3, &[1; 100]);
        {
            let mut link = lanes[0].link.borrow_mut();
            let id = quinn_proto::StreamId::new(link.inner.side(), quinn_proto::Dir::Uni, 3);
            let mut stream = link.inner.send_stream(id);
            if reset {
                stream.reset(CLOSED).expect("open");
            } else {
                stream.finish().expect("open");
            }
            link.touch(&lanes[0].shared);
        }
        let ended = pair.until("the end", |ends| ends[1].changes.pop_front());
        let Change::Ended { serial: 5, reason, clean: false } = &ended else { panic!("{ended:?}") };
        assert_eq!(reason, "the peer ended a stream of the lane");
    }
}

#[test]
fn a_lane_of_datagrams_lets_nobody_open_streams() {
    let (mut pair, lanes) = Pair::lane();
    for lane in &lanes {
        for _ in 0..10 {
            pair.ends.iter_mut().for_each(End::step);
        }
        assert!(lane.link.borrow_mut().inner.streams().open(quinn_proto::Dir::Uni).is_none());
    }
}

/// A packet comes that is to leave.
fn offer(transmitter: &mut Transmitter<PacketBuf>, now: Instant, pool: &mut Pool) {
    let bytes = build::udp(&build::Ip::v4(), (1, 2), &[7; 100]);
    let headers = Headers::parse(&bytes, bytes.len()).expect("a sound packet");
    let head = pool.copy(&bytes).expect("memory");
    let packet = PacketBuf::new(head, Default::default(), bytes.len(), Offload::None);
    let _ = transmitter.handle_packet(now, &headers, packet, |packet| pool.release(packet));
}

/// Whoever sends and acknowledges nothing keeps a lane alive for QUIC, and gets no more than what it holds already.
#[test]
fn a_lane_of_streams_whose_peer_acknowledges_nothing_stalls_and_ends() {
    let (mut pair, [mut near, _far]) = Pair::lane_of(Delivery::Reliable);
    pair.until("streams", |_| (near.link.borrow_mut().open_streams() == 256).then_some(()));
    let classes = vec![trunkline_trunk::ClassSettings::new("rest", Vec::new(), Settings::default(), 0)];
    let plan = TrunkPlan::one_lane_per_class(classes);
    let mut transmitter: Transmitter<PacketBuf> = Transmitter::new(plan.clone(), 64, 1);
    let (mut paths, mut pool) = (Paths::default(), Pool::new(1 << 20));
    near.configure(&plan, LaneId(0), &mut pool);
    let start = now();
    let mut serve = |after: Duration| {
        let at = start + after;
        offer(&mut transmitter, at, &mut pool);
        let edge = LaneEdge { lane: LaneId(0), transmitter: &mut transmitter, paths: &mut paths };
        let served = near.serve(at, edge, &mut pool).expect("the connection is up");
        (served, near.stats().frames, near.poll_stall(at))
    };
    assert_eq!(serve(Duration::ZERO), (Served::Idle, 1, None));
    assert_eq!(serve(Duration::from_millis(500)), (Served::Idle, 2, None));
    // From now on what comes waits at the edge.
    for seconds in 2..9 {
        let served = serve(Duration::from_secs(seconds));
        assert!(matches!(served, (Served::Held(_), 2, None)), "{seconds} s: {served:?}");
    }
    assert_eq!(serve(Duration::from_secs(11)).2, Some(Stalling::Dead));
}

/// A lane, and what it sends.
struct Scripted {
    lane: QuicTx,
    transmitter: Transmitter<PacketBuf>,
    paths: Paths,
    pool: Pool,
}

impl Owner for Scripted {
    fn configure(&mut self, plan: &TrunkPlan, calls: &mut Vec<String>) {
        self.lane.with(&mut self.pool, |pump, connection| {
            pump.configure(plan, LaneId(0));
            let connection = &mut Recorder { connection, readings: Readings::default(), calls };
            pump.apply(connection).expect("the connection takes it");
        });
    }

    fn offer(&mut self, now: Instant) {
        offer(&mut self.transmitter, now, &mut self.pool);
    }

    fn serve(&mut self, now: Instant, readings: Readings, calls: &mut Vec<String>) -> Served {
        let (transmitter, paths) = (&mut self.transmitter, &mut self.paths);
        let edge = LaneEdge { lane: LaneId(0), transmitter, paths };
        self.lane.with(&mut self.pool, |pump, connection| {
            let connection = &mut Recorder { connection, readings, calls };
            pump.serve(now, edge, connection).expect("the connection is up")
        })
    }

    fn is_dead(&mut self, now: Instant) -> bool {
        self.lane.poll_stall(now) == Some(Stalling::Dead)
    }
}

#[test]
fn a_lane_is_asked_what_every_owner_of_lanes_is_asked() {
    for delivery in [Delivery::Datagram, Delivery::Reliable] {
        let (mut pair, [lane, _far]) = Pair::lane_of(delivery);
        if delivery == Delivery::Reliable {
            pair.until("streams", |_| (lane.link.borrow_mut().open_streams() == 256).then_some(()));
        }
        let mut scripted = Scripted {
            lane,
            transmitter: Transmitter::new(lane_script::plan(), 64, 1),
            paths: Paths::default(),
            pool: Pool::new(1 << 20),
        };
        lane_script::check(&mut scripted, now(), Some(delivery));
    }
}
