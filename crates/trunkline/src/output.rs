//! Everything a command writes: results on standard output, remarks on standard error.
//!
//! No command panics for its output. `println!` and `eprintln!` do where the device is full or the reader has gone, so
//! the crate denies both. A result that cannot be written is a failure of the command, since whoever reads the file
//! must not take half of it for the whole. A remark that cannot be written is dropped: there is nobody to tell.

use std::fmt;
use std::io::{self, Write as _};

use crate::failure::Failure;

/// Writes `text` as it is to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes `text` and the end of its line to standard output.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Writes `bytes` to standard output.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// What came of writing a result.
pub(crate) fn written(outcome: io::Result<()>) -> Result<(), Failure> {
    outcome.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Output(error),
    })
}

/// Writes a line to standard error.
pub(crate) fn remark(line: &dyn fmt::Display) {
    remark_as_is(&format!("{line}\n"));
}

/// Writes `text` as it is to standard error.
pub(crate) fn remark_as_is(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
