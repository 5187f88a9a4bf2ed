//! Captures are read back: every checksum, every byte of the sequence space, every packet of the link.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use trunkline_link::{LinkSettings, Loss};
use trunkline_packet::{Headers, TcpFlags, TcpView, checksum, pcap, protocol};
use trunkline_sim::{CapturePoint, Network, TcpTraffic, UdpTraffic, both};
use trunkline_tcp::Preset;
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern, Timing};

use crate::shared::Shared;

/// The captures of a link that loses packets: as they are sent and received, and the way back.
struct Run {
    sent: Vec<u8>,
    received: Vec<u8>,
    back: Vec<u8>,
    delivered: u64,
    bytes: u64,
}

fn run(mtu: u32) -> Run {
    let link = LinkSettings {
        mtu,
        ..LinkSettings::new(Rate::from_mbit(5.0), Duration::from_millis(20)).loss(Loss::Uniform(0.02))
    };
    let mut network = Network::new(5);
    let (client, server) = (network.host("client"), network.host("server"));
    let [there, back] = network.connect(client, server, &link, &link);
    let files: [Shared; 3] = std::array::from_fn(|_| Shared::default());
    let points =
        [(there, CapturePoint::Sent), (there, CapturePoint::Received), (back, CapturePoint::Received)];
    for ((link, point), file) in points.into_iter().zip(&files) {
        network.capture(link, point, Box::new(file.clone())).expect("memory");
    }
    let (start, stop) = (Duration::ZERO, None);
    let stagger = Distribution::Fixed(0.3);
    let pattern = Pattern::Bulk { flows: 3, bytes: Some(200_000), stagger };
    let tcp = both(Preset::Linux6.settings());
    let source = network.tcp(TcpTraffic { client, server, port: 80, dscp: 10, tcp, start, stop, pattern });
    let timing = Timing::Constant(Rate::from_mbit(0.1));
    network.udp(UdpTraffic { from: client, to: server, port: 53, dscp: 0, data: 300, start, stop, timing });
    network.run_until(Instant::from_millis(20_000));
    network.finish_captures().expect("memory");
    let [sent, received, back] = files.map(|file| file.bytes());
    let delivered = network.link_state(there).stats().delivered;
    let bytes = network.transfers(source).iter().map(|transfer| transfer.bytes).sum();
    Run { sent, received, back, delivered, bytes }
}

fn records(file: &[u8]) -> Vec<pcap::Record<'_>> {
    pcap::Reader::new(file).expect("a capture").map(|record| record.expect("a whole record")).collect()
}

/// The sum over header and data, which is zeros, with the checksums that are in them: 0 if they are right.
fn sums(record: &pcap::Record) -> (u16, u16) {
    let (ip, transport) = record.bytes.split_at(20);
    let address = |at: usize| IpAddr::from([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    let length = record.packet_len - 20;
    let total = checksum::pseudo_header(address(12), address(16), ip[9], length) + checksum::sum(transport);
    (!checksum::fold(checksum::sum(ip)), !checksum::fold(total))
}

#[test]
fn every_header_has_its_length_and_its_checksums() {
    let run = run(1500);
    let mut kinds = BTreeSet::new();
    for file in [&run.sent, &run.received, &run.back] {
        let mut last = 0;
        let mut numbers = BTreeSet::new();
        for record in records(file) {
            assert_eq!(sums(&record), (0, 0), "{record:?}");
            assert_eq!(u32::from(u16::from_be_bytes([record.bytes[2], record.bytes[3]])), record.packet_len);
            let headers = Headers::parse(record.bytes, record.packet_len as usize).expect("IP");
            kinds.insert(headers.protocol);
            assert!(record.time_nanos >= last, "in order of time");
            last = record.time_nanos;
            assert!(numbers.insert([record.bytes[4], record.bytes[5]]), "a packet is there once");
        }
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [protocol::TCP, protocol::UDP]);
    assert_eq!(records(&run.received).len() as u64, run.delivered, "what is lost is not received");
    let (sent, received) = (records(&run.sent).len(), records(&run.received).len());
    assert!(received < sent && received * 20 > sent * 19, "{received} of {sent}");
}

#[test]
fn a_connection_is_there_from_syn_to_fin_without_a_gap() {
    let run = run(1500);
    let mut bytes = 0;
    for port in 10_001..10_004_u16 {
        // Where each byte of the sequence space was seen, from SYN on.
        let mut seen = BTreeSet::new();
        let mut first = None;
        let mut flags = [0; 2];
        for record in records(&run.sent) {
            if record.bytes[9] != protocol::TCP || record.bytes[20..22] != port.to_be_bytes() {
                continue;
            }
            let tcp = TcpView::new(&record.bytes[20..]).expect("a TCP header");
            let data = record.packet_len - 20 - tcp.header_len() as u32;
            let syn = tcp.flags().contains(TcpFlags::SYN);
            let fin = tcp.flags().contains(TcpFlags::FIN);
            flags[0] += u32::from(syn);
            flags[1] += u32::from(fin);
            if syn {
                assert!(tcp.options().starts_with(&[2, 4, 5, 180]), "MSS 1460 is offered");
            }
            let start = tcp.seq().wrapping_sub(*first.get_or_insert(tcp.seq()));
            seen.extend(start..start + data + u32::from(syn) + u32::from(fin));
        }
        assert!(flags.iter().all(|count| *count >= 1), "SYN and FIN: {flags:?}");
        assert_eq!(seen.iter().next_back().map(|last| *last as usize + 1), Some(seen.len()), "no gap");
        bytes += seen.len() as u64 - 2;
        let answers =
            records(&run.back).iter().filter(|record| record.bytes[22..24] == port.to_be_bytes()).count();
        assert!(answers > 70, "{answers}");
    }
    assert_eq!(bytes, run.bytes);
}

#[test]
fn fragments_are_captured_as_they_are() {
    let run = run(576);
    let records = records(&run.sent);
    assert!(records.iter().all(|record| record.packet_len <= 576));
    let mut fragments = 0;
    for record in &records {
        let field = u16::from_be_bytes([record.bytes[6], record.bytes[7]]);
        assert_eq!(sums(record).0, 0);
        fragments += usize::from(field & 0x1fff > 0);
        assert!(field & 0x2000 == 0 || (record.packet_len - 20) % 8 == 0);
    }
    assert!(fragments > 500, "{fragments} of {}", records.len());
}
