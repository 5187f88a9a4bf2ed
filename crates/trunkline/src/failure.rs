//! How a command fails: with one message and an exit code that means something.

use std::fmt;
use std::process::ExitCode;

/// What went wrong, sorted by what the caller can do about it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user's input is wrong: exit code 2, as for wrong arguments.
    Input(String),
    /// The daemon that was asked is not there: exit code 3.
    NotRunning(String),
    /// The machine lacks something that the command needs: exit code 4.
    Lacking(String),
    /// Anything else: exit code 1.
    Other(String),
    /// Interrupted by the user: exit code 130.
    Interrupted,
    /// One of the others, whose message has been given already.
    Said(Box<Failure>),
}

impl Failure {
    /// Says it on standard error, and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        if !matches!(self, Failure::Said(_)) {
            eprintln!("trunkline: {self}");
        }
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Failure::Other(_) => 1,
            Failure::Input(_) => 2,
            Failure::NotRunning(_) => 3,
            Failure::Lacking(_) => 4,
            Failure::Interrupted => 130,
            Failure::Said(failure) => failure.code(),
        }
    }

    /// Anything that went wrong while doing `what`.
    pub(crate) fn doing<E: fmt::Display>(what: &str) -> impl FnOnce(E) -> Failure {
        let what = what.to_owned();
        move |error| Failure::Other(format!("{what}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(text)
            | Failure::NotRunning(text)
            | Failure::Lacking(text)
            | Failure::Other(text) => f.write_str(text),
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::Said(failure) => failure.fmt(f),
        }
    }
}
