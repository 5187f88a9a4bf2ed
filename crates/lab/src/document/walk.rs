//! All that is wrong with the form of a document, by the schema of the format: unknown and missing keys, values of the wrong type.
//!
//! Reading stops at the first mistake. What is read is what the types say; this only finds the words for what they refuse, and
//! knows of JSON Schema no more than the schema of the format uses.

use serde_json::Value as Json;
use toml::{Table, Value};

use super::findings::{Finding, shown};
use super::key::KeyPath;
use crate::quantity::{Amount, QuantityError, Rate, Share, Size, Time};

/// How far a misspelt key may be from the one that is meant.
const MISSPELT: usize = 2;
/// The longest value that a message repeats, in characters.
const LONGEST: usize = 60;

/// What is wrong with the form of a tree.
pub(super) fn findings(tree: &Table) -> Vec<Finding> {
    let schema = Json::from(crate::schema::schema());
    let mut walk = Walk { definitions: schema.get("$defs").unwrap_or(&Json::Null), found: Vec::new() };
    walk.table(&KeyPath::default(), tree, &schema);
    walk.found
}

struct Walk<'s> {
    definitions: &'s Json,
    found: Vec<Finding>,
}

impl<'s> Walk<'s> {
    fn report(&mut self, at: &KeyPath, problem: impl Into<String>, allowed: impl Into<String>) {
        self.found.push(Finding { path: at.clone(), problem: problem.into(), allowed: Some(allowed.into()) });
    }

    /// What a schema refers to, and its name.
    fn resolve(&self, mut schema: &'s Json) -> (&'s Json, Option<&'s str>) {
        let mut name = None;
        while let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
            name = reference.rsplit('/').next();
            schema = name.and_then(|name| self.definitions.get(name)).unwrap_or(&Json::Null);
        }
        (schema, name)
    }

    fn value(&mut self, at: &KeyPath, value: &Value, schema: &'s Json) {
        let (schema, name) = self.resolve(schema);
        if let Some(read) = name.and_then(quantity) {
            if let Err(QuantityError { kind, meant, allowed, .. }) = read(value) {
                self.report(at, format!("{} is no {kind}{meant}", brief(value)), allowed);
            }
            return;
        }
        if let Some(choices) = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Json::as_array) {
            return self.choose(at, value, schema, choices);
        }
        let kind = schema.get("type").and_then(Json::as_str);
        match (kind, value) {
            (Some("object"), Value::Table(table)) => self.table(at, table, schema),
            (Some("array"), Value::Array(list)) => self.list(at, list, schema),
            (Some("string"), Value::String(_))
            | (Some("boolean"), Value::Boolean(_))
            | (Some("number"), Value::Integer(_) | Value::Float(_))
            | (None, _) => {}
            (Some("integer"), Value::Integer(number)) => {
                let (least, most) = bounds(schema);
                if *number < least || *number > most {
                    self.report(at, format!("is {number}"), self.wanted(schema));
                }
            }
            _ => self.report(at, format!("is {}", brief(value)), self.wanted(schema)),
        }
    }

    /// One of several forms.
    fn choose(&mut self, at: &KeyPath, value: &Value, schema: &'s Json, choices: &'s [Json]) {
        let fitting = |choice: &&'s Json| {
            let (choice, name) = self.resolve(choice);
            name.is_some_and(|name| quantity(name).is_some_and(|read| read(value).is_ok()))
                || choice.get("const").is_some_and(|word| word.as_str() == value.as_str() && value.is_str())
                || words(choice).is_some_and(|words| value.as_str().is_some_and(|text| words.contains(&text)))
        };
        if choices.iter().any(|choice| fitting(&choice)) {
            return;
        }
        let Value::Table(table) = value else {
            let number = |choice: &Json| choice.get("type").is_some_and(|of| of == "number");
            if !(matches!(value, Value::Integer(_) | Value::Float(_)) && choices.iter().any(number)) {
                self.report(at, format!("is {}", brief(value)), self.wanted(schema));
            }
            return;
        };
        let tables: Vec<&'s Json> = choices.iter().flat_map(|choice| self.tables(choice)).collect();
        if let [only] = tables[..] {
            return self.table(at, table, only);
        }
        // Forms are told apart by a word under a key, or by the key itself.
        let tag = tables.iter().find_map(|form| tag(form)).map(|(key, _)| key);
        let of = |form: &&'s Json| match tag {
            Some(key) => {
                tag_word(form, key).is_some_and(|word| table.get(key).and_then(Value::as_str) == Some(word))
            }
            None => required(form).any(|key| table.contains_key(key)),
        };
        if let Some(form) = tables.iter().copied().find(of) {
            return self.table(at, table, form);
        }
        if let Some(key) = tag {
            let words: Vec<_> = tables.iter().filter_map(|form| tag_word(form, key)).collect();
            let problem =
                table.get(key).map_or("is missing".to_owned(), |word| format!("is {}", brief(word)));
            return self.report(&at.key(key), problem, quoted(&words));
        }
        let keys: Vec<_> = tables.iter().flat_map(|form| required(form)).collect();
        let problem = table.keys().next().map_or("is empty".to_owned(), |key| format!("has {key}"));
        let allowed =
            if keys.is_empty() { self.wanted(schema) } else { format!("one of {}", keys.join(", ")) };
        self.report(at, problem, allowed);
    }

    /// The forms of a table that a schema has.
    fn tables(&self, schema: &'s Json) -> Vec<&'s Json> {
        let (schema, _) = self.resolve(schema);
        match schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Json::as_array) {
            Some(choices) => choices.iter().flat_map(|choice| self.tables(choice)).collect(),
            None if schema.get("type").is_some_and(|of| of == "object") => vec![schema],
            None => Vec::new(),
        }
    }

    fn table(&mut self, at: &KeyPath, table: &Table, schema: &'s Json) {
        let known = schema.get("properties").and_then(Json::as_object);
        for (key, value) in table {
            let at = at.key(key);
            if let Some(schema) = known.and_then(|known| known.get(key)) {
                self.value(&at, value, schema);
            } else if let Some(schema) =
                schema.get("additionalProperties").filter(|schema| **schema != Json::Bool(false))
            {
                self.value(&at, value, schema);
            } else {
                let keys: Vec<&str> =
                    known.map(|known| known.keys().map(String::as_str).collect()).unwrap_or_default();
                let near = keys.iter().map(|known| (strsim::damerau_levenshtein(key, known), known));
                let near = near
                    .min()
                    .filter(|(distance, _)| *distance <= MISSPELT && *distance < key.chars().count());
                let meant = near.map_or_else(String::new, |(_, known)| format!(", did you mean {known}?"));
                self.report(&at, format!("unknown key{meant}"), keys.join(", "));
            }
        }
        for key in required(schema).filter(|key| !table.contains_key(*key)) {
            let wanted = known.and_then(|known| known.get(key)).map(|schema| self.wanted(schema));
            self.report(&at.key(key), "is missing", wanted.unwrap_or_default());
        }
    }

    fn list(&mut self, at: &KeyPath, list: &[Value], schema: &'s Json) {
        let bound = |key: &str| schema.get(key).and_then(Json::as_u64);
        let count = list.len() as u64;
        if bound("minItems").is_some_and(|least| count < least)
            || bound("maxItems").is_some_and(|most| count > most)
        {
            self.report(at, format!("is a list of {count}"), self.wanted(schema));
        }
        if let Some(schema) = schema.get("items") {
            for (number, value) in list.iter().enumerate() {
                self.value(&at.index(number), value, schema);
            }
        }
    }

    /// What a value of this schema is, in words.
    fn wanted(&self, schema: &'s Json) -> String {
        let (schema, name) = self.resolve(schema);
        let description = || schema.get("description").and_then(Json::as_str).unwrap_or_default().to_owned();
        if name.is_some_and(|name| quantity(name).is_some()) {
            return description();
        }
        if let Some(words) = words(schema) {
            return quoted(&words);
        }
        if let Some(choices) = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Json::as_array) {
            let words: Vec<&str> =
                choices.iter().filter_map(|choice| choice.get("const")?.as_str()).collect();
            if words.len() == choices.len() {
                return quoted(&words);
            }
            let forms = self.tables(schema);
            let mut all: Vec<String> = choices
                .iter()
                .filter(|choice| self.tables(choice).is_empty())
                .map(|choice| self.wanted(choice))
                .collect();
            all.extend(forms.iter().map(|form| self.wanted(form)));
            all.dedup();
            return all.join(", or ");
        }
        match schema.get("type").and_then(Json::as_str) {
            Some("object") => match schema.get("properties").and_then(Json::as_object) {
                Some(keys) => {
                    format!("a table with {}", keys.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
                }
                None => "a table".to_owned(),
            },
            Some("array") => {
                let of = schema.get("items").map(|items| self.wanted(items)).unwrap_or_default();
                let count = schema.get("minItems").and_then(Json::as_u64);
                let list = count.map_or("a list".to_owned(), |count| format!("a list of {count}"));
                if of.is_empty() { list } else { format!("{list}, each {of}") }
            }
            Some("integer") => match bounds(schema) {
                (least, i64::MAX) => format!("a whole number, {least} or more"),
                (least, most) => format!("a whole number, {least} to {most}"),
            },
            Some("number") => "a number".to_owned(),
            Some("boolean") => "true or false".to_owned(),
            Some("string") => "a text in quotes".to_owned(),
            _ => String::new(),
        }
    }
}

type Read = fn(&Value) -> Result<(), QuantityError>;

/// How a quantity is read, by the name of its schema.
fn quantity(name: &str) -> Option<Read> {
    fn read<T: serde::de::DeserializeOwned>(
        value: &Value,
        kind: &'static str,
        allowed: &'static str,
    ) -> Result<(), QuantityError> {
        let given = brief(value);
        let meant = value.as_str().filter(|_| kind == "rate").and_then(crate::quantity::meant_rate);
        let meant = meant.map(|meant| format!(": write {meant:?}")).unwrap_or_default();
        T::deserialize(value.clone()).map(drop).map_err(|_| QuantityError { given, kind, meant, allowed })
    }
    Some(match name {
        "size" => |value| read::<Size>(value, "size", Size::ALLOWED),
        "time" => |value| read::<Time>(value, "time", Time::ALLOWED),
        "rate" => |value| read::<Rate>(value, "rate", Rate::ALLOWED),
        "share" => |value| read::<Share>(value, "share", Share::ALLOWED),
        "amount" => |value| read::<Amount>(value, "amount", Amount::ALLOWED),
        _ => return None,
    })
}

fn words(schema: &Json) -> Option<Vec<&str>> {
    schema.get("enum")?.as_array().map(|words| words.iter().filter_map(Json::as_str).collect())
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
}

fn required(schema: &Json) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
}

/// The key whose word tells a form from others, and the word.
fn tag(form: &Json) -> Option<(&str, &str)> {
    let keys = form.get("properties")?.as_object()?;
    keys.iter().find_map(|(key, schema)| Some((key.as_str(), schema.get("const")?.as_str()?)))
}

fn tag_word<'s>(form: &'s Json, key: &str) -> Option<&'s str> {
    form.get("properties")?.get(key)?.get("const")?.as_str()
}

/// Least and most of a whole number.
fn bounds(schema: &Json) -> (i64, i64) {
    let bound = |key: &str| schema.get(key).and_then(Json::as_i64);
    let most = match schema.get("format").and_then(Json::as_str) {
        Some("uint32") => i64::from(u32::MAX),
        _ => i64::MAX,
    };
    (bound("minimum").unwrap_or(i64::MIN), bound("maximum").unwrap_or(most))
}

/// A value as it is written, unless it is long.
fn brief(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => {
            let text = shown(other);
            if text.chars().count() <= LONGEST {
                return text;
            }
            text.chars().take(LONGEST).chain("…".chars()).collect()
        }
    }
}
