//! Values that are written as one text and checked as they are read.

/// A type that is a text in a file, read by a function of its own.
macro_rules! leaf {
    ($(#[$doc:meta])* $name:ident($inner:ty) = $schema:literal, $parse:path, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) struct $name(pub(super) $inner);

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                trunkline_schema::read_text(from, $allowed, $parse).map($name)
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
