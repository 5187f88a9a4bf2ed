//! Tables that programs for tables take without a copy, by Arrow's capsule interface.

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, Float64Array, RecordBatchIterator, StringArray, UInt64Array};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use trunkline_lab::store::Batches;

/// A table of results. Polars, pandas, `DuckDB` and pyarrow take it as it is: `polars.DataFrame(table)`.
#[pyclass(frozen, module = "trunkline")]
pub(crate) struct Table(pub(crate) Batches);

#[pymethods]
impl Table {
    /// The rows as a stream of Arrow (capsule interface). A requested schema is not looked at, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let groups = self.0.groups.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(groups, self.0.schema.clone());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    /// The columns as a schema of Arrow (capsule interface).
    pub(crate) fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema.as_ref())
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Names of its columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// By column, what its numbers are in: `s`, `B`, `bit/s` or `1`. Columns of texts are not there.
    #[getter]
    fn units<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let units = PyDict::new(py);
        for field in self.0.schema.fields() {
            if let Some(unit) = field.metadata().get("unit") {
                units.set_item(field.name(), unit)?;
            }
        }
        Ok(units)
    }

    fn __len__(&self) -> usize {
        self.0.groups.iter().map(arrow_array::RecordBatch::num_rows).sum()
    }

    /// Its columns as lists, for whoever has no program for tables. A value that is not there is None.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (place, field) in self.0.schema.fields().iter().enumerate() {
            let values = PyList::empty(py);
            for group in &self.0.groups {
                let column = group.column(place).as_any();
                if let Some(texts) = column.downcast_ref::<StringArray>() {
                    texts.iter().try_for_each(|text| values.append(text))?;
                } else if let Some(numbers) = column.downcast_ref::<UInt64Array>() {
                    numbers.iter().try_for_each(|number| values.append(number))?;
                } else if let Some(numbers) = column.downcast_ref::<Float64Array>() {
                    numbers.iter().try_for_each(|number| values.append(number))?;
                }
            }
            columns.set_item(field.name(), values)?;
        }
        Ok(columns)
    }

    fn __repr__(&self) -> String {
        format!("<trunkline.Table: {} rows, {} columns>", self.__len__(), self.0.schema.fields().len())
    }
}
