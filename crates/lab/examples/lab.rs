//! Runs one experiment and prints what it asks for, without the rest of Trunkline:
//! `cargo run --release -p trunkline-lab --example lab -- FILE [--quick] [--runs N] [--set PATH=VALUE]... [--all]`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use trunkline_lab::campaign::{self, Complete, Event, Options, Study};
use trunkline_lab::document::Document;
use trunkline_lab::engine::EngineKind;
use trunkline_lab::store::Begin;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let (mut file, mut sets, mut quick, mut all) = (None, Vec::new(), false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--quick" => quick = true,
            "--all" => all = true,
            "--runs" => sets.push(("runs".to_owned(), value()?)),
            "--set" => {
                let set = value()?;
                let (path, value) = set.split_once('=').ok_or("--set PATH=VALUE")?;
                sets.push((path.to_owned(), value.to_owned()));
            }
            _ => file = Some(argument),
        }
    }
    let mut document =
        Document::read(Path::new(&file.ok_or("which file?")?)).map_err(|error| error.to_string())?;
    if quick {
        document.quicken().map_err(|error| error.to_string())?;
    }
    for (path, value) in &sets {
        document.set(path, value).map_err(|error| error.to_string())?;
    }
    let study = Study::new(&document).map_err(|error| error.to_string())?;
    let out = std::env::temp_dir().join(format!("trunkline-lab-{}", std::process::id()));
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { engine: EngineKind::Sim, jobs, out: out.clone(), begin: Begin::Fresh };
    let begin = std::time::Instant::now();
    let campaign = campaign::run(&[study], &options, &AtomicBool::new(false), |progress| {
        if let Event::Finished(_) = progress.event {
            eprint!("\r{} of {} ", progress.done, progress.total);
        }
    });
    eprintln!("\r{:.1} s            ", begin.elapsed().as_secs_f64());
    // The results were only printed.
    let _ = std::fs::remove_dir_all(&out);
    let campaign = campaign.map_err(|error| error.to_string())?;
    for failure in &campaign.failures {
        println!("FAILED at {:?}, seed {}: {}", failure.point, failure.seed, failure.why);
    }
    for complete in &campaign.complete {
        print(complete, all);
    }
    Ok(())
}

/// Metrics of tables, figures, published values and claims; or `all`.
fn print(complete: &Complete, all: bool) {
    let experiment = &complete.experiment;
    let rows = experiment.tables.iter().flat_map(|table| &table.metrics);
    let rows = rows.chain(experiment.figures.iter().flat_map(|figure| &figure.metrics));
    let mut wanted: BTreeSet<&str> = rows.map(|row| row.metric.as_str()).collect();
    wanted.extend(experiment.published.iter().map(|published| published.metric.as_str()));
    let conditions: Vec<&str> = experiment
        .claims
        .iter()
        .flat_map(|claim| [Some(claim.holds.as_str()), claim.differs.as_deref()].into_iter().flatten())
        .collect();
    for result in &complete.results {
        let point: Vec<_> = result.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        println!("== {} ({} runs, {})", point.join(", "), result.runs, result.digest);
        for (name, estimate) in &result.metrics {
            let claimed = conditions.iter().any(|condition| condition.contains(name.as_str()));
            if all || claimed || wanted.contains(name.as_str()) {
                let interval = estimate.ci95.map(|half| format!(" ± {half:.4}")).unwrap_or_default();
                let paper = estimate.paper.map(|paper| format!("   paper {paper}")).unwrap_or_default();
                println!("   {name:<44} {:.6}{interval}{paper}", estimate.mean);
            }
        }
    }
    for (claim, outcome) in experiment.claims.iter().zip(&complete.judgement.claims) {
        println!("{:?} ({:?}): {}\n     {}", outcome.verdict, claim.kind, outcome.text, outcome.why);
    }
    for cell in &complete.judgement.comparisons {
        let ratio = cell.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        println!("{:?}: {} at {:?}: ratio {ratio}", cell.verdict, cell.metric, cell.point);
    }
}
