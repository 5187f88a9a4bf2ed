//! The proxies of a scenario as processes: their files, and their counters.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trunkline_schema::quantity::{Rate, Size, Time};
use trunkline_schema::{
    CellRate, ControlTable, Name, Prefix, ProxyFile, ProxyMode as Mode, ProxySettings, ProxySpec, RateSource,
    SocketPath,
};
use trunkline_sim::ProxyStats;
use trunkline_status::{ProxiesStatus, ProxyCounts};
use trunkline_testbed::clock;
use trunkline_testbed::gateway::{Directory, GatewayError, GatewayProcess};
use trunkline_testbed::namespace::Host;

use super::Misfit;
use super::build::addresses;
use crate::scenario::{Cell, Proxy, ProxyMode, Scenario};

/// How long a proxy may take to be ready.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Bytes that an emulated link holds whose queue has no bound.
const MAX_QUEUE: u64 = 1_000_000_000_000;

/// The proxies of a scenario.
#[derive(Debug)]
pub(super) struct Proxies {
    /// By node; `None` of one that does nothing.
    processes: Vec<Option<GatewayProcess>>,
    // Last, so that the processes end before their files go.
    _directory: Directory,
}

/// The proxy of a node, unless it does nothing.
fn active(scenario: &Scenario, node: usize) -> Option<&Proxy> {
    scenario.nodes[node].proxy.as_ref().filter(|proxy| proxy.mode != ProxyMode::None)
}

/// Whether a scenario has proxies that do something.
pub(super) fn any(scenario: &Scenario) -> bool {
    (0..scenario.nodes.len()).any(|node| active(scenario, node).is_some())
}

/// Whether the proxy of this program can be these.
pub(super) fn check(scenario: &Scenario) -> Result<(), Misfit> {
    for (node, settings) in scenario.nodes.iter().enumerate() {
        let Some(proxy) = active(scenario, node) else { continue };
        let part = format!("proxies.{}", settings.name);
        let other = match &proxy.mode {
            ProxyMode::Freeze(_) => Some("freeze"),
            ProxyMode::ClampToRoom(_) => Some("clamp-to-room"),
            ProxyMode::RegulateAcks(_) => Some("regulate-acks"),
            ProxyMode::None | ProxyMode::Split(_) | ProxyMode::PathTail(..) | ProxyMode::ClampWindow(_) => {
                None
            }
        };
        if let Some(mode) = other {
            let problem = format!(
                "has mode = {mode:?}; allowed on this engine: \"none\", \"split\", \"path-tail\", \"clamp-window\""
            );
            return Err(Misfit::new(part, problem));
        }
        let ProxyMode::PathTail(_, cells) = &proxy.mode else { continue };
        if cells.iter().any(|cell| cell.each_alone) {
            let problem =
                "has a cell with each_alone = true; allowed on this engine: one link for all of a cell";
            return Err(Misfit::new(part, problem));
        }
        if cells.iter().any(|cell| cell.buffer != u64::MAX) {
            let problem = "has a cell with a buffer; allowed on this engine: none (the windows bound it)";
            return Err(Misfit::new(part, problem));
        }
    }
    Ok(())
}

impl Proxies {
    /// Starts all, and waits until each is ready. `buffers` are the bytes that their sockets hold, by node, if they are bounded.
    pub(super) fn start(
        scenario: &Scenario,
        hosts: &[Arc<Host>],
        (program, buffers): (&Path, &[Option<u64>]),
        stop: &AtomicBool,
    ) -> Result<Self, GatewayError> {
        let directory = Directory::new()?;
        let mut processes = Vec::new();
        for (node, settings) in scenario.nodes.iter().enumerate() {
            let Some(proxy) = active(scenario, node) else {
                processes.push(None);
                continue;
            };
            let name = format!("{}-proxy", settings.name);
            let socket = GatewayProcess::socket(&directory, &name);
            let file = ProxyFile {
                control: ControlTable { socket: Some(SocketPath(socket.display().to_string())) },
                metrics: None,
                proxy: ProxySettings { buffer: buffers[node].map(Size), ..ProxySettings::default() },
                proxies: specs(proxy, |host| addresses(scenario, host)),
            };
            let text = toml::to_string(&file).unwrap_or_default();
            let host = Arc::clone(&hosts[node]);
            let mut process = GatewayProcess::proxies(&name, host, program, &directory, &text)?;
            process.start()?;
            processes.push(Some(process));
        }
        let end = clock::now() + START_LIMIT;
        for process in processes.iter_mut().flatten() {
            process.wait_until_up(end, || stop.load(Ordering::Relaxed))?;
        }
        Ok(Self { processes, _directory: directory })
    }

    /// An error if one that should run has ended.
    pub(super) fn check_alive(&mut self) -> Result<(), GatewayError> {
        self.processes.iter_mut().flatten().try_for_each(GatewayProcess::check_alive)
    }

    /// The counters of each node's.
    pub(super) fn stats(&self) -> Result<Vec<ProxyStats>, GatewayError> {
        let stats = |process: &Option<GatewayProcess>| match process {
            Some(process) => process.proxies_status().map(|status| stats(&status)),
            None => Ok(ProxyStats::default()),
        };
        self.processes.iter().map(stats).collect()
    }

    /// Ends all of them in order.
    pub(super) fn end(&mut self) -> Result<(), GatewayError> {
        self.processes.iter().flatten().for_each(GatewayProcess::ask_to_end);
        self.processes.iter_mut().flatten().try_for_each(GatewayProcess::end)
    }
}

/// What a proxy's file says of it.
fn specs(proxy: &Proxy, addresses: impl Fn(usize) -> Vec<IpAddr>) -> Vec<ProxySpec> {
    let spec = |name: String, hosts: &[usize], mode| ProxySpec {
        name: Name(name),
        behind: hosts.iter().flat_map(|host| addresses(*host)).map(|at| Prefix(at.into())).collect(),
        interface: None,
        remote: Vec::new(),
        ports: None,
        mode,
        rate: None,
        recovery: None,
        queue: None,
        packets: None,
        window: None,
    };
    match &proxy.mode {
        ProxyMode::Split(_) => vec![spec("all".to_owned(), &proxy.behind, Mode::Split)],
        ProxyMode::ClampWindow(window) => {
            let all = spec("all".to_owned(), &proxy.behind, Mode::ClampWindow);
            vec![ProxySpec { window: Some(Size(*window)), ..all }]
        }
        ProxyMode::PathTail(_, cells) => {
            let cell = |(number, cell): (usize, &Cell)| ProxySpec {
                rate: Some(CellRate(
                    cell.link
                        .estimate
                        .map_or(RateSource::Measured, |said| RateSource::Given(Rate(said.rate))),
                )),
                recovery: cell
                    .link
                    .estimate
                    .map(|said| said.recovery)
                    .filter(|time| !time.is_zero())
                    .map(Time),
                queue: cell.link.queue.map(|bytes| Size(bytes.min(MAX_QUEUE))),
                packets: cell.link.packets.map(|packets| packets.max(2)),
                ..spec(format!("cell-{number}"), &cell.hosts, Mode::PathTail)
            };
            let mut specs: Vec<ProxySpec> = cells.iter().enumerate().map(cell).collect();
            // A host in no cell has no emulated link.
            let in_cell = |host: &usize| cells.iter().any(|cell| cell.hosts.contains(host));
            let others: Vec<usize> = proxy.behind.iter().copied().filter(|host| !in_cell(host)).collect();
            if !others.is_empty() {
                specs.push(spec("others".to_owned(), &others, Mode::Split));
            }
            specs
        }
        // Refused, or not started.
        ProxyMode::None | ProxyMode::Freeze(_) | ProxyMode::ClampToRoom(_) | ProxyMode::RegulateAcks(_) => {
            Vec::new()
        }
    }
}

fn stats(status: &ProxiesStatus) -> ProxyStats {
    let sum = |of: fn(&ProxyCounts) -> u64| status.proxies.iter().map(|proxy| of(&proxy.counts)).sum();
    ProxyStats {
        flows: sum(|counts| counts.opened),
        dropped: status.totals.tail_dropped,
        held: status.totals.tail_held,
        released: status.totals.tail_released,
        clamped: status.totals.clamped,
        buffered: sum(|counts| counts.held),
        // Of one cell exact, of several an upper bound: their maxima need not have been at the same time.
        peak_buffered: sum(|counts| counts.held_max),
        ..ProxyStats::default()
    }
}

#[cfg(test)]
mod tests {
    use trunkline_schema::Source;
    use trunkline_status::{ProxyStatus, ProxyTotals};
    use trunkline_trunk::path_tail::{CellLink, Estimate};

    use super::super::build::address;
    use super::*;
    use crate::scenario::Family;

    fn cell(hosts: Vec<usize>, link: CellLink) -> Cell {
        Cell { hosts, link, buffer: u64::MAX, each_alone: false }
    }

    #[test]
    fn a_file_that_is_printed_is_one_that_a_proxy_reads() {
        let tcp = std::sync::Arc::new(trunkline_tcp::Preset::Linux6.settings());
        let tcps = [tcp.clone(), tcp];
        let estimate =
            Estimate { rate: trunkline_units::Rate::from_mbit(1.0), recovery: Duration::from_millis(75) };
        let given = CellLink { estimate: Some(estimate), queue: Some(u64::MAX), packets: Some(20) };
        let measured = CellLink { estimate: None, queue: None, packets: None };
        for (mode, count) in [
            (ProxyMode::Split(tcps.clone()), 1),
            (ProxyMode::ClampWindow(5000), 1),
            (ProxyMode::PathTail(tcps, vec![cell(vec![1], given), cell(vec![2], measured)]), 3),
        ] {
            let proxies =
                specs(&Proxy { behind: vec![1, 2, 3], mode }, |host| vec![address(host, Family::Ipv6)]);
            let file = ProxyFile { proxies, ..ProxyFile::default() };
            let text = toml::to_string(&file).expect("a file");
            let read = Source::parse("proxy.toml", &text).and_then(|source| ProxyFile::of(&source));
            assert_eq!(read.expect("it is one"), file);
            assert_eq!(file.proxies.len(), count, "{text}");
        }
    }

    #[test]
    fn counters_are_those_of_the_status() {
        let proxy = |opened, held, held_max| ProxyStatus {
            counts: ProxyCounts { opened, held, held_max, ..ProxyCounts::default() },
            ..ProxyStatus::default()
        };
        let totals = ProxyTotals { tail_dropped: 4, clamped: 8, ..ProxyTotals::default() };
        let proxies = vec![proxy(1, 5, 9), proxy(2, 1, 3)];
        let stats = stats(&ProxiesStatus { totals, proxies, ..ProxiesStatus::default() });
        assert_eq!((stats.flows, stats.dropped, stats.clamped), (3, 4, 8));
        assert_eq!((stats.buffered, stats.peak_buffered), (6, 12));
    }
}
