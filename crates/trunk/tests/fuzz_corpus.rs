//! Runs the bodies of the fuzz targets `frame_decoder`, `header_decompressor`, `datagram_reassembler` and `stream_deframer` over their committed
//! corpora and over streams near them.

#![allow(clippy::disallowed_methods, reason = "the corpus is in files; the crate under test reads none")]

#[path = "../../../fuzz/bodies/datagram_reassembler.rs"]
mod datagram_reassembler;
#[path = "../../../fuzz/bodies/frame_decoder.rs"]
mod frame_decoder;
#[path = "../../../fuzz/bodies/header_decompressor.rs"]
mod header_decompressor;
#[path = "../../../fuzz/bodies/stream_deframer.rs"]
mod stream_deframer;

use std::path::PathBuf;
use std::{fs, io};

use trunkline_packet::build::{self, Ip, Tcp};
use trunkline_packet::{Offload, TcpFlags};
use trunkline_trunk::compress::{Compression, Compressor, MAX_FRAMED, Single};
use trunkline_trunk::datagram::Packer;
use trunkline_trunk::frame::{FrameHead, MAX_HEAD};
use trunkline_units::Rng;

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn frame((packet, offload): (Vec<u8>, Offload)) -> Vec<u8> {
    let mut room = [0; MAX_HEAD];
    let len = FrameHead { packet_len: packet.len(), offload }.encode_before(&mut room);
    [&room[MAX_HEAD - len..], &packet].concat()
}

/// What the corpus is made of.
fn entries() -> Vec<(String, Vec<u8>)> {
    let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::CWR;
    let tcp = Tcp { flags, options: &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2], ..Tcp::default() };
    let mut entries = Vec::new();
    for (version, ip) in [("v4", Ip::v4()), ("v6", Ip::v6())] {
        let plain = |packet| frame((packet, Offload::None));
        for (name, bytes) in [
            ("tcp", plain(build::tcp(&ip, &tcp, b"data"))),
            ("tcp_checksum", frame(build::tcp_offloaded(&ip, &tcp, b"data", 100))),
            ("tcp_super", frame(build::tcp_offloaded(&ip, &tcp, &[9; 250], 100))),
            ("udp_super", frame(build::udp_offloaded(&ip, (5, 6), &[9; 250], 100))),
            ("icmp", plain(build::icmp_echo(&ip, 1, 2, b"ping"))),
        ] {
            entries.push((format!("{version}_{name}"), bytes));
        }
    }
    let all = entries.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    entries.push(("a_stream".to_owned(), all));
    entries.push(("unknown_kind".to_owned(), vec![0, 100, 0x13]));
    entries.push(("too_short".to_owned(), vec![0, 19, 0x01]));
    entries
}

/// Frames of flows with compressed headers: each a stream that makes its context first.
fn compressed_entries() -> Vec<(String, Vec<u8>)> {
    let stamps = |n: u8| [1, 1, 8, 10, 0, 0, 0, n, 0, 0, 0, n / 2];
    let sack = |n: u8| [1, 1, 5, 18, 0, 0, n, 0, 0, 0, n, 9, 0, 0, n, 40, 0, 0, n, 80];
    let options = |n: u8, of: u8| match of {
        0 => vec![],

        2 if n.is_multiple_of(2) => [&stamps(n)[..], &sack(n)].concat(),
        1 | 2 => stamps(n).to_vec(),
        _ => sack(n).to_vec(),
    };
    let mut entries = Vec::new();
    for (version, ip) in [("v4", Ip::v4()), ("v6", Ip::v6())] {
        for (name, of) in [("plain", 0), ("stamps", 1), ("stamps_sack", 2), ("sack", 3), ("udp", 4)] {
            for open in [false, true] {
                let packets = (0..4_u8).map(|n| {
                    let ip = Ip { id: u16::from(n), hop_limit: 64 - n / 3, ..ip };
                    let options = options(n, of);
                    let (ack, seq) = (u32::from(n) * 2896, u32::from(n) * 4);
                    let tcp =
                        Tcp { ack, seq, window: 500 - u16::from(n), options: &options, ..Tcp::default() };
                    match (of == 4, open) {
                        (true, true) => build::udp_offloaded(&ip, (5, 6), b"data", 100),
                        (true, false) => (build::udp(&ip, (5, 6), b"data"), Offload::None),
                        (false, true) => build::tcp_offloaded(&ip, &tcp, b"data", 100),
                        (false, false) => (build::tcp(&ip, &tcp, b"data"), Offload::None),
                    }
                });
                let mut compressor = Compressor::new(Compression::On, 1);
                let stream = packets.flat_map(|packet| compressed(&mut compressor, &packet)).collect();
                let how = if open { "open" } else { "complete" };
                entries.push((format!("{version}_{name}_{how}"), stream));
            }
        }
    }
    entries.push(("unknown_context".to_owned(), vec![0, 1, 0xc0, 7]));
    entries.push(("no_context".to_owned(), vec![0, 0, 0x80]));
    entries
}

fn compressed(compressor: &mut Compressor, (packet, offload): &(Vec<u8>, Offload)) -> Vec<u8> {
    let mut out = [0; MAX_FRAMED];
    let framed = compressor.frame(&Single { head: packet, len: packet.len(), offload: *offload }, &mut out);
    [&out[..framed.len], &packet[framed.replaced..]].concat()
}

/// Datagrams in order, out of order, and with one missing or late.
fn datagram_entries() -> Vec<(String, Vec<u8>)> {
    let mut packer = Packer::new(1200);
    for length in [100, 1500, 900, 4000, 20, 3000, 1160] {
        let packet = build::udp(&Ip::v4(), (5, 6), &vec![7; length]);
        packer.put(&[&frame((packet, Offload::None))]);
    }
    let mut pieces = Vec::new();
    let bytes = packer.take(&mut pieces, Vec::new());
    let datagrams: Vec<&[u8]> = pieces.iter().map(|piece| &bytes[piece.start..piece.end]).collect();
    let stream = |order: &[usize], wait: u8| {
        let one =
            |at: &usize| [&(datagrams[*at].len() as u16).to_be_bytes()[..], &[wait], datagrams[*at]].concat();
        order.iter().flat_map(one).collect::<Vec<u8>>()
    };
    let all: Vec<usize> = (0..datagrams.len()).collect();
    let backwards: Vec<usize> = all.iter().rev().copied().collect();
    let swapped: Vec<usize> = all.iter().map(|at| (at ^ 1).min(datagrams.len() - 1)).collect();
    vec![
        ("in_order".to_owned(), stream(&all, 1)),
        ("backwards".to_owned(), stream(&backwards, 0)),
        ("swapped".to_owned(), stream(&swapped, 2)),
        ("one_missing".to_owned(), stream(&[&all[..2], &all[3..]].concat(), 1)),
        ("late".to_owned(), stream(&all, 100)),
    ]
}

/// Streams of frames that depend on no other, and the length of the pieces that they come in.
fn stream_entries() -> Vec<(String, Vec<u8>)> {
    let packets = [100, 1500, 20, 9000, 1160].map(|length| build::udp(&Ip::v4(), (5, 6), &vec![7; length]));
    let stream: Vec<u8> = packets.iter().flat_map(|packet| frame((packet.clone(), Offload::None))).collect();
    let cut = |piece: u16| [&piece.to_be_bytes()[..], &stream].concat();
    vec![
        ("bytes".to_owned(), cut(1)),
        ("heads".to_owned(), cut(7)),
        ("packets".to_owned(), cut(1400)),
        ("dependent".to_owned(), [&cut(500)[..], &[0, 20, 0x80]].concat()),
    ]
}

/// A target's name, its body, and what its corpus is made of.
type Target = (&'static str, fn(&[u8]), fn() -> Vec<(String, Vec<u8>)>);

const TARGETS: [Target; 4] = [
    ("datagram_reassembler", datagram_reassembler::run, datagram_entries),
    ("frame_decoder", frame_decoder::run, entries),
    ("header_decompressor", header_decompressor::run, compressed_entries),
    ("stream_deframer", stream_deframer::run, stream_entries),
];

#[test]
fn the_corpora_hold_the_contracts() -> io::Result<()> {
    for (target, run, entries) in TARGETS {
        let mut count = 0;
        for file in fs::read_dir(directory(target))? {
            run(&fs::read(file?.path())?);
            count += 1;
        }
        assert!(count >= entries().len(), "{count} files in the corpus of {target}");
    }
    Ok(())
}

#[test]
fn streams_with_bytes_changed_hold_the_contracts() {
    for (target, run, entries) in TARGETS {
        let mut rng = Rng::new(1, target);
        let entries = entries();
        for _ in 0..20_000 {
            let mut bytes = entries[rng.below(entries.len() as u64) as usize].1.clone();
            for _ in 0..rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.below(256) as u8;
            }
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
            run(&bytes);
        }
    }
}

#[test]
#[ignore = "writes the corpora anew"]
fn write_corpora() -> io::Result<()> {
    for (target, _, entries) in TARGETS {
        fs::create_dir_all(directory(target))?;
        entries().into_iter().try_for_each(|(name, bytes)| fs::write(directory(target).join(name), bytes))?;
    }
    Ok(())
}
