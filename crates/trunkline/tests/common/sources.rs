//! The workspace's own code and pages.

use std::fs;
use std::path::{Path, PathBuf};

/// Adds every Rust file below a directory.
pub(crate) fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    files(directory, "rs", found);
}

/// Adds every file below a directory whose name ends so, but for what is hidden or was built.
pub(crate) fn files(directory: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the workspace") {
        let entry = entry.expect("an entry");
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                files(&path, ending, found);
            }
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
}
