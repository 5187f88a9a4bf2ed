//! A worker: one epoll loop that moves the data of its connections.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use trunkline_linux::clock;
use trunkline_linux::mailbox::Mailbox;
use trunkline_units::Instant;

use crate::counters::Counters;
use crate::relay::{Delivery, Next, Pipes, Place, Progress, Relay, Side};
use crate::slots::{Key, Slots};
use crate::syn::Connection;

const MAILBOX: u64 = u64::MAX;
const MAX_EVENTS: usize = 256;
/// How often ends are asked whether they have acknowledged everything.
const DELIVERY_INTERVAL: Duration = Duration::from_millis(20);
/// How often connections in use are asked what they hold, and so many of them: of more each is asked less often, since each takes three
/// system calls.
const MEASURE_INTERVAL: Duration = Duration::from_millis(20);
const MEASURED_AT_A_TIME: u32 = 64;

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
    /// Connections with an end that has not acknowledged all of a closed direction. Nothing reports when it has.
    undelivered: Vec<Key>,
    /// When these were looked at.
    checked: Instant,
    /// Connections that have been in use since they were measured, or held something then.
    busy: Vec<Key>,
    /// When these were measured.
    measured: Instant,
    /// A connection that has been idle for less is never closed to make room.
    evict_after: Duration,
}

#[derive(Debug)]
struct Slot {
    relay: Box<Relay>,
    /// Whether it is in `ready`.
    queued: bool,
    /// Whether it is in `undelivered`.
    watched: bool,
    /// Whether it is in `busy`.
    busy: bool,
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
            undelivered: Vec::new(),
            checked: Instant::ZERO,
            busy: Vec::new(),
            measured: Instant::ZERO,
            evict_after,
        })
    }

    /// Works until it is told to end, or its epoll descriptor fails. Its connections are reset then.
    pub(crate) fn run(mut self) -> std::io::Result<()> {
        let _alarm = Alarm(self.outbox.clone());
        let mut events: Vec<epoll::Event> = Vec::with_capacity(MAX_EVENTS);
        loop {
            events.clear();
            let wait = self.wait().map(|wait| Timespec {
                tv_sec: wait.as_secs().cast_signed(),
                tv_nsec: i64::from(wait.subsec_nanos()),
            });
            match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let now = clock::now();
            for ready in std::mem::take(&mut self.ready) {
                self.turn(ready);
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
                    self.turn(key);
                }
            }
            self.check_delivery(now);
            if !self.busy.is_empty() && now.saturating_since(self.measured) >= self.measure_interval() {
                self.measured = now;
                self.measure();
            }
            if has_mail && !self.read_mail(now) {
                return Ok(());
            }
        }
    }

    fn measure_interval(&self) -> Duration {
        MEASURE_INTERVAL * (1 + self.busy.len() as u32 / MEASURED_AT_A_TIME)
    }

    /// How long to wait for events.
    fn wait(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let measure = (!self.busy.is_empty()).then(|| self.measure_interval());
        let check = (!self.undelivered.is_empty()).then_some(DELIVERY_INTERVAL);
        measure.into_iter().chain(check).min()
    }

    /// Measures the connections in use.
    fn measure(&mut self) {
        for key in std::mem::take(&mut self.busy) {
            let Some(slot) = self.slots.get_mut(key) else { continue };
            let relay = &mut slot.relay;
            let (before, place) = (relay.progress, relay.place);
            relay.progress = relay.measure();
            let after = relay.progress;
            slot.busy = after.held > 0;
            if slot.busy {
                self.busy.push(key);
            }
            self.count(place, before, after);
        }
    }

    fn count(&self, place: Place, before: Progress, after: Progress) {
        let Some(proxy) = self.counters.proxies.get(place.proxy) else { return };
        proxy.delivered.add(after.delivered.saturating_sub(before.delivered));
        proxy.hold(before.held, after.held);
        if let Some(rtt) = after.min_rtt.filter(|_| after.held > 0) {
            proxy.min_rtt_us.set(rtt.as_micros() as u64);
        }
    }

    /// Whether to go on.
    fn read_mail(&mut self, now: Instant) -> bool {
        for message in self.inbox.take() {
            match message {
                ToWorker::Adopt(relay) => self.adopt(relay),
                ToWorker::Evict(count) => self.evict(now, count),
                ToWorker::Stop => return false,
            }
        }
        true
    }

    fn adopt(&mut self, relay: Box<Relay>) {
        let place = relay.place;
        let key = self.slots.insert(Slot { relay, queued: false, watched: false, busy: false });
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
            self.end(key, false);
        }
    }

    fn turn(&mut self, key: Key) {
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
        if from_client + from_server > 0 && !std::mem::replace(&mut slot.busy, true) {
            self.busy.push(key);
        }
        if relay.waits_for_delivery() && next != Next::Broken {
            if !std::mem::replace(&mut slot.watched, true) {
                self.undelivered.push(key);
            }
            if next == Next::Closed {
                return;
            }
        }
        match next {
            Next::Event => {}
            Next::Turn => {
                if !std::mem::replace(&mut slot.queued, true) {
                    self.ready.push(key);
                }
            }
            Next::Closed => self.end(key, true),
            Next::Broken => {
                self.counters.totals.reset.add(1);
                self.end(key, false);
            }
        }
    }

    fn end(&mut self, key: Key, in_order: bool) {
        let Some(Slot { relay, .. }) = self.slots.remove(key) else { return };
        let (connection, place, before) = (relay.connection, relay.place, relay.progress);
        // What the kernel still sends of a connection that ended in order is counted as delivered.
        let last = relay.measure();
        let delivered = if in_order { last.delivered + last.held } else { last.delivered };
        relay.end(&mut self.pipes, in_order);
        self.counters.totals.open.subtract(1);
        self.count(place, before, Progress { delivered, held: 0, min_rtt: None });
        if let Some(proxy) = self.counters.proxies.get(place.proxy) {
            proxy.open.subtract(1);
        }
        self.outbox.post(FromWorker::Ended { worker: self.number, connection });
    }

    fn check_delivery(&mut self, now: Instant) {
        if self.undelivered.is_empty() || now.saturating_since(self.checked) < DELIVERY_INTERVAL {
            return;
        }
        self.checked = now;
        for key in std::mem::take(&mut self.undelivered) {
            let Some(slot) = self.slots.get_mut(key) else { continue };
            let relay = &mut slot.relay;
            match relay.delivery() {
                Delivery::Waits => self.undelivered.push(key),
                Delivery::Done => {
                    slot.watched = false;
                    relay.delivers_to = None;
                    let connection = relay.connection;
                    self.outbox.post(FromWorker::Delivered(connection));
                    self.turn(key);
                }
                Delivery::Failed => {
                    self.counters.totals.reset.add(1);
                    self.end(key, false);
                }
            }
        }
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
            self.end(key, false);
        }
        self.outbox.post(FromWorker::Evicted { worker: self.number, count });
    }
}
