//! What came of all experiments, by paper.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use indexmap::IndexMap;
use maud::{Markup, html};

use super::markdown::{Align, table};
use super::material::Material;
use super::page::{document, tallies};
use super::{PAGE, paper};
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
    /// Runs.
    pub runs: usize,
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
            runs: material.runs.len(),
            took: material.took,
        }
    }
}

#[derive(Default)]
struct Sum {
    claims: Tally,
    ours: Tally,
    cells: Tally,
    took: Option<Duration>,
}

impl Sum {
    fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut sum = Self::default();
        for entry in entries {
            sum.claims += entry.claims;
            sum.ours += entry.ours;
            sum.cells += entry.cells;
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

/// The page over all experiments. It lies in the directory that has theirs.
pub fn index(entries: &[Entry], version: &str) -> String {
    let papers = by_paper(entries);
    let all = Sum::of(entries);
    let timed = all.took.is_some();
    let body = html! {
        header {
            h1 { "Experiments and what became of their claims" }
            p.soft { (entries.len()) " experiments, Trunkline " (version)
                @if let Some(took) = all.took { ", " (time(took)) " of running" } "." }
            (tallies(&[("The papers’ claims", all.claims), ("The papers’ values", all.cells), ("Claims of ours", all.ours)]))
        }
        @if papers.len() > 1 {
            section {
                h2 { "By paper" }
                .scroll { table.plain {
                    thead { tr { th { "Paper" } th.number { "Experiments" } (verdict_heads("Claims")) (verdict_heads("Values")) } }
                    tbody { @for (id, entries) in &papers {
                        @let sum = Sum::of(entries.iter().copied());
                        tr { th scope="row" { a href={ "#" (name(*id)) } { (name(*id)) } } td.number { (entries.len()) } (counts(sum.claims)) (counts(sum.cells)) }
                    } }
                    tfoot { tr { th scope="row" { "All" } td.number { (entries.len()) } (counts(all.claims)) (counts(all.cells)) } }
                } }
            }
        }
        @for (id, entries) in &papers {
            section id=(name(*id)) {
                h2 { (heading(*id)) }
                .scroll { table.plain.index {
                    thead { tr {
                        th { "Experiment" } th { "What" } (verdict_heads("Claims")) th.number { "Values that hold" } th.number { "Ours that hold" }
                        @if timed { th.number { "Time" } }
                    } }
                    tbody { @for entry in entries { (row(entry, timed)) } }
                } }
            }
        }
    };
    document("Experiments and what became of their claims", &body, None)
}

fn verdict_heads(what: &str) -> Markup {
    html! { th.number { (what) " hold" } th.number { "differ" } th.number { "fail" } }
}

fn counts(count: Tally) -> Markup {
    let cell = |number: usize, class: &str| {
        html! { td.number { @if number == 0 { span.soft { "0" } } @else { span class=(class) { (number) } } } }
    };
    html! { (cell(count.holds, "holds")) (cell(count.differs, "differs")) (cell(count.fails, "fails")) }
}

fn part(count: Tally) -> Markup {
    html! { @if count.total() == 0 { span.soft { "–" } } @else { (count.holds) " of " (count.total()) } }
}

fn row(entry: &Entry, timed: bool) -> Markup {
    html! { tr {
        th scope="row" { a href=(link(&entry.id)) { (entry.id) }
            @for alias in &entry.aliases { br; span.soft { (alias) } } }
        td { (entry.title) @if let Some(source) = &entry.source { br; span.soft { (source) } } }
        (counts(entry.claims))
        td.number { (part(entry.cells)) }
        td.number { (part(entry.ours)) }
        @if timed { td.number { @if let Some(took) = entry.took { (time(took)) } } }
    } }
}

fn link(id: &str) -> String {
    Path::new(id).join(PAGE).display().to_string()
}

/// The same as Markdown: the verdicts by paper, then each experiment's.
pub fn index_markdown(entries: &[Entry]) -> String {
    let papers = by_paper(entries);
    let number = |count: usize| count.to_string();
    let sums = |label: String, entries: usize, sum: &Sum| {
        let Sum { claims, cells, ours, .. } = sum;
        let counts =
            [claims.holds, claims.differs, claims.fails, cells.holds, cells.differs, cells.fails, ours.holds];
        let mut row = vec![label, number(entries)];
        row.extend(counts.map(number));
        if let Some(last) = row.last_mut() {
            *last = format!("{last} of {}", ours.total());
        }
        row
    };
    let heads = [
        "paper",
        "experiments",
        "claims hold",
        "differ",
        "fail",
        "values hold",
        "differ",
        "fail",
        "ours hold",
    ];
    let mut rows: Vec<Vec<String>> = papers
        .iter()
        .map(|(id, entries)| sums(name(*id).to_owned(), entries.len(), &Sum::of(entries.iter().copied())))
        .collect();
    rows.push(sums("**all**".into(), entries.len(), &Sum::of(entries)));
    let aligns = [Align::Left].into_iter().chain([Align::Right; 8]).collect::<Vec<_>>();
    let mut text =
        format!("# Experiments and what became of their claims\n\n{}", table(&heads, &rows, &aligns));

    for (id, entries) in &papers {
        let heads = ["experiment", "what", "claims hold", "differ", "fail", "values hold", "ours hold"];
        let rows: Vec<Vec<String>> = entries
            .iter()
            .map(|entry| {
                let of = |count: Tally| match count.total() {
                    0 => "–".to_owned(),
                    total => format!("{} of {total}", count.holds),
                };
                let Tally { holds, differs, fails } = entry.claims;
                let mut row = vec![format!("`{}`", entry.id), entry.title.clone()];
                row.extend([holds, differs, fails].map(number));
                row.extend([of(entry.cells), of(entry.ours)]);
                row
            })
            .collect();
        let aligns: Vec<Align> = [Align::Left; 2].into_iter().chain([Align::Right; 5]).collect();
        let _ = write!(text, "\n## {}\n\n{}", heading(*id), table(&heads, &rows, &aligns));
    }
    text
}
