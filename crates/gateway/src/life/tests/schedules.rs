//! Two sites under random schedules.
//!
//! The world is a set of connections between two [`Life`]s. A schedule is a list of [`Op`]s drawn from a seed. If a
//! schedule breaks a rule, the test shortens it as long as it still breaks the rule, and prints it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use trunkline_units::{Instant, Rng};

use super::super::*;
use super::{SHARDS, key_of, wanted};
use trunkline_schema::Encryption;

/// The maximum number of dials of a site to its one peer within ten seconds. A lane's back-off allows about six dials after
/// its first, a path's back-off one in 0.1 s in the worst case; an uptime over five seconds allows another round.
const MAX_DIALS: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    /// Time passes, ms.
    Pass(u16),
    /// A connection gets one step further.
    Advance(u16),
    /// An attempt fails.
    Fail(u16),
    /// A lane's connection breaks: one end notices now, the other at [`Op::Notice`].
    Break(u16),
    Notice(u16),
    /// The path goes, or comes back.
    Path(bool),
    /// A site changes the number of lanes of the lane group.
    Reload(u8, u8),
    /// A site restarts.
    Restart(u8),
    /// A site notices a change of its network.
    NetworkChanged(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connecting,
    Greeting,
    /// The connection is a lane at the acceptor; the dialler does not know yet.
    Welcomed,
    /// A lane at both ends, unless an end has dropped it since.
    Lane,
}

#[derive(Debug)]
struct Connection {
    dialler: usize,
    attempt: Attempt,
    key: LaneKey,
    number: u16,
    stage: Stage,
    /// The serial at each end where the connection is a lane.
    serials: [Option<Serial>; 2],
}

struct Site {
    life: Life,
    lanes: u8,
    instance: u64,
    dials: VecDeque<Instant>,
    /// All serials that this process has installed, and those that are up now.
    installed: BTreeSet<Serial>,
    up: BTreeMap<Serial, LaneKey>,
}

struct World {
    now: Instant,
    sites: [Site; 2],
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    /// Ends of lanes that a site has not noticed yet.
    unnoticed: VecDeque<(usize, Serial, u64)>,
    path: bool,
    both_dial: bool,
    instances: u64,
}

impl World {
    fn new(both_dial: bool) -> Self {
        let mut world = World {
            now: Instant::from_millis(1000),
            sites: [0, 1].map(|site| World::site(site, 1)),
            connections: BTreeMap::new(),
            next_connection: 0,
            unnoticed: VecDeque::new(),
            path: true,
            both_dial,
            instances: 2,
        };
        for site in 0..2 {
            world.reload(site, 1);
        }
        world
    }

    fn site(site: usize, instance: u64) -> Site {
        Site {
            life: Life::new(super::super::Site { key: key_of(site), shards: SHARDS, seed: instance }),
            lanes: 0,
            instance,
            dials: VecDeque::new(),
            installed: BTreeSet::new(),
            up: BTreeMap::new(),
        }
    }

    fn reload(&mut self, site: usize, lanes: u8) {
        let dials = self.both_dial || site == 0;
        self.sites[site].lanes = lanes;
        let ended = self.sites[site].life.reload(self.now, &wanted([key_of(1 - site)], lanes, dials));
        for lane in ended {
            assert_eq!(self.sites[site].up.remove(&lane.serial), Some(lane.key), "it was up");
            self.drop_end(site, lane.serial);
        }
    }

    fn restart(&mut self, site: usize) {
        let (lanes, dials) = (self.sites[site].lanes, std::mem::take(&mut self.sites[site].dials));
        let serials: Vec<Serial> = self.sites[site].up.keys().copied().collect();
        for serial in serials {
            self.drop_end(site, serial);
        }
        // Attempts in progress end.
        let dead: Vec<u64> =
            self.connections.iter().filter(|(_, c)| c.stage != Stage::Lane).map(|(id, _)| *id).collect();
        for id in dead {
            let Some(connection) = self.connections.remove(&id) else { continue };
            if connection.dialler != site {
                self.fail(&connection);
            } else if let Some(serial) = connection.serials[1 - site] {
                self.unnoticed.push_back((1 - site, serial, id));
            }
        }
        self.unnoticed.retain(|(end, ..)| *end != site);
        self.instances += 1;
        self.sites[site] = World::site(site, self.instances);
        // The bound on dials holds for one process, and a restart begins another.
        drop(dials);
        self.reload(site, lanes);
    }

    /// An end drops its lane; the other end notices later.
    fn drop_end(&mut self, site: usize, serial: Serial) {
        let found = self.connections.iter().find(|(_, c)| c.serials[site] == Some(serial)).map(|(id, _)| *id);
        let Some(id) = found else { return };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.serials[site] = None;
        if let Some(other) = connection.serials[1 - site] {
            self.unnoticed.push_back((1 - site, other, id));
        }
        if connection.stage != Stage::Lane {
            // The dialler finds the connection closed before the welcome.
            if let Some(connection) = self.connections.remove(&id) {
                self.fail(&connection);
            }
        } else if connection.serials == [None, None] {
            self.connections.remove(&id);
        }
    }

    /// Reports the failure of a connection to its dialler.
    fn fail(&mut self, connection: &Connection) {
        let site = connection.dialler;
        let failure = if connection.stage == Stage::Connecting { Failure::Path } else { Failure::Lane };
        self.sites[site].life.handle_dial_failed(self.now, connection.attempt, failure, "it failed");
    }

    fn notice(&mut self, index: usize) {
        let Some((site, serial, id)) = self.unnoticed.remove(index) else { return };
        let ended = self.sites[site].life.handle_ended(self.now, serial, "ended");
        assert_eq!(self.sites[site].up.remove(&serial), ended, "it was up if and only if we have it as up");
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.serials[site] = None;
            if connection.serials == [None, None] {
                self.connections.remove(&id);
            }
        }
    }

    fn install(&mut self, site: usize, id: u64, attempt: Option<Attempt>) -> bool {
        let Some(connection) = self.connections.get(&id) else { return false };
        let (key, instance) = if attempt.is_some() {
            (connection.key.clone(), self.sites[1 - site].instance)
        } else {
            let request = Request {
                peer: key_of(1 - site),
                lane_group: "tcp",
                number: connection.number,
                instance: self.sites[1 - site].instance,
            };
            let Ok(key) = self.sites[site].life.find_lane(self.now, request) else { return false };
            (key, request.instance)
        };
        let this = &mut self.sites[site];
        let serial = this.life.next_serial();
        let candidate = Candidate {
            key: key.clone(),
            serial,
            dialled: attempt.is_some(),
            attempt,
            instance,
            encryption: Encryption::Tls,
        };
        let Ok(Installed { replaced }) = this.life.handle_up(self.now, candidate) else { return false };
        assert!(this.installed.insert(serial), "a serial is drawn once");
        if let Some(old) = replaced {
            assert_eq!(this.up.remove(&old).as_ref(), Some(&key), "it replaced a lane that was up");
        }
        assert!(!this.up.values().any(|other| *other == key), "one connection for one lane");
        this.up.insert(serial, key);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.serials[site] = Some(serial);
        }
        if let Some(old) = replaced {
            self.drop_end(site, old);
        }
        true
    }

    fn advance(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !self.path {
            return;
        }
        let (dialler, attempt) = (connection.dialler, connection.attempt);
        match connection.stage {
            Stage::Connecting => {
                connection.stage = Stage::Greeting;
                self.sites[dialler].life.handle_connected(self.now, attempt);
            }
            Stage::Greeting => {
                if self.install(1 - dialler, id, None) {
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.stage = Stage::Welcomed;
                    }
                } else if let Some(connection) = self.connections.remove(&id) {
                    self.fail(&connection);
                }
            }
            Stage::Welcomed => {
                connection.stage = Stage::Lane;
                if !self.install(dialler, id, Some(attempt)) {
                    // The dialler closes it.
                    if let Some(serial) = self.connections.get(&id).and_then(|c| c.serials[1 - dialler]) {
                        self.unnoticed.push_back((1 - dialler, serial, id));
                    } else {
                        self.connections.remove(&id);
                    }
                }
            }
            Stage::Lane => {}
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            for site in 0..2 {
                self.dial(site);
            }
            let next = self.sites.iter().filter_map(|site| site.life.poll_timeout()).map(|(at, _)| at).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            assert!(next > self.now, "an action that was due is done: {next:?}");
            self.now = next;
        }
        self.now = end;
    }

    fn dial(&mut self, site: usize) {
        let now = self.now;
        while let Some(dial) = self.sites[site].life.poll_dial(now) {
            let this = &mut self.sites[site];
            this.dials.push_back(now);
            while this.dials.front().is_some_and(|at| now.saturating_since(*at) > Duration::from_secs(10)) {
                this.dials.pop_front();
            }
            assert!(this.dials.len() <= MAX_DIALS, "{} dials in ten seconds", this.dials.len());
            let number = this.life.number(&dial.key);
            let connection = Connection {
                dialler: site,
                attempt: dial.attempt,
                key: dial.key,
                number,
                stage: Stage::Connecting,
                serials: [None, None],
            };
            self.connections.insert(self.next_connection, connection);
            self.next_connection += 1;
        }
    }

    fn pick(&self, draw: u16, stage: impl Fn(Stage) -> bool) -> Option<u64> {
        let ids: Vec<u64> =
            self.connections.iter().filter(|(_, c)| stage(c.stage)).map(|(id, _)| *id).collect();
        (!ids.is_empty()).then(|| ids[usize::from(draw) % ids.len()])
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Pass(ms) => self.pass(Duration::from_millis(ms.into())),
            Op::Advance(draw) => {
                if let Some(id) = self.pick(draw, |stage| stage != Stage::Lane) {
                    self.advance(id);
                }
            }
            Op::Fail(draw) => {
                let under_way = |stage| matches!(stage, Stage::Connecting | Stage::Greeting);
                if let Some(connection) =
                    self.pick(draw, under_way).and_then(|id| self.connections.remove(&id))
                {
                    self.fail(&connection);
                }
            }
            Op::Break(draw) => {
                if let Some(id) = self.pick(draw, |stage| stage == Stage::Lane) {
                    for site in 0..2 {
                        if let Some(serial) = self.connections.get(&id).and_then(|c| c.serials[site]) {
                            self.unnoticed.push_back((site, serial, id));
                        }
                    }
                    self.notice(self.unnoticed.len().saturating_sub(1));
                }
            }
            Op::Notice(draw) => {
                if !self.unnoticed.is_empty() {
                    self.notice(usize::from(draw) % self.unnoticed.len());
                }
            }
            Op::Path(path) => self.path = path,
            Op::Reload(site, lanes) => self.reload(usize::from(site), lanes),
            Op::Restart(site) => self.restart(usize::from(site)),
            Op::NetworkChanged(site) => {
                self.sites[usize::from(site)].life.handle_network_changed(self.now);
            }
        }
        self.check();
    }

    /// The rules that hold after each step.
    fn check(&self) {
        for (index, site) in self.sites.iter().enumerate() {
            let lanes: Vec<(&LaneKey, &Lane)> = site.life.lanes_of(key_of(1 - index)).collect();
            let count = usize::from(site.lanes) * usize::from(SHARDS);
            assert_eq!(lanes.len(), count, "as many lanes as are wanted");
            let mut up = BTreeMap::new();
            for (key, lane) in lanes {
                if let State::Up(state) = lane.state {
                    assert!(up.insert(state.serial, key.clone()).is_none(), "a serial is one lane's");
                    assert_eq!(site.life.key_of(state.serial), Some(key), "the index has it");
                }
            }
            assert_eq!(up, site.up, "the lanes that are up were installed and have not ended");
            assert_eq!(site.life.up().count(), up.len(), "the index has nothing else");
        }
    }

    /// Opens the path, gives both sites the same configuration, runs all events, and checks that all lanes are up.
    fn settle(&mut self) {
        self.path = true;
        let lanes = self.sites[0].lanes.max(1);
        for site in 0..2 {
            self.reload(site, lanes);
        }
        for _ in 0..400 {
            self.pass(Duration::from_millis(50));
            while !self.unnoticed.is_empty() {
                self.notice(0);
            }
            for _ in 0..4 {
                let ids: Vec<u64> = self.connections.keys().copied().collect();
                for id in ids {
                    self.advance(id);
                }
            }
            self.check();
        }
        for (index, site) in self.sites.iter().enumerate() {
            let up = site.life.up().count();
            assert_eq!(up, usize::from(lanes) * usize::from(SHARDS), "site {index} has every lane");
        }
        for (id, connection) in self.connections.iter().filter(|(_, c)| c.stage == Stage::Lane) {
            assert!(connection.serials.iter().all(Option::is_some), "both ends have connection {id}");
        }
    }
}

fn draw(rng: &mut Rng) -> Op {
    let entropy = rng.next_u64();
    let (draw, site) = ((entropy >> 16) as u16, (entropy >> 32 & 1) as u8);
    match entropy % 100 {
        0..30 => Op::Pass((entropy >> 40) as u16 % 400),
        30..70 => Op::Advance(draw),
        70..76 => Op::Fail(draw),
        76..82 => Op::Break(draw),
        82..88 => Op::Notice(draw),
        88..91 => Op::Path(draw % 3 != 0),
        91..94 => Op::Reload(site, draw as u8 % 3 + 1),
        94 => Op::Restart(site),
        95..97 => Op::NetworkChanged(site),
        _ => Op::Pass((entropy >> 40) as u16 % 12_000),
    }
}

/// Whether the schedule keeps all rules; otherwise the first rule that it breaks.
fn holds(both_dial: bool, ops: &[Op]) -> Result<(), String> {
    let run = || {
        let mut world = World::new(both_dial);
        for op in ops {
            world.apply(*op);
        }
        world.settle();
    };
    std::panic::catch_unwind(run).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// Removes parts of the schedule while it still breaks a rule: halves first, then smaller parts.
fn shrink(both_dial: bool, mut ops: Vec<Op>) -> Vec<Op> {
    let mut part = ops.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < ops.len() {
            let mut shorter = ops.clone();
            shorter.drain(at..(at + part).min(ops.len()));
            if holds(both_dial, &shorter).is_err() {
                ops = shorter;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    ops
}

fn schedules(both_dial: bool, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut rng = Rng::new(seed, "schedule");
        let ops: Vec<Op> = (0..600).map(|_| draw(&mut rng)).collect();
        if let Err(broken) = holds(both_dial, &ops) {
            let short = shrink(both_dial, ops);
            panic!("seed {seed}, both dial: {both_dial}: {broken}\nshortest schedule found: {short:#?}");
        }
    }
}

#[test]
fn every_rule_holds_under_random_schedules_where_one_site_dials() {
    schedules(false, 0..400);
}

#[test]
fn every_rule_holds_under_random_schedules_where_both_sites_dial() {
    schedules(true, 0..400);
}
