//! Failures of commands: one message and an exit code that names the cause.

use std::fmt;
use std::io;

/// Why a command failed, sorted by what the caller can do about it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user's input is wrong: exit code 2, as for wrong arguments.
    Input(String),
    /// The daemon does not run: exit code 3.
    NotRunning(String),
    /// The machine lacks something that the command needs: exit code 4.
    Lacking(String),
    /// Anything else: exit code 1.
    Other(String),
    /// The command succeeded with warnings: exit code 5.
    Warned,
    /// The command cannot write its result: exit code 6.
    Output(io::Error),
    /// A bound that the file states does not hold: exit code 7.
    #[cfg_attr(
        not(any(feature = "controller", feature = "laboratory")),
        expect(dead_code, reason = "a gateway's file states no bound")
    )]
    Bound(String),
    /// Interrupted by the user: exit code 130.
    #[cfg_attr(
        not(feature = "laboratory"),
        expect(dead_code, reason = "other commands leave signals to the system, which gives the same code")
    )]
    Interrupted,
    /// One of the others, whose message has been printed already.
    Reported(Box<Failure>),
    /// The reader of the result has gone: exit code 141, as of a program that SIGPIPE ends.
    Closed,
}

impl Failure {
    /// What the process ends with.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Other(_) => 1,
            Failure::Input(_) => 2,
            Failure::NotRunning(_) => 3,
            Failure::Lacking(_) => 4,
            Failure::Warned => 5,
            Failure::Output(_) => 6,
            Failure::Bound(_) => 7,
            Failure::Interrupted => 130,
            Failure::Closed => 141,
            Failure::Reported(failure) => failure.code(),
        }
    }

    /// A failure of the step `what`.
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
            | Failure::Bound(text)
            | Failure::Other(text) => f.write_str(text),
            Failure::Warned => f.write_str("there are warnings"),
            Failure::Output(error) => write!(f, "cannot write output: {error}"),
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::Reported(failure) => failure.fmt(f),
            Failure::Closed => f.write_str("the reader of the output has gone"),
        }
    }
}
