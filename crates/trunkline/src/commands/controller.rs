//! `controller`: many sites as one document.

use std::fs;
use std::path::Path;

use trunkline_controller::{Document, Plan, json_schema_text, plan};
use trunkline_schema::count;

use crate::cli::{ControllerCommand, NetworkPlanArguments};
use crate::failure::Failure;
use crate::output::{print, print_line};

pub(crate) fn controller(command: &ControllerCommand) -> Result<(), Failure> {
    match command {
        ControllerCommand::Plan(arguments) => show(arguments),
        ControllerCommand::Schema => print(&json_schema_text()),
    }
}

fn show(arguments: &NetworkPlanArguments) -> Result<(), Failure> {
    let before = arguments.from.as_deref().map(read_plan).transpose()?;
    let document =
        Document::read(&arguments.file).map_err(|mistakes| Failure::Input(mistakes.to_string()))?;
    let plan = plan(&document, before.as_ref());
    if arguments.json {
        print_line(&plan.to_json())?;
    } else {
        print(&plan.to_string())?;
    }
    match plan.refused().count() {
        0 => Ok(()),
        refused => Err(Failure::Bound(format!("{} refused", count(refused, "trunk is", "trunks are")))),
    }
}

fn read_plan(path: &Path) -> Result<Plan, Failure> {
    let text =
        fs::read_to_string(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    Plan::parse(&text).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}
