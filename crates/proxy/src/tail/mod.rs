//! Path tail emulation (bosau2004 §3) between the kernel's TCP and the network: segments and acknowledgements of sockets that face the
//! network pass here as packets.
//!
//! What comes from the network is judged by [`PathTail`]: accepted, it goes to the kernel, and its acknowledgement is due when the
//! emulated link would have sent it; dropped, it goes nowhere. What acknowledgements say, and which leave, is [`TailFlow`]'s to decide.
//!
//! Segments beyond the window that has been offered end here: what an end sends against its window, the cell does not pay for.
//!
//! SACK blocks and time stamps would tell the sender of what has come before its time, so neither is offered.
//!
//! Pure: packets come as bytes, `now` is an argument.

mod packet;

use std::collections::HashMap;
use std::net::SocketAddr;

use trunkline_packet::TcpFlags;
use trunkline_trunk::path_tail::{
    Arrival, CellId, CellLink, DropReason, Estimate, FlowId, HostState, Limit, Offer, OwnSegment, PathTail,
    SegmentAction, TailFlow,
};
use trunkline_units::{Instant, Seq};

pub use packet::TcpPacket;

/// A connection by its end in the network and the one behind the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The end in the network.
    pub network: SocketAddr,
    /// The end behind the proxy.
    pub behind: SocketAddr,
}

/// What becomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailAction {
    /// It goes on as it is now: from the network to the kernel, from the kernel to the network.
    Pass,
    /// It goes on, and this goes to the network.
    PassAndSend(Vec<u8>),
    /// It ends here.
    Swallow,
    /// It ends here, since the emulated link has no room.
    Drop(DropReason),
    /// It ends here, beyond the window that was offered. What goes to the network, if anything.
    OutOfWindow(Option<Vec<u8>>),
}

/// Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TailStats {
    /// Segments that were accepted, whose acknowledgements wait or have waited.
    pub held: u64,
    /// Acknowledgements that left when they were due.
    pub released: u64,
    /// Segments that were dropped.
    pub dropped: u64,
}

#[derive(Debug)]
enum Stage {
    /// What the kernel has offered, if its SYN came first.
    Opening(Option<Offer>),
    Established(TailFlow),
}

#[derive(Debug)]
struct Entry {
    cell: CellId,
    stage: Stage,
}

/// All connections whose tail is emulated.
#[derive(Debug, Default)]
pub struct Tails {
    emulation: PathTail,
    entries: HashMap<Path, Entry>,
    paths: HashMap<FlowId, Path>,
    stats: HashMap<CellId, TailStats>,
}

impl Tails {
    /// Without connections.
    pub fn new() -> Self {
        Tails::default()
    }

    /// Adds a cell, whose connections share this emulated link.
    pub fn add_link(&mut self, link: &CellLink) -> CellId {
        self.emulation.add_link(link)
    }

    /// The cell has another rate, and its link holds something else.
    pub fn set_link(&mut self, now: Instant, cell: CellId, link: (Estimate, Limit)) {
        self.emulation.set_link(now, cell, link);
    }

    /// Whether the emulated link of a cell is sending.
    pub fn is_busy(&self, now: Instant, cell: CellId) -> bool {
        self.emulation.is_busy(now, cell)
    }

    /// Begins a connection, before its first packet.
    pub fn open(&mut self, path: Path, cell: CellId) {
        self.close(path);
        self.entries.insert(path, Entry { cell, stage: Stage::Opening(None) });
    }

    /// Forgets a connection.
    pub fn close(&mut self, path: Path) {
        if let Some(Entry { stage: Stage::Established(flow), .. }) = self.entries.remove(&path) {
            self.emulation.close(flow.id());
            self.paths.remove(&flow.id());
        }
    }

    /// Counts of a cell so far.
    pub fn stats(&self, cell: CellId) -> TailStats {
        self.stats.get(&cell).copied().unwrap_or_default()
    }

    /// Whether a connection is known.
    pub fn knows(&self, path: Path) -> bool {
        self.entries.contains_key(&path)
    }

    /// A packet from the network, on its way to the kernel. A SYN loses options.
    pub fn handle_incoming(&mut self, now: Instant, path: Path, packet: &mut TcpPacket<'_>) -> TailAction {
        let Some(entry) = self.entries.get_mut(&path) else { return TailAction::Pass };
        let flags = packet.flags();
        let stats = self.stats.entry(entry.cell).or_default();
        if flags.contains(TcpFlags::SYN) {
            packet.remove_options();
            if let Stage::Opening(offer) = entry.stage {
                let first = packet.seq() + 1;
                let id = self.emulation.open(entry.cell, first);
                self.paths.insert(id, path);
                let mut flow = TailFlow::new(id, first, packet.window_scale().is_some());
                if let Some(offer) = offer {
                    flow.handle_offer(&mut self.emulation, offer);
                }
                entry.stage = Stage::Established(flow);
            }
            return TailAction::Pass;
        }
        let Stage::Established(flow) = &mut entry.stage else { return TailAction::Pass };
        let (seq, bytes) = (packet.seq(), packet.len() as u32);
        let end = seq + packet.payload_len();
        let arrival = Arrival { seq, end, bytes, fin: flags.contains(TcpFlags::FIN) };
        let action = flow.handle_segment(&mut self.emulation, now, arrival);
        let mut answer = |again: Option<Seq>| {
            let answer = again.and_then(|_| flow.acknowledge(&mut self.emulation))?;
            Some(packet::acknowledgement(path, answer))
        };
        match action {
            SegmentAction::Drop(reason) => {
                stats.dropped += 1;
                TailAction::Drop(reason)
            }
            SegmentAction::OutOfWindow(again) => {
                stats.dropped += 1;
                TailAction::OutOfWindow(answer(again))
            }
            SegmentAction::Duplicate(again) => {
                answer(again).map_or(TailAction::Pass, TailAction::PassAndSend)
            }
            SegmentAction::Accept => {
                stats.held += 1;
                TailAction::Pass
            }
            SegmentAction::Forward => TailAction::Pass,
        }
    }

    /// A packet of the kernel, on its way to the network.
    pub fn handle_outgoing(&mut self, path: Path, packet: &mut TcpPacket<'_>) -> TailAction {
        let Some(entry) = self.entries.get_mut(&path) else { return TailAction::Pass };
        let flags = packet.flags();
        if flags.contains(TcpFlags::SYN) {
            packet.remove_options();
            let (shift, window, front) = (packet.window_scale(), packet.window(), packet.seq() + 1);
            let offer = Offer { shift, window, front };
            match &mut entry.stage {
                Stage::Opening(offered) => *offered = Some(offer),
                // The answer to a SYN of the network, which the flow began with.
                Stage::Established(flow) => flow.handle_offer(&mut self.emulation, offer),
            }
            return TailAction::Pass;
        }
        let Stage::Established(flow) = &mut entry.stage else { return TailAction::Pass };
        if flags.contains(TcpFlags::RST) || !flags.contains(TcpFlags::ACK) {
            return TailAction::Pass;
        }
        let len = packet.payload_len() + u32::from(flags.contains(TcpFlags::FIN));
        let own = OwnSegment { seq: packet.seq(), len, ack: packet.ack(), window: packet.window() };
        let Some(sent) = flow.handle_own(&mut self.emulation, own, false) else { return TailAction::Swallow };
        packet.set_ack(sent.ack, sent.window);
        TailAction::Pass
    }

    /// The host behind has acknowledged everything, the close included. What goes to the network now, if anything.
    pub fn handle_delivered(&mut self, path: Path) -> Option<Vec<u8>> {
        let Some(Entry { stage: Stage::Established(flow), .. }) = self.entries.get_mut(&path) else {
            return None;
        };
        let acknowledgement = flow.handle_delivered(&mut self.emulation)?;
        Some(packet::acknowledgement(path, acknowledgement))
    }

    /// What the host behind does now.
    pub fn set_host(&mut self, path: Path, host: HostState) {
        if let Some(Entry { stage: Stage::Established(flow), .. }) = self.entries.get(&path) {
            self.emulation.set_host(flow.id(), host);
        }
    }

    /// When the next acknowledgement is due.
    pub fn next_release(&self) -> Option<Instant> {
        self.emulation.next_release()
    }

    /// The next acknowledgement that is due, as a packet to the network, and of which connection. Call it until there is none.
    pub fn poll_release(&mut self, now: Instant) -> Option<(Path, Vec<u8>)> {
        while let Some(release) = self.emulation.poll_release(now) {
            let Some(path) = self.paths.get(&release.flow).copied() else { continue };
            let Some(Entry { cell, stage: Stage::Established(flow) }) = self.entries.get_mut(&path) else {
                continue;
            };
            if let Some(due) = flow.handle_release(&mut self.emulation, release.ack) {
                self.stats.entry(*cell).or_default().released += 1;
                return Some((path, packet::acknowledgement(path, due)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
