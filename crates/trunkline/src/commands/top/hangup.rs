//! The end of the terminal: it was closed, or whoever was behind it has gone.
//!
//! crossterm reads a terminal that has hung up again and again without ever returning to us: end of input and errors
//! look to it like "no key yet". So a thread of its own watches for the hang-up, which the kernel reports to
//! whoever polls, asked for or not. The display ends when it sees [`Hangup::has_come`]; where it no longer sees
//! anything, because it is caught in a read, the thread ends the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the display may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);
/// How often the terminal is looked at even if the kernel wakes nobody.
const PERIOD: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Whether the terminal has gone.
#[derive(Clone)]
pub(super) struct Hangup(Arc<AtomicBool>);

impl Hangup {
    /// Watches standard input and output until the process ends.
    pub(super) fn watch() -> Self {
        let hangup = Hangup(Arc::default());
        let ours = hangup.clone();
        thread::spawn(move || {
            wait();
            ours.0.store(true, Ordering::SeqCst);
            thread::sleep(GRACE);
            // There is no terminal left to put back, and nobody to read why.
            std::process::exit(0);
        });
        hangup
    }

    pub(super) fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Returns when either end of the terminal has hung up.
fn wait() {
    let (input, output) = (io::stdin(), io::stdout());
    loop {
        // Hang-up and error are reported though nothing is asked for.
        let mut ends = [PollFd::new(&input, PollFlags::empty()), PollFd::new(&output, PollFlags::empty())];
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        match poll(&mut ends, Some(&PERIOD)) {
            Ok(_) if ends.iter().any(|end| end.revents().intersects(gone)) => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Without a way to watch, the display goes on as it would without us.
            Err(_) => thread::park(),
        }
    }
}
