//! Values that are written as one text and checked as they are read.

use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Value;

/// Reads a text that `parse` takes. What it says of another text, or of what is no text, comes before what is `allowed`.
pub(super) fn text<'de, D: Deserializer<'de>, T>(
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
pub(super) fn wrong_type(value: &Value) -> String {
    match value {
        Value::Table(_) => "is a table".to_owned(),
        Value::Array(_) => "is a list".to_owned(),
        other => format!("is {other}"),
    }
}

/// A type that is a text in a file, read by a function of its own.
macro_rules! leaf {
    ($(#[$doc:meta])* $name:ident($inner:ty) = $schema:literal, $parse:path, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) struct $name(pub(super) $inner);

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::config::leaf::text(from, $allowed, $parse).map($name)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": $allowed })
            }
        }
    };
}
pub(super) use leaf;
