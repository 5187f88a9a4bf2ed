//! For tests: one user of the kernel's time at a time, over all processes of the machine.
//!
//! A test that sends packets over a real kernel needs the machine's processors at the right moment. Two such tests at the same time
//! disturb each other, in one test binary as well as in two that run side by side. So each holds a lock (flock(2)) while its
//! thread runs. The lock is on the TUN device's node, which all of them need anyway: nothing is made in the file system, and
//! the kernel releases the lock when a process ends, however it ends. Tests that wait for most of their time, and ask only *that* something
//! happens, [`share`] it: they run beside each other.

use std::cell::RefCell;
use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};

const NODE: &str = "/dev/net/tun";

thread_local! {
    // The test harness gives each test a thread of its own, so this is dropped at the end of the test, also after a panic.
    static HELD: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Waits until no other test holds the machine, then holds it until the calling thread ends. A thread that holds it already goes on.
pub fn hold() -> io::Result<()> {
    lock(FlockOperation::LockExclusive)
}

/// The same beside others that share it. What calls [`hold`] in this thread then goes on. Without the node nothing is locked: the test
/// will say what it lacks.
pub fn share() {
    let _ = lock(FlockOperation::LockShared);
}

fn lock(operation: FlockOperation) -> io::Result<()> {
    HELD.with_borrow_mut(|held| {
        if held.is_none() {
            let node = File::open(NODE)?;
            flock(&node, operation)?;
            *held = Some(node);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_second_waits_until_the_thread_of_the_first_ends() {
        if File::open(NODE).is_err() {
            println!("SKIPPED the_second_waits_until_the_thread_of_the_first_ends: lacks {NODE}");
            return;
        }
        let (say, said) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let first = thread::spawn({
            let say = say.clone();
            move || {
                hold().expect("a lock");
                hold().expect("the same lock");
                say.send("first").expect("a listener");
                ended.recv().expect("a word");
                say.send("first ends").expect("a listener");
            }
        });
        assert_eq!(said.recv(), Ok("first"));
        let second = thread::spawn(move || {
            hold().expect("a lock");
            say.send("second").expect("a listener");
        });
        assert!(said.recv_timeout(Duration::from_millis(50)).is_err(), "the second waits");
        end.send(()).expect("a listener");
        assert_eq!((said.recv(), said.recv()), (Ok("first ends"), Ok("second")));
        first.join().expect("no panic");
        second.join().expect("no panic");
        let others: Vec<_> = (0..2).map(|_| thread::spawn(share)).collect();
        share();
        hold().expect("the same lock");
        // They have it while this thread has it.
        for other in others {
            other.join().expect("no panic");
        }
    }
}
