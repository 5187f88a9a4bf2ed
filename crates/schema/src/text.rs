//! Values that are one text in a file, each with what it may be.

use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Value;

/// Reading, writing and schema of a type around one value, which a function reads from a text and which is displayed as that text.
macro_rules! text {
    ($type:ty, $schema:literal, $parse:path, $allowed:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::text::read_text(from, $allowed, $parse)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(&self.0)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": $allowed })
            }
        }
    };
}
pub(crate) use text;

/// Reads a text that `parse` takes. What it says of another text, or of what is no text, comes before what is `allowed`.
///
/// # Errors
/// With both.
pub fn read_text<'de, D: Deserializer<'de>, T>(
    from: D,
    allowed: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    let read = match value.as_str() {
        Some(text) => parse(text),
        None => Err(wrong_type(&value)),
    };
    read.map_err(|problem| de::Error::custom(format!("{problem}; allowed: {allowed}")))
}

/// What is wrong with a value that is of another type.
pub fn wrong_type(value: &Value) -> String {
    match value {
        Value::Table(_) => "is a table".to_owned(),
        Value::Array(_) => "is a list".to_owned(),
        other => format!("is {other}"),
    }
}

/// A number of things, in words.
pub fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// The names that sites, and what else a file names, may have.
pub const SITE_NAME: &str = "1 to 64 of A-Z a-z 0-9 . _ -, not starting with a dot";

/// Whether one may have this name.
pub fn is_site_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'))
}
