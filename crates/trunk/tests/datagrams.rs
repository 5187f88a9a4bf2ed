//! Frames through datagrams that are lost, delayed and swapped.

use std::collections::BTreeSet;
use std::time::Duration;

use trunkline_packet::Offload;
use trunkline_trunk::datagram::{DatagramError, HEAD_BYTES, MIN_DATAGRAM, Packer, Reassembler};
use trunkline_trunk::frame::{Frame, FrameError, FrameHead, MAX_HEAD};
use trunkline_units::{Instant, Rng};

/// A packet of so many bytes that knows its number.
fn packet(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; length];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn put(packer: &mut Packer, packet: &[u8]) {
    let mut room = [0; MAX_HEAD];
    let head = FrameHead { packet_len: packet.len(), offload: Offload::None };
    let start = MAX_HEAD - head.encode_before(&mut room);
    // In two parts, as a gateway has long packets.
    let (first, rest) = packet.split_at(packet.len() / 2);
    packer.put(&[&[&room[start..], first].concat(), rest]);
}

fn datagrams(packer: &mut Packer) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let bytes = packer.take(&mut pieces, Vec::new());
    pieces.iter().map(|piece| bytes[piece.start..piece.end].to_vec()).collect()
}

/// The numbers of the packets that a datagram completes.
fn receive(reassembler: &mut Reassembler, now: Instant, datagram: &[u8]) -> Result<Vec<u32>, DatagramError> {
    let mut got = Vec::new();
    reassembler.handle_datagram(now, datagram, |frame, content| {
        assert!(matches!(frame, Frame::Packet { .. }));
        let number = u32::from_be_bytes(content[..4].try_into().expect("four bytes"));
        assert!(content == packet(number, content.len()), "packet {number} is altered");
        got.push(number);
        Ok::<(), DatagramError>(())
    })?;
    Ok(got)
}

/// Which datagrams have a byte of each packet, by its place in the stream.
fn carriers(lengths: &[usize], all: &[Vec<u8>]) -> Vec<BTreeSet<usize>> {
    let mut places =
        all.iter().enumerate().flat_map(|(at, it)| std::iter::repeat_n(at, it.len() - HEAD_BYTES));
    lengths.iter().map(|length| places.by_ref().take(3 + length).collect()).collect()
}

#[test]
fn whatever_is_lost_or_swapped_every_packet_whose_datagrams_came_is_delivered_once() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed, "datagrams");
        let max = MIN_DATAGRAM + rng.below(9000) as usize;
        let mut packer = Packer::new(max);
        let (mut lengths, mut all) = (Vec::new(), Vec::new());
        for number in 0..400 {
            let length = 20 + (rng.next_u64() >> (48 + rng.below(15))) as usize;
            let length = length.min(65_535);
            put(&mut packer, &packet(number, length));
            lengths.push(length);
            if rng.chance(0.2) {
                all.extend(datagrams(&mut packer));
            }
        }
        all.extend(datagrams(&mut packer));
        assert!(all.iter().all(|datagram| datagram.len() <= max));
        let carriers = carriers(&lengths, &all);
        for (length, carriers) in lengths.iter().zip(&carriers) {
            assert!(carriers.len() == 1 || 3 + length > max - HEAD_BYTES, "a packet of {length} was cut");
        }
        let loss = [0.0, 0.02, 0.3][seed as usize % 3];
        let lost: BTreeSet<usize> = (0..all.len()).filter(|_| rng.chance(loss)).collect();
        let mut order: Vec<usize> = (0..all.len()).filter(|at| !lost.contains(at)).collect();
        if seed % 2 == 1 {
            for at in 0..order.len().saturating_sub(5) {
                order.swap(at, at + rng.below(5) as usize);
            }
        }
        let mut reassembler = Reassembler::default();
        let mut got = Vec::new();
        for (millis, at) in (0..).zip(order) {
            got.extend(
                receive(&mut reassembler, Instant::from_millis(millis / 20), &all[at]).expect("sound"),
            );
        }
        if seed % 2 == 0 {
            assert!(got.is_sorted(), "datagrams in order give packets in order");
        }
        got.sort_unstable();
        let whole = |number: &u32| carriers[*number as usize].is_disjoint(&lost);
        let expected: Vec<u32> = (0..400).filter(whole).collect();
        // Swapping moves a datagram by no more than a few hundred numbers; the rest of a frame that is further away is dropped.
        let missed = expected.iter().filter(|number| !got.contains(number)).count();
        assert!(got.iter().all(|number| expected.contains(number)) && got.windows(2).all(|w| w[0] != w[1]));
        assert!(missed == 0 || seed % 2 == 1 && missed <= 8, "seed {seed}: {missed} of {}", expected.len());
    }
}

/// The datagrams of packets of these lengths.
fn of(lengths: &[usize]) -> Vec<Vec<u8>> {
    let mut packer = Packer::new(1200);
    for (number, length) in (0..).zip(lengths) {
        put(&mut packer, &packet(number, *length));
    }
    datagrams(&mut packer)
}

#[test]
fn a_piece_waits_a_round_trip_and_no_longer() {
    let all = of(&[3000]);
    for (wait, delivered) in [(49, vec![0]), (51, vec![])] {
        let mut reassembler = Reassembler::default();
        reassembler.set_round_trip(Duration::from_millis(50));
        assert_eq!(receive(&mut reassembler, Instant::ZERO, &all[2]), Ok(vec![]));
        assert_eq!(receive(&mut reassembler, Instant::ZERO, &all[1]), Ok(vec![]));
        assert_eq!(receive(&mut reassembler, Instant::from_millis(wait), &all[0]), Ok(delivered));
        let dropped = if wait == 51 { 2 } else { 0 };
        assert_eq!(reassembler.stats().dropped, dropped);
    }
}

#[test]
fn what_waits_is_bounded_in_bytes_and_in_numbers() {
    let mut packer = Packer::new(9000);
    let mut reassembler = Reassembler::default();
    for number in 0..1000 {
        put(&mut packer, &packet(number, 60_000));
        // The first datagram of each is lost, so nothing is ever whole.
        for datagram in &datagrams(&mut packer)[1..] {
            assert_eq!(receive(&mut reassembler, Instant::ZERO, datagram), Ok(vec![]));
            assert!(reassembler.kept_bytes() <= 256 << 10);
        }
    }
    assert_eq!(reassembler.stats().missing, 999, "the first number of all is not known to be missing");
    // 128 numbers on, nothing of it is left.
    for number in 0..128 {
        put(&mut packer, &packet(number, 100));
        let one = datagrams(&mut packer);
        assert_eq!(receive(&mut reassembler, Instant::ZERO, &one[0]), Ok(vec![number]));
    }
    assert_eq!(reassembler.kept_bytes(), 0);
}

#[test]
fn a_whole_packet_is_delivered_however_late_it_is() {
    let mut packer = Packer::new(1200);
    let mut reassembler = Reassembler::default();
    put(&mut packer, &packet(7, 100));
    let late = datagrams(&mut packer);
    for _ in 0..5000 {
        put(&mut packer, &packet(8, 100));
        let one = datagrams(&mut packer);
        assert_eq!(receive(&mut reassembler, Instant::ZERO, &one[0]), Ok(vec![8]));
    }
    assert_eq!(receive(&mut reassembler, Instant::from_millis(9000), &late[0]), Ok(vec![7]));
}

#[test]
fn what_is_no_datagram_of_frames_is_named() {
    let handle = |bytes: &[u8]| receive(&mut Reassembler::default(), Instant::ZERO, bytes);
    assert_eq!(handle(&[1, 0, 0]), Err(DatagramError::TooShort { length: 3 }));
    assert_eq!(handle(&[1, 0, 0, 0, 0, 2, 0]), Err(DatagramError::FirstBeyondEnd { first: 2, length: 1 }));
    assert_eq!(handle(&[1, 0, 0, 0, 0, 0, 0, 20]), Err(DatagramError::CutHead { have: 2 }));
    assert_eq!(handle(&[1, 0, 0, 0, 0, 0, 0, 20, 3, 0]), Err(DatagramError::Dependent));
    assert_eq!(handle(&[1, 0, 0, 0, 0, 0, 0, 20, 0x80]), Err(DatagramError::Dependent));
    let unknown = DatagramError::Frame(FrameError::UnknownKind { kind: 0x13 });
    assert_eq!(handle(&[1, 0, 0, 0, 0, 0, 0, 20, 0x13]), Err(unknown));
    assert_eq!(handle(&[2, 0, 0]), Err(DatagramError::TooShort { length: 3 }));
    assert_eq!(handle(&[2, 0, 0, 0, 0, 0, 9]), Ok(vec![]), "another version's kind is passed over");
    let mut reassembler = Reassembler::default();
    let all = of(&[2000]);
    receive(&mut reassembler, Instant::ZERO, &all[0]).expect("a start");
    let mismatch = DatagramError::Mismatch { need: 2003, have: 1194 + 3 };
    assert_eq!(receive(&mut reassembler, Instant::ZERO, &[1, 0, 0, 1, 0, 3, 1, 2, 3]), Err(mismatch));
}

/// The vectors of docs/wire-format.md.
#[test]
fn the_published_vectors_hold() {
    let mut packer = Packer::new(1200);
    let mut put = |length: usize| put(&mut packer, &packet(0, length));
    put(20);
    put(20);
    put(1300);
    put(20);
    put(3500);
    let all = datagrams(&mut packer);
    // Two whole frames and the start of a third; its rest, a fourth and the start of a fifth, which goes through two more.
    assert_eq!(all[0][..9], *b"\x01\0\0\0\0\0\0\x14\x01");
    assert_eq!(all[0][52..55], *b"\x05\x14\x01");
    assert_eq!((all[0].len(), all[1].len()), (1200, 1200));
    assert_eq!(all[1][..6], *b"\x01\0\0\x01\0\x9b");
    assert_eq!((&all[2][..6], &all[3][..6]), (&b"\x01\0\0\x02\xff\xff"[..], &b"\x01\0\0\x03\xff\xff"[..]));
    let mut reassembler = Reassembler::default();
    assert_eq!(receive(&mut reassembler, Instant::ZERO, &all[0]), Ok(vec![0, 0]));
    assert_eq!(receive(&mut reassembler, Instant::ZERO, &all[1]), Ok(vec![0, 0]));
    let rest = all[2..].iter().map(|it| receive(&mut reassembler, Instant::ZERO, it).expect("sound").len());
    assert_eq!(rest.collect::<Vec<_>>(), [0, 0, 1]);
}
