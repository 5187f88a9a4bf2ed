//! A run of the simulator in steps: its owner looks at it and changes it in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trunkline_link::{LinkChange, Loss};
use trunkline_queue::{CustomDiscipline, Value};
use trunkline_schema::MAX_WEIGHT;
use trunkline_trunk::ClassSettings;
use trunkline_units::{Instant, Rate};

use super::build::{Built, build};
use super::{EVENTS_BETWEEN_LOOKS, Ran, Run, check};
use crate::EngineError;
use crate::measure::{Columns, measure};
use crate::outcome::Outcome;
use crate::scenario::Scenario;

static NEVER: AtomicBool = AtomicBool::new(false);

/// A packet on a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnItsWay {
    /// Which part of the link's delay is behind it, up to 1; below 0 while it is being sent.
    pub progress: f64,
    /// Places of the nodes that it is from and to.
    pub ends: [usize; 2],
    /// Its length.
    pub bytes: u32,
}

/// A run in steps. As long as its owner only looks, what happens is what happens in a run in one go, to the bit.
pub struct Session {
    scenario: Scenario,
    built: Built,
    columns: Columns,
}

impl Session {
    /// Begins a run.
    ///
    /// # Errors
    /// The simulator cannot carry it out.
    pub fn new(scenario: Scenario, seed: u64) -> Result<Self, EngineError> {
        check(&scenario)?;
        let built = build(&scenario, seed)?;
        Ok(Session { scenario, built, columns: Columns::default() })
    }

    /// What is run.
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.built.network.now().saturating_since(Instant::ZERO)
    }

    /// Runs all events up to a time, also beyond the scenario's duration.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] if `stop` was set meanwhile; the run can be gone on with.
    pub fn run_until(&mut self, at: Duration, stop: &AtomicBool) -> Result<(), EngineError> {
        while self.built.network.run_some(&[], Instant::ZERO + at, EVENTS_BETWEEN_LOOKS) == Ran::On {
            if stop.load(Ordering::Relaxed) {
                return Err(EngineError::Stopped);
            }
        }
        Ok(())
    }

    /// Adds a value to those that [`Session::read`] reads, by a name of a series (docs/metrics.md).
    ///
    /// # Errors
    /// The scenario has none of this name.
    pub fn watch(&mut self, name: &str) -> Result<(), EngineError> {
        if self.columns.add(&self.scenario, name) {
            return Ok(());
        }
        let part = |names: Vec<&str>| names.join(", ");
        let links = part(self.scenario.links.iter().map(|link| link.name.as_str()).collect());
        let traffic = part(self.scenario.traffic.iter().map(|traffic| traffic.name.as_str()).collect());
        Err(EngineError::Misfit {
            part: format!("{name:?}"),
            problem: format!(
                "is nothing that can be recorded here; allowed: names of series, such as LINK.queue.packets, GROUP.goodput or \
                 TRAFFIC.0.cwnd (links: {links}; traffic: {traffic})"
            ),
        })
    }

    /// A value of each name that is watched, in that order. Of what is counted, such as a goodput, it is of the time since the last
    /// reading.
    pub fn read(&mut self) -> Vec<Option<f64>> {
        let mut run = Run { built: &mut self.built, stop: &NEVER };
        self.columns.next(&mut run).map(|(_, value)| value).collect()
    }

    /// Runs from the start to the end of the scenario, and measures as a run in one go does.
    ///
    /// # Errors
    /// It has begun already, or `stop` was set meanwhile.
    pub fn measure(&mut self, stop: &AtomicBool) -> Result<Outcome, EngineError> {
        if self.now() > Duration::ZERO {
            return Err(EngineError::Misfit {
                part: "the run".to_owned(),
                problem: format!("is at {:?}; allowed: one that has not begun", self.now()),
            });
        }
        measure(&self.scenario, &mut Run { built: &mut self.built, stop }, &|_| ())
    }

    /// The packets that are on one way of a link, in any order.
    ///
    /// # Errors
    /// There is no such link.
    pub fn packets(&self, link: &str) -> Result<Vec<OnItsWay>, EngineError> {
        let (place, side) = self.link(link)?;
        let link = self.built.network.link_state(self.built.links[place][side]);
        let (now, delay) = (self.built.network.now(), link.delay().as_secs_f64());
        let place = |node| self.built.nodes.iter().position(|known| *known == node);
        let seen = |(at, packet): (Instant, &trunkline_sim::Packet)| {
            let left = at.saturating_since(now).as_secs_f64();
            Some(OnItsWay {
                progress: if delay > 0.0 { 1.0 - left / delay } else { 1.0 },
                ends: [place(packet.source())?, place(packet.destination())?],
                bytes: packet.length(),
            })
        };
        Ok(link.packets().filter_map(seen).collect())
    }

    /// A fingerprint of all that has happened.
    pub fn digest(&self) -> String {
        self.built.network.digest().to_string()
    }

    /// Changes the rate of one way of a link, from the next packet on.
    ///
    /// # Errors
    /// There is no such link. So it is with the others.
    pub fn set_rate(&mut self, link: &str, rate: Rate) -> Result<(), EngineError> {
        self.change(link, |_| LinkChange::Rate(rate))
    }

    /// Changes the delay of one way of a link.
    pub fn set_delay(&mut self, link: &str, delay: Duration) -> Result<(), EngineError> {
        self.change(link, |_| LinkChange::Delay(delay))
    }

    /// Has one way of a link lose packets independently of each other with this probability. Its other impairments are those of the
    /// scenario.
    pub fn set_loss(&mut self, link: &str, loss: f64) -> Result<(), EngineError> {
        self.change(link, |settings| {
            LinkChange::Impairments(trunkline_link::Impairments {
                loss: Loss::Uniform(loss),
                ..settings.impairments
            })
        })
    }

    /// Sets the window of a sender of TCP, bytes, until the next call: its congestion control no longer does. `false` if the user has no
    /// connection now.
    ///
    /// # Errors
    /// There is no such traffic, or it has no such user.
    pub fn hold_window(&mut self, traffic: &str, user: u32, window: u32) -> Result<bool, EngineError> {
        let names = || self.scenario.traffic.iter().map(|traffic| traffic.name.as_str());
        let place =
            names().position(|name| name == traffic).ok_or_else(|| unknown(traffic, "traffic", names()))?;
        let source = self.built.sources[place];
        let users = self.built.network.users(source);
        if user >= users {
            return Err(EngineError::Misfit {
                part: format!("traffic.{traffic}"),
                problem: format!("has no user {user}; allowed: below {users}"),
            });
        }
        Ok(self.built.network.hold_window(source, user, window))
    }

    /// Replaces the discipline of the queue of one way of a link, in which nothing waits yet.
    ///
    /// # Errors
    /// There is no such link.
    ///
    /// # Panics
    /// If something waits.
    pub fn set_custom_queue(
        &mut self,
        link: &str,
        rules: Box<dyn CustomDiscipline>,
    ) -> Result<(), EngineError> {
        let (place, side) = self.link(link)?;
        self.built.network.set_custom_queue(self.built.links[place][side], rules);
        Ok(())
    }

    /// Changes the weight of a class of one way of a trunk, as a gateway's reload does.
    ///
    /// # Errors
    /// There is no such trunk or class, or no class has such a weight.
    pub fn set_weight(&mut self, trunk: &str, class: &str, weight: u32) -> Result<(), EngineError> {
        self.change_class(trunk, class, |settings| {
            settings.share.weight = weight;
            let is_one = (1..=MAX_WEIGHT).contains(&weight);
            is_one
                .then_some(())
                .ok_or_else(|| misfit("weight", format!("is {weight}; allowed: 1 to {MAX_WEIGHT}")))
        })
    }

    /// Changes the delay that the queue of a class of one way of a trunk aims at.
    ///
    /// # Errors
    /// There is no such trunk or class, its discipline has no such delay, or another one.
    pub fn set_target(&mut self, trunk: &str, class: &str, target: Duration) -> Result<(), EngineError> {
        self.change_class(trunk, class, |settings| {
            let description = settings.queue.description();
            let Some(parameter) = description.parameter("target") else {
                let problem =
                    format!("is {}, which has no target; allowed: codel, fq-codel, pie", description.word);
                return Err(misfit(format!("the discipline of class {class:?}"), problem));
            };
            if !parameter.set(&mut settings.queue, Value::Time(target)) {
                return Err(misfit("target", format!("is {target:?}; allowed: {}", parameter.range)));
            }
            settings.queue.conflict().map_or(Ok(()), |conflict| {
                let problem = format!("{}; allowed: {}", conflict.problem, conflict.allowed);
                Err(misfit(format!("class {class:?}:"), problem))
            })
        })
    }

    fn change_class(
        &mut self,
        trunk: &str,
        class: &str,
        change: impl FnOnce(&mut ClassSettings) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let names = || self.scenario.trunks.iter().map(|trunk| trunk.name.as_str());
        let (place, side) = one_way(names(), trunk).ok_or_else(|| unknown(trunk, "trunk", names()))?;
        let id = self.built.trunks[place];
        let mut classes = self.built.network.plan(id, side).classes.clone();
        let Some(found) = classes.iter_mut().find(|known| *known.name == *class) else {
            return Err(unknown(class, "class", classes.iter().map(|class| &*class.name)));
        };
        change(found)?;
        self.built.network.set_classes(id, side, classes);
        Ok(())
    }

    fn change(
        &mut self,
        name: &str,
        change: impl FnOnce(&trunkline_link::LinkSettings) -> LinkChange,
    ) -> Result<(), EngineError> {
        let (place, side) = self.link(name)?;
        let change = change(&self.scenario.links[place].ways[side]);
        self.built.network.change_link(self.built.links[place][side], change);
        Ok(())
    }

    fn link(&self, name: &str) -> Result<(usize, usize), EngineError> {
        let names = || self.scenario.links.iter().map(|link| link.name.as_str());
        one_way(names(), name).ok_or_else(|| unknown(name, "link", names()))
    }
}

/// `NAME` is the way there, `NAME.back` the way back: the place of that name, and the side.
fn one_way<'a>(mut names: impl Iterator<Item = &'a str>, name: &str) -> Option<(usize, usize)> {
    let (of, side) = name.strip_suffix(".back").map_or((name, 0), |of| (of, 1));
    Some((names.position(|name| name == of)?, side))
}

fn unknown<'a>(name: &str, what: &str, all: impl Iterator<Item = &'a str>) -> EngineError {
    let all = all.collect::<Vec<_>>().join(", ");
    misfit(format!("{name:?}"), format!("is no {what}; allowed: {all}"))
}

fn misfit(part: impl Into<String>, problem: String) -> EngineError {
    EngineError::Misfit { part: part.into(), problem }
}
