//! The queue in front of a link of an experiment: one of ours, or a discipline of this machine's kernel.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use trunkline_queue::Settings;

use crate::At;
use crate::queue::{QueuePlace, QueueSpec};

/// A link's queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkQueue {
    /// One of ours.
    pub own: QueueSpec,
    /// A kernel's discipline in its place, with its options as `tc qdisc` takes them.
    pub kernel: Option<String>,
}

impl LinkQueue {
    /// The settings that it asks for, those of a link without a word about it if the discipline is a kernel's, or `None` after mistakes
    /// were reported at its table.
    pub fn resolve(&self, at: &At<'_>) -> Option<Settings> {
        let Some(kernel) = &self.kernel else { return self.own.resolve(at, QueuePlace::Link) };
        let at = at.key("kernel");
        if self.own != QueueSpec::default() {
            let allowed = "kernel alone, with the options in its text, such as \"fq_codel limit 1000\"";
            at.report("is given beside keys of our own disciplines", allowed);
            return None;
        }
        let kind = kernel.split_whitespace().next().unwrap_or_default();
        let is_name =
            !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || kernel.chars().any(char::is_control) {
            at.refuse("the name of a discipline and its options, as `tc qdisc` takes them");
            return None;
        }
        Some(Settings::default())
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = LinkQueue;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LinkQueue, A::Error> {
        let mut queue = LinkQueue::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "kernel" {
                queue.kernel = Some(map.next_value()?);
            } else {
                queue.own.read(&key, &mut map)?;
            }
        }
        Ok(queue)
    }
}

impl<'de> Deserialize<'de> for LinkQueue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Reader)
    }
}

impl Serialize for LinkQueue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Some(kernel) = &self.kernel else { return self.own.serialize(to) };
        let mut map = to.serialize_map(Some(1))?;
        map.serialize_entry("kernel", kernel)?;
        map.end()
    }
}

impl JsonSchema for LinkQueue {
    fn schema_name() -> Cow<'static, str> {
        "LinkQueue".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = QueueSpec::json_schema(generator);
        let mut kernel = generator.subschema_for::<String>();
        let meaning = "A discipline of this machine's kernel in place of ours, with its options as `tc qdisc` takes them: \"fq_codel limit 1000\". On the testbed only; a shaper with the link's rate is put above it.";
        kernel.insert("description".to_owned(), meaning.into());
        if let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) {
            properties.insert("kernel".to_owned(), kernel.to_value());
        }
        schema
    }
}
