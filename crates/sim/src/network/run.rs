//! The event loop: takes the next event from the agenda and hands it to the part that it is for.

use std::time::Duration;

use trunkline_link::Arrival;
use trunkline_units::Instant;

use super::{Network, Source};
use crate::Packet;
use crate::agenda::Kind;
use crate::connection::{ConnectionId, Upcall};
use crate::link::LinkId;
use crate::node::{NodeId, NodeKind};
use crate::progress::MAX_UPCALLS;
use crate::proxy::Proxy;
use crate::traffic::SourceId;

/// How a part of a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// There are more events.
    On,
    /// All events up to the end of the part have happened.
    ToItsEnd,
    /// All sources that were awaited are over.
    Over,
}

impl Network {
    pub(super) fn begin(&mut self) {
        self.find_routes();
        self.trunks.begin(&mut self.net);
        let (links, sources) = self.begun;
        for number in links..self.net.links.len() {
            let id = LinkId(number as u32);
            self.net.links[number].start(self.net.now, id, &mut self.net.agenda);
        }
        for number in sources..self.sources.len() {
            match &mut self.sources[number] {
                Source::Transfers(source) => {
                    source.adapt(&self.net);
                    source.begin(&mut self.net, number as u32);
                }
                Source::Datagrams(source) => source.begin(&mut self.net, number as u32),
            }
        }
        self.begun = (self.net.links.len(), self.sources.len());
    }

    /// Runs all events up to `end`, and stops the clock there.
    pub fn run_until(&mut self, end: Instant) {
        self.begin();
        while self.step(end) {}
        self.net.now = self.net.now.max(end);
    }

    /// Runs all events within `time`.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.net.now + time);
    }

    /// As [`Network::run_until`], but stops as the last of these sources is over: it has no transfer that goes on or is to begin.
    /// Whether all are. Sources of datagrams never are.
    pub fn run_until_over(&mut self, sources: &[SourceId], end: Instant) -> bool {
        loop {
            match self.run_some(sources, end, u32::MAX) {
                Ran::On => {}
                Ran::ToItsEnd => return false,
                Ran::Over => return true,
            }
        }
    }

    /// The next `events` events up to `end`, until all of these sources are over, if there are any: between calls the owner may do
    /// other things, such as to stop the run.
    pub fn run_some(&mut self, sources: &[SourceId], end: Instant, events: u32) -> Ran {
        self.begin();
        let mut left = sources.iter();
        let mut awaited = left.next();
        for _ in 0..events {
            while awaited.is_some_and(|source| self.is_over(*source)) {
                awaited = left.next();
                if awaited.is_none() {
                    return Ran::Over;
                }
            }
            if !self.step(end) {
                self.net.now = self.net.now.max(end);
                return Ran::ToItsEnd;
            }
        }
        Ran::On
    }

    fn is_over(&self, id: SourceId) -> bool {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.is_over(),
            Source::Datagrams(_) => false,
        }
    }

    /// Starts anew what a warm-up would distort: the peaks of queues and buffers, the minimum and maximum delay of datagrams, and
    /// [`Datagrams::sent_before_reset`](trunkline_workload::Datagrams::sent_before_reset).
    pub fn reset_peaks(&mut self) {
        self.net.links.iter_mut().for_each(|link| link.machine.reset_peaks());
        let now = self.net.now;
        self.net.datagrams.iter_mut().for_each(|flow| flow.reset_peaks(now));
        self.proxies.iter_mut().for_each(Proxy::reset_peaks);
        self.trunks.reset_peaks();
    }

    /// One event, if there is one up to `end`.
    #[inline]
    fn step(&mut self, end: Instant) -> bool {
        let Some((at, who)) = self.net.agenda.next(end) else { return false };
        assert!(at >= self.net.now, "time runs forward");
        if self.progress.is_stuck(at, who) {
            self.stuck(at, who);
        }
        self.net.now = at;
        self.net.digest.add(at.as_nanos(), (who.kind as u64) << 32 | u64::from(who.index));
        let index = who.index as usize;
        match who.kind {
            Kind::Arrival => {
                let link = &mut self.net.links[index];
                let to = link.to;
                if let Some(Arrival { mut packet, duplicated }) =
                    link.arrive(at, LinkId(who.index), &mut self.net.agenda)
                {
                    self.net.hops += 1;
                    self.net.look_ahead(LinkId(who.index));
                    self.net.digest.add(packet.sent().as_nanos(), u64::from(packet.length()));
                    if duplicated {
                        self.net.duplicates.mark(&mut packet);
                        self.receive(to, packet.clone());
                    }
                    self.receive(to, packet);
                }
            }
            Kind::Free => {
                let now = self.net.now;
                self.net.links[index].begin(now, LinkId(who.index), &mut self.net.agenda);
            }
            Kind::Change => {
                let now = self.net.now;
                self.net.links[index].change(now, LinkId(who.index), &mut self.net.agenda);
            }
            Kind::Connection => self.net.run_timer(ConnectionId(who.index)),
            Kind::Gateway => self.trunks.run_timer(&mut self.net, who.index),
            Kind::Proxy => self.proxies[index].run_timer(&mut self.net, who.index),
            Kind::Source => match &mut self.sources[index] {
                Source::Transfers(source) => source.run(&mut self.net, who.index),
                Source::Datagrams(source) => source.run(&mut self.net, who.index),
            },
        }
        self.answer_upcalls();
        true
    }

    /// A packet arrives at a node.
    #[inline]
    fn receive(&mut self, at: NodeId, packet: Packet) {
        let here = packet.destination() == at;
        match self.net.nodes[at.index()].kind {
            _ if here => {
                if let Some((half, lane, datagram)) = self.net.deliver(at, packet) {
                    self.trunks.handle_datagram(&mut self.net, half, lane, &datagram);
                }
            }
            NodeKind::Router => self.net.forward(at, packet),
            NodeKind::Proxy(proxy) => {
                self.proxies[proxy as usize].handle_packet(&mut self.net, proxy, packet);
            }
            NodeKind::Gateway(gateway) => self.trunks.handle_packet(&mut self.net, (at, gateway), packet),
            NodeKind::Host => self.net.nodes[at.index()].stats.no_listener += 1,
        }
    }

    #[inline]
    fn answer_upcalls(&mut self) {
        let mut left = MAX_UPCALLS;
        while let Some(upcall) = self.net.upcalls.pop() {
            left -= 1;
            assert!(left > 0, "{upcall:?} at {:?}: its answers have no end", self.net.now);
            self.answer(upcall);
        }
    }

    #[inline]
    fn answer(&mut self, upcall: Upcall) {
        let Network { net, sources, trunks, proxies, .. } = self;
        match upcall {
            Upcall::Connected { source, transfer } => {
                sources[source as usize].transfers().connected(net, transfer);
            }
            Upcall::Exchanged { source, transfer } => {
                sources[source as usize].transfers().exchanged(net, source, transfer);
            }
            Upcall::Received { source, transfer } => {
                sources[source as usize].transfers().received(net, transfer);
            }
            Upcall::Ended { source, transfer, orderly } => {
                sources[source as usize].transfers().ended(net, source, transfer, orderly);
            }
            Upcall::Lane { gateway, lane } => trunks.handle_lane(net, gateway, lane),
            Upcall::Broken { gateway, lane } => trunks.handle_broken(net, gateway, lane),
            Upcall::Split { proxy, flow } => proxies[proxy as usize].handle_split(net, proxy, flow),
        }
    }
}
