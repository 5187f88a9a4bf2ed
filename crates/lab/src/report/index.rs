//! What came of all experiments, by paper.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use indexmap::IndexMap;

use super::document::{Align, Document, inline, plain, table};
use super::material::Material;
use super::open::{self, Answered, Open};
use super::page::{bullet, time};
use super::{
    PAGE, QUICK, Said, Shortfall, TALLIES, Whose, machine, number, paper, shortfall, shortfalls, sign,
};
use crate::results::Verdict;
use crate::verdict::Tally;

/// A line of the index.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The experiment's id: the name of the directory beside the index, in which its page is.
    pub id: String,
    /// Other names it goes by.
    pub aliases: Vec<String>,
    /// Its title.
    pub title: String,
    /// The paper it is from.
    pub paper: Option<String>,
    /// Where in the paper.
    pub source: Option<String>,
    /// The paper's claims, its values, and claims of ours.
    pub tallies: [Tally; 3],
    /// Published values by which the set-up was chosen. They are not counted.
    pub calibrated: usize,
    /// All that is said, and how it came out.
    pub lines: Vec<Said>,
    /// What of all that does not hold, and why.
    pub shortfalls: Vec<Shortfall>,
    /// Whether it is a quick run.
    pub quick: bool,
    /// Runs.
    pub runs: usize,
    /// How many there are to be.
    pub planned: usize,
    /// The most runs that a point has.
    pub each: u32,
    /// The engine.
    pub engine: String,
    /// The machine, of an engine whose results are not the same on every machine: `Linux 6.18.5, 2 CPUs, 2026-11-23`.
    pub machine: Option<String>,
    /// Points that are not on this engine.
    pub refused: usize,
    /// How long they took.
    pub took: Option<Duration>,
}

impl Entry {
    /// Of an experiment.
    pub fn of(material: &Material) -> Self {
        let experiment = material.experiment;
        Self {
            id: experiment.id.clone(),
            aliases: experiment.aliases.clone(),
            title: experiment.title.clone(),
            paper: experiment.paper.clone(),
            source: experiment.source.clone(),
            tallies: material.judgement.tallies(experiment),
            calibrated: material.judgement.calibrated.len(),
            lines: shortfall::lines(experiment, material.judgement),
            shortfalls: shortfalls(experiment, material.judgement),
            quick: experiment.is_quick(),
            runs: material.runs.len(),
            planned: material.planned,
            each: material.max_runs(),
            engine: material.engine().to_owned(),
            machine: material.machine.map(machine),
            refused: material.refused().len(),
            took: material.took,
        }
    }
}

/// Entries by paper, those without one last.
fn by_paper(entries: &[Entry]) -> IndexMap<Option<&str>, Vec<&Entry>> {
    let mut papers: IndexMap<Option<&str>, Vec<&Entry>> = IndexMap::new();
    for entry in entries {
        papers.entry(entry.paper.as_deref()).or_default().push(entry);
    }
    papers.sort_by(|a, _, b, _| a.is_none().cmp(&b.is_none()));
    papers
}

fn heading(id: Option<&str>) -> String {
    id.map_or_else(|| "Without a paper".into(), |id| paper::citation(id).unwrap_or_else(|| id.to_owned()))
}

const TITLE: &str = "Experiments and what became of their claims";

/// What results of the testbed are.
const REAL_TIME: &str = "On a kernel, in real time (`--engine testbed`): other numbers at each run and on each machine. A point that is *not on this engine* needs something that the kernel does not have; what is said of it is undecided. The machine:";

/// What the verdicts mean.
const MEANING: &str = "Each claim has a condition in the experiment’s file, set down before any run: it holds (✓) if that is true, differs (≈) if a weaker one is, and else it fails (✗). A published value holds if ours is within a factor of it (1.25, unless the file says another) or if it lies in our 95 % interval and that is no wider than the factor allows; it differs within that factor’s square, and else it fails. What has no value in these runs is undecided (?).";

/// `1145 runs, 3 to 10 at each point`.
fn runs(entries: &[Entry]) -> String {
    let all: usize = entries.iter().map(|entry| entry.runs).sum();
    let each = || entries.iter().map(|entry| entry.each);
    let max = each().max().unwrap_or(0);
    match each().min() {
        Some(min) if min < max => format!("{all} runs, {min} to {max} at each point"),
        _ => format!("{all} runs, {max} at each point"),
    }
}

/// What is said where some are quick runs.
fn quick(entries: &[Entry]) -> Option<String> {
    let some = match entries.iter().filter(|entry| entry.quick).count() {
        0 => return None,
        count if count == entries.len() => "All of these are quick runs".to_owned(),
        1 => format!("1 of the {} experiments is a quick run and says so", entries.len()),
        count => format!("{count} of the {} experiments are quick runs and say so", entries.len()),
    };
    Some(format!(
        "{some}: fewer runs, often shorter and at fewer points. Their verdicts are of these runs; the reasons in the files are of full runs and are left out."
    ))
}

/// The report over all experiments: the verdicts by paper, then each experiment's, then what does not hold and why. The page lies in the
/// directory that has theirs, and leads to them. The Markdown has no links, so that it may lie anywhere. Beside them may stand the same
/// experiments by another engine, whose verdicts have a column of their own.
pub fn index(entries: &[Entry], beside: &[Entry], explained: &[Answered], version: &str) -> Document {
    let papers = by_paper(entries);
    let other = Beside { entries: beside };
    let open = Open(explained);
    let mut index = Document::new(TITLE);
    index.add(&format!("{} experiments, {}, Trunkline {version}.", entries.len(), runs(entries)));
    if let Some(took) = entries.iter().filter_map(|entry| entry.took).reduce(|sum, took| sum + took) {
        index.page(&format!("*They took one processor {}.*", time(took)));
    }
    let machines: BTreeSet<&str> = entries.iter().filter_map(|entry| entry.machine.as_deref()).collect();
    if !papers.contains_key(&None) && machines.is_empty() {
        index.file("To have them again, with a page for each: `trunkline lab papers`, or `trunkline lab papers NAME` for one of them or one paper. The simulator gives the same numbers for the same file and seed.");
    }
    if !machines.is_empty() {
        let machines: Vec<&str> = machines.into_iter().collect();
        index.add(&format!("{REAL_TIME} {}.", plain(&machines.join("; "))));
    }
    if let Some(quick) = quick(entries) {
        index.add(&format!("**{quick}**"));
    }
    index.add(MEANING);
    index.add(&table_of_papers(&papers, &other));
    let calibrated: Vec<String> = entries
        .iter()
        .filter(|entry| entry.calibrated > 0)
        .map(|entry| format!("{} of `{}`", entry.calibrated, entry.id))
        .collect();
    if !calibrated.is_empty() {
        let all = entries.iter().map(|entry| entry.calibrated).sum();
        index.add(&format!(
            "Not counted: {} by which what a paper leaves open was chosen ({}).",
            number::count(all, "published value"),
            calibrated.join(", ")
        ));
    }
    open.introduce(&mut index, entries);
    if let Some(remark) = other.remark() {
        index.add(&remark);
    }
    for entry in entries {
        index.link(&entry.id, Path::new(&entry.id).join(PAGE).display().to_string());
    }
    for (id, entries) in &papers {
        index.heading(&heading(*id));
        index.file(&table_of_experiments(entries, &other));
        index.page(&table_of_experiments_with_sources(entries));
        let bullets =
            entries.iter().flat_map(|entry| entry.shortfalls.iter().map(|short| shortfall(entry, short)));
        let bullets: Vec<String> = bullets.collect();
        index.file("### Each verdict");
        index.file(&table_of_lines(entries, &other));
        if bullets.is_empty() {
            index.page("All of it holds.");
        } else {
            index.page("### What does not hold, and why");
            index.page(&bullets.join("\n"));
        }
        let bullets: Vec<String> =
            entries.iter().filter_map(|entry| open.of(entry)).map(open::bullet).collect();
        if !bullets.is_empty() {
            index.add("### What the paper leaves open");
            index.add(&bullets.join("\n"));
        }
        let bullets: Vec<String> = entries.iter().flat_map(|entry| other.shortfalls(entry)).collect();
        if !bullets.is_empty() {
            index.page("### What comes out differently on a kernel");
            index.page(&bullets.join("\n"));
        }
    }
    index
}

/// The same experiments by another engine; none of them if there was none.
struct Beside<'a> {
    entries: &'a [Entry],
}

impl Beside<'_> {
    const HEAD: &'static str = "on a kernel: claims · values · ours";

    fn of(&self, entry: &Entry) -> Option<&Entry> {
        self.entries.iter().find(|other| other.id == entry.id)
    }

    fn remark(&self) -> Option<String> {
        let machines: BTreeSet<&str> =
            self.entries.iter().filter_map(|entry| entry.machine.as_deref()).collect();
        let machines: Vec<&str> = machines.into_iter().collect();
        let quick = if self.entries.iter().any(|entry| entry.quick) { " --quick" } else { "" };
        (!machines.is_empty()).then(|| {
            format!(
                "The last column is of one campaign on real kernels, `trunkline lab papers --engine testbed{quick}`, on {}. What needs a part that the kernel does not have is undecided there.",
                plain(&machines.join("; "))
            )
        })
    }

    /// The head of its column, if there is one.
    fn head(&self) -> Option<&'static str> {
        (!self.entries.is_empty()).then_some(Self::HEAD)
    }

    /// What stands in its column of a row about these.
    fn cell(&self, entries: &[&Entry]) -> Option<String> {
        if self.entries.is_empty() {
            return None;
        }
        let mut sums = [Tally::default(); 3];
        for entry in entries.iter().filter_map(|entry| self.of(entry)) {
            sums.iter_mut().zip(entry.tallies).for_each(|(sum, tally)| *sum += tally);
        }
        Some(sums.map(marks).join(" · "))
    }

    /// Claims that do not hold there and came out in another way here.
    fn shortfalls(&self, entry: &Entry) -> Vec<String> {
        let Some(other) = self.of(entry) else { return Vec::new() };
        let here = |short: &Shortfall| {
            let known = entry.shortfalls.iter().find(|known| known.what == short.what);
            known.map_or(Verdict::Holds, |known| known.verdict)
        };
        let differs = |short: &&Shortfall| {
            short.whose != Whose::Values
                && short.verdict != Verdict::Undecided
                && here(short) != short.verdict
        };
        other.shortfalls.iter().filter(differs).map(|short| shortfall(other, short)).collect()
    }
}

fn table_of_papers(papers: &IndexMap<Option<&str>, Vec<&Entry>>, beside: &Beside<'_>) -> String {
    let heads = ["paper", "experiments"].into_iter().chain(TALLIES).chain(beside.head()).collect::<Vec<_>>();
    let row = |label: &str, entries: &[&Entry]| {
        let mut sums = [Tally::default(); 3];
        for entry in entries {
            sums.iter_mut().zip(entry.tallies).for_each(|(sum, tally)| *sum += tally);
        }
        let start = [label.to_owned(), entries.len().to_string()];
        start.into_iter().chain(sums.map(marks)).chain(beside.cell(entries)).collect::<Vec<_>>()
    };
    let rows = papers.iter().map(|(id, entries)| row(id.unwrap_or("others"), entries));
    let rows: Vec<_> =
        rows.chain([row("**all**", &papers.values().flatten().copied().collect::<Vec<_>>())]).collect();
    let mut aligns = [Align::Left; 6];
    aligns[1] = Align::Right;
    table(&heads, &rows, &aligns[..heads.len()])
}

fn experiment(entry: &Entry) -> Vec<String> {
    let part = (entry.runs < entry.planned).then(|| format!("{} of {} runs", entry.runs, entry.planned));
    let refused = match entry.refused {
        0 => None,
        1 => Some("1 point is not on this engine".to_owned()),
        all if entry.planned == 0 => Some(format!("not on this engine, with all of its {all} points")),
        some => Some(format!("{some} points are not on this engine")),
    };
    let quick = entry.quick.then(|| QUICK.to_owned());
    let remarks: Vec<String> = quick.into_iter().chain(part).chain(refused).collect();
    let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join(", ")) };
    let start = [format!("`{}`", entry.id), plain(&format!("{}{remarks}", entry.title))];
    start.into_iter().chain(entry.tallies.map(marks)).collect()
}

fn table_of_experiments(entries: &[&Entry], beside: &Beside<'_>) -> String {
    let row = |entry: &&Entry| experiment(entry).into_iter().chain(beside.cell(&[*entry])).collect();
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    let heads: Vec<&str> = ["experiment", "what"].into_iter().chain(TALLIES).chain(beside.head()).collect();
    table(&heads, &rows, &[Align::Left; 6][..heads.len()])
}

/// A line for each claim, and for the values of a metric: how it came out by each engine, and why in a sentence.
fn table_of_lines(entries: &[&Entry], beside: &Beside<'_>) -> String {
    let has_other = beside.head().is_some();
    let mut rows = Vec::new();
    for entry in entries {
        let other = beside.of(entry);
        for line in &entry.lines {
            let whose = match line.whose {
                Whose::Paper => "",
                Whose::Ours => " (ours)",
                Whose::Values => " (values)",
            };
            let there = other.and_then(|other| other.lines.iter().find(|there| there.what == line.what));
            let mut row =
                vec![format!("`{}`", entry.id), plain(&format!("{}{whose}", line.what)), marks(line.tally)];
            row.extend(has_other.then(|| there.map_or("–".to_owned(), |there| marks(there.tally))));
            row.push(inline(&line.why));
            rows.push(row);
        }
    }
    let kernel = has_other.then_some("kernel");
    let heads: Vec<&str> =
        ["experiment", "claim", "verdict"].into_iter().chain(kernel).chain(["why"]).collect();
    table(&heads, &rows, &[Align::Left; 5][..heads.len()])
}

/// With their places in the papers, other names, and the time they took.
fn table_of_experiments_with_sources(entries: &[&Entry]) -> String {
    let row = |entry: &&Entry| {
        let mut row = experiment(entry);
        for part in
            entry.source.iter().cloned().chain((!entry.aliases.is_empty()).then(|| entry.aliases.join(", ")))
        {
            row[1] = format!("{} · {}", row[1], plain(&part));
        }
        row.push(entry.took.map(time).unwrap_or_default());
        row
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    let heads: Vec<&str> = ["experiment", "what"].into_iter().chain(TALLIES).chain(["time"]).collect();
    let aligns = [Align::Left, Align::Left, Align::Left, Align::Left, Align::Left, Align::Right];
    table(&heads, &rows, &aligns)
}

/// `3 ✓ 1 ✗`, of what there is.
fn marks(count: Tally) -> String {
    let parts: Vec<String> = count
        .parts()
        .into_iter()
        .filter(|(_, number)| *number > 0)
        .map(|(verdict, number)| format!("{number} {}", sign(verdict)))
        .collect();
    if parts.is_empty() { "–".into() } else { parts.join(" ") }
}

fn shortfall(entry: &Entry, short: &Shortfall) -> String {
    let whose = match short.whose {
        Whose::Paper => "",
        Whose::Ours => ", a claim of ours",
        Whose::Values => ", published values",
    };
    let text = format!("{} (`{}`{whose}).", plain(&short.what), entry.id);
    bullet(short.verdict, &text, &[inline(&short.why)])
}
