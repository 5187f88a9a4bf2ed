//! Detects that the terminal has hung up: the user closed it, or the connection to it is lost.
//!
//! crossterm reads a terminal that has hung up in an endless loop: it takes end of input and errors for "no key yet". So a
//! thread polls for the hang-up, which poll(2) always reports. The display ends when it sees [`Hangup::has_come`]. If it is
//! caught in a read and sees nothing, the thread ends the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The time that the display has to end by itself.
const GRACE: Duration = Duration::from_secs(1);
/// The interval of checks if the kernel does not wake the thread.
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
            // There is no terminal left to restore, and nobody to read a message.
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
        // poll(2) reports hang-up and error without being asked for them.
        let mut ends = [PollFd::new(&input, PollFlags::empty()), PollFd::new(&output, PollFlags::empty())];
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        match poll(&mut ends, Some(&PERIOD)) {
            Ok(_) if ends.iter().any(|end| end.revents().intersects(gone)) => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Without poll(2) the display continues as it would without this thread.
            Err(_) => thread::park(),
        }
    }
}
