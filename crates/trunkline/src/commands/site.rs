//! `up` and `check`.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use trunkline_gateway::config::{ClassConfig, Config, LoadError, Over};
use trunkline_gateway::daemon::{Daemon, DaemonError};
use trunkline_gateway::log::Log;

use crate::cli::FileArguments;
use crate::failure::Failure;

fn load(arguments: &FileArguments) -> Result<Config, Failure> {
    Config::load(&arguments.file).map_err(|error: LoadError| Failure::Input(error.to_string()))
}

/// How long the end of a gateway waits for its log to be read.
const LOG_GRACE: Duration = Duration::from_secs(1);

pub(crate) fn up(arguments: &FileArguments) -> Result<(), Failure> {
    let config = load(arguments)?;
    let log = Log::stderr();
    send_log_to(&log);
    let run = || Daemon::start(config, log.clone())?.run();
    let outcome = run().map_err(|error: DaemonError| match error {
        DaemonError::Key(_) | DaemonError::CongestionControl { .. } => Failure::Input(error.to_string()),
        DaemonError::Device(_) => Failure::Lacking(error.to_string()),
        _ => Failure::Other(error.to_string()),
    });
    if let Err(failure) = &outcome {
        // Through the queue as well: a reader that does not read must not keep the process from ending.
        log.line(format!("trunkline: {failure}\n").as_bytes());
    }
    log.finish(LOG_GRACE);
    outcome.map_err(|failure| Failure::Said(Box::new(failure)))
}

/// The log of a gateway goes through the queue of `log`. Under systemd the journal has the time already.
fn send_log_to(log: &Log) {
    let filter = EnvFilter::try_from_env("TRUNKLINE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let writer = log.clone();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.writer())
        // It would print them to standard error itself.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal());
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        builder.without_time().init();
    } else {
        builder.init();
    }
    // A panic is a line of the log like any other: the standard hook writes to standard error, and waits for its reader.
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        tracing::error!("thread {name}: {panic}{trace}");
    }));
}

pub(crate) fn check(arguments: &FileArguments) -> Result<(), Failure> {
    let config = load(arguments)?;
    let identity = config.identity();
    for warning in config.warnings() {
        eprintln!("trunkline: warning: {warning}");
    }
    println!("{}: fine", arguments.file.display());
    println!("  site      {}", config.name);
    match &identity {
        Ok(key) => println!("  key       {}", key.public()),
        Err(error) => println!("  key       not usable yet: {error}"),
    }
    let list = |items: Vec<String>| if items.is_empty() { "-".to_owned() } else { items.join(", ") };
    println!("  listens   {}", list(config.listen.iter().map(ToString::to_string).collect()));
    let addresses = list(config.tun.addresses.iter().map(ToString::to_string).collect());
    println!(
        "  device    {} {addresses}, MTU {}, {} queue(s)",
        config.tun.name, config.tun.mtu, config.tun.queues
    );
    for group in &config.lane_groups {
        println!(
            "  lanes     {:<12} {} to each peer in each shard, {}, DSCP {}",
            group.name, group.count, group.congestion_control, group.dscp
        );
    }
    for class in &config.classes {
        println!("  class     {:<12} {}", class.name, rides(&config, class));
        println!("{:25}{}", "", treated(&config, class));
    }
    for peer in &config.peers {
        let endpoint = peer.endpoint.as_ref().map_or("dials us".to_owned(), |e| format!("dialled at {e}"));
        let routes = list(peer.routes.iter().map(ToString::to_string).collect());
        println!(
            "  peer      {:<12} {endpoint}, encryption {}, routes {routes}",
            peer.name,
            peer.encryption.as_str()
        );
    }
    Ok(())
}

/// What a class takes and what part of which lanes it gets.
fn rides(config: &Config, class: &ClassConfig) -> String {
    let takes = match class.rules.len() {
        0 => "everything else".to_owned(),
        rules => format!("{rules} rule(s)"),
    };
    let group = config.lane_group(class);
    let others: Vec<_> = config
        .classes
        .iter()
        .filter(|other| other.lane_group == class.lane_group && other.name != class.name)
        .map(|other| other.name.as_str())
        .collect();
    let mut parts = vec![takes];
    if others.is_empty() {
        parts.push(format!("lanes {} alone", group.name));
    } else {
        parts.push(format!("lanes {} with {}", group.name, others.join(" and ")));
        parts.push(if class.priority {
            "before those without priority".to_owned()
        } else {
            format!("weight {}", class.weight)
        });
    }
    parts.extend(class.guarantee.map(|rate| format!("at least {rate}")));
    parts.extend(class.ceiling.map(|rate| format!("at most {rate}")));
    parts.join(", ")
}

/// How the packets and flows of a class are treated.
fn treated(config: &Config, class: &ClassConfig) -> String {
    let limits = class.queue.limits();
    let mut parts =
        vec![format!("queue {}, {} packets or {} bytes", class.discipline(), limits.segments, limits.bytes)];
    if let Some(admission) = class.admission {
        let over = match admission.over {
            Over::Refuse => "refused".to_owned(),
            Over::Class(to) => format!("in class {}", config.classes[to].name),
        };
        parts.push(format!("at most {} flows in each shard, more are {over}", admission.limit));
    }
    parts.extend((!class.repeat_filter).then(|| "repeats not filtered".to_owned()));
    parts.extend((!class.header_compression).then(|| "headers not compressed".to_owned()));
    parts.join(", ")
}
