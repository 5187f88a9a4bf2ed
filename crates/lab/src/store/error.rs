//! What is wrong with a directory of results.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What is wrong with a directory of results.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is nothing.
    #[error("{}: there are no results here", .0.display())]
    NoResults(PathBuf),
    /// There is something already.
    #[error(
        "{}: there are results here already; allowed: --resume to go on with them, --force to begin anew, another --out",
        .0.display()
    )]
    Taken(PathBuf),
    /// They are of something else.
    #[error(
        "{}: cannot go on with these results: {what}; allowed: the same as before, --force to begin anew, another --out",
        path.display()
    )]
    Other {
        /// Where.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// They cannot be put together with others.
    #[error("{}: these results {what}: they cannot be put together with those of {}", path.display(), other.display())]
    Apart {
        /// Where.
        path: PathBuf,
        /// Where the others are.
        other: PathBuf,
        /// What keeps them apart.
        what: String,
    },
    /// Another process writes there.
    #[error("{}: another process writes results here", .0.display())]
    Busy(PathBuf),
    /// A line that is none of ours.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// Read or write.
        what: &'static str,
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        StoreError::Io { what, path: path.to_owned(), source }
    }

    /// Whether whoever asked could have asked for something else, rather than that something broke. A directory that cannot be made
    /// because of what its path is could have been another.
    pub fn is_input(&self) -> bool {
        match self {
            StoreError::NoResults(_)
            | StoreError::Taken(_)
            | StoreError::Other { .. }
            | StoreError::Apart { .. } => true,
            StoreError::Busy(_) | StoreError::Line { .. } => false,
            StoreError::Io { what, source, .. } => match source.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => true,
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                    *what == "make"
                }
                _ => false,
            },
        }
    }
}
