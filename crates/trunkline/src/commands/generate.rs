//! `completions` and `man`: made from the definition of the command line, so that they cannot disagree with it.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::cli::{Cli, CompletionsArguments, ManArguments};
use crate::failure::Failure;
use crate::output::print_bytes;

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    // Into memory first: the generator panics where it cannot write, and a pipe may be closed.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    print_bytes(&script)
}

pub(crate) fn man(arguments: &ManArguments) -> Result<(), Failure> {
    if let Some(directory) = &arguments.out {
        let what = format!("cannot write man pages into {}", directory.display());
        return write_pages(directory).map_err(Failure::doing(&what));
    }
    let mut page = Vec::new();
    Man::new(Cli::command()).render(&mut page).map_err(Failure::doing("cannot make the man page"))?;
    print_bytes(&page)
}

fn write_pages(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), directory)
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_page_and_is_completed() {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page).expect("memory takes it");
        let page = String::from_utf8(page).expect("a page is text");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "trunkline", &mut script);
            let script = String::from_utf8(script).expect("a script is text");
            for command in Cli::command().get_subcommands() {
                let name = command.get_name();
                assert!(script.contains(name), "{shell}: {name}");
                assert!(page.contains(&format!("trunkline\\-{name}(1)")), "man: {name}");
            }
        }
    }

    #[test]
    fn no_command_is_hidden_and_each_says_what_it_does() {
        for command in Cli::command().get_subcommands() {
            assert!(!command.is_hide_set(), "{}", command.get_name());
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
