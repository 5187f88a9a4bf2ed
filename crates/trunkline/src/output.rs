//! The output of commands: results on standard output, remarks on standard error.
//!
//! No command panics because of its output. `println!` and `eprintln!` panic if the device is full or the reader has gone,
//! so the crate denies both. If a command cannot write a result, it fails: a reader of the file must not take half of it
//! for the whole. If a command cannot write a remark, it drops the remark.

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
    check_written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Turns an error in writing a result into a failure.
pub(crate) fn check_written(outcome: io::Result<()>) -> Result<(), Failure> {
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
