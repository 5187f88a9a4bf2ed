//! Plots: what is drawn where. The script of the page draws it; a table below each says the same in numbers.

mod coincident;
mod histogram;
mod lines;
mod series;

use serde::{Serialize, Serializer};

use super::material::Material;
use super::{axes, number};
use crate::experiment::{Figure, FigureKind, Scale};

/// A plot as the script is given it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Chart {
    pub(super) kind: Kind,
    pub(super) x: Along,
    pub(super) y: Along,
    pub(super) lines: Vec<Line>,
    /// What the page says around it.
    #[serde(skip)]
    pub(super) text: Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Line,
    Bar,
    Histogram,
    Series,
}

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Along {
    pub(super) title: String,
    /// Behind a number in a tooltip.
    pub(super) unit: String,
    pub(super) log: bool,
    /// What it reaches to at least, where several plots are to have the same scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top: Option<f64>,
    /// Names, where places along it are no numbers; a point's x is then the place in these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) names: Vec<String>,
}

/// What is drawn in one colour.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) name: String,
    /// Which colour, from 0.
    pub(super) colour: usize,
    /// Which dashes and marks, from 0.
    pub(super) dash: usize,
    /// How many lines lie upon it: it is drawn wider then, to be seen.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) beneath: usize,
    pub(super) points: Vec<Dot>,
    /// What the paper has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) paper: Vec<Dot>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A point: x, y, and the interval of y: its ends as they are drawn, and half of its width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Dot {
    pub(super) x: f64,
    pub(super) y: Option<f64>,
    pub(super) interval: Option<[f64; 3]>,
}

impl Serialize for Dot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (x, y) = (number::brief(self.x), self.y.map(number::brief));
        match self.interval {
            Some(interval) => {
                let [low, high, half] = interval.map(number::brief);
                (x, y, low, high, half).serialize(to)
            }
            None => (x, y).serialize(to),
        }
    }
}

/// What is said around a plot.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Text {
    pub(super) title: String,
    /// What the paper says.
    pub(super) caption: Option<String>,
    /// What is drawn, and what is left out.
    pub(super) notes: Vec<String>,
    /// The same in numbers: a heading for each column, then rows.
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Chart {
    /// In words, for whoever does not see it.
    pub(super) fn description(&self) -> String {
        let kind = match self.kind {
            Kind::Line => "Line chart",
            Kind::Bar => "Bar chart",
            Kind::Histogram => "Histogram",
            Kind::Series => "Plot over time",
        };
        let lines: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        format!("{kind}: {}. {} over {}. {}", self.text.title, self.y.title, self.x.title, lines.join("; "))
    }

    /// Takes out what a logarithmic axis has no place for, and says so.
    fn keep_to_scale(&mut self) {
        let mut gone = 0;
        let (x_log, y_log) = (self.x.log, self.y.log);
        for line in &mut self.lines {
            for dots in [&mut line.points, &mut line.paper] {
                let before = dots.len();
                dots.retain(|dot| !(x_log && dot.x <= 0.0 || y_log && dot.y.is_some_and(|y| y <= 0.0)));
                gone += before - dots.len();
            }
        }
        if gone > 0 {
            let values = if gone == 1 { "1 value is" } else { &format!("{gone} values are") };
            self.text.notes.push(format!("{values} zero or less and not on the logarithmic axis."));
        }
    }

    /// Where the highest value or end of an interval is.
    fn highest(&self) -> f64 {
        let dots = self.lines.iter().flat_map(|line| line.points.iter().chain(&line.paper));
        dots.filter_map(|dot| dot.interval.map_or(dot.y, |[_, high, _]| Some(high))).fold(0.0, f64::max)
    }

    fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.iter().all(|dot| dot.y.is_none()) && line.paper.is_empty())
    }
}

/// The most plots that one is split into.
const PANELS: usize = 4;

/// All plots of an experiment, and the titles of those for which there is nothing.
pub(super) fn all(material: &Material) -> (Vec<Chart>, Vec<String>) {
    let (mut charts, mut missing) = (Vec::new(), Vec::new());
    for figure in &material.experiment.figures {
        match chart(figure, material) {
            Some(chart) => charts.extend(panels(figure, material, &chart).unwrap_or_else(|| vec![chart])),
            None => missing.push(figure.title.clone()),
        }
    }
    (charts, missing)
}

/// Plots that one is split into if it has more lines than can be told apart: one for each value of one of its axes, with the same scale if it suits all.
fn panels(figure: &Figure, material: &Material, whole: &Chart) -> Option<Vec<Chart>> {
    let most = match whole.kind {
        Kind::Series => 5,
        Kind::Line => 8,
        Kind::Bar | Kind::Histogram => return None,
    };
    if whole.lines.len() <= most {
        return None;
    }
    let results = axes::at(material.results, &figure.at);
    let free = axes::names(&results).into_iter().filter(|axis| {
        (whole.kind == Kind::Series || figure.x.as_ref() != Some(axis))
            && (2..=PANELS).contains(&axes::values(&results, axis).len())
    });
    let split = |axis: String| {
        let values = axes::values(&results, &axis);
        let charts: Vec<Chart> = values
            .iter()
            .filter_map(|value| {
                let mut part = figure.clone();
                part.at.insert(axis.clone(), toml::Value::String(value.clone()));
                part.by.iter_mut().for_each(|by| by.retain(|other| *other != axis));
                let mut chart = chart(&part, material)?;
                let of = axes::value_label(material.experiment, &axis, value);
                chart.text.title = format!("{}, {of}", figure.title);
                Some(chart)
            })
            .collect();
        let lines = charts.iter().map(|chart| chart.lines.len()).max().unwrap_or(0);
        (lines > 1 && lines < whole.lines.len()).then_some((lines.max(most), charts.len(), charts))
    };
    let (_, _, mut charts) = free.filter_map(split).min_by_key(|(lines, panels, _)| (*lines, *panels))?;
    let same = |of: fn(&Chart) -> &Along| charts.iter().all(|chart| of(chart) == of(whole));
    if same(|chart| &chart.y) && !whole.y.log {
        let tops: Vec<f64> = charts.iter().map(Chart::highest).collect();
        let top = tops.iter().copied().fold(0.0, f64::max);
        // One scale for all, unless it would leave one of them flat.
        if top > 0.0 && tops.iter().all(|own| *own > 0.4 * top) {
            for chart in &mut charts {
                chart.y.top = Some(top);
            }
        }
    }
    // What the paper says is of all of them.
    for chart in charts.iter_mut().rev().skip(1) {
        chart.text.caption = None;
    }
    Some(charts)
}

fn chart(figure: &Figure, material: &Material) -> Option<Chart> {
    let mut chart = match figure.kind {
        FigureKind::Line => Some(lines::chart(figure, material, Kind::Line)),
        FigureKind::Bar => Some(lines::chart(figure, material, Kind::Bar)),
        FigureKind::Histogram => histogram::chart(figure, material),
        FigureKind::Series => Some(series::chart(figure, material)),
    }?;
    chart.text.title.clone_from(&figure.title);
    chart.text.caption.clone_from(&figure.caption);
    chart.y.log = figure.y_scale == Scale::Log;
    chart.keep_to_scale();
    coincident::tell_apart(&mut chart);
    (!chart.is_empty()).then_some(chart)
}

/// Colours and dashes for lines that differ in several respects: one respect by colour, the rest by dashes, if that is enough to tell
/// them apart; else a colour each, and dashes when colours run out.
fn styles(keys: &[Vec<String>]) -> Vec<(usize, usize)> {
    const COLOURS: usize = 8;
    const DASHES: usize = 4;
    let place = |column: usize, value: &String| {
        let mut seen: Vec<&String> = Vec::new();
        for key in keys {
            if !seen.contains(&&key[column]) {
                seen.push(&key[column]);
            }
        }
        (seen.iter().position(|known| *known == value).unwrap_or(0), seen.len())
    };
    let respects: Vec<(usize, usize)> = (0..keys.first().map_or(0, Vec::len))
        .map(|column| (column, place(column, &keys[0][column]).1))
        .filter(|(_, count)| *count > 1)
        .collect();
    if let [(first, some), (second, others)] = respects[..] {
        let (colour, dash) = if some >= others { (first, second) } else { (second, first) };
        if some.max(others) <= COLOURS && some.min(others) <= DASHES {
            return keys
                .iter()
                .map(|key| (place(colour, &key[colour]).0, place(dash, &key[dash]).0))
                .collect();
        }
    }
    (0..keys.len()).map(|line| (line % COLOURS, line / COLOURS % DASHES)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_in_two_respects_have_a_colour_for_one_and_dashes_for_the_other() {
        let keys = |pairs: &[(&str, &str)]| -> Vec<Vec<String>> {
            pairs.iter().map(|(a, b)| vec![(*a).to_owned(), (*b).to_owned()]).collect()
        };
        let crossed =
            keys(&[("1", "with"), ("1", "without"), ("2", "with"), ("2", "without"), ("3", "with")]);
        assert_eq!(styles(&crossed), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]);
        let plain = keys(&[("a", "x"), ("b", "x")]);
        assert_eq!(styles(&plain), [(0, 0), (1, 0)]);
    }

    #[test]
    fn twenty_lines_are_all_told_apart() {
        let keys: Vec<Vec<String>> = (0..20).map(|line| vec![line.to_string()]).collect();
        let mut styles = styles(&keys);
        styles.sort_unstable();
        styles.dedup();
        assert_eq!(styles.len(), 20);
    }
}
