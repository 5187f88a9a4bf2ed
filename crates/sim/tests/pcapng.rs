//! A capture of several links in one file: read back block by block, each packet held against the links' counters.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_link::{LinkSettings, Loss};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{CapturedLink, LinkId, Network, TcpTraffic, both};
use trunkline_tcp::Preset;
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern};

use crate::shared::Shared;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const COMMENT: u16 = 1;
const NAME: u16 = 2;

struct Packet {
    interface: usize,
    time_nanos: u64,
    length: u32,
    bytes: Vec<u8>,
    comment: String,
}

#[derive(Default)]
struct File {
    comments: Vec<String>,
    interfaces: Vec<String>,
    packets: Vec<Packet>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The options from `at` on, up to the one that ends them.
fn options(block: &[u8], mut at: usize) -> Vec<(u16, String)> {
    let mut all = Vec::new();
    while at + 4 <= block.len() {
        let (code, length) = (word(block, at) as u16, (word(block, at) >> 16) as usize);
        if code == 0 {
            break;
        }
        all.push((code, String::from_utf8_lossy(&block[at + 4..at + 4 + length]).into_owned()));
        at += 4 + length.next_multiple_of(4);
    }
    all
}

fn of(options: Vec<(u16, String)>, code: u16) -> Vec<String> {
    options.into_iter().filter(|(own, _)| *own == code).map(|(_, text)| text).collect()
}

fn read(mut rest: &[u8]) -> File {
    let mut file = File::default();
    while !rest.is_empty() {
        let length = word(rest, 4) as usize;
        assert!(length.is_multiple_of(4) && length >= 12, "{length}");
        assert_eq!(word(rest, length - 4) as usize, length, "both lengths of a block are the same");
        let (kind, body) = (word(rest, 0), &rest[8..length - 4]);
        match kind {
            SECTION => file.comments = of(options(body, 16), COMMENT),
            INTERFACE => file.interfaces.extend(of(options(body, 8), NAME)),
            PACKET => {
                let kept = word(body, 12) as usize;
                file.packets.push(Packet {
                    interface: word(body, 0) as usize,
                    time_nanos: u64::from(word(body, 4)) << 32 | u64::from(word(body, 8)),
                    length: word(body, 16),
                    bytes: body[20..20 + kept].to_vec(),
                    comment: of(options(body, 20 + kept.next_multiple_of(4)), COMMENT).concat(),
                });
            }
            other => panic!("a block of kind {other}"),
        }
        rest = &rest[length..];
    }
    file
}

fn network() -> (Network, [LinkId; 2]) {
    let queue = QueueSettings::TailDrop(Limits { segments: 20, bytes: u64::MAX });
    let link = LinkSettings::new(Rate::from_mbit(5.0), Duration::from_millis(20))
        .loss(Loss::Uniform(0.01))
        .queue(queue);
    let mut network = Network::new(11);
    let (client, server) = (network.host("client"), network.host("server"));
    let links = network.connect(client, server, &link, &link);
    let pattern = Pattern::Bulk { flows: 4, bytes: None, stagger: Distribution::Fixed(0.1) };
    let tcp = both(Preset::Linux6.settings());
    let (start, stop) = (Duration::ZERO, None);
    network.tcp(TcpTraffic { client, server, port: 80, dscp: 0, tcp, start, stop, pattern });
    (network, links)
}

#[test]
fn every_packet_of_every_link_is_there_once_with_what_became_of_it() {
    let end = Instant::from_millis(20_000);
    let (mut plain, _) = network();
    plain.run_until(end);

    let (mut network, [there, back]) = network();
    let captured = |link, name: &str| CapturedLink {
        link,
        name: name.to_owned(),
        description: "5 Mbit/s, 20 ms".to_owned(),
    };
    let shared = Shared::default();
    let comments = ["experiment: none".to_owned(), "seed 11".to_owned()];
    let links = [captured(there, "core"), captured(back, "core.back")];
    network.capture_links(&links, ("trunkline", &comments), Box::new(shared.clone())).expect("memory");
    network.run_until(end);
    network.finish_captures().expect("memory");
    assert_eq!(network.digest(), plain.digest(), "a capture changes nothing");

    let file = read(&shared.bytes());
    assert_eq!(file.comments, comments);
    assert_eq!(file.interfaces, ["core", "core lost", "core.back", "core.back lost"]);
    let mut counts: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    let (mut last, mut waited) = (0, 0_u64);
    for packet in &file.packets {
        assert!(packet.time_nanos >= last, "in order of time, over all links");
        last = packet.time_nanos;
        let kind = match packet.comment.as_str() {
            "" => "sent",
            comment if comment.starts_with("waited ") => {
                let time = comment["waited ".len()..].strip_suffix(" ms").expect("milliseconds");
                let time: f64 = time.parse().expect("a number");
                // Twenty packets of 1500 bytes, and the one that is being sent, take 50.4 ms.
                assert!((0.0..50.5).contains(&time), "{comment}");
                waited += 1;
                "sent"
            }
            other => other,
        };
        *counts.entry((packet.interface, kind)).or_default() += 1;
        assert_eq!(u32::from(u16::from_be_bytes([packet.bytes[2], packet.bytes[3]])), packet.length);
    }
    for (interface, link) in [(0, there), (2, back)] {
        let state = network.link_state(link);
        let (queue, stats) = (state.queue(), state.stats());
        let count = |place, kind| counts.get(&(place, kind)).copied().unwrap_or(0);
        assert_eq!(count(interface, "sent"), queue.segments_out);
        assert_eq!(count(interface + 1, "lost on the way"), stats.lost);
        assert_eq!(count(interface + 1, "dropped by the queue: segment_limit"), queue.dropped_total());
    }
    let [out, lost, dropped] = [there, back].map(|link| network.link_state(link)).iter().fold(
        [0; 3],
        |[out, lost, dropped], link| {
            [
                out + link.queue().segments_out,
                lost + link.stats().lost,
                dropped + link.queue().dropped_total(),
            ]
        },
    );
    assert_eq!(file.packets.len() as u64, out + lost + dropped, "and no others");
    assert!(lost > 30 && dropped > 10, "{lost} lost, {dropped} dropped");
    assert!(waited > out / 4, "{waited} of {out} waited");
}
