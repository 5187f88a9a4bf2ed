//! `completions`, `man` and `schema`: generated from the definition of the command line and from docs/configuration.md, so
//! that they agree with these.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use super::{manual, reference};
use crate::cli::{Cli, CompletionsArguments, ManArguments};
use crate::failure::Failure;
use crate::output::{print, print_bytes};

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    // Into memory first: the generator panics if it cannot write, and the reader may close the pipe.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    print_bytes(&script)
}

pub(crate) fn man(arguments: &ManArguments) -> Result<(), Failure> {
    if let Some(directory) = &arguments.out {
        let what = format!("cannot write man pages into {}", directory.display());
        return write_pages(directory).map_err(Failure::doing(&what));
    }
    let page = page(Cli::command()).map_err(Failure::doing("cannot make the man page"))?;
    print_bytes(&page.text)
}

pub(crate) fn schema() -> Result<(), Failure> {
    print(&reference::schema().map_err(Failure::doing("cannot print"))?)
}

fn write_pages(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    // Subcommands get the names of their pages.
    command.build();
    for page in pages(&command)? {
        fs::write(directory.join(page.file), page.text)?;
    }
    fs::write(directory.join("trunkline.toml.5"), reference::page())
}

/// A man page.
struct Page {
    file: String,
    text: Vec<u8>,
}

/// The pages of a command and of all its subcommands.
fn pages(command: &Command) -> io::Result<Vec<Page>> {
    let mut all = vec![page(command.clone())?];
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        all.extend(pages(command)?);
    }
    Ok(all)
}

fn page(command: Command) -> io::Result<Page> {
    let man = Man::new(command);
    let file = man.get_filename();
    let mut text = Vec::new();
    man.render(&mut text)?;
    text.extend(manual::sections(file.trim_end_matches(".1")).into_bytes());
    Ok(Page { file, text })
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
    fn every_page_has_examples_and_other_pages() {
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        let pages = pages(&command).expect("memory takes them");
        let of_the_laboratory = pages.iter().any(|page| page.file == "trunkline-lab-run.1");
        assert_eq!(of_the_laboratory, cfg!(feature = "laboratory"));
        assert!(pages.len() > if of_the_laboratory { 20 } else { 10 });
        for page in pages {
            let text = String::from_utf8(page.text).expect("a page is text");
            for section in ["EXAMPLES", "SEE ALSO"] {
                assert!(text.contains(&format!("\n.SH {section}\n")), "{}: {section}", page.file);
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
