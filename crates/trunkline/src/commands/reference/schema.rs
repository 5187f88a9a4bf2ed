//! The JSON Schema of a site's file, for editors.

use serde_json::Value;
use trunkline_gateway::config;

/// As text.
pub(in crate::commands) fn text() -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(&schema())? + "\n")
}

fn schema() -> Value {
    config::json_schema()
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
