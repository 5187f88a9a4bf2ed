//! The running gateways, what happens to them, and which lanes and routes must be there.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trunkline_service::control;
use trunkline_status::{Answer, LaneState, Request, Status};
use trunkline_testbed::namespace::Process;

use super::counters::{self, Counters};
use super::hosts::{Hosts, within};
use super::rate::Slowest;
use super::settings::{Key, Proxy, Settings};
use super::step::{Caller, Client, Longer, Site, Step};
use super::traffic::{self, Datagrams};
use crate::common::site::{Directory, PROGRAM};
use crate::common::stream::{Outcome, stream};

/// Shards of every site.
const SHARDS: u16 = 2;
/// How long everything may take to be up once the network is whole: longer than the longest back-off and the time-out of a
/// dial together, on a machine that does much else.
const UP_LIMIT: Duration = Duration::from_secs(60);
/// How long a gateway may take to listen on its socket, or to end.
const START_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn text(error: impl Display) -> String {
    error.to_string()
}

/// A site's gateway.
#[derive(Default)]
struct Gateway {
    process: Option<Process>,
    is_frozen: bool,
    settings: Settings,
    public_key: String,
    counters: Counters,
}

/// Clients and callers that are still connected.
#[derive(Default)]
pub(crate) struct Held {
    unix: Vec<UnixStream>,
    pub(crate) tcp: Vec<TcpStream>,
}

/// All of it. The order of fields is the order of the end.
pub(crate) struct World {
    datagrams: Datagrams,
    gateways: [Gateway; 3],
    pub(crate) held: Held,
    pub(crate) hosts: Hosts,
    directory: Directory,
    proxy: Proxy,
    /// How often the rate has been looked at: each time between others.
    pub(crate) looks: usize,
    pub(crate) slowest: Slowest,
}

impl World {
    /// Starts everything.
    pub(crate) fn new(proxy: Proxy) -> Result<Self, String> {
        let directory = Directory::new();
        let hosts = Hosts::new().map_err(text)?;
        let mut gateways: [Gateway; 3] = Default::default();
        for site in Site::ALL {
            gateways[site as usize].public_key = directory.key(site.name());
        }
        let datagrams = Datagrams::start(|site| hosts.host(site).clone()).map_err(text)?;
        let (held, slowest) = (Held::default(), Slowest::default());
        let mut world = Self { datagrams, gateways, held, hosts, directory, proxy, looks: 0, slowest };
        Site::ALL.into_iter().try_for_each(|site| world.start(site))?;
        Ok(world)
    }

    fn gateway(&mut self, site: Site) -> &mut Gateway {
        &mut self.gateways[site as usize]
    }

    fn file(&self, site: Site, kind: &str) -> PathBuf {
        self.directory.0.join(format!("{}.{kind}", site.name()))
    }

    pub(crate) fn runs(&self, site: Site) -> bool {
        self.gateways[site as usize].process.is_some()
    }

    pub(crate) fn is_frozen(&self, site: Site) -> bool {
        self.gateways[site as usize].is_frozen
    }

    pub(crate) fn settings(&self, site: Site) -> &Settings {
        &self.gateways[site as usize].settings
    }

    /// One event, and what holds at all times.
    pub(crate) fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Kill(site) => *self.process(site) = None,
            Step::Stop(site) => self.stop(site)?,
            Step::Start(site) => self.start(site)?,
            Step::Reload(site, key, value) => self.reload(site, key, value)?,
            Step::ReloadEverywhere(key, value) => {
                Site::ALL.into_iter().try_for_each(|site| self.reload(site, key, value))?;
            }
            Step::ReloadRefused(site) => self.reload_refused(site)?,
            Step::Fail(site, ways) => self.hosts.fail(site, ways).map_err(text)?,
            Step::LoseCarrier(site) => {
                self.hosts.damage(site, |line| line.has_no_carrier = true).map_err(text)?;
            }
            Step::Reorder(site) => self.hosts.damage(site, |line| line.reorders = true).map_err(text)?,
            Step::PathMtu(site, longest, longer) => {
                let damaged = self.hosts.damage(site, |line| {
                    (line.longest, line.swallows) = (Some(longest), longer == Longer::Swallowed);
                });
                damaged.map_err(text)?;
            }
            Step::RestoreWan(site) => self.hosts.restore(site).map_err(text)?,
            Step::Freeze(site) => self.freeze(site)?,
            Step::Thaw(site) => self.thaw(site)?,
            Step::Damage(damage) if self.runs(Site::Hub) => self.damage_proxy(damage)?,
            Step::Abuse(abuse) => self.abuse(abuse)?,
            Step::BounceWan(site) => self.hosts.bounce_wan(site).map_err(text)?,
            Step::Move(site) => self.hosts.renumber(site).map_err(text)?,
            Step::BounceTun(site) if self.runs(site) => self.hosts.bounce_tun(site).map_err(text)?,
            Step::LoseRoute(site) if self.runs(site) => self.hosts.lose_route(site).map_err(text)?,
            Step::Damage(_) | Step::BounceTun(_) | Step::LoseRoute(_) => {}
            Step::Client(site, client) => self.client(site, client)?,
            Step::Callers(caller, count) => self.callers(caller, count),
            Step::Stream(from, to, size) => self.stream(from, to, size)?,
            Step::Wait(ms) => std::thread::sleep(Duration::from_millis(ms.into())),
            Step::Settle => return self.settle(),
        }
        self.check()?;
        if matches!(step, Step::Wait(_)) { Ok(()) } else { self.check_a_rate(&step.name()) }
    }

    // ------------------------------------------------------------ gateways

    fn write_file(&self, site: Site) -> Result<(), String> {
        let key = |peer: Site| self.gateways[peer as usize].public_key.clone();
        let socket = self.file(site, "sock");
        let text_of_file = self.settings(site).text(site, key, &socket, self.proxy);
        fs::write(self.file(site, "toml"), text_of_file).map_err(text)
    }

    fn start(&mut self, site: Site) -> Result<(), String> {
        if self.runs(site) {
            return self.thaw(site);
        }
        self.write_file(site)?;
        let log = fs::File::options().append(true).create(true).open(self.file(site, "log"));
        let mut command = Command::new(PROGRAM);
        command.arg("up").arg(self.file(site, "toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.map_err(text)?);
        let process = self.hosts.host(site).command(command).map_err(text)?;
        let gateway = self.gateway(site);
        gateway.process = Some(process);
        gateway.counters.clear();
        within(START_LIMIT, || {
            self.check_alive(site)?;
            self.status(site).map(drop)
        })
    }

    /// The gateway's process, which is not frozen if it goes.
    fn process(&mut self, site: Site) -> &mut Option<Process> {
        let gateway = self.gateway(site);
        gateway.is_frozen = false;
        &mut gateway.process
    }

    fn freeze(&mut self, site: Site) -> Result<(), String> {
        let gateway = self.gateway(site);
        let Some(process) = &gateway.process else { return Ok(()) };
        gateway.is_frozen = true;
        process.signal(Signal::STOP).map_err(text)
    }

    /// Lets it run again, which what asks it for something needs.
    pub(crate) fn thaw(&mut self, site: Site) -> Result<(), String> {
        let gateway = self.gateway(site);
        match &gateway.process {
            Some(process) if gateway.is_frozen => {
                gateway.is_frozen = false;
                process.signal(Signal::CONT).map_err(text)
            }
            _ => Ok(()),
        }
    }

    fn stop(&mut self, site: Site) -> Result<(), String> {
        self.thaw(site)?;
        let Some(mut process) = self.process(site).take() else { return Ok(()) };
        process.signal(Signal::TERM).map_err(text)?;
        match process.wait(START_LIMIT).map_err(text)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{} ended with {status} on request", site.name())),
            None => Err(format!("{} does not end on request", site.name())),
        }
    }

    fn ask(&self, site: Site, request: &Request) -> Result<Answer, String> {
        control::ask(&self.file(site, "sock"), request).map_err(text)
    }

    fn status(&self, site: Site) -> Result<Status, String> {
        match self.ask(site, &Request::Status)? {
            Answer::Status(status) => Ok(*status),
            other => Err(format!("{other:?} to a status")),
        }
    }

    fn reload(&mut self, site: Site, key: Key, value: u8) -> Result<(), String> {
        self.gateway(site).settings.set(key, value);
        if !self.runs(site) {
            return Ok(());
        }
        self.thaw(site)?;
        self.write_file(site)?;
        match self.ask(site, &Request::Reload)? {
            Answer::Done { .. } => Ok(()),
            other => Err(format!("{other:?} to a reload of {}", site.name())),
        }
    }

    fn reload_refused(&mut self, site: Site) -> Result<(), String> {
        if !self.runs(site) {
            return Ok(());
        }
        self.thaw(site)?;
        let file = self.file(site, "toml");
        let good = fs::read_to_string(&file).map_err(text)?;
        for bad in [good.replace("queues = 2", "queues = 3"), good.replace("[control]", "[cotnrol]")] {
            fs::write(&file, bad).map_err(text)?;
            match self.ask(site, &Request::Reload)? {
                Answer::Refused { .. } => {}
                other => return Err(format!("{other:?} to a file that cannot be followed")),
            }
        }
        fs::write(&file, good).map_err(text)
    }

    // ------------------------------------------------------------ clients and callers

    fn client(&mut self, site: Site, client: Client) -> Result<(), String> {
        if !self.runs(site) {
            return Ok(());
        }
        self.thaw(site)?;
        let host = self.hosts.host(site).clone();
        let metrics = || host.run(|| TcpStream::connect("127.0.0.1:9460")).map_err(text);
        let socket = self.file(site, "sock");
        let control = || UnixStream::connect(&socket).map_err(text);
        match client {
            Client::Flows => drop(self.ask(site, &Request::Flows)?),
            Client::Metrics => {
                let mut stream = metrics()?;
                stream.set_read_timeout(Some(START_LIMIT)).map_err(text)?;
                let mut page = String::new();
                let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
                asked.and_then(|()| stream.read_to_string(&mut page)).map_err(|e| format!("metrics: {e}"))?;
                if !page.starts_with("HTTP/1.1 200") || !page.contains("trunkline_pool_bytes") {
                    return Err(format!("metrics are {page:?}"));
                }
            }
            Client::Garbage => {
                // Whether it is closed before all is written is the gateway's business.
                let garbage: Vec<u8> = (0..6000_u32).map(|at| (at * 7 % 251) as u8).collect();
                let _ = metrics()?.write_all(&garbage);
                let _ = control()?.write_all(&garbage);
            }
            Client::Idle(count) => {
                for _ in 0..count {
                    let (tcp, unix) = (metrics()?, control()?);
                    self.held.tcp.push(tcp);
                    self.held.unix.push(unix);
                }
            }
        }
        Ok(())
    }

    fn callers(&mut self, caller: Caller, count: u8) {
        let hub = SocketAddr::from(([198, 18, 1, 2], 4600));
        if caller == Caller::Datagrams {
            let socket = self.hosts.router.run(|| UdpSocket::bind("0.0.0.0:0"));
            for number in 0..usize::from(count) * 20 {
                // Some are as long as first packets of QUIC, and say that they are some.
                let datagram = vec![0xc0 | number as u8; 1 + number * 7 % 1400];
                let _ = socket.as_ref().map(|socket| socket.send_to(&datagram, hub));
            }
            return;
        }
        for _ in 0..count {
            let connect = || TcpStream::connect_timeout(&hub, Duration::from_secs(1));
            // The hub may be down, or its line.
            let Ok(mut stream) = self.hosts.router.run(connect) else { return };
            match caller {
                Caller::Short | Caller::Datagrams => {}
                Caller::Garbage => drop(stream.write_all(&[0x5a; 500])),
                Caller::Silent => self.held.tcp.push(stream),
            }
        }
    }

    fn stream(&self, from: Site, to: Site, size: u8) -> Result<(), String> {
        let (source, sink) = (self.hosts.host(from), self.hosts.host(to));
        let bytes = u64::from(size) * 100_000;
        match stream(source, (sink, traffic::address(to)), bytes, Duration::from_secs(2)) {
            Outcome::Wrong(what) => Err(format!("a stream from {} to {}: {what}", from.name(), to.name())),
            Outcome::Whole | Outcome::Broken(_) => Ok(()),
        }
    }

    // ------------------------------------------------------------ what must hold

    fn check_alive(&mut self, site: Site) -> Result<(), String> {
        let Some(process) = &mut self.gateway(site).process else { return Ok(()) };
        match process.try_wait().map_err(text)? {
            None => Ok(()),
            Some(status) => Err(format!("{} has ended by itself: {status}", site.name())),
        }
    }

    /// At all times.
    fn check(&mut self) -> Result<(), String> {
        for site in Site::ALL.into_iter().filter(|site| self.runs(*site)).collect::<Vec<_>>() {
            self.check_alive(site)?;
            if self.is_frozen(site) {
                continue;
            }
            let status = self.status(site).map_err(|error| format!("{}: {error}", site.name()))?;
            let counters = counters::of(&status);
            let gateway = self.gateway(site);
            if let Some(what) = counters::went_back(&gateway.counters, &counters) {
                return Err(format!("{}: {what}", site.name()));
            }
            gateway.counters = counters;
        }
        Ok(())
    }

    /// Makes the network whole, starts what does not run, and waits for what must then be up.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.held = Held::default();
        for site in Site::ALL {
            self.hosts.restore(site).map_err(text)?;
            self.start(site)?;
        }
        let whole = Instant::now();
        within(UP_LIMIT, || Site::ALL.into_iter().try_for_each(|site| self.check_lanes(site)))?;
        self.slowest.lanes = self.slowest.lanes.max(whole.elapsed());
        within(UP_LIMIT, || Site::ALL.into_iter().try_for_each(|site| self.check_routes(site)))?;
        self.check_all_rates("Settle")?;
        self.check()
    }

    /// Whether one of the two can dial the other.
    fn reach(&self, site: Site, peer: Site) -> bool {
        let reaches = |from: Site, to: Site| self.settings(from).dials(from, to) && self.hosts.is_at_home(to);
        reaches(site, peer) || reaches(peer, site)
    }

    fn agree(&self, site: Site, peer: Site) -> bool {
        self.settings(site).encryption() == self.settings(peer).encryption()
    }

    /// Whether lanes of all names must come up between the two, at both ends.
    pub(crate) fn join(&self, site: Site, peer: Site) -> bool {
        let (ours, theirs) = (self.settings(site), self.settings(peer));
        self.reach(site, peer)
            && self.agree(site, peer)
            && ours.agrees_on_transport(theirs)
            && ours.lanes() == theirs.lanes()
    }

    fn check_lanes(&self, site: Site) -> Result<(), String> {
        let status = self.status(site)?;
        for peer in site.peers() {
            let (ours, theirs) = (self.settings(site).lanes(), self.settings(*peer).lanes());
            // What was up may stay up though neither could dial it now.
            let (mut allowed, mut required) = (BTreeSet::new(), BTreeSet::new());
            for (name, count) in &ours {
                let both = (*count).min(theirs.get(name).copied().unwrap_or(0));
                if !self.agree(site, *peer) {
                    continue;
                }
                let places: Vec<_> = (0..SHARDS)
                    .flat_map(|shard| (0..both).map(move |index| (name.to_string(), shard, index)))
                    .collect();
                let is_tcp = *name != "rest";
                if is_tcp || self.settings(site).agrees_on_transport(self.settings(*peer)) {
                    required.extend(places.clone());
                }
                allowed.extend(places);
            }
            let lanes = status.peers.iter().find(|other| other.name == peer.name()).map(|peer| &peer.lanes);
            let lanes = lanes.ok_or_else(|| format!("{} knows no {}", site.name(), peer.name()))?;
            let up: BTreeSet<_> = lanes
                .iter()
                .filter(|lane| lane.state == LaneState::Up)
                .map(|lane| (lane.lane_group.clone(), lane.shard, lane.index))
                .collect();
            let missing: Vec<_> = required.difference(&up).filter(|_| self.reach(site, *peer)).collect();
            let extra: Vec<_> = up.difference(&allowed).collect();
            if !missing.is_empty() || !extra.is_empty() {
                return Err(format!(
                    "lanes (name, shard, place) of {} to {}: down {missing:?}, up against the model {extra:?}",
                    site.name(),
                    peer.name()
                ));
            }
        }
        Ok(())
    }

    fn check_routes(&self, site: Site) -> Result<(), String> {
        let expected: BTreeSet<String> = self.settings(site).routes(site).into_values().flatten().collect();
        let routes: BTreeSet<String> = self.hosts.trunk_routes(site).map_err(text)?.into_iter().collect();
        if routes == expected {
            return Ok(());
        }
        Err(format!("routes of {}: {routes:?} in place of {expected:?}", site.name()))
    }

    /// Settles with the same settings everywhere, and ends everything in order.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.settle()?;
        let hub = self.settings(Site::Hub).clone();
        for site in [Site::B, Site::C] {
            self.gateway(site).settings = hub.clone();
            self.write_file(site)?;
            match self.ask(site, &Request::Reload)? {
                Answer::Done { .. } => {}
                other => return Err(format!("{other:?} to the last reload of {}", site.name())),
            }
        }
        self.settle()?;
        let arrived = self.datagrams.finish()?;
        if arrived == 0 {
            return Err("no datagram has arrived at all".to_owned());
        }
        Site::ALL.into_iter().try_for_each(|site| self.stop(site))
    }

    /// The last lines of each gateway's log.
    pub(crate) fn logs(&self) -> String {
        let mut logs = String::new();
        for site in Site::ALL {
            let log = fs::read(self.file(site, "log")).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(15)..].join("\n");
            logs.extend(["--- ", site.name(), "\n", &tail, "\n"]);
        }
        logs
    }
}
