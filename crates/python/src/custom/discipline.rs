//! A queue discipline in Python (`trunkline.QueueDiscipline`).

use std::collections::HashSet;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use trunkline_queue::{CustomDiscipline, Verdicts, Waiting};
use trunkline_units::Instant;

use super::Failure;
use super::congestion::seconds;

/// A packet in a queue, as its discipline knows it.
#[pyclass(frozen, module = "trunkline")]
pub(crate) struct Packet(Waiting);

#[pymethods]
impl Packet {
    /// Its number in this queue: the first that came has 0.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number
    }

    /// When it came, in seconds from the start of the run.
    #[getter]
    fn since(&self) -> f64 {
        seconds(self.0.since)
    }

    /// Its length in bytes, with all headers.
    #[getter]
    fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// A hash of its flow: packets of one flow have the same.
    #[getter]
    fn flow(&self) -> u64 {
        self.0.flow
    }

    /// Whether it can be marked in place of a drop.
    #[getter]
    fn ecn_capable(&self) -> bool {
        self.0.ecn_capable
    }

    fn __repr__(&self) -> String {
        format!("<trunkline.Packet {}: {} B since {} s>", self.0.number, self.0.bytes, self.since())
    }
}

/// The rules of one queue.
#[derive(Debug)]
pub(crate) struct Discipline {
    /// Of the link.
    name: String,
    enqueue: Py<PyAny>,
    dequeue: Py<PyAny>,
    take_verdicts: Py<PyAny>,
    waiting: HashSet<u64>,
    failure: Arc<Failure>,
}

impl Discipline {
    /// The rules that `make` gives: an object with the methods of `trunkline.QueueDiscipline`.
    pub(crate) fn new(
        py: Python<'_>,
        name: &str,
        make: &Bound<'_, PyAny>,
        failure: Arc<Failure>,
    ) -> PyResult<Self> {
        if !make.is_callable() {
            return Err(PyTypeError::new_err(format!(
                "the queue discipline of {name} is what can be called without arguments, such as a class"
            )));
        }
        let object = make.call0()?;
        let base = py.import("trunkline")?.getattr("QueueDiscipline")?;
        if !object.is_instance(&base)? {
            return Err(PyTypeError::new_err(format!(
                "the queue discipline of {name} is of type {}; allowed: a trunkline.QueueDiscipline",
                object.get_type().name()?
            )));
        }
        let method = |name: &str| object.getattr(name).map(Bound::unbind);
        Ok(Discipline {
            name: name.to_owned(),
            enqueue: method("enqueue")?,
            dequeue: method("dequeue")?,
            take_verdicts: method("_take_verdicts")?,
            waiting: HashSet::new(),
            failure,
        })
    }

    /// Takes what the rules said of packets while one of their methods ran.
    fn take(&mut self, py: Python<'_>, verdicts: &mut Verdicts) -> PyResult<()> {
        let said: Vec<(PyRef<'_, Packet>, bool)> = self.take_verdicts.bind(py).call0()?.extract()?;
        for (packet, drop) in said {
            let number = packet.0.number;
            if !drop {
                verdicts.mark.push(number);
            } else if self.waiting.remove(&number) {
                verdicts.drop.push(number);
            } else {
                return Err(self.wrong(&format!("drop() got packet {number}, which does not wait")));
            }
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> PyErr {
        PyValueError::new_err(format!("the queue discipline of {}: {what}", self.name))
    }
}

impl CustomDiscipline for Discipline {
    fn enqueue(&mut self, item: &Waiting, verdicts: &mut Verdicts) {
        self.waiting.insert(item.number);
        let failure = Arc::clone(&self.failure);
        failure.call(|py| {
            let answer = self.enqueue.bind(py).call1((Packet(*item),))?;
            let Ok(waits) = answer.cast::<PyBool>() else {
                return Err(self.wrong(&format!(
                    "enqueue() gave {answer}; allowed: True if the packet waits, False if it is dropped"
                )));
            };
            let waits = waits.is_true();
            self.take(py, verdicts)?;
            if !waits && self.waiting.remove(&item.number) {
                verdicts.drop.push(item.number);
            }
            Ok(())
        });
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts) -> Option<u64> {
        let failure = Arc::clone(&self.failure);
        let number = failure.call(|py| {
            let answer = self.dequeue.bind(py).call1((seconds(now),))?;
            self.take(py, verdicts)?;
            if answer.is_none() {
                if self.waiting.is_empty() {
                    return Ok(None);
                }
                let waiting = self.waiting.len();
                return Err(self.wrong(&format!(
                    "dequeue() gave None while {waiting} packets wait; allowed: one of them"
                )));
            }
            let Ok(packet) = answer.cast::<Packet>() else {
                return Err(self.wrong(&format!("dequeue() gave {answer}; allowed: a packet that waits")));
            };
            let number = packet.get().0.number;
            if !self.waiting.remove(&number) {
                return Err(self.wrong(&format!("dequeue() gave packet {number}, which does not wait")));
            }
            Ok(Some(number))
        });
        number.flatten()
    }

    /// No owner of a link's queue takes packets out of it.
    fn removed(&mut self, number: u64) {
        self.waiting.remove(&number);
    }
}
