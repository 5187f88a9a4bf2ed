//! Fragmentation of IPv4 packets to the MTU of a link (RFC 791 §3.2).

use crate::Packet;
use crate::packet::IPV4;

/// Bytes of data in a fragment are a multiple of this, but for the last.
const UNIT: u32 = 8;

/// Hands the fragments of an IPv4 packet that is longer than `mtu` to `each`, in order.
pub(crate) fn fragment(packet: &Packet, mtu: u32, each: &mut impl FnMut(Packet)) {
    let data = packet.length() - IPV4 as u32;
    let max = (mtu.saturating_sub(IPV4 as u32) / UNIT * UNIT).max(UNIT);
    let mut start = 0;
    while start < data {
        let len = max.min(data - start);
        each(packet.cut(start, len));
        start += len;
    }
}
