//! An experiment's report.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use indexmap::{IndexMap, IndexSet};
use maud::{Markup, html};
use serde_json::{Value, json};
use trunkline_engine::catalogue::Unit;

use super::document::{Align, Document, fenced, inline, plain, table as markdown_table};
use super::material::Material;
use super::table;
use super::unit::base_unit;
use super::{INDEX, QUICK_MEANING, TALLIES, axes, counted, figure, machine, number, paper, sign, word};
use crate::experiment::{Claim, ClaimKind};
use crate::results::{ClaimOutcome, Verdict};

/// Said where runs of a point are all the same.
const IDENTICAL: &str =
    "A value without ± is the same in all runs where there are several: nothing in that network is random.";

/// Tables with more rows than this are folded: so many are shown, and all on demand.
const ROWS_UNFOLDED: usize = 40;
const ROWS_FIRST: usize = 12;

/// The report of an experiment.
pub fn report(material: &Material) -> Document {
    let experiment = material.experiment;
    let mut report = Document::new(&experiment.title);
    head(&mut report, material);
    if !experiment.description.is_empty() {
        report.html(html! { (maud::PreEscaped("<section class=\"prose\">")) });
        report.foreign(&experiment.description);
        report.html(maud::PreEscaped("</section>".to_owned()));
    }
    // What was measured comes before what is said of it.
    figures(&mut report, material);
    tables(&mut report, material);
    claims(&mut report, material);
    if !experiment.notes.is_empty() {
        report.page("## Notes");
        if experiment.is_quick() {
            report.page("*Written of full runs.*");
        }
        report.foreign(&experiment.notes);
    }
    if material.results.first().is_some_and(|result| !result.metrics.is_empty()) {
        report.page("## All metrics");
        report.html(metrics_list());
        report.metrics(all_metrics(material));
    }
    configuration(&mut report, material);
    again(&mut report, material);
    report
}

fn head(report: &mut Document, material: &Material) {
    let experiment = material.experiment;
    let aliases = match experiment.aliases.as_slice() {
        [] => String::new(),
        aliases => format!(", also {}", plain(&aliases.join(", "))),
    };
    report.page(&format!("[All experiments](../{INDEX}){aliases}"));
    let mut origin = format!("`{}`", experiment.id);
    let cited = experiment.paper.as_ref().map(|id| paper::citation(id).unwrap_or_else(|| id.clone()));
    let parts: Vec<String> = cited.into_iter().chain(experiment.source.clone()).collect();
    if !parts.is_empty() {
        let _ = write!(origin, " · {}", plain(&parts.join(", ")));
    }
    report.add(&origin);
    if experiment.is_quick() {
        report.add(&format!("**{}**", plain(QUICK_MEANING)));
    }
    let counts = TALLIES.into_iter().zip(material.judgement.tallies(experiment));
    let counts = counts.filter(|(_, count)| count.total() > 0);
    let always = [Verdict::Holds, Verdict::Differs, Verdict::Fails];
    let counts: Vec<String> =
        counts.map(|(what, count)| format!("- {what}: {}", counted(count, &always))).collect();
    if !counts.is_empty() {
        report.add(&counts.join("\n"));
    }
    if !material.judgement.calibrated.is_empty() {
        let count = number::count(material.judgement.calibrated.len(), "published value");
        report.add(&format!("Not counted: {count} by which the set-up was chosen (*calibrated*)."));
    }
    let (engine, version) = (material.engine(), material.version());
    report.add(&format!("Trunkline {version}, engine `{engine}`, {}.", runs(material)));
    if let Some(this) = material.machine {
        report.add(&format!("On {}, in real time.", plain(&machine(this))));
    }
    let mut refused: IndexMap<&str, usize> = IndexMap::new();
    for refusal in material.refused() {
        *refused.entry(&refusal.why).or_default() += 1;
    }
    if !refused.is_empty() {
        let items = refused
            .iter()
            .map(|(why, count)| format!("- {}: {}", number::count(*count, "point"), plain(why)));
        let items: Vec<String> = items.collect();
        report.add(&format!("Not on this engine:\n\n{}", items.join("\n")));
    }
    let substitutions: BTreeSet<&String> =
        material.runs.iter().flat_map(|run| &run.outcome.substitutions).collect();
    if !substitutions.is_empty() {
        let items: Vec<String> = substitutions.iter().map(|text| format!("- {}", plain(text))).collect();
        report.add(&format!("The kernel is not all that the experiment asks for:\n\n{}", items.join("\n")));
    }
    if let Some(took) = material.took {
        report.page(&format!("*On one processor, {} of running.*", time(took)));
    }
}

/// `5 runs at each of 2 points, seeds 1 to 5`; `7 of 10 runs, …` of a campaign that is not complete.
fn runs(material: &Material) -> String {
    let made = material.runs.len();
    if made < material.planned {
        return format!("{made} of {} runs: what has finished so far", material.planned);
    }
    let (runs, points) = (material.max_runs(), material.results.len());
    let seeds = match material.seeds() {
        Some((first, last)) if first == last => format!(", seed {first}"),
        Some((first, last)) => format!(", seeds {first} to {last}"),
        None => String::new(),
    };
    let runs = number::count(runs as usize, "run");
    match points {
        1 => format!("{runs}{seeds}"),
        _ => format!("{runs} at each of {points} points{seeds}"),
    }
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

/// A claim or a value of a list: how it came out, what is said, and below it why.
pub(super) fn bullet(verdict: Verdict, text: &str, reasons: &[String]) -> String {
    let mut item = format!("- {} **{}**: {text}", sign(verdict), word(verdict));
    for why in reasons.iter().filter(|why| !why.is_empty()) {
        let _ = write!(item, "\n  {why}");
    }
    item
}

fn claims(report: &mut Document, material: &Material) {
    let claims = || material.experiment.claims.iter().zip(&material.judgement.claims);
    if claims().next().is_none() {
        return;
    }
    let of = |kind: ClaimKind| claims().filter(move |(claim, _)| claim.kind == kind);
    report.heading("Claims");
    let ours =
        if of(ClaimKind::Paper).next().is_some() { "We say, of what the paper left open" } else { "We say" };
    for (kind, heading) in [(ClaimKind::Paper, "The paper says"), (ClaimKind::Ours, ours)] {
        let items: Vec<String> = of(kind)
            .map(|(claim, outcome)| {
                let reason =
                    reason(material, claim, outcome).map(|why| format!("Why, we believe: {}", inline(why)));
                let reasons: Vec<String> = std::iter::once(inline(&outcome.why)).chain(reason).collect();
                bullet(outcome.verdict, &plain(&outcome.text), &reasons)
            })
            .collect();
        if !items.is_empty() {
            report.add(&format!("### {heading}"));
            report.add(&items.join("\n"));
        }
    }
    let code = |condition: &str| format!("`{}`", condition.split_whitespace().collect::<Vec<_>>().join(" "));
    let row = |claim: &Claim| {
        let differs = claim.differs.as_deref().map(code).unwrap_or_default();
        vec![plain(&claim.text), code(&claim.holds), differs]
    };
    let rows: Vec<Vec<String>> = claims().map(|(claim, _)| row(claim)).collect();
    let conditions = markdown_table(&["claim", "holds if", "differs if"], &rows, &[Align::Left; 3]);
    report.folded("The conditions", &conditions);
}

/// What the file gives as the reason, if it is of these runs and not quoted already.
fn reason<'a>(material: &Material<'a>, claim: &'a Claim, outcome: &ClaimOutcome) -> Option<&'a str> {
    let why = claim.why.as_deref().filter(|why| !outcome.why.contains(why))?;
    (outcome.verdict != Verdict::Holds && !material.experiment.is_quick()).then_some(why)
}

fn tables(report: &mut Document, material: &Material) {
    let grids = table::all(material);
    if grids.is_empty() {
        return;
    }
    report.heading("Tables");
    for grid in &grids {
        report.add(&format!("### {}", plain(&grid.title)));
        if grid.rows.len() > ROWS_UNFOLDED {
            report.page(&grid.markdown(ROWS_FIRST));
            report.folded(&format!("All {} rows", grid.rows.len()), &grid.markdown(usize::MAX));
            report.file(&grid.markdown(usize::MAX));
        } else {
            report.add(&grid.markdown(usize::MAX));
        }
        for (why, metrics) in &grid.reasons {
            let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
            report.add(&format!("Why ours differs ({}): {}", plain(&metrics.join("; ")), inline(why)));
        }
        if let Some(survivors) = &grid.survivors {
            report.remark(survivors);
        }
        if grid.is_extract {
            report.remark("What people ask first. Every metric is under All metrics, and in results.jsonl.");
        }
    }
    report.remark(if material.max_runs() > 1 {
        "± is half of the 95 % interval of the mean; where there is none, all runs gave the same."
    } else {
        "Of a single run, so without an interval."
    });
    if material.has_identical_runs() {
        report.remark(IDENTICAL);
    }
    if !material.judgement.comparisons.is_empty() {
        report.remark("A value of the paper holds if ours is within the factor that the experiment’s file says (1.25, if it says none), or if it lies in our interval and that is no wider than the factor allows; it differs within that factor’s square, and else it fails.");
    }
}

fn figures(report: &mut Document, material: &Material) {
    let (charts, missing) = figure::all(material);
    if charts.is_empty() && missing.is_empty() {
        return;
    }
    report.page("## Figures");
    report.html(html! {
        noscript { p.soft { "Plots are drawn by a script. Without one, the numbers are in the tables below each title." } }
    });
    for chart in charts {
        report.chart(chart);
    }
    for title in &missing {
        report.page(&format!("*There is nothing to draw of “{}” in these results.*", plain(title)));
    }
}

/// Every metric at every point, for the table that the script fills.
fn all_metrics(material: &Material) -> Value {
    let points: Vec<String> =
        material.results.iter().map(|result| axes::point_label(material.experiment, &result.point)).collect();
    let names: IndexSet<&String> = material.results.iter().flat_map(|result| result.metrics.keys()).collect();
    let mut rows = Vec::new();
    for (point, result) in material.results.iter().enumerate() {
        for (name, estimate) in &result.metrics {
            let [mean, min, max] = [estimate.mean, estimate.min, estimate.max].map(number::brief);
            let half = estimate.ci95.map(number::brief);
            rows.push(json!([point, names.get_index_of(name), mean, half, min, max]));
        }
    }
    let unit = |metric: &str| match base_unit(metric) {
        Unit::Ratio | Unit::Count => "",
        unit => unit.name(),
    };
    let units: Vec<&str> = names.iter().map(|name| unit(name)).collect();
    json!({ "points": points, "names": names, "units": units, "rows": rows })
}

fn metrics_list() -> Markup {
    html! {
        details.metrics {
            summary { "In s, B, bit/s, or 1 for counts and ratios" }
            noscript { p.soft { "This table needs a script; the same is in results.jsonl." } }
            p { label { "Show those with " input type="search" placeholder="goodput with" autocomplete="off"; } " " output.soft {} }
            .scroll role="region" aria-label="All metrics" tabindex="0" { table {
                thead { tr { th { "Point" } th { "Metric" } th.number { "Mean" } th.number { "± (95 %)" } th.number { "Min" } th.number { "Max" } th { "Unit" } } }
                tbody {}
            } }
        }
    }
}

fn configuration(report: &mut Document, material: &Material) {
    report.page("## Configuration");
    report.page("*As it ran: what was set on the command line is in it.*");
    report.folded("The experiment’s file", &fenced("toml", material.document));
    if !material.tcps.is_empty() {
        report.folded("Every TCP, with all of its settings", &tcps(material));
    }
}

/// A row for each setting; those that differ are set in bold.
fn tcps(material: &Material) -> String {
    let tcps = material.tcps;
    let keys: IndexSet<&String> =
        tcps.iter().flat_map(|tcp| tcp.settings.iter().map(|(key, _)| key)).collect();
    let value = |tcp: &super::TcpInUse, key: &String| {
        let own = tcp.settings.iter().find(|(known, _)| known == key);
        own.map_or_else(|| "–".to_owned(), |(_, value)| plain(value))
    };
    let row = |key: &String| {
        let values: Vec<String> = tcps.iter().map(|tcp| value(tcp, key)).collect();
        let differ = values.iter().any(|value| *value != values[0]);
        let key = if differ { format!("**`{key}`**") } else { format!("`{key}`") };
        std::iter::once(key).chain(values).collect()
    };
    let heads: Vec<String> = std::iter::once("Setting".to_owned())
        .chain(tcps.iter().map(|tcp| plain(&tcp.users.join(", "))))
        .collect();
    let rows: Vec<Vec<String>> = keys.into_iter().map(row).collect();
    markdown_table(&heads, &rows, &vec![Align::Left; heads.len()])
}

fn again(report: &mut Document, material: &Material) {
    report.heading("To run it again");
    report.page(&format!("*With Trunkline {}, from the directory above this one:*", material.version()));
    let id = &material.experiment.id;
    let mut options = format!("--engine {} --runs {}", material.engine(), material.max_runs());
    if let Some((first, _)) = material.seeds() {
        let _ = write!(options, " --seed {first}");
    }
    report.add(&fenced("sh", &format!("trunkline lab run {id}/experiment.toml {options} --out again")));
    report.page(if material.machine.is_some() {
        "*In real time the numbers are others in each run and on each machine.*"
    } else {
        "*The simulator gives the same numbers for the same file and seed.*"
    });
    if !material.files.is_empty() {
        report.page("### For programs");
        for file in material.files {
            report.link(file, file.clone());
        }
        let files: Vec<String> = material.files.iter().map(|file| format!("- `{file}`")).collect();
        report.page(&files.join("\n"));
    }
    let digests = material.results.iter().filter(|result| !result.digest.is_empty());
    let digests: Vec<Vec<String>> = digests
        .map(|result| {
            let point = plain(&axes::point_label(material.experiment, &result.point));
            vec![point, format!("`{}`", result.digest)]
        })
        .collect();
    if !digests.is_empty() {
        let table = markdown_table(&["point", "digest"], &digests, &[Align::Left; 2]);
        report.folded("Digests of the runs", &table);
    }
}
