//! Answers to the senders of refused flows (ICMP: communication administratively prohibited).

use std::io::IoSlice;

use trunkline_packet::{Headers, Offload, Unreachable, unreachable};
use trunkline_units::Instant;

use crate::tun::{TunQueue, TunWriter};

/// The maximum number of answers per second, and per burst: ICMP errors must be rate-limited (RFC 1812 §4.3.2.8, RFC 4443
/// §2.4(f)).
const PER_SECOND: u32 = 100;

pub(crate) struct Refusals {
    writer: TunWriter,
    second: u64,
    left: u32,
}

impl Refusals {
    pub(crate) fn new(queue: TunQueue) -> Self {
        Refusals { writer: TunWriter::new(queue), second: 0, left: PER_SECOND }
    }

    pub(crate) fn set_device(&mut self, queue: TunQueue) {
        self.writer.set_queue(queue);
    }

    /// Answers the packet that begins with `prefix`, if the rate limit and the rules of ICMP allow. Its source is the destination of that
    /// packet: a kernel drops what comes from a device with an address of its own host as the source.
    #[cold]
    pub(crate) fn answer(&mut self, now: Instant, prefix: &[u8], headers: &Headers) {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            (self.second, self.left) = (second, PER_SECOND);
        }
        if self.left == 0 {
            return;
        }
        let Some(answer) = unreachable(Unreachable::Prohibited, prefix, headers, headers.destination) else {
            return;
        };
        let Ok(answer_headers) = Headers::parse(&answer, answer.len()) else { return };
        self.left -= 1;
        let vnet = Offload::None.to_vnet();
        let slices = [IoSlice::new(&vnet), IoSlice::new(&answer)];
        let _ = self.writer.write(&slices, &answer_headers, Offload::None);
    }
}
