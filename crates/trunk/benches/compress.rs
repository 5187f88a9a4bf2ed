//! The cost of header compression at either end of a lane: warm, with more contexts than the caches hold, and
//! where it comes to nothing. `cargo bench -p trunkline-trunk --bench compress`.

#![allow(clippy::disallowed_types, reason = "a benchmark reads the clock; the crate under test does not")]

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use trunkline_packet::Offload;
use trunkline_packet::build::{self, Ip, Tcp};
use trunkline_trunk::compress::{
    Compression, Compressor, Decompressor, MAX_FRAMED, MAX_HEADER, Single, Whole,
};
use trunkline_trunk::frame::Frame;

/// Packets compressed, then restored, at a time: their frames stay in the second cache.
const BATCH: usize = 1 << 11;
/// Batches that are measured.
const BATCHES: usize = 400;
const STAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];

/// An acknowledgement with timestamps whose checksum is open: what changes in it touches no sum, so that the
/// benchmark itself costs little.
struct Flow {
    packet: Vec<u8>,
    offload: Offload,
    lane: usize,
}

impl Flow {
    fn new(number: usize, lane: usize, ip: Ip) -> Self {
        let ports = (1024 + (number % 60_000) as u16, 80 + (number / 60_000) as u16);
        let (packet, offload) =
            build::tcp_offloaded(&ip, &Tcp { ports, options: &STAMPS, ..Tcp::default() }, &[], 1000);
        Flow { packet, offload, lane }
    }

    fn step(&mut self, count: u32) {
        let start = self.packet.len() - 32;
        self.packet[start + 8..start + 12].copy_from_slice(&(count * 2896).to_be_bytes());
        self.packet[start + 24..start + 28].copy_from_slice(&count.to_be_bytes());
        self.packet[start + 28..start + 32].copy_from_slice(&(count + 7).to_be_bytes());
    }
}

/// What is measured: so many lanes of so many flows each, and what most of their packets must come to.
struct Case {
    name: &'static str,
    ip: Ip,
    lanes: usize,
    flows: usize,
    compression: Compression,
    expect: Expect,
}

#[derive(PartialEq)]
enum Expect {
    Compressed,
    Context,
    Whole,
}

fn main() {
    // Linux sends 0 as the identification of most packets that must not be fragmented.
    let (v4, v6) = (Ip { id: 0, ..Ip::v4() }, Ip::v6());
    let on = Compression::On;
    println!(
        "header compression, ns per packet, acknowledgements with timestamps; median of {BATCHES} batches"
    );
    println!("{:<44} {:>9} {:>9} {:>7}", "", "compress", "restore", "bytes");
    for case in [
        Case {
            name: "IPv4, one flow",
            ip: v4,
            lanes: 1,
            flows: 1,
            compression: on,
            expect: Expect::Compressed,
        },
        Case {
            name: "IPv6, one flow",
            ip: v6,
            lanes: 1,
            flows: 1,
            compression: on,
            expect: Expect::Compressed,
        },
        Case {
            name: "IPv4, 100 flows of a lane",
            ip: v4,
            lanes: 1,
            flows: 100,
            compression: on,
            expect: Expect::Compressed,
        },
        Case {
            name: "IPv4, 100 flows of each of 500 lanes",
            ip: v4,
            lanes: 500,
            flows: 100,
            compression: on,
            expect: Expect::Compressed,
        },
        Case {
            name: "IPv4, 20 000 flows of a lane: contexts, pauses",
            ip: v4,
            lanes: 1,
            flows: 20_000,
            compression: on,
            expect: Expect::Context,
        },
        Case {
            name: "IPv4, switched off",
            ip: v4,
            lanes: 1,
            flows: 1,
            compression: Compression::Off,
            expect: Expect::Whole,
        },
    ] {
        let (compress, restore, bytes) = measure(&case);
        println!("{:<44} {compress:>9.1} {restore:>9.1} {bytes:>7.1}", case.name);
    }
}

/// Nanoseconds a packet to compress and to restore, and bytes that precede the payload but for the length.
fn measure(case: &Case) -> (f64, f64, f64) {
    let mut lanes: Vec<_> =
        (0..case.lanes).map(|_| (Compressor::new(case.compression, 1), Decompressor::new())).collect();
    let total = case.lanes * case.flows;
    // Flows of one lane do not follow each other: between two visits to a lane all others were visited.
    let mut flows: Vec<Flow> = (0..total).map(|n| Flow::new(n, n % case.lanes, case.ip)).collect();
    let mut frames = vec![([0; MAX_FRAMED], 0_usize); BATCH];
    let (mut compressing, mut restoring, mut bytes) = (Vec::new(), Vec::new(), 0);
    // What comes before makes the contexts, twice over.
    let warming = (2 * total).div_ceil(BATCH);
    let mut at = 0;
    for batch in 0..warming + BATCHES {
        let start = Clock::now();
        for (n, (out, len)) in (at..).zip(&mut frames) {
            let flow = &mut flows[n % total];
            flow.step((n / total) as u32 + 1);
            let Flow { packet, offload, lane } = flow;
            let single = Single { head: packet, len: packet.len(), offload: *offload };
            *len = lanes[*lane].0.frame(&single, out).len;
        }
        let compressed = start.elapsed();
        let start = Clock::now();
        for (n, (out, len)) in (at..).zip(&frames) {
            let flow = &flows[n % total];
            let (frame, head_len) = Frame::decode(&out[..*len]).expect("a frame").expect("all of its head");
            let decompressor = &mut lanes[flow.lane].1;
            match frame {
                Frame::Packet { head, context: Some(context) } => {
                    decompressor.establish(context, &head, &flow.packet).expect("a context");
                }
                Frame::Packet { context: None, .. }
                | Frame::Report { .. }
                | Frame::Number { .. }
                | Frame::Order { .. } => {}
                Frame::Compressed { bits, len: content } => {
                    let mut header = [0; MAX_HEADER];
                    let restored = decompressor.restore(bits, &out[head_len..*len], content, &mut header);
                    black_box((restored.expect("a header"), &header));
                }
            }
        }
        at += BATCH;
        if batch >= warming {
            compressing.push(compressed);
            restoring.push(start.elapsed());
            bytes += frames.iter().map(|(_, len)| len - 2).sum::<usize>();
        }
    }
    let (mut compressed, mut contexts) = (0, 0);
    for (compressor, _) in &lanes {
        compressed += compressor.stats().compressed;
        contexts += compressor.stats().whole(Whole::Context);
    }
    let came_to = match (compressed, contexts) {
        (0, 0) => Expect::Whole,
        _ if compressed > contexts => Expect::Compressed,
        _ => Expect::Context,
    };
    assert!(came_to == case.expect, "{}: {compressed} compressed, {contexts} contexts", case.name);
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e9 / BATCH as f64
    };
    (median(compressing), median(restoring), bytes as f64 / (BATCHES * BATCH) as f64)
}
