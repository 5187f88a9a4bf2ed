//! Metrics along an axis of the sweep, as lines or bars.

use trunkline_engine::catalogue::Unit;

use super::super::chart::{Along, Chart, Dot, Kind, Line, Text};
use super::super::material::Material;
use super::super::unit::{DisplayUnit, base_unit};
use super::super::{axes, number, survivors, table};
use super::{legend, line, styled, units};
use crate::experiment::{Figure, Row, Scale};
use crate::results::{Point, PointResult};

pub(super) fn chart(figure: &Figure, material: &Material, kind: Kind) -> Chart {
    let experiment = material.experiment;
    let results = axes::at(material.results, &figure.at);
    let names = axes::names(&results);
    // Along x: the axis asked for, or the only one, or the metrics themselves.
    let x = figure.x.clone().filter(|x| names.contains(x)).or_else(|| names.first().cloned());
    let places = x.as_ref().map(|x| axes::values(&results, x)).unwrap_or_default();
    let x_label = x.as_ref().map(|x| axes::label(experiment, x)).unwrap_or_default();
    let numbers = axes::positions(&places, &x_label).filter(|_| kind == Kind::Line && places.len() > 1);
    let by = axes::telling(&results, figure.by.as_deref(), x.as_deref());

    let published = match figure.metrics.as_slice() {
        [only] => material.published_unit(&only.metric),
        _ => None,
    };
    let means =
        |row: &Row| results.iter().filter_map(|result| Some(result.metrics.get(&row.metric)?.mean)).collect();
    let units = units(figure, published, means);
    let one_unit = units.iter().all(|unit| *unit == units[0]);
    let mut lines = Vec::new();
    for (part, members) in axes::groups(&results, &by) {
        for (row, unit) in figure.metrics.iter().zip(&units) {
            let drawn =
                Drawn { material, row, unit, x: x.as_deref(), places: &places, numbers: numbers.as_ref() };
            let (points, paper) = (drawn.ours(&members), drawn.paper(&members));
            if points.iter().all(|dot| dot.y.is_none()) && paper.is_empty() {
                continue;
            }
            let unit = if one_unit { String::new() } else { unit.behind() };
            let line = line(figure, material, &part, row, &unit);
            lines.push((key(&part, &by, row), Line { points, paper, ..line }));
        }
    }

    let x_unit = numbers.as_ref().map_or_else(DisplayUnit::none, |(_, unit)| unit.clone());
    let mut chart = Chart {
        kind,
        x: Along {
            title: if x_label.contains('(') { x_label } else { format!("{x_label}{}", x_unit.behind()) },
            unit: x_unit.name,
            log: figure.x_scale == Scale::Log && numbers.is_some(),
            names: match numbers {
                Some(_) => Vec::new(),
                None => places.iter().map(|place| axes::shown(place)).collect(),
            },
            ..Along::default()
        },
        y: along_y(figure, &units, one_unit),
        legend: legend(figure, material, &by),
        lines: styled(lines),
        text: Text::default(),
    };
    chart.text = text(&chart, material);
    let metrics = figure.metrics.iter().map(|row| row.metric.as_str());
    chart.text.notes.extend(survivors::note(experiment, metrics, &results));
    chart
}

/// Up: as the file calls it, with the unit that is used.
pub(super) fn along_y(figure: &Figure, units: &[DisplayUnit], one_unit: bool) -> Along {
    let unit = if one_unit { units[0].clone() } else { DisplayUnit::none() };
    let named = |label: &String| DisplayUnit::named_in(base_unit(&figure.metrics[0].metric), label).is_some();
    let title = match (&figure.y_label, figure.metrics.as_slice()) {
        (Some(label), _) if named(label) || label.contains('(') => label.clone(),
        (Some(label), _) => format!("{label}{}", unit.behind()),
        (None, [row]) => format!("{}{}", of_one(row), unit.behind()),
        (None, rows) if one_unit && let Some(quantity) = quantity(rows, !unit.name.is_empty()) => {
            format!("{quantity}{}", unit.behind())
        }
        (None, _) if !unit.name.is_empty() => unit.name.clone(),
        (None, _) if one_unit => "count".into(),
        (None, _) => "value".into(),
    };
    Along { title, unit: unit.name, ..Along::default() }
}

/// A metric's label; one that is only whose it is needs what it is.
fn of_one(row: &Row) -> String {
    let label = table::label_of(row);
    let subject = row.metric.split('.').next().unwrap_or_default();
    match quantity(std::slice::from_ref(row), base_unit(&row.metric) != Unit::Count) {
        Some(quantity) if row.label.is_some() && label.eq_ignore_ascii_case(subject) => {
            format!("{label}, {quantity}")
        }
        _ => label.to_owned(),
    }
}

/// What several metrics all are, in words: `goodput` of `a.goodput` and `b.goodput`, `delay` of its mean and its p99. A count of packets
/// says so, unless it has a unit.
fn quantity(rows: &[Row], has_unit: bool) -> Option<String> {
    let mut names: Vec<Vec<&str>> = rows.iter().map(|row| row.metric.split('.').skip(1).collect()).collect();
    let statistic = last(names.first()?).filter(|one| names.iter().all(|name| last(name) == Some(*one)));
    for name in &mut names {
        if last(name).is_some() {
            name.pop();
        }
    }
    let first = names.first()?;
    let common = (0..=first.len())
        .map(|start| &first[start..])
        .find(|end| names.iter().all(|name| name.ends_with(end)))?;
    let (words, count) = match common {
        [words @ .., "ratio" | "bytes"] if !words.is_empty() => (words, None),
        [words @ .., "packets"] if !words.is_empty() => (words, Some("packets")),
        words => (words, None),
    };
    let mut text =
        words.iter().map(|word| word.replace('_', " ")).collect::<Vec<_>>().join(" ").replace("rtt", "RTT");
    if text.is_empty() {
        return None;
    }
    if let Some(statistic) = statistic {
        text = format!("{text}, {statistic}");
    }
    Some(count.filter(|_| !has_unit).map_or(text.clone(), |count| format!("{text} ({count})")))
}

/// What the values of a metric are put together by.
const STATISTICS: [&str; 9] = ["mean", "std", "min", "max", "p50", "p95", "p99", "p2_5", "p97_5"];

fn last<'a>(name: &[&'a str]) -> Option<&'a str> {
    name.last().copied().filter(|end| STATISTICS.contains(end))
}

fn key(part: &Point, by: &[String], row: &Row) -> Vec<String> {
    let values = by.iter().map(|axis| part.get(axis).cloned().unwrap_or_default());
    values.chain([row.metric.clone()]).collect()
}

struct Drawn<'a> {
    material: &'a Material<'a>,
    row: &'a Row,
    unit: &'a DisplayUnit,
    x: Option<&'a str>,
    places: &'a [String],
    numbers: Option<&'a (Vec<f64>, DisplayUnit)>,
}

impl Drawn<'_> {
    fn place(&self, result: &PointResult) -> Option<f64> {
        let Some(x) = self.x else { return Some(0.0) };
        let name = result.point.get(x)?;
        let index = self.places.iter().position(|place| place == name)?;
        Some(self.numbers.map_or(index as f64, |(numbers, _)| numbers[index]))
    }

    /// Whether the metric is a part of a whole: a share, or Jain's index.
    fn is_part(&self) -> bool {
        base_unit(&self.row.metric) == Unit::Ratio
            || self.row.metric.split('.').any(|part| part == "fairness")
    }

    fn ours(&self, members: &[&PointResult]) -> Vec<Dot> {
        let mut dots: Vec<Dot> = members
            .iter()
            .filter_map(|result| {
                let estimate =
                    result.metrics.get(&self.row.metric).filter(|estimate| estimate.mean.is_finite());
                let shown = |value| self.unit.show(value);
                // What is never below zero is not drawn below zero, nor a share above 1, however wide the interval.
                let interval = estimate.and_then(|estimate| {
                    let half = estimate.ci95?;
                    let low = estimate.mean - half;
                    let low = if estimate.min >= 0.0 { low.max(0.0) } else { low };
                    let high = estimate.mean + half;
                    let high = if self.is_part() && estimate.max <= 1.0 { high.min(1.0) } else { high };
                    Some([low, high, half])
                });
                Some(Dot {
                    x: self.place(result)?,
                    y: estimate.map(|estimate| shown(estimate.mean)),
                    interval: interval.map(|ends| ends.map(shown)),
                })
            })
            .collect();
        dots.sort_by(|a, b| a.x.total_cmp(&b.x));
        dots
    }

    fn paper(&self, members: &[&PointResult]) -> Vec<Dot> {
        let published = members.iter().filter_map(|result| {
            let comparison = self.material.comparison(&self.row.metric, &result.point)?;
            Some(Dot { x: self.place(result)?, y: Some(self.unit.show(comparison.paper)), interval: None })
        });
        published.collect()
    }
}

fn text(chart: &Chart, material: &Material) -> Text {
    let mut text = Text::default();
    let dots = || chart.lines.iter().flat_map(|line| &line.points);
    if dots().any(|dot| dot.interval.is_some()) {
        let runs = material.max_runs();
        text.notes.push(format!("Whiskers: 95 % interval of the mean of {runs} runs."));
    }
    if chart.lines.iter().any(|line| !line.paper.is_empty()) {
        text.notes.push("Hollow diamonds: the paper's values.".into());
    }
    let missing = dots().filter(|dot| dot.y.is_none()).count();
    if missing > 0 {
        text.notes.push(format!(
            "{missing} {} no value, because there was nothing to take a mean of.",
            if missing == 1 { "point has" } else { "points have" }
        ));
    }
    text.heads =
        [chart.x.title.clone()].into_iter().chain(chart.lines.iter().map(|line| line.name.clone())).collect();
    let mut xs: Vec<f64> = dots().map(|dot| dot.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let at = |dots: &[Dot], x: f64| dots.iter().find(|dot| dot.x.total_cmp(&x).is_eq()).copied();
    for x in xs {
        let name = if chart.x.names.is_empty() {
            number::as_published(x)
        } else {
            chart.x.names.get(x as usize).cloned().unwrap_or_default()
        };
        let cells = chart.lines.iter().map(|line| {
            let ours = at(&line.points, x).and_then(|dot| Some((dot.y?, dot.interval)));
            let ours = ours.map_or("–".into(), |(y, interval)| {
                number::with_interval(y, interval.map(|[_, _, half]| half))
            });
            match at(&line.paper, x).and_then(|dot| dot.y) {
                Some(paper) => format!("{ours} (paper {})", number::as_published(paper)),
                None => ours,
            }
        });
        text.rows.push([name].into_iter().chain(cells).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_several_metrics_says_what_they_are() {
        let rows = |names: &[&str]| -> Vec<Row> {
            let row = |name: &&str| Row { metric: (*name).to_owned(), label: None, unit: None };
            names.iter().map(row).collect()
        };
        for (names, unit, said) in [
            (&["a.goodput", "b.goodput"][..], true, Some("goodput")),
            (&["core.drops.ratio", "tA.up.queue.drops.ratio"], true, Some("drops")),
            (&["a.delay.mean", "a.delay.p99"], true, Some("delay")),
            (&["a.rtt.mean", "b.rtt.mean"], true, Some("RTT, mean")),
            (&["core.queue.packets", "edge.queue.packets"], false, Some("queue (packets)")),
            (&["a.goodput", "b.timeouts"], true, None),
        ] {
            assert_eq!(quantity(&rows(names), unit).as_deref(), said, "{names:?}");
        }
    }
}
