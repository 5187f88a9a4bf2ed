//! Python's values as those of a file, and back.

use std::ops::RangeInclusive;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::{Table, Value};
use trunkline_lab::store::Begin;

/// How deep tables may lie in each other: a table that holds itself is deeper.
const MAX_DEPTH: usize = 64;

/// A value of a file. `path` is for messages.
pub(crate) fn value(path: &str, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    nested(path, given, 0)
}

fn nested(path: &str, given: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > MAX_DEPTH {
        return Err(PyValueError::new_err(format!(
            "{path}: tables in tables; allowed: {MAX_DEPTH} deep at most"
        )));
    }
    // Before numbers, which it is one of in Python.
    if let Ok(truth) = given.cast::<PyBool>() {
        return Ok(Value::Boolean(truth.is_true()));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(Value::String(given.extract()?));
    }
    if given.is_instance_of::<PyInt>() {
        let number = given.extract().map_err(|_| {
            PyValueError::new_err(format!("{path}: {given} is no number of a file; allowed: 64 bits"))
        })?;
        return Ok(Value::Integer(number));
    }
    if given.is_instance_of::<PyFloat>() {
        let number: f64 = given.extract()?;
        if number.is_finite() {
            return Ok(Value::Float(number));
        }
        return Err(PyValueError::new_err(format!("{path}: {number} is no number; allowed: finite ones")));
    }
    if let Ok(dict) = given.cast::<PyDict>() {
        return table(path, dict, depth).map(Value::Table);
    }
    let is_list = given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>();
    if is_list {
        let items = given
            .try_iter()?
            .enumerate()
            .map(|(place, item)| nested(&format!("{path}[{place}]"), &item?, depth + 1));
        return items.collect::<PyResult<_>>().map(Value::Array);
    }
    // Numbers of numpy and the like.
    if let Ok(index) = given.call_method0("__index__") {
        return nested(path, &index, depth + 1);
    }
    if let Ok(float) = given.call_method0("__float__") {
        return nested(path, &float, depth + 1);
    }
    let kind = given.get_type();
    Err(PyTypeError::new_err(format!(
        "{path}: {} is nothing that a file can have; allowed: str, int, float, bool, list, dict",
        kind.name()?
    )))
}

fn table(path: &str, dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, item) in dict {
        let key: String = key
            .extract()
            .map_err(|_| PyTypeError::new_err(format!("{path}: the key {key} is no text; allowed: str")))?;
        let whole = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        table.insert(key, nested(&whole, &item, depth + 1)?);
    }
    Ok(table)
}

/// A dict as a file.
pub(crate) fn file(dict: &Bound<'_, PyDict>) -> PyResult<String> {
    let table = table("", dict, 0)?;
    toml::to_string(&table)
        .map_err(|error| PyValueError::new_err(format!("cannot be written as TOML: {error}")))
}

/// A whole number within a range.
pub(crate) fn number(what: &str, given: &Bound<'_, PyAny>, allowed: RangeInclusive<u64>) -> PyResult<u64> {
    let found = given.extract::<u64>().ok().filter(|number| allowed.contains(number));
    found.ok_or_else(|| {
        let (least, most) = (allowed.start(), allowed.end());
        PyValueError::new_err(format!("{what} is {given}; allowed: whole numbers from {least} to {most}"))
    })
}

/// What is done with results that are there already.
pub(crate) fn begin(word: &str) -> PyResult<Begin> {
    match word {
        "fresh" => Ok(Begin::Fresh),
        "resume" => Ok(Begin::Resume),
        "force" => Ok(Begin::Force),
        other => Err(PyValueError::new_err(format!("begin is {other:?}; allowed: fresh, resume, force"))),
    }
}
