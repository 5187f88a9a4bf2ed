//! Claims and their verdicts, for a terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::path::Path;

use trunkline_engine::catalogue;
use trunkline_lab::campaign::Complete;
use trunkline_lab::experiment::ClaimKind;
use trunkline_lab::number::spread;
use trunkline_lab::report::{Entry, QUICK, Whose, is_asked_first, shortfalls, sign, word};
use trunkline_lab::results::{PointResult, Verdict, named};
use trunkline_lab::verdict::Tally;

/// The width of text, in columns.
const WIDTH: usize = 96;
/// The indentation of text.
const INDENT: usize = 12;
/// Points whose results are printed, for an experiment without claims.
const MAX_POINTS: usize = 12;

/// An experiment's claims, and where its report is.
pub(super) fn of_experiment(complete: &Complete, page: &Path) -> String {
    let experiment = &complete.experiment;
    let quick = if experiment.is_quick() { format!(" ({QUICK})") } else { String::new() };
    let mut text = format!("{}  {}{quick}\n", experiment.id, experiment.title);
    for (claim, outcome) in experiment.claims.iter().zip(&complete.judgement.claims) {
        let whose = if claim.kind == ClaimKind::Ours { " (ours)" } else { "" };
        let what = indented(&format!("{}{whose}", outcome.text));
        text += &["  ", &mark(outcome.verdict), " ", &what, "\n"].concat();
        text += &[&" ".repeat(INDENT), &indented(&outcome.why), "\n"].concat();
    }
    let cells = complete.judgement.cells();
    if cells.total() > 0 {
        text += &["  published values: ", &words(cells), "\n"].concat();
    }
    for short in
        shortfalls(experiment, &complete.judgement).iter().filter(|short| short.whose == Whose::Values)
    {
        text += &["  ", &mark(short.verdict), " ", &indented(&short.what), "\n"].concat();
        if !short.why.is_empty() {
            text += &[&" ".repeat(INDENT), &indented(&short.why), "\n"].concat();
        }
    }
    if experiment.claims.is_empty() && cells.total() == 0 {
        text += &measured(&complete.results);
    }
    text + &format!("  report: {}\n\n", page.display())
}

/// The first results of an experiment without claims.
fn measured(results: &[PointResult]) -> String {
    let mut text = String::new();
    for result in results.iter().take(MAX_POINTS) {
        if !result.point.is_empty() {
            text += &["  ", &named(&result.point), "\n"].concat();
        }
        let shown = || result.metrics.iter().filter(|(name, _)| is_asked_first(name));
        let width = shown().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, estimate) in shown() {
            let unit = catalogue::unit(name).map_or("1", catalogue::Unit::name);
            let _ = writeln!(text, "    {name:width$}  {}", spread(estimate, unit));
        }
    }
    if results.len() > MAX_POINTS {
        let _ = writeln!(text, "  and {} points more, in the report", results.len() - MAX_POINTS);
    }
    text
}

/// The kinds of claims, in the order of [`tallies`].
const KINDS: [&str; 3] = ["claims of the paper", "claims of ours", "published values"];

fn tallies(entry: &Entry) -> [Tally; 3] {
    let [claims, values, ours] = entry.tallies;
    [claims, ours, values]
}

/// A line for each paper, and one for all.
pub(super) fn by_paper(entries: &[Entry]) -> String {
    let mut papers: Vec<(&str, [Tally; 3])> = Vec::new();
    let mut all = [Tally::default(); 3];
    for entry in entries {
        let name = entry.paper.as_deref().unwrap_or("other");
        let place = papers.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            papers.push((name, [Tally::default(); 3]));
            papers.len() - 1
        });
        for sums in [&mut papers[place].1, &mut all] {
            sums.iter_mut().zip(tallies(entry)).for_each(|(sum, tally)| *sum += tally);
        }
    }
    if papers.len() > 1 {
        papers.push(("all", all));
    }
    let mut text = format!(
        "{:<16}{}\n{:<16}{}\n",
        "",
        KINDS.map(|kind| format!("{kind:>24}")).concat(),
        "",
        format!("{:>8}{:>8}{:>8}", "hold", "differ", "fail").repeat(3)
    );
    for (name, tallies) in papers {
        let cells = tallies.map(|tally| {
            [Verdict::Holds, Verdict::Differs, Verdict::Fails]
                .map(|verdict| format!("{:>8}", tally.count(verdict)))
                .concat()
        });
        let undecided: usize = tallies.iter().map(|tally| tally.count(Verdict::Undecided)).sum();
        let rest = if undecided == 0 { String::new() } else { format!("  and {undecided} undecided") };
        text += &[&format!("{name:<16}"), &cells.concat(), &rest, "\n"].concat();
    }
    text
}

/// All verdicts of an experiment, in a line.
pub(super) fn of_entry(entry: &Entry) -> String {
    let some = KINDS.into_iter().zip(tallies(entry)).filter(|(_, tally)| tally.total() > 0);
    let parts: Vec<String> = some.map(|(what, tally)| format!("{what}: {}", words(tally))).collect();
    if parts.is_empty() { "claims nothing".to_owned() } else { parts.join("; ") }
}

fn words(tally: Tally) -> String {
    let [holds, differs, fails, undecided] = tally.parts().map(|(_, count)| count);
    let decided = format!("{holds} hold, {differs} differ, {fails} fail");
    if undecided == 0 { decided } else { format!("{decided}, {undecided} undecided") }
}

/// A verdict as a word of at least nine columns, in colour on a terminal.
fn mark(verdict: Verdict) -> String {
    let colour = match verdict {
        Verdict::Holds => 32,
        Verdict::Differs => 33,
        Verdict::Fails => 31,
        Verdict::Undecided => 36,
    };
    let text = format!("{} {:<7}", sign(verdict), word(verdict));
    if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{colour}m{text}\x1b[0m")
    } else {
        text
    }
}

/// Breaks text into lines that are aligned behind a mark.
fn indented(text: &str) -> String {
    let mut lines = String::new();
    let mut column = INDENT;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > INDENT && column + 1 + width > WIDTH {
            lines.push('\n');
            lines.push_str(&" ".repeat(INDENT));
            column = INDENT;
        } else if column > INDENT {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines
}
