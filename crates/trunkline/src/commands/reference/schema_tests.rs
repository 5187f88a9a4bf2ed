use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use trunkline_gateway::config::Config;

use super::*;

/// What a part of the schema refers to.
fn resolved<'s>(root: &'s Value, mut part: &'s Value) -> &'s Value {
    while let Some(reference) = part.get("$ref").and_then(Value::as_str) {
        part = root.pointer(reference.trim_start_matches('#')).expect("it refers to a part");
    }
    part
}

/// The part of the schema at a place.
fn part<'s>(root: &'s Value, place: &str) -> &'s Value {
    let mut steps = place.split('/').skip(1);
    let step = |part: &'s Value, step: &str| match resolved(root, part) {
        Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
        other => other.get(step),
    };
    let found = steps.try_fold(root, step);
    resolved(root, found.unwrap_or_else(|| panic!("{place} is there")))
}

fn choices(schema: &Value) -> Option<&Vec<Value>> {
    schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array)
}

/// The words that a value is one of.
fn words(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("enum").and_then(Value::as_array) {
        Some(words) => words.iter().map(Value::as_str).collect(),
        None => choices(schema)?.iter().map(|choice| choice.get("const")?.as_str()).collect(),
    }
}

/// Whether a value is what a schema says, with as much of JSON Schema as ours has.
fn fits(value: &toml::Value, root: &Value, schema: &Value) -> Result<(), String> {
    let schema = resolved(root, schema);
    if let Some(choices) = choices(schema) {
        let tried: Vec<String> = choices.iter().map_while(|choice| fits(value, root, choice).err()).collect();
        return if tried.len() == choices.len() { Err(tried.join(" and ")) } else { Ok(()) };
    }
    let kind = match value {
        toml::Value::Table(_) => "object",
        toml::Value::Array(_) => "array",
        toml::Value::String(_) => "string",
        toml::Value::Integer(_) => "integer",
        toml::Value::Float(_) => "number",
        toml::Value::Boolean(_) => "boolean",
        toml::Value::Datetime(_) => "date",
    };
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    let number = kind == "integer" && kinds.contains(&"number".into());
    if !number && !kinds.contains(&kind.into()) {
        return Err(format!("{value} is no {kinds:?}"));
    }
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let within = schema["properties"].get(name).ok_or_else(|| format!("unknown key {name}"))?;
                fits(value, root, within).map_err(|error| format!("{name}: {error}"))?;
            }
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                if !name.as_str().is_some_and(|name| table.contains_key(name)) {
                    return Err(format!("{name} is missing"));
                }
            }
            Ok(())
        }
        toml::Value::Array(items) => items.iter().try_for_each(|item| fits(item, root, &schema["items"])),
        toml::Value::String(text) => match (words(schema), schema.get("const").and_then(Value::as_str)) {
            (Some(words), _) if !words.contains(&text.as_str()) => {
                Err(format!("{text} is none of {words:?}"))
            }
            (_, Some(word)) if word != text => Err(format!("{text} is not {word}")),
            _ => Ok(()),
        },
        toml::Value::Integer(number) => {
            let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
            let low = bound("minimum").is_some_and(|min| *number < min);
            let high = bound("maximum").is_some_and(|max| *number > max);
            if low || high { Err(format!("{number} is out of range")) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

fn parsed(text: &str) -> toml::Value {
    text.parse::<toml::Table>().map(toml::Value::Table).expect("TOML")
}

fn examples(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            examples(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn every_example_fits_the_schema_and_is_read() {
    let schema = schema();
    let mut files = Vec::new();
    examples(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"), &mut files);
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file");
        fits(&parsed(&text), &schema, &schema).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Config::parse(&text, &file).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Tables of a file with a place for one more key, and where they are in the schema.
const TABLES: [(&str, &str); 12] = [
    ("{key}\n", ""),
    ("[tun]\n{key}\n", "/properties/tun"),
    ("[lanes]\n{key}\n", "/properties/lanes"),
    ("[control]\n{key}\n", "/properties/control"),
    ("[metrics]\n{key}\n", "/properties/metrics"),
    ("[[peers]]\n{key}\n", "/properties/peers/items"),
    ("[proxy]\n{key}\n", "/properties/proxy"),
    ("[[proxies]]\n{key}\n", "/properties/proxies/items"),
    ("[[classes]]\n{key}\n", "/properties/classes/anyOf/1/items"),
    ("[[classes]]\nmatch = [{ {key} }]\n", "/properties/classes/anyOf/1/items/properties/match/items"),
    ("[[classes]]\nqueue = { {key} }\n", "/properties/classes/anyOf/1/items/properties/queue"),
    ("[[classes]]\nflows = { {key} }\n", "/properties/classes/anyOf/1/items/properties/flows"),
];

/// What the reader says of a text.
fn complaints(text: &str) -> Vec<String> {
    let read = Config::parse(text, Path::new("a.toml"));
    read.err().map(|errors| errors.0.iter().map(ToString::to_string).collect()).unwrap_or_default()
}

#[test]
fn the_schema_has_the_keys_that_the_reader_knows_and_no_others() {
    let schema = schema();
    for (text, place) in TABLES {
        let complaints = complaints(&text.replace("{key}", "___ = 1"));
        let unknown =
            complaints.iter().find(|line| line.contains("___: unknown key")).expect("it is reported");
        let (_, known) = unknown.split_once("allowed: ").expect("what is allowed is said");
        let known: BTreeSet<&str> = known.split(", ").collect();
        let part = part(&schema, place);
        let properties: BTreeSet<&str> =
            part["properties"].as_object().expect("keys").keys().map(String::as_str).collect();
        assert_eq!(properties, known, "{place}");
        assert_eq!(part["additionalProperties"], false, "{place}");
    }
}

/// A text with a key in its place; of a queue's parameter, one for every discipline that has it.
fn texts(text: &str, name: &str, value: &str) -> Vec<String> {
    let key = format!("{name} = {value}");
    if !text.contains("queue = ") || name == "discipline" {
        return vec![text.replace("{key}", &key)];
    }
    let disciplines = ["tail-drop", "fair-tail-drop", "red", "fred", "codel", "fq-codel", "pie", "trunk"];
    let texts = disciplines.map(|word| text.replace("{key}", &format!("discipline = {word:?}, {key}")));
    texts
        .into_iter()
        .filter(|text| !complaints(text).iter().any(|line| line.contains("no such parameter")))
        .collect()
}

/// Whether the value of a key is refused as none of those that it may have.
fn refused(text: &str, name: &str) -> bool {
    complaints(text).iter().any(|line| {
        line.contains(&format!("{name}: "))
            && !["unknown key", "is missing", "no such parameter"].iter().any(|says| line.contains(says))
    })
}

#[test]
fn the_schema_has_the_ranges_and_words_that_the_reader_has() {
    let schema = schema();
    let mut compared = 0;
    for (text, place) in TABLES {
        let properties = part(&schema, place)["properties"].as_object().expect("keys");
        for (name, key) in properties {
            let key = resolved(&schema, key);
            let refuses = |value: String| {
                let refusals: Vec<bool> =
                    texts(text, name, &value).iter().map(|text| refused(text, name)).collect();
                assert!(refusals.windows(2).all(|two| two[0] == two[1]), "{place} {name} = {value}");
                *refusals.first().expect("a text in which the key may be")
            };
            if let (Some(min), Some(max)) = (key["minimum"].as_u64(), key["maximum"].as_u64()) {
                assert!(refuses((i128::from(min) - 1).to_string()), "{place} {name} below {min}");
                assert!(refuses((i128::from(max) + 1).to_string()), "{place} {name} above {max}");
                assert!(!refuses(max.to_string()), "{place} {name} at {max}");
                compared += 1;
            }
            if let Some(words) = words(key) {
                assert!(refuses("\"nosuch\"".to_owned()), "{place} {name}");
                for word in words {
                    assert!(!refuses(format!("{word:?}")), "{place} {name} = {word}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared >= 10, "{compared} keys have a range or words");
}

#[test]
fn what_is_wrong_does_not_fit() {
    let schema = schema();
    for text in [
        "mtu = 1500\n",
        "[tun]\nmtu = \"1500\"\n",
        "[tun]\nmtu = 12\n",
        "encryption = \"rot13\"\n",
        "classes = \"all\"\n",
        "[[peers]]\nname = \"b\"\n",
        "[[classes]]\nname = \"a\"\nmatch = [{ protocol = true }]\n",
        "[[classes]]\nname = \"a\"\nqueue = { packets = 0 }\n",
    ] {
        assert!(fits(&parsed(text), &schema, &schema).is_err(), "{text}");
    }
    let fine = "encryption = \"none\"\nclasses = \"split\"\n[tun]\nmtu = 1500\n[metrics]\nlisten = \"127.0.0.1:9460\"\n";
    assert_eq!(fits(&parsed(fine), &schema, &schema), Ok(()));
}
