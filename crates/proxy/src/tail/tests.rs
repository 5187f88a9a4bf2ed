use std::net::IpAddr;
use std::time::Duration;

use trunkline_packet::build::{self, Ip, Tcp};
use trunkline_packet::{Headers, TcpView, checksum, protocol};
use trunkline_units::Rate;

use super::*;

const ROOMY: Limit = Limit { segments: 1000, bytes: 1 << 30 };
/// Sequence numbers of the network's and of the kernel's SYN.
const NETWORK: u32 = u32::MAX - 3000;
const KERNEL: u32 = 500;
const PAYLOAD: u32 = 1210;
/// A packet of 1250 bytes takes so long at 1 Mbit/s.
const EACH: u64 = 10;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

struct Harness {
    tails: Tails,
    cell: CellId,
    path: Path,
    /// That the kernel writes.
    window: u16,
}

/// What a packet says, the checksum being right.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    flags: TcpFlags,
    seq: Seq,
    ack: Seq,
    window: u16,
}

fn see(packet: &[u8], from: IpAddr) -> Seen {
    let headers = Headers::parse(packet, packet.len()).unwrap();
    assert_eq!(headers.source, from);
    let tcp = &packet[headers.transport_offset..];
    let pseudo =
        checksum::pseudo_header(headers.source, headers.destination, protocol::TCP, tcp.len() as u32);
    assert_eq!(checksum::fold(pseudo + checksum::sum(tcp)), 0xffff);
    let view = TcpView::new(tcp).unwrap();
    Seen { flags: view.flags(), seq: Seq(view.seq()), ack: Seq(view.ack()), window: view.window() }
}

impl Harness {
    fn stats(&self) -> TailStats {
        self.tails.stats(self.cell)
    }

    /// A connection that the host behind has opened, both sides scaling windows; the kernel by 2^3.
    fn new(limit: Limit) -> Self {
        let estimate = Estimate { rate: Rate::from_bits_per_second(1_000_000), recovery: Duration::ZERO };
        let (queue, packets) = (Some(limit.bytes), Some(limit.segments));
        Self::with(&CellLink { estimate: Some(estimate), queue, packets })
    }

    fn with(link: &CellLink) -> Self {
        let ip = Ip::v4();
        let path =
            Path { network: SocketAddr::new(ip.destination, 80), behind: SocketAddr::new(ip.source, 1234) };
        let mut tails = Tails::new();
        let cell = tails.add_link(link);
        tails.open(path, cell);
        let mut harness = Harness { tails, cell, path, window: 1000 };
        let options = [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 3];
        let (action, syn) = harness.outgoing(TcpFlags::SYN, KERNEL, 0, &options);
        assert_eq!((action, see(&syn, ip.source).flags), (TailAction::Pass, TcpFlags::SYN));
        let offered = TcpView::new(&syn[20..]).unwrap().options();
        assert_eq!(offered, [2, 4, 5, 180, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3]);
        let action = harness.incoming(at(0), TcpFlags::SYN | TcpFlags::ACK, NETWORK, 0, &[1, 3, 3, 7]);
        assert_eq!(action, TailAction::Pass);
        assert_eq!(harness.kernel(0).0, TailAction::Pass);
        harness
    }

    fn incoming(
        &mut self,
        now: Instant,
        flags: TcpFlags,
        seq: u32,
        payload: u32,
        options: &[u8],
    ) -> TailAction {
        let ip = Ip { source: Ip::v4().destination, destination: Ip::v4().source, ..Ip::v4() };
        let tcp = Tcp { ports: (80, 1234), seq, ack: KERNEL + 1, flags, window: 9000, options };
        let mut packet = build::tcp(&ip, &tcp, &vec![0; payload as usize]);
        let mut packet = TcpPacket::parse(&mut packet).unwrap().unwrap();
        self.tails.handle_incoming(now, self.path, &mut packet)
    }

    fn data(&mut self, now: Instant, number: u32) -> TailAction {
        self.incoming(now, TcpFlags::ACK, offset(number).0, PAYLOAD, &[])
    }

    fn outgoing(&mut self, flags: TcpFlags, seq: u32, ack: u32, options: &[u8]) -> (TailAction, Vec<u8>) {
        let tcp = Tcp { ports: (1234, 80), seq, ack, flags, window: self.window, options };
        let mut bytes = build::tcp(&Ip::v4(), &tcp, b"");
        let mut packet = TcpPacket::parse(&mut bytes).unwrap().unwrap();
        let action = self.tails.handle_outgoing(self.path, &mut packet);
        (action, bytes)
    }

    /// The kernel acknowledges all segments before this.
    fn kernel(&mut self, number: u32) -> (TailAction, Seen) {
        let (action, bytes) = self.outgoing(TcpFlags::ACK, KERNEL + 1, offset(number).0, &[]);
        (action, see(&bytes, Ip::v4().source))
    }

    /// What leaves until then, by the number of segments that it acknowledges.
    fn released(&mut self, until: Instant) -> Vec<(u64, u32)> {
        let mut all = Vec::new();
        while let Some(now) = self.tails.next_release().filter(|now| *now <= until) {
            while let Some((_, packet)) = self.tails.poll_release(now) {
                let seen = see(&packet, Ip::v4().source);
                assert_eq!((seen.flags, seen.seq), (TcpFlags::ACK, Seq(KERNEL + 1)));
                all.push((now.as_nanos() / 1_000_000, (seen.ack - offset(0)) / PAYLOAD));
            }
        }
        all
    }
}

/// The first byte of a segment.
fn offset(number: u32) -> Seq {
    Seq(NETWORK) + 1 + number * PAYLOAD
}

#[test]
fn acknowledgements_leave_when_the_emulated_link_has_sent_their_segments() {
    let mut harness = Harness::new(ROOMY);
    for number in 0..4 {
        assert_eq!(harness.data(at(0), number), TailAction::Pass);
        assert_eq!(harness.kernel(number + 1).0, TailAction::Swallow);
    }
    assert_eq!(harness.released(at(9)), []);
    assert_eq!(harness.released(at(100)), [(EACH, 1), (2 * EACH, 2), (3 * EACH, 3), (4 * EACH, 4)]);
    assert_eq!(harness.stats(), TailStats { held: 4, released: 4, dropped: 0 });
}

#[test]
fn the_right_edge_of_the_window_is_the_kernels() {
    let mut harness = Harness::new(ROOMY);
    harness.data(at(0), 0);
    harness.data(at(0), 1);
    harness.kernel(2);
    let (_, packet) = harness.tails.poll_release(at(EACH)).unwrap();
    let seen = see(&packet, Ip::v4().source);
    assert_eq!(seen.ack, offset(1));
    let edge = seen.ack + (u32::from(seen.window) << 3);
    assert_eq!(offset(2) + 8000 - edge, 2, "rounded down to a unit of 8");
}

#[test]
fn what_the_kernel_sends_acknowledges_no_more_than_is_due() {
    let mut harness = Harness::new(ROOMY);
    harness.data(at(0), 0);
    let data = TcpFlags::ACK | TcpFlags::FIN;
    let (action, bytes) = harness.outgoing(data, KERNEL + 1, offset(1).0, &[]);
    assert_eq!((action, see(&bytes, Ip::v4().source).ack), (TailAction::Pass, offset(0)));
    let (_, packet) = harness.tails.poll_release(at(EACH)).unwrap();
    assert_eq!(see(&packet, Ip::v4().source).seq, Seq(KERNEL + 2), "behind the FIN");
}

#[test]
fn nothing_is_acknowledged_that_the_kernel_has_not() {
    let mut harness = Harness::new(ROOMY);
    harness.data(at(0), 0);
    harness.data(at(0), 1);
    harness.kernel(1);
    assert_eq!(harness.released(at(100)), [(EACH, 1)], "the second may be lost in the kernel");
    let (action, seen) = harness.kernel(2);
    assert_eq!((action, seen.ack), (TailAction::Pass, offset(2)), "and now it is not");
}

#[test]
fn what_the_link_has_no_room_for_is_dropped_and_segments_behind_a_gap_repeat_the_acknowledgement() {
    let mut harness = Harness::new(Limit { segments: 2, ..ROOMY });
    assert_eq!(harness.data(at(0), 0), TailAction::Pass);
    assert_eq!(harness.data(at(0), 1), TailAction::Pass);
    assert_eq!(harness.data(at(0), 2), TailAction::Drop(DropReason::QueueFull));
    harness.kernel(2);
    assert_eq!(harness.data(at(15), 3), TailAction::Pass);
    harness.kernel(2);
    assert_eq!(harness.released(at(100)), [(10, 1), (20, 2), (30, 2)]);
    assert_eq!(harness.stats().dropped, 1);
    // All of it came before: the acknowledgement goes again, at once.
    assert!(matches!(harness.data(at(100), 0), TailAction::PassAndSend(_)));
}

#[test]
fn a_fin_is_acknowledged_once_the_host_behind_has_everything() {
    let mut harness = Harness::new(ROOMY);
    let flags = TcpFlags::ACK | TcpFlags::FIN;
    assert_eq!(harness.incoming(at(0), flags, offset(0).0, PAYLOAD, &[]), TailAction::Pass);
    let (action, _) = harness.outgoing(TcpFlags::ACK, KERNEL + 1, offset(1).0 + 1, &[]);
    assert_eq!(action, TailAction::Swallow);
    assert_eq!(harness.released(at(1000)), [(EACH, 1)], "the data, and not the FIN");
    let (_, bytes) = harness.outgoing(TcpFlags::ACK, KERNEL + 1, offset(1).0 + 1, &[]);
    assert_eq!(see(&bytes, Ip::v4().source).ack, offset(1));
    let packet = harness.tails.handle_delivered(harness.path).unwrap();
    assert_eq!(see(&packet, Ip::v4().source).ack, offset(1) + 1);
}

#[test]
fn a_window_that_opens_again_is_told_at_once_if_nothing_is_due() {
    let mut harness = Harness::new(ROOMY);
    harness.data(at(0), 0);
    harness.kernel(1);
    harness.released(at(100));
    let (action, seen) = harness.kernel(1);
    assert_eq!((action, seen.window), (TailAction::Pass, 1000));
}

#[test]
fn a_connection_that_is_forgotten_passes() {
    let mut harness = Harness::new(ROOMY);
    harness.data(at(0), 0);
    harness.kernel(1);
    harness.tails.close(harness.path);
    assert_eq!(harness.released(at(100)), []);
    assert!(!harness.tails.knows(harness.path));
    assert_eq!(harness.kernel(1).0, TailAction::Pass);
    assert_eq!(harness.data(at(100), 1), TailAction::Pass);
}

#[test]
fn at_a_measured_rate_windows_are_bounded_and_nothing_is_dropped() {
    let measured = CellLink { estimate: None, queue: Some(20_000), packets: None };
    let mut harness = Harness::with(&measured);
    // The kernel has room for 64 kB.
    harness.window = 8000;
    let mut edge = offset(0) + (u32::from(harness.kernel(0).1.window) << 3);
    let estimate = Estimate { rate: Rate::from_mbit(1.0), recovery: Duration::ZERO };
    harness.tails.set_link(at(0), harness.cell, (estimate, measured.limit(estimate.rate)));
    let (mut now, mut sent, mut left) = (at(0), 0, 40);
    while left > 0 {
        while sent < 40 && offset(sent).before(edge) {
            assert_eq!(harness.data(now, sent), TailAction::Pass);
            sent += 1;
            assert_eq!(harness.kernel(sent).0, TailAction::Swallow);
        }
        now = harness.tails.next_release().expect("something waits");
        let (_, packet) = harness.tails.poll_release(now).expect("it is due");
        let seen = see(&packet, Ip::v4().source);
        let offered = seen.ack + (u32::from(seen.window) << 3);
        assert!(!offered.before(edge), "it never goes back");
        assert!((19_990..=20_000).contains(&(offered - seen.ack)), "{}", offered - seen.ack);
        (edge, left) = (offered, left - 1);
    }
    assert_eq!((sent, harness.tails.next_release(), harness.stats().dropped), (40, None, 0));
    let seen = harness.kernel(40).1;
    assert_eq!(u32::from(seen.window) << 3, 20_000, "the kernel's own too");
}

#[test]
fn what_is_beyond_the_offered_window_ends_here_and_is_answered() {
    let mut harness = Harness::new(ROOMY);
    assert_eq!(harness.data(at(0), 0), TailAction::Pass);
    assert_eq!(harness.data(at(0), 7), TailAction::OutOfWindow(None), "what is due next says the window");
    harness.kernel(1);
    assert_eq!(harness.released(at(100)), [(EACH, 1)]);
    for number in 8..2000 {
        let TailAction::OutOfWindow(Some(answer)) = harness.data(at(100), number) else {
            panic!("{number} is beyond 8000 bytes")
        };
        let seen = see(&answer, Ip::v4().source);
        assert_eq!((seen.ack, seen.window), (offset(1), 1000));
    }
    assert_eq!(harness.tails.next_release(), None, "they take no time on the link");
    for number in 1..8 {
        assert_eq!(harness.data(at(100), number), TailAction::Pass);
    }
    let released = harness.released(at(1000));
    assert_eq!(released, [], "the kernel has not acknowledged them");
    assert_eq!(harness.stats().dropped, 1993);
}

#[test]
fn at_a_measured_rate_a_sender_beyond_its_window_delays_nobody() {
    let measured = CellLink { estimate: None, queue: Some(20_000), packets: None };
    let mut harness = Harness::with(&measured);
    // The kernel has room for 64 kB, and 20 kB are offered.
    harness.window = 8000;
    let estimate = Estimate { rate: Rate::from_mbit(1.0), recovery: Duration::ZERO };
    harness.tails.set_link(at(0), harness.cell, (estimate, measured.limit(estimate.rate)));
    harness.kernel(0);
    let passed = (0..2000).filter(|number| harness.data(at(0), *number) == TailAction::Pass).count();
    assert_eq!(passed, 17, "20 kB of segments of 1210 bytes, the last of which begins within them");
    harness.kernel(17);
    assert_eq!(harness.released(at(60_000)).last(), Some(&(17 * EACH, 17)));
}
