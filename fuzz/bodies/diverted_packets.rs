//! What holds for any bytes that the kernel hands to a proxy as a diverted packet. Run by the fuzz target of this name and, over the
//! committed corpus, by the tests of `trunkline-proxy`.

use trunkline_proxy::clamp::{Clamped, Clamps};
use trunkline_proxy::tail::{Path, TcpPacket};
use trunkline_proxy::{ErrorMessage, Syn};
use trunkline_units::Instant;

/// Reads `data` as a SYN and as an error, of which it is at most one.
pub(crate) fn run(data: &[u8]) {
    change(&mut data.to_vec());
    clamp(&mut data.to_vec());
    let syn = Syn::parse(data).ok();
    let error = ErrorMessage::parse(data);
    assert!(syn.is_none() || error.is_none());
    if let Some(syn) = syn {
        assert_eq!(syn.connection.client.is_ipv4(), syn.connection.server.is_ipv4());
        assert!(syn.len >= 1 && syn.len as usize <= data.len());
    }
    if let Some(connection) = error.and_then(|error| error.connection) {
        assert_eq!(connection.client.is_ipv4(), connection.server.is_ipv4());
    }
}

/// What is changed in a packet changes neither its length nor its connection, and options that are removed are gone.
fn change(bytes: &mut [u8]) {
    let len = bytes.len();
    let Ok(Some(mut packet)) = TcpPacket::parse(bytes) else { return };
    let (ports, scale, payload) = (packet.headers().ports, packet.window_scale(), packet.payload_len());
    assert!(scale.is_none_or(|scale| scale <= 14) && payload as usize <= len);
    packet.remove_options();
    let (ack, window) = (packet.ack() + 1, !packet.window());
    packet.set_ack(ack, window);
    assert_eq!((packet.ack(), packet.window(), packet.len()), (ack, window, len));
    assert_eq!(
        (packet.headers().ports, packet.window_scale(), packet.payload_len()),
        (ports, scale, payload)
    );
}

/// A window that is lowered is no longer than it may be, and nothing else of the packet changes.
fn clamp(bytes: &mut [u8]) {
    const MAX: u64 = 5000;
    let Ok(Some(mut packet)) = TcpPacket::parse(bytes) else { return };
    let headers = *packet.headers();
    let Some((source, destination)) = headers.ports else { return };
    let path =
        Path { network: (headers.destination, destination).into(), behind: (headers.source, source).into() };
    let mut clamps = Clamps::new(1);
    clamps.open(Instant::ZERO, path, (0, MAX));
    let (before, flags, len) = (packet.window(), packet.flags(), packet.len());
    let clamped = clamps.handle_host(Instant::ZERO, path, &mut packet);
    // Only one SYN has been seen, so no window is scaled.
    assert_eq!(clamped == Clamped::Lowered(0), u64::from(before) > MAX);
    assert!(u64::from(packet.window()) <= MAX && packet.window() <= before);
    assert_eq!((packet.flags(), packet.len(), packet.headers().ports), (flags, len, headers.ports));
}
