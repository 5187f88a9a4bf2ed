//! Queues: a discipline by its word, limits, and the discipline's own parameters, from the tables of `trunkline-queue`.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value as Json};
use trunkline_queue::{Description, Limits, Parameter, Range, Settings, Value};

use crate::At;
use crate::json::{MOVED, RENAMED};
use crate::quantity::{Amount, Share, Size, Time};

/// An edge queue takes the largest super-packet that a kernel hands over.
const EDGE_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 30;
const EDGE_PACKETS: RangeInclusive<u32> = 1..=1_000_000;

/// A queue's discipline, by its word.
#[derive(Debug, Clone, Copy)]
pub struct Discipline(&'static Description);

impl Discipline {
    /// What can be said of it.
    pub const fn description(self) -> &'static Description {
        self.0
    }

    /// All words in quotes.
    fn words() -> String {
        let words = Settings::DISCIPLINES.iter().map(|of| format!("{:?}", of.word));
        words.collect::<Vec<_>>().join(", ")
    }
}

impl PartialEq for Discipline {
    fn eq(&self, other: &Self) -> bool {
        self.0.word == other.0.word
    }
}

impl FromStr for Discipline {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Settings::DISCIPLINES.iter().find(|of| of.word == text);
        found.map(|of| Discipline(of)).ok_or_else(|| format!("unknown value {text:?}"))
    }
}

impl<'de> Deserialize<'de> for Discipline {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse()
            .map_err(|problem| de::Error::custom(format!("{problem}; allowed: {}", Discipline::words())))
    }
}

impl Serialize for Discipline {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.word)
    }
}

impl JsonSchema for Discipline {
    fn schema_name() -> Cow<'static, str> {
        "Discipline".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let choices = Settings::DISCIPLINES.iter().map(
            |of| json_schema!({ "const": of.word, "description": capital(of.meaning), "type": "string" }),
        );
        json_schema!({ "description": "A queue's discipline.", "oneOf": choices.collect::<Vec<_>>() })
    }
}

/// A queue. A parameter of any discipline is a key, so that one of another discipline is told from a misspelt one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueSpec {
    /// Its discipline.
    pub discipline: Option<Discipline>,
    /// How many packets may wait.
    pub packets: Option<u32>,
    /// How many bytes may wait.
    pub bytes: Option<Size>,
    /// The discipline's own, in the order of the file.
    parameters: Vec<(&'static str, Value)>,
}

/// Where a queue is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueuePlace {
    /// At the edge of a trunk, where it is this one if a file says nothing.
    Edge(Settings),
    /// In front of a link of an experiment: tail drop of 1000 packets if a file says nothing, and nothing is marked.
    Link,
}

impl QueueSpec {
    /// A queue of a discipline, or none if there is no such discipline.
    pub fn of(word: &str) -> Option<Self> {
        Some(QueueSpec { discipline: Some(word.parse().ok()?), ..QueueSpec::default() })
    }

    /// The table that these settings of an edge queue are.
    pub fn written(settings: &Settings) -> Self {
        let description = settings.description();
        let (limits, default) = (settings.limits(), description.default_settings());
        let packets = (limits.segments != default.limits().segments).then_some(limits.segments);
        let bytes = (limits.bytes != default.limits().bytes).then_some(Size(limits.bytes));
        let different = description.parameters.iter().filter(|one| one.get(settings) != one.get(&default));
        let parameters = different.filter_map(|one| Some((one.key, one.get(settings)?))).collect();
        QueueSpec { discipline: Some(Discipline(description)), packets, bytes, parameters }
    }

    /// A parameter of the discipline, if it is given.
    pub fn parameter(&self, key: &str) -> Option<Value> {
        self.parameters.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// The settings that it asks for, or `None` after mistakes were reported at its table.
    pub fn resolve(&self, at: &At<'_>, place: QueuePlace) -> Option<Settings> {
        let default = match place {
            QueuePlace::Edge(default) => default,
            QueuePlace::Link => link_default(self.discipline),
        };
        let mut is_right = self.check_limits(at, place) && self.check_units(at);
        if place == QueuePlace::Link && self.discipline.is_none() {
            at.key("discipline").report("is missing", Discipline::words());
            is_right = false;
        }
        let other = self.discipline.filter(|of| of.0.word != default.description().word);
        let default = other.map_or(default, |of| of.0.default_settings());
        let mut settings = default.with_limits(self.limits(place, default.limits()));
        for (key, value) in &self.parameters {
            is_right &= set(&at.key(key), &mut settings, (key, *value));
        }
        if let Some(conflict) = settings.conflict().filter(|_| is_right) {
            at.report(conflict.problem, conflict.allowed);
            is_right = false;
        }
        is_right.then_some(settings)
    }

    /// Reads the value of a key.
    pub(crate) fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "discipline" => self.discipline = Some(map.next_value()?),
            "packets" => self.packets = Some(map.next_value()?),
            "bytes" => self.bytes = Some(map.next_value()?),
            key => {
                let Some(parameter) = parameters().into_iter().find(|one| one.key == key) else {
                    return Err(de::Error::custom(format!("unknown key {key}")));
                };
                self.parameters.push((parameter.key, value(parameter.range, map)?));
            }
        }
        Ok(())
    }

    fn limits(&self, place: QueuePlace, default: Limits) -> Limits {
        let bytes = self.bytes.map(|size| size.0);
        if place == QueuePlace::Link && (self.packets.is_some() || bytes.is_some()) {
            return Limits { segments: self.packets.unwrap_or(u32::MAX), bytes: bytes.unwrap_or(u64::MAX) };
        }
        Limits { segments: self.packets.unwrap_or(default.segments), bytes: bytes.unwrap_or(default.bytes) }
    }

    /// Whether what may wait is in range. A link's queue may be as small as one packet.
    fn check_limits(&self, at: &At<'_>, place: QueuePlace) -> bool {
        let (packets, bytes) = match place {
            QueuePlace::Edge(_) => (EDGE_PACKETS, EDGE_BYTES),
            QueuePlace::Link => (1..=u32::MAX, 1..=u64::MAX),
        };
        let packets_fit = self.packets.is_none_or(|count| packets.contains(&count));
        if !packets_fit {
            at.key("packets").refuse(format!("{} to {}", packets.start(), packets.end()));
        }
        let bytes_fit = self.bytes.is_none_or(|size| bytes.contains(&size.0));
        if !bytes_fit {
            let edge = "64 KiB to 1 GiB";
            at.key("bytes").refuse(if place == QueuePlace::Link { "1 B or more" } else { edge });
        }
        packets_fit && bytes_fit
    }

    /// Whether thresholds are all in packets or all in bytes. Their defaults are in bytes.
    fn check_units(&self, at: &At<'_>) -> bool {
        let min_max = ["min", "max"].map(|key| self.parameter(key));
        let is_amount = self.discipline.is_some_and(|of| {
            of.0.parameter("min").is_some_and(|one| matches!(one.range, Range::Amount(..)))
        });
        match min_max {
            [Some(Value::Count(_)), Some(Value::Bytes(_))]
            | [Some(Value::Bytes(_)), Some(Value::Count(_))]
                if is_amount =>
            {
                at.key("min").report("is in another unit than max", "both in packets, or both in bytes");
                false
            }
            [Some(Value::Count(_)), None] | [None, Some(Value::Count(_))] if is_amount => {
                let absent = if min_max[0].is_none() { "min" } else { "max" };
                at.key(absent).report("is missing", "min and max where one of them is in packets");
                false
            }
            _ => true,
        }
    }
}

/// Sets a parameter, or reports why not.
fn set(at: &At<'_>, settings: &mut Settings, (key, value): (&str, Value)) -> bool {
    let description = settings.description();
    let Some(parameter) = description.parameter(key) else {
        let owners: Vec<_> = owners(key).map(|of| format!("{:?}", of.word)).collect();
        let problem = format!("{:?} has no such parameter", description.word);
        at.misplaced(problem, format!("with discipline {}", owners.join(", ")));
        return true;
    };
    let is_set = parameter.set(settings, value);
    if !is_set {
        at.refuse(parameter.range.to_string());
    }
    is_set
}

/// A link's queue: without an explicit word it marks nothing, and has no limit of bytes.
fn link_default(discipline: Option<Discipline>) -> Settings {
    let mut settings = discipline.map_or_else(Settings::default, |of| of.0.default_settings());
    if let Some(ecn) = settings.description().parameter("ecn") {
        ecn.set(&mut settings, Value::Switch(false));
    }
    settings.with_limits(Limits { bytes: u64::MAX, ..Limits::default() })
}

/// The disciplines that have a parameter.
fn owners(key: &str) -> impl Iterator<Item = &'static Description> {
    Settings::DISCIPLINES.iter().copied().filter(move |of| of.parameter(key).is_some())
}

/// All parameters, those of several disciplines once: as the first that takes most has it.
fn parameters() -> Vec<&'static Parameter> {
    let mut all: Vec<&'static Parameter> = Vec::new();
    for parameter in Settings::DISCIPLINES.iter().flat_map(|of| of.parameters) {
        match all.iter_mut().find(|known| known.key == parameter.key) {
            None => all.push(parameter),
            Some(known) if matches!(parameter.range, Range::Amount(..)) => *known = parameter,
            Some(_) => {}
        }
    }
    all
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = QueueSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<QueueSpec, A::Error> {
        let mut spec = QueueSpec::default();
        while let Some(key) = map.next_key::<String>()? {
            spec.read(&key, &mut map)?;
        }
        Ok(spec)
    }
}

fn value<'de, A: MapAccess<'de>>(range: Range, map: &mut A) -> Result<Value, A::Error> {
    Ok(match range {
        Range::Switch => Value::Switch(map.next_value()?),
        Range::Count(..) => Value::Count(map.next_value::<u32>()?.into()),
        Range::Bytes(..) => Value::Bytes(map.next_value::<Size>()?.0),
        Range::Amount(..) => match map.next_value()? {
            Amount::Packets(packets) => Value::Count(packets),
            Amount::Bytes(bytes) => Value::Bytes(bytes),
        },
        Range::Time(..) => Value::Time(map.next_value::<Time>()?.0),
        Range::Probability | Range::Fraction => Value::Number(map.next_value::<Share>()?.0),
        Range::Factor(..) => Value::Number(map.next_value()?),
    })
}

impl<'de> Deserialize<'de> for QueueSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Reader)
    }
}

impl Serialize for QueueSpec {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if let Some(discipline) = &self.discipline {
            map.serialize_entry("discipline", discipline)?;
        }
        if let Some(packets) = &self.packets {
            map.serialize_entry("packets", packets)?;
        }
        if let Some(bytes) = &self.bytes {
            map.serialize_entry("bytes", bytes)?;
        }
        for (key, value) in &self.parameters {
            match *value {
                Value::Switch(on) => map.serialize_entry(key, &on)?,
                Value::Count(count) => map.serialize_entry(key, &count)?,
                Value::Bytes(bytes) => map.serialize_entry(key, &Size(bytes))?,
                Value::Time(time) => map.serialize_entry(key, &Time(time))?,
                Value::Number(number) => map.serialize_entry(key, &number)?,
            }
        }
        map.end()
    }
}

impl JsonSchema for QueueSpec {
    fn schema_name() -> Cow<'static, str> {
        "QueueSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        let mut put = |key: &str, schema: Schema, description: &str| {
            let mut schema = schema;
            schema.insert("description".to_owned(), description.into());
            properties.insert(key.to_owned(), schema.to_value());
        };
        put("discipline", generator.subschema_for::<Discipline>(), "Discipline.");
        put("packets", count(1, u32::MAX), "How many packets may wait, at most; 1000.");
        let bytes = "How many bytes may wait, at most; \"4 MiB\" at the edge of a trunk, no limit on a link.";
        put("bytes", generator.subschema_for::<Size>(), bytes);
        for parameter in parameters() {
            let schema = match parameter.range {
                Range::Switch => generator.subschema_for::<bool>(),
                Range::Count(min, max) => count(min, max),
                Range::Bytes(..) => generator.subschema_for::<Size>(),
                Range::Amount(..) => generator.subschema_for::<Amount>(),
                Range::Time(..) => generator.subschema_for::<Time>(),
                Range::Probability | Range::Fraction => generator.subschema_for::<Share>(),
                Range::Factor(..) => generator.subschema_for::<f64>(),
            };
            put(parameter.key, schema, &meaning(parameter));
        }
        json_schema!({
            "type": "object",
            "description": "A queue. Every parameter is a key whatever the discipline, so that one of another discipline is told from a misspelt one.",
            "properties": Json::Object(properties),
            "additionalProperties": false,
            RENAMED: {
                "kind": "discipline",
                "sized": "auto_size",
                "early": "early_drop",
                "spares": "drop_holdoff",
                "spare": "holdoff",
            },
            MOVED: { "unit": "a bare number is packets now, a size with its unit is bytes: min = 20, or min = \"20 KB\"" },
        })
    }
}

fn count(min: u32, max: u32) -> Schema {
    json_schema!({ "type": "integer", "format": "uint32", "minimum": min, "maximum": max })
}

/// A parameter with the disciplines that have it: `red`, `fred`: what it is; default.
fn meaning(parameter: &Parameter) -> String {
    let owners: Vec<_> = owners(parameter.key).map(|of| format!("`{}`", of.word)).collect();
    format!("{}: {}.", owners.join(", "), parameter.meaning)
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).chain(['.']).collect()
}
