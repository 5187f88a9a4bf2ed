//! `up` and `check`.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use trunkline_gateway::config::{Config, LoadError};
use trunkline_gateway::daemon::{Daemon, DaemonError};

use crate::cli::FileArguments;
use crate::failure::Failure;

fn load(arguments: &FileArguments) -> Result<Config, Failure> {
    Config::load(&arguments.file).map_err(|error: LoadError| Failure::Input(error.to_string()))
}

pub(crate) fn up(arguments: &FileArguments) -> Result<(), Failure> {
    let config = load(arguments)?;
    log();
    let run = || Daemon::start(config)?.run();
    run().map_err(|error: DaemonError| match error {
        DaemonError::Key(_) | DaemonError::CongestionControl { .. } => Failure::Input(error.to_string()),
        DaemonError::Device(_) => Failure::Lacking(error.to_string()),
        _ => Failure::Other(error.to_string()),
    })
}

/// The log goes to standard error. Under systemd the journal has the time already.
fn log() {
    let filter = EnvFilter::try_from_env("TRUNKLINE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal());
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        builder.without_time().init();
    } else {
        builder.init();
    }
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
    for class in &config.classes {
        let rules = if class.rules.is_empty() {
            "everything else".to_owned()
        } else {
            format!("{} rule(s)", class.rules.len())
        };
        println!(
            "  class     {:<12} {rules}, {} packets or {} bytes, {}",
            class.name, class.queue.packets, class.queue.bytes, class.congestion_control
        );
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
