//! Connection IDs that lead a packet to the worker whose lane it belongs to.
//!
//! The kernel divides the datagrams to a listening address among the workers' sockets by the first two bytes of the destination
//! connection ID, modulo the number of workers ([`sys::udp::steer`](crate::sys::udp::steer)). A worker chooses connection IDs
//! that lead to itself. A dialer puts the number of its lane there, which leads to the worker of that lane at any site,
//! however many workers it has.

use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

/// Bytes of our connection IDs: two that steer and ten random ones.
const LENGTH: usize = 12;
/// Bytes of the connection ID that a dialer makes up for the first packet (RFC 9000 §7.2: 8 or more).
const INITIAL_LENGTH: usize = 16;

/// Makes the connection IDs of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Generator {
    pub(super) shard: u16,
    pub(super) shards: u16,
}

impl ConnectionIdGenerator for Generator {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = random::<LENGTH>();
        let drawn = u16::from_be_bytes([bytes[0], bytes[1]]);
        // The largest multiple that leaves room for the shard: every value below it is as likely.
        let groups = u16::MAX / self.shards;
        let number = drawn % groups * self.shards + self.shard;
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        ConnectionId::new(&bytes)
    }

    fn validate(&self, cid: &ConnectionId) -> Result<(), InvalidCid> {
        match **cid {
            [high, low, ..] if u16::from_be_bytes([high, low]) % self.shards == self.shard => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The first connection ID of a dial for the lane of this number.
pub(super) fn initial(lane: u16) -> ConnectionId {
    let mut bytes = random::<INITIAL_LENGTH>();
    bytes[..2].copy_from_slice(&lane.to_be_bytes());
    ConnectionId::new(&bytes)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let flags = rustix::rand::GetRandomFlags::empty();
    // It fails only before the kernel's generator is seeded, which the start of the daemon has waited for.
    let _ = rustix::rand::getrandom(&mut bytes, flags);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_connection_ids_lead_to_it_and_differ() {
        for shards in [1, 2, 3, 16] {
            for shard in 0..shards {
                let mut generator = Generator { shard, shards };
                let others = (0..shards).filter(|other| *other != shard);
                let ids: Vec<ConnectionId> = (0..50).map(|_| generator.generate_cid()).collect();
                assert!(
                    ids.iter().all(|id| generator.validate(id).is_ok() && id.len() == generator.cid_len())
                );
                for other in others {
                    assert!(ids.iter().all(|id| Generator { shard: other, shards }.validate(id).is_err()));
                }
                assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
            }
        }
    }

    #[test]
    fn a_dial_leads_to_the_worker_of_its_lane_however_many_workers_there_are() {
        for lane in [0, 1, 7, 127] {
            let id = initial(lane);
            for shards in 1..=16 {
                assert!(Generator { shard: lane % shards, shards }.validate(&id).is_ok());
            }
        }
    }
}
