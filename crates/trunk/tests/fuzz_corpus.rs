//! Runs the body of the fuzz target `frame_decoder` over its committed corpus and over streams near it.

#![allow(clippy::disallowed_methods, reason = "the corpus is in files; the crate under test reads none")]

#[path = "../../../fuzz/bodies/frame_decoder.rs"]
mod frame_decoder;

use std::path::PathBuf;
use std::{fs, io};

use trunkline_packet::build::{self, Ip, Tcp};
use trunkline_packet::{Offload, TcpFlags};
use trunkline_trunk::frame::{FrameHead, MAX_HEAD};
use trunkline_units::Rng;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/frame_decoder")
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

#[test]
fn the_corpus_holds_the_contract() -> io::Result<()> {
    let mut count = 0;
    for file in fs::read_dir(directory())? {
        frame_decoder::run(&fs::read(file?.path())?);
        count += 1;
    }
    assert!(count >= entries().len(), "{count} files in the corpus");
    Ok(())
}

#[test]
fn streams_with_bytes_changed_hold_the_contract() {
    let mut rng = Rng::new(1, "frames");
    let entries = entries();
    for _ in 0..20_000 {
        let mut bytes = entries[rng.below(entries.len() as u64) as usize].1.clone();
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.below(256) as u8;
        }
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        frame_decoder::run(&bytes);
    }
}

#[test]
#[ignore = "writes the corpus anew"]
fn write_corpus() -> io::Result<()> {
    fs::create_dir_all(directory())?;
    entries().into_iter().try_for_each(|(name, bytes)| fs::write(directory().join(name), bytes))
}
