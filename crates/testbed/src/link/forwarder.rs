//! The thread that carries packets between the two devices.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use trunkline_units::{Instant, Rng};

use super::control::{Control, LinkHandle, Wanted};
use super::model::{Packet, Path};
use super::tun::Tun;
use super::{Direction, LinkSettings};
use crate::clock;

/// Packets read from one device before the other gets its turn.
const BATCH: usize = 64;
/// The thread looks around at least this often, so that the published backlog is never older.
const IDLE: Duration = Duration::from_millis(100);
/// Longer than any packet a TUN hands over without a virtio header.
const BUFFER_BYTES: usize = 65_536;

/// The running thread; it is joined on drop.
#[derive(Debug)]
pub(super) struct Forwarder {
    handle: LinkHandle,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    pub(super) fn start(a: Tun, b: Tun, settings: LinkSettings) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let control = Arc::new(Control::new(&settings, bell));
        let handle = LinkHandle { control: Arc::clone(&control) };
        let mut wire = Wire::new(a, b, &settings);
        let thread = thread::Builder::new().name("link".to_owned()).spawn(move || {
            settings.scheduling.apply();
            wire.run(&control);
        })?;
        Ok(Self { handle, thread: Some(thread) })
    }

    pub(super) fn handle(&self) -> LinkHandle {
        self.handle.clone()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Wire {
    a: Tun,
    b: Tun,
    forward: Path,
    backward: Path,
    overhead_bytes: u32,
    buffer: Vec<u8>,
}

impl Wire {
    fn new(a: Tun, b: Tun, settings: &LinkSettings) -> Self {
        let path =
            |direction, name| Path::new(direction, settings.mtu as usize, Rng::new(settings.seed, name));
        Self {
            a,
            b,
            forward: path(settings.forward, "link forward"),
            backward: path(settings.backward, "link backward"),
            overhead_bytes: settings.overhead_bytes,
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    fn run(&mut self, control: &Control) {
        let mut current = control.wanted();
        while current.running {
            let wake = [self.forward.next_wake(), self.backward.next_wake()].into_iter().flatten().min();
            let ready = self.wait(control, wake);
            if ready.bell {
                let wanted = control.wanted();
                self.apply(current, wanted);
                current = wanted;
            }
            if ready.a {
                absorb(&self.a, &mut self.forward, &mut self.buffer, self.overhead_bytes);
            }
            if ready.b {
                absorb(&self.b, &mut self.backward, &mut self.buffer, self.overhead_bytes);
            }
            emit(&mut self.forward, &self.b);
            emit(&mut self.backward, &self.a);
            control.shared(Direction::Forward).publish(&self.forward.counters());
            control.shared(Direction::Backward).publish(&self.backward.counters());
        }
    }

    fn wait(&self, control: &Control, wake: Option<Instant>) -> Ready {
        let timeout = wake.map_or(IDLE, |wake| wake.saturating_since(clock::now()).min(IDLE));
        let mut sources = [
            PollFd::new(&self.a, PollFlags::IN),
            PollFd::new(&self.b, PollFlags::IN),
            PollFd::new(control.bell(), PollFlags::IN),
        ];
        if poll(&mut sources, Some(&clock::timespec(timeout))).is_err() {
            return Ready::default();
        }
        let [a, b, bell] = sources.map(|source| source.revents().contains(PollFlags::IN));
        Ready { a, b, bell }
    }

    fn apply(&mut self, current: Wanted, wanted: Wanted) {
        let now = clock::now();
        if current.forward != wanted.forward {
            self.forward.reconfigure(now, wanted.forward);
        }
        if current.backward != wanted.backward {
            self.backward.reconfigure(now, wanted.backward);
        }
        if current.up != wanted.up {
            self.forward.set_up(now, wanted.up);
            self.backward.set_up(now, wanted.up);
        }
    }
}

/// What the thread woke up for, besides the time.
#[derive(Default)]
struct Ready {
    a: bool,
    b: bool,
    bell: bool,
}

fn absorb(tun: &Tun, path: &mut Path, buffer: &mut [u8], overhead_bytes: u32) {
    for _ in 0..BATCH {
        // An error means that the device is down: its host sends nothing then.
        let Ok(Some(bytes)) = tun.read(buffer) else { return };
        path.arrive(Packet::new(buffer[..bytes].to_vec(), overhead_bytes, clock::now()));
    }
}

fn emit(path: &mut Path, tun: &Tun) {
    let now = clock::now();
    path.advance(now);
    while let Some(packet) = path.deliver(now) {
        if tun.write(packet.data()).is_err() {
            path.refused(&packet);
        }
    }
}
