//! Bonded paths: the packets of one flow over all paths to a peer, delivered in order.
//!
//! A class whose paths are bonded has one edge queue for all paths, and each lane takes from it what is to leave next. A slower path may
//! take a packet only if the packet would arrive later by waiting for the faster ones (`Bond`). Each packet gets a place in the order
//! of its flow as it leaves ([`Order`]). The far end passes packets on in that order, and waits for a missing one for a bounded time
//! ([`Resequencer`]). RFC 1990 does this with the fragments of PPP links.
//!
//! docs/models/bonding.md has the rule and what it assumes.

mod bond;
mod bonded_lane;
mod resequencer;

pub(crate) use bond::Bond;
pub use resequencer::{Resequencer, ResequencerStats, Turn};

/// The place of a packet in the order of its flow.
///
/// The sender counts in 4096 buckets, and the packets of a flow have one bucket. So the far end needs no table of flows. Two flows in one
/// bucket may wait for each other's packets, and nothing else follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Order {
    /// Which sender counts: chosen at random when it starts.
    pub space: u32,
    /// The bucket of its flow.
    pub bucket: u16,
    /// Its count in the bucket, modulo 2^32, from 0 on.
    pub number: u32,
}

impl Order {
    /// Bytes it is written in.
    pub const BYTES: usize = 10;
    /// How many buckets a sender has.
    pub const BUCKETS: u16 = 4096;

    /// Space, bucket and number in network byte order.
    fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.space.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.bucket.to_be_bytes());
        bytes[6..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote. A bucket that no sender has counts as one that some have.
    fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let [s0, s1, s2, s3, b0, b1, n0, n1, n2, n3] = *bytes;
        Order {
            space: u32::from_be_bytes([s0, s1, s2, s3]),
            bucket: u16::from_be_bytes([b0, b1]) % Self::BUCKETS,
            number: u32::from_be_bytes([n0, n1, n2, n3]),
        }
    }
}

/// The places of the packets of one lane as they are written. That of a packet which follows the one before it in the same bucket is
/// one byte long. One for each direction at each end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Places {
    last: Option<Order>,
}

impl Places {
    /// Bytes of a place that follows the last one.
    pub const SHORT: usize = 1;

    /// Writes the next place to the front of `content`; its length.
    pub fn encode(&mut self, order: Order, content: &mut [u8; Order::BYTES]) -> usize {
        let last = self.last.replace(order);
        let skipped = last
            .filter(|last| (last.space, last.bucket) == (order.space, order.bucket))
            .and_then(|last| u8::try_from(order.number.wrapping_sub(last.number).wrapping_sub(1)).ok());
        if let Some(skipped) = skipped {
            content[0] = skipped;
            return Self::SHORT;
        }
        *content = order.encode();
        Order::BYTES
    }

    /// Reads the next place. `None` of a short one that follows none.
    pub fn decode(&mut self, content: &[u8]) -> Option<Order> {
        let order = match (content.first_chunk(), content, self.last) {
            (Some(whole), ..) => Order::decode(whole),
            (None, [skipped, ..], Some(last)) => {
                Order { number: last.number.wrapping_add(1).wrapping_add(u32::from(*skipped)), ..last }
            }
            _ => return None,
        };
        self.last = Some(order);
        Some(order)
    }
}

/// Counts the packets of each bucket: the sender's half.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    /// The next number of each bucket; empty before the first packet.
    next: Vec<u32>,
}

impl Numbering {
    /// The place of the next packet of the flow with this hash.
    #[inline(never)]
    pub(crate) fn next(&mut self, space: u32, hash: u64) -> Order {
        if self.next.is_empty() {
            self.next.resize(usize::from(Order::BUCKETS), 0);
        }
        // The flow table takes the lower bits and the queues' buckets the middle ones.
        let bucket = (hash >> 48) as u16 % Order::BUCKETS;
        let next = &mut self.next[usize::from(bucket)];
        let number = *next;
        *next = next.wrapping_add(1);
        Order { space, bucket, number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written_and_has_a_bucket_that_exists() {
        let order = Order { space: 0x0102_0304, bucket: 4095, number: 0xfffe_fdfc };
        assert_eq!(Order::decode(&order.encode()), order);
        let lie = Order { bucket: 0xffff, ..order };
        assert_eq!(Order::decode(&lie.encode()), order);
    }

    #[test]
    fn places_are_read_as_they_were_written_and_are_short_where_one_follows_another() {
        let order = |bucket, number| Order { space: 7, bucket, number };
        let mut written = Places::default();
        let mut read = Places::default();
        let places = [
            (order(1, 5), 10),
            (order(1, 6), 1),
            (order(1, 262), 1),
            (order(1, 519), 10),
            (order(1, 518), 10),
            (order(2, 519), 10),
            (Order { space: 8, ..order(2, 520) }, 10),
            (Order { space: 8, ..order(2, u32::MAX) }, 10),
            (Order { space: 8, ..order(2, 1) }, 1),
        ];
        for (place, len) in places {
            let mut content = [0; Order::BYTES];
            assert_eq!(written.encode(place, &mut content), len, "{place:?}");
            assert_eq!(read.decode(&content[..len]), Some(place));
        }
        assert_eq!(Places::default().decode(&[3]), None, "it follows none");
    }

    #[test]
    fn a_flow_counts_from_zero_in_one_bucket() {
        let mut numbering = Numbering::default();
        let mut next = |hash: u64| numbering.next(9, hash << 48);
        assert_eq!(
            [next(5), next(5), next(6), next(5)].map(|order| (order.bucket, order.number)),
            [(5, 0), (5, 1), (6, 0), (5, 2)]
        );
    }
}
