//! A file as it was written.

use std::path::Path;

use serde::Deserialize as _;
use toml::Table;
use toml::de::{DeTable, Deserializer};

use super::file::read_file;
use super::findings::{Finding, Findings};
use super::format::Format;
use super::mistake::{Mistake, Mistakes};
use super::places::Places;
use super::read::read;
use super::twice::Twice;
use super::walk::Form;

/// The longest file, bytes.
pub const MAX_FILE: u64 = 4 << 20;
/// Mistakes that are reported at a time.
const MAX_REPORTED: usize = 100;

/// A TOML file, with the places of its keys.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    text: String,
    places: Places,
    tree: Table,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// Why it cannot be read, or is no TOML.
    pub fn open(path: &Path) -> Result<Source, Mistakes> {
        let name = path.display().to_string();
        let text = read_file(path, MAX_FILE);
        let text = text.map_err(|problem| Mistakes(vec![Mistake::of_file(name.clone(), problem)]))?;
        Source::parse(&name, &text)
    }

    /// Reads a file's text. The name is for messages.
    ///
    /// # Errors
    /// All that is no TOML in it.
    pub fn parse(name: &str, text: &str) -> Result<Source, Mistakes> {
        let mistakes =
            |place, problem: &str, allowed| Mistakes(vec![whole(name, place, problem.to_owned(), allowed)]);
        if text.len() as u64 > MAX_FILE {
            return Err(mistakes(None, "is too long", Some("up to 4 MiB")));
        }
        let bare = Places::of_text(text);
        let syntax = |error: &toml::de::Error| {
            let place = error.span().map(|span| bare.position(span.start));
            let twice = error.span().filter(|_| error.message() == "duplicate key");
            if let Some(twice) = twice.and_then(|span| Twice::at(text, span)) {
                return repeated(name, place, &twice);
            }
            match error.message() {
                // Long headers have no place of their own, long lists the library's words.
                "recursion limit" | "cannot recurse further; max recursion depth met" => {
                    let place = place.unwrap_or_else(|| deepest(text));
                    let problem = "is nested too deeply".to_owned();
                    whole(name, Some(place), problem, Some("up to 80 tables and lists in each other"))
                }
                other => whole(name, place, other.to_owned(), None),
            }
        };
        let (spanned, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let mut all: Vec<Mistake> = errors.iter().take(MAX_REPORTED).map(syntax).collect();
            all.sort_by_key(|mistake| mistake.place);
            // Of a header with many dots, one is enough.
            let line = |mistake: &Mistake| mistake.place.map(|(line, _)| line);
            all.dedup_by(|later, first| line(later) == line(first) && later.problem == first.problem);
            return Err(Mistakes(all));
        }
        let places = Places::new(text, &spanned);
        let tree = Table::deserialize(Deserializer::from(spanned))
            .map_err(|error| Mistakes(vec![syntax(&error)]))?;
        Ok(Source { name: name.to_owned(), text: text.to_owned(), places, tree })
    }

    /// The file, as it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its keys and values.
    pub const fn tree(&self) -> &Table {
        &self.tree
    }

    /// What it says.
    ///
    /// # Errors
    /// All that is wrong with its form.
    pub fn read<T: Format>(&self) -> Result<T, Mistakes> {
        read(&self.tree).map_err(|found| self.mistakes(&self.tree, found.into_iter().map(|one| (one, None))))
    }

    /// For what is found wrong with it after it was read. What is under a key of `T` that is write-only is never quoted.
    pub fn findings<T: Format>(&self) -> Findings<'_> {
        Findings::new(&self.tree).with_secrets(Form::of::<T>(&self.tree).secrets)
    }

    /// Mistakes with their places in this file, each with what brings it about where that is not in the file. `tree` is what it says
    /// now: elements of lists are called by the names that they have there.
    pub fn mistakes(
        &self,
        tree: &Table,
        found: impl IntoIterator<Item = (Finding, Option<String>)>,
    ) -> Mistakes {
        let mut all: Vec<Mistake> = found
            .into_iter()
            .take(MAX_REPORTED)
            .map(|(Finding { path, problem, allowed }, origin)| {
                let place = (!path.is_root()).then(|| self.places.of_key(&path));
                let key = path.named(tree).to_string();
                Mistake { file: self.name.clone(), place, key, problem, allowed, origin }
            })
            .collect();
        all.sort_by_key(|mistake| mistake.place);
        Mistakes(all)
    }
}

/// Something that a file has twice.
fn repeated(file: &str, place: Option<(usize, usize)>, twice: &Twice) -> Mistake {
    let Twice { key, is_table, first } = twice;
    let (second, allowed) = if *is_table {
        ("a second table of this name", "one, with all of its keys")
    } else {
        ("a second value of this key", "one value")
    };
    let first = first.map(|(line, _)| format!("; the first is in line {line}")).unwrap_or_default();
    Mistake {
        file: file.to_owned(),
        place,
        key: key.to_string(),
        problem: format!("{second}{first}"),
        allowed: Some(allowed.to_owned()),
        origin: None,
    }
}

/// A mistake of a whole file.
fn whole(file: &str, place: Option<(usize, usize)>, problem: String, allowed: Option<&str>) -> Mistake {
    Mistake { place, allowed: allowed.map(str::to_owned), ..Mistake::of_file(file.to_owned(), problem) }
}

/// The line in which most is nested.
fn deepest(text: &str) -> (usize, usize) {
    let nested = |line: &str| line.bytes().filter(|byte| matches!(byte, b'.' | b'[' | b'{')).count();
    let lines = (1..).zip(text.lines()).map(|(number, line)| (nested(line), std::cmp::Reverse(number)));
    lines.max().map_or((1, 1), |(_, number)| (number.0, 1))
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{expand, quantity::Rate};

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(extend("x-renamed" = { "speed": "rate" }, "x-moved" = { "depth": "write `rate` in a [[parts]] instead" }))]
    #[expect(dead_code, reason = "only read")]
    struct Site {
        #[schemars(extend("writeOnly" = true))]
        key: Option<String>,
        rate: Rate,
        #[serde(default)]
        parts: Vec<Part>,
        #[serde(default)]
        other: IndexMap<String, u8>,
    }

    impl Format for Site {}

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Part {
        name: String,
        rate: Option<Rate>,
    }

    fn mistakes(text: &str) -> Vec<String> {
        let read = Source::parse("site", text).and_then(|source| source.read::<Site>());
        read.unwrap_err().0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_mistakes_are_told_in_the_order_of_lines_with_names_of_list_elements() {
        let rate = Rate::ALLOWED;
        assert_eq!(
            mistakes(
                "rate = 5\n[[parts]]\nname = \"a b\"\nrate = \"10 Mbps\"\n[[parts]]\nname = \"c\"\nrat = 1\n"
            ),
            [
                format!("site:1:1: rate: 5 is no rate: write \"5 bit/s\"; allowed: {rate}"),
                format!(
                    "site:4:1: parts.\"a b\".rate: \"10 Mbps\" is no rate: write \"10 Mbit/s\"; allowed: {rate}"
                ),
                "site:7:1: parts.c.rat: unknown key, did you mean rate?; allowed: name, rate".to_owned(),
            ]
        );
        assert_eq!(
            mistakes("rate = \"1 bit/s\"\n[[parts]]\nname = \"a\"\n[[parts]]\nname = \"a\"\nrate = 1\n"),
            [format!("site:6:1: parts[1].rate: 1 is no rate: write \"1 bit/s\"; allowed: {rate}")]
        );
    }

    #[test]
    fn a_secret_is_not_quoted_whatever_is_wrong_with_it() {
        for key in ["4711", "[4711]", "{ a = 4711 }", "4711.5"] {
            let told = mistakes(&format!("rate = \"1 bit/s\"\nkey = {key}\n"));
            assert_eq!(told, ["site:2:1: key: is not right; allowed: a text in quotes"], "{key}");
        }
        let source = Source::parse("site", "rate = \"1 bit/s\"\nkey = \"hush\"\n").unwrap();
        let findings = source.findings::<Site>();
        findings.root().key("key").refuse("a longer one");
        findings.root().refuse_value("key", "told", "a shorter one");
        findings.root().key("rate").refuse("more");
        let told = findings.into_found().0;
        let told: Vec<_> = told.iter().map(|one| one.problem.as_str()).collect();
        assert_eq!(told, ["is not right", "is not right", "is \"1 bit/s\""]);
    }

    #[test]
    fn a_key_that_changed_names_the_new_one() {
        assert_eq!(
            mistakes("speed = 5\ndepth = 7\n"),
            [
                "site:1:1: speed: unknown key; it is called rate now",
                "site:2:1: depth: unknown key; write `rate` in a [[parts]] instead",
            ]
        );
        let schema = crate::json_schema_text::<Site>();
        assert!(schema.contains("\"parts\"") && !schema.contains("x-"), "{schema}");
    }

    #[test]
    fn paths_go_by_names_of_list_elements_and_by_numbers() {
        let tree = "[[parts]]\nname = \"a\"\n[[parts]]\nname = \"1\"\n[[parts]]\nname = \"a\"\n[[parts]]\nname = \"d\"\n";
        let tree: Table = toml::from_str(tree).unwrap();
        let paths = |path: &str| {
            expand(path, &tree, |_, _| false)
                .map(|paths| paths.iter().map(ToString::to_string).collect::<Vec<_>>())
                .map_err(|astray| format!("{}; {}", astray.problem, astray.allowed))
        };
        let one = |path: &str| Ok(vec![path.to_owned()]);
        assert_eq!(paths("parts.d.rate"), one("parts[3].rate"));
        assert_eq!(paths("parts.1.rate"), one("parts[1].rate"), "a name goes before a number");
        assert_eq!(paths("parts.0.rate"), one("parts[0].rate"));
        assert_eq!(paths("parts.[2].rate"), one("parts[2].rate"));
        assert_eq!(paths("parts.*.rate").unwrap().len(), 4);
        assert_eq!(
            paths("parts.a.rate"),
            Err("parts.a.rate: there is no a in parts; [0], 1, [2], d".to_owned())
        );
        assert_eq!(
            paths("parts.d.name.x"),
            Err("parts.d.name.x: parts[3].name is a value, there is nothing in it; parts[3].name".to_owned())
        );
    }

    #[test]
    fn what_a_file_has_twice_is_named_with_the_place_of_the_first() {
        for (text, told) in [
            (
                "rate = \"1 bit/s\"\n[other]\na = 1\n\n[other]\nb = 2\n",
                "5:2: other: a second table of this name; the first is in line 2; allowed: one, with all of its keys",
            ),
            (
                "[a.b]\n[a.\"c d\"]\nx = 1\n[a.b]\n",
                "4:4: a.b: a second table of this name; the first is in line 1; allowed: one, with all of its keys",
            ),
            (
                "rate = \"1 bit/s\"\n[other]\na = 1\nb = [\n 1,\n]\na = 2\n",
                "7:1: other.a: a second value of this key; the first is in line 3; allowed: one value",
            ),
            (
                "[[parts]]\nname = \"x\"\n[[parts]]\nname = \"y\"\nq.r = 1\nq.r = 2\n",
                "6:3: parts[1].q.r: a second value of this key; the first is in line 5; allowed: one value",
            ),
            (
                "[[parts]]\n[parts.q]\n[[parts]]\n[parts.q]\n[parts.q]\n",
                "5:8: parts[1].q: a second table of this name; the first is in line 4; allowed: one, with all of its keys",
            ),
            (
                "rate = 1\nrate = 2\n",
                "2:1: rate: a second value of this key; the first is in line 1; allowed: one value",
            ),
            ("q = { a = 1, a = 2 }\n", "1:14: a: a second value of this key; allowed: one value"),
        ] {
            let Err(Mistakes(found)) = Source::parse("site", text) else { panic!("no error in {text}") };
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, [format!("site:{told}")]);
        }
    }

    #[test]
    fn all_errors_of_syntax_are_reported_with_their_places() {
        let Err(Mistakes(found)) = Source::parse("site.toml", "a = = 1\nb = 2\nc = [1, \nd = \"x\n") else {
            panic!("no error");
        };
        assert!(found.len() > 1, "{found:?}");
        assert_eq!(found[0].place, Some((1, 5)), "{found:?}");
        assert!(found.is_sorted_by_key(|one| one.place), "{found:?}");
        assert!(found.iter().all(|one| one.place.is_some() && !one.problem.is_empty()), "{found:?}");
    }
}
