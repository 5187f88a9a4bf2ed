//! The log's way out of the process: a bounded queue of lines, and a thread that writes them.
//!
//! A log goes to a pipe, a file or a terminal that somebody else owns: its reader can stop to read, go away, or fill
//! the disk. Whoever logs therefore never writes. A line is queued, or counted as lost where the queue is full, and
//! only the writing thread waits for the reader. A line that cannot be written is counted and dropped.
//!
//! Lines are queued from the start, but the thread is started by [`Log::start`], once privileges have been given up:
//! a thread keeps what it had when it was started. A process that ends calls [`Log::finish`], which waits for what is
//! queued, but not for ever.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Lines that wait to be written.
const MAX_LINES: usize = 1024;
/// Bytes that wait to be written.
const MAX_BYTES: usize = 256 << 10;

/// How many lines never reached the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogLosses {
    /// Lines dropped because the queue was full: nobody reads the log, or not fast enough.
    pub queue_full: u64,
    /// Lines that could not be written.
    pub failed: u64,
}

impl LogLosses {
    fn total(self) -> u64 {
        self.queue_full + self.failed
    }
}

/// Writes bytes somewhere, all of them or an error. It may block.
type Sink = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    losses: LogLosses,
    /// Lost lines that the log has been told of.
    told: u64,
    /// Taken by the thread when it starts.
    sink: Option<Sink>,
    /// A line has been taken and is being written.
    writing: bool,
}

struct Shared {
    state: Mutex<State>,
    /// Lines have come.
    filled: Condvar,
    /// Nothing is left.
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

    /// A log that is written by `sink`, which writes all of what it is given and may block.
    pub fn new(sink: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static) -> Self {
        let state = State {
            lines: VecDeque::new(),
            bytes: 0,
            losses: LogLosses::default(),
            told: 0,
            sink: Some(Box::new(sink)),
            writing: false,
        };
        let (filled, drained) = (Condvar::new(), Condvar::new());
        Log(Arc::new(Shared { state: Mutex::new(state), filled, drained }))
    }

    /// Queues a line, or counts it as lost. Never blocks for longer than another thread takes to do the same.
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

    /// A writer each of whose writes is one line.
    pub fn writer(&self) -> LogWriter {
        LogWriter(self.clone())
    }

    /// What was lost so far.
    pub fn losses(&self) -> LogLosses {
        self.0.lock().losses
    }

    /// Starts the thread that writes; it has the privileges of the caller. Does nothing the second time.
    ///
    /// # Errors
    /// The system's, when there can be no more threads. Lines stay queued.
    pub fn start(&self) -> io::Result<()> {
        let Some(sink) = self.0.lock().sink.take() else { return Ok(()) };
        let shared = Arc::clone(&self.0);
        thread::Builder::new().name("log".to_owned()).spawn(move || write_lines(&shared, sink)).map(drop)
    }

    /// Waits until every line has been written, `limit` at the most. Starts the thread if nobody has.
    pub fn finish(&self, limit: Duration) {
        if self.start().is_err() {
            return;
        }
        let pending = |state: &mut State| !state.lines.is_empty() || state.writing;
        let _ = self.0.drained.wait_timeout_while(self.0.lock(), limit, pending);
    }
}

/// Queues each write as a line of the log. It never fails.
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
        let untold = lost - state.told;
        drop(state);
        // Before the next line, so that a gap in the log is seen where it is.
        let told = untold == 0 || sink(format!("{untold} lines of the log were lost\n").as_bytes()).is_ok();
        let written = told && sink(&line).is_ok();
        state = shared.lock();
        if told {
            state.told = lost;
        }
        if !written {
            state.losses.failed += 1;
        }
    }
}

/// Writes past the standard library's lock of standard error: whoever else prints there must not wait for this thread.
fn write_stderr(mut bytes: &[u8]) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let stderr = io::stderr();
    while !bytes.is_empty() {
        match rustix::io::write(&stderr, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            // Whoever gave us the descriptor made it non-blocking.
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

    /// A log whose sink takes a line only when it is let.
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
        assert!(written.try_recv().is_err(), "nobody writes yet");
        log.finish(SOON);
        assert_eq!(written.try_iter().collect::<Vec<_>>(), [b"one\n", b"two\n"]);
        assert_eq!(log.losses(), LogLosses::default());
    }

    #[test]
    fn a_reader_that_stops_costs_lines_and_holds_nobody_up() {
        let (log, gate, written) = gated();
        log.start().expect("a thread");
        // The first may be in the thread's hands, so one more than the queue holds fits.
        for number in 0..MAX_LINES + 100 {
            log.line(format!("{number}\n").as_bytes());
        }
        let lost = log.losses().queue_full;
        assert!((99..=100).contains(&lost), "{lost}");
        // It does not wait for ever either.
        log.finish(Duration::from_millis(10));
        for _ in 0..MAX_LINES + 3 {
            let _ = gate.send(());
        }
        log.finish(SOON);
        let lines: Vec<String> =
            written.try_iter().map(|line| String::from_utf8_lossy(&line).into_owned()).collect();
        let told = format!("{lost} lines of the log were lost\n");
        assert_eq!(lines.iter().filter(|line| **line == told).count(), 1, "{lines:?}");
        assert_eq!(lines.iter().filter(|line| **line != told).count() as u64 + lost, MAX_LINES as u64 + 100);
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
