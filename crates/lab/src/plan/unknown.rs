//! What is not known, and settings that are drawn of it.
//!
//! Setting *n* is point *n* − 1 of a Sobol sequence with Owen's scrambling, one dimension for each unknown: any number of the first ones
//! fills the space evenly, so that more of them can be added to those that were run. It depends on the file, the seed and *n* alone.
//! Setting 0 is what the file says. Of changes at random times the point has how many there are; what they are is drawn beside it.

use indexmap::IndexMap;
use toml::{Table, Value};
use trunkline_engine::catalogue::Unit;
use trunkline_schema::{At, Finding, Findings, KeyPath, put};
use trunkline_units::{Rng, random};

use super::variation::{self, Event};
use super::{finding, names, sweep};
use crate::experiment::{Between, Experiment, RandomChanges, Spacing, Unknown};

use crate::results::{SETTING_AXIS, UnknownAnswer};
use crate::{language, swept};

/// The most unknowns of an experiment.
const MAX_UNKNOWNS: usize = 64;
/// The most settings: the length of the sequence.
pub(crate) const MAX_SETTINGS: u32 = 65_536;

/// What may have been, of all unknowns.
pub(crate) struct Space(Vec<Dimension>);

struct Dimension {
    name: String,
    label: String,
    why: String,
    shared: bool,
    /// The part of settings that have it, and what the others have.
    share: f64,
    absent: Drawn,
    product: Option<Product>,
    plausible: Plausible,
}

/// A value that is multiplied by that of an earlier unknown.
struct Product {
    of: usize,
    at_least: f64,
}

enum Plausible {
    /// Equally plausible ones.
    Choices(Vec<Choice>),
    Between {
        paths: Vec<KeyPath>,
        range: Between,
    },
    Changes {
        path: KeyPath,
        changes: RandomChanges,
    },
}

struct Choice {
    name: String,
    sets: Vec<(KeyPath, Value)>,
}

/// A value of an unknown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawn {
    /// As the file would have it, or the name of a variant.
    pub(crate) value: String,
    /// In the base unit, or the number of the choice.
    pub(crate) position: f64,
}

/// A value for each unknown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    pub(crate) number: u32,
    /// In the order of the unknowns; none of setting 0.
    pub(crate) drawn: Vec<Drawn>,
    sets: Vec<(KeyPath, Value)>,
    /// By link.
    changes: IndexMap<String, Vec<Event>>,
    /// The value that each unknown sets, if it is a number: its product, where it has one.
    numbers: Vec<Option<(Unit, f64)>>,
}

impl Setting {
    /// The document with it.
    pub(crate) fn apply(&self, tree: &Table) -> Result<Table, Vec<Finding>> {
        let mut changed = tree.clone();
        for (path, value) in &self.sets {
            put(&mut changed, path, value.clone())
                .map_err(|astray| vec![finding(path.clone(), astray.problem, astray.allowed)])?;
        }
        for (link, events) in &self.changes {
            variation::write(&mut changed, link, events)?;
        }
        Ok(changed)
    }

    fn of(number: u32) -> Self {
        let (drawn, sets, numbers) = (Vec::new(), Vec::new(), Vec::new());
        Setting { number, drawn, sets, changes: IndexMap::new(), numbers }
    }

    /// Adds the value of an unknown at a part of the way from 0 to 1.
    fn add(&mut self, dimension: &Dimension, part: f64, seed: u64) {
        if let Plausible::Changes { changes, .. } = &dimension.plausible {
            let [least, most] = changes.count;
            let count = least + ((part * f64::from(most - least + 1)) as u32).min(most - least);
            let mut rng = Rng::new(seed, &format!("{} {}", dimension.name, self.number));
            let events = self.changes.entry(changes.link.clone()).or_default();
            events.extend(variation::draw(changes, count, &mut rng));
            events.sort_by_key(Event::at);
            self.drawn.push(Drawn { value: count.to_string(), position: f64::from(count) });
            self.numbers.push(None);
            return;
        }
        let (drawn, mut sets) = dimension.plausible.at(part);
        let mut number = swept::number(&drawn.value);
        if let Some(Product { of, at_least }) = dimension.product {
            number = product(self.numbers[of], number).map(|(unit, value)| (unit, value.max(at_least)));
            let value = number.map(|(unit, value)| in_file(unit, value));
            sets.iter_mut().zip(value.iter().cycle()).for_each(|((_, set), value)| set.clone_from(value));
        }
        self.drawn.push(drawn);
        self.sets.extend(sets);
        self.numbers.push(number);
    }

    /// Adds an unknown that it does not have. A factor that is not there is 1.
    fn skip(&mut self, dimension: &Dimension) {
        let factor = dimension.product.as_ref().and_then(|product| self.numbers[product.of]);
        self.numbers.push(factor.or_else(|| swept::number(&dimension.absent.value)));
        self.drawn.push(dimension.absent.clone());
    }
}

/// The product of two numbers.
fn product(one: Option<(Unit, f64)>, other: Option<(Unit, f64)>) -> Option<(Unit, f64)> {
    let ((one_unit, one), (other_unit, other)) = (one?, other?);
    match (one_unit, other_unit) {
        (Unit::BitPerSecond, Unit::Second) | (Unit::Second, Unit::BitPerSecond) => {
            Some((Unit::Byte, one * other / 8.0))
        }
        (unit, Unit::Count | Unit::Ratio) | (Unit::Count | Unit::Ratio, unit) => Some((unit, one * other)),
        _ => None,
    }
}

/// A number in a base unit as a file has it.
fn in_file(unit: Unit, value: f64) -> Value {
    match unit {
        Unit::BitPerSecond | Unit::Byte => Value::String(format!("{} {}", value.round(), unit.name())),
        Unit::Second => Value::String(format!("{} ns", (value * 1e9).round())),
        Unit::Count | Unit::Ratio => sweep::quantity(value, None),
    }
}

/// The unknowns of an experiment.
pub(crate) fn space(experiment: &Experiment, tree: &Table, findings: &Findings<'_>) -> Space {
    let root = findings.root().key("unknown");
    if experiment.unknown.len() > MAX_UNKNOWNS {
        root.report(format!("are {}", experiment.unknown.len()), format!("up to {MAX_UNKNOWNS}"));
    }
    if experiment.sweep.contains_key(SETTING_AXIS) && !experiment.unknown.is_empty() {
        let at = findings.root().key("sweep").key(SETTING_AXIS);
        at.report("is what settings of unknowns are called", "another name");
    }
    let axes = sweep::axes(experiment, tree, &Findings::new(tree));
    let mut space = Space(Vec::new());
    for (name, unknown) in &experiment.unknown {
        let at = root.key(name);
        names::check(&at, name);
        if unknown.why.trim().is_empty() {
            at.key("why").refuse("why these values are plausible");
        }
        let Some(plausible) = (Reader { tree, at: at.clone() }).plausible(unknown) else { continue };
        if unknown.shared {
            check_shared(&at.key("shared"), experiment, &plausible);
        }
        let is_changes = matches!(plausible, Plausible::Changes { .. });
        for path in plausible.paths() {
            if let Some(axis) = axes.always_sets(path) {
                at.report(
                    format!("{path} is swept by axis {axis}"),
                    "what no axis sets at all of its values",
                );
            }
            // Changes of one link go together.
            let both = |other: &Dimension| is_changes && matches!(other.plausible, Plausible::Changes { .. });
            let sets_it = |other: &&Dimension| other.plausible.paths().any(|own| own == path) && !both(other);
            if let Some(other) = space.0.iter().find(sets_it) {
                at.report(format!("sets {path}, and so does {}", other.name), "what no other unknown sets");
            }
        }
        let label = unknown.label.clone().unwrap_or_else(|| name.replace(['_', '-'], " "));
        let (name, why, shared) = (name.clone(), unknown.why.clone(), unknown.shared);
        let share = unknown.share.map_or(1.0, |share| share.0);
        if share <= 0.0 {
            at.key("share").refuse("a part above 0");
        }
        let product = unknown.times.as_ref().and_then(|times| space.product(&at, times, unknown, &plausible));
        let absent = plausible.absent(tree, product.is_some());
        space.0.push(Dimension { name, label, why, shared, share, absent, product, plausible });
    }
    space
}

/// An unknown that experiments of a paper share has choices, of which two experiments can have the same one.
fn check_shared(at: &At<'_>, experiment: &Experiment, plausible: &Plausible) {
    if experiment.paper.is_none() {
        at.report("is about the experiments of a paper, and this one has no paper", "false, or a paper");
    }
    if !matches!(plausible, Plausible::Choices(_)) {
        let problem = "is about a range or changes, of which no two settings have the same";
        at.report(problem, "values or variants");
    }
}

impl Space {
    /// The product of one of these unknowns and another one.
    fn product(&self, at: &At<'_>, times: &str, unknown: &Unknown, plausible: &Plausible) -> Option<Product> {
        let Some(of) = self.0.iter().position(|other| other.name == times) else {
            let above = self.0.iter().map(|other| other.name.as_str()).collect::<Vec<_>>();
            at.key("times").refuse(format!("an unknown above this one: {}", above.join(", ")));
            return None;
        };
        // The units of a product are the same wherever it is.
        let mut setting = Setting::of(0);
        self.0.iter().for_each(|dimension| setting.add(dimension, 0.0, 0));
        let own = swept::number(&plausible.at(0.0).0.value);
        let Some((unit, _)) = product(setting.numbers[of], own) else {
            at.key("times").report(
                format!("{times} and this have no product"),
                "a rate and a time, or a number and anything",
            );
            return None;
        };
        let at_least = unknown.at_least.as_deref().map(swept::number);
        match at_least {
            None => Some(Product { of, at_least: 0.0 }),
            Some(Some((of_least, at_least))) if of_least == unit => Some(Product { of, at_least }),
            Some(_) => {
                at.key("at_least").refuse(format!("a value in {}", unit.name()));
                None
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What each is.
    pub(crate) fn about(&self, tree: &Table) -> Vec<UnknownAnswer> {
        let about = |dimension: &Dimension| UnknownAnswer {
            name: dimension.name.clone(),
            label: dimension.label.clone(),
            why: dimension.why.clone(),
            shared: dimension.shared,
            plausible: dimension.plausible.in_words(),
            choices: dimension.choices(),
            chosen: dimension.plausible.chosen(tree),
        };
        self.0.iter().map(about).collect()
    }

    /// Setting 0, or one that is drawn.
    pub(crate) fn setting(&self, number: u32, seed: u64) -> Setting {
        let mut setting = Setting::of(number);
        let Some(index) = number.checked_sub(1) else { return setting };
        for (place, dimension) in self.0.iter().enumerate() {
            let part = f64::from(sobol_burley::sample(index % MAX_SETTINGS, place as u32, seed as u32));
            if part < dimension.share {
                setting.add(dimension, part / dimension.share, seed);
            } else {
                setting.skip(dimension);
            }
        }
        setting
    }

    /// Settings that together have each choice and both ends of each range: where all of these can be run, the others nearly always can.
    pub(crate) fn corners(&self) -> Vec<Setting> {
        let max = self.0.iter().map(|dimension| dimension.plausible.corners()).max().unwrap_or(0);
        let corner = |number: usize| {
            let mut setting = Setting::of(0);
            for dimension in &self.0 {
                let corners = dimension.plausible.corners();
                let part = match dimension.plausible {
                    Plausible::Choices(_) => (number % corners) as f64 / corners as f64,
                    Plausible::Between { .. } | Plausible::Changes { .. } => (number % 2) as f64,
                };
                setting.add(dimension, part, 0);
            }
            setting
        };
        (0..max).map(corner).collect()
    }
}

/// What an unknown is where a setting does not have it and the file says nothing.
const ABSENT: &str = "none";

impl Dimension {
    /// The names of choices that are no numbers, with what settings have that have none of them.
    fn choices(&self) -> Option<Vec<String>> {
        let mut choices = self.plausible.choices()?;
        if self.share < 1.0 && !choices.contains(&self.absent.value) {
            choices.push(self.absent.value.clone());
        }
        Some(choices)
    }
}

impl Plausible {
    /// What settings have that do not have it. What is not there counts as 0, of a factor as 1.
    fn absent(&self, tree: &Table, is_factor: bool) -> Drawn {
        let value = self.chosen(tree).filter(|_| !is_factor).unwrap_or_else(|| ABSENT.to_owned());
        let position = match self.choices() {
            Some(choices) => {
                choices.iter().position(|choice| *choice == value).unwrap_or(choices.len()) as f64
            }
            None => swept::number(&value).map_or(f64::from(u8::from(is_factor)), |(_, number)| number),
        };
        Drawn { value, position }
    }

    fn paths(&self) -> impl Iterator<Item = &KeyPath> {
        let (choices, paths): (&[Choice], &[KeyPath]) = match self {
            Plausible::Choices(choices) => (choices, &[]),
            Plausible::Between { paths, .. } => (&[], paths),
            Plausible::Changes { path, .. } => (&[], std::slice::from_ref(path)),
        };
        choices.iter().flat_map(|choice| &choice.sets).map(|(path, _)| path).chain(paths)
    }

    const fn corners(&self) -> usize {
        match self {
            Plausible::Choices(choices) => choices.len(),
            Plausible::Between { .. } | Plausible::Changes { .. } => 2,
        }
    }

    /// The value at a part of the way, from 0 to 1.
    fn at(&self, part: f64) -> (Drawn, Vec<(KeyPath, Value)>) {
        match self {
            Plausible::Choices(choices) => {
                let number = ((part * choices.len() as f64) as usize).min(choices.len().saturating_sub(1));
                let choice = &choices[number];
                let position = match swept::numbers(choices.iter().map(|choice| choice.name.as_str())) {
                    Some((_, numbers)) => numbers[number],
                    None => number as f64,
                };
                (Drawn { value: choice.name.clone(), position }, choice.sets.clone())
            }
            Plausible::Between { paths, range } => {
                let Between { from, to, scale, whole, .. } = *range;
                let value = match scale {
                    Spacing::Linear => from + (to - from) * part,
                    Spacing::Log => from * random::power(to / from, part),
                };
                let unit = range.unit.as_deref();
                let value = if whole { value.round() } else { whole_in_base(value, unit) };
                let value = sweep::quantity(value, unit);
                let name = swept::name(&value);
                let position = swept::number(&name).map_or(part, |(_, number)| number);
                (
                    Drawn { value: name, position },
                    paths.iter().map(|path| (path.clone(), value.clone())).collect(),
                )
            }
            // What is changed is drawn beside it.
            Plausible::Changes { .. } => (Drawn { value: String::new(), position: part }, Vec::new()),
        }
    }

    fn in_words(&self) -> String {
        match self {
            Plausible::Choices(choices) => {
                choices.iter().map(|choice| choice.name.as_str()).collect::<Vec<_>>().join(", ")
            }
            Plausible::Between { range, .. } => {
                let unit = range.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
                let scale = if range.scale == Spacing::Log { ", by ratio" } else { "" };
                format!("{} to {}{unit}{scale}", range.from, range.to)
            }
            Plausible::Changes { changes, .. } => {
                let [least, most] = changes.count;
                format!("{least} to {most} changes of {}", changes.link)
            }
        }
    }

    /// The names of choices that are no numbers.
    fn choices(&self) -> Option<Vec<String>> {
        let Plausible::Choices(choices) = self else { return None };
        let names = || choices.iter().map(|choice| choice.name.as_str());
        swept::numbers(names()).is_none().then(|| names().map(str::to_owned).collect())
    }

    fn chosen(&self, tree: &Table) -> Option<String> {
        match self {
            Plausible::Choices(choices) => {
                let is = |(path, value): &(KeyPath, Value)| path.find(tree) == Some(value);
                let same =
                    choices.iter().find(|choice| !choice.sets.is_empty() && choice.sets.iter().all(is));
                let stays = || choices.iter().find(|choice| choice.sets.is_empty());
                same.or_else(stays).map(|choice| choice.name.clone()).or_else(|| value(self.paths(), tree))
            }
            Plausible::Between { paths, .. } => value(paths.iter(), tree),
            Plausible::Changes { .. } => Some("0".to_owned()),
        }
    }
}

/// The next value that is a whole number of ns, B or bit/s: others are no quantities.
fn whole_in_base(value: f64, unit: Option<&str>) -> f64 {
    let Some((base, factor)) = unit.and_then(language::base) else { return value };
    let finest = match base {
        "s" => 1e-9,
        "B" | "bit/s" => 1.0,
        _ => return value,
    };
    let steps = finest / factor;
    // Divided, since that is exact where a product with the inverse is not.
    if steps < 1.0 { (value / steps).round() / (1.0 / steps) } else { (value / steps).round() * steps }
}

/// What the document has at all of some paths, if that is one value.
fn value<'p>(paths: impl Iterator<Item = &'p KeyPath>, tree: &Table) -> Option<String> {
    let mut values = paths.map(|path| path.find(tree).filter(|value| !value.is_table()).map(swept::name));
    let first = values.next()??;
    values.all(|value| value.as_ref() == Some(&first)).then_some(first)
}

/// Reads an unknown.
struct Reader<'r> {
    tree: &'r Table,
    at: At<'r>,
}

impl Reader<'_> {
    fn plausible(&self, unknown: &Unknown) -> Option<Plausible> {
        let by_path = !unknown.paths.is_empty();
        let ways = [!unknown.values.is_empty(), unknown.range.is_some()];
        let others = [!unknown.variants.is_empty(), unknown.changes.is_some()];
        let count = ways.iter().chain(&others).filter(|way| **way).count();
        if count != 1 || by_path != (ways[0] || ways[1]) {
            let problem = "does not say in one way what is plausible";
            self.at.report(problem, "one of paths with values, paths with a range, variants, and changes");
            return None;
        }
        if !by_path && unknown.times.is_some() {
            self.at.key("times").report_plain("is about values and ranges");
        }
        if unknown.times.is_none() && unknown.at_least.is_some() {
            self.at.key("at_least").report_plain("is about products with times");
        }
        if let Some(changes) = &unknown.changes {
            variation::check(&self.at.key("changes"), self.tree, changes)?;
            return Some(Plausible::Changes {
                path: variation::path(&changes.link),
                changes: changes.clone(),
            });
        }
        let paths = unknown.paths.iter().enumerate();
        let paths: Vec<KeyPath> = paths
            .flat_map(|(number, path)| sweep::paths(self.tree, &self.at.key("paths").index(number), path))
            .collect();
        let plausible = match &unknown.range {
            Some(range) => {
                self.check(range)?;
                Plausible::Between { paths, range: range.clone() }
            }
            None if by_path => {
                let choice = |value: &Value| Choice {
                    name: swept::name(value),
                    sets: paths.iter().map(|path| (path.clone(), value.clone())).collect(),
                };
                Plausible::Choices(unknown.values.iter().map(choice).collect())
            }
            None => Plausible::Choices(self.variants(unknown)),
        };
        if plausible.corners() < 2 && unknown.share.is_none() {
            self.at.report("has one plausible value", "at least two; what is known is no unknown");
            return None;
        }
        Some(plausible)
    }

    fn check(&self, range: &Between) -> Option<()> {
        let at = self.at.key("range");
        let Between { from, to, scale, .. } = *range;
        let problem = if !(from.is_finite() && to.is_finite() && from < to) {
            ("has no values between its ends", "from below to")
        } else if scale == Spacing::Log && from <= 0.0 {
            ("begins at or below 0, where there are no ratios", "from above 0")
        } else {
            return Some(());
        };
        at.report(problem.0, problem.1);
        None
    }

    fn variants(&self, unknown: &Unknown) -> Vec<Choice> {
        let at = self.at.key("variants");
        let choice = |(name, sets): (&String, &IndexMap<String, Value>)| {
            let at = at.key(name);
            let sets = sets.iter().flat_map(|(path, value)| {
                let paths = sweep::paths(self.tree, &at.key(path), path);
                paths.into_iter().map(move |path| (path, value.clone()))
            });
            Choice { name: name.clone(), sets: sets.collect() }
        };
        unknown.variants.iter().map(choice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        id = "sample"
        title = "Sample"
        duration = "1 s"
        nodes = { a = "host", b = "host" }
        links.core = { ends = ["a", "b"], rate = "1 Mbit/s", delay = "5 ms" }
        traffic.web = { kind = "web", from = "a", to = "b", flows = 3 }
        sweep.flows = { paths = ["traffic.web.flows"], values = [10, 60] }
        [unknown.delay]
        paths = ["links.core.delay"]
        range = { from = 1, to = 100, unit = "ms", scale = "log" }
        why = "Nobody knows."
        [unknown.rate]
        paths = ["links.core.rate"]
        values = ["1 Mbit/s", "2 Mbit/s", "4 Mbit/s"]
        why = "Modems."
        [unknown.tcp]
        variants = { old = { "traffic.web.tcp" = "linux-2.2" }, new = {} }
        why = "Kernels."
    "#;

    fn read(text: &str) -> (Space, Table, Vec<Finding>) {
        let tree: Table = text.parse().unwrap();
        let experiment: Experiment = toml::from_str(text).unwrap();
        let findings = Findings::new(&tree);
        let space = space(&experiment, &tree, &findings);
        let found = findings.into_found().0;
        (space, tree, found)
    }

    #[test]
    fn settings_are_the_same_for_the_same_seed_and_fill_the_space_evenly() {
        let (space, _, found) = read(FILE);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(space.setting(7, 1), space.setting(7, 1));
        assert_ne!(space.setting(7, 1), space.setting(7, 2));
        assert_eq!(space.setting(0, 1).drawn, []);
        // Of any 2^k first points, each half of each dimension has half.
        for seed in 1..20 {
            let first: Vec<Setting> = (1..=16).map(|number| space.setting(number, seed)).collect();
            let low = first.iter().filter(|setting| setting.drawn[0].position < 0.01).count();
            assert_eq!(low, 8, "10 ms is half of the way from 1 to 100 by ratio");
            let old = first.iter().filter(|setting| setting.drawn[2].value == "old").count();
            assert_eq!(old, 8);
        }
    }

    #[test]
    fn a_setting_changes_what_its_unknowns_say_and_the_first_changes_nothing() {
        let (space, tree, _) = read(FILE);
        assert_eq!(space.setting(0, 1).apply(&tree).unwrap(), tree);
        let setting = space.setting(3, 1);
        let changed = setting.apply(&tree).unwrap();
        assert_eq!(changed["links"]["core"]["delay"].as_str(), Some(setting.drawn[0].value.as_str()));
        assert_eq!(changed["links"]["core"]["rate"].as_str(), Some(setting.drawn[1].value.as_str()));
        let rate = setting.drawn[1].position;
        assert!([1e6, 2e6, 4e6].contains(&rate), "{rate}");
    }

    #[test]
    fn a_value_that_is_drawn_is_one_that_a_file_may_have() {
        for (value, unit, expected) in [
            (0.054_952_34, "ms", 0.054_952),
            (12.395_64, "ms", 12.395_64),
            (0.123_456_7, "KiB", 126.0 / 1024.0),
            (1.234_56, "kbit/s", 1.235),
            (0.5, "%", 0.5),
        ] {
            let whole = whole_in_base(value, Some(unit));
            assert!((whole - expected).abs() < 1e-12, "{value} {unit}: {whole}");
        }
        assert!((whole_in_base(0.123, None) - 0.123).abs() < 1e-12);
    }

    #[test]
    fn an_unknown_says_what_is_plausible_and_what_was_chosen() {
        let (space, tree, _) = read(FILE);
        let about = space.about(&tree);
        let words: Vec<_> =
            about.iter().map(|one| (one.plausible.as_str(), one.chosen.as_deref().unwrap_or("-"))).collect();
        assert_eq!(
            words,
            [
                ("1 to 100 ms, by ratio", "5 ms"),
                ("1 Mbit/s, 2 Mbit/s, 4 Mbit/s", "1 Mbit/s"),
                ("old, new", "new")
            ]
        );
        assert_eq!(about[2].choices.as_deref(), Some(&["old".to_owned(), "new".to_owned()][..]));
        assert_eq!(about[1].choices, None, "numbers");
    }

    #[test]
    fn corners_have_each_choice_and_both_ends() {
        let (space, _, _) = read(FILE);
        let corners = space.corners();
        let values = |place: usize| corners.iter().map(move |setting| setting.drawn[place].value.clone());
        assert_eq!(values(0).collect::<Vec<_>>(), ["1 ms", "100 ms", "1 ms"]);
        assert_eq!(values(1).collect::<Vec<_>>(), ["1 Mbit/s", "2 Mbit/s", "4 Mbit/s"]);
        assert_eq!(values(2).collect::<Vec<_>>(), ["old", "new", "old"]);
    }

    #[test]
    fn only_choices_can_be_shared() {
        let file = format!("paper = \"lee2002\"\n{FILE}");
        for (shared, refused) in [("rate", false), ("tcp", false), ("delay", true)] {
            let head = format!("[unknown.{shared}]");
            let (space, tree, found) = read(&file.replace(&head, &format!("{head}\nshared = true")));
            let told: Vec<_> = found.iter().map(|one| one.path.to_string()).collect();
            assert_eq!(
                told,
                if refused { vec![format!("unknown.{shared}.shared")] } else { vec![] },
                "{found:?}"
            );
            assert!(space.about(&tree).iter().all(|one| one.shared == (one.name == shared)));
        }
    }

    #[test]
    fn mistakes_are_told_at_their_keys() {
        for (wrong, key, problem) in [
            (
                "[unknown.x]\npaths = [\"traffic.web.flows\"]\nvalues = [1, 2]\nwhy = \"x\"",
                "unknown.x",
                "swept by axis flows",
            ),
            (
                "[unknown.x]\npaths = [\"links.core.delay\"]\nvalues = [\"1 ms\", \"2 ms\"]\nwhy = \"x\"",
                "unknown.x",
                "so does delay",
            ),
            (
                "[unknown.x]\npaths = [\"links.other.delay\"]\nvalues = [\"1 ms\", \"2 ms\"]\nwhy = \"x\"",
                "unknown.x.paths[0]",
                "there is no other",
            ),
            (
                "[unknown.x]\npaths = [\"runs\"]\nvalues = [1, 2]\nwhy = \"x\"",
                "unknown.x.paths[0]",
                "the same at all points",
            ),
            ("[unknown.x]\npaths = [\"duration\"]\nwhy = \"x\"", "unknown.x", "does not say in one way"),
            (
                "[unknown.x]\npaths = [\"duration\"]\nvalues = [\"1 s\"]\nwhy = \"x\"",
                "unknown.x",
                "one plausible value",
            ),
            (
                "[unknown.x]\npaths = [\"duration\"]\nrange = { from = 2, to = 1, unit = \"s\" }\nwhy = \"x\"",
                "unknown.x.range",
                "no values",
            ),
            (
                "[unknown.x]\npaths = [\"duration\"]\nrange = { from = 0, to = 1, unit = \"s\", scale = \"log\" }\nwhy = \"x\"",
                "unknown.x.range",
                "no ratios",
            ),
            (
                "[unknown.x]\npaths = [\"duration\"]\nvalues = [\"1 s\", \"2 s\"]\nwhy = \" \"",
                "unknown.x.why",
                "is \" \"",
            ),
            (
                "[unknown.x]\nshared = true\npaths = [\"duration\"]\nvalues = [\"1 s\", \"2 s\"]\nwhy = \"x\"",
                "unknown.x.shared",
                "has no paper",
            ),
        ] {
            let (_, _, found) = read(&format!("{FILE}\n{wrong}"));
            let told: Vec<_> = found.iter().map(|one| (one.path.to_string(), one.problem.clone())).collect();
            assert!(told.len() == 1 && told[0].0 == key && told[0].1.contains(problem), "{wrong}: {told:?}");
        }
    }
}
