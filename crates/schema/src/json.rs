//! The JSON Schema of a format, for editors and for messages.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// What a file of this format may say, as JSON Schema (draft 2020-12).
pub fn json_schema<T: JsonSchema>() -> Schema {
    let mut schema = with_hints::<T>();
    let only_standard = |schema: &mut Schema| {
        schema.remove(RENAMED);
        schema.remove(MOVED);
    };
    RecursiveTransform(only_standard).transform(&mut schema);
    schema
}

/// The same as a text, with a newline at its end.
pub fn json_schema_text<T: JsonSchema>() -> String {
    serde_json::to_string_pretty(&json_schema::<T>()).map(|text| text + "\n").unwrap_or_default()
}

/// On a table: keys that have another name now, by their old names.
pub(crate) const RENAMED: &str = "x-renamed";
/// On a table: what to write instead of keys that are no longer there; `*` is every whole number under an unknown key.
pub(crate) const MOVED: &str = "x-moved";

/// With what messages need of keys that changed.
pub(crate) fn with_hints<T: JsonSchema>() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    RecursiveTransform(without_null).transform(&mut schema);
    schema
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
