//! A plot: what is drawn where, and what is said around it. The script of the page draws it; a table below it says the same in numbers.

use maud::{Markup, html};
use serde::{Serialize, Serializer};

use super::number;
use crate::statistics::bounds;

/// A plot, as the script reads it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// What it looks like.
    pub kind: Kind,
    /// Across.
    pub x: Along,
    /// Up.
    pub y: Along,
    /// What the legend says once before the lines' short names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub legend: String,
    /// What is drawn.
    pub lines: Vec<Line>,
    /// What the page says around it.
    #[serde(skip)]
    pub text: Text,
}

/// What a plot looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Lines with a mark at each point.
    Line,
    /// Bars side by side.
    Bar,
    /// Steps.
    Histogram,
    /// Lines over time.
    Series,
    /// Points without lines.
    Points,
}

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Along {
    /// What it says beside it.
    pub title: String,
    /// Behind a number in a tooltip.
    pub unit: String,
    /// Logarithmic.
    pub log: bool,
    /// What it reaches to at least, where several plots are to have the same scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<f64>,
    /// Names, where places along it are no numbers; a point's x is then the place in these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// What is drawn in one colour.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Line {
    /// Where it stands alone.
    pub name: String,
    /// In a legend that says what all names have in common.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub short: String,
    /// Which colour, from 0.
    pub colour: usize,
    /// Which dashes and marks, from 0.
    pub dash: usize,
    /// How many lines lie upon it: it is drawn wider then, to be seen.
    #[serde(skip_serializing_if = "is_zero")]
    pub beneath: usize,
    /// In the order of x.
    pub points: Vec<Dot>,
    /// What the paper has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<Dot>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A point: x, y, and the interval of y: its ends as they are drawn, and half of its width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Across.
    pub x: f64,
    /// Up; none where the line has a gap.
    pub y: Option<f64>,
    /// Low, high, and half of it.
    pub interval: Option<[f64; 3]>,
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
pub struct Text {
    /// Above it.
    pub title: String,
    /// What the paper says.
    pub caption: Option<String>,
    /// What is drawn, and what is left out.
    pub notes: Vec<String>,
    /// The same in numbers: a heading for each column, then rows.
    pub heads: Vec<String>,
    /// As many cells as there are headings.
    pub rows: Vec<Vec<String>>,
}

impl Chart {
    /// A plot over time, whose numbers are a summary of each line. The axes are that of time and the other.
    pub fn over_time(kind: Kind, title: &str, [x, y]: [Along; 2], lines: Vec<Line>) -> Self {
        let rows = lines.iter().map(|line| summary(&line.name, &line.points)).collect();
        let text = Text {
            title: title.to_owned(),
            heads: SUMMARY.map(str::to_owned).to_vec(),
            rows,
            ..Text::default()
        };
        Chart { kind, x, y, legend: String::new(), lines, text }
    }

    /// In words, for whoever does not see it.
    pub(super) fn description(&self) -> String {
        let kind = match self.kind {
            Kind::Line => "Line chart",
            Kind::Bar => "Bar chart",
            Kind::Histogram => "Histogram",
            Kind::Series => "Plot over time",
            Kind::Points => "Plot of points",
        };
        let lines: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        format!("{kind}: {}. {} over {}. {}", self.text.title, self.y.title, self.x.title, lines.join("; "))
    }

    /// Takes out what a logarithmic axis has no place for, and says so.
    pub(super) fn keep_to_scale(&mut self) {
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
    pub(super) fn highest(&self) -> f64 {
        let dots = self.lines.iter().flat_map(|line| line.points.iter().chain(&line.paper));
        dots.filter_map(|dot| dot.interval.map_or(dot.y, |[_, high, _]| Some(high))).fold(0.0, f64::max)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.iter().all(|dot| dot.y.is_none()) && line.paper.is_empty())
    }
}

/// Above the numbers of a plot over time.
pub(super) const SUMMARY: [&str; 5] = ["Series", "Mean of the samples", "Min", "Max", "Last"];

pub(super) fn summary(name: &str, dots: &[Dot]) -> Vec<String> {
    let values: Vec<f64> = dots.iter().filter_map(|dot| dot.y).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (min, max) = bounds(values.iter().copied()).unwrap_or((f64::NAN, f64::NAN));
    let last = values.last().copied().unwrap_or(f64::NAN);
    [name.to_owned()].into_iter().chain([mean, min, max, last].map(number::rounded)).collect()
}

/// A plot's place on the page, which the script fills, with its title, axes and notes.
pub(super) fn figure(number: usize, chart: &Chart) -> Markup {
    let text = &chart.text;
    html! { figure {
        h3 { (text.title) }
        .chart data-chart=(number) {
            .legend {}
            p.axis.up { (chart.y.title) }
            .plot role="img" aria-label=(chart.description()) {}
            p.axis.along { (chart.x.title) }
        }
        figcaption {
            @if let Some(caption) = &text.caption { p.caption { (caption) } }
            @if !text.notes.is_empty() { p.soft { (text.notes.join(" ")) } }
        }
    } }
}
