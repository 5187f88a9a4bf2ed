//! A child process that ends with its handle.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::clock;

/// A running program. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    pub(super) fn new(child: Child) -> Self {
        Self { child }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input, if that was piped and not taken yet.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, if that was piped and not taken yet.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, if that was piped and not taken yet.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Its status, if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end, but not longer than `limit`; `None` if it still runs then.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(status));
        }
        let pidfd: OwnedFd = pidfd_open(self.process_id()?, PidfdFlags::empty())?;
        let end = clock::now() + limit;
        loop {
            let left = clock::timespec(end - clock::now());
            match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
                Err(rustix::io::Errno::INTR) => {}
                outcome => {
                    outcome?;
                    return self.child.try_wait();
                }
            }
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(self.process_id()?, signal)?)
    }

    /// Asks it to end (SIGTERM), and kills it if it has not after `grace`. Returns its status.
    pub fn terminate(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        if self.child.try_wait()?.is_none() {
            self.signal(Signal::TERM)?;
        }
        if let Some(status) = self.wait(grace)? {
            return Ok(status);
        }
        self.child.kill()?;
        self.child.wait()
    }

    fn process_id(&self) -> io::Result<Pid> {
        Pid::from_raw(self.child.id().cast_signed()).ok_or_else(|| io::Error::other("the process id is zero"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has been reaped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
