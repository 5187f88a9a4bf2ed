//! The worker threads: one for each queue of the device.
//!
//! If a worker's thread ends without [`Command::Stop`] (by an error, a panic or an unexpected return), it posts
//! [`WorkerEvent::Ended`], which ends the process. The heartbeat detects a worker that hangs.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_units::Instant;

use super::heartbeat::{Action, Heartbeat};
use crate::clock::now;
use crate::handshake::Identity;
use crate::mailbox::Mailbox;
use crate::plan::Plan;
use crate::rx::RxReport;
use crate::tun::TunQueue;
use crate::tx::TxReport;
use crate::worker::{Command, Ending, Worker, WorkerEvent};

/// The time limit for reports. A worker answers between two batches of packets.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit for the end of the workers.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Shard {
    pub(super) commands: Mailbox<Command>,
    /// The number of the last beat that it has answered.
    beat: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

pub(super) struct Workers {
    pub(super) shards: Vec<Shard>,
    pub(super) events: Mailbox<WorkerEvent>,
    heartbeat: Heartbeat,
}

impl Workers {
    /// Starts a worker for each queue. `watchdog` is the service manager's limit, if it set one.
    pub(super) fn start(
        queues: Vec<TunQueue>,
        identity: &Identity,
        watchdog: Option<Duration>,
    ) -> io::Result<Self> {
        let mut workers = Workers::none(watchdog)?;
        let shards = queues.len() as u16;
        for (shard, queue) in (0..).zip(queues) {
            let commands = Mailbox::new()?;
            let beat = Arc::new(AtomicU64::new(0));
            let events = workers.events.clone();
            let place = (shard, shards, identity.reset_key().clone());
            let worker = Worker::new(place, queue, commands.clone(), events, Arc::clone(&beat))?;
            workers.spawn(commands, beat, move || worker.run())?;
        }
        Ok(workers)
    }

    fn none(watchdog: Option<Duration>) -> io::Result<Self> {
        Ok(Workers {
            shards: Vec::new(),
            events: Mailbox::new()?,
            heartbeat: Heartbeat::new(watchdog, now()),
        })
    }

    fn spawn(
        &mut self,
        commands: Mailbox<Command>,
        beat: Arc<AtomicU64>,
        work: impl FnOnce() -> io::Result<Ending> + Send + 'static,
    ) -> io::Result<()> {
        let shard = self.shards.len();
        let events = self.events.clone();
        let body = move || {
            if let Some(reason) = unexpected_end(work) {
                events.post(WorkerEvent::Ended { shard, reason });
            }
        };
        let thread = thread::Builder::new().name(format!("worker-{shard}")).spawn(body)?;
        self.shards.push(Shard { commands, beat, thread: Some(thread) });
        Ok(())
    }

    /// Sends the plan to all workers.
    pub(super) fn apply_plan(&self, plan: &Arc<Plan>) {
        for shard in &self.shards {
            shard.commands.post(Command::Plan(Arc::clone(plan)));
        }
    }

    /// Sends each worker its queue of a new device.
    pub(super) fn set_device(&self, queues: Vec<TunQueue>) {
        for (shard, queue) in self.shards.iter().zip(queues) {
            shard.commands.post(Command::Device(queue));
        }
    }

    /// The reports of all workers, with this number of the busiest flows to each peer. It omits workers that do not answer in
    /// time.
    pub(super) fn reports(&self, flows: usize) -> (Vec<TxReport>, Vec<RxReport>) {
        let (reply, reports) = sync_channel(self.shards.len());
        // Requests to a worker that hangs would delay the answer and fill its mailbox.
        let hangs = |shard: &&Shard| self.heartbeat.is_late() && !self.has_answered(shard);
        for shard in self.shards.iter().filter(|shard| !hangs(shard)) {
            shard.commands.post(Command::Report { flows, reply: reply.clone() });
        }
        drop(reply);
        let deadline = now() + REPORT_TIMEOUT;
        self.shards.iter().map_while(|_| reports.recv_timeout(deadline.saturating_since(now())).ok()).unzip()
    }

    fn has_answered(&self, shard: &Shard) -> bool {
        shard.beat.load(Ordering::Acquire) >= self.heartbeat.number()
    }

    /// The numbers of the workers that hang.
    pub(super) fn unresponsive(&self) -> Vec<usize> {
        if !self.heartbeat.is_late() {
            return Vec::new();
        }
        (0..self.shards.len()).filter(|number| !self.has_answered(&self.shards[*number])).collect()
    }

    /// Requests beats, and logs when workers hang and when they respond again. Whether to notify the watchdog.
    pub(super) fn beat(&mut self, now: Instant) -> bool {
        let mut feed = false;
        while let Some(beat) = {
            let all = self.shards.iter().all(|shard| self.has_answered(shard));
            self.heartbeat.poll(now, all)
        } {
            match beat {
                Action::Ask(number) => {
                    for shard in &self.shards {
                        shard.commands.post(Command::Beat(number));
                    }
                }
                Action::Alive { after } => {
                    feed = true;
                    if let Some(after) = after {
                        tracing::warn!("every worker responds again, after {after:.1?}");
                    }
                }
                Action::Late(since) => {
                    let hang =
                        self.unresponsive().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                    tracing::error!("no response for {since:.1?} from worker {hang}");
                }
            }
        }
        feed
    }

    /// The time at which [`Self::beat`] is due.
    pub(super) fn next_wake(&self, now: Instant) -> Instant {
        self.heartbeat.next_wake(now)
    }

    /// Ends all workers and waits for them, up to a limit.
    pub(super) fn stop(&mut self) {
        for shard in &self.shards {
            shard.commands.post(Command::Stop);
        }
        let deadline = now() + STOP_TIMEOUT;
        for (number, shard) in self.shards.iter_mut().enumerate() {
            let Some(thread) = shard.thread.take() else { continue };
            while !thread.is_finished() && now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                tracing::error!("worker {number} hangs: the process ends without it");
            }
        }
    }
}

/// Runs `work`. Returns the reason if it ended without [`Command::Stop`].
fn unexpected_end(work: impl FnOnce() -> io::Result<Ending>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(Ending::Stopped)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(panic) => Some(super::panic_reason(&*panic)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Workers with one thread that does `work` with its mailbox.
    fn one(
        watchdog: Duration,
        work: impl FnOnce(Mailbox<Command>, Arc<AtomicU64>) -> io::Result<Ending> + Send + 'static,
    ) -> Workers {
        let mut workers = Workers::none(Some(watchdog)).expect("a mailbox");
        let (commands, beat) = (Mailbox::new().expect("a mailbox"), Arc::new(AtomicU64::new(0)));
        let (inner, answered) = (commands.clone(), Arc::clone(&beat));
        workers.spawn(commands, beat, move || work(inner, answered)).expect("a thread");
        workers
    }

    fn first_event(workers: &Workers) -> WorkerEvent {
        let end = now() + LIMIT;
        while now() < end {
            if let Some(event) = workers.events.take().pop() {
                return event;
            }
            thread::sleep(Duration::from_millis(2));
        }
        panic!("no event");
    }

    fn reason(workers: &Workers) -> String {
        match first_event(workers) {
            WorkerEvent::Ended { shard: 0, reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_worker_that_panics_is_reported_with_its_reason() {
        let workers = one(LIMIT, |_, _| panic!("queue {} is inconsistent", 7));
        assert_eq!(reason(&workers), "it panicked: queue 7 is inconsistent");
    }

    #[test]
    fn a_worker_that_fails_is_reported_with_its_reason() {
        let workers = one(LIMIT, |_, _| Err(io::Error::from_raw_os_error(libc::EBADFD)));
        assert!(reason(&workers).contains("bad state"), "{}", io::Error::from_raw_os_error(libc::EBADFD));
    }

    /// Executes commands until [`Command::Stop`], and answers beats while `answers` is true.
    fn run_commands(
        commands: &Mailbox<Command>,
        beat: &AtomicU64,
        answers: impl Fn() -> bool,
    ) -> io::Result<Ending> {
        loop {
            if answers() {
                for command in commands.take() {
                    match command {
                        Command::Beat(number) => beat.store(number, Ordering::Release),
                        Command::Stop => return Ok(Ending::Stopped),
                        _ => {}
                    }
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_worker_that_ends_at_a_stop_command_is_no_failure() {
        let mut workers = one(LIMIT, |commands, beat| run_commands(&commands, &beat, || true));
        workers.stop();
        assert!(workers.events.take().is_empty());
    }

    #[test]
    fn a_worker_that_hangs_stops_the_watchdog_and_nobody_waits_for_it() {
        let hangs = Arc::new(AtomicU64::new(0));
        let inner = Arc::clone(&hangs);
        let answers = move || inner.load(Ordering::Acquire) == 0;
        let mut workers =
            one(Duration::from_millis(40), move |commands, beat| run_commands(&commands, &beat, answers));
        let fed = |workers: &mut Workers, time: Duration| {
            let (start, mut fed) = (now(), 0);
            while now().saturating_since(start) < time {
                fed += u32::from(workers.beat(now()));
                thread::sleep(Duration::from_millis(1));
            }
            fed
        };
        let start = now();
        while fed(&mut workers, Duration::from_millis(100)) == 0 {
            assert!(now().saturating_since(start) < LIMIT, "it is never fed");
        }
        hangs.store(1, Ordering::Release);
        // A beat that was answered before counts for one more notification.
        fed(&mut workers, Duration::from_millis(200));
        assert_eq!(fed(&mut workers, Duration::from_millis(500)), 0, "fed though a worker hangs");
        assert_eq!(workers.unresponsive(), [0]);
        let before = now();
        assert!(workers.reports(0).0.is_empty());
        assert!(now().saturating_since(before) < REPORT_TIMEOUT, "it is known to hang and was waited for");
        hangs.store(0, Ordering::Release);
        let start = now();
        while fed(&mut workers, Duration::from_millis(100)) == 0 {
            assert!(now().saturating_since(start) < LIMIT, "it is never fed again");
        }
        assert!(workers.unresponsive().is_empty());
        workers.stop();
    }
}
