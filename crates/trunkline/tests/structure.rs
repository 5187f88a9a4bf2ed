//! Bounds on how the code hangs together. Each may only fall: a change that raises a count needs another place for what it adds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::sources::sources;
use syn::visit::{self, Visit};
use syn::{FnArg, ItemImpl, ItemMod, Signature, Type, UseTree};

/// Circles of files: each takes something from the next, and the last from the first.
const CIRCLES: usize = 2;
/// Parameters that are tuples taken apart: values that belong together and have no name together.
const TUPLES: usize = 99;
/// Names of types of a crate whose inherent methods lie in more than one file.
const SPREAD_TYPES: usize = 50;

/// A file of a crate, by its module's path.
struct Source {
    module: Vec<String>,
    code: syn::File,
}

/// The files of each crate, without tests.
fn crates() -> BTreeMap<String, Vec<Source>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut crates = BTreeMap::new();
    for entry in fs::read_dir(&root).expect("the crates").flatten() {
        let source = entry.path().join("src");
        let mut files: Vec<PathBuf> = Vec::new();
        sources(&source, &mut files);
        let read = |file: PathBuf| {
            let relative = file.strip_prefix(&source).ok()?.with_extension("");
            let mut module: Vec<String> =
                relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.iter().any(|part| part.contains("test")) {
                return None;
            }
            module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
            let text = fs::read_to_string(&file).expect("a source file");
            let code = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            Some(Source { module, code })
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        crates.insert(name, files.into_iter().filter_map(read).collect());
    }
    crates
}

/// What a file names of its crate, and counts of what is in it.
#[derive(Default)]
struct Finder {
    paths: Vec<Vec<String>>,
    tuples: usize,
    /// Types that have inherent methods here.
    types: BTreeSet<String>,
}

impl Finder {
    fn add_uses(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.add_uses(&with(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.paths.push(with(name.ident.to_string())),
            UseTree::Rename(name) => self.paths.push(with(name.ident.to_string())),
            UseTree::Glob(_) => self.paths.push(before.to_vec()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_uses(before, tree)),
        }
    }
}

impl<'a> Visit<'a> for Finder {
    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        // Tests are no part of the structure.
        if !module.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.add_uses(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_signature(&mut self, signature: &'a Signature) {
        let is_tuple = |argument: &&FnArg| matches!(argument, FnArg::Typed(typed) if matches!(*typed.pat, syn::Pat::Tuple(_)));
        self.tuples += signature.inputs.iter().filter(is_tuple).count();
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        if let (None, Type::Path(of)) = (&item.trait_, &*item.self_ty)
            && let Some(name) = of.path.segments.last()
        {
            self.types.insert(name.ident.to_string());
        }
        visit::visit_item_impl(self, item);
    }
}

fn find(source: &Source) -> Finder {
    let mut finder = Finder::default();
    finder.visit_file(&source.code);
    finder
}

/// The file that a path of a module leads to: the longest part of it that is one.
fn target(modules: &[Vec<String>], from: &[String], path: &[String]) -> Option<usize> {
    let (mut base, mut rest) = (from.to_vec(), path);
    match path.first().map(String::as_str) {
        Some("crate") => (base, rest) = (Vec::new(), &path[1..]),
        Some("self") => rest = &path[1..],
        Some("super") => {
            while let Some((_, after)) = rest.split_first().filter(|(first, _)| *first == "super") {
                (rest, _) = (after, base.pop());
            }
        }
        Some(_) => {}
        None => return None,
    }
    let whole = [base, rest.to_vec()].concat();
    let found = (1..=whole.len()).rev().find_map(|len| modules.iter().position(|m| *m == whole[..len]));
    // A file that declares modules owns them: what it takes from them is no arrow upward.
    found.filter(|found| !modules[*found].starts_with(from))
}

/// Sets of files of which each leads to each other.
fn circles(files: &[Source]) -> Vec<Vec<String>> {
    let modules: Vec<Vec<String>> = files.iter().map(|file| file.module.clone()).collect();
    let reaches: Vec<BTreeSet<usize>> = files
        .iter()
        .map(|file| find(file).paths.iter().filter_map(|path| target(&modules, &file.module, path)).collect())
        .collect();
    let all_from = |start: usize| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
        while let Some(next) = todo.pop() {
            todo.extend(reaches[next].iter().filter(|to| seen.insert(**to)));
        }
        seen
    };
    let closures: Vec<BTreeSet<usize>> = (0..files.len()).map(all_from).collect();
    let mut circles = BTreeSet::new();
    for (file, reached) in closures.iter().enumerate() {
        let circle: Vec<usize> =
            reached.iter().copied().filter(|other| closures[*other].contains(&file)).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().map(|circle| circle.iter().map(|file| modules[*file].join("::")).collect()).collect()
}

fn at_most(bound: usize, what: &str, found: &[String]) {
    assert!(found.len() <= bound, "{} {what}, more than {bound}:\n{}", found.len(), found.join("\n"));
    assert!(found.len() + 1 > bound, "{} {what}: lower the bound of {bound}", found.len());
}

#[test]
fn files_of_a_crate_are_no_circle_but_for_those_that_were() {
    let describe = |(name, files): (&String, &Vec<Source>)| -> Vec<String> {
        circles(files).into_iter().map(|circle| format!("{name}: {}", circle.join(", "))).collect()
    };
    at_most(CIRCLES, "circles of files", &crates().iter().flat_map(describe).collect::<Vec<_>>());
}

#[test]
fn parameters_are_no_tuples_but_for_those_that_were() {
    let mut found = Vec::new();
    for (name, files) in &crates() {
        for file in files {
            let place = || format!("{name}: {}", file.module.join("::"));
            found.extend(std::iter::repeat_with(place).take(find(file).tuples));
        }
    }
    at_most(TUPLES, "parameters that are tuples", &found);
}

#[test]
fn methods_of_a_type_are_in_one_file_but_for_those_that_were() {
    let mut found = Vec::new();
    for (name, files) in &crates() {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in files {
            for of in find(file).types {
                places.entry(of).or_default().push(file.module.join("::"));
            }
        }
        let spread = places.into_iter().filter(|(_, places)| places.len() > 1);
        found.extend(spread.map(|(of, places)| format!("{name}: {of}: {}", places.join(", "))));
    }
    at_most(SPREAD_TYPES, "types whose methods are in several files", &found);
}

/// With `autotests = false` nobody else would notice a file that is in no program.
#[test]
fn every_file_of_tests_is_in_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut in_one = 0;
    for entry in fs::read_dir(&root).expect("the crates").flatten() {
        let tests = entry.path().join("tests");
        let Ok(program) = fs::read_to_string(tests.join("all.rs")) else { continue };
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).expect("a manifest");
        for file in fs::read_dir(&tests).expect("tests").flatten().map(|file| file.path()) {
            let name = file.file_stem().expect("a name").to_string_lossy();
            if file.extension().is_none_or(|extension| extension != "rs") || name == "all" {
                continue;
            }
            let is_module = program.lines().any(|line| line == format!("mod {name};"));
            let is_program = manifest.lines().any(|line| line == format!("name = \"{name}\""));
            assert!(is_module || is_program, "{} is in no program: add it to all.rs", file.display());
            in_one += usize::from(is_module);
        }
    }
    assert!(in_one > 50, "{in_one} files");
}

#[test]
fn a_circle_is_found() {
    let file = |module: &[&str], text: &str| Source {
        module: module.iter().map(|part| (*part).to_owned()).collect(),
        code: syn::parse_file(text).expect("code"),
    };
    let files = [
        file(&["a"], "mod child; use child::Own; use crate::b::{One, other::Two};"),
        file(&["a", "child"], "pub struct Own;"),
        file(&["b"], "fn f() { super::c::g() }"),
        file(&["c"], "#[cfg(test)] mod tests { use crate::d::X; } use crate::a::Three;"),
        file(&["d"], "use crate::c::X;"),
    ];
    assert_eq!(circles(&files), [["a", "b", "c"]]);
}
