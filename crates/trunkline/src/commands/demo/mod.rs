//! `demo`: what a trunk is for, shown on this machine within about a minute.
//!
//! The set-up is that of lee2002 §2.1, and of many a real line: file transfers and interactive requests over TCP
//! share a WAN with a UDP flood of twice its rate. First they meet in the router's queue, then each class has a lane
//! and an edge queue of its own. Everything is real, kernel TCP and this binary's gateways, but for the WAN, which is
//! the testbed's emulated link.

mod live;
mod load;
mod measurement;
mod page;
mod parameters;
mod scenario;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use trunkline_testbed::{interrupt, privilege};

use live::Live;
use measurement::{Phase, Summary};
use page::{Origin, Page};
use parameters::Parameters;
use table::Comparison;

use crate::cli::DemoArguments;
use crate::failure::Failure;
use crate::output::print_line;

const DEFAULT_PAGE: &str = "trunkline-demo.html";
/// The width of text that a person reads.
const TEXT_WIDTH: usize = 78;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    before: Summary,
    after: Summary,
    parameters: &'a Parameters,
}

pub(crate) fn demo(arguments: &DemoArguments) -> Result<(), Failure> {
    let parameters = Parameters::new(arguments)?;
    let page = page_path(arguments)?;
    // First of all, because only a process with one thread may enter a user namespace.
    privilege::acquire().map_err(|missing| Failure::Lacking(format!("this machine {missing}")))?;
    check_congestion_control()?;
    let stop = interrupt::watch().map_err(Failure::doing("cannot wait for interrupts"))?;
    let mut live = if arguments.json { Live::on_stderr() } else { Live::on_stdout() };
    live.say(&introduction(&parameters));
    let before = scenario::run(Phase::Before, &parameters, &stop, &mut live)?;
    live.keep();
    let after = scenario::run(Phase::After, &parameters, &stop, &mut live)?;
    live.keep();
    if let Some(path) = &page {
        let origin = origin(arguments);
        let text = Page { parameters: &parameters, before: &before, after: &after, origin: &origin }.render();
        fs::write(path, text).map_err(Failure::doing(&format!("cannot write {}", path.display())))?;
    }
    let comparison = Comparison { before: before.summary, after: after.summary };
    let result = if arguments.json {
        let report = Report { before: before.summary, after: after.summary, parameters: &parameters };
        serde_json::to_string(&report).map_err(Failure::doing("cannot print"))?
    } else {
        let page = page.map(|path| format!("\nPlots and parameters: {}", path.display())).unwrap_or_default();
        format!("{}\n{}{page}", comparison.text(), table::wrap(&comparison.reading(&parameters), TEXT_WIDTH))
    };
    print_line(&result)
}

fn introduction(parameters: &Parameters) -> String {
    let text = format!(
        "Two sites share a WAN of {}, {} ms there and back, with {} packets of queue. Files and requests over TCP \
         cross it, and a UDP flood of {} that gives way to nothing.",
        parameters.rate(),
        parameters.round_trip_ms,
        parameters.core_queue_packets,
        parameters.flood()
    );
    table::wrap(&text, TEXT_WIDTH) + "\n"
}

/// Where the page goes, if anywhere; an error now if it could not be written at the end.
fn page_path(arguments: &DemoArguments) -> Result<Option<PathBuf>, Failure> {
    let path = match (&arguments.html, arguments.json) {
        (Some(path), _) => path.clone(),
        (None, false) => PathBuf::from(DEFAULT_PAGE),
        (None, true) => return Ok(None),
    };
    let existed = path.exists();
    let writable = fs::OpenOptions::new().append(true).create(true).open(&path);
    writable.map_err(|error| Failure::Input(format!("--html {}: {error}", path.display())))?;
    if !existed {
        // An interrupted demo leaves nothing behind. If it cannot be removed now, it is overwritten later.
        let _ = fs::remove_file(&path);
    }
    Ok(Some(path))
}

fn check_congestion_control() -> Result<(), Failure> {
    let path = Path::new("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let name = parameters::CONGESTION_CONTROL;
    match fs::read_to_string(path) {
        Ok(available) if available.split_whitespace().any(|other| other == name) => Ok(()),
        Ok(available) => Err(Failure::Lacking(format!(
            "this machine lacks the congestion control {name} (it has {}): load it as root with `modprobe tcp_{name}`",
            available.trim()
        ))),
        // Without the list, the first connection tells.
        Err(_) => Ok(()),
    }
}

fn origin(arguments: &DemoArguments) -> Origin {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Origin {
        command: format!(
            "trunkline demo --seconds {} --rate {}mbit",
            arguments.seconds,
            arguments.rate.as_mbit()
        ),
        kernel: format!("{} {}", release.trim(), std::env::consts::ARCH),
        version: env!("CARGO_PKG_VERSION"),
    }
}
