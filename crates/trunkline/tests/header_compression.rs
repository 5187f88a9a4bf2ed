//! Header compression on what real kernels send: captures made in namespaces, before and after.
//! `cargo test -p trunkline --test all header_compression:: -- --nocapture` prints the table of
//! docs/models/header-compression.md.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::common::{peer, plans, setup, sites, wait_for};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with};
use trunkline_packet::{Headers, Offload, TcpView, checksum, protocol};
use trunkline_status::Lane;
use trunkline_testbed::clock::Scheduling;
use trunkline_testbed::lateness::judges_time;
use trunkline_testbed::link::{DuplexSettings, End, Link};
use trunkline_testbed::namespace::{Host, Task};
use trunkline_testbed::privilege;
use trunkline_testbed::scene::{Encryption, Gateway, Gateways, Wan};
use trunkline_testbed::traffic::{
    BulkSettings, FloodSettings, Pace, Pacing, RpcServer, RpcSettings, Stop, TcpSink, UdpSink, bulk, flood,
    request_response,
};
use trunkline_trunk::compress::{
    Compression, Compressor, Decompressor, MAX_FRAMED, MAX_HEADER, Single, Whole,
};
use trunkline_trunk::frame::Frame;
use trunkline_units::Rate;

const SECOND: Duration = Duration::from_secs(1);
const ADDRESSES: [[&str; 2]; 2] = [["198.18.2.1", "fd00::1"], ["198.18.2.2", "fd00::2"]];

/// Two hosts and a link of 20 Mbit/s, 20 ms there and back, with 50 ms of queue: flows lose packets now and then.
struct Pair {
    _link: Link,
    a: Host,
    b: Host,
}

impl Pair {
    fn new(timestamps: bool) -> Self {
        let (a, b) = (Host::new("a").expect("host"), Host::new("b").expect("host"));
        let [of_a, of_b] = ADDRESSES.map(|of| of.map(address));
        let (round_trip, queue) = (Duration::from_millis(20), Duration::from_millis(50));
        let settings = DuplexSettings::wide_area(Rate::from_mbit(20.0), round_trip, queue);
        let end = |host, addresses| End { host, device: "wan", addresses };
        let link = Link::new(end(&a, &of_a), end(&b, &of_b), &settings).expect("link");
        for host in [&a, &b] {
            host.sysctl("net.ipv4.tcp_timestamps", if timestamps { "1" } else { "0" }).expect("sysctl");
        }
        Pair { _link: link, a, b }
    }

    /// What host `a` sends and receives meanwhile, TCP and UDP alone: multicast and the like are not asked about.
    fn capture<T>(&self, work: impl FnOnce() -> T) -> Vec<Vec<u8>> {
        let stop = Stop::new();
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let asked = stop.clone();
        let task: Task<Vec<Vec<u8>>> = self.a.spawn("capture", move || {
            let kind = (AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::NONBLOCK);
            let socket = socket_with(kind.0, kind.1, kind.2, Some(eth::ALL)).expect("a packet socket");
            ready.send(()).expect("it is waited for");
            let mut packets = Vec::new();
            let mut buffer = vec![0; 70_000];
            while !asked.is_stopped() {
                while let Ok((len, _)) = recv(&socket, &mut buffer, RecvFlags::empty()) {
                    packets.push(buffer[..len].to_vec());
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            packets
        });
        is_ready.recv().expect("the capture runs");
        work();
        std::thread::sleep(Duration::from_millis(100));
        stop.stop();
        let mut packets = task.join();
        packets.retain(|packet| {
            let headers = Headers::parse(packet, packet.len());
            headers.is_ok_and(|headers| matches!(headers.protocol, protocol::TCP | protocol::UDP))
        });
        packets
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn any_port(version: usize) -> SocketAddr {
    SocketAddr::new(address(ADDRESSES[1][version]), 0)
}

fn bulk_capture(pair: &Pair, version: usize) -> Vec<Vec<u8>> {
    let sink = TcpSink::start(&pair.b, any_port(version), SECOND / 20).expect("sink");
    let settings = BulkSettings::new(sink.address(), "cubic", 1, 2 * SECOND);
    pair.capture(|| pair.a.run(|| bulk(&settings, &Stop::new())))
}

fn rpc_capture(pair: &Pair, version: usize) -> Vec<Vec<u8>> {
    let server = RpcServer::start(&pair.b, any_port(version), "cubic").expect("server");
    let pacing = Pacing::ClosedLoop(Duration::from_millis(5));
    let settings = RpcSettings { pacing, ..RpcSettings::new(server.address(), "cubic", 2 * SECOND) };
    pair.capture(|| pair.a.run(|| request_response(&settings, &Stop::new())))
}

/// 50 datagrams a second of 160 bytes of voice behind 12 of RTP.
fn voice_capture(pair: &Pair, version: usize) -> Vec<Vec<u8>> {
    let sink = UdpSink::start(&pair.b, any_port(version), SECOND / 20).expect("sink");
    let packet_bytes = 172 + [28, 48][version];
    let settings = FloodSettings {
        target: sink.address(),
        payload_bytes: 172,
        pace: Pace::Rate(Rate::from_bits_per_second(50 * 8 * packet_bytes)),
        batch: 1,
        time: 2 * SECOND,
        scheduling: Scheduling::Shared,
    };
    pair.capture(|| pair.a.run(|| flood(&settings, &Stop::new())).expect("voice"))
}

/// How the transport checksum reaches a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Complete, as from a wire.
    Complete,
    /// Open, as from the host itself or a neighbour on the same machine.
    Open,
}

/// Makes a captured packet one of the form, whichever it had.
fn in_form(mut packet: Vec<u8>, headers: &Headers, form: Form) -> (Vec<u8>, Offload) {
    let start = headers.transport_offset;
    let offset = if headers.protocol == protocol::TCP { 16 } else { 6 };
    let len = headers.transport_len() as u32;
    let pseudo = checksum::pseudo_header(headers.source, headers.destination, headers.protocol, len);
    packet[start + offset..start + offset + 2].copy_from_slice(&checksum::fold(pseudo).to_be_bytes());
    let offload = Offload::Checksum { start: start as u16, offset: offset as u16 };
    match form {
        Form::Open => (packet, offload),
        Form::Complete => {
            trunkline_packet::complete_checksum(&mut packet, offload).expect("a sound packet");
            (packet, Offload::None)
        }
    }
}

#[derive(Debug)]
struct Outcome {
    packets: u64,
    before: f64,
    after: f64,
}

/// Sends the packets of one direction through a lane's compressor and decompressor: the mean header of all of them,
/// those included that open and end connections, before and after. All bytes before the payload count but the two
/// of the frame's length.
fn outcome<'a>(packets: impl Iterator<Item = &'a Vec<u8>>, form: Form) -> Outcome {
    let (mut compressor, mut decompressor) = (Compressor::new(Compression::On, 1), Decompressor::new());
    let (mut count, mut before, mut after) = (0_u64, 0, 0);
    for packet in packets {
        let headers = Headers::parse(packet, packet.len()).expect("it was looked at before");
        let (packet, offload) = in_form(packet.clone(), &headers, form);
        let transport = match headers.protocol {
            protocol::TCP => TcpView::new(&packet[headers.transport_offset..]).expect("TCP").header_len(),
            _ => 8,
        };
        let header_len = headers.transport_offset + transport;
        let single = Single { head: &packet, len: packet.len(), offload };
        let mut out = [0; MAX_FRAMED];
        let framed = compressor.frame(&single, &mut out);
        count += 1;
        before += header_len;
        after += framed.len - 2 + header_len - framed.replaced;
        let frame = [&out[..framed.len], &packet[framed.replaced..]].concat();
        assert_eq!(receive(&mut decompressor, &frame), (packet, offload));
    }
    let stats = compressor.stats();
    assert_eq!(stats.whole(Whole::Context), 1, "one flow, one context: {stats:?}");
    // Beside SYN and FIN: a socket that was closed early answers what still comes with as many RSTs.
    let ends = stats.whole(Whole::TcpFlags);
    assert_eq!(stats.compressed + ends + 1, count, "the rest is compressed: {stats:?}");
    assert!(ends <= 3 + count / 30, "{stats:?}");
    let mean = |sum: usize| sum as f64 / count as f64;
    Outcome { packets: count, before: mean(before), after: mean(after) }
}

fn receive(decompressor: &mut Decompressor, frame: &[u8]) -> (Vec<u8>, Offload) {
    let (head, len) = Frame::decode(frame).expect("a frame").expect("all of it");
    let content = &frame[len..];
    match head {
        Frame::Packet { head, context } => {
            if let Some(context) = context {
                decompressor.establish(context, &head, content).expect("a context");
            }
            (content.to_vec(), head.offload)
        }
        Frame::Compressed { bits, len } => {
            let mut header = [0; MAX_HEADER];
            let restored = decompressor.restore(bits, content, len, &mut header).expect("a header");
            ([&header[..restored.header_len], &content[restored.consumed..]].concat(), restored.head.offload)
        }
        Frame::Report { .. } | Frame::Number { .. } | Frame::Order { .. } => {
            panic!("a compressor makes packets")
        }
    }
}

/// The required figures of a row: bytes of header before, and the range after compression in either form.
struct Claim {
    before: (f64, f64),
    complete: (f64, f64),
    open: (f64, f64),
}

fn row(name: &str, packets: &[Vec<u8>], from: usize, version: usize, at_least: u64, claim: &Claim) {
    let source = address(ADDRESSES[from][version]);
    let of_source = |packet: &&Vec<u8>| {
        Headers::parse(packet, packet.len()).is_ok_and(|headers| headers.source == source)
    };
    let [complete, open] =
        [Form::Complete, Form::Open].map(|form| outcome(packets.iter().filter(of_source), form));
    let Outcome { packets, before, after } = complete;
    println!("| {name} | {packets} | {before:.1} | {after:.1} | {:.1} |", open.after);
    assert!(packets >= at_least, "{name}: {packets} packets");
    for (what, value, (low, high)) in [
        ("before", before, claim.before),
        ("complete", after, claim.complete),
        ("open", open.after, claim.open),
    ] {
        // Hosts that wait for a processor acknowledge more at a time, in steps that need more bytes.
        let high = if what == "before" || judges_time() { high } else { high * 1.5 };
        assert!((low..=high).contains(&value), "{name}, {what}: {value:.2} is not in {low} to {high}");
    }
}

#[test]
fn headers_of_real_traffic_shrink_as_claimed() {
    if !privilege::available("headers_of_real_traffic_shrink_as_claimed") {
        return;
    }
    println!("| traffic | packets | header, bytes | complete checksum | open checksum |");
    println!("| --- | --- | --- | --- | --- |");
    for timestamps in [false, true] {
        let pair = Pair::new(timestamps);
        for (version, ip_len) in [(0, 20.0), (1, 40.0)] {
            let more = if timestamps { 12.0 } else { 0.0 };
            let tcp = ip_len + 20.0 + more;
            let label = |what: &str| {
                let with = if timestamps { "with timestamps" } else { "no options" };
                format!("{what}, IPv{}, {with}", [4, 6][version])
            };
            // The minimum is the kind and the checksum; two timestamps are two bytes more.
            let claim = |max: f64| {
                let (min, max) = if timestamps { (3.0, max + 3.0) } else { (3.0, max) };
                Claim {
                    // RSTs have no options; acknowledgements of what comes after a loss have SACK blocks.
                    before: (tcp - 1.0, tcp + 6.0),
                    complete: (min, max),
                    open: (min - 2.0, max - 1.5),
                }
            };
            let packets = bulk_capture(&pair, version);
            row(&label("bulk, acknowledgements"), &packets, 1, version, 1000, &claim(6.9));
            row(&label("bulk, data"), &packets, 0, version, 2000, &claim(4.9));
            let packets = rpc_capture(&pair, version);
            row(&label("requests"), &packets, 0, version, 60, &claim(6.9));
            if !timestamps {
                let udp = ip_len + 8.0;
                let claim = Claim { before: (udp, udp), complete: (3.0, 4.0), open: (1.0, 2.0) };
                let packets = voice_capture(&pair, version);
                row(&format!("voice, IPv{}", [4, 6][version]), &packets, 0, version, 90, &claim);
            }
        }
    }
}

/// A count of a gateway's lanes, over all of them.
fn count(gateways: &Gateways, gateway: Gateway, of: fn(&Lane) -> u64) -> u64 {
    peer(gateways, gateway).lanes.iter().map(of).sum()
}

/// Four connections of either family at once: their packets take turns on the lanes.
#[test]
fn gateways_compress_single_packets_and_each_flow_keeps_its_context() {
    let test = "gateways_compress_single_packets_and_each_flow_keeps_its_context";
    for encryption in [Encryption::Tls, Encryption::None] {
        let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(encryption)) else { return };
        let responses: u64 = std::thread::scope(|scope| {
            let clients: Vec<_> = plans(&scene)
                .into_iter()
                .flat_map(|plan| [plan.x; 4])
                .map(|server| {
                    let server =
                        RpcServer::start(&scene.x, SocketAddr::new(server, 0), "cubic").expect("server");
                    let pacing = Pacing::ClosedLoop(Duration::from_millis(2));
                    let settings =
                        RpcSettings { pacing, ..RpcSettings::new(server.address(), "cubic", SECOND) };
                    let scene = &scene;
                    scope.spawn(move || {
                        let report = scene.a.run(|| request_response(&settings, &Stop::new()));
                        drop(server);
                        report.latencies.len() as u64
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().expect("a client")).sum()
        });
        wait_for("all that was compressed is restored", 5 * SECOND, &gateways, || {
            count(&gateways, Gateway::T1, |lane| lane.compressed)
                == count(&gateways, Gateway::T2, |lane| lane.restored)
        });
        let sent = |of| count(&gateways, Gateway::T1, of);
        let (compressed, whole) = (sent(|lane| lane.compressed), sent(|lane| lane.uncompressed));
        let (before, after) = (sent(|lane| lane.headers_in_bytes), sent(|lane| lane.headers_out_bytes));
        println!("{responses} responses: {compressed} compressed, {whole} whole, {before} to {after} bytes");
        // Enough for the means below, also on a busy machine.
        assert!(responses > 60, "{responses}");
        assert!(compressed >= responses, "each request is a packet: {compressed} for {responses} responses");
        // Eight flows; whatever else there is makes no connection.
        assert!(whole <= 8 * 6, "{whole} whole");
        let (mean_before, packets) = (before as f64 / (compressed + 8) as f64, (compressed + 8) as f64);
        assert!((50.0..75.0).contains(&mean_before), "{mean_before}");
        assert!((3.0..12.0).contains(&(after as f64 / packets)), "{after} bytes for {packets} packets");
        let received = peer(&gateways, Gateway::T2).received;
        assert_eq!(received.refused(), 0, "{received:?}");
    }
}
