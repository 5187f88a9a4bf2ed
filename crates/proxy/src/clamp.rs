//! Connections whose windows are lowered. They stay those of their ends: packets of the hosts behind pass here, and each may be changed.
//!
//! A window can be read only by who has seen both SYNs, so connections that were open before the proxy pass unchanged. Nobody says when
//! a connection is over, of which half the packets are not seen: one that has been silent for longest makes room for another.
//!
//! Pure: `now` is an argument.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use trunkline_packet::TcpFlags;
use trunkline_trunk::path_tail::WindowClamp;
use trunkline_units::Instant;

use crate::tail::{Path, TcpPacket};

/// Connections that were heard of within this are not in the order in which they are forgotten.
const GRAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Flow {
    clamp: WindowClamp,
    /// Bytes.
    max: u64,
    /// Which proxy it is of.
    proxy: usize,
    /// Its place in the order of silence.
    heard: Instant,
}

/// What has become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clamped {
    /// It is of no connection that is known.
    Unknown,
    /// Nothing.
    Unchanged,
    /// Its window is lower now. Of the proxy with this number.
    Lowered(usize),
}

/// All connections whose windows are lowered.
#[derive(Debug)]
pub struct Clamps {
    limit: usize,
    flows: HashMap<Path, Flow>,
    by_silence: BTreeSet<(Instant, Path)>,
}

impl Clamps {
    /// Up to `limit` connections.
    pub fn new(limit: usize) -> Self {
        Clamps { limit, flows: HashMap::new(), by_silence: BTreeSet::new() }
    }

    /// Connections that are known.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// A SYN opens a connection of the proxy with this number, whose hosts behind may offer up to `max` bytes. Returns the number of the
    /// proxy whose connection was forgotten for it.
    pub fn open(&mut self, now: Instant, path: Path, (proxy, max): (usize, u64)) -> Option<usize> {
        self.close(path);
        let full = self.flows.len() >= self.limit;
        let forgotten = self.by_silence.first().map(|(_, path)| *path).filter(|_| full);
        let forgotten = forgotten.and_then(|path| self.close(path));
        self.flows.insert(path, Flow { clamp: WindowClamp::default(), max, proxy, heard: now });
        self.by_silence.insert((now, path));
        forgotten
    }

    /// Forgets a connection; the number of its proxy.
    pub fn close(&mut self, path: Path) -> Option<usize> {
        let flow = self.flows.remove(&path)?;
        self.by_silence.remove(&(flow.heard, path));
        Some(flow.proxy)
    }

    /// A packet of the host behind.
    pub fn handle_host(&mut self, now: Instant, path: Path, packet: &mut TcpPacket<'_>) -> Clamped {
        let Some(flow) = self.flows.get_mut(&path) else { return Clamped::Unknown };
        if now.saturating_since(flow.heard) >= GRAIN {
            self.by_silence.remove(&(flow.heard, path));
            flow.heard = now;
            self.by_silence.insert((now, path));
        }
        let is_syn = packet.flags().contains(TcpFlags::SYN);
        if is_syn {
            flow.clamp.handle_syn_of_host(packet.window_scale());
        }
        match flow.clamp.lowered(packet.window(), is_syn, flow.max) {
            Some(window) => {
                let ack = packet.ack();
                packet.set_ack(ack, window);
                Clamped::Lowered(flow.proxy)
            }
            None => Clamped::Unchanged,
        }
    }

    /// A SYN of the other end.
    pub fn handle_sender(&mut self, path: Path, packet: &TcpPacket<'_>) -> Clamped {
        let Some(flow) = self.flows.get_mut(&path) else { return Clamped::Unknown };
        if packet.flags().contains(TcpFlags::SYN) {
            flow.clamp.handle_syn_of_sender(packet.window_scale());
        }
        Clamped::Unchanged
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use trunkline_packet::build::{self, Ip, Tcp};

    use super::*;

    fn path(port: u16) -> Path {
        let address = |ip: [u8; 4], port| SocketAddr::from((ip, port));
        Path { network: address([192, 0, 2, 1], 80), behind: address([10, 0, 0, 1], port) }
    }

    fn packet(flags: TcpFlags, window: u16, scale: Option<u8>) -> Vec<u8> {
        let options = scale.map_or(vec![], |scale| vec![1, 3, 3, scale]);
        build::tcp(&Ip::v4(), &Tcp { flags, window, options: &options, ..Tcp::default() }, b"")
    }

    fn host(clamps: &mut Clamps, at: u64, port: u16, mut bytes: Vec<u8>) -> (Clamped, u16) {
        let mut packet = TcpPacket::parse(&mut bytes).unwrap().unwrap();
        let clamped = clamps.handle_host(Instant::from_millis(at), path(port), &mut packet);
        (clamped, packet.window())
    }

    #[test]
    fn windows_of_the_host_are_lowered_by_the_scale_that_both_have_offered() {
        let mut clamps = Clamps::new(10);
        clamps.open(Instant::ZERO, path(1), (3, 6000));
        assert_eq!(
            host(&mut clamps, 0, 1, packet(TcpFlags::SYN, 65_535, Some(7))),
            (Clamped::Lowered(3), 6000)
        );
        let mut answer = packet(TcpFlags::SYN | TcpFlags::ACK, 65_535, Some(9));
        let answer = TcpPacket::parse(&mut answer).unwrap().unwrap();
        assert_eq!(clamps.handle_sender(path(1), &answer), Clamped::Unchanged);
        assert_eq!(answer.window(), 65_535, "the sender's own window is its own");
        assert_eq!(host(&mut clamps, 1, 1, packet(TcpFlags::ACK, 500, None)), (Clamped::Lowered(3), 46));
        assert_eq!(host(&mut clamps, 1, 1, packet(TcpFlags::ACK, 40, None)), (Clamped::Unchanged, 40));
        assert_eq!(host(&mut clamps, 1, 2, packet(TcpFlags::ACK, 500, None)), (Clamped::Unknown, 500));
    }

    #[test]
    fn the_longest_silent_makes_room() {
        let mut clamps = Clamps::new(2);
        for port in [1, 2] {
            assert_eq!(clamps.open(Instant::from_millis(port.into()), path(port), (0, 6000)), None);
        }
        host(&mut clamps, 5000, 1, packet(TcpFlags::ACK, 1, None));
        assert_eq!(clamps.open(Instant::from_millis(6000), path(3), (1, 6000)), Some(0));
        assert_eq!(clamps.len(), 2);
        assert_eq!(host(&mut clamps, 6000, 2, packet(TcpFlags::ACK, 1, None)).0, Clamped::Unknown);
        assert_eq!(host(&mut clamps, 6000, 1, packet(TcpFlags::ACK, 1, None)).0, Clamped::Unchanged);
        assert_eq!(clamps.close(path(1)), Some(0));
        assert_eq!((clamps.len(), clamps.by_silence.len()), (1, 1));
    }
}
