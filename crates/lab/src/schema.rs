//! The JSON Schema of the format, for editors: docs/experiment.schema.json.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::Value;

use crate::experiment::Experiment;

/// What a file may say, as JSON Schema (draft 2020-12).
pub fn schema() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Experiment>();
    RecursiveTransform(without_null).transform(&mut schema);
    schema
}

/// The same as a text, with a newline at its end.
pub fn text() -> String {
    serde_json::to_string_pretty(&schema()).map(|text| text + "\n").unwrap_or_default()
}

/// TOML has no null: a key that need not be there is left out.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|one| one.get("type").is_none_or(|of| of != "null"));
        if let [Value::Object(one)] = &choices[..] {
            let one = one.clone();
            schema.remove("anyOf");
            for (key, value) in one {
                schema.insert(key, value);
            }
        }
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}
