//! `lab watch`: one point of an experiment on the page, simulated there, or with what a run on the testbed measures.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use trunkline_engine::scenario::Scenario;
use trunkline_engine::{Control, Engine, EngineError, Sample, guarded, run_watched};
use trunkline_pages::{Live, Pages, Server};

use super::{point_at, ready, study_of};
use crate::cli::laboratory::WatchArguments;
use crate::failure::Failure;
use crate::output::{print_line, remark};

/// The page is one file, with its scripts inside and a module that it compiles.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Where the page is told what to show.
const WATCH: &str = "watch.json";
/// The time between two frames of a run on the testbed.
const EVERY: Duration = Duration::from_millis(100);
/// How often the end is looked for while nothing runs.
const LOOK: Duration = Duration::from_millis(100);

/// What the page shows.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    title: &'a str,
    text: &'a str,
    /// The place of the point.
    point: usize,
    /// Where frames come from; nowhere, if the page simulates.
    frames: Option<&'a str>,
}

/// What was measured, or what is to be said.
#[derive(Serialize)]
struct Frame<'a> {
    at: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<serde_json::Map<String, serde_json::Value>>,
    notice: Option<&'a str>,
}

pub(super) fn watch(arguments: &WatchArguments) -> Result<(), Failure> {
    let engine = ready(&arguments.on.engine())?;
    let study = study_of(&arguments.changes, &arguments.file, &engine, "nothing is shown")?;
    let point = point_at(&study, &arguments.at)?;
    let mut scenario = study.points[point].scenario.clone();
    trunkline_engine::check(&engine, &scenario).map_err(|error| Failure::Input(error.to_string()))?;
    let page = page(arguments.page.as_deref())?;

    let is_measured = matches!(engine, Engine::Testbed { .. });
    let shown = Shown {
        name: &study.experiment.id,
        title: &study.experiment.title,
        text: &study.text,
        point,
        frames: is_measured.then_some("frames"),
    };
    let shown = serde_json::to_string(&shown).map_err(Failure::doing("cannot show it"))?;
    let server = Server::bind(&arguments.serving.access())?;
    let url = server.url().map_err(Failure::doing("cannot listen"))?;
    let live = Live::default();
    let mut pages = Pages::new(POLICY).file("/", "text/html; charset=utf-8", page);
    pages = pages.json("/watch.json", move || shown.clone());
    if is_measured {
        pages = pages.live("/frames", live.clone());
    }
    print_line(&url)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        if is_measured {
            scenario.series = Some((EVERY, scenario.overview()));
            let seed = study.experiment.seed;
            let (engine, scenario, live, stop) = (&engine, &scenario, &live, &stop);
            scope.spawn(move || measure(engine, scenario, seed, live, stop));
        }
        let served = server.run(pages).map_err(Failure::doing("cannot serve"));
        // A run is taken down before the process ends.
        stop.store(true, Ordering::Relaxed);
        served
    })
}

/// Runs it whenever somebody comes while it does not run.
fn measure(engine: &Engine, scenario: &Scenario, seed: u64, live: &Live, stop: &AtomicBool) {
    let say = |notice: &str| live.send(json(&Frame { at: 0.0, values: None, notice: Some(notice) }));
    let mut seen = 0;
    while !stop.load(Ordering::Relaxed) {
        if !live.wait(seen, LOOK) {
            continue;
        }
        say("the network is made, and the gateways start");
        let show = |sample: &Sample<'_>| {
            let values =
                sample.values.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.into())));
            let frame = Frame { at: sample.at.as_secs_f64(), values: Some(values.collect()), notice: None };
            live.send(json(&frame));
        };
        let control = Control { stop, watch: &show };
        let outcome = guarded(|| run_watched(engine, scenario, seed, control));
        // Whoever has come meanwhile has seen it.
        seen = live.arrivals();
        match outcome {
            Ok(_) => say("the run is over; load the page again for another one"),
            Err(EngineError::Stopped) => {}
            Err(error) => {
                remark(&error);
                say(&error.to_string());
            }
        }
    }
}

fn json(frame: &Frame<'_>) -> String {
    serde_json::to_string(frame).unwrap_or_default()
}

/// The page, told where it finds what to show.
fn page(given: Option<&Path>) -> Result<String, Failure> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => installed().ok_or_else(missing)?,
    };
    let mut page =
        fs::read_to_string(&path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    let Some(head) = page.find("<head>").filter(|_| page.contains("id=\"module\"")) else {
        return Err(Failure::Input(format!("{}: not the page that `web/make` makes", path.display())));
    };
    let mut told = String::new();
    // Writing to a string cannot fail.
    let _ = write!(told, "<meta name=\"watch\" content=\"{WATCH}\">");
    page.insert_str(head + "<head>".len(), &told);
    Ok(page)
}

/// Where the page is, from this program's place: `PREFIX/share/trunkline` of `PREFIX/bin` and of `PREFIX/libexec/trunkline`, and where
/// `web/make` puts it, of a program that cargo has built.
fn installed() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let places = ["../share/trunkline/page.html", "../../share/trunkline/page.html", "../trunkline.html"];
    places
        .iter()
        .map(|place| program.parent().unwrap_or(Path::new("/")).join(place))
        .find(|path| path.is_file())
}

fn missing() -> Failure {
    Failure::Lacking(
        "the page is not installed: `web/make` in the sources makes it as target/trunkline.html, and --page says where it is".to_owned(),
    )
}
