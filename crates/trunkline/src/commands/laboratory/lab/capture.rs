//! `lab capture`: the packets of one run.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use serde::Serialize;
use trunkline_engine::{Captured, Engine, EngineError};
use trunkline_lab::VERSION;
use trunkline_lab::results::{self, Point};

use super::{point_at, study_of};
use crate::cli::laboratory::CaptureArguments;
use crate::commands::laboratory::interrupt;
use crate::failure::Failure;
use crate::output::print_line;

/// What was captured, for programs.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    experiment: &'a str,
    point: &'a Point,
    seed: u64,
    digest: &'a str,
}

pub(super) fn capture(arguments: &CaptureArguments) -> Result<(), Failure> {
    let study = study_of(&arguments.changes, &arguments.file, &Engine::Sim, "nothing was captured")?;
    let planned = &study.points[point_at(&study, &arguments.at)?];
    let seed = arguments.seed.unwrap_or(study.experiment.seed);
    let at = results::at(&planned.point);
    let what = format!("{}{at}, seed {seed}", study.experiment.id);
    let comments = [what.clone(), study.experiment.title.clone()];
    let stop = interrupt::watch(&Engine::Sim)?;
    let out = arguments.out.as_path();
    if out.exists() && !arguments.force {
        return Err(Failure::Input(format!("{} exists; --force replaces it", out.display())));
    }
    let cannot = |error: std::io::Error| Failure::Input(format!("cannot write {}: {error}", out.display()));
    // Half a capture is of no use: the file is put in its place when it is whole.
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let beside = out.with_file_name(format!(".{name}.{}", std::process::id()));
    let captured = Captured {
        links: &arguments.links,
        program: &format!("trunkline {VERSION}"),
        comments: &comments,
        out: Box::new(BufWriter::new(File::create(&beside).map_err(cannot)?)),
    };
    let outcome =
        trunkline_engine::capture(&planned.scenario, seed, captured, stop.flag()).map_err(|error| {
            let _ = fs::remove_file(&beside);
            match error {
                EngineError::Stopped => Failure::Interrupted,
                EngineError::Settings { .. } | EngineError::Misfit { .. } => {
                    Failure::Input(error.to_string())
                }
                other => Failure::Other(other.to_string()),
            }
        })?;
    fs::rename(&beside, out).map_err(cannot)?;
    if arguments.json {
        let report = Report {
            file: out,
            experiment: &study.experiment.id,
            point: &planned.point,
            seed,
            digest: &outcome.digest,
        };
        return print_line(&serde_json::to_string(&report).map_err(Failure::doing("cannot print"))?);
    }
    print_line(&format!("{}: {what}", out.display()))
}
