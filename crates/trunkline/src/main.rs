//! The command line of Trunkline.

mod cli;
mod commands;
mod failure;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Up(arguments) => commands::site::up(&arguments),
        Command::Check(arguments) => commands::site::check(&arguments),
        Command::Status(arguments) => commands::control::status(&arguments),
        Command::Top(arguments) => commands::top::top(&arguments),
        Command::Reload(arguments) => commands::control::reload(&arguments),
        Command::Down(arguments) => commands::control::down(&arguments),
        Command::Demo(arguments) => commands::demo::demo(&arguments),
        Command::Bench(arguments) => commands::bench::bench(&arguments),
        Command::Lab(arguments) => commands::lab::lab(&arguments.command),
        Command::Genkey => commands::keys::genkey(),
        Command::Pubkey => commands::keys::pubkey(),
        Command::Completions(arguments) => commands::generate::completions(&arguments),
        Command::Man(arguments) => commands::generate::man(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
