//! The experiments that are embedded in the program.

use std::path::Path;

use trunkline_schema::{Mistake, Mistakes};

use crate::document::Document;

/// Every experiment under `experiments/`: its path and its text.
const EXPERIMENTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// All of them.
pub fn all() -> impl Iterator<Item = Result<Document, Mistakes>> {
    EXPERIMENTS.iter().map(|(path, text)| Document::parse(path, text))
}

/// The one with this id or alias.
pub fn find(name: &str) -> Option<Document> {
    all().flatten().find(|document| names(document).any(|known| known == name))
}

/// The id of an experiment, and its aliases.
pub fn names(document: &Document) -> impl Iterator<Item = &str> {
    let experiment = document.experiment();
    std::iter::once(&experiment.id).chain(&experiment.aliases).map(String::as_str)
}

/// Those whose names are near to this one.
pub fn near(name: &str) -> Vec<String> {
    let all: Vec<Document> = all().flatten().collect();
    trunkline_schema::near(name, all.iter().flat_map(names))
}

/// `, did you mean this or that?`; nothing if nothing is near.
pub fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(", did you mean {}?", near.join(" or ")) }
}

/// Reads an experiment: a file, or an embedded one by its id.
///
/// # Errors
/// All that is wrong with it.
pub fn open(path: &Path) -> Result<Document, Mistakes> {
    if path.exists() {
        return Document::read(path);
    }
    path.to_str().and_then(find).ok_or_else(|| unknown(path))
}

/// There is neither a file nor an experiment of this name.
fn unknown(path: &Path) -> Mistakes {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let meant = did_you_mean(&near(&stem));
    Mistakes(vec![Mistake {
        file: path.display().to_string(),
        place: None,
        key: String::new(),
        problem: format!("there is no such file, and no experiment has this id{meant}"),
        allowed: Some("a file, or the id of an experiment that comes with the program".to_owned()),
        origin: None,
    }])
}
