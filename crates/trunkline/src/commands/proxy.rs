//! `proxy`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use trunkline_gateway::config::RUN_DIRECTORY;
use trunkline_gateway::log::Log;
use trunkline_gateway::privilege::{Keep, drop_privileges};
use trunkline_proxy::{Plan, Proxy, ProxyError};
use trunkline_schema::{FailMode, MetricsListen, Mistakes, ProxyFile, ProxyMode, RateSource, Source};
use trunkline_service::{MetricsAt, Server};
use trunkline_status::ProxiesStatus;

use super::site::{finish_log, open_log};
use crate::cli::ProxyArguments;
use crate::failure::Failure;
use crate::output::{print, print_line};

pub(crate) fn proxy(arguments: &ProxyArguments) -> Result<(), Failure> {
    let file = Source::open(&arguments.file).and_then(|source| ProxyFile::of(&source));
    if arguments.check {
        return check(&arguments.file, file, arguments.json);
    }
    let file = file.map_err(|mistakes| Failure::Input(mistakes.to_string()))?;
    let log = open_log(arguments.log_format);
    let outcome = run(&arguments.file, &file, &log);
    let status = finish_log(&log, arguments.log_format, outcome)?;
    if arguments.json {
        print_line(&json(&status)?)?;
    }
    Ok(())
}

fn run(path: &Path, file: &ProxyFile, log: &Log) -> Result<ProxiesStatus, Failure> {
    let socket = control_socket(path, file);
    let metrics = file.metrics.as_ref().map(|metrics| match &metrics.listen.0 {
        MetricsListen::Tcp(address) => MetricsAt::Tcp(*address),
        MetricsListen::Unix(path) => MetricsAt::Unix(path),
    });
    let server = Server::new(&socket, metrics).map_err(|error| Failure::Other(error.to_string()))?;
    let lacking = |error: ProxyError| Failure::Lacking(error.to_string());
    let signals = Proxy::signals().map_err(lacking)?;
    let plan = Plan::new(&file.proxy, &file.proxies);
    let proxy = Proxy::start(&name(path), &plan, Some(server)).map_err(lacking)?;
    let directory = |path: &Path| path.parent().map(Path::to_owned);
    // To make the device again if another program removes it.
    let devices = vec![PathBuf::from("/dev/net/tun")];
    let mut keep = Keep { write: directory(&socket).into_iter().collect(), devices, ..Keep::default() };
    if let Some(MetricsAt::Unix(path)) = metrics {
        keep.write.extend(directory(path));
    }
    // A connection from a port below 1024 goes on from there.
    keep.low_ports = true;
    drop_privileges(&keep).map_err(|error| Failure::Other(error.to_string()))?;
    log.start().map_err(Failure::doing("cannot start a thread"))?;
    for proxy in &file.proxies {
        tracing::info!("proxy {}: {}", proxy.name.0, mode(proxy.mode));
    }
    tracing::info!("ready");
    let status = proxy.run(&signals).map_err(|error| Failure::Other(error.to_string()))?;
    tracing::info!("ended, after {} connections", status.totals.opened);
    Ok(status)
}

/// The name of a file's proxies: the file's, without .toml.
fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where the process of a file answers.
pub(super) fn control_socket(path: &Path, file: &ProxyFile) -> PathBuf {
    let given = file.control.socket.as_ref().map(|socket| PathBuf::from(&socket.0));
    given.unwrap_or_else(|| PathBuf::from(format!("{RUN_DIRECTORY}/{}.sock", name(path))))
}

/// What `--check --json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: String,
    result: &'static str,
    mistakes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<&'a ProxyFile>,
}

fn check(path: &Path, file: Result<ProxyFile, Mistakes>, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let mistakes =
            file.as_ref().err().map(|mistakes| mistakes.0.iter().map(ToString::to_string).collect());
        let report = Report {
            file: path.display().to_string(),
            result: if file.is_ok() { "fine" } else { "refused" },
            mistakes: mistakes.unwrap_or_default(),
            meaning: file.as_ref().ok(),
        };
        print_line(&json(&report)?)?;
    }
    let file = file.map_err(|mistakes| Failure::Input(mistakes.to_string()))?;
    if as_json { Ok(()) } else { print(&format!("{}: fine\n{}", path.display(), meaning(&file))) }
}

fn json<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(Failure::doing("cannot print"))
}

const fn mode(mode: ProxyMode) -> &'static str {
    match mode {
        ProxyMode::None => "connections pass",
        ProxyMode::Split => "connections are split",
        ProxyMode::PathTail => "connections are split, and acknowledged as by a link",
        ProxyMode::ClampWindow => "windows of the hosts behind are lowered",
    }
}

fn meaning(ProxyFile { proxy: settings, proxies, .. }: &ProxyFile) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, what: String| {
        let _ = writeln!(text, "  {name:<11} {what}");
    };
    let fail = match settings.fail {
        FailMode::Open => "new connections pass",
        FailMode::Closed => "new connections are unreachable",
    };
    line("if it dies", fail.to_owned());
    let (connections, opening) = (settings.connections, settings.opening);
    line(
        "at most",
        format!("{connections} connections, {opening} of them being opened; {} in pipes", settings.memory),
    );
    let buffer = settings.buffer.map_or_else(|| "as the kernel chooses".to_owned(), |size| size.to_string());
    line("buffers", format!("{buffer}, for each socket and direction"));
    line("threads", settings.threads.to_string());
    for proxy in proxies {
        let list = |prefixes: &[trunkline_schema::Prefix]| {
            prefixes.iter().map(|prefix| prefix.0.to_string()).collect::<Vec<_>>().join(", ")
        };
        let mut what = format!("{:<12} {} behind", proxy.name.0, list(&proxy.behind));
        if let Some(link) = &proxy.interface {
            let _ = write!(what, " {}", link.0);
        }
        if !proxy.remote.is_empty() {
            let _ = write!(what, ", with {}", list(&proxy.remote));
        }
        let ports: Vec<String> = proxy
            .port_ranges()
            .iter()
            .map(|range| match (range.start(), range.end()) {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first}-{last}"),
            })
            .collect();
        if !ports.is_empty() {
            let _ = write!(what, ", ports {}", ports.join(", "));
        }
        let bound = match (proxy.rate.map(|rate| rate.0), proxy.window) {
            (Some(RateSource::Given(rate)), _) => format!(" of {rate}"),
            (Some(RateSource::Measured), _) => " of the measured rate".to_owned(),
            (None, Some(window)) => format!(" to {window}"),
            (None, None) => String::new(),
        };
        line("proxy", format!("{what}: {}{bound}", mode(proxy.mode)));
    }
    text
}
