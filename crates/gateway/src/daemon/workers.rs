//! The worker threads: one pair for each queue of the device.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::mailbox::Mailbox;
use crate::plan::Plan;
use crate::rx::{RxCommand, RxReport, RxWorker};
use crate::tun::TunQueue;
use crate::tx::{TxCommand, TxReport, TxWorker, WorkerEvent};

/// How long a worker may take to report: it answers between two batches of packets.
const REPORT: Duration = Duration::from_secs(2);

pub(super) struct Shard {
    pub(super) tx: Mailbox<TxCommand>,
    pub(super) rx: Mailbox<RxCommand>,
    threads: Vec<JoinHandle<()>>,
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
            let (tx, rx) = (Mailbox::new()?, Mailbox::new()?);
            let sender = TxWorker::new(queue.clone(), tx.clone(), events.clone())?;
            let receiver = RxWorker::new(queue, rx.clone(), events.clone())?;
            let threads = vec![
                thread::Builder::new().name(format!("send-{index}")).spawn(move || sender.run())?,
                thread::Builder::new().name(format!("receive-{index}")).spawn(move || receiver.run())?,
            ];
            shards.push(Shard { tx, rx, threads });
        }
        Ok(Workers { shards, events })
    }

    /// Gives every worker the plan, receivers first so that nothing of a new peer is refused.
    pub(super) fn follow(&self, plan: &Arc<Plan>) {
        for shard in &self.shards {
            shard.rx.post(RxCommand::Plan(Arc::clone(plan)));
            shard.tx.post(TxCommand::Plan(Arc::clone(plan)));
        }
    }

    /// What every worker has to report. One that does not answer in time is left out.
    pub(super) fn reports(&self) -> (Vec<TxReport>, Vec<RxReport>) {
        let (tx_reply, tx_reports) = sync_channel(self.shards.len());
        let (rx_reply, rx_reports) = sync_channel(self.shards.len());
        for shard in &self.shards {
            shard.tx.post(TxCommand::Report(tx_reply.clone()));
            shard.rx.post(RxCommand::Report(rx_reply.clone()));
        }
        drop((tx_reply, rx_reply));
        let collect_tx = self.shards.iter().map_while(|_| tx_reports.recv_timeout(REPORT).ok()).collect();
        let collect_rx = self.shards.iter().map_while(|_| rx_reports.recv_timeout(REPORT).ok()).collect();
        (collect_tx, collect_rx)
    }

    /// Ends every worker and waits for it.
    pub(super) fn stop(&mut self) {
        for shard in &self.shards {
            shard.tx.post(TxCommand::Stop);
            shard.rx.post(RxCommand::Stop);
        }
        for thread in self.shards.iter_mut().flat_map(|shard| shard.threads.drain(..)) {
            let _ = thread.join();
        }
    }
}
