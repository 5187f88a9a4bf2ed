//! docs/experiments.md says every key of the format, and its examples can be run.

use std::fs;
use std::path::Path;

use serde_json::Value;
use trunkline_lab::document::Document;

fn reference() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments.md"))
        .unwrap_or_default()
}

/// Every key that any table of the format has.
fn keys(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(entries) => {
            for (name, entry) in entries {
                if name == "properties" {
                    found.extend(entry.as_object().into_iter().flat_map(|keys| keys.keys().cloned()));
                }
                keys(entry, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|entry| keys(entry, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_format_is_in_the_reference() {
    let (text, mut found) = (reference(), Vec::new());
    keys(&Value::from(trunkline_schema::json_schema::<trunkline_lab::experiment::Experiment>()), &mut found);
    assert!(found.len() > 150, "{}", found.len());
    let missing: Vec<_> = found.iter().filter(|key| !text.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_word_that_can_be_chosen_is_in_the_reference() {
    fn words(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(entries) => {
                found.extend(entries.get("const").and_then(Value::as_str).map(str::to_owned));
                let listed = entries.get("enum").and_then(Value::as_array);
                found.extend(listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
                entries.values().for_each(|entry| words(entry, found));
            }
            Value::Array(list) => list.iter().for_each(|entry| words(entry, found)),
            _ => {}
        }
    }
    let (text, mut found) = (reference(), Vec::new());
    words(&Value::from(trunkline_schema::json_schema::<trunkline_lab::experiment::Experiment>()), &mut found);
    assert!(found.len() > 30, "{}", found.len());
    let missing: Vec<_> = found.iter().filter(|word| !text.contains(&format!("\"{word}\""))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_examples_can_be_planned() {
    let text = reference();
    let examples: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let planned = Document::parse("docs/experiments.md", example).and_then(|document| document.plan());
        let planned = planned.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(planned.len(), 6);
    }
}
