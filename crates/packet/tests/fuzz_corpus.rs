//! Runs the body of the fuzz target `packet_views` over its committed corpus and over packets near it.

#![allow(clippy::disallowed_methods, reason = "the corpus is in files; the crate under test reads none")]

#[path = "../../../fuzz/bodies/packet_views.rs"]
mod packet_views;

use std::path::PathBuf;
use std::{fs, io};

use proptest::prelude::*;
use trunkline_packet::build::{self, Ip, Tcp};
use trunkline_packet::{Offload, TcpFlags, protocol};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/packet_views")
}

fn entry(offload: Offload, keep: u8, packet: &[u8]) -> Vec<u8> {
    [&offload.to_vnet()[..], &[keep], packet].concat()
}

/// What the corpus is made of.
fn entries() -> Vec<(String, Vec<u8>)> {
    let mut entries = Vec::new();
    for (version, ip) in [("v4", Ip::v4()), ("v6", Ip::v6())] {
        let mut add = |name: &str, keep: u8, (packet, offload): (Vec<u8>, Offload)| {
            entries.push((format!("{version}_{name}"), entry(offload, keep, &packet)));
        };
        let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::CWR;
        let tcp = Tcp { flags, options: &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2], ..Tcp::default() };
        add("tcp", 1, (build::tcp(&ip, &tcp, b"data"), Offload::None));
        add("tcp_checksum", 1, build::tcp_offloaded(&ip, &tcp, b"data", 100));
        add("tcp_super", 2, build::tcp_offloaded(&ip, &tcp, &[9; 250], 100));
        add("udp", 1, (build::udp(&ip, (5, 6), b"data"), Offload::None));
        add("udp_checksum", 1, build::udp_offloaded(&ip, (5, 6), b"data", 100));
        add("udp_super", 1, build::udp_offloaded(&ip, (5, 6), &[9; 250], 100));
        add("icmp", 1, (build::icmp_echo(&ip, 1, 2, b"ping"), Offload::None));
    }
    let udp = &build::udp(&Ip::v6(), (5, 6), b"data")[40..];
    for (name, next, extension) in [
        ("v6_options", protocol::DESTINATION_OPTIONS, [protocol::UDP, 0, 1, 4, 0, 0, 0, 0]),
        ("v6_first_fragment", protocol::FRAGMENT, [protocol::UDP, 0, 0, 1, 0, 0, 0, 7]),
        ("v6_later_fragment", protocol::FRAGMENT, [protocol::UDP, 0, 0, 8, 0, 0, 0, 7]),
    ] {
        let packet = build::ip(&Ip::v6(), next, &[&extension, udp].concat());
        entries.push((name.to_owned(), entry(Offload::None, 1, &packet)));
    }
    entries
}

#[test]
fn the_corpus_holds_the_contract() -> io::Result<()> {
    let mut count = 0;
    for file in fs::read_dir(directory())? {
        packet_views::run(&fs::read(file?.path())?);
        count += 1;
    }
    assert!(count >= entries().len(), "{count} files in the corpus");
    Ok(())
}

#[test]
#[ignore = "writes the corpus anew"]
fn write_corpus() -> io::Result<()> {
    entries().into_iter().try_for_each(|(name, bytes)| fs::write(directory().join(name), bytes))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_with_bytes_changed_hold_the_contract(
        which: prop::sample::Index, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = entries().swap_remove(which.index(entries().len())).1;
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        packet_views::run(&bytes);
    }

    #[test]
    fn arbitrary_bytes_hold_the_contract(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        packet_views::run(&bytes);
    }
}
