//! Paths to what an experiment says: `links.core.queue.max_p`, `trunks.*.enabled`, `links.core.changes.0.rate`.

use toml::Table;
use trunkline_schema::{Astray, KeyPath};

/// All keys that a path with `*` stands for.
pub(crate) fn expand(path: &str, tree: &Table) -> Result<Vec<KeyPath>, Astray> {
    trunkline_schema::expand(path, tree, has_names)
}

/// Whether the keys of a table are names of the file's, which a path cannot make up. Lists by path (`zip`) it can.
fn has_names(keys: &[&str], last: bool) -> bool {
    match keys {
        ["links" | "tcp" | "traffic" | "trunks" | "proxies" | "sweep" | "nodes" | "unknown"]
        | ["trunks", _, "classes"]
        | ["proxies", _, "cells"] => true,
        ["sweep", _, "zip" | "variants"] | ["unknown", _, "variants"] => !last,
        _ => false,
    }
}
