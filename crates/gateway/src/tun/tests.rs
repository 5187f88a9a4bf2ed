use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use trunkline_trunk::Packet as _;

use super::*;
use crate::pool::FRONT;

/// A device, and the end that its packets are put into.
fn device() -> (TunReader, OwnedFd, Pool) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).expect("a pair of sockets");
    let mut pool = Pool::new(1 << 20);
    (TunReader::new(TunQueue::on(near), &mut pool), far, pool)
}

/// Reads a packet of `len` bytes.
fn read(reader: &mut TunReader, far: &OwnedFd, pool: &mut Pool, len: usize) -> PacketBuf {
    let bytes: Vec<u8> =
        (0..VNET_LEN + len).map(|at| if at < VNET_LEN { 0 } else { (at % 251) as u8 }).collect();
    write(far, &bytes).expect("it takes a packet");
    let Ok(TunRead::Packet(packet)) = reader.read(pool) else { panic!("no packet of {len} bytes") };
    let mut read = packet.prefix().to_vec();
    for body in packet.bodies.iter().flatten() {
        let take = (len - read.len()).min(body.bytes().len() - 2 * FRONT);
        read.extend_from_slice(&body.bytes()[FRONT..FRONT + take]);
    }
    assert_eq!(read, bytes[VNET_LEN..]);
    packet
}

/// The memory of a packet is bounded by its length: a sender to an absent peer chooses the length.
#[test]
fn a_packet_holds_little_more_memory_than_it_has_bytes() {
    let (mut reader, far, mut pool) = device();
    let mut worst = 0.0_f64;
    for len in (1..4500).chain((4500..65_535).step_by(97)) {
        let packet = read(&mut reader, &far, &mut pool, len);
        let held = packet.memory_bytes();
        assert!(held >= len && held <= 512.max(13 * len), "{len} bytes hold {held}");
        if len > 1400 {
            worst = worst.max(held as f64 / len as f64);
        }
        pool.release(packet);
    }
    assert!(worst < 3.2, "{worst}");
    assert_eq!(reader.read(&mut pool).map(|read| matches!(read, TunRead::Empty)).ok(), Some(true));
}

#[test]
fn a_warm_pool_allocates_nothing_and_gets_all_back() {
    let (mut reader, far, mut pool) = device();
    let lengths = [29, 192, 193, 1984, 1985, 6016, 6017, 18_368, 18_369, 60_000, 65_535];
    let mut after = Vec::new();
    for _ in 0..3 {
        let packets: Vec<PacketBuf> =
            lengths.iter().map(|len| read(&mut reader, &far, &mut pool, *len)).collect();
        for packet in packets {
            pool.release(packet);
        }
        after.push(pool.allocated_bytes());
    }
    assert!(after[0] == after[1] && after[1] == after[2], "{after:?}");
}

#[test]
fn a_reader_without_memory_goes_on_when_there_is_some() {
    let (mut reader, far, mut pool) = device();
    let mut held = Vec::new();
    loop {
        write(&far, &vec![0; VNET_LEN + 60_000]).expect("it takes a packet");
        match reader.read(&mut pool) {
            Ok(TunRead::Packet(packet)) => held.push(packet),
            Ok(TunRead::Dropped(ReadDrop::NoMemory)) => break,
            _ => panic!("neither a packet nor a drop"),
        }
    }
    assert!(held.len() > 10, "{}", held.len());
    let before = pool.allocated_bytes();
    for packet in held {
        pool.release(packet);
    }
    let packet = read(&mut reader, &far, &mut pool, 60_000);
    pool.release(packet);
    assert_eq!(pool.allocated_bytes(), before);
}
