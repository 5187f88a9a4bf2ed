//! What is on the wire: the published bytes, and bytes that mean nothing.

use trunkline_packet::build::{self, Ip, Tcp};

use super::super::{CompressError, Decompressor, MAX_HEADER};
use super::{Lane, Packet, complete, open, sack, stamps};

#[test]
fn what_is_no_compressed_frame_is_named() {
    let mut lane = Lane::new();
    let restore = |decompressor: &mut Decompressor, bits: u8, bytes: &[u8]| {
        decompressor
            .restore(bits, bytes, bytes.len(), &mut [0; MAX_HEADER])
            .map(|restored| restored.header_len)
    };
    let d = &mut Decompressor::new();
    assert_eq!(restore(d, 0, &[]), Err(CompressError::NoContext));
    assert_eq!(restore(d, 0x40, &[]), Err(CompressError::Truncated { have: 0 }));
    assert_eq!(restore(d, 0x40, &[3]), Err(CompressError::UnknownContext { context: 3 }));

    let options = stamps(1, 1);
    let frame = |lane: &mut Lane, packet: Packet, flow| lane.send_as(&packet, flow).frame[3];
    let tcp = frame(&mut lane, open(&Ip::v4(), &Tcp { options: &options, ..Tcp::default() }, &[]), 0);
    let bare = frame(&mut lane, open(&Ip::v6(), &Tcp::default(), &[]), 1);
    let udp = frame(&mut lane, complete(build::udp(&Ip::v4(), (1, 2), &[])), 2);
    let d = &mut lane.decompressor;
    assert_eq!(restore(d, 0x40, &[udp, 1, 2]), Ok(28));
    for (bits, bytes, error) in [
        (0x44, &[udp][..], CompressError::Field { context: udp, fields: 0x04 }),
        (0x41, &[bare, 0, 0], CompressError::Field { context: bare, fields: 0x01 }),
        (0x60, &[udp, 0x02, 1], CompressError::Field { context: udp, fields: 0x02 }),
        (0x60, &[bare, 0x01, 1], CompressError::Field { context: bare, fields: 0x01 }),
        (0x60, &[tcp, 0x80], CompressError::Value { value: 0x80 }),
        (0x60, &[tcp, 0x40, 2], CompressError::Value { value: 2 }),
        (0x60, &[udp, 0x40, 3], CompressError::Value { value: 3 }),
        (0x60, &[tcp, 0x04, 0x18], CompressError::Value { value: 0x18 }),
        (0x60, &[tcp, 0x02, 0], CompressError::Value { value: 0 }),
        (0x60, &[tcp, 0x02, 4], CompressError::Value { value: 4 }),
        (0x60, &[bare, 0x02, 5], CompressError::Value { value: 5 }),
        (0x42, &[tcp, 0x80, 0x80, 4], CompressError::Number),
        (0x48, &[tcp, 0x80, 0x80, 0x80], CompressError::Truncated { have: 4 }),
        (0x40, &[udp, 1], CompressError::Truncated { have: 2 }),
    ] {
        assert_eq!(restore(d, bits, bytes), Err(error), "{bits:#x} {bytes:x?}");
    }
    let long = d.restore(0x40, &[udp, 1, 2], 65_534, &mut [0; MAX_HEADER]);
    assert_eq!(long, Err(CompressError::TooLong { length: 65_534 - 3 + 28 }));
}

/// The vectors of docs/wire-format.md: packets, and the frames they become one after the other.
#[test]
fn the_published_vectors_hold() {
    let ip = |id| Ip { id, ..Ip::v4() };
    let (first, then) = (stamps(1000, 2000), stamps(1010, 2003));
    let with_sack = [then.clone(), sack(&[(4345, 5793)])].concat();
    let ack = Tcp { ack: 2897, window: 510, options: &then, ..Tcp::default() };
    let packets = [
        open(&ip(7), &Tcp { options: &first, ..Tcp::default() }, &[]),
        open(&ip(8), &ack, &[]),
        complete(build::tcp(&ip(9), &Tcp { options: &with_sack, ..ack }, &[])),
        complete(build::udp(&Ip::v6(), (5004, 5004), b"one")),
        complete(build::udp(&Ip::v6(), (5004, 5004), b"two")),
        open(&ip(10), &ack, b"data"),
    ];
    let page = include_str!("../../../../../docs/wire-format.md");
    let table = page.split_once("| compressed frame |").expect("the table of vectors").1;
    let table = table.split_once("\n\n").expect("its end").0;
    let digit = |c: u8| (c as char).to_digit(16).expect("hexadecimal") as u8;
    let bytes = |row: &str| -> Option<Vec<u8>> {
        let hex: Vec<u8> = row.rsplit('`').nth(1)?.bytes().filter(|byte| *byte != b' ').collect();
        Some(hex.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
    };
    let published: Vec<Vec<u8>> = table.lines().skip(2).filter_map(bytes).collect();
    let mut lane = Lane::new();
    // Context 0, then 8: the hashes are chosen.
    let frames = packets.iter().map(|packet| lane.send_as(packet, u64::from(packet.0[0] >> 4 == 6)).frame);
    assert_eq!(frames.collect::<Vec<_>>(), published);
}
