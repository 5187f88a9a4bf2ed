//! `lab import`: recordings of links as experiments.

use std::fs;
use std::path::Path;

use trunkline_lab::import::{Recording, Surroundings, experiment};

use crate::cli::laboratory::ImportArguments;
use crate::failure::Failure;
use crate::output::{print, remark};

pub(super) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let there = read(&arguments.file)?;
    let back = arguments.back.as_ref().map(|file| read(file)).transpose()?;
    let stem = arguments.file.file_stem().unwrap_or_default().to_string_lossy();
    let around = Surroundings {
        id: &identifier(&stem),
        source: &name(&arguments.file),
        delay: arguments.delay,
        rate: arguments.rate,
        queue: arguments.queue,
    };
    print(&experiment(&there, back.as_ref(), &around))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<Recording, Failure> {
    let shown = path.display();
    let bytes = fs::read(path).map_err(|error| Failure::Input(format!("cannot read {shown}: {error}")))?;
    let (recording, notes) =
        Recording::read(&bytes).map_err(|error| Failure::Input(format!("{shown}: {error}")))?;
    for note in notes {
        remark(&format_args!("trunkline: {shown}: {note}"));
    }
    Ok(recording)
}

/// An experiment's id out of a file's name.
fn identifier(stem: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let id: String = stem.chars().map(plain).collect();
    let id = id.trim_matches('-');
    if id.is_empty() { "recorded".to_owned() } else { id.to_owned() }
}
