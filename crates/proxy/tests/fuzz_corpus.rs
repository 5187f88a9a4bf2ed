//! Runs the body of the fuzz target `diverted_packets` over its committed corpus and over packets near it.

#[path = "../../../fuzz/bodies/diverted_packets.rs"]
mod diverted_packets;

use std::path::PathBuf;
use std::{fs, io};

use trunkline_packet::build::{self, Ip, Tcp};
use trunkline_packet::{Headers, TcpFlags, Unreachable, unreachable};
use trunkline_units::Rng;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/diverted_packets")
}

/// What the corpus is made of.
fn entries() -> Vec<(String, Vec<u8>)> {
    let mut entries = Vec::new();
    for (version, ip) in [("v4", Ip::v4()), ("v6", Ip::v6())] {
        let options = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        let tcp = |flags| Tcp { flags, options: &options, ..Tcp::default() };
        let syn = build::tcp(&ip, &tcp(TcpFlags::SYN), b"");
        let headers = Headers::parse(&syn, syn.len()).expect("a packet");
        for (name, why) in [("network", Unreachable::Network), ("host", Unreachable::Host)] {
            let error = unreachable(why, &syn, &headers, ip.destination).expect("an error");
            entries.push((format!("{version}_{name}"), error));
        }
        entries.push((format!("{version}_early_data"), build::tcp(&ip, &tcp(TcpFlags::SYN), b"early")));
        entries.push((format!("{version}_data"), build::tcp(&ip, &tcp(TcpFlags::ACK), b"data")));
        entries.push((format!("{version}_udp"), build::udp(&ip, (5, 6), b"data")));
        entries.push((format!("{version}_syn"), syn));
    }
    entries
}

#[test]
fn the_corpus_holds_the_contract() -> io::Result<()> {
    let mut count = 0;
    for file in fs::read_dir(directory())? {
        diverted_packets::run(&fs::read(file?.path())?);
        count += 1;
    }
    assert!(count >= entries().len(), "{count} files in the corpus");
    Ok(())
}

#[test]
fn packets_near_the_corpus_hold_it_too() {
    let mut rng = Rng::new(1, "diverted packets");
    let entries = entries();
    for _ in 0..20_000 {
        let mut packet = entries[rng.below(entries.len() as u64) as usize].1.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(packet.len() as u64) as usize;
            packet[at] = rng.below(256) as u8;
        }
        packet.truncate(rng.below(2 * packet.len() as u64).max(1) as usize);
        diverted_packets::run(&packet);
    }
}

#[test]
#[ignore = "writes the first inputs of the corpus"]
fn write_corpus() -> io::Result<()> {
    fs::create_dir_all(directory())?;
    for (name, bytes) in entries() {
        fs::write(directory().join(name), bytes)?;
    }
    Ok(())
}
