//! The thread that carries packets between the devices of all links of a network.
//!
//! One thread serves them all: a thread for each would wake up as often as all of them together, and a packet that crosses five
//! links would wait for five threads in turn. It sleeps in one `epoll` over all devices, a bell, and a timer that is set to the
//! earliest time at which any link has something to do. The timer is a `timerfd` with an absolute time, so the time between the
//! look at the clock and the sleep is no error.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use trunkline_link::Delivery;
use trunkline_units::{Instant, Rng};

use super::control::{Bell, Control, LinkHandle, Wanted, lock};
use super::model::{Packet, Wire};
use super::tun::Tun;
use super::{Direction, DuplexSettings};
use crate::awake::Awake;
use crate::clock::{self, Scheduling};

/// Packets read from one device before the others get their turn.
const BATCH: usize = 32;
/// Events taken at once.
const EVENTS: usize = 64;
/// How soon a reading is shown that another thread was in the way of.
const RETRY: Duration = Duration::from_millis(1);
/// Longer than any packet a TUN hands over without a virtio header.
const BUFFER_BYTES: usize = 65_536;
/// Of events that are no device's: those have the number of their link twice, and once more of the second end.
const BELL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// What the thread and its owner share.
#[derive(Debug)]
struct Inbox {
    bell: Arc<Bell>,
    orders: Mutex<Orders>,
}

#[derive(Debug, Default)]
struct Orders {
    joined: Vec<Port>,
    stop: bool,
}

/// The running thread; it is joined on drop.
#[derive(Debug)]
pub(super) struct Forwarder {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
    _awake: Awake,
}

impl Forwarder {
    pub(super) fn start(scheduling: Scheduling) -> io::Result<Self> {
        let bell = Arc::new(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?));
        let inbox = Arc::new(Inbox { bell, orders: Mutex::default() });
        let mut run = Run::new(Arc::clone(&inbox))?;
        let thread = thread::Builder::new().name("links".to_owned()).spawn(move || {
            scheduling.apply();
            run.run();
        })?;
        Ok(Self { inbox, thread: Some(thread), _awake: Awake::new() })
    }

    /// Carries packets between two devices from now on.
    pub(super) fn join(&self, tuns: [Tun; 2], settings: &DuplexSettings) -> LinkHandle {
        let (port, handle) = Port::new(tuns, settings, Arc::clone(&self.inbox.bell));
        lock(&self.inbox.orders).joined.push(port);
        self.inbox.bell.ring();
        handle
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        lock(&self.inbox.orders).stop = true;
        self.inbox.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A link of the thread.
#[derive(Debug)]
struct Port {
    /// Of the first host and of the second.
    tuns: [Tun; 2],
    /// From the first to the second, and back.
    wires: [Wire; 2],
    overhead_bytes: u32,
    control: Arc<Control>,
    current: Wanted,
    /// Of each direction, whether anything happened since its reading was shown.
    unpublished: [bool; 2],
}

impl Port {
    fn new(tuns: [Tun; 2], settings: &DuplexSettings, bell: Arc<Bell>) -> (Self, LinkHandle) {
        let now = clock::now();
        let wire = |settings_of, name| Wire::new(settings_of, Rng::new(settings.seed, name).next_u64(), now);
        let wires = [wire(&settings.forward, "link forward"), wire(&settings.backward, "link backward")];
        let readings = wires.each_ref().map(|wire| wire.reading(now));
        let control = Arc::new(Control::new(settings, bell, readings));
        let handle = LinkHandle { control: Arc::clone(&control) };
        let current = control.wanted();
        let port = Port {
            tuns,
            wires,
            overhead_bytes: settings.overhead_bytes,
            control,
            current,
            unpublished: [false; 2],
        };
        (port, handle)
    }

    /// Delivers what has arrived in one direction by now, and says what time it is then.
    fn emit(&mut self, way: Direction) -> Instant {
        let wire = &mut self.wires[way as usize];
        let far = &self.tuns[1 - way as usize];
        loop {
            let now = clock::now();
            let Some(Delivery { packet, duplicated, .. }) = wire.poll(now) else { return now };
            for _ in 0..=u8::from(duplicated) {
                if far.write(packet.data()).is_err() {
                    wire.refused(&packet);
                }
            }
        }
    }

    /// Takes packets from the device where one direction begins.
    fn absorb(&mut self, way: Direction, buffer: &mut [u8]) {
        self.unpublished[way as usize] = true;
        for _ in 0..BATCH {
            // An error means that the device is down: its host sends nothing then.
            let Ok(Some(bytes)) = self.tuns[way as usize].read(buffer) else { return };
            let packet = Packet::new(buffer[..bytes].to_vec(), self.overhead_bytes);
            let now = self.emit(way);
            self.wires[way as usize].offer(now, packet);
        }
    }

    /// Delivers what has arrived by `now`, and does what else is due then.
    fn emit_due(&mut self, now: Instant) {
        for way in Direction::BOTH {
            if self.wires[way as usize].next_wakeup().is_some_and(|at| at <= now) {
                self.unpublished[way as usize] = true;
                self.emit(way);
            }
        }
    }

    fn obey(&mut self) {
        let Some(wanted) = self.control.take_changed() else { return };
        for way in Direction::BOTH {
            self.unpublished[way as usize] = true;
            let now = self.emit(way);
            let (wire, settings) = (&mut self.wires[way as usize], &wanted.ways[way as usize]);
            if self.current.ways[way as usize] != *settings {
                wire.reconfigure(now, settings);
            }
            if let Some(start) = wanted.changes_from
                && self.current.changes_from != wanted.changes_from
            {
                wire.restart_changes(now, start);
            }
            if self.current.peak_resets != wanted.peak_resets {
                wire.reset_peaks();
            }
            if self.current.up != wanted.up {
                wire.set_up(now, wanted.up);
            }
        }
        self.current = wanted;
    }

    /// Shows new readings; whether all could be shown.
    fn publish(&mut self) -> bool {
        for way in Direction::BOTH {
            if self.unpublished[way as usize] {
                let wire = &self.wires[way as usize];
                self.unpublished[way as usize] = !self.control.publish(way, || wire.reading(clock::now()));
            }
        }
        self.unpublished == [false; 2]
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.wires.iter().filter_map(Wire::next_wakeup).min()
    }
}

/// The thread's own.
struct Run {
    inbox: Arc<Inbox>,
    epoll: rustix::fd::OwnedFd,
    timer: rustix::fd::OwnedFd,
    /// What the timer is set to; `None` where that is not known or it is not set.
    armed: Option<Instant>,
    ports: Vec<Port>,
    buffer: Vec<u8>,
}

impl Run {
    fn new(inbox: Arc<Inbox>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &inbox.bell.0, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        Ok(Self { inbox, epoll, timer, armed: None, ports: Vec::new(), buffer: vec![0; BUFFER_BYTES] })
    }

    fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        let mut wake = None;
        while self.turn(&mut wake, &mut events) {}
    }

    /// Sleeps until something comes or `wake`, does what is due, and says when to wake next; `false` if that is never.
    fn turn(&mut self, wake: &mut Option<Instant>, events: &mut Vec<epoll::Event>) -> bool {
        events.clear();
        if let Err(error) = self.wait(*wake, events) {
            debug_assert!(false, "epoll: {error}");
            return false;
        }
        // Also without an event: what became due since `wake` was computed has no timer.
        self.emit_due();
        for event in &*events {
            match event.data.u64() {
                BELL => {
                    if !self.obey() {
                        return false;
                    }
                }
                // It is set again before the next sleep, which clears it.
                TIMER => self.armed = None,
                device => self.absorb(device, event.flags),
            }
            // What is due goes before what comes from the next device.
            self.emit_due();
        }
        let mut shown = true;
        for port in &mut self.ports {
            shown &= port.publish();
        }
        *wake = self.ports.iter().filter_map(Port::next_wakeup).min();
        if !shown {
            let retry = clock::now() + RETRY;
            *wake = Some(wake.map_or(retry, |wake| wake.min(retry)));
        }
        true
    }

    fn emit_due(&mut self) {
        let now = clock::now();
        self.ports.iter_mut().for_each(|port| port.emit_due(now));
    }

    /// Sleeps until something comes or `wake`.
    fn wait(&mut self, wake: Option<Instant>, events: &mut Vec<epoll::Event>) -> rustix::io::Result<()> {
        let at_once = wake.is_some_and(|wake| wake <= clock::now());
        if !at_once && (wake.is_none() || wake != self.armed) {
            // Zero disarms it.
            let at = wake.unwrap_or(Instant::ZERO).saturating_since(Instant::ZERO);
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let time = Itimerspec { it_interval: never, it_value: clock::timespec(at) };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)?;
            self.armed = wake;
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let buffer = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, buffer, at_once.then_some(&zero)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Does what other threads want; `false` if that is to end.
    fn obey(&mut self) -> bool {
        self.inbox.bell.clear();
        let Orders { joined, stop } = std::mem::take(&mut *lock(&self.inbox.orders));
        for port in joined {
            let number = self.ports.len() as u64;
            for (end, tun) in (0..).zip(&port.tuns) {
                let data = epoll::EventData::new_u64(2 * number + end);
                // It fails only without memory; the link is then as one that is cut.
                let _ = epoll::add(&self.epoll, tun, data, epoll::EventFlags::IN);
            }
            self.ports.push(port);
        }
        self.ports.iter_mut().for_each(Port::obey);
        !stop
    }

    fn absorb(&mut self, device: u64, flags: epoll::EventFlags) {
        let way = Direction::BOTH[(device % 2) as usize];
        let Some(port) = self.ports.get_mut((device / 2) as usize) else { return };
        if flags.contains(epoll::EventFlags::IN) {
            port.absorb(way, &mut self.buffer);
        } else {
            // The device has gone with its host, and would report that for ever.
            let _ = epoll::delete(&self.epoll, &port.tuns[way as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use trunkline_link::LinkSettings;
    use trunkline_units::Rate;

    use super::*;

    /// A thread's state with one link of `delay`, and the hosts' sides of its devices.
    fn run(delay: Duration) -> (Run, [UnixDatagram; 2]) {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("bell");
        let inbox = Arc::new(Inbox { bell: Arc::new(Bell(bell)), orders: Mutex::default() });
        let mut run = Run::new(Arc::clone(&inbox)).expect("epoll");
        let devices = [(); 2].map(|()| UnixDatagram::pair().expect("sockets"));
        let [(a, host_a), (b, host_b)] = devices;
        let settings = DuplexSettings::symmetric(LinkSettings::new(Rate::MAX, delay));
        let (port, _) = Port::new([a, b].map(Tun::over), &settings, Arc::clone(&inbox.bell));
        lock(&inbox.orders).joined.push(port);
        assert!(run.obey());
        host_b.set_nonblocking(true).expect("a flag");
        (run, [host_a, host_b])
    }

    #[test]
    fn a_packet_that_became_due_without_an_event_is_delivered_in_the_same_turn() {
        let (mut run, [_, far]) = run(Duration::from_millis(1));
        let sent = Instant::from_nanos(clock::now().as_nanos() - 2_000_000);
        run.ports[0].wires[Direction::Forward as usize].offer(sent, Packet::new(vec![7; 100], 0));
        let mut wake = run.ports[0].next_wakeup();
        assert!(wake.is_some_and(|wake| wake < clock::now()), "{wake:?}");
        assert!(run.turn(&mut wake, &mut Vec::with_capacity(EVENTS)));
        assert_eq!(far.recv(&mut [0; 200]).expect("it has arrived"), 100);
        assert_eq!(wake, None);
    }

    #[test]
    fn a_packet_is_not_delivered_before_its_time() {
        let (mut run, [near, far]) = run(Duration::from_millis(20));
        near.send(&[7; 100]).expect("sent");
        let mut wake = None;
        let mut events = Vec::with_capacity(EVENTS);
        assert!(run.turn(&mut wake, &mut events));
        let due = wake.expect("it is on its way");
        assert!(far.recv(&mut [0; 200]).is_err());
        while wake.is_some() {
            assert!(run.turn(&mut wake, &mut events));
        }
        assert!(clock::now() >= due);
        assert_eq!(far.recv(&mut [0; 200]).expect("it has arrived"), 100);
    }
}
