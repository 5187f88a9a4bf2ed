//! `controller`: many sites as one document, and what follows it.

mod client;
mod follow;
#[cfg(feature = "controller")]
pub(super) mod manual;
#[cfg(feature = "controller")]
mod server;

use crate::cli::ControllerCommand;
use crate::failure::Failure;

pub(crate) fn controller(command: &ControllerCommand) -> Result<(), Failure> {
    match command {
        #[cfg(feature = "controller")]
        ControllerCommand::Server(command) => server::run(command),
        ControllerCommand::Enrol(arguments) => follow::enrol(arguments),
        ControllerCommand::Follow(arguments) => follow::follow(arguments),
    }
}
