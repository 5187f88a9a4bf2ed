//! The JSON Schema of a site's file, for editors.

use serde_json::{Map, Value, json};

use super::{CONFIGURATION, Key, keys};

/// As text.
pub(in crate::commands) fn text() -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(&schema())? + "\n")
}

fn schema() -> Value {
    let mut site = object(&keys(CONFIGURATION, "## The site"));
    let mut add = |name: &str, what: Value| {
        if let Some(Value::Object(properties)) = site.get_mut("properties") {
            properties.insert(name.to_owned(), what);
        }
    };
    add("tun", object(&keys(CONFIGURATION, "## `[tun]`")).into());
    add("lanes", object(&keys(CONFIGURATION, "## `[lanes]`")).into());
    add("peers", json!({ "type": "array", "items": object(&keys(CONFIGURATION, "## `[[peers]]`")) }));
    add("classes", classes());
    let small = keys(CONFIGURATION, "## `[control]` and `[metrics]`");
    for table in ["control", "metrics"] {
        let of_table = small.iter().filter_map(|key| {
            let (owner, name) = key.name.split_once('.')?;
            (owner == table).then_some(Key { name, ..*key })
        });
        add(table, object(&of_table.collect::<Vec<_>>()).into());
    }
    site.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    site.insert("title".to_owned(), "Trunkline: a site".into());
    site.into()
}

/// A word, or a list of classes.
fn classes() -> Value {
    let mut class = object(&keys(CONFIGURATION, "## `[[classes]]`"));
    let rule = object(&keys(CONFIGURATION, "### `match`"));
    let parts = [
        ("match", json!({ "type": "array", "minItems": 1, "items": rule })),
        ("queue", object(&keys(CONFIGURATION, "### `queue`")).into()),
        ("flows", object(&keys(CONFIGURATION, "### `flows`")).into()),
    ];
    if let Some(Value::Object(properties)) = class.get_mut("properties") {
        for (name, part) in parts {
            properties.insert(name.to_owned(), part);
        }
    }
    json!({ "anyOf": [
        { "type": "string", "enum": presets() },
        { "type": "array", "minItems": 1, "items": class },
    ] })
}

/// The words that stand for classes: the rows of their table that begin with one.
fn presets() -> Vec<&'static str> {
    let rows = CONFIGURATION.lines().skip_while(|line| !line.starts_with("| word | classes")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.strip_prefix("| `\"")?.split_once("\"`").map(|(word, _)| word)).collect()
}

/// A table with these keys and no others.
fn object(keys: &[Key<'_>]) -> Map<String, Value> {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), value(key))).collect();
    let required: Vec<&str> =
        keys.iter().filter(|key| key.default.starts_with("required")).map(|key| key.name).collect();
    let mut object = Map::new();
    object.insert("type".to_owned(), "object".into());
    object.insert("properties".to_owned(), properties.into());
    object.insert("additionalProperties".to_owned(), false.into());
    if !required.is_empty() {
        object.insert("required".to_owned(), json!(required));
    }
    object
}

/// What a key may be, as far as a schema says it.
fn value(key: &Key<'_>) -> Value {
    let allowed = plain(key.allowed);
    let allowed = if allowed == "–" { String::new() } else { allowed };
    let about = match key.default {
        "" | "–" => allowed,
        default if default.starts_with("required") => allowed,
        default => format!("{allowed} (default: {})", plain(default)).trim().to_owned(),
    };
    let mut schema = match words(key) {
        Some(words) => json!({ "type": "string", "enum": words }),
        None => match key.kind.strip_prefix("list of ") {
            Some("rules") => json!({ "type": "array" }),
            Some(_) => json!({ "type": "array", "items": { "type": "string" } }),
            None => one(key),
        },
    };
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), about.into());
    }
    schema
}

/// A single value, or where that may be too a list of such.
fn one(key: &Key<'_>) -> Value {
    let (kinds, listed) = match key.kind.split_once(" or a list of") {
        Some((kinds, _)) => (kinds, true),
        None => (key.kind, false),
    };
    let kinds: Vec<&str> = kinds.split([',', ' ']).filter(|word| !word.is_empty() && *word != "or").collect();
    let mut schema = Map::new();
    let kind = match kinds[..] {
        [kind] => json!(if kind == "table" { "object" } else { kind }),
        _ => json!(kinds),
    };
    schema.insert("type".to_owned(), kind);
    if kinds.contains(&"integer")
        && let Some((least, most)) = range(key.allowed)
    {
        schema.insert("minimum".to_owned(), least.into());
        schema.insert("maximum".to_owned(), most.into());
    }
    let one = Value::Object(schema);
    if listed { json!({ "anyOf": [one, { "type": "array", "minItems": 1, "items": one }] }) } else { one }
}

/// The words a text is one of: quoted, and nothing else up to a remark, which allows no more than they do.
fn words<'p>(key: &Key<'p>) -> Option<Vec<&'p str>> {
    if key.kind != "string" || key.allowed.contains("; or ") {
        return None;
    }
    let end = key.allowed.find([';', ':']).unwrap_or(key.allowed.len());
    let word = |text: &'p str| {
        let word = text.trim().strip_prefix("`\"")?.strip_suffix("\"`")?;
        word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-').then_some(word)
    };
    key.allowed[..end].split(',').map(word).collect()
}

/// `68 to 65535`, where that is what it begins with and numbers alone may be.
fn range(allowed: &str) -> Option<(u64, u64)> {
    let mut words = allowed.split([' ', ',', ';', ':']);
    let least = words.next()?.parse().ok()?;
    let most = (words.next()? == "to").then(|| words.next())??.parse().ok()?;
    Some((least, most))
}

/// Markdown without its marks.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    // `[words](address)` is its words.
    while let Some((before, after)) = rest.split_once('[') {
        let link = after.split_once("](").and_then(|(words, to)| Some((words, to.split_once(')')?.1)));
        plain.push_str(before);
        let link = link.filter(|(words, _)| !words.contains('[') && !words.contains('`'));
        let (words, after) = link.unwrap_or(("[", after));
        plain.push_str(words);
        rest = after;
    }
    plain.push_str(rest);
    plain.replace(['`', '*'], "")
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
