//! Packets that are judged one by one: of sockets whose tail is emulated, and of connections whose windows are lowered.

use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use trunkline_packet::{TcpFlags, Unreachable};
use trunkline_units::Instant;

use super::Intake;
use crate::answer;
use crate::clamp::Clamped;
use crate::tail::{Path, TailAction, TcpPacket};

impl Intake {
    /// A packet that is judged here. Whether it is one.
    pub(super) fn handle_segment(&mut self, now: Instant, packet: &mut [u8]) -> bool {
        let (has_tails, has_clamps) = (self.plan.has_tails(), self.plan.has_clamps());
        if !has_tails && !has_clamps {
            return false;
        }
        let Ok(Some(mut packet)) = TcpPacket::parse(packet) else { return false };
        let headers = *packet.headers();
        let Some((source, destination)) = headers.ports else { return false };
        let from = SocketAddr::new(headers.source, source);
        let to = SocketAddr::new(headers.destination, destination);
        let (incoming, outgoing) = (Path { network: from, behind: to }, Path { network: to, behind: from });
        if has_clamps && self.clamp(now, (incoming, outgoing), &mut packet) {
            return true;
        }
        let is_known = self.tails.knows(outgoing) || self.tails.knows(incoming);
        let may_have_tail = has_tails && (self.is_behind(from) || self.is_behind(to));
        if has_clamps && !is_known && !may_have_tail {
            // Of a connection that was open before the proxy, or has been forgotten: it stays as it is.
            self.forward(packet.bytes(), to.ip());
            return true;
        }
        let goes_out = self.tails.knows(outgoing) || !is_known && self.is_behind(from) && !self.is_behind(to);
        let action = if goes_out {
            self.tails.handle_outgoing(outgoing, &mut packet)
        } else {
            self.tails.handle_incoming(now, incoming, &mut packet)
        };
        match action {
            TailAction::Pass if goes_out => self.forward(packet.bytes(), headers.destination),
            TailAction::Pass => self.deliver_locally(packet.bytes(), headers.destination),
            TailAction::PassAndSend(answer) => {
                self.deliver_locally(packet.bytes(), headers.destination);
                self.forward(&answer, headers.source);
            }
            TailAction::OutOfWindow(Some(answer)) => self.forward(&answer, headers.source),
            TailAction::Swallow | TailAction::Drop(_) | TailAction::OutOfWindow(None) => {}
        }
        true
    }

    fn is_behind(&self, address: SocketAddr) -> bool {
        let tails = self.plan.treatments.iter().filter(|treatment| treatment.tail.is_some());
        tails.flat_map(|treatment| &treatment.behind).any(|net| net.contains(&address.ip()))
    }

    /// A SYN of a connection whose windows are lowered. A retransmission begins it anew.
    pub(super) fn open_clamp(&mut self, now: Instant, path: Path, (proxy, max): (usize, u64)) {
        let counters = &self.parts.counters.proxies;
        match self.clamps.close(path) {
            Some(before) => counters[before].open.subtract(1),
            None => counters[proxy].opened.add(1),
        }
        counters[proxy].open.add(1);
        if let Some(forgotten) = self.clamps.open(now, path, (proxy, max)) {
            counters[forgotten].open.subtract(1);
        }
    }

    /// Lowers a window. Whether the packet is of a connection that is known.
    fn clamp(
        &mut self,
        now: Instant,
        (incoming, outgoing): (Path, Path),
        packet: &mut TcpPacket<'_>,
    ) -> bool {
        let clamped = match self.clamps.handle_host(now, outgoing, packet) {
            Clamped::Unknown => self.clamps.handle_sender(incoming, packet),
            known => known,
        };
        match clamped {
            Clamped::Unknown => return false,
            Clamped::Unchanged => {}
            Clamped::Lowered(proxy) => {
                self.parts.counters.proxies[proxy].clamped.add(1);
            }
        }
        self.forward(packet.bytes(), packet.headers().destination);
        if packet.flags().contains(TcpFlags::RST)
            && let Some(proxy) = self.clamps.close(outgoing)
        {
            self.parts.counters.proxies[proxy].open.subtract(1);
        }
        true
    }

    /// Sends a packet to the network. If it is too long for the next link, its sender is told, as by any router.
    pub(super) fn forward(&mut self, packet: &[u8], to: IpAddr) {
        if self.parts.forward.send(packet, to) != Err(Errno::MSGSIZE) {
            return;
        }
        self.parts.counters.totals.too_long.add(1);
        let Ok(headers) = trunkline_packet::Headers::parse(packet, packet.len()) else { return };
        let Some((mtu, source)) = self.parts.routing.next_link(to) else { return };
        if let Some(message) = answer::icmp(Unreachable::TooLong(mtu), packet, source) {
            // The sender is a host behind, or a socket of ours with the address of one.
            let ours = headers.ports.is_some_and(|(source, destination)| {
                let behind = SocketAddr::new(headers.source, source);
                self.tails.knows(Path { network: SocketAddr::new(to, destination), behind })
            });
            let sender = if ours { &self.parts.local } else { &self.parts.forward };
            let _ = sender.send(&message, headers.source);
        }
    }

    /// Sends a packet to a socket of the proxy. What the kernel refuses is lost, as on any link.
    fn deliver_locally(&self, packet: &[u8], to: IpAddr) {
        let _ = self.parts.local.send(packet, to);
    }
}
