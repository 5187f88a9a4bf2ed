//! The laboratory: what only a build with the feature `laboratory` has.

mod bench;
mod interrupt;
mod lab;
pub(super) mod manual;
mod progress;

use crate::cli::laboratory::LaboratoryCommand;
use crate::failure::Failure;

pub(crate) fn run(command: &LaboratoryCommand) -> Result<(), Failure> {
    match command {
        LaboratoryCommand::Demo(arguments) => lab::demo(arguments),
        LaboratoryCommand::Bench(arguments) => bench::bench(arguments),
        LaboratoryCommand::Lab(arguments) => lab::lab(&arguments.command),
    }
}
