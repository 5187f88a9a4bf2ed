//! Puts the results of parts together.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::{Complete, Study, close, refused};
use crate::document::Document;
use crate::report::ReportError;
use crate::results::Run;
use crate::store::{Begin, Directory, Hold, Identity, Journal, StoreError};
use trunkline_engine::Engine;

/// What came of an experiment's parts.
#[derive(Debug)]
pub struct Merged {
    /// The experiment's id.
    pub id: String,
    /// Its results, if all runs are there.
    pub complete: Option<Complete>,
    /// Runs that are there.
    pub runs: usize,
    /// All runs.
    pub of: usize,
}

/// Writes the runs of several directories of results as if one machine had made them: for each experiment into a directory of its id in
/// `out`. If all of its runs are there, its results are complete; else `lab run --resume` goes on with them. Results of this machine's
/// kernel are of one machine and cannot be put together.
///
/// # Errors
/// Directories are of different experiments with one id, of different versions or engines, or differ about a run. Nothing is written then.
pub fn merge(parts: &[Directory], out: &Path, begin: Begin) -> Result<Vec<Merged>, ReportError> {
    let mut by_id: BTreeMap<String, Vec<(&Directory, Document)>> = BTreeMap::new();
    for part in parts {
        let document = document(part)?;
        by_id.entry(document.experiment().id.clone()).or_default().push((part, document));
    }
    let sets = by_id.into_iter().map(|(id, parts)| Set::read(id, &parts)).collect::<Result<Vec<_>, _>>()?;
    sets.into_iter().map(|set| set.write(out, begin)).collect()
}

fn document(part: &Directory) -> Result<Document, ReportError> {
    let name = part.path().join("experiment.toml").display().to_string();
    Document::parse(&name, &part.text()?).map_err(ReportError::Document)
}

/// A point and a seed.
type Key = (Vec<(String, String)>, u64);

fn key(run: &Run) -> Key {
    (run.point.iter().map(|(axis, value)| (axis.clone(), value.clone())).collect(), run.seed)
}

/// All runs of an experiment.
struct Set {
    id: String,
    study: Study,
    runs: Vec<Run>,
    parts: Vec<Directory>,
}

impl Set {
    fn read(id: String, parts: &[(&Directory, Document)]) -> Result<Set, ReportError> {
        let Some((first, document)) = parts.first() else { unreachable!("an id is of a part") };
        let differs = |part: &Directory, what: String| StoreError::Apart {
            path: part.path().to_owned(),
            other: first.path().to_owned(),
            what,
        };
        let text = first.text()?;
        let mut runs: Vec<Run> = Vec::new();
        let mut places: HashMap<Key, usize> = HashMap::new();
        for (part, _) in parts {
            if part.text()? != text {
                return Err(differs(part, "are of another experiment".to_owned()).into());
            }
            for run in part.runs()? {
                if run.engine != Engine::Sim.name() {
                    let what = format!("are by the engine {}, whose runs are of one machine", run.engine);
                    return Err(differs(part, what).into());
                }
                if let Some(one) = runs.first().filter(|one| one.version != run.version) {
                    let what = format!("are by version {}, not {}", run.version, one.version);
                    return Err(differs(part, what).into());
                }
                match places.entry(key(&run)) {
                    Entry::Vacant(place) => {
                        place.insert(runs.len());
                        runs.push(run);
                    }
                    Entry::Occupied(place) if runs[*place.get()] == run => {}
                    Entry::Occupied(_) => {
                        let what = format!("say something else of seed {} of a point", run.seed);
                        return Err(differs(part, what).into());
                    }
                }
            }
        }
        let points = document.points().map_err(ReportError::Document)?;
        let study = Study { experiment: document.experiment().clone(), text, points, each: None, part: None };
        let parts = parts.iter().map(|(part, _)| (*part).clone()).collect();
        Ok(Set { id, study, runs, parts })
    }

    fn write(self, out: &Path, begin: Begin) -> Result<Merged, ReportError> {
        let Set { id, study, runs, parts } = self;
        let version = runs.first().map_or(crate::VERSION, |run| run.version.as_str()).to_owned();
        let identity = Identity { document: &study.text, engine: Engine::Sim.name(), version: &version };
        let (mut journal, mut all) = Journal::begin(Hold::take(&out.join(&id))?, &identity, begin)?;
        let there: HashSet<Key> = all.iter().map(key).collect();
        for run in runs.into_iter().filter(|run| !there.contains(&key(run))) {
            journal.append(&run)?;
            all.push(run);
        }
        parts.iter().try_for_each(|part| journal.copy_times(part))?;
        let refused = refused(&study, &Engine::Sim);
        let of = study.possible(&refused);
        let runs = all.len();
        let complete = if runs == of { Some(close(&study, journal, all, refused)?) } else { None };
        Ok(Merged { id, complete, runs, of })
    }
}
