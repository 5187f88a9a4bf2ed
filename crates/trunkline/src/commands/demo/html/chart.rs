//! Plots over time as inline SVG. Colours are classes, which the page's style gives for light and dark.

use std::fmt::Write as _;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 36.0;
const MOST_TICKS: f64 = 5.0;

/// How values become heights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// From zero to this.
    Linear { max: f64 },
    /// Milliseconds from this to that, in powers of ten; what is outside is drawn at the edge.
    LogTime { min: f64, max: f64 },
}

impl Scale {
    /// The height of a value as a share of the plot's.
    fn share(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { max } => value / max,
            Self::LogTime { min, max } => (value.max(min) / min).log10() / (max / min).log10(),
        };
        share.clamp(0.0, 1.0)
    }

    fn label(self, tick: f64) -> String {
        match self {
            Self::Linear { .. } => number(tick),
            Self::LogTime { .. } if tick >= 999.0 => format!("{} s", number(tick / 1e3)),
            Self::LogTime { .. } => format!("{} ms", number(tick)),
        }
    }

    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear { max } => multiples(0.0, max),
            Self::LogTime { min, max } => {
                let decades = std::iter::successors(Some(min), |tick| Some(tick * 10.0));
                decades.take_while(|tick| *tick <= max * 1.0001).collect()
            }
        }
    }
}

/// A few round numbers in `from..=to`.
fn multiples(from: f64, to: f64) -> Vec<f64> {
    let rough = ((to - from) / MOST_TICKS).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough * 0.9999);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((from / step).ceil() as i32, (to / step + 1e-6).floor() as i32);
    (first..=last).map(|k| f64::from(k) * step).collect()
}

/// What is drawn of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// A line, and the area under it faintly.
    Area,
    /// A line.
    Line,
    /// A dot for each point.
    Dots,
    /// A small ring for each point.
    Rings,
}

/// Values over time.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// The class that gives the colour.
    pub(super) class: &'static str,
    pub(super) mark: Mark,
    /// Seconds and value.
    pub(super) points: Vec<(f64, f64)>,
}

/// One plot.
#[derive(Debug, Clone)]
pub(super) struct Plot {
    /// What it shows, for those who do not see it.
    pub(super) title: String,
    /// The first and the last second; the flood begins at 0.
    pub(super) time: (f64, f64),
    pub(super) scale: Scale,
    pub(super) unit: &'static str,
    /// A level to compare with, and its name.
    pub(super) level: Option<(f64, String)>,
    pub(super) series: Vec<Series>,
}

impl Plot {
    fn x(&self, second: f64) -> f64 {
        let (from, to) = self.time;
        LEFT + (second - from) / (to - from) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.scale.share(value) * (HEIGHT - TOP - BOTTOM)
    }

    /// The SVG element.
    pub(super) fn render(&self) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>\n",
            super::escape(&self.title)
        );
        self.render_axes(&mut svg);
        for series in &self.series {
            self.render_series(&mut svg, series);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn render_axes(&self, svg: &mut String) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        if self.time.0 < 0.0 {
            let width = self.x(0.0) - LEFT;
            let _ = writeln!(
                svg,
                "<rect class=\"lead-in\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                bottom - TOP
            );
        }
        for tick in self.scale.ticks() {
            let y = self.y(tick);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 3.5,
                self.scale.label(tick)
            );
        }
        for tick in multiples(self.time.0, self.time.1) {
            let x = self.x(tick);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 15.0,
                number(tick)
            );
        }
        let _ = writeln!(
            svg,
            "<text class=\"unit\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">seconds under the flood</text>\
             <text class=\"unit\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
            HEIGHT - 5.0,
            HEIGHT - 5.0,
            super::escape(self.unit)
        );
        if let Some((level, name)) = &self.level {
            let y = self.y(*level);
            let _ = writeln!(
                svg,
                "<line class=\"level\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"unit\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                right - 2.0,
                y - 4.0,
                super::escape(name)
            );
        }
    }

    fn render_series(&self, svg: &mut String, series: &Series) {
        let class = series.class;
        let place = |(second, value): &(f64, f64)| (self.x(*second), self.y(*value));
        match series.mark {
            Mark::Dots | Mark::Rings => {
                let mark = if series.mark == Mark::Dots { "dot" } else { "ring" };
                let radius = if series.mark == Mark::Dots { 2.0 } else { 2.6 };
                for (x, y) in series.points.iter().map(place) {
                    let _ = writeln!(
                        svg,
                        "<circle class=\"{mark} {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"
                    );
                }
            }
            Mark::Line | Mark::Area => {
                let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else { return };
                let mut path = String::new();
                for (x, y) in series.points.iter().map(place) {
                    let _ = write!(path, "{} {x:.1} {y:.1}", if path.is_empty() { "M" } else { " L" });
                }
                if series.mark == Mark::Area {
                    let (floor, from, to) = (self.y(0.0), self.x(first.0), self.x(last.0));
                    let _ = writeln!(
                        svg,
                        "<path class=\"area {class}\" d=\"{path} L {to:.1} {floor:.1} L {from:.1} {floor:.1} Z\"/>"
                    );
                }
                let _ = writeln!(svg, "<path class=\"line {class}\" d=\"{path}\"/>");
            }
        }
    }
}

/// A tick's label, as short as it goes.
fn number(value: f64) -> String {
    let rounded = (value * 1000.0).round() / 1000.0;
    // No "-0".
    let rounded = if rounded.abs() < f64::EPSILON { 0.0 } else { rounded };
    rounded.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round() {
        assert_eq!(multiples(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(multiples(-3.0, 25.0), [0.0, 10.0, 20.0]);
        assert_eq!(multiples(-1.0, 3.0), [-1.0, 0.0, 1.0, 2.0, 3.0]);
        let log = Scale::LogTime { min: 10.0, max: 10_000.0 };
        let labels: Vec<String> = log.ticks().into_iter().map(|tick| log.label(tick)).collect();
        assert_eq!(labels, ["10 ms", "100 ms", "1 s", "10 s"]);
    }

    #[test]
    fn values_are_drawn_inside_the_plot() {
        let plot = Plot {
            title: "t".to_owned(),
            time: (-3.0, 25.0),
            scale: Scale::Linear { max: 10.0 },
            unit: "u",
            level: None,
            series: Vec::new(),
        };
        assert!((plot.x(-3.0) - LEFT).abs() < 1e-9 && (plot.x(25.0) - (WIDTH - RIGHT)).abs() < 1e-9);
        assert!((plot.y(0.0) - (HEIGHT - BOTTOM)).abs() < 1e-9 && (plot.y(99.0) - TOP).abs() < 1e-9);
        let log = Scale::LogTime { min: 10.0, max: 1000.0 };
        assert!((log.share(100.0) - 0.5).abs() < 1e-9 && log.share(0.0).abs() < 1e-9);
    }
}
