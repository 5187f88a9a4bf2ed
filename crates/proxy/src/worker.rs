//! A worker: one epoll loop that moves the data of its connections.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use trunkline_linux::clock;
use trunkline_linux::mailbox::Mailbox;
use trunkline_trunk::path_tail::HostState;
use trunkline_units::Instant;

use crate::counters::Counters;
use crate::polling::{Polled, Polling};
use crate::relay::{Delivery, Next, Pipes, Place, Progress, Relay, Side};
use crate::slots::{Key, Slots};
use crate::syn::Connection;

const MAILBOX: u64 = u64::MAX;
const MAX_EVENTS: usize = 256;
/// What a worker is told.
#[derive(Debug)]
pub(crate) enum ToWorker {
    /// A connection to move data of.
    Adopt(Box<Relay>),
    /// Close so many of the connections that have been idle for longest.
    Evict(usize),
    /// End.
    Stop,
}

/// What a worker tells.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FromWorker {
    /// A connection is over.
    Ended {
        /// The worker's number.
        worker: usize,
        /// Which one.
        connection: Connection,
    },
    /// The end behind the proxy has acknowledged everything, the close included.
    Delivered(Connection),
    /// What the end behind does with what is sent to it, where its tail is emulated.
    Host(Connection, HostState),
    /// It has closed so many idle connections.
    Evicted {
        /// The worker's number.
        worker: usize,
        /// How many.
        count: usize,
    },
    /// It works no more.
    Gone,
}

/// Tells of the end of a worker, however it comes.
struct Alarm(Mailbox<FromWorker>);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.post(FromWorker::Gone);
    }
}

/// What a worker needs.
#[derive(Debug)]
pub(crate) struct Worker {
    number: usize,
    epoll: OwnedFd,
    inbox: Mailbox<ToWorker>,
    outbox: Mailbox<FromWorker>,
    counters: Arc<Counters>,
    pipes: Pipes,
    slots: Slots<Slot>,
    /// Connections that have more to do at once.
    ready: Vec<Key>,
    /// When connections are looked at of which something is held.
    polling: Polling,
    /// A connection that has been idle for less is never closed to make room.
    evict_after: Duration,
}

#[derive(Debug)]
struct Slot {
    relay: Box<Relay>,
    /// Whether it is in `ready`.
    queued: bool,
    /// Whether an end has not acknowledged a close that must be acknowledged by it alone.
    closing: bool,
    polled: Polled,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        (inbox, outbox): (Mailbox<ToWorker>, Mailbox<FromWorker>),
        counters: Arc<Counters>,
        (pipes, evict_after): (Pipes, Duration),
    ) -> std::io::Result<Worker> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &inbox, epoll::EventData::new_u64(MAILBOX), epoll::EventFlags::IN)?;
        Ok(Worker {
            number,
            epoll,
            inbox,
            outbox,
            counters,
            pipes,
            slots: Slots::new(),
            ready: Vec::new(),
            polling: Polling::default(),
            evict_after,
        })
    }

    /// Works until it is told to end, or its epoll descriptor fails. Its connections are reset then.
    pub(crate) fn run(mut self) -> std::io::Result<()> {
        let _alarm = Alarm(self.outbox.clone());
        let mut events: Vec<epoll::Event> = Vec::with_capacity(MAX_EVENTS);
        loop {
            events.clear();
            let wait = self.wait(clock::now()).map(|wait| Timespec {
                tv_sec: wait.as_secs().cast_signed(),
                tv_nsec: i64::from(wait.subsec_nanos()),
            });
            match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let now = clock::now();
            for ready in std::mem::take(&mut self.ready) {
                self.turn(now, ready);
            }
            let mut has_mail = false;
            for event in &events {
                let token = event.data.u64();
                if token == MAILBOX {
                    has_mail = true;
                    continue;
                }
                let key = Key::from_u64(token >> 1);
                if let Some(slot) = self.slots.get_mut(key) {
                    let side = if token & 1 == 0 { Side::Client } else { Side::Server };
                    slot.relay.handle_event(now, side, event.flags);
                    // The kernel says that a close has been acknowledged.
                    let may_be_delivered = slot.closing && slot.relay.delivers_to == Some(side);
                    self.turn(now, key);
                    if may_be_delivered {
                        self.look(now, key);
                    }
                }
            }
            while let Some(key) = self.polling.poll(now) {
                self.look(now, key);
            }
            if has_mail && !self.read_mail(now) {
                return Ok(());
            }
        }
    }

    /// How long to wait for events.
    fn wait(&self, now: Instant) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        self.polling.next_timeout().map(|at| at.saturating_since(now))
    }

    /// Asks what the end behind has acknowledged, and ends what has been closed long enough.
    fn look(&mut self, now: Instant, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let (place, before) = (slot.relay.place, slot.relay.progress);
        let after = slot.relay.measure(now);
        self.count(place, before, after);
        let Some(slot) = self.slots.get_mut(key) else { return };
        if after.host != before.host && slot.relay.delivers_to.is_some() {
            self.outbox.post(FromWorker::Host(slot.relay.connection, after.host));
        }
        match slot.closing.then(|| slot.relay.delivery()) {
            Some(Delivery::Done) => {
                slot.closing = false;
                slot.relay.delivers_to = None;
                self.polling.stop(key, &mut slot.polled);
                self.outbox.post(FromWorker::Delivered(slot.relay.connection));
                return self.turn(now, key);
            }
            Some(Delivery::Failed) => return self.give_up(now, key),
            Some(Delivery::Waits) | None => {}
        }
        if after.has_moved_since(&before) {
            self.polling.handle_news(now, key, &mut slot.polled);
        } else if slot.closing && slot.polled.is_given_up(now) {
            self.give_up(now, key);
        } else if after.held > 0 || slot.closing {
            self.polling.handle_no_news(now, key, &mut slot.polled);
        } else {
            self.polling.stop(key, &mut slot.polled);
        }
    }

    fn count(&self, place: Place, before: Progress, after: Progress) {
        let Some(proxy) = self.counters.proxies.get(place.proxy) else { return };
        proxy.delivered.add(after.delivered.saturating_sub(before.delivered));
        proxy.hold(before.held, after.held);
        proxy.waiting.replace(before.waiting, after.waiting);
        if let Some(rtt) = after.min_rtt.filter(|_| after.waiting > 0) {
            proxy.min_rtt_us.set(rtt.as_micros() as u64);
        }
    }

    fn give_up(&mut self, now: Instant, key: Key) {
        self.counters.totals.reset.add(1);
        self.end(now, key, false);
    }

    /// Whether to go on.
    fn read_mail(&mut self, now: Instant) -> bool {
        for message in self.inbox.take() {
            match message {
                ToWorker::Adopt(relay) => self.adopt(now, relay),
                ToWorker::Evict(count) => self.evict(now, count),
                ToWorker::Stop => return false,
            }
        }
        true
    }

    fn adopt(&mut self, now: Instant, relay: Box<Relay>) {
        let place = relay.place;
        let key = self.slots.insert(Slot { relay, queued: false, closing: false, polled: Polled::default() });
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::PRI
            | epoll::EventFlags::ET;
        let mut watched = Ok(());
        if let Some(slot) = self.slots.get(key) {
            for side in [Side::Client, Side::Server] {
                let data = epoll::EventData::new_u64(key.to_u64() << 1 | side.index() as u64);
                watched =
                    watched.and_then(|()| epoll::add(&self.epoll, slot.relay.socket(side), data, flags));
            }
        }
        self.counters.totals.open.add(1);
        if let Some(proxy) = self.counters.proxies.get(place.proxy) {
            proxy.open.add(1);
            proxy.opened.add(1);
        }
        if watched.is_err() {
            self.counters.totals.without_means.add(1);
            self.end(now, key, false);
        }
    }

    fn turn(&mut self, now: Instant, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.queued = false;
        let relay = &mut slot.relay;
        let next = relay.turn(&mut self.pipes);
        let [from_client, from_server] = relay.take_moved();
        if from_client > 0 {
            self.counters.totals.bytes_from_clients.add(from_client);
        }
        if from_server > 0 {
            self.counters.totals.bytes_from_servers.add(from_server);
        }
        let closes = relay.waits_for_delivery() && next != Next::Broken;
        if from_client + from_server > 0 || closes && !slot.closing {
            self.polling.handle_change(now, key, &mut slot.polled);
        }
        slot.closing |= closes;
        if closes && next == Next::Closed {
            return;
        }
        match next {
            Next::Event => {}
            Next::Turn => {
                if !std::mem::replace(&mut slot.queued, true) {
                    self.ready.push(key);
                }
            }
            Next::Closed => self.end(now, key, true),
            Next::Broken => self.give_up(now, key),
        }
    }

    fn end(&mut self, now: Instant, key: Key, in_order: bool) {
        let Some(Slot { mut relay, mut polled, .. }) = self.slots.remove(key) else { return };
        self.polling.stop(key, &mut polled);
        let (connection, place, before) = (relay.connection, relay.place, relay.progress);
        // What the kernel still sends of a connection that ended in order is counted as delivered.
        let last = relay.measure(now);
        let delivered = if in_order { last.delivered + last.held } else { last.delivered };
        relay.end(&mut self.pipes, in_order);
        self.counters.totals.open.subtract(1);
        self.count(place, before, Progress { delivered, ..Progress::default() });
        if let Some(proxy) = self.counters.proxies.get(place.proxy) {
            proxy.open.subtract(1);
        }
        self.outbox.post(FromWorker::Ended { worker: self.number, connection });
    }

    fn evict(&mut self, now: Instant, count: usize) {
        let idle = |(key, slot): (Key, &Slot)| {
            let idle = slot.relay.idle(now);
            (idle >= self.evict_after).then_some((idle, key))
        };
        let mut idle: Vec<(Duration, Key)> = self.slots.iter().filter_map(idle).collect();
        idle.sort_unstable_by(|a, b| b.cmp(a));
        let count = count.min(idle.len());
        for (_, key) in idle.into_iter().take(count) {
            self.counters.totals.evicted.add(1);
            self.end(now, key, false);
        }
        self.outbox.post(FromWorker::Evicted { worker: self.number, count });
    }
}
