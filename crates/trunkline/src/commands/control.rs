//! `status`, `reload` and `down`: what is asked of a running gateway.

use std::fs;
use std::path::PathBuf;

use trunkline_gateway::config::{Config, RUN_DIRECTORY};
use trunkline_gateway::control::{Answer, ControlError, Request, ask, remove_stale};
use trunkline_gateway::status::{Peer, Status};

use crate::cli::{InstanceArguments, StatusArguments};
use crate::failure::Failure;

/// The control socket that is meant.
pub(super) fn socket(arguments: &InstanceArguments) -> Result<PathBuf, Failure> {
    let Some(site) = &arguments.site else { return only_socket() };
    if site.extension().is_some_and(|extension| extension == "toml") {
        let config = Config::load(site).map_err(|error| Failure::Input(error.to_string()))?;
        return Ok(config.control.socket);
    }
    if site.exists() {
        return Ok(site.clone());
    }
    Ok(PathBuf::from(RUN_DIRECTORY).join(format!("{}.sock", site.display())))
}

fn only_socket() -> Result<PathBuf, Failure> {
    let mut sockets: Vec<PathBuf> = fs::read_dir(RUN_DIRECTORY)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        // A gateway that was killed leaves its socket behind.
        .filter(|path| !remove_stale(path))
        .collect();
    sockets.sort();
    match sockets.as_slice() {
        [] => Err(Failure::NotRunning(format!("no gateway runs here: none listens in {RUN_DIRECTORY}"))),
        [one] => Ok(one.clone()),
        several => {
            let names: Vec<String> =
                several.iter().filter_map(|p| Some(p.file_stem()?.to_string_lossy().into_owned())).collect();
            Err(Failure::Input(format!("several gateways run here; name one of: {}", names.join(", "))))
        }
    }
}

fn request(arguments: &InstanceArguments, request: Request) -> Result<Answer, Failure> {
    ask(&socket(arguments)?, request).map_err(|error| not_asked(&error))
}

/// Why a daemon could not be asked, as a failure of the command.
pub(super) fn not_asked(error: &ControlError) -> Failure {
    match error {
        ControlError::Connect { .. } | ControlError::Silent { .. } => Failure::NotRunning(error.to_string()),
        ControlError::Talk { .. } => Failure::Other(error.to_string()),
    }
}

fn tell(arguments: &InstanceArguments, what: Request) -> Result<(), Failure> {
    match request(arguments, what)? {
        Answer::Done { message } => {
            println!("{message}");
            Ok(())
        }
        Answer::Refused { message } => Err(Failure::Input(message)),
        Answer::Status(_) => Err(Failure::Other("the daemon answered something else".to_owned())),
    }
}

pub(crate) fn reload(arguments: &InstanceArguments) -> Result<(), Failure> {
    tell(arguments, Request::Reload)
}

pub(crate) fn down(arguments: &InstanceArguments) -> Result<(), Failure> {
    tell(arguments, Request::Down)
}

pub(crate) fn status(arguments: &StatusArguments) -> Result<(), Failure> {
    match request(&arguments.instance, Request::Status)? {
        Answer::Status(status) if arguments.json => {
            let json = serde_json::to_string_pretty(&*status).map_err(Failure::doing("cannot print"))?;
            println!("{json}");
            Ok(())
        }
        Answer::Status(status) => {
            print(&status);
            Ok(())
        }
        Answer::Refused { message } | Answer::Done { message } => Err(Failure::Other(message)),
    }
}

fn print(status: &Status) {
    println!(
        "{}: up for {:.0} s, version {}, key {}",
        status.name, status.uptime_s, status.version, status.public_key
    );
    let tun = &status.tun;
    let offloads = if tun.offloads.is_empty() { "none".to_owned() } else { tun.offloads.join(" ") };
    println!("device {}: MTU {}, {} queue(s), offloads {offloads}", tun.name, tun.mtu, tun.queues);
    let lost = tun.dropped_no_route + tun.dropped_malformed + tun.dropped_too_long + tun.dropped_no_memory;
    if lost + tun.dropped_device_queue + tun.write_refused > 0 {
        println!(
            "  dropped: {} without a route, {} malformed, {} by the device's queue; {} refused by the kernel",
            tun.dropped_no_route, tun.dropped_malformed, tun.dropped_device_queue, tun.write_refused
        );
    }
    for peer in &status.peers {
        let encryption = if peer.encryption == "none" { ", IN CLEAR" } else { "" };
        println!("\npeer {}{encryption}: {}", peer.name, peer.routes.join(", "));
        let refused = peer.received.refused_forged_source
            + peer.received.refused_malformed
            + peer.received.refused_bad_offload;
        println!(
            "  received {} packets, {} bytes; {refused} refused",
            peer.received.packets, peer.received.bytes
        );
        print_classes(peer);
        print_lanes(peer);
    }
}

fn millis(us: Option<u64>) -> String {
    us.map_or("-".to_owned(), |us| format!("{:.2}", us as f64 / 1e3))
}

fn print_classes(peer: &Peer) {
    println!(
        "  {:<14} {:<14} {:>10} {:>12} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>6}",
        "class",
        "queue",
        "packets",
        "bytes",
        "dropped",
        "marked",
        "filtered",
        "waiting",
        "p50 ms",
        "p99 ms",
        "flows"
    );
    for class in &peer.classes {
        println!(
            "  {:<14} {:<14} {:>10} {:>12} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>6}",
            class.name,
            class.discipline,
            class.packets_sent,
            class.bytes_sent,
            class.dropped() + class.refused,
            class.marked,
            class.filtered,
            class.backlog_packets,
            millis(class.sojourn.p50_us),
            millis(class.sojourn.p99_us),
            class.flows,
        );
        let refused = (&"refused".to_owned(), &class.refused);
        let drops: Vec<String> = class
            .drops
            .iter()
            .chain([refused])
            .filter(|(_, count)| **count > 0)
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        if !drops.is_empty() {
            println!("  {:<14} dropped: {}", "", drops.join(", "));
        }
    }
}

fn print_lanes(peer: &Peer) {
    println!(
        "  {:<14} {:<14} {:>10} {:>12} {:>8} {:>8} {:>8} {:>8}",
        "lane", "state", "cwnd", "rtt ms", "core ms", "retrans", "Mbit/s", "headers"
    );
    for lane in &peer.lanes {
        let name = match (lane.shard, lane.index) {
            (0, 0) => lane.group.clone(),
            (shard, 0) => format!("{}/{shard}", lane.group),
            (shard, index) => format!("{}/{shard}.{index}", lane.group),
        };
        if lane.state != "up" {
            println!("  {name:<14} {:<14} {}", lane.state, lane.last_error.as_deref().unwrap_or(""));
            continue;
        }
        let headers = if lane.headers_out_bytes > 0 {
            format!("1/{:.1}", lane.headers_in_bytes as f64 / lane.headers_out_bytes as f64)
        } else {
            "-".to_owned()
        };
        println!(
            "  {name:<14} {:<14} {:>10} {:>12.2} {:>8} {:>8} {:>8.1} {headers:>8}",
            lane.state,
            lane.cwnd,
            f64::from(lane.rtt_us) / 1e3,
            millis(lane.queue_in_core_us.map(u64::from)),
            lane.retransmits,
            lane.delivery_rate as f64 / 1e6,
        );
    }
}
