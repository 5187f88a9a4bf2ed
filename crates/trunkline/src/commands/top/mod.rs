//! `trunkline top`: shows a running gateway, or running proxies, live.
//!
//! One thread requests the daemon's state at intervals; the main thread draws it and reads keys. So a daemon that does
//! not answer never delays the response to a key. [`View`] has the values of two states, and [`mod@draw`] draws a frame of
//! them, both without side effects.

mod draw;
mod hangup;
mod table;
mod ui;

use std::io::{self, IsTerminal as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::layout::Rect;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use trunkline_status::Request;

use super::control::{State, socket, state};
use super::view::View;
use crate::cli::TopArguments;
use crate::failure::Failure;
use crate::output::print;
use draw::{Screen, draw, full_height};
use hangup::Hangup;
use ui::{Next, Ui};

/// The maximum time until a key or a signal is handled.
const EVENT_TIMEOUT: Duration = Duration::from_millis(50);
/// The delay of an answer from which the frame reports it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The error of reading or writing a terminal that has hung up.
const HUNG_UP: i32 = rustix::io::Errno::IO.raw_os_error();
/// Columns of a frame without a terminal.
const PLAIN_WIDTH: u16 = 140;

pub(crate) fn top(arguments: &TopArguments) -> Result<(), Failure> {
    let socket = socket(&arguments.instance)?;
    let interval = Duration::from_secs_f64(arguments.interval);
    if arguments.once {
        return once(&socket, interval);
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let instead = "`trunkline top --once` or `trunkline status --json`";
        return Err(Failure::Input(format!("top needs a terminal; without one, use {instead}")));
    }
    // If no daemon runs, a message says so, not an empty screen.
    let first = state(&socket, &Request::Flows)?;
    let stop = stop_at_signals().map_err(Failure::doing("cannot wait for signals"))?;
    let answers = poll(socket, interval);
    let mut live = Live::new(first, interval);
    let restore = Restore;
    let mut terminal = ratatui::try_init().map_err(Failure::doing("cannot set up the terminal"))?;
    let hangup = Hangup::watch();
    let outcome = live.run(&mut terminal, &answers, || stop.load(Ordering::Relaxed) || hangup.has_come());
    if outcome.is_err() || hangup.has_come() {
        // Dropping it would write to the terminal that failed, and panic.
        mem::forget(terminal);
    } else {
        drop(terminal);
    }
    drop(restore);
    match outcome {
        // The user closed the terminal, which is a normal way to quit.
        Err(error) if hangup.has_come() || error.raw_os_error() == Some(HUNG_UP) => Ok(()),
        outcome => outcome.map_err(Failure::doing("the terminal failed")),
    }
}

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets. A second one of the same kind ends the process at once.
fn stop_at_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let came = Arc::new(AtomicBool::new(false));
        // Handlers run in this order: the first one must not see the flag that the same signal sets.
        flag::register_conditional_default(signal, Arc::clone(&came))?;
        flag::register(signal, came)?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Restores the terminal when it is dropped. On a panic, ratatui's hook does, so that the message is readable.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // `ratatui::restore` panics if the terminal has gone, since it cannot print its error.
        let _ = ratatui::try_restore();
    }
}

/// Requests the state with the busiest flows every `interval`, until the receiver is dropped.
fn poll(socket: PathBuf, interval: Duration) -> Receiver<Result<State, Failure>> {
    let (sender, answers) = sync_channel(1);
    thread::spawn(move || {
        let mut due = Instant::now();
        loop {
            due = (due + interval).max(Instant::now());
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if sender.send(state(&socket, &Request::Flows)).is_err() {
                break;
            }
        }
    });
    answers
}

/// Prints one frame as text, with the rates of one interval.
fn once(socket: &Path, interval: Duration) -> Result<(), Failure> {
    let before = state(socket, &Request::Flows)?;
    thread::sleep(interval);
    let view = View::of(Some(&before), &state(socket, &Request::Flows)?);
    let width = if io::stdout().is_terminal() {
        ratatui::crossterm::terminal::size().map_or(PLAIN_WIDTH, |(columns, _)| columns)
    } else {
        std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(PLAIN_WIDTH)
    };
    print(&plain(&view, interval, width))
}

/// A frame as lines of text, high enough for all rows.
fn plain(view: &View, interval: Duration, width: u16) -> String {
    let area = Rect::new(0, 0, width, full_height(view));
    let mut buf = Buffer::empty(area);
    let screen = Screen { view, notice: None, interval, colour: false, keys: false };
    draw(&screen, &mut Ui::new(), area, &mut buf);
    let line = |y| (0..area.width).map(|x| buf[(x, y)].symbol()).collect::<String>();
    let lines: Vec<String> = (0..area.height).map(|y| line(y).trim_end().to_owned()).collect();
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// The state of the live display.
struct Live {
    last: State,
    answered: Instant,
    view: View,
    ui: Ui,
    /// Why the daemon's state is not current.
    notice: Option<String>,
    interval: Duration,
    colour: bool,
}

impl Live {
    fn new(first: State, interval: Duration) -> Self {
        Live {
            view: View::of(None, &first),
            last: first,
            answered: Instant::now(),
            ui: Ui::new(),
            notice: None,
            interval,
            // https://no-color.org: present and not empty.
            colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        answers: &Receiver<Result<State, Failure>>,
        stopped: impl Fn() -> bool,
    ) -> io::Result<()> {
        let mut redraw = true;
        while !stopped() {
            redraw |= self.handle_answer(answers);
            let had_notice = self.notice.is_some();
            if self.notice.is_none() && self.answered.elapsed() > self.interval + ANSWER_TIMEOUT {
                self.notice = Some("the daemon does not answer, waiting".to_owned());
            }
            redraw |= had_notice != self.notice.is_some();
            if redraw {
                terminal.draw(|frame| self.draw(frame.area(), frame.buffer_mut()))?;
                redraw = false;
            }
            match next_event()? {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    if self.ui.press(key) == Next::Quit {
                        break;
                    }
                    redraw = true;
                }
                Some(Event::Resize(..)) => redraw = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// Handles an answer of the daemon. Whether there was one.
    fn handle_answer(&mut self, answers: &Receiver<Result<State, Failure>>) -> bool {
        match answers.try_recv() {
            Ok(Ok(status)) => {
                if !self.ui.paused {
                    self.view = View::of(Some(&self.last), &status);
                }
                self.last = status;
                self.notice = None;
            }
            Ok(Err(failure)) => self.notice = Some(format!("daemon gone, retrying: {failure}")),
            Err(_) => return false,
        }
        self.answered = Instant::now();
        true
    }

    fn draw(&mut self, area: Rect, buf: &mut Buffer) {
        let screen = Screen {
            view: &self.view,
            notice: self.notice.as_deref(),
            interval: self.interval,
            colour: self.colour,
            keys: true,
        };
        draw(&screen, &mut self.ui, area, buf);
    }
}

/// The next event of the terminal, if one arrives within [`EVENT_TIMEOUT`].
fn next_event() -> io::Result<Option<Event>> {
    let event = || if event::poll(EVENT_TIMEOUT)? { event::read().map(Some) } else { Ok(None) };
    match event() {
        // A signal: the caller checks at once whether it ends the display.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        event => event,
    }
}
