//! A private directory that is removed with its handle.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::SceneError;

/// A socket's path may have 107 bytes; so many are left for the directory.
const PATH_LIMIT_BYTES: usize = 80;

/// A new directory that only this user can enter. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(super) fn new() -> Result<Self, SceneError> {
        let mut parent = std::env::temp_dir();
        if parent.as_os_str().len() > PATH_LIMIT_BYTES {
            parent = PathBuf::from("/tmp");
        }
        let mut number = 0_u32;
        loop {
            let path = parent.join(format!("trunkline-scene-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => number += 1,
                Err(source) => return Err(file_error(&path, source)),
            }
        }
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file that only this user can read, in place of one that is there.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, SceneError> {
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

    /// Opens a file for what is to be appended.
    pub(super) fn append(&self, name: &str) -> Result<fs::File, SceneError> {
        let path = self.join(name);
        let open = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        open.map_err(|source| file_error(&path, source))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What somebody else removed needs no removing, and nothing else can be done about it here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn file_error(path: &Path, source: io::Error) -> SceneError {
    SceneError::File { path: path.display().to_string(), source }
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
        let path = one.path.clone();
        drop(one);
        assert!(!path.exists() && other.path.exists());
    }
}
