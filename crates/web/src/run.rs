//! A run that its owner looks at and changes between steps.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use trunkline_engine::scenario::{Load, NodeKind, Scenario};
use trunkline_engine::{EngineError, OnItsWay, Session};
use trunkline_lab::document::Document;
use trunkline_lab::results::Point;
use trunkline_units::Rate;

static NEVER: AtomicBool = AtomicBool::new(false);

/// A run.
pub struct Run {
    session: Session,
    described: Described,
}

/// What there is to see of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Described {
    /// One line.
    pub title: String,
    /// Maximum time, s.
    pub duration: f64,
    /// The points of the sweep, in order.
    pub points: Vec<Point>,
    /// Which of them this is.
    pub point: usize,
    /// Names and kinds.
    pub nodes: Vec<Node>,
    /// Links.
    pub links: Vec<Link>,
    /// Sources of traffic.
    pub traffic: Vec<Traffic>,
    /// Trunks that are enabled.
    pub trunks: Vec<Trunk>,
    /// Names of series that show it at a glance.
    pub overview: Vec<String>,
}

/// A node.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    /// Name.
    pub name: String,
    /// `host`, `router`, `gateway`, `proxy`.
    pub kind: NodeKind,
}

/// A link, with the rate, bit/s, and the delay, s, of its way there.
#[derive(Debug, Clone, Serialize)]
pub struct Link {
    /// Name.
    pub name: String,
    /// Places of its nodes.
    pub ends: [usize; 2],
    /// bit/s.
    pub rate: f64,
    /// s.
    pub delay: f64,
}

/// A source of traffic.
#[derive(Debug, Clone, Serialize)]
pub struct Traffic {
    /// Name.
    pub name: String,
    /// Group.
    pub group: String,
    /// Places of its nodes.
    pub ends: [usize; 2],
    /// Users that have a sender of TCP each; 0: datagrams.
    pub users: u32,
}

/// A trunk.
#[derive(Debug, Clone, Serialize)]
pub struct Trunk {
    /// Name.
    pub name: String,
    /// Places of its gateways.
    pub gateways: [usize; 2],
    /// Names of its classes.
    pub classes: Vec<String>,
    /// Their weights.
    pub weights: Vec<u32>,
    /// How many lanes it has.
    pub lanes: usize,
}

impl Run {
    /// Begins a run of a point of an experiment, by its place among the points.
    ///
    /// # Errors
    /// What is wrong with the experiment, as a text.
    pub fn new(text: &str, point: usize, seed: u32) -> Result<Self, String> {
        let document = Document::parse("experiment.toml", text).map_err(|mistakes| mistakes.to_string())?;
        // Without what is claimed of its results: nobody asks here.
        let planned = document.points().map_err(|mistakes| mistakes.to_string())?;
        let points: Vec<Point> = planned.iter().map(|planned| planned.point.clone()).collect();
        let count = points.len();
        let Some(planned) = planned.into_iter().nth(point) else {
            return Err(format!("point is {point}; allowed: 0 to {}", count.saturating_sub(1)));
        };
        let scenario = planned.scenario;
        let described = Described {
            title: document.experiment().title.clone(),
            duration: scenario.duration.as_secs_f64(),
            points,
            point,
            ..Described::of(&scenario)
        };
        let session = Session::new(scenario, seed.into()).map_err(|error| error.to_string())?;
        Ok(Run { session, described })
    }

    /// What there is.
    pub const fn described(&self) -> &Described {
        &self.described
    }

    /// Now, s.
    pub fn now(&self) -> f64 {
        self.session.now().as_secs_f64()
    }

    /// Adds values to those that [`Run::read`] gives, by their names (docs/metrics.md).
    ///
    /// # Errors
    /// One is not there.
    pub fn watch(&mut self, name: &str) -> Result<(), String> {
        self.session.watch(name).map_err(|error| error.to_string())
    }

    /// Runs on to a time, s; one that is over is now.
    ///
    /// # Errors
    /// The time is none.
    pub fn run_until(&mut self, seconds: f64) -> Result<(), String> {
        let Ok(until) = Duration::try_from_secs_f64(seconds) else {
            return Err(format!("time is {seconds}; allowed: seconds from 0"));
        };
        self.session.run_until(until, &NEVER).map_err(|error| error.to_string())
    }

    /// The values that are watched, in that order; NaN is none.
    pub fn read(&mut self) -> Vec<f64> {
        self.session.read().into_iter().map(|value| value.unwrap_or(f64::NAN)).collect()
    }

    /// The packets on one way of a link: of each the part of the delay that is behind it, and the places of the nodes that it is from and to.
    ///
    /// # Errors
    /// There is no such link.
    pub fn packets(&self, link: &str) -> Result<Vec<f64>, String> {
        let packets = self.session.packets(link).map_err(|error| error.to_string())?;
        let three = |packet: &OnItsWay| [packet.progress, packet.ends[0] as f64, packet.ends[1] as f64];
        Ok(packets.iter().flat_map(three).collect())
    }

    /// Changes the rate, bit/s, of one way of a link.
    ///
    /// # Errors
    /// There is no such link, or the rate is none. So it is with the others.
    pub fn set_rate(&mut self, link: &str, rate: f64) -> Result<(), String> {
        if !(0.0..=1e13).contains(&rate) {
            return Err(format!("rate is {rate}; allowed: 0 to 1e13 bit/s"));
        }
        told(self.session.set_rate(link, Rate::from_bits_per_second(rate as u64)))
    }

    /// Changes the delay, s, of one way of a link.
    ///
    /// # Errors
    /// As [`Run::set_rate`].
    pub fn set_delay(&mut self, link: &str, delay: f64) -> Result<(), String> {
        let time = Duration::try_from_secs_f64(delay).ok().filter(|time| *time <= Duration::from_secs(60));
        let time = time.ok_or_else(|| format!("delay is {delay}; allowed: 0 to 60 s"))?;
        told(self.session.set_delay(link, time))
    }

    /// Has one way of a link lose this share of its packets.
    ///
    /// # Errors
    /// As [`Run::set_rate`].
    pub fn set_loss(&mut self, link: &str, loss: f64) -> Result<(), String> {
        if !(0.0..=1.0).contains(&loss) {
            return Err(format!("loss is {loss}; allowed: 0 to 1"));
        }
        told(self.session.set_loss(link, loss))
    }

    /// Changes the weight of a class of one way of a trunk.
    ///
    /// # Errors
    /// There is no such trunk or class, or no class has such a weight.
    pub fn set_weight(&mut self, trunk: &str, class: &str, weight: u32) -> Result<(), String> {
        told(self.session.set_weight(trunk, class, weight))
    }

    /// A fingerprint of all that has happened: that of `lab run`, if nothing was changed and it has run for the duration.
    pub fn digest(&self) -> String {
        self.session.digest()
    }

    /// Runs to the end and gives the metrics of `lab run`, of a run that has not begun.
    ///
    /// # Errors
    /// It has begun.
    pub fn measure(&mut self) -> Result<String, String> {
        let outcome = self.session.measure(&NEVER).map_err(|error| error.to_string())?;
        serde_json::to_string(&outcome.metrics).map_err(|error| error.to_string())
    }
}

fn told(result: Result<(), EngineError>) -> Result<(), String> {
    result.map_err(|error| error.to_string())
}

impl Described {
    fn of(scenario: &Scenario) -> Self {
        let nodes = scenario.nodes.iter().map(|node| Node { name: node.name.clone(), kind: node.kind });
        let links = scenario.links.iter().map(|link| Link {
            name: link.name.clone(),
            ends: link.ends,
            rate: link.ways[0].rate.bits_per_second() as f64,
            delay: link.ways[0].delay.as_secs_f64(),
        });
        let traffic = scenario.traffic.iter().map(|traffic| Traffic {
            name: traffic.name.clone(),
            group: traffic.group.clone(),
            ends: traffic.ends,
            users: match &traffic.load {
                Load::Tcp { pattern, .. } => pattern.users(),
                Load::Udp { .. } => 0,
            },
        });
        let trunks = scenario.trunks.iter().map(|trunk| Trunk {
            name: trunk.name.clone(),
            gateways: trunk.gateways,
            classes: trunk.plan.classes.iter().map(|class| class.name.to_string()).collect(),
            weights: trunk.plan.classes.iter().map(|class| class.share.weight).collect(),
            lanes: trunk.plan.lane_count(),
        });
        Described {
            title: String::new(),
            duration: 0.0,
            points: Vec::new(),
            point: 0,
            nodes: nodes.collect(),
            links: links.collect(),
            traffic: traffic.collect(),
            trunks: trunks.collect(),
            overview: scenario.overview(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"
        id = "line"
        title = "One flow over a line"
        duration = "5 s"
        [nodes]
        a = "host"
        b = "host"
        [links.wan]
        ends = ["a", "b"]
        rate = "10 Mbit/s"
        delay = "10 ms"
        [traffic.bulk]
        kind = "bulk"
        from = "a"
        to = "b"
        [sweep.loss]
        paths = ["links.wan.loss"]
        values = ["0 %", "1 %"]
    "#;

    fn line(point: usize) -> Run {
        Run::new(LINE, point, 1).expect("an experiment")
    }

    fn line_after(seconds: f64) -> Run {
        let mut run = line(0);
        run.run_until(seconds).expect("a time");
        run
    }

    #[test]
    fn steps_of_any_length_are_one_run() {
        let (mut steps, mut whole) = (line(1), line(1));
        steps.watch("bulk.goodput").expect("a series");
        let mut arrived = 0.0;
        for step in 1..=50 {
            steps.run_until(f64::from(step) / 10.0).expect("a time");
            arrived += steps.read()[0] / 10.0;
        }
        whole.run_until(5.0).expect("a time");
        assert_eq!(steps.digest(), whole.digest());
        assert!(arrived > 10e6 && arrived < 50e6, "{arrived} bits");
        assert!(line(0).measure().expect("a run that has not begun").contains("\"bulk.goodput\":9"));
        assert!(whole.measure().is_err());
    }

    #[test]
    fn what_there_is_is_described() {
        let run = line(1);
        let told = serde_json::to_string(run.described()).expect("JSON");
        for part in [
            r#""title":"One flow over a line","duration":5.0,"points":[{"loss":"0 %"},{"loss":"1 %"}],"point":1"#,
            r#""nodes":[{"name":"a","kind":"host"},{"name":"b","kind":"host"}]"#,
            r#""links":[{"name":"wan","ends":[0,1],"rate":10000000.0,"delay":0.01}]"#,
            r#""traffic":[{"name":"bulk","group":"bulk","ends":[0,1],"users":1}],"trunks":[]"#,
            r#""overview":["wan.queue.packets","wan.drops","wan.back.queue.packets","wan.back.drops","bulk.goodput"]"#,
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn what_is_wrong_is_a_text_that_says_what_is_allowed() {
        let wrong = |result: Result<(), String>| result.expect_err("wrong");
        let mut run = line(0);
        for (said, part) in [
            (wrong(Run::new("id = 7", 0, 1).map(drop)), "experiment.toml:1:"),
            (wrong(Run::new(LINE, 2, 1).map(drop)), "point is 2; allowed: 0 to 1"),
            (wrong(run.watch("lan.queue.packets")), "links: wan"),
            (wrong(run.set_rate("lan", 1e6)), "is no link; allowed: wan"),
            (wrong(run.set_rate("wan", f64::NAN)), "rate is NaN; allowed"),
            (wrong(run.set_delay("wan", -1.0)), "delay is -1; allowed: 0 to 60 s"),
            (wrong(run.set_loss("wan", 2.0)), "loss is 2; allowed: 0 to 1"),
            (wrong(run.run_until(f64::NAN)), "time is NaN; allowed"),
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let packets = line_after(2.0).packets("wan").expect("a link");
        assert!(
            packets.len() >= 3 * 5 && packets.chunks(3).all(|one| one[0] <= 1.0 && one[1..] == [0.0, 1.0])
        );
        run.watch("bulk.goodput").expect("a series");
        run.set_rate("wan", 2e6).expect("a rate");
        run.run_until(4.0).expect("a time");
        assert!(run.read()[0] < 2e6);
    }
}
