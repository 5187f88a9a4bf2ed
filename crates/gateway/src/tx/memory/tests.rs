//! A sender with a device and lanes of its own: sockets, on which packets stay apart, and connections over the loopback.

use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use trunkline_packet::{VNET_LEN, build};
use trunkline_queue::DropReason;
use trunkline_trunk::compress::{Compression, Compressor};

use super::*;
use crate::config::Config;
use crate::keys::PublicKey;
use crate::lane_tx::LaneTx;
use crate::plan::{KnownPaths, Plan};
use crate::tun::TunQueue;
use crate::worker::Place;

struct Scene {
    sender: Sender,
    /// Where packets are put that the device gives.
    device: OwnedFd,
    /// The far ends of lanes.
    far: Vec<TcpStream>,
    now: Instant,
    serial: u64,
}

const CLASS: &str = "\n[[classes]]\nname = \"all\"\n";
const MIB: usize = 1 << 20;

fn key(peer: usize) -> PublicKey {
    let mut bytes = [9; 32];
    bytes[..8].copy_from_slice(&(peer as u64).to_be_bytes());
    PublicKey::from_bytes(bytes)
}

fn address(peer: usize) -> [u8; 4] {
    [10, 1 + (peer >> 8) as u8, peer as u8, 1]
}

fn plan(peers: usize, classes: &str) -> Arc<Plan> {
    let mut text = format!("private_key_file = \"a.key\"\nlisten = [\"127.0.0.1:4600\"]\n{classes}");
    for peer in 0..peers {
        let ([a, b, c, _], key) = (address(peer), key(peer));
        let head = format!("\n[[peers]]\nname = \"p{peer}\"\npublic_key = \"{key}\"");
        writeln!(text, "{head}\nroutes = [\"{a}.{b}.{c}.0/24\"]").expect("memory");
    }
    let config = Config::parse(&text, Path::new("/etc/trunkline/site.toml"));
    Plan::new(
        &config.unwrap_or_else(|errors| panic!("{errors}")),
        1,
        &mut KnownPaths::default(),
        vec![Vec::new(); peers],
    )
}

impl Scene {
    /// With this many peers, none of which has a lane, and a pool of this size.
    fn new(peers: usize, classes: &str, pool_bytes: usize) -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, device) =
            socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).expect("a pair of sockets");
        let mut sender = Sender::with_memory(0, TunQueue::on(near), pool_bytes);
        let now = Instant::from_millis(1_000_000);
        sender.reconfigure(now, &plan(peers, classes));
        Scene { sender, device, far: Vec::new(), now, serial: 0 }
    }

    /// Gives a peer its one lane.
    fn lane_up(&mut self, peer: usize) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        near.set_nonblocking(true).expect("a socket option");
        self.far.push(listener.accept().expect("a connection").0);
        self.serial += 1;
        let lane = LaneTx::new(
            self.serial,
            Arc::new(near.into()),
            None,
            Compressor::new(Compression::Off, 1),
            false,
        );
        let place = Place { peer: key(peer), path: 0, group: "all".into(), index: 0 };
        let vacancy = self.sender.vacancy(&place);
        vacancy.unwrap_or_else(|taken| panic!("{taken}")).fill(lane.into());
    }

    /// A datagram of this length to a peer, of the flow of `port`, comes out of the device, and lanes are served.
    fn send(&mut self, peer: usize, port: u16, len: usize) {
        let ip = build::Ip { destination: address(peer).into(), ..build::Ip::v4() };
        let mut bytes = vec![0; VNET_LEN];
        bytes.extend(build::udp(&ip, (port, 9), &vec![7; len - 28]));
        rustix::io::write(&self.device, &bytes).expect("the device has room");
        self.sender.read_device(self.now).expect("the device is there");
        self.serve();
    }

    fn serve(&mut self) {
        let mut requests = Vec::new();
        self.sender.serve_lanes(self.now, &mut requests);
        assert!(
            requests.iter().all(|request| matches!(request, super::super::LaneRequest::Writable { .. })),
            "{requests:?}"
        );
    }

    /// Lets time pass, in steps at which the sender asked to be woken.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.sender.next_wake().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.serve();
        }
        self.now = until;
    }

    fn dropped(&mut self, peer: usize, reason: DropReason) -> u64 {
        self.sender.peers[peer].transmitter.report(self.now)[0].queue.dropped_for(reason)
    }

    fn waiting(&mut self, peer: usize) -> u64 {
        self.sender.peers[peer].transmitter.report(self.now)[0].queue.backlog_segments
    }

    fn frames(&self, peer: usize) -> u64 {
        self.sender.peers[peer].lanes[0].as_ref().map_or(0, |slot| slot.lane.stats().frames)
    }
}

/// Small packets to peers that are away: the one that is there keeps its traffic.
fn flood_of_small_packets(absent: usize, packets: u16) {
    let mut scene = Scene::new(absent + 1, CLASS, 8 * MIB);
    scene.lane_up(absent);
    for round in 0..packets {
        for peer in 0..absent {
            scene.send(peer, round, 29);
        }
        scene.send(absent, round, 1400);
        assert_eq!(scene.frames(absent), u64::from(round) + 1, "the online peer's packet goes out");
        assert!(scene.sender.absent.held_bytes <= 2 * MIB);
    }
    assert_eq!(scene.sender.stats.no_memory, 0);
    assert!(scene.sender.pool.allocated_bytes() <= 8 * MIB);
    let shed: u64 = (0..absent).map(|peer| scene.dropped(peer, DropReason::Memory)).sum();
    assert!(shed > 1000, "{shed}");
    // None of those that are away is starved by another.
    let waiting: Vec<u64> = (0..absent).map(|peer| scene.waiting(peer)).collect();
    let fair = (2 * MIB / 512 / absent) as u64;
    assert!(
        waiting.iter().all(|waiting| (fair / 4..=fair * 4 + 64).contains(waiting)),
        "{fair}: {waiting:?}"
    );
}

#[test]
fn small_packets_to_140_absent_peers_cost_a_peer_that_is_there_nothing() {
    flood_of_small_packets(140, 120);
}

#[test]
fn small_packets_to_1000_absent_peers_cost_a_peer_that_is_there_nothing() {
    flood_of_small_packets(1000, 10);
}

#[test]
fn packets_of_2000_bytes_to_absent_peers_cost_a_peer_that_is_there_nothing() {
    let mut scene = Scene::new(51, CLASS, 8 * MIB);
    scene.lane_up(50);
    for round in 0..100 {
        (0..50).for_each(|peer| scene.send(peer, round, 2000));
        scene.send(50, round, 1400);
        assert_eq!(scene.frames(50), u64::from(round) + 1);
    }
    assert!(scene.sender.stats.no_memory == 0 && scene.sender.absent.held_bytes <= 2 * MIB);
}

#[test]
fn the_absent_peer_that_holds_most_pays_and_no_other() {
    let mut scene = Scene::new(20, CLASS, 8 * MIB);
    for round in 0..50 {
        (0..19).for_each(|peer| scene.send(peer, round, 100));
    }
    for round in 0..6000 {
        scene.send(19, round, 1000);
    }
    assert!(scene.dropped(19, DropReason::Memory) + scene.dropped(19, DropReason::SegmentLimit) > 4000);
    assert!((0..19).all(|peer| scene.waiting(peer) == 50), "a share that is not used up is kept");
}

/// A lane that takes nothing is one that is up: what waits for it counts for its own peer.
#[test]
fn a_peer_whose_lane_takes_nothing_does_not_use_up_the_pool() {
    let queue = "\n[[classes]]\nname = \"all\"\n[classes.queue]\ndiscipline = \"tail-drop\"\npackets = 1000000\nbytes = \"1GiB\"\n";
    let mut scene = Scene::new(3, queue, 8 * MIB);
    (0..2).for_each(|peer| scene.lane_up(peer));
    // What the connection's buffers hold has to be filled first.
    if let Some(slot) = &mut scene.sender.peers[0].lanes[0] {
        slot.full = true;
    }
    for round in 0..8000 {
        scene.send(0, round, 1400);
        if round % 100 == 0 {
            scene.send(1, round, 1400);
            scene.send(2, round, 1400);
        }
    }
    assert_eq!((scene.frames(1), scene.sender.stats.no_memory), (80, 0));
    assert_eq!(scene.waiting(2), 80, "nor does one that is away pay for it");
    assert!(scene.dropped(0, DropReason::Memory) > 2000);
    assert!(scene.waiting(0) > 2000, "it has most of the pool while nobody else wants it");
    assert!(scene.sender.pool.shortage_bytes() == 0);
}

#[test]
fn what_waits_for_a_lane_that_stays_down_is_dropped_by_age_and_nothing_is_left() {
    let mut scene = Scene::new(3, CLASS, 64 * MIB);
    scene.lane_up(2);
    assert_eq!(scene.sender.next_wake(), None, "nobody waits");
    for port in 0..400 {
        scene.send(0, port, 100 + usize::from(port));
    }
    scene.pass(Duration::from_secs(20));
    scene.send(1, 1, 1000);
    assert_eq!((scene.waiting(0), scene.waiting(1)), (400, 1));
    scene.pass(Duration::from_secs(12));
    assert_eq!((scene.waiting(0), scene.dropped(0, DropReason::Expired)), (0, 400));
    assert_eq!((scene.waiting(1), scene.dropped(1, DropReason::Expired)), (1, 0), "it is younger");
    scene.pass(Duration::from_secs(20));
    assert_eq!((scene.waiting(1), scene.dropped(1, DropReason::Expired)), (0, 1));
    assert_eq!(
        (scene.sender.next_wake(), scene.sender.absent.held_bytes),
        (None, 0),
        "nothing is left to do"
    );
    // A packet that came meanwhile is there when the lane is.
    scene.send(0, 5, 500);
    scene.lane_up(0);
    scene.serve();
    assert_eq!((scene.frames(0), scene.waiting(0)), (1, 0));
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.sender.next_wake(), None);
}

/// What came while the lane was up waits no longer for the next one than what comes after it broke.
#[test]
fn a_backlog_of_a_lane_that_breaks_expires_too() {
    let mut scene = Scene::new(1, CLASS, 64 * MIB);
    scene.lane_up(0);
    scene.serve();
    if let Some(slot) = &mut scene.sender.peers[0].lanes[0] {
        slot.full = true;
    }
    (0..10).for_each(|port| scene.send(0, port, 100));
    assert_eq!(scene.sender.next_wake(), None);
    scene.sender.take_lane(1, false);
    assert!(scene.sender.next_wake().is_some());
    scene.pass(Duration::from_secs(29));
    assert_eq!(scene.waiting(0), 10);
    scene.pass(Duration::from_secs(3));
    assert_eq!(scene.dropped(0, DropReason::Expired), 10);
}

#[test]
fn the_flow_table_of_a_peer_that_is_away_is_small_and_grows_when_it_comes() {
    let mut scene = Scene::new(2, CLASS, 64 * MIB);
    let flows = |scene: &Scene| scene.sender.peers[0].transmitter.flow_table();
    (0..5000).for_each(|port| scene.send(0, port, 100));
    assert!(flows(&scene).0 <= ABSENT_FLOWS && flows(&scene).1 == ABSENT_FLOWS);
    scene.lane_up(0);
    (0..5000).for_each(|port| scene.send(0, port, 100));
    assert!(flows(&scene).0 == 5000 && flows(&scene).1 == Transmitter::<PacketBuf>::FLOWS);
    // Short absences forget nobody.
    scene.sender.take_lane(1, false);
    (0..50).for_each(|port| scene.send(0, port, 100));
    scene.pass(Duration::from_secs(20));
    assert_eq!(flows(&scene).0, 5000);
    for _ in 0..15 {
        scene.send(0, 1, 100);
        scene.pass(Duration::from_secs(1));
    }
    assert!(flows(&scene).0 <= ABSENT_FLOWS && flows(&scene).1 == ABSENT_FLOWS, "{:?}", flows(&scene));
}

#[test]
fn flow_tables_of_many_peers_are_bounded_together() {
    assert_eq!(flow_limit(1), 1 << 17);
    assert_eq!(flow_limit(16), 1 << 17);
    assert_eq!(flow_limit(1000), MIN_FLOWS);
    assert!((1..512).all(|peers| peers * flow_limit(peers) <= ALL_FLOWS));
}

/// A reload keeps what is counted, and peers that go give back what they held.
#[test]
fn a_reload_keeps_the_account() {
    let mut scene = Scene::new(40, CLASS, 64 * MIB);
    for peer in 0..40 {
        (0..20).for_each(|port| scene.send(peer, port, 100));
    }
    let before = scene.sender.absent.held_bytes;
    scene.sender.reconfigure(scene.now, &plan(20, CLASS));
    assert_eq!(scene.sender.absent.held_bytes, before / 2);
    scene.pass(Duration::from_secs(32));
    assert_eq!((scene.sender.absent.held_bytes, scene.sender.next_wake()), (0, None));
}
