//! A run in steps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use trunkline_engine::{MAX_WEIGHT, Session};
use trunkline_lab::results::Point;
use trunkline_units::{Rate, Time};

use crate::custom::{self, Discipline, Failure};
use crate::error::{failed, mistaken};
use crate::experiment::Experiment;
use crate::run::on_other_threads;
use crate::value;

/// What a file allows of a duration and of a rate (docs/experiments.md), bit/s.
const MAX_TIME: Duration = Duration::from_secs(10_000_000);
const MAX_RATE: f64 = 1e13;
/// A step longer than this, in simulated time, looks after signals in between.
const STRIDE: Duration = Duration::from_secs(1);

/// One run, in steps: look at it and change it in between. Times are seconds from the start of the run.
#[pyclass(module = "trunkline")]
pub(crate) struct Simulation {
    /// Of a value that is not shared nobody waits for the lock.
    session: Mutex<Session>,
    duration: f64,
    /// What its congestion controls and disciplines in Python have raised.
    failure: Arc<Failure>,
}

/// What Python gives by name, such as a class.
type ByName = BTreeMap<String, Py<PyAny>>;

impl Simulation {
    fn session(&mut self) -> &mut Session {
        self.session.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&mut self, end: Duration) -> PyResult<()> {
        let failure = Arc::clone(&self.failure);
        let ran = self.session().run_until(end, failure.stop());
        failure.check()?;
        ran.map_err(|error| failed(&error))
    }
}

#[pymethods]
impl Simulation {
    /// Begins a run of a point of the sweep (the first, if none is said) with a seed (the experiment's, if none is said). `watch` has
    /// names of series, as in docs/metrics.md; `read` gives their values.
    ///
    /// `congestion_control`: by the name of a source over TCP, a class derived from `CongestionControl`, or what else gives one when it is
    /// called with the bytes of a segment: its senders have that one in place of the experiment's. `queues`: by the name of a link (`wan`
    /// there, `wan.back` back) what gives a `QueueDiscipline` when it is called: its queue has that one.
    #[new]
    #[pyo3(signature = (experiment, seed = None, *, point = None, watch = Vec::new(), congestion_control = None, queues = None))]
    fn new(
        py: Python<'_>,
        experiment: &Experiment,
        seed: Option<Bound<'_, PyAny>>,
        point: Option<Point>,
        watch: Vec<String>,
        congestion_control: Option<ByName>,
        queues: Option<ByName>,
    ) -> PyResult<Simulation> {
        let planned = experiment.0.plan().map_err(|mistakes| mistaken(py, &mistakes))?;
        let wanted = |candidate: &Point| {
            point
                .as_ref()
                .is_none_or(|point| point.iter().all(|(axis, value)| candidate.get(axis) == Some(value)))
        };
        let Some(mut planned) = planned.into_iter().find(|planned| wanted(&planned.point)) else {
            let point = point.unwrap_or_default();
            let point: Vec<String> = point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
            return Err(PyKeyError::new_err(format!(
                "the sweep has no point {}; allowed: those of points()",
                point.join(", ")
            )));
        };
        let duration = planned.scenario.duration.as_secs_f64();
        let seed = match seed {
            Some(seed) => value::number("seed", &seed, 0..=u64::from(u32::MAX))?,
            None => experiment.0.experiment().seed,
        };
        let failure = Arc::new(Failure::default());
        for (traffic, make) in congestion_control.unwrap_or_default() {
            let congestion = custom::congestion(py, make, Arc::clone(&failure))?;
            if !planned.scenario.set_custom_congestion(&traffic, &congestion) {
                let sources = planned.scenario.tcp_sources().collect::<Vec<_>>().join(", ");
                return Err(PyKeyError::new_err(format!(
                    "congestion_control: {traffic:?} is no traffic over TCP; allowed: {sources}"
                )));
            }
        }
        let mut session = Session::new(planned.scenario, seed).map_err(|error| failed(&error))?;
        for (link, make) in queues.unwrap_or_default() {
            let rules = Discipline::new(py, &link, make.bind(py), Arc::clone(&failure))?;
            session.set_custom_queue(&link, Box::new(rules)).map_err(|error| failed(&error))?;
        }
        watch.iter().try_for_each(|name| session.watch(name)).map_err(|error| failed(&error))?;
        Ok(Simulation { session: Mutex::new(session), duration, failure })
    }

    /// Now, in seconds.
    #[getter]
    fn now(&mut self) -> f64 {
        self.session().now().as_secs_f64()
    }

    /// The experiment's duration, in seconds. A run may go on beyond it.
    #[getter]
    fn duration(&self) -> f64 {
        self.duration
    }

    /// A fingerprint of all that has happened: that of `lab run`, if nothing was changed and it has run for the duration.
    #[getter]
    fn digest(&mut self) -> String {
        self.session().digest()
    }

    /// Runs on to a time. What is before now is refused.
    fn run_until(&mut self, py: Python<'_>, time: f64) -> PyResult<()> {
        let end = seconds("time", time)?;
        if end < self.session().now() {
            return Err(PyValueError::new_err(format!(
                "time is {time} s; allowed: {} s and later",
                self.now()
            )));
        }
        if end.saturating_sub(self.session().now()) <= STRIDE {
            // To let go of the lock and take it again would cost more than a short step does.
            return self.run(end);
        }
        while self.session().now() < end {
            let next = (self.session().now() + STRIDE).min(end);
            py.detach(|| self.run(next))?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Runs to the end of the experiment, and gives its metrics (docs/metrics.md) as a run by `lab run` does. Of a run that has not begun.
    fn measure(&mut self, py: Python<'_>) -> PyResult<IndexMap<String, f64>> {
        let failure = Arc::clone(&self.failure);
        let session = self.session();
        let measured = on_other_threads(py, failure.stop(), None, |_| session.measure(failure.stop()))?;
        failure.check()?;
        measured.map(|outcome| outcome.metrics).map_err(|error| failed(&error))
    }

    /// Runs on for so many seconds.
    fn run_for(&mut self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let now = self.now();
        self.run_until(py, now + seconds)
    }

    /// The values that are watched, in that order, in base units (s, B, bit/s, 1). What is counted, such as a goodput or
    /// retransmissions, is of the time since the last reading. A value that is not there is None.
    fn read(&mut self) -> Vec<Option<f64>> {
        self.session().read()
    }

    /// Changes the rate of a link in one direction: `wan` there, `wan.back` back. A number is in bit/s.
    fn set_rate(&mut self, link: &str, rate: &Bound<'_, PyAny>) -> PyResult<()> {
        let rate = match rate.extract::<String>() {
            Ok(text) => text.parse::<Rate>().map_err(|error| PyValueError::new_err(error.to_string()))?,
            Err(_) => Rate::from_bits_per_second(whole("rate", rate.extract()?)?),
        };
        self.session().set_rate(link, rate).map_err(|error| failed(&error))
    }

    /// Changes the delay of a link in one direction. A number is in seconds.
    fn set_delay(&mut self, link: &str, delay: &Bound<'_, PyAny>) -> PyResult<()> {
        let delay = match delay.extract::<String>() {
            Ok(text) => text.parse::<Time>().map_err(|error| PyValueError::new_err(error.to_string()))?.0,
            Err(_) => seconds("delay", delay.extract()?)?,
        };
        self.session().set_delay(link, delay).map_err(|error| failed(&error))
    }

    /// Has a link lose this share of its packets in one direction, from 0 to 1.
    fn set_loss(&mut self, link: &str, loss: f64) -> PyResult<()> {
        if !(0.0..=1.0).contains(&loss) {
            return Err(PyValueError::new_err(format!("loss is {loss}; allowed: 0 to 1")));
        }
        self.session().set_loss(link, loss).map_err(|error| failed(&error))
    }

    /// Changes a class of a trunk in one direction (`office` there, `office.back` back), as a gateway's reload does: its weight, and the
    /// delay that its queue aims at, in seconds, if its discipline has one (`codel`, `fq-codel`, `pie`).
    #[pyo3(signature = (trunk, name, *, weight = None, target = None))]
    fn set_class(
        &mut self,
        trunk: &str,
        name: &str,
        weight: Option<Bound<'_, PyAny>>,
        target: Option<f64>,
    ) -> PyResult<()> {
        let most = u64::from(MAX_WEIGHT);
        let weight = weight.map(|weight| value::number("weight", &weight, 1..=most)).transpose()?;
        let target = target.map(|target| seconds("target", target)).transpose()?;
        let session = self.session();
        if let Some(weight) = weight {
            session.set_weight(trunk, name, weight as u32).map_err(|error| failed(&error))?;
        }
        target
            .map_or(Ok(()), |target| session.set_target(trunk, name, target))
            .map_err(|error| failed(&error))
    }

    /// Sets the congestion window of a sender, in bytes, from now on in place of its congestion control. Whether it has a connection.
    #[pyo3(signature = (traffic, window, user = 0))]
    fn set_window(&mut self, traffic: &str, window: f64, user: u32) -> PyResult<bool> {
        let window = u32::try_from(whole("window", window)?).unwrap_or(u32::MAX);
        self.session().hold_window(traffic, user, window).map_err(|error| failed(&error))
    }

    fn __repr__(&mut self) -> String {
        format!("<trunkline.Simulation at {} s>", self.now())
    }
}

/// A time that an action or a file says.
fn seconds(what: &str, value: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(value).ok().filter(|time| *time <= MAX_TIME);
    let allowed = MAX_TIME.as_secs();
    time.ok_or_else(|| PyValueError::new_err(format!("{what} is {value}; allowed: 0 to {allowed} s")))
}

fn whole(what: &str, value: f64) -> PyResult<u64> {
    if (0.0..=MAX_RATE).contains(&value) {
        return Ok(value.round() as u64);
    }
    Err(PyValueError::new_err(format!("{what} is {value}; allowed: 0 to {MAX_RATE:e}")))
}
