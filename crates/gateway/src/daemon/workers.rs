//! The worker threads: one for each queue of the device.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::mailbox::Mailbox;
use crate::plan::Plan;
use crate::rx::RxReport;
use crate::tun::TunQueue;
use crate::tx::TxReport;
use crate::worker::{Command, Worker, WorkerEvent};

/// How long a worker may take to report: it answers between two batches of packets.
const REPORT: Duration = Duration::from_secs(2);

pub(super) struct Shard {
    pub(super) commands: Mailbox<Command>,
    thread: Option<JoinHandle<()>>,
}

pub(super) struct Workers {
    pub(super) shards: Vec<Shard>,
    pub(super) events: Mailbox<WorkerEvent>,
}

impl Workers {
    pub(super) fn start(queues: Vec<TunQueue>) -> io::Result<Self> {
        let events = Mailbox::new()?;
        let mut shards = Vec::new();
        for (index, queue) in queues.into_iter().enumerate() {
            let commands = Mailbox::new()?;
            let worker = Worker::new(queue, commands.clone(), events.clone())?;
            let thread =
                thread::Builder::new().name(format!("worker-{index}")).spawn(move || worker.run())?;
            shards.push(Shard { commands, thread: Some(thread) });
        }
        Ok(Workers { shards, events })
    }

    /// Gives every worker the plan.
    pub(super) fn follow(&self, plan: &Arc<Plan>) {
        for shard in &self.shards {
            shard.commands.post(Command::Plan(Arc::clone(plan)));
        }
    }

    /// What every worker has to report, with so many of the busiest flows to each peer. One that does not answer in time is left out.
    pub(super) fn reports(&self, flows: usize) -> (Vec<TxReport>, Vec<RxReport>) {
        let (reply, reports) = sync_channel(self.shards.len());
        for shard in &self.shards {
            shard.commands.post(Command::Report { flows, reply: reply.clone() });
        }
        drop(reply);
        self.shards.iter().map_while(|_| reports.recv_timeout(REPORT).ok()).unzip()
    }

    /// Ends every worker and waits for it.
    pub(super) fn stop(&mut self) {
        for shard in &self.shards {
            shard.commands.post(Command::Stop);
        }
        for thread in self.shards.iter_mut().filter_map(|shard| shard.thread.take()) {
            let _ = thread.join();
        }
    }
}
