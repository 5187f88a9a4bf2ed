//! The files under experiments/ can be run, in full and quickly.

use std::fs;
use std::path::{Path, PathBuf};

use trunkline_lab::document::Document;

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let folders = fs::read_dir(root).into_iter().flatten().flatten();
    let files =
        folders.filter(|folder| folder.path().is_dir()).flat_map(|folder| fs::read_dir(folder.path()));
    let mut files: Vec<_> = files.flatten().flatten().map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

#[test]
fn every_experiment_can_be_planned() {
    let files = files();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in &files {
        let planned = Document::read(file).and_then(|mut document| {
            let points = document.plan()?.len();
            document.quicken()?;
            Ok((points, document.plan()?.len()))
        });
        match planned {
            Ok((full, quick)) => assert!(full >= quick && quick > 0, "{}: {full} {quick}", file.display()),
            Err(mistakes) => wrong.push(mistakes.to_string()),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
