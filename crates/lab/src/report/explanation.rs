//! What came of the settings of an experiment's unknowns, as a page.

use std::fmt::Write as _;

use super::chart::{Along, Chart, Dot, Kind, Line, Text};
use super::document::{Align, Document, fenced, inline, plain, table};
use super::unit::{DisplayUnit, base_unit};
use super::{axes, number, sign, word};
use crate::experiment::{ClaimKind, Experiment};
use crate::explain::{ClaimAnswer, Explanation, Influence, Robustness, SetUp, Share, Together, ValueAnswer};
use crate::results::{UnknownAnswer, Verdict};

/// The page of an explanation, beside the results that it is of; the same as Markdown, and for programs.
pub const EXPLANATION_PAGE: &str = "explanation.html";
/// As Markdown.
pub const EXPLANATION_MARKDOWN: &str = "explanation.md";
/// As JSON.
pub const EXPLANATION_JSON: &str = "explanation.json";

/// The most plots.
const MAX_PLOTS: usize = 24;
/// The most influences that are named of an outcome.
const MAX_INFLUENCES: usize = 3;

const MEANING: &str = "A value or a claim *holds* if it does with the set-up of the experiment’s file. It holds *for some set-up* if it does at another setting of the unknowns that was run as often as the file says, and *for none* if no setting that was run bears it out. The share is of all settings that were drawn; its interval is that of the part of all plausible settings (95 %). Settings are run at the points that the paper’s values and claims are about; claims of ours are undecided there if they are about others.";
const CORRELATION: &str = "Spearman’s rank correlation over all settings, with its 95 % interval: 1 or −1 if the outcome only rises or only falls with the unknown. Only those whose sign is certain are shown.";

/// How something came out over set-ups, in words.
pub const fn set_up_word(set_up: SetUp) -> &'static str {
    match set_up {
        SetUp::Holds => "holds",
        SetUp::Some => "for some set-up",
        SetUp::None => "for none",
        SetUp::Undecided => "undecided",
    }
}

/// For how many settings a claim holds, in a word.
pub const fn robustness_word(robustness: Robustness) -> &'static str {
    match robustness {
        Robustness::All => "for all",
        Robustness::Most => "for most",
        Robustness::Some => "for some",
        Robustness::None => "for none",
    }
}

/// `11 hold, 7 for some set-up, 4 for none`.
pub fn set_up_counts([holds, some, none, undecided]: [usize; 4]) -> String {
    let hold = if holds == 1 { "holds" } else { "hold" };
    let mut text = format!("{holds} {hold}, {some} for some set-up, {none} for none");
    if undecided > 0 {
        let _ = write!(text, ", {undecided} undecided");
    }
    text
}

/// `12 of 64 (10 to 30 %)`.
pub fn share(share: &Share) -> String {
    if share.of == 0 {
        return "–".to_owned();
    }
    let [low, high] = [share.low, share.high].map(|end| (100.0 * end).round());
    format!("{} of {} ({low} to {high} %)", share.holding, share.of)
}

/// A published value as people name it: its metric and its point.
pub fn value_name(experiment: &Experiment, value: &ValueAnswer) -> String {
    let label = super::table::published_name(experiment, &value.metric);
    // Such a label continues that of the row above it.
    let label = if label.starts_with('…') { value.metric.clone() } else { label.to_owned() };
    if value.point.is_empty() {
        return label;
    }
    format!("{label} at {}", axes::point_label(experiment, &value.point))
}

/// The report.
pub fn explanation(experiment: &Experiment, answer: &Explanation) -> Document {
    let mut report = Document::new(&format!("What the paper leaves open: {}", answer.title));
    let page = Page { experiment, answer };
    page.head(&mut report);
    page.unknowns(&mut report);
    page.values(&mut report);
    page.together(&mut report);
    page.claims(&mut report);
    page.influences(&mut report);
    page.plots(&mut report);
    page.settings(&mut report);
    report
}

/// `rate of the flood 1.4 Mbit/s, window of the lanes 16 KiB`: what a setting has.
pub(super) fn drawn(answer: &Explanation, setting: u32) -> String {
    let sample = answer.samples.iter().find(|sample| sample.setting == setting);
    let drawn = sample.map(|sample| sample.drawn.as_slice()).unwrap_or_default();
    if drawn.is_empty() {
        return "our choice".to_owned();
    }
    let pairs = answer.unknowns.iter().zip(drawn);
    pairs.map(|(unknown, value)| format!("{} {}", unknown.label, short(value))).collect::<Vec<_>>().join(", ")
}

/// A value with three significant digits.
fn short(value: &str) -> String {
    let (text, unit) = value.split_once(' ').unwrap_or((value, ""));
    match text.parse::<f64>() {
        Ok(value) => format!("{} {unit}", number::digits(value)).trim_end().to_owned(),
        Err(_) => value.to_owned(),
    }
}

struct Page<'a> {
    experiment: &'a Experiment,
    answer: &'a Explanation,
}

impl Page<'_> {
    fn head(&self, report: &mut Document) {
        let Explanation { settings, runs, full_runs, seed, version, unknowns, .. } = self.answer;
        report.add(&format!("`{}`", self.answer.experiment));
        let [values, claims] = self.answer.counts();
        let mut counts = Vec::new();
        if !self.answer.values.is_empty() {
            counts.push(format!("- the paper’s values: {}", set_up_counts(values)));
        }
        if claims.iter().sum::<usize>() > 0 {
            counts.push(format!("- the paper’s claims: {}", set_up_counts(claims)));
        }
        report.add(&counts.join("\n"));
        report.add(&format!(
            "{} of {}, {} of each at each point, {full_runs} where an answer rests on it; seed {seed}, Trunkline {version}.",
            number::count(*settings as usize, "setting"),
            number::count(unknowns.len(), "unknown"),
            number::count(*runs as usize, "run"),
        ));
        report.add(MEANING);
    }

    fn unknowns(&self, report: &mut Document) {
        report.heading("What the paper leaves open");
        let row = |unknown: &UnknownAnswer| {
            vec![
                plain(&unknown.label),
                plain(&unknown.plausible),
                plain(unknown.chosen.as_deref().unwrap_or("by default")),
                inline(unknown.why.trim()),
            ]
        };
        let rows: Vec<_> = self.answer.unknowns.iter().map(row).collect();
        report.add(&table(&["unknown", "plausible", "our choice", "why"], &rows, &[Align::Left; 4]));
    }

    fn unit(value: &ValueAnswer) -> DisplayUnit {
        let base = base_unit(&value.metric);
        let named = value.unit.as_deref().and_then(|name| DisplayUnit::named(base, name));
        named.unwrap_or_else(|| DisplayUnit::fitting(base, [value.paper]))
    }

    fn values(&self, report: &mut Document) {
        if self.answer.values.is_empty() {
            return;
        }
        report.heading("The paper’s values");
        let row = |value: &ValueAnswer| {
            let unit = Self::unit(value);
            let shown = |value: f64| number::rounded(unit.show(value));
            let closest = value.closest.map_or_else(
                || "–".to_owned(),
                |near| format!("{} (setting {})", shown(near.ours), near.setting),
            );
            let range = value
                .range
                .map_or_else(|| "–".to_owned(), |(min, max)| format!("{} to {}", shown(min), shown(max)));
            vec![
                plain(&format!("{}{}", value_name(self.experiment, value), unit.behind())),
                number::as_published(unit.show(value.paper)),
                format!("{} {}", value.chosen.map_or_else(|| "–".to_owned(), shown), sign(value.verdict)),
                range,
                closest,
                share(&value.share),
                format!("**{}**", set_up_word(value.set_up)),
            ]
        };
        let rows: Vec<_> = self.answer.values.iter().map(row).collect();
        let heads =
            ["value", "paper", "our choice", "all settings", "closest", "settings that have it", "so it"];
        let mut aligns = [Align::Right; 7];
        (aligns[0], aligns[6]) = (Align::Left, Align::Left);
        report.add(&table(&heads, &rows, &aligns));
    }

    fn together(&self, report: &mut Document) {
        let Some(best) = self.answer.together.first() else { return };
        report.heading("All values together");
        let all = self.answer.values.len();
        if best.off.is_empty() {
            report.add(&format!("Setting {} has all {}.", best.setting, number::count(all, "value")));
            return;
        }
        report.add(&format!(
            "No setting that was run has all {} values. These come closest; our choice has {}.",
            all,
            self.answer.values.iter().filter(|value| value.verdict == Verdict::Holds).count()
        ));
        let item = |one: &Together| {
            let off = one.off.iter().map(|(place, ratio)| {
                let name = value_name(self.experiment, &self.answer.values[*place]);
                let ratio = ratio.map_or_else(|| "no value".to_owned(), number::ratio);
                plain(&format!("{name} {ratio}"))
            });
            let off: Vec<String> = off.collect();
            format!(
                "- Setting {} ({}) has {} of {all}. Off: {}.",
                one.setting,
                plain(&drawn(self.answer, one.setting)),
                one.holding,
                off.join("; ")
            )
        };
        report.add(&self.answer.together.iter().map(item).collect::<Vec<_>>().join("\n"));
    }

    fn claims(&self, report: &mut Document) {
        if self.answer.claims.is_empty() {
            return;
        }
        report.heading("Claims");
        let row = |claim: &ClaimAnswer| {
            let whose = if claim.kind == ClaimKind::Ours { " (ours)" } else { "" };
            vec![
                plain(&format!("{}{whose}", claim.text)),
                format!("{} {}", sign(claim.verdict), word(claim.verdict)),
                share(&claim.share),
                claim.robustness.map_or("undecided", robustness_word).to_owned(),
                format!("**{}**", set_up_word(claim.set_up)),
            ]
        };
        let rows: Vec<_> = self.answer.claims.iter().map(row).collect();
        let heads = ["claim", "our choice", "settings that bear it out", "holds", "so it"];
        report.add(&table(&heads, &rows, &[Align::Left; 5]));
        let witnesses = self.answer.claims.iter().filter_map(|claim| {
            let (setting, why) = claim.witness.as_ref()?;
            let drawn = plain(&drawn(self.answer, *setting));
            Some(format!("- {}: at setting {setting} ({drawn}): {}.", plain(&claim.text), inline(why)))
        });
        let witnesses: Vec<String> = witnesses.collect();
        if !witnesses.is_empty() {
            report.add("What bears out claims that our choice does not:");
            report.add(&witnesses.join("\n"));
        }
    }

    fn influences(&self, report: &mut Document) {
        let values = self.answer.values.iter();
        let values = values.map(|value| (value_name(self.experiment, value), &value.influences));
        let claims = self.answer.claims.iter().map(|claim| (claim.text.clone(), &claim.influences));
        let row = |(name, influences): (String, &Vec<Influence>)| {
            let clear = influences.iter().filter(|influence| influence.is_clear()).take(MAX_INFLUENCES);
            let shown: Vec<String> = clear.map(|influence| self.influence(influence)).collect();
            (!shown.is_empty()).then(|| vec![plain(&name), shown.join("; ")])
        };
        let rows: Vec<_> = values.chain(claims).filter_map(row).collect();
        if rows.is_empty() {
            return;
        }
        report.heading("What matters for what");
        report.add(&table(&["outcome", "unknowns"], &rows, &[Align::Left; 2]));
        report.remark(CORRELATION);
    }

    fn influence(&self, influence: &Influence) -> String {
        let label = self.answer.unknowns.iter().find(|unknown| unknown.name == influence.unknown);
        let label = label.map_or(influence.unknown.as_str(), |unknown| unknown.label.as_str());
        let choice = influence.choice.as_ref().map(|choice| format!(" = {choice}")).unwrap_or_default();
        let [rho, low, high] =
            [influence.rho, influence.low, influence.high].map(|value| number::fixed(value, 2));
        plain(&format!("{label}{choice} {rho} ({low} to {high})"))
    }

    /// Of each value that does not hold, ours over the unknown that matters most.
    fn plots(&self, report: &mut Document) {
        let off = self.answer.values.iter().enumerate().filter(|(_, value)| value.verdict != Verdict::Holds);
        let charts: Vec<Chart> = off.filter_map(|(place, value)| self.plot(place, value)).collect();
        if charts.is_empty() {
            return;
        }
        report.page("## Ours at each setting");
        report.page("Each point is a setting; the line is the paper’s value. Across: the unknown on which ours depends most.");
        for chart in charts.into_iter().take(MAX_PLOTS) {
            report.chart(chart);
        }
    }

    fn plot(&self, place: usize, value: &ValueAnswer) -> Option<Chart> {
        let first = value.influences.first()?;
        let across = self.answer.unknowns.iter().position(|unknown| unknown.name == first.unknown)?;
        let unknown = &self.answer.unknowns[across];
        let unit = Self::unit(value);
        let drawn = || self.answer.samples.iter().filter(|sample| sample.setting > 0);
        let positions = || drawn().map(|sample| sample.positions[across]);
        let base = drawn().find_map(|sample| crate::swept::number(&sample.drawn[across]));
        let base = base.filter(|_| unknown.choices.is_none()).map(|(unit, _)| unit);
        let x_unit = base.map_or_else(DisplayUnit::none, |base| DisplayUnit::fitting(base, positions()));
        let dots = |only: Verdict, same: bool| -> Vec<Dot> {
            let dot = |sample: &crate::explain::Sample| {
                let ours = sample.ours[place]?;
                let holds = self.holds(value, ours);
                ((holds == only) == same).then(|| Dot {
                    x: x_unit.show(sample.positions[across]),
                    y: Some(unit.show(ours)),
                    interval: None,
                })
            };
            let mut dots: Vec<Dot> = drawn().filter_map(dot).collect();
            dots.sort_by(|a, b| a.x.total_cmp(&b.x));
            dots
        };
        let paper = |x: f64| Dot { x, y: Some(unit.show(value.paper)), interval: None };
        let (min, max) = crate::statistics::bounds(positions().map(|position| x_unit.show(position)))?;
        let line = |name: &str, colour: usize, points: Vec<Dot>| Line {
            name: name.to_owned(),
            colour,
            dash: colour,
            points,
            ..Line::default()
        };
        let mut lines = vec![
            line("within the factor", 0, dots(Verdict::Holds, true)),
            line("not", 1, dots(Verdict::Holds, false)),
        ];
        lines.retain(|line| !line.points.is_empty());
        lines.first_mut()?.paper = vec![paper(min), paper(max)];
        let choices = unknown.choices.clone().unwrap_or_default();
        Some(Chart {
            kind: Kind::Points,
            x: Along {
                title: format!("{}{}", unknown.label, x_unit.behind()),
                unit: x_unit.name.clone(),
                names: choices,
                log: unknown.plausible.ends_with("by ratio"),
                ..Along::default()
            },
            y: Along {
                title: format!("{}{}", value.metric, unit.behind()),
                unit: unit.name.clone(),
                ..Along::default()
            },
            legend: String::new(),
            lines,
            text: Text { title: value_name(self.experiment, value), ..Text::default() },
        })
    }

    /// Whether one run's value is within the factor that the file allows.
    fn holds(&self, value: &ValueAnswer, ours: f64) -> Verdict {
        let published = self.experiment.published.iter().find(|published| published.what() == value.metric);
        crate::verdict::within(ours, value.paper, published.and_then(|published| published.within))
    }

    fn settings(&self, report: &mut Document) {
        let mut heads = vec!["setting".to_owned()];
        heads.extend(self.answer.unknowns.iter().map(|unknown| plain(&unknown.label)));
        heads.push("runs".to_owned());
        let samples = self.answer.samples.iter().filter(|sample| sample.setting > 0);
        let rows: Vec<Vec<String>> = samples
            .map(|sample| {
                let mut row = vec![sample.setting.to_string()];
                row.extend(sample.drawn.iter().map(|value| plain(&short(value))));
                row.push(sample.runs.to_string());
                row
            })
            .collect();
        report.page("## Every setting");
        report.folded("What was drawn", &table(&heads, &rows, &vec![Align::Right; heads.len()]));
        let Explanation { settings, seed, runs, experiment, .. } = self.answer;
        report.heading("To run it again");
        report.add(&fenced(
            "sh",
            &format!("trunkline lab explain {experiment} --settings {settings} --at-least {settings} --runs {runs} --seed {seed}"),
        ));
    }
}
