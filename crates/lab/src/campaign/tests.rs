use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use indexmap::IndexMap;
use trunkline_engine::Engine;

use super::*;
use crate::results::Verdict;

const FILE: &str = r#"
    id = "sample"
    title = "Sample"
    duration = "1 s"
    runs = 4
    nodes = { a = "host", b = "host" }
    links.core = { ends = ["a", "b"], rate = "1 Mbit/s" }
    traffic.tcp = { kind = "bulk", from = "a", to = "b" }
    sweep.rate = { paths = ["links.core.rate"], values = ["1 Mbit/s", "8 Mbit/s", "2 Mbit/s"] }
    [[claims]]
    text = "Goodput is a million."
    holds = "all(tcp.goodput > 900 kbit/s)"
    [[published]]
    metric = "tcp.goodput"
    unit = "Mbit/s"
    values = [{ at = { rate = "8 Mbit/s" }, value = 1 }]
"#;

/// A directory that is gone at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Temporary(std::env::temp_dir().join(format!("trunkline-campaign-{}-{number}", std::process::id())))
    }

    fn options(&self, jobs: usize, begin: Begin) -> Options {
        Options { engine: Engine::Sim, jobs, out: self.0.clone(), begin }
    }

    /// Every file and what is in it, but for how long it took.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.0.join("sample")).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect();
        files.retain(|(name, _)| name != "times.jsonl");
        files.sort();
        files
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn study() -> Study {
    Study::new(&Document::parse("sample.toml", FILE).unwrap()).unwrap()
}

/// A metric that depends on the seed; the rate says which point it is.
fn outcome_of(scenario: &Scenario, seed: u64) -> Outcome {
    let rate = scenario.links[0].ways[0].rate.bits_per_second() as f64;
    let metrics = IndexMap::from([
        ("tcp.goodput".to_owned(), 1e6 + rate / 1e6 + seed as f64 / 7.0),
        ("tcp.delay.mean".to_owned(), f64::NAN),
    ]);
    Outcome { metrics, digest: format!("{seed:x}"), ..Outcome::default() }
}

fn campaign(
    temporary: &Temporary,
    jobs: usize,
    begin: Begin,
    engine: &Runner<'_>,
    stop: &AtomicBool,
) -> Result<Campaign, StoreError> {
    run_with(engine, &[study()], &temporary.options(jobs, begin), stop, |_| {})
}

fn whole(temporary: &Temporary, jobs: usize, begin: Begin) -> Campaign {
    let engine = |scenario: &Scenario, seed| Ok(outcome_of(scenario, seed));
    campaign(temporary, jobs, begin, &engine, &AtomicBool::new(false)).unwrap()
}

#[test]
fn results_are_those_of_the_runs_in_the_order_of_the_sweep() {
    let temporary = Temporary::new();
    let campaign = whole(&temporary, 2, Begin::Fresh);
    let [complete] = campaign.complete.as_slice() else { panic!("{campaign:?}") };
    assert!(!campaign.interrupted && campaign.failures.is_empty());
    let rates: Vec<_> = complete.results.iter().map(|result| result.point["rate"].as_str()).collect();
    assert_eq!(rates, ["1 Mbit/s", "8 Mbit/s", "2 Mbit/s"]);
    let goodput = complete.results[1].metrics["tcp.goodput"];
    assert!((goodput.mean - (1e6 + 8.0 + 2.5 / 7.0)).abs() < 1e-6, "{goodput:?}");
    assert_eq!((complete.results[1].runs, goodput.paper), (4, Some(1e6)));
    assert!(!complete.results[0].metrics.contains_key("tcp.delay.mean"), "nothing that is no number");
    assert_eq!(complete.results[0].claims[0].verdict, Verdict::Holds);
    let kept = fs::read_to_string(temporary.0.join("sample/results.jsonl")).unwrap();
    let kept: Vec<PointResult> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(kept == complete.results);
    let text = fs::read_to_string(temporary.0.join("sample/runs.jsonl")).unwrap();
    assert!(text.lines().count() == 12 && !text.contains("null"), "{text}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let [one, many] = [Temporary::new(), Temporary::new()];
    whole(&one, 1, Begin::Fresh);
    whole(&many, 5, Begin::Fresh);
    assert!(one.files() == many.files());
    let names: Vec<_> = one.files().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["experiment.toml", "metrics.parquet", "results.jsonl", "runs.jsonl", "runs.parquet"]);
}

#[test]
fn how_long_runs_took_is_beside_the_results_and_not_in_them() {
    let temporary = Temporary::new();
    let engine = |scenario: &Scenario, seed| {
        std::thread::sleep(Duration::from_millis(2));
        Ok(outcome_of(scenario, seed))
    };
    let campaign = campaign(&temporary, 2, Begin::Fresh, &engine, &AtomicBool::new(false)).unwrap();
    let directory = &campaign.complete[0].directory;
    let took = directory.took().unwrap().unwrap();
    assert!(took >= Duration::from_millis(24) && took < Duration::from_secs(12), "{took:?}");
    let times = temporary.0.join("sample/times.jsonl");
    assert_eq!(fs::read_to_string(&times).unwrap().lines().count(), 12);
    for name in ["runs.jsonl", "results.jsonl"] {
        assert!(!fs::read_to_string(temporary.0.join("sample").join(name)).unwrap().contains("seconds"));
    }
    fs::remove_file(times).unwrap();
    assert_eq!(directory.took().unwrap(), None);
}

#[test]
fn what_is_gone_on_with_ends_as_if_it_had_not_stopped() {
    let uninterrupted = Temporary::new();
    whole(&uninterrupted, 1, Begin::Fresh);
    for max in 1..12 {
        let temporary = Temporary::new();
        let (stop, count) = (AtomicBool::new(false), AtomicU32::new(0));
        let engine = |scenario: &Scenario, seed| {
            if count.fetch_add(1, Ordering::Relaxed) >= max {
                stop.store(true, Ordering::Relaxed);
                return Err(EngineError::Stopped);
            }
            Ok(outcome_of(scenario, seed))
        };
        let interrupted = campaign(&temporary, 2, Begin::Fresh, &engine, &stop).unwrap();
        assert!(interrupted.interrupted && interrupted.complete.is_empty());
        let text = fs::read_to_string(temporary.0.join("sample/runs.jsonl")).unwrap();
        assert_eq!(text.lines().count(), max as usize);
        let count = AtomicU32::new(0);
        let engine = |scenario: &Scenario, seed| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(outcome_of(scenario, seed))
        };
        campaign(&temporary, 2, Begin::Resume, &engine, &AtomicBool::new(false)).unwrap();
        assert_eq!(count.into_inner(), 12 - max, "nothing is run twice");
        assert!(temporary.files() == uninterrupted.files(), "after {max}");
    }
}

#[test]
fn a_run_that_fails_or_panics_costs_itself_and_is_made_again() {
    let temporary = Temporary::new();
    let engine = |scenario: &Scenario, seed| {
        let rate = scenario.links[0].ways[0].rate.bits_per_second();
        match (rate, seed) {
            (8_000_000, 2) => panic!("as if by mistake"),
            (2_000_000, _) => Err(EngineError::Unknown("none".to_owned())),
            _ => Ok(outcome_of(scenario, seed)),
        }
    };
    let campaign = campaign(&temporary, 2, Begin::Fresh, &engine, &AtomicBool::new(false)).unwrap();
    assert_eq!(campaign.failures.len(), 5);
    let [panicked] = campaign.failures.iter().filter(|failure| failure.panicked).collect::<Vec<_>>()[..]
    else {
        panic!("one panicked")
    };
    assert_eq!((panicked.point["rate"].as_str(), panicked.seed), ("8 Mbit/s", 2));
    assert_eq!(panicked.why, "as if by mistake");
    let runs: Vec<_> = campaign.complete[0].results.iter().map(|result| result.runs).collect();
    assert_eq!(runs, [4, 3]);
    let mended = whole(&temporary, 2, Begin::Resume);
    assert!(mended.failures.is_empty() && mended.complete[0].results.len() == 3);
}

#[test]
fn what_failed_is_told_in_the_same_order_whenever_it_failed() {
    let orders = [1, 4].map(|jobs| {
        let temporary = Temporary::new();
        let engine = |scenario: &Scenario, _| {
            let rate = scenario.links[0].ways[0].rate.bits_per_second();
            // The longest last.
            std::thread::sleep(Duration::from_micros(rate / 2000));
            Err(EngineError::Unknown("none".to_owned()))
        };
        let campaign = campaign(&temporary, jobs, Begin::Fresh, &engine, &AtomicBool::new(false)).unwrap();
        let order = campaign.failures.iter().map(|failure| (failure.seed, failure.point["rate"].clone()));
        order.collect::<Vec<_>>()
    });
    assert_eq!(
        orders[0][..3].iter().map(|(_, rate)| rate.as_str()).collect::<Vec<_>>(),
        ["1 Mbit/s", "2 Mbit/s", "8 Mbit/s"]
    );
    assert_eq!(orders[0], orders[1]);
}

#[test]
fn nothing_is_removed_before_all_directories_are_there_to_write_to() {
    let temporary = Temporary::new();
    whole(&temporary, 1, Begin::Fresh);
    let before = temporary.files();
    let other = Study::new(&Document::parse("other.toml", &FILE.replace("\"sample\"", "\"other\"")).unwrap());
    let studies = [study(), other.unwrap()];
    let held = Hold::take(&temporary.0.join("other")).unwrap();
    let engine = |scenario: &Scenario, seed| Ok(outcome_of(scenario, seed));
    let stop = AtomicBool::new(false);
    let run = || run_with(&engine, &studies, &temporary.options(1, Begin::Force), &stop, |_| {});
    assert!(matches!(run(), Err(StoreError::Busy(_))));
    assert!(temporary.files() == before, "of the first");
    drop(held);
    assert_eq!(run().unwrap().complete.len(), 2);
}

#[test]
fn the_longest_of_several_are_begun_first_and_progress_is_told() {
    let mut told = Vec::new();
    let mut order = |jobs| {
        let (temporary, order) = (Temporary::new(), Mutex::new(Vec::new()));
        let engine = |scenario: &Scenario, seed| {
            order.lock().unwrap().push(scenario.links[0].ways[0].rate.bits_per_second() / 1_000_000);
            Ok(outcome_of(scenario, seed))
        };
        told.clear();
        let options = temporary.options(jobs, Begin::Fresh);
        run_with(&engine, &[study()], &options, &AtomicBool::new(false), |progress| {
            told.push((progress.done, progress.total, progress.left.is_some()));
        })
        .unwrap();
        order.into_inner().unwrap()
    };
    // One of two threads may be late to say that it has begun.
    let several = order(2);
    assert_eq!(several[..3], [8, 8, 8], "{several:?}");
    assert_eq!(order(1), [1, 1, 1, 1, 8, 8, 8, 8, 2, 2, 2, 2], "one at a time, in the order of the sweep");
    assert_eq!((told[0], told[1], told.len()), ((0, 12, false), (1, 12, true), 14));
    assert_eq!(told[13], (12, 12, true));
}

#[test]
fn work_is_what_links_carry() {
    let at = |rate: &str, more: &str| {
        let file = FILE.replace("rate = \"1 Mbit/s\" }", &format!("rate = \"{rate}\" }}{more}"));
        let mut document = Document::parse("sample.toml", &file).unwrap();
        document.set("sweep.rate.values", &format!("[\"{rate}\"]")).unwrap();
        work(&document.plan().unwrap()[0].scenario, &Engine::Sim)
    };
    let alone = at("8 Mbit/s", "");
    assert!((alone - 1000.0).abs() < 1.0, "8 Mbit in packets of 8 kbit: {alone}");
    let udp = "\n traffic.udp = { kind = \"udp\", from = \"a\", to = \"b\", rate = \"4 Mbit/s\" }";
    assert!((at("8 Mbit/s", udp) - alone).abs() < 1.0, "a link carries no more than its rate");
    assert!((at("16 Mbit/s", "") - 2.0 * alone).abs() < 1.0);
}

/// On a kernel the first of two points cannot be: Linux has no Tahoe.
const PARTLY: &str = r#"
    id = "sample"
    title = "Sample"
    duration = "1 s"
    runs = 2
    nodes = { a = "host", b = "host" }
    links.core = { ends = ["a", "b"], rate = "1 Mbit/s" }
    traffic.tcp = { kind = "bulk", from = "a", to = "b", tcp = "mine" }
    tcp.mine = { preset = "linux-6-reno" }
    sweep.recovery = { paths = ["tcp.mine.recovery"], values = ["tahoe", "newreno"] }
    [[claims]]
    text = "The goodput is high everywhere."
    holds = "all(tcp.goodput > 900 kbit/s)"
    [[claims]]
    text = "The goodput is high with NewReno."
    holds = "tcp.goodput[recovery=newreno] > 900 kbit/s"
"#;

#[test]
fn a_point_that_is_not_on_the_engine_is_not_run_and_fails_no_claim() {
    let temporary = Temporary::new();
    let studies = [Study::new(&Document::parse("sample.toml", PARTLY).unwrap()).unwrap()];
    let options = Options { engine: Engine::TESTBED, ..temporary.options(2, Begin::Fresh) };
    let ran = Mutex::new(0);
    let mut totals = Vec::new();
    let engine = |scenario: &Scenario, seed| {
        *ran.lock().unwrap() += 1;
        Ok(outcome_of(scenario, seed))
    };
    let campaign = run_with(&engine, &studies, &options, &AtomicBool::new(false), |progress| {
        totals.push(progress.total);
    });
    let campaign = campaign.unwrap();
    assert_eq!(*ran.lock().unwrap(), 2, "the two runs of one point");
    assert!(totals.iter().all(|total| *total == 2), "{totals:?}");
    assert_eq!(campaign.failures, []);
    let complete = &campaign.complete[0];
    assert_eq!(complete.refused.len(), 1);
    let why = "traffic.tcp asks for recovery tahoe, which Linux does not have";
    assert_eq!(
        (complete.refused[0].point["recovery"].as_str(), complete.refused[0].why.as_str()),
        ("tahoe", why)
    );
    let verdicts: Vec<Verdict> = complete.judgement.claims.iter().map(|claim| claim.verdict).collect();
    assert_eq!(verdicts, [Verdict::Undecided, Verdict::Holds]);
    let undecided = &complete.judgement.claims[0].why;
    assert!(undecided.contains("not on this engine at recovery=tahoe: traffic.tcp asks for"), "{undecided}");
    // A report of the directory alone says the same.
    let machine = complete.directory.machine().unwrap().expect("a machine");
    assert_eq!(machine.refused, complete.refused);
    let entry = crate::report::write(&complete.directory).unwrap();
    assert_eq!((entry.refused, entry.planned, entry.runs, entry.engine.as_str()), (1, 2, 2, "testbed"));
    let report = fs::read_to_string(complete.directory.path().join(crate::report::MARKDOWN)).unwrap();
    assert!(report.contains("Not on this engine:") && report.contains(why), "{report}");
    assert!(report.contains(&machine.date) && report.contains(&machine.kernel), "{report}");
    let index = crate::report::index(&[entry], &[], &[], VERSION).markdown();
    assert!(index.contains("1 point is not on this engine") && index.contains(&machine.kernel), "{index}");
}
