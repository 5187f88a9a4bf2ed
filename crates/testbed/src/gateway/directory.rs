//! A private directory that is removed with its handle.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::GatewayError;

/// A socket's path may have 107 bytes; so many are left for the directory.
const PATH_LIMIT_BYTES: usize = 80;

/// Lines of a log that an error quotes.
const LOG_TAIL_LINES: usize = 12;

/// What the names of these directories begin with; the id of the process that made one follows.
const PREFIX: &str = "trunkline-scene-";

/// A new directory that only this user can enter. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// A new one, under the directory for temporary files.
    pub fn new() -> Result<Self, GatewayError> {
        let mut parent = std::env::temp_dir();
        if parent.as_os_str().len() > PATH_LIMIT_BYTES {
            parent = PathBuf::from("/tmp");
        }
        remove_abandoned(&parent);
        let mut number = 0_u32;
        loop {
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => number += 1,
                Err(source) => return Err(file_error(&path, source)),
            }
        }
    }

    /// The path of a file in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file that only this user can read, in place of one that is there.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, GatewayError> {
        let path = self.join(name);
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|source| file_error(&path, source))?;
        Ok(path)
    }
}

/// Removes the directories of processes that ended without removing them, as one that is killed does.
fn remove_abandoned(parent: &Path) {
    let own = rustix::process::getuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        let is_gone = maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        // Not through a link, and nobody else's.
        let is_ours = entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own);
        if is_gone && is_ours {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Opens a file for what is to be appended.
pub(crate) fn append(path: &Path) -> Result<fs::File, GatewayError> {
    let open = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    open.map_err(|source| file_error(path, source))
}

/// What a log has; nothing if it cannot be read.
pub(super) fn read_log(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The last lines of a log, as an error quotes them.
pub(crate) fn log_tail(path: &Path) -> String {
    let log = read_log(path);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What somebody else removed needs no removing, and nothing else can be done about it here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn file_error(path: &Path, source: io::Error) -> GatewayError {
    GatewayError::File { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_directory_is_private_and_goes_with_its_handle() {
        let (one, other) = (Directory::new().expect("directory"), Directory::new().expect("directory"));
        assert_ne!(one.path, other.path);
        let file = one.write("key", "secret").expect("write");
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!((mode(&one.path), mode(&file)), (0o700, 0o600));
        drop(one);
        // Another test may have made a directory of the same name by now.
        assert!(!file.exists() && other.path.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        // A parent of this test's own: any other test that makes a directory removes what is abandoned too.
        let parent = Directory::new().expect("directory");
        // No process has so high an id.
        let abandoned = parent.join(&format!("{PREFIX}4294967295-0"));
        let own = parent.join(&format!("{PREFIX}{}-0", std::process::id()));
        let foreign = parent.join(&format!("{PREFIX}notes"));
        for path in [&abandoned, &own, &foreign] {
            fs::create_dir_all(path.join("inside")).expect("a directory");
        }
        remove_abandoned(&parent.path);
        assert!(!abandoned.exists() && own.exists() && foreign.exists());
    }
}
