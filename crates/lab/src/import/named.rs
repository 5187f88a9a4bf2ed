//! Recordings that experiments name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use trunkline_link::Deliveries;

use super::Recording;

/// What has been read: a sweep has the same recording at many points.
static READ: Mutex<Option<HashMap<PathBuf, Deliveries>>> = Mutex::new(None);

/// When the link of a recording sent. The message of an error names the file.
pub(crate) fn deliveries_of(path: &Path) -> Result<Deliveries, String> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let read = read.get_or_insert_default();
    if let Some(known) = read.get(path) {
        return Ok(known.clone());
    }
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
    let (recording, _) = Recording::read(&bytes).map_err(|error| format!("{shown}: {error}"))?;
    let allowed = "times in milliseconds, one in each line";
    let deliveries = recording.deliveries;
    let deliveries =
        deliveries.ok_or_else(|| format!("{shown} is no trace of mahimahi; allowed: {allowed}"))?;
    read.insert(path.to_owned(), deliveries.clone());
    Ok(deliveries)
}
