//! An experiment's page.

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use serde_json::{Value, json};

use super::figure::{self, Chart};
use super::material::Material;
use super::table::{self, Grid, GridCell};

use super::{INDEX, QUICK_MEANING, axes, index, number, paper, prose, sign, told, verb, word};
use crate::catalogue::Unit;
use crate::experiment::{Claim, ClaimKind};
use crate::results::{ClaimOutcome, Verdict};
use crate::verdict::Tally;

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const CHARTS: &str = include_str!("../../assets/charts/echarts.min.js");

/// Nothing is loaded from anywhere, whatever is in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// Said where runs of a point are all the same.
pub(super) const REPEATS: &str =
    "A value without ± is the same in all runs where there are several: nothing in that network is random.";

/// Tables with more rows than this scroll in a window of their own.
const ROWS_WHOLE: usize = 60;

/// Tables with more rows than this are folded: so many are shown, and all on demand.
const ROWS_UNFOLDED: usize = 40;
const ROWS_FIRST: usize = 12;

/// Tables with more columns than this have the paper's values below ours, not beside them.
const COLUMNS_BESIDE: usize = 3;

/// Tables with more columns than this are set closer.
const COLUMNS_WIDE: usize = 5;

/// JSON inside a script element: nothing in it ends the element.
fn embedded(data: &impl Serialize) -> PreEscaped<String> {
    let json = serde_json::to_string(data).unwrap_or_else(|_| "{}".into());
    PreEscaped(json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
}

/// A whole page. Only one that has data has scripts.
pub(super) fn document(title: &str, body: &Markup, data: Option<&Value>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (body) }
                @if let Some(data) = data {
                    script type="application/json" id="data" { (embedded(data)) }
                    @if data["charts"].as_array().is_some_and(|charts| !charts.is_empty()) { script { (PreEscaped(CHARTS)) } }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        }
    };
    page.into_string()
}

/// An experiment's page.
pub fn page(material: &Material) -> String {
    let experiment = material.experiment;
    let (charts, missing) = figure::all(material);
    let body = html! {
        (head(material))
        @if !experiment.description.is_empty() { section.prose { (prose::html(&experiment.description)) } }
        (claims(material))
        (tables(material))
        @if !charts.is_empty() || !missing.is_empty() {
            section.figures {
                h2 { "Figures" }
                noscript { p.soft { "Plots are drawn by a script. Without one, the numbers are in the tables below each title." } }
                @for (place, chart) in charts.iter().enumerate() { (plot(place, chart)) }
                @for title in &missing { p.soft { "There is nothing to draw of “" (title) "” in these results." } }
            }
        }
        @if !experiment.notes.is_empty() { section.prose { h2 { "Notes" } @if experiment.is_quick() { p.soft { "Written of full runs." } } (prose::html(&experiment.notes)) } }
        (metrics(material))
        (configuration(material))
        (again(material))
    };
    let data = json!({ "charts": charts, "metrics": all_metrics(material) });
    document(&experiment.title, &body, Some(&data))
}

fn head(material: &Material) -> Markup {
    let experiment = material.experiment;
    html! { header {
        nav { a href={ "../" (INDEX) } { "All experiments" } " / " code { (experiment.id) }
            @if !experiment.aliases.is_empty() { ", also " (experiment.aliases.join(", ")) } }
        h1 { (experiment.title) }
        @if experiment.is_quick() { p.quick { (QUICK_MEANING) } }
        @if let Some(id) = &experiment.paper {
            p.soft { (paper::citation(id).unwrap_or_else(|| id.clone())) @if let Some(source) = &experiment.source { ", " (source) } }
        } @else if let Some(source) = &experiment.source { p.soft { (source) } }
        (tallies(&[
            ("The paper’s claims", material.paper_claims()),
            ("The paper’s values", material.judgement.cells()),
            ("Claims of ours", material.our_claims()),
        ]))
        p.soft { (runs(material)) ", engine " code { (material.engine()) } ", Trunkline " (material.version())
            @if let Some(took) = material.took { ", " (index::time(took)) " of running" } "." }
    } }
}

/// `5 runs at each of 2 points, seeds 1 to 5`; `7 of 10 runs, …` of a campaign that is not complete.
pub(super) fn runs(material: &Material) -> String {
    let made = material.runs.len();
    if made < material.planned {
        return format!("{made} of {} runs: what has finished so far", material.planned);
    }
    let (runs, points) = (material.most_runs(), material.results.len());
    let seeds = match material.seeds() {
        Some((first, last)) if first == last => format!(", seed {first}"),
        Some((first, last)) => format!(", seeds {first} to {last}"),
        None => String::new(),
    };
    let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    match points {
        1 => format!("{runs}{seeds}"),
        _ => format!("{runs} at each of {points} points{seeds}"),
    }
}

/// How many hold, differ and fail, of several things.
pub(super) fn tallies(counts: &[(&str, Tally)]) -> Markup {
    let part = |(verdict, count): (Verdict, usize)| {
        html! { span class={ "tally " (word(verdict)) @if count == 0 { " none" } } {
            span.sign aria-hidden="true" { (sign(verdict)) } " " b { (count) } " " (verb(verdict, count))
        } }
    };
    html! { .tiles { @for (what, count) in counts.iter().filter(|(_, count)| count.total() > 0) {
        .tile {
            h2 { (what) }
            p { @for one in told(*count) { (part(one)) } }
        }
    } } }
}

pub(super) fn badge(verdict: Verdict) -> Markup {
    html! { span class={ "badge " (word(verdict)) } { span.sign aria-hidden="true" { (sign(verdict)) } " " (word(verdict)) } }
}

/// A sentence in which code stands between backticks.
pub(super) fn inline(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    html! { @if parts.len().is_multiple_of(2) { (text) } @else {
        @for (place, part) in parts.iter().enumerate() { @if place.is_multiple_of(2) { (part) } @else { code { (part) } } }
    } }
}

fn claims(material: &Material) -> Markup {
    let claims = || material.experiment.claims.iter().zip(&material.judgement.claims);
    let of = |kind: ClaimKind| claims().filter(move |(claim, _)| claim.kind == kind);
    html! { @if !material.judgement.claims.is_empty() { section {
        h2 { "Claims" }
        @let ours = if of(ClaimKind::Paper).next().is_some() { "We say, of what the paper left open" } else { "We say" };
        @for (kind, heading) in [(ClaimKind::Paper, "The paper says"), (ClaimKind::Ours, ours)] {
            @if of(kind).next().is_some() {
                h3 { (heading) }
                ul.claims { @for (claim, outcome) in of(kind) { (one_claim(claim, outcome, reason(material, claim, outcome))) } }
            }
        }
    } } }
}

/// What the file gives as the reason, if it is of these runs and not quoted already.
fn reason<'a>(material: &Material<'a>, claim: &'a Claim, outcome: &ClaimOutcome) -> Option<&'a str> {
    let why = claim.why.as_deref().filter(|why| !outcome.why.contains(why))?;
    (outcome.verdict != Verdict::Holds && !material.experiment.is_quick()).then_some(why)
}

fn one_claim(claim: &Claim, outcome: &ClaimOutcome, reason: Option<&str>) -> Markup {
    html! { li class=(word(outcome.verdict)) {
        (badge(outcome.verdict))
        div {
            p.text { (outcome.text) }
            p.why { (inline(&outcome.why)) }
            @if let Some(why) = reason { p.why { "Why, we believe: " (inline(why)) } }
            details {
                summary { "The condition" }
                p.soft { "Holds if " code { (claim.holds) } }
                @if let Some(differs) = &claim.differs { p.soft { "Differs if " code { (differs) } } }
            }
        }
    } }
}

fn tables(material: &Material) -> Markup {
    let grids = table::all(material);
    html! { @if !grids.is_empty() { section {
        h2 { "Tables" }
        @for grid in &grids { (one_table(grid)) }
        @if material.most_runs() > 1 { p.soft.foot { "± is half of the 95 % interval of the mean; where there is none, all runs gave the same." } }
        @else { p.soft.foot { "Of a single run, so without an interval." } }
        @if material.repeats() { p.soft.foot { (REPEATS) } }
        @if grids.iter().any(Grid::compares) {
            p.soft.foot { "A value of the paper holds if ours is within the factor that the experiment’s file says (1.25, if it says none), or if it lies in our interval and that is no wider than the factor allows; it differs within that factor’s square, and else it fails." }
        }
    } } }
}

fn one_table(grid: &Grid) -> Markup {
    html! {
        h3 { (grid.title) }
        @if grid.rows.len() > ROWS_UNFOLDED {
            (cells(&grid.first(ROWS_FIRST)))
            details { summary { "All " (grid.rows.len()) " rows" } (cells(grid)) }
        } @else { (cells(grid)) }
        @for (metrics, why) in &grid.reasons { p.why { "Why ours differs (" (metrics.join("; ")) "): " (inline(why)) } }
        @if grid.is_extract { p.soft.foot { "What people ask first. Every metric is under All metrics below." } }
    }
}

/// A table without what stands around it.
fn cells(grid: &Grid) -> Markup {
    let compares = grid.compares();
    let beside = compares && grid.columns.len() <= COLUMNS_BESIDE;
    let named = grid.columns.iter().any(|column| !column.is_empty());
    // Up to three rows of headings: what the columns are, each column, and what is in it.
    let deep = usize::from(grid.across.is_some()) + usize::from(named) + usize::from(beside || !named);
    let spans: Vec<usize> = (0..grid.columns.len())
        .map(|column| if beside && grid.column_compares(column) { 3 } else { 1 })
        .collect();
    let whole: usize = spans.iter().sum();
    let heads = html! { @for head in &grid.heads { th rowspan=[(deep > 1).then_some(deep)] { (head) } } };
    html! {
        .scroll.long[grid.rows.len() > ROWS_WHOLE] role="region" aria-label=(grid.title) tabindex="0" { table.dense[whole > COLUMNS_WIDE] {
            thead {
                @if let Some(axis) = &grid.across { tr { (heads) th.column.group colspan=(whole) { (axis) } } }
                @if named { tr {
                    @if grid.across.is_none() { (heads) }
                    @for (column, span) in grid.columns.iter().zip(&spans) {
                        th.column.group[*span > 1].number[*span == 1] colspan=[(*span > 1).then_some(*span)] { (column) }
                    }
                } }
                @if beside || !named { tr {
                    @if !named { (heads) }
                    @for span in &spans { th.number.first { (if compares { "ours" } else { "value" }) } @if *span > 1 { th.number { "paper" } th.number { "ratio" } } }
                } }
            }
            tbody { @for (row, labels) in grid.rows.iter().zip(grid.spans()) { tr.start[labels.len() > 1 && labels[0].is_some()] {
                @for (label, span) in row.labels.iter().zip(&labels) {
                    @match span {
                        Some(1) => { th scope="row" { (label) } }
                        Some(span) => { th scope="rowgroup" rowspan=(span) { (label) } }
                        None => {}
                    }
                }
                @for (cell, span) in row.cells.iter().zip(&spans) {
                    @if *span > 1 { (side_by_side(cell)) } @else { (stacked(cell)) }
                }
            } } }
        } }
    }
}

fn value(cell: &GridCell) -> Markup {
    html! { @match &cell.ours {
        Some((mean, half)) => { span title=[cell.range.as_ref()] { (mean) @if let Some(half) = half { " " span.half { "± " (half) } } } }
        None => { span.soft { "–" } }
    } }
}

fn verdict_of(paper: &table::Beside) -> Markup {
    html! { span class={ "mark " (word(paper.verdict)) } {
        @if let Some(ratio) = &paper.ratio { (ratio) " " }
        span.sign aria-hidden="true" { (sign(paper.verdict)) } " " (word(paper.verdict))
    } }
}

fn side_by_side(cell: &GridCell) -> Markup {
    html! {
        td.number.first { (value(cell)) }
        @match &cell.paper {
            Some(paper) => { td.number { (paper.value) } td.number { (verdict_of(paper)) } }
            None => { td {} td {} }
        }
    }
}

fn stacked(cell: &GridCell) -> Markup {
    html! { td.number.column {
        (value(cell))
        @if let Some(paper) = &cell.paper { .beside { "paper " (paper.value) } .beside { (verdict_of(paper)) } }
    } }
}

fn plot(place: usize, chart: &Chart) -> Markup {
    let text = &chart.text;
    html! { figure {
        h3 { (text.title) }
        .chart data-chart=(place) {
            .legend {}
            p.axis.up { (chart.y.title) }
            .plot role="img" aria-label=(chart.description()) {}
            p.axis.along { (chart.x.title) }
        }
        figcaption {
            @if let Some(caption) = &text.caption { p.caption { (caption) } }
            @if !text.notes.is_empty() { p.soft { (text.notes.join(" ")) } }
        }
        details {
            summary { "In numbers" }
            .scroll.long[text.rows.len() > ROWS_WHOLE] role="region" aria-label={ (text.title) ", in numbers" } tabindex="0" { table.dense[text.heads.len() > COLUMNS_WIDE] {
                thead { tr { @for (column, head) in text.heads.iter().enumerate() { th.number[column > 0] { (head) } } } }
                tbody { @for row in &text.rows { tr {
                    @for (column, cell) in row.iter().enumerate() { @if column == 0 { th scope="row" { (cell) } } @else { td.number { (cell) } } }
                } } }
            } }
        }
    } }
}

/// Every metric at every point, for the table that the script fills.
fn all_metrics(material: &Material) -> Value {
    let points: Vec<String> =
        material.results.iter().map(|result| axes::point_label(material.experiment, &result.point)).collect();
    let names: indexmap::IndexSet<&String> =
        material.results.iter().flat_map(|result| result.metrics.keys()).collect();
    let rows: Vec<Value> = material
        .results
        .iter()
        .enumerate()
        .flat_map(|(point, result)| {
            result.metrics.iter().map(move |(name, estimate)| (point, name, estimate))
        })
        .map(|(point, name, estimate)| {
            let brief = |value: f64| json!(number::brief(value));
            json!([
                point,
                names.get_index_of(name),
                brief(estimate.mean),
                estimate.ci95.map(number::brief),
                brief(estimate.min),
                brief(estimate.max)
            ])
        })
        .collect();
    let units: Vec<&str> = names.iter().map(|name| unit(name)).collect();
    json!({ "points": points, "names": names, "units": units, "rows": rows })
}

fn unit(metric: &str) -> &'static str {
    match Unit::of(metric) {
        Unit::Second => "s",
        Unit::Byte => "B",
        Unit::BitPerSecond => "bit/s",
        Unit::Ratio | Unit::Count => "",
    }
}

fn metrics(material: &Material) -> Markup {
    let names: usize = material.results.first().map_or(0, |result| result.metrics.len());
    html! { @if names > 0 { section {
        details.metrics {
            summary { h2 { "All metrics" } }
            p.soft { "In s, B, bit/s, or 1 for counts and shares." noscript { " This table needs a script; the same is in results.jsonl." } }
            p { label { "Show those with " input type="search" placeholder="goodput with" autocomplete="off"; } " " output.soft {} }
            .scroll.long role="region" aria-label="All metrics" tabindex="0" { table {
                thead { tr { th { "Point" } th { "Metric" } th.number { "Mean" } th.number { "± (95 %)" } th.number { "Least" } th.number { "Most" } th { "DisplayUnit" } } }
                tbody {}
            } }
        }
    } } }
}

fn configuration(material: &Material) -> Markup {
    html! { section {
        h2 { "Configuration" }
        p.soft { "As it ran: what was set on the command line is in it." }
        details { summary { "The experiment’s file" } pre { code { (material.document) } } }
        @if !material.tcps.is_empty() {
            details { summary { "Every TCP, with all of its settings" } (tcps(material)) }
        }
    } }
}

fn tcps(material: &Material) -> Markup {
    let tcps = material.tcps;
    let keys: indexmap::IndexSet<&String> =
        tcps.iter().flat_map(|tcp| tcp.settings.iter().map(|(key, _)| key)).collect();
    let value = |tcp: &super::TcpInUse, key: &String| {
        tcp.settings
            .iter()
            .find(|(known, _)| known == key)
            .map_or_else(|| "–".to_owned(), |(_, value)| value.clone())
    };
    html! { .scroll role="region" aria-label="Settings of every TCP" tabindex="0" { table.plain {
        thead { tr { th { "Setting" } @for tcp in tcps { th { (tcp.users.join(", ")) } } } }
        tbody { @for key in keys {
            @let values: Vec<String> = tcps.iter().map(|tcp| value(tcp, key)).collect();
            tr.differ[values.iter().any(|value| *value != values[0])] { th scope="row" { code { (key) } } @for value in &values { td { (value) } } }
        } }
    } } }
}

/// What to type to have the same again.
pub(super) fn commands(material: &Material) -> Vec<String> {
    let id = &material.experiment.id;
    let mut options = format!("--engine {} --runs {}", material.engine(), material.most_runs());
    if let Some((first, _)) = material.seeds() {
        let _ = write!(options, " --seed {first}");
    }
    vec![format!("trunkline lab run {id}/experiment.toml {options} --out again")]
}

fn again(material: &Material) -> Markup {
    html! { section {
        h2 { "To run it again" }
        p.soft { "With Trunkline " (material.version()) ", from the directory above this one:" }
        pre { code { (commands(material).join("\n")) } }
        p.soft { "The simulator gives the same numbers for the same file and seed." }
        @if !material.files.is_empty() {
            h3 { "For programs" }
            ul.files { @for file in material.files { li { a href=(file) { (file) } } } }
        }
        @let digests: Vec<_> = material.results.iter().filter(|result| !result.digest.is_empty()).collect();
        @if !digests.is_empty() { details {
            summary { "Fingerprints of the runs" }
            .scroll { table.plain { tbody { @for result in digests {
                tr { th scope="row" { (axes::point_label(material.experiment, &result.point)) } td { code { (result.digest) } } }
            } } } }
        } }
    } }
}
