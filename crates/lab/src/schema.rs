//! The JSON Schema of the format, for editors: docs/experiment.schema.json.

use crate::experiment::Experiment;

/// It as a text, with a newline at its end.
pub fn text() -> String {
    trunkline_schema::json_schema_text::<Experiment>()
}
