//! What came of all experiments, by paper.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use indexmap::IndexMap;
use maud::{Markup, html};

use super::markdown::{Align, plain, table};
use super::material::Material;
use super::page::{badge, document, inline, tallies};
use super::{PAGE, QUICK, Shortfall, Whose, paper, shortfalls, sign, word};
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
    /// What the paper says.
    pub claims: Tally,
    /// What we say of what the paper left open.
    pub ours: Tally,
    /// The paper's values.
    pub cells: Tally,
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
            claims: material.paper_claims(),
            ours: material.our_claims(),
            cells: material.judgement.cells(),
            shortfalls: shortfalls(experiment, material.judgement),
            quick: experiment.is_quick(),
            runs: material.runs.len(),
            planned: material.planned,
            each: material.most_runs(),
            took: material.took,
        }
    }
}

#[derive(Default)]
struct Sum {
    claims: Tally,
    ours: Tally,
    cells: Tally,
    runs: usize,
    took: Option<Duration>,
}

impl Sum {
    fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut sum = Self::default();
        for entry in entries {
            sum.claims += entry.claims;
            sum.ours += entry.ours;
            sum.cells += entry.cells;
            sum.runs += entry.runs;
            if let Some(took) = entry.took {
                sum.took = Some(sum.took.unwrap_or_default() + took);
            }
        }
        sum
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

fn name(id: Option<&str>) -> &str {
    id.unwrap_or("others")
}

/// In s, min or h.
pub(super) fn time(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    match seconds {
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        _ if seconds < 99.5 => format!("{seconds:.0} s"),
        _ if seconds < 5970.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

const TITLE: &str = "Experiments and what became of their claims";

/// What the verdicts mean.
const MEANING: &str = "Each claim has a condition in the experiment’s file, set down before any run: it holds (✓) if that is true, differs (≈) if a weaker one is, and else it fails (✗). A published value holds if ours is within a factor of it (1.25, unless the file says another) or if it lies in our 95 % interval and that is no wider than the factor allows; it differs within that factor’s square, and else it fails. What has no value in these runs is undecided (?).";

/// `1145 runs, 3 to 10 at each point`.
fn runs(entries: &[Entry], all: &Sum) -> String {
    let each = || entries.iter().map(|entry| entry.each);
    let most = each().max().unwrap_or(0);
    match each().min() {
        Some(least) if least < most => format!("{} runs, {least} to {most} at each point", all.runs),
        _ => format!("{} runs, {most} at each point", all.runs),
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

/// Behind the title of a quick run, and how many of its runs there are if they are not all.
fn remarks(entry: &Entry) -> Vec<String> {
    entry.quick.then(|| QUICK.to_owned()).into_iter().chain(part_of_runs(entry)).collect()
}

/// The page over all experiments. It lies in the directory that has theirs.
pub fn index(entries: &[Entry], version: &str) -> String {
    let papers = by_paper(entries);
    let all = Sum::of(entries);
    let timed = all.took.is_some();
    let body = html! {
        header {
            h1 { (TITLE) }
            p.soft { (entries.len()) " experiments, " (runs(entries, &all)) ", Trunkline " (version)
                @if let Some(took) = all.took { "; they took one processor " (time(took)) } "." }
            @if let Some(quick) = quick(entries) { p.quick { (quick) } }
            (tallies(&[("The papers’ claims", all.claims), ("The papers’ values", all.cells), ("Claims of ours", all.ours)]))
            p.soft.foot { (MEANING) }
        }
        @if papers.len() > 1 {
            section {
                h2 { "By paper" }
                .scroll role="region" aria-label="Verdicts by paper" tabindex="0" { table.plain.papers {
                    thead {
                        tr { th rowspan="2" { "Paper" } th.number rowspan="2" { "Experiments" }
                            @for what in ["The paper’s claims", "The paper’s values", "Claims of ours"] { th.group.column colspan="3" { (what) } }
                            @if timed { th.number.first rowspan="2" { "Time" } } }
                        tr { @for _ in 0..3 { th.number.first { "hold" } th.number { "differ" } th.number { "fail" } } }
                    }
                    tbody { @for (id, entries) in &papers {
                        @let sum = Sum::of(entries.iter().copied());
                        tr { th scope="row" { a href={ "#" (name(*id)) } { (name(*id)) } } td.number { (entries.len()) } (sums(&sum, timed)) }
                    } }
                    tfoot { tr { th scope="row" { "All" } td.number { (entries.len()) } (sums(&all, timed)) } }
                } }
            }
        }
        @for (id, entries) in &papers { (of_paper(*id, entries, timed)) }
    };
    document(TITLE, &body, None)
}

fn sums(sum: &Sum, timed: bool) -> Markup {
    html! { (counts(sum.claims)) (counts(sum.cells)) (counts(sum.ours)) @if timed { td.number.first { (sum.took.map(time).unwrap_or_default()) } } }
}

fn counts(count: Tally) -> Markup {
    let cell = |number: usize, verdict: Verdict| {
        html! { @if number == 0 { span.soft { "0" } } @else { span class=(word(verdict)) { (number) } } }
    };
    let Tally { holds, differs, fails, undecided } = count;
    html! {
        td.number.first { (cell(holds, Verdict::Holds)) }
        td.number { (cell(differs, Verdict::Differs)) }
        td.number { (cell(fails, Verdict::Fails))
            @if undecided > 0 { br; span.undecided { (undecided) " " (word(Verdict::Undecided)) } } }
    }
}

/// `3 ✓ 1 ✗`, of what there is.
fn marks(count: Tally) -> Markup {
    html! { @if count.total() == 0 { span.soft { "–" } } @else {
        @for (verdict, number) in count.parts() { @if number > 0 {
            span class={ "count " (word(verdict)) } title=(word(verdict)) { (number) " " span aria-label=(word(verdict)) role="img" { (sign(verdict)) } } " "
        } }
    } }
}

fn of_paper(id: Option<&str>, entries: &[&Entry], timed: bool) -> Markup {
    html! { section id=(name(id)) {
        h2 { (heading(id)) }
        .scroll role="region" aria-label=(heading(id)) tabindex="0" { table.plain.index {
            thead { tr {
                th { "Experiment" } th { "What" } th.number { "The paper’s claims" } th.number { "The paper’s values" } th.number { "Claims of ours" }
                @if timed { th.number { "Time" } }
            } }
            tbody { @for entry in entries { (row(entry, timed)) } }
        } }
        @if entries.iter().any(|entry| !entry.shortfalls.is_empty()) {
            h3 { "What does not hold, and why" }
            ul.claims { @for entry in entries { @for short in &entry.shortfalls { (shortfall(entry, short)) } } }
        } @else { p.soft { "All of it holds." } }
    } }
}

/// Whose something is, if it is not a claim of the paper.
const fn words(whose: Whose) -> Option<&'static str> {
    match whose {
        Whose::Paper => None,
        Whose::Ours => Some("a claim of ours"),
        Whose::Values => Some("published values"),
    }
}

fn shortfall(entry: &Entry, short: &Shortfall) -> Markup {
    html! { li class=(word(short.verdict)) {
        (badge(short.verdict))
        div {
            p.text { (short.what) }
            p.why { (inline(&short.why)) }
            p.why { a href=(link(&entry.id)) { (entry.id) } @if let Some(whose) = words(short.whose) { " · " (whose) } }
        }
    } }
}

fn row(entry: &Entry, timed: bool) -> Markup {
    html! { tr {
        th scope="row" { a href=(link(&entry.id)) { (entry.id) }
            @for alias in &entry.aliases { br; span.soft { (alias) } } }
        td { (entry.title) @if let Some(source) = &entry.source { br; span.soft { (source) } }
            @if !remarks(entry).is_empty() { br; span.soft { (remarks(entry).join(", ")) } } }
        td.number { (marks(entry.claims)) }
        td.number { (marks(entry.cells)) }
        td.number { (marks(entry.ours)) }
        @if timed { td.number { @if let Some(took) = entry.took { (time(took)) } } }
    } }
}

/// `7 of 10 runs`, if they are not all.
fn part_of_runs(entry: &Entry) -> Option<String> {
    (entry.runs < entry.planned).then(|| format!("{} of {} runs", entry.runs, entry.planned))
}

fn link(id: &str) -> String {
    Path::new(id).join(PAGE).display().to_string()
}

/// The same as Markdown: the verdicts by paper, then each experiment's, then what does not hold and why. It says nothing of the machine
/// and has no links, so that it may lie anywhere.
pub fn index_markdown(entries: &[Entry], version: &str) -> String {
    let papers = by_paper(entries);
    let all = Sum::of(entries);
    let mut text =
        format!("# {TITLE}\n\n{} experiments, {}, Trunkline {version}.", entries.len(), runs(entries, &all));
    if !papers.contains_key(&None) {
        text.push_str(" To have them again, with a page for each: `trunkline lab papers`, or `trunkline lab papers NAME` for one of them or one paper. The simulator gives the same numbers for the same file and seed.");
    }
    if let Some(quick) = quick(entries) {
        let _ = write!(text, "\n\n**{quick}**");
    }
    let _ = write!(text, "\n\n{MEANING}\n\n{}", by_paper_markdown(&papers, &all));
    for (id, entries) in &papers {
        let _ = write!(text, "\n## {}\n\n{}", heading(*id), experiments_markdown(entries));
        if entries.iter().all(|entry| entry.shortfalls.is_empty()) {
            text.push_str("\nAll of it holds.\n");
        } else {
            text.push_str("\n### What does not hold, and why\n\n");
        }
        for (entry, short) in
            entries.iter().flat_map(|entry| entry.shortfalls.iter().map(move |short| (entry, short)))
        {
            text.push_str(&bullet(entry, short));
        }
    }
    text
}

fn by_paper_markdown(papers: &IndexMap<Option<&str>, Vec<&Entry>>, all: &Sum) -> String {
    let heads = ["paper", "experiments", "the paper’s claims", "the paper’s values", "claims of ours"];
    let row = |label: &str, entries: usize, sum: &Sum| {
        let mut row = vec![label.to_owned(), entries.to_string()];
        row.extend([sum.claims, sum.cells, sum.ours].map(marked));
        row
    };
    let mut rows: Vec<Vec<String>> = papers
        .iter()
        .map(|(id, entries)| row(name(*id), entries.len(), &Sum::of(entries.iter().copied())))
        .collect();
    rows.push(row("**all**", papers.values().map(Vec::len).sum(), all));
    table(&heads, &rows, &[Align::Left, Align::Right, Align::Left, Align::Left, Align::Left])
}

fn experiments_markdown(entries: &[&Entry]) -> String {
    let heads = ["experiment", "what", "the paper’s claims", "the paper’s values", "claims of ours"];
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let remarks = remarks(entry).join(", ");
            let remarks = if remarks.is_empty() { remarks } else { format!(" ({remarks})") };
            let mut row = vec![format!("`{}`", entry.id), plain(&format!("{}{remarks}", entry.title))];
            row.extend([entry.claims, entry.cells, entry.ours].map(marked));
            row
        })
        .collect();
    table(&heads, &rows, &[Align::Left; 5])
}

/// `3 ✓ 1 ✗`, of what there is.
fn marked(count: Tally) -> String {
    let parts: Vec<String> = count
        .parts()
        .into_iter()
        .filter(|(_, number)| *number > 0)
        .map(|(verdict, number)| format!("{number} {}", sign(verdict)))
        .collect();
    if parts.is_empty() { "–".into() } else { parts.join(" ") }
}

fn bullet(entry: &Entry, short: &Shortfall) -> String {
    let whose = words(short.whose).map(|words| format!(", {words}")).unwrap_or_default();
    let why = if short.why.is_empty() { String::new() } else { format!("  {}\n", plain(&short.why)) };
    let (verdict, what) = (short.verdict, plain(&short.what));
    format!("- {} **{}**: {what} (`{}`{whose}).\n{why}", sign(verdict), word(verdict), entry.id)
}
