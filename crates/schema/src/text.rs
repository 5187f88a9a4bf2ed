//! Values that are one text in a file, each with what it may be.

/// Reading, writing and schema of a type around one value, which a function reads from a text and which is displayed as that text.
macro_rules! text {
    ($type:ty, $schema:literal, $parse:path, $allowed:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let value = toml::Value::deserialize(from)?;
                let read = value.as_str().map_or_else(|| Err($crate::text::wrong_type(&value)), $parse);
                read.map_err(|problem| {
                    serde::de::Error::custom(format!("{problem}; allowed: {}", $allowed))
                })
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

/// What is wrong with a value that is of another type.
pub(crate) fn wrong_type(value: &toml::Value) -> String {
    match value {
        toml::Value::Table(_) => "is a table".to_owned(),
        toml::Value::Array(_) => "is a list".to_owned(),
        other => format!("is {other}"),
    }
}
