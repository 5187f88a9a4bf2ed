//! Receive offload (GRO): a host hands segments that come in order one after the other to its TCP as one, which acknowledges them
//! as one.
//!
//! What a card and its driver gather until the host looks is a time here: from the first segment whose acknowledgement is
//! due, and until a segment with PSH or 64 KB of data. A gap, a duplicate, FIN, a mark and its answer end it too.
//!
//! Deviation: only the acknowledgement waits. The data can be read when it comes, up to that time too soon.

use std::time::Duration;

use trunkline_units::Instant;

use crate::endpoint::Endpoint;

/// Bytes of data in a super-packet.
const MAX_BYTES: u64 = 65_215;

impl Endpoint {
    /// Data in order has been taken. Its acknowledgement, if it is due, may wait for others, unless the segment `ends` what is gathered.
    pub(crate) fn coalesce(&mut self, now: Instant, time: Duration, ends: bool) {
        if !self.receiver.ack_now {
            return;
        }
        let full = self.receiver.next - self.receiver.acknowledged >= MAX_BYTES;
        if !(ends || full || time.is_zero()) {
            self.receiver.ack_now = false;
            if !self.gathers {
                self.gathers = true;
                self.slots.delayed_ack = self.slots.delayed_ack.min(now + time);
            }
        }
    }
}
