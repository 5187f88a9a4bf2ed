//! A run in steps.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use trunkline_engine::Session;
use trunkline_lab::results::Point;
use trunkline_units::{Rate, Time};

use crate::error::{failed, mistaken};
use crate::experiment::Experiment;
use crate::value;

/// What a file allows of a duration and of a rate (docs/experiments.md), bit/s.
const MAX_TIME: Duration = Duration::from_secs(10_000_000);
const MAX_RATE: f64 = 1e13;
/// A step longer than this, in simulated time, looks after signals in between.
const STRIDE: Duration = Duration::from_secs(1);

/// A run that goes on is ended by Python alone.
static NEVER: AtomicBool = AtomicBool::new(false);

/// One run, in steps: look at it and change it in between. Times are seconds from the start of the run.
#[pyclass(module = "trunkline")]
pub(crate) struct Simulation {
    /// Of a value that is not shared nobody waits for the lock.
    session: Mutex<Session>,
    duration: f64,
}

impl Simulation {
    fn session(&mut self) -> &mut Session {
        self.session.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Simulation {
    /// Begins a run of a point of the sweep (the first, if none is said) with a seed (the experiment's, if none is said). `watch` has
    /// names of series, as in docs/metrics.md; `read` gives their values.
    #[new]
    #[pyo3(signature = (experiment, seed = None, *, point = None, watch = Vec::new()))]
    fn new(
        py: Python<'_>,
        experiment: &Experiment,
        seed: Option<Bound<'_, PyAny>>,
        point: Option<Point>,
        watch: Vec<String>,
    ) -> PyResult<Simulation> {
        let planned = experiment.0.plan().map_err(|mistakes| mistaken(py, &mistakes))?;
        let wanted = |candidate: &Point| {
            point
                .as_ref()
                .is_none_or(|point| point.iter().all(|(axis, value)| candidate.get(axis) == Some(value)))
        };
        let Some(planned) = planned.into_iter().find(|planned| wanted(&planned.point)) else {
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
        let mut session = Session::new(planned.scenario, seed).map_err(|error| failed(&error))?;
        watch.iter().try_for_each(|name| session.watch(name)).map_err(|error| failed(&error))?;
        Ok(Simulation { session: Mutex::new(session), duration })
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
        let session = self.session();
        if end.saturating_sub(session.now()) <= STRIDE {
            // To let go of the lock and take it again would cost more than a short step does.
            return session.run_until(end, &NEVER).map_err(|error| failed(&error));
        }
        while session.now() < end {
            let next = (session.now() + STRIDE).min(end);
            py.detach(|| session.run_until(next, &NEVER)).map_err(|error| failed(&error))?;
            py.check_signals()?;
        }
        Ok(())
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
