//! A congestion control in Python (`trunkline.CongestionControl`).

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use trunkline_tcp::{CongestionSignal, CustomAlgorithm, CustomCongestion, CustomWindow};
use trunkline_units::{Instant, Rate};

use super::Failure;

/// The window of a sender. Sizes are in bytes.
#[pyclass(module = "trunkline")]
pub(crate) struct Window(CustomWindow);

#[pymethods]
impl Window {
    /// Congestion window, from a segment to 2^30.
    #[getter]
    fn cwnd(&self) -> u32 {
        self.0.cwnd
    }

    #[setter]
    fn set_cwnd(&mut self, bytes: f64) -> PyResult<()> {
        self.0.cwnd = size("cwnd", bytes)?;
        Ok(())
    }

    /// Slow-start threshold; infinite before the first loss.
    #[getter]
    fn ssthresh(&self) -> f64 {
        if self.0.ssthresh == u32::MAX { f64::INFINITY } else { self.0.ssthresh.into() }
    }

    #[setter]
    fn set_ssthresh(&mut self, bytes: f64) -> PyResult<()> {
        self.0.ssthresh = if bytes == f64::INFINITY { u32::MAX } else { size("ssthresh", bytes)? };
        Ok(())
    }

    /// Data in a segment.
    #[getter]
    fn mss(&self) -> u32 {
        self.0.mss
    }

    fn __repr__(&self) -> String {
        format!("<trunkline.Window cwnd {} B, ssthresh {} B>", self.0.cwnd, self.ssthresh())
    }
}

/// An acknowledgement of new data.
#[pyclass(frozen, get_all, module = "trunkline")]
pub(crate) struct Ack {
    /// When it came, in seconds from the start of the run.
    now: f64,
    /// Bytes that it acknowledges for the first time.
    acked: u32,
    /// The round-trip time that it gives, in seconds, or None.
    rtt: Option<f64>,
    /// The smoothed round-trip time, in seconds.
    srtt: f64,
    /// The smallest round-trip time so far, in seconds.
    min_rtt: f64,
    /// Bytes in flight before it came.
    in_flight: u32,
    /// Whether it is the first of a round trip.
    round_ended: bool,
    /// Whether the window kept the sender from sending more.
    window_limited: bool,
    /// The rate of delivery, in bit/s, or None.
    delivery_rate: Option<f64>,
    /// Whether a lack of data bounded that rate.
    app_limited: bool,
}

impl From<&trunkline_tcp::Ack> for Ack {
    fn from(ack: &trunkline_tcp::Ack) -> Self {
        Ack {
            now: seconds(ack.now),
            acked: ack.acked,
            rtt: ack.rtt.map(|rtt| rtt.as_secs_f64()),
            srtt: ack.srtt.as_secs_f64(),
            min_rtt: ack.min_rtt.as_secs_f64(),
            in_flight: ack.in_flight,
            round_ended: ack.round_ended,
            window_limited: ack.window_limited,
            delivery_rate: ack.delivered.map(|(rate, _)| rate.bits_per_second() as f64),
            app_limited: ack.delivered.is_some_and(|(_, limited)| limited),
        }
    }
}

/// Has senders ask what `make` gives for each of them: an object with the methods of `trunkline.CongestionControl`.
pub(crate) fn congestion(
    py: Python<'_>,
    make: Py<PyAny>,
    failure: Arc<Failure>,
) -> PyResult<CustomCongestion> {
    if !make.bind(py).is_callable() {
        return Err(PyTypeError::new_err(
            "a congestion control is what can be called with the bytes of a segment, such as a class",
        ));
    }
    let base = base(py)?.unbind();
    Ok(CustomCongestion::new(move |mss| {
        let methods = failure.call(|py| Methods::of(make.bind(py).call1((mss,))?, base.bind(py)));
        Box::new(InPython { methods, failure: Arc::clone(&failure) })
    }))
}

fn base(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("trunkline")?.getattr("CongestionControl")
}

/// The methods of one sender's object that are not the base class's, which do nothing.
#[derive(Debug)]
struct Methods {
    object: Py<PyAny>,
    observe: Option<Py<PyAny>>,
    grow: Py<PyAny>,
    reduce: Py<PyAny>,
    unused: Option<Py<PyAny>>,
    undo: Option<Py<PyAny>>,
    idle: Option<Py<PyAny>>,
    pacing_rate: Option<Py<PyAny>>,
}

impl Methods {
    fn of(object: Bound<'_, PyAny>, base: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !object.is_instance(base)? {
            let kind = object.get_type();
            return Err(PyTypeError::new_err(format!(
                "a congestion control gave {} for a sender; allowed: a trunkline.CongestionControl",
                kind.name()?
            )));
        }
        let own = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let is_own = !object.get_type().getattr(name)?.is(&base.getattr(name)?);
            is_own.then(|| object.getattr(name).map(Bound::unbind)).transpose()
        };
        Ok(Methods {
            observe: own("observe")?,
            grow: object.getattr("grow")?.unbind(),
            reduce: object.getattr("reduce")?.unbind(),
            unused: own("unused")?,
            undo: own("undo")?,
            idle: own("idle")?,
            pacing_rate: own("pacing_rate")?,
            object: object.unbind(),
        })
    }
}

#[derive(Debug)]
struct InPython {
    /// `None` if there is no object.
    methods: Option<Methods>,
    failure: Arc<Failure>,
}

impl InPython {
    /// Calls a method, if there is one, with what `call` gives it.
    fn call<R>(
        &self,
        method: impl FnOnce(&Methods) -> Option<&Py<PyAny>>,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<R>,
    ) -> Option<R> {
        let method = method(self.methods.as_ref()?)?;
        self.failure.call(|py| call(py, method.bind(py)))
    }

    /// Has a method change the window.
    fn change(
        &self,
        method: impl FnOnce(&Methods) -> Option<&Py<PyAny>>,
        window: &mut CustomWindow,
        call: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, Window>) -> PyResult<()>,
    ) {
        let changed = self.call(method, |py, method| {
            let lent = Bound::new(py, Window(*window))?;
            call(method, &lent)?;
            Ok(lent.borrow().0)
        });
        *window = changed.unwrap_or(*window);
    }
}

impl CustomAlgorithm for InPython {
    fn observe(&mut self, window: &mut CustomWindow, ack: &trunkline_tcp::Ack) {
        self.change(
            |methods| methods.observe.as_ref(),
            window,
            |method, window| method.call1((window, Ack::from(ack))).map(drop),
        );
    }

    fn on_congestion_avoidance(&mut self, window: &mut CustomWindow, ack: &trunkline_tcp::Ack, acked: u32) {
        self.change(
            |methods| Some(&methods.grow),
            window,
            |method, window| method.call1((window, Ack::from(ack), acked)).map(drop),
        );
    }

    fn on_app_limited(&mut self, now: Instant) {
        self.call(|methods| methods.unused.as_ref(), |_, method| method.call1((seconds(now),)).map(drop));
    }

    fn reduce(&mut self, window: &CustomWindow, in_flight: u32, signal: CongestionSignal) -> u32 {
        let signal = match signal {
            CongestionSignal::Loss => "loss",
            CongestionSignal::EcnMark => "ecn",
            CongestionSignal::Timeout => "timeout",
        };
        let left = self.call(
            |methods| Some(&methods.reduce),
            |py, method| {
                let left = method.call1((Window(*window), in_flight, PyString::intern(py, signal)))?;
                size("reduce()", number("reduce()", &left)?)
            },
        );
        left.unwrap_or(in_flight / 2)
    }

    fn undo(&mut self) {
        self.call(|methods| methods.undo.as_ref(), |_, method| method.call0().map(drop));
    }

    fn on_idle(&mut self, now: Instant, idle: Duration) {
        self.call(
            |methods| methods.idle.as_ref(),
            |_, method| method.call1((seconds(now), idle.as_secs_f64())).map(drop),
        );
    }

    fn pacing_rate(&self, srtt: Option<Duration>) -> Option<Rate> {
        let rate = self.call(
            |methods| methods.pacing_rate.as_ref(),
            |_, method| {
                let rate = method.call1((srtt.map(|srtt| srtt.as_secs_f64()),))?;
                if rate.is_none() {
                    return Ok(None);
                }
                let rate = number("pacing_rate()", &rate)?;
                if !(1.0..=1e13).contains(&rate) {
                    return Err(PyValueError::new_err(format!(
                        "pacing_rate() is {rate}; allowed: 1 to 1e13 bit/s, or None"
                    )));
                }
                Ok(Some(Rate::from_bits_per_second(rate as u64)))
            },
        );
        rate.flatten()
    }

    fn copied(&self) -> Box<dyn CustomAlgorithm> {
        let methods = self.methods.as_ref().and_then(|methods| {
            self.failure.call(|py| {
                let copy = py.import("copy")?.call_method1("deepcopy", (&methods.object,))?;
                Methods::of(copy, &base(py)?)
            })
        });
        Box::new(InPython { methods, failure: Arc::clone(&self.failure) })
    }
}

fn number(what: &str, given: &Bound<'_, PyAny>) -> PyResult<f64> {
    given.extract().map_err(|_| {
        let kind = given.get_type().name().map_or_else(|_| "something".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("{what} is of type {kind}; allowed: int, float"))
    })
}

/// Bytes of a window.
fn size(what: &str, bytes: f64) -> PyResult<u32> {
    if (0.0..=f64::from(1 << 30)).contains(&bytes) {
        return Ok(bytes as u32);
    }
    Err(PyValueError::new_err(format!("{what} is {bytes}; allowed: 0 to 2^30 bytes")))
}

pub(super) fn seconds(at: Instant) -> f64 {
    at.saturating_since(Instant::ZERO).as_secs_f64()
}
