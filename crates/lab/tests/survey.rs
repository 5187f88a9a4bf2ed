//! Surveys: samples that depend on the file, the seed and their number alone, and what becomes of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use trunkline_engine::Engine;
use trunkline_lab::campaign::{self, Event, Study};
use trunkline_lab::document::Document;
use trunkline_lab::store::Begin;
use trunkline_lab::survey::{self, Options, Sample, Surveyed, WORST};

/// Transfers over a link that nobody knows, beside a flood or not.
const FILE: &str = r#"
id = "sample"
title = "Sample"
duration = "4 s"
warm_up = "1 s"
[nodes]
a = "host"
b = "host"
[links.core]
ends = ["a", "b"]
rate = "2 Mbit/s"
delay = "5 ms"
queue = { discipline = "tail-drop", bytes = "30 kB" }
[traffic.tcp]
kind = "bulk"
from = "a"
to = "b"
flows = 2
[traffic.requests]
kind = "requests"
from = "a"
to = "b"
port = 7000
flows = 3
request = "64 B"
response = "64 B"
think = { shape = "exponential", mean = "100 ms" }
[traffic.flood]
kind = "udp"
from = "a"
to = "b"
rate = "300 kbit/s"
timing = "poisson"
enabled = false
[sweep.flood.variants]
without = {}
with = { "traffic.flood.enabled" = true }
[unknown.rate]
paths = ["links.core.rate"]
range = { from = 1, to = 4, unit = "Mbit/s", scale = "log" }
why = "A test."
[unknown.buffer]
paths = ["links.core.queue.bytes"]
range = { from = 5, to = 200, unit = "ms", scale = "log" }
times = "rate"
at_least = "4500 B"
why = "A test."
[unknown.back]
paths = ["links.core.back.rate"]
range = { from = 0.2, to = 1 }
times = "rate"
share = 0.5
why = "A test."
[unknown.steps]
changes = { link = "core", count = [0, 3], at = ["1 s", "3 s"], rate = [0.5, 2], delay = [0.5, 2], loss = ["0 %", "1 %"] }
why = "A test."
[unknown.outages]
changes = { link = "core", count = [1, 1], at = ["1 s", "3 s"], lasting = ["50 ms", "100 ms"], rate = [0, 0] }
share = 0.25
why = "A test."
[survey]
axis = "flood"
baseline = "without"
[survey.measures]
goodput = { metric = "tcp.goodput", better = "more" }
p99 = { metric = "requests.delay.p99", better = "less" }
[[survey.bounds]]
measure = "goodput"
below = 2
at_most = 0.5
[[survey.bounds]]
measure = "goodput"
above = 2
at_most = 0
"#;

/// A directory that is gone at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Temporary(std::env::temp_dir().join(format!("trunkline-survey-{}-{number}", std::process::id())))
    }

    fn options(&self, samples: u32, seed: u32) -> Options {
        Options {
            engine: Engine::Sim,
            samples,
            seed,
            worst: 2,
            jobs: 2,
            out: self.0.clone(),
            begin: Begin::Fresh,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn document() -> Document {
    Document::parse("sample.toml", FILE).expect("a sound file")
}

fn surveyed(samples: u32, seed: u32) -> (Temporary, Surveyed) {
    let temporary = Temporary::new();
    let options = temporary.options(samples, seed);
    let surveyed = survey::run(&document(), &options, &AtomicBool::new(false), |_| {});
    (temporary, surveyed.expect("a survey"))
}

#[test]
fn a_sample_depends_on_its_number_and_the_seed_alone() {
    let [(_a, few), (_b, many), (_c, other)] = [(3, 1), (7, 1), (3, 2)].map(|(n, seed)| surveyed(n, seed));
    assert_eq!(few.survey.samples, many.survey.samples[..3], "however many there are");
    assert_eq!((few.survey.complete, many.survey.complete), (3, 7));
    let properties = |sample: &Sample| sample.properties.clone();
    let differ = few.survey.samples.iter().zip(&other.survey.samples);
    assert!(differ.clone().count() == 3 && differ.clone().all(|(a, b)| properties(a) != properties(b)));
}

#[test]
fn what_is_drawn_is_within_what_the_file_says() {
    let (_temporary, surveyed) = surveyed(32, 3);
    let samples = &surveyed.survey.samples;
    let number = |sample: &Sample, name: &str| {
        trunkline_lab::swept::number(&sample.properties[name]).map(|(_, number)| number)
    };
    let below = samples.iter().filter(|sample| number(sample, "rate").expect("a rate") < 2e6).count();
    assert_eq!(below, 16, "2 Mbit/s is half of the way from 1 to 4 by ratio");
    let with_back = samples.iter().filter(|sample| sample.properties["back"] != "none").count();
    assert_eq!(with_back, 16, "a share of a half");
    for steps in ["0", "1", "2", "3"] {
        let count = samples.iter().filter(|sample| sample.properties["steps"] == steps).count();
        assert_eq!(count, 8, "{steps}");
    }
    assert!(samples.iter().all(|sample| (0.005..=0.2).contains(&number(sample, "buffer").expect("a time"))));
}

/// The metrics of an experiment in a file, by variant.
fn run_alone(file: &Path) -> Vec<(String, f64, f64)> {
    let temporary = Temporary::new();
    let study = Document::read(file).and_then(|document| Study::new(&document)).expect("a sound file");
    let options =
        campaign::Options { engine: Engine::Sim, jobs: 1, out: temporary.0.clone(), begin: Begin::Fresh };
    let campaign = campaign::run(&[study], &options, &AtomicBool::new(false), |_| {}).expect("a run");
    let results = campaign.complete.into_iter().flat_map(|complete| complete.results);
    let of = |metric: &str, result: &trunkline_lab::results::PointResult| result.metrics[metric].mean;
    results
        .map(|result| {
            (result.point["flood"].clone(), of("tcp.goodput", &result), of("requests.delay.p99", &result))
        })
        .collect()
}

#[test]
fn the_file_of_a_worst_sample_has_its_figures_exactly() {
    let (temporary, surveyed) = surveyed(12, 5);
    let survey = &surveyed.survey;
    let worst = survey.worst();
    assert!((2..=4).contains(&worst.len()), "two of each measure: {worst:?}");
    let goodput = &survey.comparisons[0];
    let ratios = |sample: &Sample| sample.ratios["with"]["goodput"];
    let least = survey.samples.iter().min_by(|a, b| ratios(a).total_cmp(&ratios(b))).expect("samples");
    assert_eq!(goodput.worst[0], least.sample);
    assert!((goodput.quantiles[0] - ratios(least)).abs() < 1e-12);
    let files = temporary.0.join("sample").join(WORST);
    assert_eq!(fs::read_dir(&files).expect("files").count(), worst.len());
    for number in worst {
        let sample = &survey.samples[number as usize - 1];
        let own = |variant: &str, measure: &str| sample.values[measure][variant].expect("a value");
        let alone = run_alone(&files.join(survey.file(number)));
        let expected = ["without", "with"]
            .map(|variant| (variant.to_owned(), own(variant, "goodput"), own(variant, "p99")));
        assert_eq!(alone, expected, "sample {number}");
    }
}

#[test]
fn an_interrupt_keeps_what_is_finished_and_the_rest_can_follow() {
    let temporary = Temporary::new();
    let options = temporary.options(8, 1);
    let stop = AtomicBool::new(false);
    let mut finished = 0;
    let part = survey::run(&document(), &options, &stop, |progress| {
        if matches!(progress.event, Event::Finished(_)) {
            finished += 1;
            stop.store(finished >= 6, Ordering::Relaxed);
        }
    });
    let part = part.expect("what there is");
    assert!(part.interrupted);
    assert!((1..8).contains(&part.survey.complete), "{}", part.survey.complete);
    let resumed = Options { begin: Begin::Resume, ..options };
    let mut made = 0;
    let whole = survey::run(&document(), &resumed, &AtomicBool::new(false), |progress| {
        made += usize::from(matches!(progress.event, Event::Finished(_)));
    });
    let whole = whole.expect("a survey");
    assert!(!whole.interrupted && made <= 10, "{made} of 16 runs were left");
    let (_other, at_once) = surveyed(8, 1);
    assert_eq!(whole.survey, at_once.survey);
}

#[test]
fn bounds_hold_or_do_not() {
    let (_temporary, surveyed) = surveyed(4, 1);
    let survey = surveyed.survey;
    let outcomes: Vec<_> =
        survey.bounds.iter().map(|bound| (bound.holds, bound.samples, bound.part)).collect();
    assert_eq!(outcomes, [(false, 4, 1.0), (true, 0, 0.0)], "no flood doubles goodput");
    assert!(!survey.holds());
}

#[test]
fn what_explains_a_ratio_is_found() {
    let (_temporary, surveyed) = surveyed(32, 1);
    let goodput = &surveyed.survey.comparisons[0];
    let first = goodput.influences.first().expect("an influence");
    assert!(first.unknown == "rate" && first.rho > 0.5, "300 kbit/s is less of a fast link: {first:?}");
    let groups = &goodput.groups["rate"];
    assert_eq!(groups.iter().map(|group| group.samples).collect::<Vec<_>>(), [11, 11, 10]);
    let below = |group: &survey::Group| group.parts[0];
    assert!(below(&groups[0]) > below(&groups[2]), "{groups:?}");
}

#[test]
fn mistakes_are_told_before_anything_is_run() {
    for (old, new, said) in [
        (
            "axis = \"flood\"",
            "axis = \"trunk\"",
            "survey.axis: is \"trunk\"; allowed: the name of the only axis",
        ),
        (
            "baseline = \"without\"",
            "baseline = \"none\"",
            "survey.baseline: is \"none\"; allowed: without, with",
        ),
        ("metric = \"tcp.goodput\"", "metric = \"udp.goodput\"", "survey.measures.goodput.metric: "),
        (
            "better = \"less\"",
            "better = \"lower\"",
            "survey.measures.p99.better: is \"lower\"; allowed: \"more\", \"less\"",
        ),
        ("below = 2", "below = 2\nabove = 1", "survey.bounds[0]: has neither below nor above, or both"),
        (
            "measure = \"goodput\"",
            "measure = \"rate\"",
            "survey.bounds[0].measure: is \"rate\"; allowed: goodput, p99",
        ),
        (
            "times = \"rate\"",
            "times = \"steps\"",
            "unknown.buffer.times: is \"steps\"; allowed: an unknown above this one: rate",
        ),
        (
            "at_least = \"4500 B\"",
            "at_least = \"3 ms\"",
            "unknown.buffer.at_least: is \"3 ms\"; allowed: a value in B",
        ),
        (
            "unit = \"ms\", scale",
            "unit = \"kB\", scale",
            "unknown.buffer.times: rate and this have no product",
        ),
        ("share = 0.5", "share = 0", "unknown.back.share: is 0; allowed: a part above 0"),
        (
            "link = \"core\", count = [0, 3]",
            "link = \"wan\", count = [0, 3]",
            "unknown.steps.changes.link: is \"wan\"; allowed: the name of a link",
        ),
        ("count = [0, 3]", "count = [3, 0]", "unknown.steps.changes.count: "),
        ("rate = [0.5, 2]", "rate = [0, 2]", "unknown.steps.changes.rate: "),
        (
            "lasting = [\"50 ms\", \"100 ms\"]",
            "lasting = [\"0 s\", \"1 s\"]",
            "unknown.outages.changes.lasting: ",
        ),
        (
            "queue = {",
            "changes = [{ at = \"1 s\", rate = \"1 Mbit/s\" }]\nqueue = {",
            "unknown.steps.changes.link: is a link with changes of its own",
        ),
    ] {
        assert!(FILE.contains(old), "{old}");
        let told = Document::parse("bad.toml", &FILE.replacen(old, new, 1))
            .and_then(|document| document.plan())
            .err()
            .map(|mistakes| mistakes.to_string())
            .unwrap_or_default();
        assert!(told.contains(said), "{new}:\n{told}");
    }
}

#[test]
fn a_file_that_says_nothing_to_compare_or_to_sample_is_refused() {
    let temporary = Temporary::new();
    let without = |from: &str, to: &str| {
        let (before, rest) = FILE.split_once(from).expect("a part");
        let after = if to.is_empty() { "" } else { &rest[rest.find(to).expect("a part")..] };
        let document = Document::parse("part.toml", &[before, after].concat()).expect("a sound file");
        let options = temporary.options(2, 1);
        survey::run(&document, &options, &AtomicBool::new(false), |_| {}).expect_err("nothing").to_string()
    };
    assert!(without("[survey]", "").contains("sample has no [survey]"));
    assert!(without("[unknown.rate]", "[survey]").contains("sample has no [unknown]"));
    assert!(!temporary.0.join("sample").exists(), "nothing was run");
}
