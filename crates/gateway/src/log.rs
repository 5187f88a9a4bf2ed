//! The log: a bounded queue of lines, and a thread that writes them.
//!
//! A log goes to a pipe, a file or a terminal. Its reader may stop reading or exit, or the disk may be full. So threads
//! that log never write. They queue a line, or count it as lost if the queue is full. Only the writing thread waits for the
//! reader. It counts and drops a line that it cannot write.
//!
//! The queue accepts lines at once. [`Log::start`] starts the thread after the process has dropped its privileges, since a
//! thread keeps the privileges that it was started with. [`Log::finish`] waits until the queue is empty, up to a limit.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The maximum number of lines in the queue.
const MAX_LINES: usize = 1024;
/// The maximum number of bytes in the queue.
const MAX_BYTES: usize = 256 << 10;

/// Counts of lost lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogLosses {
    /// Lines dropped because the queue was full: the reader of the log is too slow, or has stopped.
    pub queue_full: u64,
    /// Lines dropped because a write failed.
    pub failed: u64,
}

impl LogLosses {
    fn total(self) -> u64 {
        self.queue_full + self.failed
    }
}

/// Writes all bytes, or returns an error. It may block.
type Sink = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    losses: LogLosses,
    /// Lost lines that the log reports already.
    reported: u64,
    /// The writing thread takes it when it starts.
    sink: Option<Sink>,
    /// Whether the thread is writing a line that is no longer in the queue.
    writing: bool,
}

struct Shared {
    state: Mutex<State>,
    /// Signals that the queue has lines.
    filled: Condvar,
    /// Signals that all lines are written.
    drained: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log. Clones are the same log.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("losses", &self.losses()).finish_non_exhaustive()
    }
}

impl Log {
    /// A log on standard error.
    pub fn stderr() -> Self {
        Log::new(write_stderr)
    }

    /// A log with this sink, which writes all bytes and may block.
    pub fn new(sink: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static) -> Self {
        let state = State {
            lines: VecDeque::new(),
            bytes: 0,
            losses: LogLosses::default(),
            reported: 0,
            sink: Some(Box::new(sink)),
            writing: false,
        };
        let (filled, drained) = (Condvar::new(), Condvar::new());
        Log(Arc::new(Shared { state: Mutex::new(state), filled, drained }))
    }

    /// Queues a line, or counts it as lost. It waits only while other threads do the same.
    pub fn line(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.lines.len() >= MAX_LINES || state.bytes + line.len() > MAX_BYTES {
            state.losses.queue_full += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_vec());
        drop(state);
        self.0.filled.notify_one();
    }

    /// A writer that queues each write as one line.
    pub fn writer(&self) -> LogWriter {
        LogWriter(self.clone())
    }

    /// The lines lost so far.
    pub fn losses(&self) -> LogLosses {
        self.0.lock().losses
    }

    /// Starts the writing thread, with the privileges of the calling thread. A second call has no effect.
    ///
    /// # Errors
    /// The system's error if it cannot start a thread. Lines stay in the queue.
    pub fn start(&self) -> io::Result<()> {
        let Some(sink) = self.0.lock().sink.take() else { return Ok(()) };
        let shared = Arc::clone(&self.0);
        thread::Builder::new().name("log".to_owned()).spawn(move || write_lines(&shared, sink)).map(drop)
    }

    /// Waits until all lines are written, or until `limit` has passed. Starts the thread if necessary.
    pub fn finish(&self, limit: Duration) {
        if self.start().is_err() {
            return;
        }
        let pending = |state: &mut State| !state.lines.is_empty() || state.writing;
        let _ = self.0.drained.wait_timeout_while(self.0.lock(), limit, pending);
    }
}

/// Queues each write as a line of the log. A write never fails.
#[derive(Debug)]
pub struct LogWriter(Log);

impl io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(shared: &Shared, mut sink: Sink) {
    let mut state = shared.lock();
    loop {
        if state.lines.is_empty() {
            state.writing = false;
            shared.drained.notify_all();
        }
        state = shared
            .filled
            .wait_while(state, |state| state.lines.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        let Some(line) = state.lines.pop_front() else { continue };
        state.bytes -= line.len();
        state.writing = true;
        let lost = state.losses.total();
        let unreported = lost - state.reported;
        drop(state);
        // Before the next line, so that the report is at the position of the gap.
        let reported =
            unreported == 0 || sink(format!("{unreported} lines of the log were lost\n").as_bytes()).is_ok();
        let written = reported && sink(&line).is_ok();
        state = shared.lock();
        if reported {
            state.reported = lost;
        }
        if !written {
            state.losses.failed += 1;
        }
    }
}

/// Writes without the standard library's lock of standard error, so that other threads that print there do not wait for
/// this one.
fn write_stderr(mut bytes: &[u8]) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let stderr = io::stderr();
    while !bytes.is_empty() {
        match rustix::io::write(&stderr, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            // The descriptor is inherited, and its other owner may have made it non-blocking.
            Err(rustix::io::Errno::AGAIN) => {
                poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// A log whose sink writes a line only after a message on the gate.
    fn gated() -> (Log, Sender<()>, Receiver<Vec<u8>>) {
        let (gate, opened) = channel();
        let (out, written) = channel();
        let log = Log::new(move |bytes: &[u8]| {
            opened.recv().map_err(io::Error::other)?;
            out.send(bytes.to_vec()).map_err(io::Error::other)
        });
        (log, gate, written)
    }

    #[test]
    fn lines_are_written_in_order_once_the_thread_has_started() {
        let (out, written) = channel();
        let log = Log::new(move |bytes: &[u8]| out.send(bytes.to_vec()).map_err(io::Error::other));
        log.line(b"one\n");
        log.line(b"two\n");
        assert!(written.try_recv().is_err(), "the thread has not started");
        log.finish(SOON);
        assert_eq!(written.try_iter().collect::<Vec<_>>(), [b"one\n", b"two\n"]);
        assert_eq!(log.losses(), LogLosses::default());
    }

    #[test]
    fn a_reader_that_stops_costs_lines_and_blocks_no_thread() {
        let (log, gate, written) = gated();
        log.start().expect("a thread");
        // The thread may have taken the first line already, so there may be room for one more than the queue holds.
        for number in 0..MAX_LINES + 100 {
            log.line(format!("{number}\n").as_bytes());
        }
        let lost = log.losses().queue_full;
        assert!((99..=100).contains(&lost), "{lost}");
        // The limit of `finish` holds.
        log.finish(Duration::from_millis(10));
        for _ in 0..MAX_LINES + 3 {
            let _ = gate.send(());
        }
        log.finish(SOON);
        let lines: Vec<String> =
            written.try_iter().map(|line| String::from_utf8_lossy(&line).into_owned()).collect();
        let report = format!("{lost} lines of the log were lost\n");
        assert_eq!(lines.iter().filter(|line| **line == report).count(), 1, "{lines:?}");
        assert_eq!(
            lines.iter().filter(|line| **line != report).count() as u64 + lost,
            MAX_LINES as u64 + 100
        );
    }

    #[test]
    fn a_long_line_does_not_let_the_queue_grow() {
        let (log, _gate, _written) = gated();
        let long = vec![b'x'; MAX_BYTES / 2];
        for _ in 0..3 {
            log.line(&long);
        }
        assert_eq!(log.losses().queue_full, 1);
    }

    #[test]
    fn a_sink_that_fails_is_counted_and_tried_again() {
        let (out, written) = channel();
        let mut broken = 2;
        let log = Log::new(move |bytes: &[u8]| {
            if broken > 0 {
                broken -= 1;
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            out.send(bytes.to_vec()).map_err(io::Error::other)
        });
        for line in [&b"one\n"[..], b"two\n", b"three\n"] {
            log.line(line);
        }
        log.finish(SOON);
        assert_eq!(log.losses(), LogLosses { queue_full: 0, failed: 2 });
        assert_eq!(
            written.try_iter().collect::<Vec<_>>(),
            [&b"2 lines of the log were lost\n"[..], b"three\n"]
        );
    }
}
