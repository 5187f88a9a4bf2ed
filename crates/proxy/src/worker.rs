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
use crate::syn::Connection;

const MAILBOX: u64 = u64::MAX;
/// A connection's key has the number of its slot in the lower half, and the generation above it: of so many bits that epoll's data has
/// room for the side.
const SLOTS: u64 = u32::MAX as u64;
const GENERATIONS: u32 = u32::MAX >> 2;
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
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    /// Connections that have more to do at once.
    ready: Vec<u64>,
    /// Connections with an end that has not acknowledged all of a closed direction. Nothing reports when it has.
    undelivered: Vec<u64>,
    /// When these were looked at.
    checked: Instant,
    /// Connections that have been in use since they were measured, or held something then.
    busy: Vec<u64>,
    /// When these were measured.
    measured: Instant,
    /// A connection that has been idle for less is never closed to make room.
    evict_after: Duration,
}

#[derive(Debug, Default)]
struct Slot {
    /// So that an event of a connection that has ended is not taken for one of its successor.
    generation: u32,
    relay: Option<Box<Relay>>,
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
            slots: Vec::new(),
            vacant: Vec::new(),
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
                } else if let Some(relay) = self.slot(token >> 1).and_then(|slot| slot.relay.as_deref_mut()) {
                    let side = if token & 1 == 0 { Side::Client } else { Side::Server };
                    relay.handle_event(now, side, event.flags);
                    self.turn(token >> 1);
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
            let Some(slot) = self.slot(key) else { continue };
            slot.busy = false;
            let Some(relay) = slot.relay.as_deref_mut() else { continue };
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
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let key = u64::from(self.slots[slot as usize].generation) << 32 | u64::from(slot);
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::PRI
            | epoll::EventFlags::ET;
        let mut watched = Ok(());
        for side in [Side::Client, Side::Server] {
            let data = epoll::EventData::new_u64(key << 1 | side.index() as u64);
            watched = watched.and_then(|()| epoll::add(&self.epoll, relay.socket(side), data, flags));
        }
        self.counters.totals.open.add(1);
        if let Some(proxy) = self.counters.proxies.get(relay.place.proxy) {
            proxy.open.add(1);
            proxy.opened.add(1);
        }
        self.slots[slot as usize].relay = Some(relay);
        if watched.is_err() {
            self.counters.totals.without_means.add(1);
            self.end(key, false);
        }
    }

    fn slot(&mut self, key: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut((key & SLOTS) as usize)?;
        (u64::from(slot.generation) == key >> 32).then_some(slot)
    }

    fn turn(&mut self, key: u64) {
        let slot =
            self.slots.get_mut((key & SLOTS) as usize).filter(|slot| u64::from(slot.generation) == key >> 32);
        let Some(slot) = slot else { return };
        slot.queued = false;
        let Some(relay) = slot.relay.as_deref_mut() else { return };
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

    fn end(&mut self, key: u64, in_order: bool) {
        let Some(slot) = self.slot(key) else { return };
        slot.generation = (slot.generation + 1) & GENERATIONS;
        (slot.queued, slot.watched, slot.busy) = (false, false, false);
        let Some(relay) = slot.relay.take() else { return };
        self.vacant.push((key & SLOTS) as u32);
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
            let Some(slot) = self.slot(key) else { continue };
            let Some(relay) = slot.relay.as_deref_mut() else { continue };
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
        let idle = |(index, slot): (usize, &Slot)| {
            let relay = slot.relay.as_deref()?;
            let idle = relay.idle(now);
            (idle >= self.evict_after).then(|| (idle, u64::from(slot.generation) << 32 | index as u64))
        };
        let mut idle: Vec<(Duration, u64)> = self.slots.iter().enumerate().filter_map(idle).collect();
        idle.sort_unstable_by(|a, b| b.cmp(a));
        let count = count.min(idle.len());
        for (_, key) in idle.into_iter().take(count) {
            self.counters.totals.evicted.add(1);
            self.end(key, false);
        }
        self.outbox.post(FromWorker::Evicted { worker: self.number, count });
    }
}
