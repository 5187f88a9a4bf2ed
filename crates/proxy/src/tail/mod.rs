//! Path tail emulation (bosau2004 §3) between the kernel's TCP and the network: segments and acknowledgements of sockets that face the
//! network pass here as packets.
//!
//! What comes from the network is judged by [`PathTail`]: accepted, it goes to the kernel, and its acknowledgement is due when the
//! emulated link would have sent it; dropped, it goes nowhere. What the kernel sends acknowledges at most what is due. Its plain
//! acknowledgements stay here, and those that are due leave in their place, with the right edge of the kernel's window.
//!
//! Segments beyond the window that has been offered end here: what an end sends against its window, the cell does not pay for.
//!
//! No more is ever acknowledged than the kernel has acknowledged: what it has refused would be lost. A FIN is not acknowledged before the
//! host behind has everything ([`Tails::handle_delivered`]).
//!
//! SACK blocks and time stamps would tell the sender of what has come before its time, so neither is offered.
//!
//! Pure: packets come as bytes, `now` is an argument.

mod packet;

use std::collections::HashMap;
use std::net::SocketAddr;

use trunkline_packet::TcpFlags;
use trunkline_trunk::path_tail::{
    Arrival, CellId, CellLink, DropReason, Estimate, FlowId, HostState, Limit, PathTail, SegmentAction,
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
struct Flow {
    id: FlowId,
    /// What may be acknowledged, by the emulation.
    due: Seq,
    /// What the kernel has acknowledged, and up to where its window reaches.
    kernel: Option<(Seq, Seq)>,
    /// What has been acknowledged to the network.
    sent: Seq,
    /// Behind the last byte that the kernel has sent.
    front: Seq,
    /// Of the windows that the kernel offers.
    shift: u8,
    /// The network's FIN has this sequence number.
    fin: Option<Seq>,
    /// The host behind has everything.
    delivered: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Handshake {
    offered: Option<u8>,
    window: u16,
    understood: bool,
    front: Option<Seq>,
}

#[derive(Debug)]
enum Stage {
    Opening(Handshake),
    Established(Flow),
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
        self.entries.insert(path, Entry { cell, stage: Stage::Opening(Handshake::default()) });
    }

    /// Forgets a connection.
    pub fn close(&mut self, path: Path) {
        if let Some(Entry { stage: Stage::Established(flow), .. }) = self.entries.remove(&path) {
            self.emulation.close(flow.id);
            self.paths.remove(&flow.id);
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
            if let Stage::Opening(handshake) = &mut entry.stage {
                handshake.understood = packet.window_scale().is_some();
                let (handshake, first) = (*handshake, packet.seq() + 1);
                let id = self.emulation.open(entry.cell, first);
                self.paths.insert(id, path);
                if handshake.front.is_some() {
                    self.emulation.handle_offered(id, first + u32::from(handshake.window));
                }
                entry.stage = Stage::Established(Flow::new(id, first, handshake));
            }
            return TailAction::Pass;
        }
        let Stage::Established(flow) = &mut entry.stage else { return TailAction::Pass };
        let (seq, payload) = (packet.seq(), packet.payload_len());
        let end = seq + payload;
        let mut answer = None;
        if payload > 0 {
            let arrival = Arrival { seq, end, bytes: packet.len() as u32, fin: false };
            match self.emulation.handle_segment(now, flow.id, arrival) {
                SegmentAction::Accept => stats.held += 1,
                SegmentAction::Drop(reason) => {
                    stats.dropped += 1;
                    return TailAction::Drop(reason);
                }
                SegmentAction::OutOfWindow(again) => {
                    stats.dropped += 1;
                    let answer = again.and_then(|_| flow.acknowledge(&mut self.emulation, path));
                    return TailAction::OutOfWindow(answer);
                }
                SegmentAction::Duplicate(again) => answer = again,
                SegmentAction::Forward => {}
            }
        }
        if flags.contains(TcpFlags::FIN) {
            flow.fin = Some(end);
        }
        match answer.and_then(|_| flow.acknowledge(&mut self.emulation, path)) {
            Some(acknowledgement) => TailAction::PassAndSend(acknowledgement),
            None => TailAction::Pass,
        }
    }

    /// A packet of the kernel, on its way to the network.
    pub fn handle_outgoing(&mut self, path: Path, packet: &mut TcpPacket<'_>) -> TailAction {
        let Some(entry) = self.entries.get_mut(&path) else { return TailAction::Pass };
        let flags = packet.flags();
        if flags.contains(TcpFlags::SYN) {
            packet.remove_options();
            let (shift, front) = (packet.window_scale(), packet.seq() + 1);
            match &mut entry.stage {
                Stage::Opening(handshake) => {
                    (handshake.offered, handshake.front) = (shift, Some(front));
                    handshake.window = packet.window();
                }
                // The answer to a SYN of the network, which the flow began with. Scaling holds if both have offered it.
                Stage::Established(flow) => {
                    (flow.shift, flow.front) = (shift.unwrap_or(0), front);
                    self.emulation.handle_offered(flow.id, packet.ack() + u32::from(packet.window()));
                }
            }
            return TailAction::Pass;
        }
        let Stage::Established(flow) = &mut entry.stage else { return TailAction::Pass };
        if flags.contains(TcpFlags::RST) || !flags.contains(TcpFlags::ACK) {
            return TailAction::Pass;
        }
        let edge = packet.ack() + (u32::from(packet.window()) << flow.shift);
        flow.kernel = Some((packet.ack(), edge));
        let len = packet.payload_len() + u32::from(flags.contains(TcpFlags::FIN));
        let end = packet.seq() + len;
        if flow.front.before(end) {
            flow.front = end;
        }
        let ack = flow.allowed();
        // What is due later takes the newest window along.
        if len == 0 && ack == flow.sent && self.emulation.is_waiting(flow.id) {
            return TailAction::Swallow;
        }
        flow.sent = ack;
        packet.set_ack(ack, flow.window(&mut self.emulation, ack));
        TailAction::Pass
    }

    /// The host behind has acknowledged everything, the close included. What goes to the network now, if anything.
    pub fn handle_delivered(&mut self, path: Path) -> Option<Vec<u8>> {
        let Some(Entry { stage: Stage::Established(flow), .. }) = self.entries.get_mut(&path) else {
            return None;
        };
        flow.delivered = true;
        flow.acknowledge(&mut self.emulation, path)
    }

    /// What the host behind does now.
    pub fn set_host(&mut self, path: Path, host: HostState) {
        if let Some(Entry { stage: Stage::Established(flow), .. }) = self.entries.get(&path) {
            self.emulation.set_host(flow.id, host);
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
            flow.due = release.ack;
            // If the kernel is behind, its own acknowledgement will leave at once.
            if flow.allowed() == release.ack
                && let Some(packet) = flow.acknowledge(&mut self.emulation, path)
            {
                self.stats.entry(*cell).or_default().released += 1;
                return Some((path, packet));
            }
        }
        None
    }
}

impl Flow {
    fn new(id: FlowId, first: Seq, handshake: Handshake) -> Self {
        let shift = handshake.offered.filter(|_| handshake.understood).unwrap_or(0);
        Flow {
            id,
            due: first,
            kernel: None,
            sent: first,
            front: handshake.front.unwrap_or(Seq(0)),
            shift,
            fin: None,
            delivered: false,
        }
    }

    /// What may be acknowledged now. It never goes back.
    fn allowed(&self) -> Seq {
        let Some((kernel, _)) = self.kernel else { return self.sent };
        let earlier = |a: Seq, b: Seq| if a.before(b) { a } else { b };
        let ack = match self.fin {
            Some(_) if self.delivered => kernel,
            _ => earlier(kernel, self.due),
        };
        if self.sent.before(ack) { ack } else { self.sent }
    }

    fn window(&self, emulation: &mut PathTail, ack: Seq) -> u16 {
        let edge = self.kernel.map_or(ack, |(_, edge)| edge);
        let edge = if self.delivered { edge } else { emulation.offer(self.id, ack, edge) };
        let room = if ack.before(edge) { edge - ack } else { 0 };
        (room >> self.shift).min(u32::from(u16::MAX)) as u16
    }

    /// A plain acknowledgement of what may be acknowledged; `None` before the kernel has sent any.
    fn acknowledge(&mut self, emulation: &mut PathTail, path: Path) -> Option<Vec<u8>> {
        self.kernel?;
        let ack = self.allowed();
        self.sent = ack;
        let window = self.window(emulation, ack);
        Some(packet::acknowledgement(path, self.front, ack, window))
    }
}

#[cfg(test)]
mod tests;
