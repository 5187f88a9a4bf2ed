//! `lab merge`: puts the results of parts of a run together.

use trunkline_lab::campaign;
use trunkline_lab::number::count;
use trunkline_lab::report::{self as reports, Entry, PAGE};
use trunkline_lab::store::{Begin, Directory};

use super::{failure, report, verdicts};
use crate::cli::laboratory::MergeArguments;
use crate::failure::Failure;
use crate::output::{print, remark};

pub(super) fn merge(arguments: &MergeArguments) -> Result<(), Failure> {
    let mut parts = Vec::new();
    for path in &arguments.directories {
        parts.extend(Directory::all_in(path)?);
    }
    let begin = match (arguments.resume, arguments.force) {
        (true, _) => Begin::Resume,
        (_, true) => Begin::Force,
        _ => Begin::Fresh,
    };
    let merged = campaign::merge(&parts, &arguments.out, begin).map_err(failure)?;
    let (mut entries, mut missing): (Vec<Entry>, usize) = (Vec::new(), 0);
    for one in &merged {
        let Some(complete) = &one.complete else {
            missing += one.of - one.runs;
            let directory = arguments.out.join(&one.id);
            remark(&format_args!(
                "trunkline: {}: {} of {} runs; `lab run` with {} --resume --out {} makes the rest",
                one.id,
                one.runs,
                one.of,
                directory.join("experiment.toml").display(),
                arguments.out.display()
            ));
            continue;
        };
        entries.push(reports::write(&complete.directory).map_err(failure)?);
        print(&verdicts::of_experiment(complete, &complete.directory.path().join(PAGE)))?;
    }
    report::index(&arguments.out, &entries)?;
    match missing {
        0 => Ok(()),
        _ => Err(Failure::Other(format!("{} missing", count(missing, "run")))),
    }
}
