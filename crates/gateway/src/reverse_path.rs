//! The kernel's filter of packets by the way that leads back to their source (RFC 3704).

use std::fs;

/// Whether a device drops IPv4 packets that come by another way than packets to their source leave by.
pub(crate) fn is_strict(device: &str) -> bool {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
    let mode = |name: &str| read(name).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0_u8);
    // The greater of the two is in force.
    mode("all").max(mode(device)) == 1
}
