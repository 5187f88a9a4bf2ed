//! Reports: a pure function of what an experiment was and what came of it.
//!
//! ```text
//!  Material ──▶ tables (Grid), plots (Chart) ──▶ Document ──▶ Markdown ──▶ page (HTML)
//!  Entry of each ──▶ index: the same
//! ```
//!
//! A page needs nothing but itself: style, scripts and data are in it, and its content security policy forbids it to load anything. All
//! text of files is untrusted: `document.rs` escapes it.

mod axes;
mod chart;
mod directory;
mod document;
mod explanation;
mod figure;
mod index;
mod material;
mod open;
mod page;
mod paper;
mod shortfall;
mod survivors;
mod table;
mod tcps;
#[cfg(test)]
mod tests;
mod unit;

pub use chart::{Along, Chart, Dot, Kind, Line, Text};
pub use directory::{Answers, ReportError, answered, entry, read, write, write_explanation, write_index};
pub use document::{Align, Document, fenced, plain, table};
pub use explanation::{
    EXPLANATION_JSON, EXPLANATION_MARKDOWN, EXPLANATION_PAGE, explanation, robustness_word, set_up_counts,
    set_up_word, share, value_name,
};
pub use index::{Entry, index};
pub use material::Material;
pub use open::Answered;
pub use page::report;
pub use shortfall::{Said, Shortfall, Whose, shortfalls};
pub use survivors::{MARK, Survivors, note as survivors_note};
pub use table::is_asked_first;
pub use tcps::TcpInUse;

/// An experiment's page, in the directory of its results.
pub const PAGE: &str = "report.html";
/// The same as Markdown.
pub const MARKDOWN: &str = "report.md";
/// The page over all experiments, in the directory above.
pub const INDEX: &str = "index.html";
/// The same as Markdown.
pub const INDEX_MARKDOWN: &str = "index.md";

use crate::number;
use crate::results::{Machine, Verdict};
use crate::verdict::Tally;

/// What stands behind the title of a quick run.
pub const QUICK: &str = "quick run";

/// What a quick run is, at the head of its report.
const QUICK_MEANING: &str = "A quick run: fewer runs, and what else [quick] in the experiment’s file changes, such as shorter runs and fewer points. The verdicts are of these runs. The reasons that the file gives for what does not hold are of full runs and are left out here; run it without --quick for those.";

/// Above what [`tallies`](crate::verdict::Judgement::tallies) counts.
const TALLIES: [&str; 3] = ["the paper’s claims", "the paper’s values", "claims of ours"];

/// `Linux 6.18.5, 2 CPUs, 2026-11-23`.
fn machine(machine: &Machine) -> String {
    let Machine { kernel, cpus, date, .. } = machine;
    format!("Linux {kernel}, {cpus} CPUs, {date}")
}

/// A verdict as a word.
pub const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Differs => "differs",
        Verdict::Fails => "fails",
        Verdict::Undecided => "undecided",
    }
}

/// The same of so many things: three of them `hold`.
fn verb(verdict: Verdict, number: usize) -> &'static str {
    if number == 1 { word(verdict) } else { word(verdict).trim_end_matches('s') }
}

/// `3 hold, 0 differ, 1 fails`: how many came out in each way, those ways that none came out in only if they are always said.
fn counted(tally: Tally, always: &[Verdict]) -> String {
    let said = tally.parts().into_iter().filter(|(verdict, number)| *number > 0 || always.contains(verdict));
    said.map(|(verdict, number)| format!("{number} {}", verb(verdict, number))).collect::<Vec<_>>().join(", ")
}

/// A verdict as a sign, for whoever does not see colours.
pub const fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "✓",
        Verdict::Differs => "≈",
        Verdict::Fails => "✗",
        Verdict::Undecided => "?",
    }
}
