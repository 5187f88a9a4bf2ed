//! Why a file gave no configuration.

use std::path::PathBuf;

use trunkline_schema::Mistakes;

/// Why a file gave no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is wrong.
    #[error(transparent)]
    Invalid(#[from] Mistakes),
}
