//! Dependencies must have a licence of deny.toml's list and come from the public registry. `cargo deny` checks more
//! (advisories, wildcards, licence texts) where it is installed. These two checks need cargo alone, so each run of the tests
//! has them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names in `allow = [ … ]` of `[licenses]`.
fn allowed(deny: &str) -> Vec<String> {
    let (_, section) = deny.split_once("[licenses]").expect("deny.toml has [licenses]");
    let (_, list) = section.split_once("allow = [").expect("[licenses] has allow");
    let (list, _) = list.split_once(']').expect("allow ends");
    list.split(',')
        .map(|name| name.trim().trim_matches('"').to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Whether an SPDX expression can be satisfied with these licences. An exception (`WITH …`) only adds permissions, so it is left out; `/` is
/// how old manifests write `OR`.
fn satisfied(expression: &str, allowed: &[String]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Expression { words: &words, allowed };
    let satisfied = parser.alternatives()?;
    if parser.words.is_empty() { Ok(satisfied) } else { Err(format!("{expression}: no SPDX expression")) }
}

struct Expression<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl Expression<'_> {
    fn next_is(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn alternatives(&mut self) -> Result<bool, String> {
        let mut satisfied = self.conjunction()?;
        while self.next_is("OR") {
            satisfied |= self.conjunction()?;
        }
        Ok(satisfied)
    }

    fn conjunction(&mut self) -> Result<bool, String> {
        let mut satisfied = self.licence()?;
        while self.next_is("AND") {
            satisfied &= self.licence()?;
        }
        Ok(satisfied)
    }

    fn licence(&mut self) -> Result<bool, String> {
        if self.next_is("(") {
            let satisfied = self.alternatives()?;
            return if self.next_is(")") { Ok(satisfied) } else { Err("a parenthesis is not closed".into()) };
        }
        let (name, rest) = self.words.split_first().ok_or("it ends too soon")?;
        self.words = rest;
        if self.next_is("WITH") {
            self.words = self.words.get(1..).ok_or("an exception has no name")?;
        }
        Ok(self.allowed.iter().any(|allowed| allowed == name))
    }
}

/// What is wrong with a dependency.
fn objection(package: &Value, allowed: &[String]) -> Option<String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let name = format!("{} {}", text("name"), text("version"));
    if text("source") != REGISTRY {
        return Some(format!("{name}: from {}, allowed: the public registry", text("source")));
    }
    match satisfied(text("license"), allowed) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name}: licence {}, allowed: {}", text("license"), allowed.join(", "))),
        Err(why) => Some(format!("{name}: licence {:?} cannot be read: {why}", text("license"))),
    }
}

#[test]
fn every_dependency_has_an_allowed_licence_and_comes_from_the_registry() {
    let deny = fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let allowed = allowed(&deny);
    let host = Command::new("rustc").arg("-vV").output().expect("rustc says what it is");
    let host = String::from_utf8(host.stdout).expect("rustc speaks UTF-8");
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let foreign: Vec<&Value> = packages.iter().filter(|package| !package["source"].is_null()).collect();
    assert!(foreign.len() > 50, "only {} dependencies found", foreign.len());
    let found: Vec<String> = foreign.iter().filter_map(|package| objection(package, &allowed)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn expressions_are_parsed_as_in_spdx() {
    let allowed = allowed("[licenses]\nallow = [\"MIT\", \"Apache-2.0\",\n \"Unicode-3.0\"]\n");
    assert_eq!(allowed, ["MIT", "Apache-2.0", "Unicode-3.0"]);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT/GPL-3.0", true),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
        ("GPL-3.0 AND (MIT OR Apache-2.0)", false),
        ("GPL-3.0 OR MIT AND Unicode-3.0", true),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
    ] {
        assert_eq!(satisfied(expression, &allowed), Ok(expected), "{expression}");
    }
    for wrong in ["", "MIT OR", "(MIT", "MIT MIT"] {
        assert!(satisfied(wrong, &allowed).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_foreign_source_and_another_licence_are_errors() {
    let package = |source: &str, license: &str| serde_json::json!({ "name": "x", "version": "1.0.0", "source": source, "license": license });
    let allowed = ["MIT".to_owned()];
    assert_eq!(objection(&package(REGISTRY, "MIT"), &allowed), None);
    assert!(objection(&package(REGISTRY, "AGPL-3.0"), &allowed).is_some_and(|why| why.contains("AGPL-3.0")));
    assert!(objection(&package("git+https://example.org/x", "MIT"), &allowed).is_some());
    assert!(objection(&package(REGISTRY, ""), &allowed).is_some());
}
