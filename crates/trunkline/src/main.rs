//! The command line of Trunkline.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod commands;
mod failure;
mod output;

use std::env;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use clap::Parser as _;

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return print_clap_error(&error),
    };
    let outcome = match cli.command {
        Command::Up(arguments) => commands::site::up(&arguments),
        Command::Check(arguments) => commands::check::check(&arguments),
        Command::Doctor(arguments) => commands::doctor::doctor(&arguments),
        Command::Init(arguments) => commands::join::init(&arguments),
        Command::Invite(arguments) => commands::join::invite(&arguments),
        Command::Join(arguments) => commands::join::join(&arguments),
        Command::Leave(arguments) => commands::join::leave(&arguments),
        Command::Status(arguments) => commands::status::status(&arguments),
        Command::Top(arguments) => commands::top::top(&arguments),
        #[cfg(feature = "web")]
        Command::Web(arguments) => commands::web::web(&arguments),
        Command::Reload(arguments) => commands::control::reload(&arguments),
        Command::Down(arguments) => commands::control::down(&arguments),
        Command::Hooks(arguments) => commands::hooks::hooks(&arguments),
        Command::Proxy(arguments) => commands::proxy::proxy(&arguments),
        Command::Unblock(arguments) => commands::unblock::unblock(&arguments),
        #[cfg(feature = "laboratory")]
        Command::Laboratory(command) => commands::laboratory::run(&command),
        Command::Controller(arguments) => commands::controller::controller(&arguments.command),
        Command::Schema => commands::generate::schema(),
        Command::Genkey => commands::keys::genkey(),
        Command::Pubkey => commands::keys::pubkey(),
        Command::Completions(arguments) => commands::generate::completions(&arguments),
        Command::Man(arguments) => commands::generate::man(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

/// Prints the message of a failure on standard error, and returns the exit code.
fn report(failure: &Failure) -> ExitCode {
    match failure {
        // The message or the warnings are printed already, or nobody reads.
        Failure::Reported(_) | Failure::Warned | Failure::Closed => {}
        failure => output::remark(&format_args!("trunkline: {failure}")),
    }
    ExitCode::from(failure.code())
}

/// Where the package of the laboratory has the program with all commands, from this program's place: `/usr/libexec/trunkline/trunkline`
/// from `/usr/bin/trunkline`.
fn whole_program(this: &Path) -> Option<PathBuf> {
    Some(this.parent()?.parent()?.join("libexec/trunkline/trunkline"))
}

/// Goes on as the program with all commands, since this one lacks what was asked for. Returns only if it cannot.
fn run_whole_program(command: &str) -> Failure {
    let program = env::current_exe().ok().and_then(|this| whole_program(&this));
    match program.filter(|program| program.is_file()) {
        Some(program) => {
            let error = process::Command::new(&program).args(env::args_os().skip(1)).exec();
            Failure::Other(format!("cannot run {}: {error}", program.display()))
        }
        None => Failure::Input(format!(
            "this program is the gateway alone, without `{command}`; package trunkline-lab has it, and `cargo build --release` builds it"
        )),
    }
}

/// Prints the help, the version, or the error in the arguments: clap reports all three as errors.
fn print_clap_error(error: &clap::Error) -> ExitCode {
    if let Some(command) = cli::command_elsewhere(error) {
        return report(&run_whole_program(&command));
    }
    let printed = error.print();
    if error.use_stderr() {
        return ExitCode::from(2);
    }
    let printed = printed.and_then(|()| io::stdout().flush());
    output::check_written(printed).map_or_else(|failure| report(&failure), |()| ExitCode::SUCCESS)
}
