//! `trunkline web`: a page that shows a running gateway, or running proxies.
//!
//! It is a process of its own, which asks the daemon over its control socket as `top` does: whatever browsers do costs the daemon one answer
//! a second at most, and nothing that comes from a browser reaches it. A thread asks ([`watch`]); crate `pages` serves what it has found.

mod history;
mod readings;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use trunkline_pages::{Access, AccessError, Live, OWN, Pages, Server};
use trunkline_service::raise_descriptor_limit;
use trunkline_status::Request;

use super::control::{State, socket, state};
use super::view::table::Table;
use super::view::{COLUMNS, View, activity, drops, summary, table_of};
use crate::cli::{ServingArguments, WebArguments};
use crate::failure::Failure;
use crate::output::print_line;
use history::History;
use readings::{Reading, readings};

/// How often the daemon is asked while somebody looks.
const LIVE: Duration = Duration::from_secs(1);
/// How often while nobody does, and of what the history has points.
const KEPT: Duration = Duration::from_secs(10);
/// Rows of a table that are shown.
const ROWS: usize = 300;

pub(crate) fn web(arguments: &WebArguments) -> Result<(), Failure> {
    let socket = socket(&arguments.instance)?;
    // A daemon may come later; rights do not.
    if let Err(denied @ Failure::Lacking(_)) = state(&socket, &Request::Status) {
        return Err(denied);
    }
    // Each viewer takes one, and each answer of the daemon.
    let _ = raise_descriptor_limit();
    let server = Server::bind(&arguments.serving.access())?;
    let url = server.url().map_err(Failure::doing("cannot listen"))?;
    let (live, history) = (Live::default(), Arc::new(Mutex::new(History::new(KEPT))));
    let kept = Arc::clone(&history);
    let pages = Pages::new(OWN)
        .file("/", "text/html; charset=utf-8", include_str!("page.html").replace("COLUMNS", COLUMNS))
        .file("/style.css", "text/css", trunkline_pages::STYLE)
        .file("/tables.js", "text/javascript", trunkline_pages::TABLES)
        .file("/page.js", "text/javascript", include_str!("page.js"))
        .json("/history.json", move || kept.lock().unwrap_or_else(PoisonError::into_inner).to_json())
        .live("/live", live.clone());
    let watching = thread::Builder::new().name("watch".to_owned());
    watching
        .spawn(move || watch(&socket, &live, &history))
        .map_err(Failure::doing("cannot start a thread"))?;
    print_line(&url)?;
    server.run(pages).map_err(Failure::doing("cannot serve"))
}

impl ServingArguments {
    /// Where, and to whom.
    pub(crate) fn access(&self) -> Access {
        Access {
            listen: self.listen,
            certificate: self.certificate.clone().zip(self.key.clone()),
            token: self.token_file.clone(),
        }
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Self {
        let text = error.to_string();
        match error {
            AccessError::Listen { .. } => Failure::Other(text),
            AccessError::Open { .. } | AccessError::File { .. } => Failure::Input(text),
        }
    }
}

/// What viewers get each second.
#[derive(Default, Serialize)]
struct Frame {
    /// Milliseconds since 1970.
    at: u64,
    summary: String,
    activity: String,
    /// Why nothing is known now.
    notice: Option<String>,
    tables: Vec<Shown>,
    readings: Vec<Reading>,
}

/// A table, and how many of its rows are not shown.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    table: Table,
    left_out: usize,
}

impl From<Table> for Shown {
    fn from(mut table: Table) -> Self {
        let left_out = table.rows.len().saturating_sub(ROWS);
        table.rows.truncate(ROWS);
        Shown { table, left_out }
    }
}

impl Frame {
    fn new(at: u64, view: &View) -> Self {
        let panes = view.panes().into_iter().map(|pane| table_of(view, pane, pane.orders()[0]));
        let dropped = Some(drops(view)).filter(|table| !table.rows.is_empty());
        Frame {
            at,
            summary: summary(view),
            activity: activity(view),
            notice: None,
            tables: panes.chain(dropped).map(Shown::from).collect(),
            readings: readings(view),
        }
    }

    fn notice(at: u64, notice: String) -> Self {
        Frame { at, notice: Some(notice), ..Frame::default() }
    }
}

/// Asks the daemon for ever: each second for who looks, and otherwise for the history alone.
fn watch(socket: &Path, live: &Live, history: &Mutex<History>) {
    let mut last: Option<State> = None;
    let mut kept: Option<(SystemTime, State)> = None;
    loop {
        let (seen, begun) = (live.arrivals(), Instant::now());
        // Flows are read one by one by the daemon, for who looks at them.
        let is_watched = live.viewers() > 0;
        let asked = state(socket, &if is_watched { Request::Flows } else { Request::Status });
        let now = SystemTime::now();
        let at = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        match asked {
            Ok(state) => {
                if is_watched {
                    show(live, &Frame::new(at, &View::of(last.as_ref(), &state)));
                } else {
                    // What was seen long ago is not now.
                    live.send("");
                }
                let is_due =
                    |(since, _): &(SystemTime, State)| now.duration_since(*since).unwrap_or(KEPT) >= KEPT;
                if kept.as_ref().is_none_or(is_due) {
                    let view = View::of(kept.as_ref().map(|(_, state)| state), &state);
                    history.lock().unwrap_or_else(PoisonError::into_inner).add(at, &readings(&view));
                    kept = Some((now, state.clone()));
                }
                last = Some(state);
            }
            Err(failure) => {
                show(live, &Frame::notice(at, failure.to_string()));
                last = None;
            }
        }
        if live.viewers() == 0 {
            live.wait(seen, KEPT);
        }
        // However many come and go, it is not asked more often.
        thread::sleep(LIVE.saturating_sub(begun.elapsed()));
    }
}

fn show(live: &Live, frame: &Frame) {
    live.send(serde_json::to_string(frame).unwrap_or_default());
}
