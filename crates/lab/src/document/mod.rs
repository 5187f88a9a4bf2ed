//! An experiment's file: read strictly, changed by path, and planned.

mod recordings;

use std::collections::BTreeSet;
use std::path::Path;

use toml::{Table, Value};
use trunkline_schema::{Astray, Finding, Findings, KeyPath, Source, put, read};

use crate::experiment::{Experiment, expand};
use crate::plan::{self, Asked, Planned, Setting, Space};
use crate::results::UnknownAnswer;
use trunkline_engine::Engine;

pub use trunkline_schema::{MAX_FILE, Mistake, Mistakes};

/// An experiment's file.
#[derive(Debug, Clone)]
pub struct Document {
    /// As the file has it.
    source: Source,
    /// As it is now.
    tree: Table,
    experiment: Box<Experiment>,
    /// What was set since.
    sets: Vec<String>,
    /// What was left out of its sweep, and why.
    left_out: Option<String>,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(path: &Path) -> Result<Document, Mistakes> {
        Source::open(path).and_then(Document::of)
    }

    /// Reads a file's text. The name is for messages.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Document, Mistakes> {
        Source::parse(name, text).and_then(Document::of)
    }

    fn of(source: Source) -> Result<Document, Mistakes> {
        let experiment = Box::new(source.read()?);
        let tree = source.tree().clone();
        Ok(Document { source, tree, experiment, sets: Vec::new(), left_out: None })
    }

    /// Sets what is at a path to a TOML value, or else to the text. `*` in the path is every name there is.
    ///
    /// # Errors
    /// What is wrong with the path, or with the experiment that would come of it. It stays as it was then. So does it if an axis sets
    /// what is there at every point: nothing would come of it.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), Mistakes> {
        let origin = format!("--set {path}={value}");
        let value = value.parse().unwrap_or_else(|_| Value::String(value.to_owned()));
        self.put(path, &value, &origin)
    }

    /// The same with a value; `origin` says in messages where it comes from.
    ///
    /// # Errors
    /// As [`Document::set`].
    pub fn put(&mut self, path: &str, value: &Value, origin: &str) -> Result<(), Mistakes> {
        let paths = expand(path, &self.tree).unwrap_or_default();
        if let Some((axis, values)) = plan::swept(&self.experiment, &self.tree, &paths) {
            let problem = format!("{path} is swept by axis {axis}");
            let allowed = Some(format!("a path that no axis sets, or {values}"));
            return Err(self.told(vec![Finding { path: KeyPath::default(), problem, allowed }], origin));
        }
        self.change(&[(path, value)], origin)
    }

    /// Makes it what its `[quick]` says.
    ///
    /// # Errors
    /// As [`Document::set`].
    pub fn quicken(&mut self) -> Result<(), Mistakes> {
        self.quicken_for(&Engine::Sim)
    }

    /// Makes it what its `[quick]` says of an engine: one in real time may have less of it.
    ///
    /// # Errors
    /// As [`Document::set`].
    pub fn quicken_for(&mut self, engine: &Engine) -> Result<(), Mistakes> {
        let Some(quick) = self.experiment.quick.clone() else { return Ok(()) };
        let runs = Value::Integer(i64::from(quick.runs));
        let testbed = match engine {
            Engine::Sim => None,
            Engine::Testbed { .. } => Some(&quick.testbed),
        };
        let sets = quick.set.iter().chain(testbed.into_iter().flatten());
        let sets = sets.map(|(path, value)| (path.as_str(), value));
        let applied = Value::Boolean(true);
        let first = [("runs", &runs), ("quick.applied", &applied)];
        let all: Vec<_> = first.into_iter().chain(sets).collect();
        self.change(&all, "in a quick run")
    }

    fn change(&mut self, sets: &[(&str, &Value)], origin: &str) -> Result<(), Mistakes> {
        let mut tree = self.tree.clone();
        let mut found = Vec::new();
        for (path, value) in sets {
            if let Err(astray) = set(&mut tree, path, value) {
                let Astray { problem, allowed } = astray;
                found.push(Finding { path: KeyPath::default(), problem, allowed: Some(allowed) });
            }
        }
        let read = if found.is_empty() { read(&tree).map(Box::new) } else { Err(found) };
        self.experiment = read.map_err(|found| self.told(found, origin))?;
        self.tree = tree;
        self.sets.push(origin.to_owned());
        Ok(())
    }

    /// The recordings of links that it names without saying where they are.
    fn recordings(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.tree.values().for_each(|value| recordings::names(value, &mut found));
        found
    }

    /// Takes the recordings that it names from a directory. Variants of axes whose recordings are not there are
    /// [left out](Self::left_out), unless all of an axis are.
    ///
    /// # Errors
    /// As [`Document::set`].
    pub fn use_recordings(&mut self, directory: Option<&Path>) -> Result<(), Mistakes> {
        let whole = directory.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let is_there = |name: &String| whole.as_ref().is_some_and(|whole| whole.join(name).is_file());
        let (found, missing): (BTreeSet<_>, BTreeSet<_>) = self.recordings().into_iter().partition(is_there);
        let mut tree = self.tree.clone();
        let gone = recordings::leave_out(&mut tree, &missing);
        if let Some(whole) = &whole {
            tree.iter_mut().for_each(|(_, value)| recordings::put(value, whole, &found));
        }
        if tree == self.tree {
            return Ok(());
        }
        let shown = directory.map(|directory| directory.display().to_string());
        let origin =
            shown.as_ref().map_or("without --recordings".to_owned(), |shown| format!("--recordings {shown}"));
        self.experiment = read(&tree).map(Box::new).map_err(|found| self.told(found, &origin))?;
        self.tree = tree;
        self.sets.push(origin);
        let id = &self.experiment.id;
        let why = shown.map_or("their recordings need --recordings".to_owned(), |shown| {
            let missing: Vec<String> = missing.into_iter().collect();
            format!("{shown} has no {}", missing.join(", "))
        });
        self.left_out = (!gone.is_empty()).then(|| format!("{id}: left out {}: {why}", gone.join(", ")));
        Ok(())
    }

    /// Which variants were left out since their recordings are not there, in words.
    pub fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    /// What is wrong with a setting.
    fn told(&self, found: Vec<Finding>, origin: &str) -> Mistakes {
        let found = found.into_iter().map(|one| (one, Some(origin.to_owned())));
        self.source.mistakes(&self.tree, found)
    }

    /// What it says now.
    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// Every point of its sweep, checked, and what is asked of the results: axes cross in the file's order, the last varies fastest.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn plan(&self) -> Result<Vec<Planned>, Mistakes> {
        let planned = plan::plan(&self.experiment, &self.tree);
        let now = Asked { experiment: &self.experiment, tree: &self.tree, planned: planned.as_deref().ok() };
        let original: Option<Experiment> =
            if self.sets.is_empty() { None } else { read(self.source.tree()).ok() };
        let asked = match &original {
            None => plan::mistakes_of_asking(now, None).into_iter().map(|one| (one, None)).collect(),
            // A quick run may leave out points, a setting may switch off what a claim is about: neither is a mistake.
            Some(experiment) => {
                let planned = plan::plan(experiment, self.source.tree());
                let before = Asked { experiment, tree: self.source.tree(), planned: planned.as_deref().ok() };
                let own = plan::mistakes_of_asking(before, None);
                let set = |one: &Finding| (!own.contains(one)).then(|| self.sets.join(", "));
                let found = plan::mistakes_of_asking(now, Some(before)).into_iter();
                found.map(|one| (set(&one), one)).map(|(set, one)| (one, set)).collect::<Vec<_>>()
            }
        };
        match planned {
            Ok(planned) if asked.is_empty() => Ok(planned),
            Ok(_) => Err(self.explained(Vec::new(), asked)),
            Err(found) => Err(self.explained(found, asked)),
        }
    }

    /// The points alone: of a document that is kept beside its results, in which a quick run has left out some that claims are about.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn points(&self) -> Result<Vec<Planned>, Mistakes> {
        let planned = plan::plan(&self.experiment, &self.tree);
        planned.map_err(|found| self.explained(found, Vec::new()))
    }

    /// What it leaves open.
    pub(crate) fn space(&self) -> Space {
        plan::space(&self.experiment, &self.tree, &Findings::new(&self.tree))
    }

    /// What the values of an axis are called.
    pub(crate) fn axis(&self, name: &str) -> Vec<String> {
        plan::axes(&self.experiment, &self.tree).swap_remove(name).unwrap_or_default()
    }

    /// The same as people read it.
    pub(crate) fn about(&self, space: &Space) -> Vec<UnknownAnswer> {
        space.about(&self.tree)
    }

    /// Says that its results are of settings that are drawn with this seed.
    ///
    /// # Errors
    /// As [`Document::set`].
    pub(crate) fn sample_by(&mut self, seed: u64) -> Result<(), Mistakes> {
        let value = Value::Integer(seed.cast_signed());
        self.change(&[("explained.seed", &value)], &format!("at settings of its unknowns by seed {seed}"))
    }

    /// Makes it a survey by a seed: of the settings, and of the one run at each point.
    ///
    /// # Errors
    /// As [`Document::set`].
    pub(crate) fn survey_by(&mut self, seed: u32) -> Result<(), Mistakes> {
        let (seed, one) = (Value::Integer(seed.into()), Value::Integer(1));
        self.change(&[("seed", &seed), ("runs", &one)], &format!("surveyed by seed {seed}"))
    }

    /// The experiment at a setting of its unknowns as a file, with another id and title, and without what speaks of other points.
    ///
    /// # Errors
    /// If the setting cannot be written.
    pub(crate) fn to_toml_at(&self, setting: &Setting, id: &str, title: &str) -> Result<String, Mistakes> {
        let origin = format!("at setting {}", setting.number);
        let mut tree = setting.apply(&self.tree).map_err(|found| self.told(found, &origin))?;
        for key in ["unknown", "survey", "quick", "explained", "aliases", "published", "claims"] {
            tree.remove(key);
        }
        for (key, text) in [("id", id), ("title", title)] {
            tree.insert(key.to_owned(), Value::String(text.to_owned()));
        }
        self.written(&tree, &origin)
    }

    /// Every point at a setting of its unknowns.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub(crate) fn plan_at(&self, setting: &Setting) -> Result<Vec<Planned>, Mistakes> {
        let drawn = setting.drawn.iter().zip(self.experiment.unknown.keys());
        let drawn: Vec<String> = drawn.map(|(drawn, name)| format!("{name} = {}", drawn.value)).collect();
        let origin = format!("where {}", drawn.join(", "));
        let mut tree = setting.apply(&self.tree).map_err(|found| self.told(found, &origin))?;
        // It leaves nothing open.
        tree.remove("unknown");
        let experiment: Experiment = read(&tree).map_err(|found| self.told(found, &origin))?;
        plan::plan(&experiment, &tree).map_err(|found| {
            let all = |at: Option<String>| Some(at.map_or(origin.clone(), |at| format!("{origin}; {at}")));
            self.source.mistakes(&tree, found.into_iter().map(|(finding, at)| (finding, all(at))))
        })
    }

    /// Where mistakes are, and what brings them about.
    fn explained(
        &self,
        found: Vec<(Finding, Option<String>)>,
        asked: Vec<(Finding, Option<String>)>,
    ) -> Mistakes {
        // What the file has by itself needs no other explanation.
        let before = if self.sets.is_empty() { Vec::new() } else { plan::mistakes_of(self.source.tree()) };
        let found = found.into_iter().map(|(finding, origin)| {
            let set = !self.sets.is_empty() && !before.contains(&finding);
            let all: Vec<_> = origin.into_iter().chain(set.then(|| self.sets.join(", "))).collect();
            (finding, Some(all.join("; ")).filter(|origin| !origin.is_empty()))
        });
        self.source.mistakes(&self.tree, found.chain(asked))
    }

    /// As it is now, as a file.
    ///
    /// # Errors
    /// If what was set cannot be written as TOML.
    pub fn to_toml(&self) -> Result<String, Mistakes> {
        if self.sets.is_empty() {
            return Ok(self.source.text().to_owned());
        }
        let what = self.sets.join(", ");
        let text = self.written(&self.tree, &what)?;
        Ok(format!("# Changed: {}\n{text}", what.replace(char::is_control, " ")))
    }

    fn written(&self, tree: &Table, what: &str) -> Result<String, Mistakes> {
        toml::to_string(tree).map_err(|error| {
            let (path, problem) = (KeyPath::default(), format!("cannot be written as TOML: {error}"));
            self.told(vec![Finding { path, problem, allowed: None }], what)
        })
    }
}

/// Sets all that a path stands for.
fn set(tree: &mut Table, path: &str, value: &Value) -> Result<(), Astray> {
    for path in expand(path, tree)? {
        put(tree, &path, value.clone())?;
    }
    Ok(())
}
