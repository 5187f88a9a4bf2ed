//! All that is wrong with the form of a document, by the schema of the format: unknown and missing keys, values of the wrong type.
//!
//! Reading stops at the first mistake. What is read is what the types say; this only finds the words for what they refuse, and
//! knows of JSON Schema no more than the schema of the format uses.

use serde_json::Value as Json;
use toml::{Table, Value};

use super::findings::{Finding, brief};
use super::format::Format;
use super::key::KeyPath;
use super::leaf::{Leaf, QUANTITIES};
use crate::json::{MOVED, RENAMED, with_hints};
use crate::words::WORDS;

/// How far a misspelt key may be from the one that is meant.
const MAX_DISTANCE: usize = 2;

/// What the schema says of a tree.
#[derive(Debug, Default)]
pub(crate) struct Form {
    /// What is wrong.
    pub(crate) found: Vec<Finding>,
    /// Keys whose values are not to be shown.
    pub(crate) secrets: Vec<KeyPath>,
    /// Keys that no table has.
    pub(crate) unknown: Vec<KeyPath>,
    /// What a reader leaves out of the tree for each of `found`: the wrong value, or the first above it that need not be there.
    pub(crate) left_out: Vec<KeyPath>,
}

impl Form {
    /// Of a tree that is to be a `T`.
    pub(crate) fn of<T: Format>(tree: &Table) -> Form {
        let schema = Json::from(with_hints::<T>());
        let definitions = schema.get("$defs").unwrap_or(&Json::Null);
        let mut walk = Walk {
            definitions,
            leaves: T::LEAVES,
            together: T::TOGETHER,
            form: Form::default(),
            optional: KeyPath::default(),
        };
        walk.table(&KeyPath::default(), tree, &schema);
        walk.form
    }
}

struct Walk<'s> {
    definitions: &'s Json,
    leaves: &'static [Leaf],
    together: &'static [&'static str],
    form: Form,
    /// What can be left out of the tree if this value is wrong.
    optional: KeyPath,
}

impl<'s> Walk<'s> {
    fn report(&mut self, at: &KeyPath, problem: impl Into<String>, allowed: impl Into<String>) {
        let allowed = Some(allowed.into()).filter(|allowed: &String| !allowed.is_empty());
        self.form.found.push(Finding { path: at.clone(), problem: problem.into(), allowed });
        self.form.left_out.push(self.optional.clone());
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
        if is_secret(schema) {
            return self.secret(at, value, schema);
        }
        let (schema, name) = self.resolve(schema);
        if is_secret(schema) {
            return self.secret(at, value, schema);
        }
        if let Some(leaf) = name.and_then(|name| self.leaf(name)) {
            if let Some(problem) = leaf.problem(value) {
                self.report(at, problem, description(schema));
            }
            return;
        }
        if let Some(choices) = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Json::as_array) {
            return self.choose(at, value, schema, choices);
        }
        let words = schema.get("const").map_or_else(|| words(schema), |word| Some(vec![word.as_str()?]));
        if words.is_some_and(|words| !value.as_str().is_some_and(|text| words.contains(&text))) {
            return self.report(at, format!("is {}", brief(value)), self.wanted(schema));
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
                let (min, max) = bounds(schema);
                if *number < min || *number > max {
                    self.report(at, format!("is {number}"), self.wanted(schema));
                }
            }
            _ => self.report(at, format!("is {}", brief(value)), self.wanted(schema)),
        }
    }

    /// A value that no message may show.
    fn secret(&mut self, at: &KeyPath, value: &Value, schema: &'s Json) {
        self.form.secrets.push(at.clone());
        let (resolved, name) = self.resolve(schema);
        let is_text = resolved.get("type").is_none_or(|of| of == "string");
        let fits = match name.and_then(|name| self.leaf(name)) {
            Some(leaf) => leaf.fits(value),
            None => !is_text || value.is_str(),
        };
        if !fits {
            self.report(at, "is not right", self.wanted(schema));
        }
    }

    fn leaf(&self, name: &str) -> Option<Leaf> {
        self.leaves.iter().chain(&QUANTITIES).chain(WORDS).find(|leaf| leaf.name == name).copied()
    }

    /// One of several forms.
    fn choose(&mut self, at: &KeyPath, value: &Value, schema: &'s Json, choices: &'s [Json]) {
        for choice in choices {
            let mut walk = Walk { form: Form::default(), optional: self.optional.clone(), ..*self };
            walk.value(at, value, choice);
            if walk.form.found.is_empty() {
                self.form.secrets.extend(walk.form.secrets);
                return;
            }
        }
        let leaves: Vec<Leaf> = choices
            .iter()
            .filter_map(|choice| self.resolve(choice).1.and_then(|name| self.leaf(name)))
            .collect();
        let list = choices.iter().map(|choice| self.resolve(choice).0).find(|form| is_of(form, "array"));
        if let [leaf] = leaves[..]
            && list.is_some()
            && !matches!(value, Value::Array(_) | Value::Table(_))
        {
            let problem = leaf.problem(value).unwrap_or_default();
            return self.report(at, problem, self.wanted(schema));
        }
        match (value, list) {
            (Value::Array(list), Some(form)) => return self.list(at, list, form),
            (Value::Table(_), Some(form)) if self.has_names(form) => {
                let allowed = format!("[[{at}]] with a name in each, or {}", self.wanted(schema));
                return self.report(at, "is a table", allowed);
            }
            _ => {}
        }
        let Value::Table(table) = value else {
            let number = |choice: &Json| is_of(choice, "number");
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

    /// Whether each of a list has a name.
    fn has_names(&self, list: &'s Json) -> bool {
        let items = list.get("items").map(|items| self.resolve(items).0);
        items.is_some_and(|items| required(items).any(|key| key == "name"))
    }

    /// The forms of a table that a schema has.
    fn tables(&self, schema: &'s Json) -> Vec<&'s Json> {
        let (schema, _) = self.resolve(schema);
        match schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Json::as_array) {
            Some(choices) => choices.iter().flat_map(|choice| self.tables(choice)).collect(),
            None if is_of(schema, "object") => vec![schema],
            None => Vec::new(),
        }
    }

    fn table(&mut self, at: &KeyPath, table: &Table, schema: &'s Json) {
        let known = schema.get("properties").and_then(Json::as_object);
        let renamed = |key: &str| schema.get(RENAMED)?.get(key)?.as_str();
        for (key, value) in table {
            let at = at.key(key);
            let others = || schema.get("additionalProperties").filter(|schema| **schema != Json::Bool(false));
            if let Some(of_key) = known.and_then(|known| known.get(key)).or_else(others) {
                let is_required = required(schema).any(|required| required == key);
                let outer = self.optional.clone();
                // What stands beside a value in a table within an element often has its meaning from it.
                if !is_required && !outer.is_in_element() {
                    self.optional = at.clone();
                }
                self.value(&at, value, of_key);
                self.optional = outer;
                continue;
            }
            self.form.unknown.push(at.clone());
            let outer = std::mem::replace(&mut self.optional, at.clone());
            if let Some(now) = renamed(key) {
                self.report(&at, format!("unknown key; it is called {now} now"), "");
            } else if let Some(instead) = schema.get(MOVED).and_then(|moved| moved.get(key)?.as_str()) {
                self.report(&at, format!("unknown key; {instead}"), "");
            } else {
                let keys: Vec<&str> =
                    known.map(|known| known.keys().map(String::as_str).collect()).unwrap_or_default();
                let near = keys.iter().map(|known| (strsim::damerau_levenshtein(key, known), known));
                let near = near
                    .min()
                    .filter(|(distance, _)| *distance <= MAX_DISTANCE && *distance < key.chars().count());
                let instead = schema.get(MOVED).and_then(|moved| moved.get("*")?.as_str());
                let instead = instead.filter(|_| value.is_integer()).map(|instead| format!("; {instead}"));
                let meant = match near {
                    Some((_, known)) => format!(", did you mean {known}?"),
                    None => instead.unwrap_or_default(),
                };
                self.report(&at, format!("unknown key{meant}"), keys.join(", "));
            }
            self.optional = outer;
        }
        let was_renamed = |now: &str| table.keys().any(|old| renamed(old) == Some(now));
        for key in required(schema).filter(|key| !table.contains_key(*key) && !was_renamed(key)) {
            let wanted = known.and_then(|known| known.get(key)).map(|schema| self.wanted(schema));
            self.report(&at.key(key), "is missing", wanted.unwrap_or_default());
        }
    }

    fn list(&mut self, at: &KeyPath, list: &[Value], schema: &'s Json) {
        let bound = |key: &str| schema.get(key).and_then(Json::as_u64);
        let count = list.len() as u64;
        if bound("minItems").is_some_and(|min| count < min)
            || bound("maxItems").is_some_and(|max| count > max)
        {
            self.report(at, format!("is a list of {count}"), self.wanted(schema));
        }
        if let Some(schema) = schema.get("items") {
            let stay = bound("minItems").is_some()
                || self.optional.is_in_element()
                || self.together.iter().any(|top| at.keys().eq([*top]));
            for (number, value) in list.iter().enumerate() {
                let at = at.index(number);
                let outer = self.optional.clone();
                if !stay {
                    self.optional = at.clone();
                }
                self.value(&at, value, schema);
                self.optional = outer;
            }
        }
    }

    /// What a value of this schema is, in words.
    fn wanted(&self, schema: &'s Json) -> String {
        let (schema, name) = self.resolve(schema);
        if name.is_some_and(|name| self.leaf(name).is_some()) {
            return description(schema);
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
                (min, i64::MAX) => format!("a whole number, {min} or more"),
                (min, max) => format!("a whole number, {min} to {max}"),
            },
            Some("number") => "a number".to_owned(),
            Some("boolean") => "true or false".to_owned(),
            Some("string") => "a text in quotes".to_owned(),
            _ => String::new(),
        }
    }
}

/// Whether a value of this schema may be written and never be shown.
fn is_secret(schema: &Json) -> bool {
    schema.get("writeOnly").is_some_and(|of| *of == Json::Bool(true))
}

fn description(schema: &Json) -> String {
    schema.get("description").and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn is_of(schema: &Json, kind: &str) -> bool {
    schema.get("type").is_some_and(|of| of == kind)
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

/// Smallest and largest whole number.
fn bounds(schema: &Json) -> (i64, i64) {
    let bound = |key: &str| schema.get(key).and_then(Json::as_i64);
    let max = match schema.get("format").and_then(Json::as_str) {
        Some("uint16") => i64::from(u16::MAX),
        Some("uint8") => i64::from(u8::MAX),
        Some("uint32") => i64::from(u32::MAX),
        _ => i64::MAX,
    };
    (bound("minimum").unwrap_or(i64::MIN), bound("maximum").unwrap_or(max))
}
