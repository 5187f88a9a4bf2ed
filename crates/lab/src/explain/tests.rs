use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use super::*;
use crate::report;
use crate::results::{Run, SETTING_AXIS};

/// A flood that fills a link of a rate that nobody knows: goodput is that rate.
const FILE: &str = r#"
    id = "sample"
    title = "Sample"
    paper = "lee2002"
    duration = "1 s"
    runs = 3
    nodes = { a = "host", b = "host" }
    links.core = { ends = ["a", "b"], rate = "5 Mbit/s", queue = { discipline = "tail-drop", packets = 20 } }
    traffic.udp = { kind = "udp", from = "a", to = "b", rate = "20 Mbit/s", timing = "poisson" }
    sweep.delay = { paths = ["links.core.delay"], values = ["1 ms", "5 ms"] }
    [unknown.rate]
    label = "rate of the link"
    paths = ["links.core.rate"]
    range = { from = 1, to = 10, unit = "Mbit/s", scale = "log" }
    why = "Not said."
    [unknown.queue]
    paths = ["links.core.queue.packets"]
    values = [10, 20, 40]
    why = "Not said."
    [[published]]
    metric = "udp.goodput"
    unit = "Mbit/s"
    values = [{ at = { delay = "1 ms" }, value = 5 }, { at = { delay = "5 ms" }, value = 2 }]
    [[published]]
    metric = "udp.lost.ratio"
    values = [{ at = { delay = "1 ms" }, value = 0.001 }]
    [[claims]]
    text = "It is more than nothing."
    holds = "all(udp.goodput > 100 kbit/s)"
    [[claims]]
    text = "It is less than 3 Mbit/s."
    holds = "all(udp.goodput < 3 Mbit/s)"
    differs = "all(udp.goodput < 6 Mbit/s)"
    [[claims]]
    text = "It is a gigabit."
    holds = "any(udp.goodput > 1 Gbit/s)"
    [[claims]]
    text = "It is more than 2 Mbit/s."
    holds = "all(udp.goodput > 2 Mbit/s)"
"#;

/// A directory that is gone at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Temporary(std::env::temp_dir().join(format!("trunkline-explain-{}-{number}", std::process::id())))
    }

    fn options(&self) -> Options {
        Options {
            settings: 16,
            least: 16,
            runs: 1,
            seed: 1,
            budget: None,
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

fn ran(options: &Options, stop: &AtomicBool) -> Explained {
    ran_of(Document::parse("sample.toml", FILE).unwrap(), options, stop)
}

fn ran_of(document: Document, options: &Options, stop: &AtomicBool) -> Explained {
    let mut all = Vec::new();
    run(&[document], options, stop, |_| {}, |explained| all.push(explained)).unwrap();
    all.pop().expect("one")
}

fn explained(options: &Options) -> Explanation {
    let explained = ran(options, &AtomicBool::new(false));
    assert!(explained.failures.is_empty() && !explained.interrupted);
    let (_, answer) = explanation(&explained.directory).unwrap().expect("settings");
    answer
}

#[test]
fn values_and_claims_are_told_apart_by_the_set_ups_that_bear_them_out() {
    let temporary = Temporary::new();
    let answer = explained(&temporary.options());
    assert_eq!((answer.settings, answer.runs, answer.full_runs), (16, 1, 3));
    let set_ups: Vec<_> = answer.values.iter().map(|value| value.set_up).collect();
    assert_eq!(set_ups, [SetUp::Holds, SetUp::Some, SetUp::None]);
    // 1.6 to 2.5 of 1 to 10 Mbit/s by ratio: a fifth of the settings.
    let share = answer.values[1].share;
    assert!((2..=4).contains(&share.holding) && share.of == 16, "{share:?}");
    assert!(share.low < 0.2 && share.high > 0.2, "{share:?}");
    let closest = answer.values[1].closest.unwrap();
    assert!(closest.runs == 3 && (1.6e6..2.5e6).contains(&closest.ours), "{closest:?}");
    let claims: Vec<_> =
        answer.claims.iter().map(|claim| (claim.set_up, claim.robustness.unwrap())).collect();
    assert_eq!(
        claims,
        [
            (SetUp::Holds, Robustness::All),
            (SetUp::Some, Robustness::Some),
            (SetUp::None, Robustness::None),
            (SetUp::Holds, Robustness::Most),
        ]
    );
    assert!(answer.claims[1].witness.is_some() && answer.claims[1].differing > 0, "{:?}", answer.claims[1]);
    assert_eq!(answer.counts(), [[1, 1, 1, 0], [2, 1, 1, 0]]);
}

#[test]
fn the_unknown_that_matters_is_found_and_the_other_is_not() {
    let temporary = Temporary::new();
    let answer = explained(&temporary.options());
    let influences = &answer.values[0].influences;
    assert_eq!(influences[0].unknown, "rate");
    assert!(influences[0].rho > 0.99 && influences[0].is_clear(), "{influences:?}");
    let queue = influences.iter().find(|influence| influence.unknown == "queue").unwrap();
    assert!(!queue.is_clear(), "{queue:?}");
}

#[test]
fn the_same_seed_gives_the_same_answer_in_any_number_of_steps() {
    let (one, other, third) = (Temporary::new(), Temporary::new(), Temporary::new());
    let at_once = explained(&one.options());
    explained(&Options { settings: 5, jobs: 1, ..other.options() });
    let more = explained(&Options { begin: Begin::Resume, ..other.options() });
    // The first step confirmed other settings, which count with their first runs now.
    assert_eq!(more, at_once);
    let drawn = |answer: &Explanation| -> Vec<_> {
        answer.samples.iter().map(|sample| (sample.setting, sample.drawn.clone())).collect()
    };
    assert_eq!(explained(&Options { jobs: 1, ..third.options() }), at_once, "whatever the number of threads");
    let again = explained(&Options { begin: Begin::Resume, ..one.options() });
    assert_eq!(again, at_once, "nothing is left to run");
    let reseeded = explained(&Options { seed: 2, begin: Begin::Force, ..one.options() });
    assert_ne!(drawn(&reseeded), drawn(&at_once));
}

#[test]
fn settings_are_run_where_the_papers_values_and_claims_are() {
    let temporary = Temporary::new();
    // Nobody but us asks what there is at 9 ms.
    let swept = FILE.replace("\"5 ms\"] }", "\"5 ms\", \"9 ms\"] }");
    let swept = swept.replace("udp.goodput ", "udp.goodput[delay=\\\"1 ms\\\"] ");
    let ours = "[[claims]]\ntext = \"Ours.\"\nkind = \"ours\"\nholds = \"all(udp.goodput > 0 bit/s)\"\n";
    let swept = format!("{swept}\n{ours}");
    let document = Document::parse("sample.toml", &swept).unwrap();
    let directory = ran_of(document, &temporary.options(), &AtomicBool::new(false)).directory;
    let runs = directory.runs().unwrap();
    let at = |delay: &str, drawn: bool| {
        let is = |run: &&Run| run.point["delay"] == delay && (run.point[SETTING_AXIS] != "0") == drawn;
        runs.iter().filter(is).count()
    };
    assert_eq!((at("9 ms", false), at("9 ms", true)), (3, 0));
    assert!(at("5 ms", true) >= 16, "a value is there");
    let (_, answer) = explanation(&directory).unwrap().unwrap();
    let ours = answer.claims.last().unwrap();
    assert_eq!((ours.set_up, ours.share.of), (SetUp::Holds, 0), "with the file's choice alone");
    assert_eq!(answer.values[1].set_up, SetUp::Some);
}

#[test]
fn what_is_decided_gets_no_more_settings_than_the_least() {
    let temporary = Temporary::new();
    let options = Options { settings: 64, least: 8, ..temporary.options() };
    assert_eq!(explained(&options).settings, 64, "nothing bears out the gigabit");
    let decided = FILE.replace("any(udp.goodput > 1 Gbit/s)", "any(udp.goodput > 1 Mbit/s)");
    let decided = decided.replace("value = 0.001 }", "value = 0.5 }");
    let document = Document::parse("sample.toml", &decided).unwrap();
    let options = Options { begin: Begin::Force, ..options };
    let directory = ran_of(document, &options, &AtomicBool::new(false)).directory;
    let (_, answer) = explanation(&directory).unwrap().unwrap();
    assert_eq!(answer.counts().map(|[.., none, undecided]| none + undecided), [0, 0]);
    assert!(answer.settings < 64, "{}", answer.settings);
}

#[test]
fn a_page_is_made_of_the_directory_alone_and_an_ordinary_report_is_of_our_choice() {
    let temporary = Temporary::new();
    let directory = ran(&temporary.options(), &AtomicBool::new(false)).directory;
    let answer = report::write_explanation(&directory).unwrap().expect("settings");
    let text = fs::read_to_string(directory.path().join(report::EXPLANATION_MARKDOWN)).unwrap();
    for part in [
        "the paper’s values: 1 holds, 1 for some set-up, 1 for none",
        "| rate of the link | 1 to 10 Mbit/s, by ratio | 5 Mbit/s",
        "It is less than 3 Mbit/s.",
        "rate of the link 1.00 (",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let page = fs::read_to_string(directory.path().join(report::EXPLANATION_PAGE)).unwrap();
    assert_eq!(page.matches("class=\"chart\"").count(), 2, "of each value that our choice does not give");
    let json = fs::read_to_string(directory.path().join(report::EXPLANATION_JSON)).unwrap();
    assert_eq!(serde_json::from_str::<Explanation>(&json).unwrap(), answer);
    let entry = report::write(&directory).unwrap();
    assert_eq!((entry.runs, entry.planned), (6, 6), "of the file's own setting");
    let answered = report::answered(&directory).unwrap().unwrap();
    let index = report::index(&[entry], &[], &[answered], "0.1.0").markdown();
    for part in ["| lee2002 ", "2 hold, 1 for some set-up, 1 for none", "“It is a gigabit.” (0 of 16)"] {
        assert!(index.contains(part), "{part}:\n{index}");
    }
}

#[test]
fn the_index_says_which_answers_are_of_quick_runs() {
    let temporary = Temporary::new();
    let mut document = Document::parse("sample.toml", &format!("{FILE}\n[quick]\nruns = 1\n")).unwrap();
    document.quicken().unwrap();
    let options = Options { settings: 4, ..temporary.options() };
    let directory = ran_of(document, &options, &AtomicBool::new(false)).directory;
    let entry = report::write(&directory).unwrap();
    let answered = report::answered(&directory).unwrap().unwrap();
    let index = report::index(&[entry], &[], &[answered], "0.1.0").markdown();
    for part in
        ["What is said of `sample` is of quick runs", "- `sample` (quick run), 4 settings of 2 unknowns."]
    {
        assert!(index.contains(part), "{part}:\n{index}");
    }
}

#[test]
fn the_index_says_what_one_set_up_gives_of_all_experiments_of_a_paper() {
    let temporary = Temporary::new();
    let shared = FILE.replace("[unknown.queue]", "[unknown.queue]\n    shared = true");
    let documents = ["sample-b", "sample-a"].map(|id| {
        let text = shared.replace("id = \"sample\"", &format!("id = \"{id}\""));
        Document::parse("sample.toml", &text).unwrap()
    });
    let mut directories = Vec::new();
    let done = |explained: Explained| directories.push(explained.directory);
    run(&documents, &temporary.options(), &AtomicBool::new(false), |_| {}, done).unwrap();
    let entries: Vec<_> = directories.iter().map(|one| report::write(one).unwrap()).collect();
    let answered: Vec<_> = directories.iter().map(|one| report::answered(one).unwrap().unwrap()).collect();
    let [joint] = &joint(&answered.iter().map(|one| &one.answer).collect::<Vec<_>>())[..] else {
        panic!("one paper")
    };
    assert_eq!(joint.experiments, ["sample-a", "sample-b"]);
    // Each value of the queue, which both have with equal settings.
    assert_eq!((joint.run, joint.values, joint.claims), (3, 6, 8));
    assert!(joint.set_ups.iter().all(|set_up| set_up.settings >= 5 && set_up.at_once <= set_up.given));
    let index = report::index(&entries, &[], &answered, "0.1.0").markdown();
    let row = format!("{} | queue: ", joint.set_ups[0].at_once.of(joint));
    let mut lines = index.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let line = lines.find(|line| line.starts_with("| lee2002 | 2 | 3 |"));
    assert!(line.is_some_and(|line| line.contains(&row)), "{row}:\n{index}");
}

#[test]
fn a_budget_bounds_the_settings_and_an_interrupt_keeps_what_was_run() {
    let temporary = Temporary::new();
    let brief = Options { settings: 4000, budget: Some(Duration::from_millis(300)), ..temporary.options() };
    let began = Instant::now();
    let answer = explained(&brief);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!((8..4000).contains(&answer.settings), "{}", answer.settings);
    let stopped = Temporary::new();
    assert!(ran(&stopped.options(), &AtomicBool::new(true)).interrupted);
    let resumed = explained(&Options { begin: Begin::Resume, ..stopped.options() });
    assert_eq!(resumed.settings, 16);
}

#[test]
fn what_cannot_be_explained_is_told_before_anything_is_run() {
    let temporary = Temporary::new();
    let told = |text: &str, options: &Options| {
        let document = Document::parse("sample.toml", text).unwrap();
        run(&[document], options, &AtomicBool::new(false), |_| {}, |_| {}).unwrap_err().to_string()
    };
    let plain =
        FILE.replace("[unknown.", "[sweep.unused-").split("[sweep.unused-").next().unwrap().to_owned();
    assert_eq!(
        told(&plain, &temporary.options()),
        "sample has no [unknown]: there is nothing that its paper leaves open"
    );
    let wrong = FILE.replace("values = [10, 20, 40]", "values = [10, 0]");
    let error = told(&wrong, &temporary.options());
    assert!(error.contains("where rate = ") && error.contains("queue = 0"), "{error}");
    let many = Options { settings: 70_000, ..temporary.options() };
    assert!(told(FILE, &many).contains("up to 65536"));
    assert!(!temporary.0.exists());
}
