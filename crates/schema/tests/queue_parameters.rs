//! The pages in docs/ give names, defaults and ranges of the parameters of queue disciplines as the code has them.
//!
//! `TRUNKLINE_RENEW=1` writes the table of parameters into the two pages that have it. Pages of models are written by hand.

use std::path::PathBuf;
use std::{env, fs};

use trunkline_queue::{Description, Limits, Parameter, Range, Settings, Value};
use trunkline_schema::quantity::Time;

const HEAD: &str = "| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n";

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn size(bytes: u64) -> String {
    let units = [
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1000, "kB"),
    ];
    let whole = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or(format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}

fn value(value: Value) -> String {
    match value {
        Value::Switch(on) => on.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Bytes(bytes) => size(bytes),
        Value::Time(time) => Time(time).to_string(),
        Value::Number(number) => number.to_string(),
    }
}

/// As a file has it.
fn literal(of: Value) -> String {
    match of {
        Value::Bytes(_) | Value::Time(_) => format!("`\"{}\"`", value(of)),
        _ => format!("`{}`", value(of)),
    }
}

fn kind(range: Range) -> &'static str {
    match range {
        Range::Switch => "boolean",
        Range::Count(..) => "integer",
        Range::Bytes(..) => "size",
        Range::Amount(..) => "integer or size",
        Range::Time(..) => "time",
        Range::Probability | Range::Fraction => "share",
        Range::Factor(..) => "number",
    }
}

fn allowed(range: Range) -> String {
    match range {
        Range::Switch => "–".to_owned(),
        Range::Count(min, max) => format!("{min} to {max}"),
        Range::Bytes(min, max) => format!("{} to {}", size(min.into()), size(max.into())),
        Range::Amount(packets, bytes) => format!("1 to {packets} packets, or a size up to {}", size(bytes)),
        Range::Time(min, max) => format!("{} to {}", Time(min), Time(max)),
        Range::Probability => "above 0, at most 1".to_owned(),
        Range::Fraction => "from 0, below 1".to_owned(),
        Range::Factor(min, max) => format!("{min} to {max}"),
    }
}

type Owned = (&'static Description, &'static Parameter);

/// What holds for all disciplines that have a parameter, or what holds for each.
fn each(owners: &[Owned], text: impl Fn(&Owned) -> String) -> String {
    let mut different: Vec<(String, Vec<String>)> = Vec::new();
    for owner in owners {
        let (text, word) = (text(owner), format!("`{}`", owner.0.word));
        match different.iter_mut().find(|(known, _)| *known == text) {
            Some((_, words)) => words.push(word),
            None => different.push((text, vec![word])),
        }
    }
    if let [(text, _)] = &different[..] {
        return text.clone();
    }
    let parts: Vec<String> =
        different.iter().map(|(text, words)| format!("{}: {text}", words.join(", "))).collect();
    parts.join("; ")
}

fn default(&(description, parameter): &Owned) -> Value {
    parameter.get(&description.default_settings()).expect("a parameter of the discipline")
}

/// The table of all parameters.
fn table() -> String {
    let all = || {
        Settings::DISCIPLINES
            .iter()
            .flat_map(|of| of.parameters.iter().map(move |parameter| (*of, parameter)))
    };
    let mut keys: Vec<&str> = Vec::new();
    all().for_each(|(_, parameter)| {
        if !keys.contains(&parameter.key) {
            keys.push(parameter.key);
        }
    });
    let row = |key: &&str| {
        let owners: Vec<Owned> = all().filter(|(_, parameter)| parameter.key == *key).collect();
        format!(
            "| `{key}` | {} | {} | {} | {} |\n",
            each(&owners, |(_, parameter)| kind(parameter.range).to_owned()),
            each(&owners, |owner| literal(default(owner))),
            each(&owners, |(_, parameter)| allowed(parameter.range)),
            each(&owners, |(_, parameter)| parameter.meaning.to_owned()),
        )
    };
    HEAD.to_owned() + &keys.iter().map(row).collect::<String>()
}

#[test]
fn pages_of_files_have_the_table_of_parameters() {
    for name in ["configuration.md", "experiments.md"] {
        let text = fs::read_to_string(page(name)).expect("a page");
        let start = text.find(HEAD).unwrap_or_else(|| panic!("{name} has no table of parameters"));
        let len = text[start..].find("\n\n").map_or(text.len() - start, |end| end + 1);
        if env::var_os("TRUNKLINE_RENEW").is_some() {
            let renewed = [&text[..start], &table(), &text[start + len..]].concat();
            fs::write(page(name), renewed).expect("the page can be written");
        } else {
            assert_eq!(text[start..start + len], table(), "docs/{name}: TRUNKLINE_RENEW=1 writes the table");
        }
    }
}

#[test]
fn pages_of_disciplines_have_their_defaults() {
    let limits = Limits::default();
    let limits = format!("{} segments, {}", limits.segments, size(limits.bytes));
    for description in Settings::DISCIPLINES.iter().filter(|of| !of.parameters.is_empty()) {
        let name = format!("models/{}.md", description.word);
        let text = fs::read_to_string(page(&name)).expect("a page");
        let rows = text.lines().skip_while(|line| !line.starts_with("| parameter | default |")).skip(2);
        let mut documented = Vec::new();
        for row in rows.take_while(|line| line.starts_with('|')) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            if cells[0] == "limits" {
                assert_eq!(cells[1], limits, "docs/{name}");
                continue;
            }
            let keys: Vec<&str> = cells[0].split(", ").map(|key| key.trim_matches('`')).collect();
            let mut values: Vec<&str> = cells[1].split(", ").collect();
            if values.len() == 1 {
                values.resize(keys.len(), cells[1]);
            }
            assert_eq!(keys.len(), values.len(), "docs/{name}: {row}");
            documented.extend(keys.into_iter().zip(values).map(|(key, value)| format!("{key} {value}")));
        }
        let parameters = description.parameters.iter();
        let have: Vec<String> =
            parameters.map(|of| format!("{} {}", of.key, value(default(&(description, of))))).collect();
        documented.sort_unstable();
        let mut sorted = have;
        sorted.sort_unstable();
        assert_eq!(documented, sorted, "docs/{name}");
    }
}
