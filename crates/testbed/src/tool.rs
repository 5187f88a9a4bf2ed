//! Programs of this machine that the testbed runs in a host and waits for.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::namespace::Host;

/// Directories of programs for administrators, which a user's `PATH` may lack.
const MORE_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/sbin"];
/// So much of what a program says of its failure is quoted, from the end.
const QUOTED_BYTES: u64 = 2000;

/// Why a program did not do what it was run for.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// There is no such program.
    #[error("{program} is not installed")]
    Missing {
        /// Its name.
        program: String,
    },
    /// It failed, could not be started, or took too long.
    #[error("`{command}` failed: {reason}")]
    Failed {
        /// The command line.
        command: String,
        /// What it, or the system, said.
        reason: String,
    },
}

/// The file of a program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed = std::env::split_paths(&path);
    let mut directories = listed.chain(MORE_DIRECTORIES.map(PathBuf::from));
    directories.find_map(|directory| Some(directory.join(program)).filter(|file| is_program(file)))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|known| known.is_file() && known.permissions().mode() & 0o111 != 0)
}

/// Runs a program in a host until it ends, with its standard input and output. It is killed after `limit`, and when this process ends.
pub(crate) fn run(
    host: &Host,
    words: &[String],
    (input, output): (Stdio, Stdio),
    limit: Duration,
) -> Result<(), ToolError> {
    let failed = |reason: String| ToolError::Failed { command: words.join(" "), reason };
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let file = find(program).ok_or_else(|| ToolError::Missing { program: program.clone() })?;
    // Not a pipe: nobody reads it before the program ends.
    let mut errors = scratch_file().map_err(|error| failed(error.to_string()))?;
    let said = errors.try_clone().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(file);
    command.args(arguments).process_group(0).stdin(input).stdout(output).stderr(said);
    let mut process = host.command(command).map_err(|error| failed(error.to_string()))?;
    match process.wait(limit).map_err(|error| failed(error.to_string()))? {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            let said = end_of(&mut errors);
            Err(failed(if said.is_empty() { status.to_string() } else { said }))
        }
        None => Err(failed(format!("it ran for more than {} s", limit.as_secs()))),
    }
}

/// A file without a name.
fn scratch_file() -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("errors", rustix::fs::MemfdFlags::CLOEXEC)?))
}

/// The end of a file in one line; empty if it cannot be read.
fn end_of(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let length = file.metadata().map_or(0, |known| known.len());
    let start = io::SeekFrom::Start(length.saturating_sub(QUOTED_BYTES));
    let read = file.seek(start).and_then(|_| file.take(QUOTED_BYTES).read_to_end(&mut bytes));
    let text = read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_beyond_the_path() {
        assert!(find("sh").is_some_and(|file| file.is_absolute()));
        assert_eq!(find("no-such-program"), None);
    }

    #[test]
    fn what_a_program_says_of_its_failure_is_quoted_from_the_end() {
        use std::io::Write as _;
        let mut file = scratch_file().expect("memory");
        writeln!(file, "{}\nno such\n  thing", "x".repeat(3000)).expect("written");
        let said = end_of(&mut file);
        assert!(said.ends_with("x no such thing") && said.len() <= QUOTED_BYTES as usize, "{said}");
    }
}
