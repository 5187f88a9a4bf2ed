//! Lines that lie upon each other: whoever looks at a plot must see that both are there.
//!
//! Of lines that coincide, those that are drawn first are drawn wider, by how many lie above them, so that each shows on both sides of the
//! next. A sentence below the plot names them.

use super::super::chart::{Chart, Dot, Kind};
use crate::statistics::bounds;

/// How far apart lines may be that cannot be told apart: a part of what the plot shows of y.
const TOLERANCE: f64 = 0.008;
/// The share of a line's points that must lie upon the other for it to be hidden.
const HIDDEN: f64 = 0.8;

/// Says of each line how many lie upon it, and says in words which.
pub(super) fn tell_apart(chart: &mut Chart) {
    // Bars stand side by side.
    if chart.kind == Kind::Bar {
        return;
    }
    let height = Height::of(chart);
    let count = chart.lines.len();
    let pairs: Vec<(usize, usize)> = (0..count)
        .flat_map(|below| (below + 1..count).map(move |above| (below, above)))
        .filter(|(below, above)| height.hides(&chart.lines[*above].points, &chart.lines[*below].points))
        .collect();
    for (place, line) in chart.lines.iter_mut().enumerate() {
        line.beneath = pairs.iter().filter(|(below, _)| *below == place).count();
    }
    let groups: Vec<String> = groups(count, &pairs)
        .into_iter()
        .map(|group| {
            let names: Vec<&str> = group.iter().map(|place| chart.lines[*place].name.as_str()).collect();
            names.join(" = ")
        })
        .collect();
    if !groups.is_empty() {
        let text = format!("Lines upon each other, the lower one drawn wider: {}.", groups.join("; "));
        chart.text.notes.push(text);
    }
}

/// Lines that are joined by pairs, in order; none that is in no pair.
fn groups(count: usize, pairs: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut group: Vec<usize> = (0..count).collect();
    for (below, above) in pairs {
        let (old, new) = (group[*above], group[*below]);
        group.iter_mut().filter(|of| **of == old).for_each(|of| *of = new);
    }
    let members = |of: usize| (0..count).filter(|place| group[*place] == of).collect::<Vec<_>>();
    (0..count).map(members).filter(|members| members.len() > 1).collect()
}

/// What a plot shows of y.
struct Height {
    log: bool,
    tolerance: f64,
}

impl Height {
    fn of(chart: &Chart) -> Self {
        let mut height = Height { log: chart.y.log, tolerance: 0.0 };
        let values = chart.lines.iter().flat_map(|line| &line.points).filter_map(|dot| dot.y);
        let places = values.map(|y| height.place(y)).filter(|place| place.is_finite());
        let (low, high) = bounds(places).unwrap_or_default();
        // An axis that is not logarithmic begins at zero.
        let low = if height.log { low } else { low.min(0.0) };
        height.tolerance = TOLERANCE * (high - low).max(0.0);
        height
    }

    fn place(&self, y: f64) -> f64 {
        if self.log { y.log10() } else { y }
    }

    /// Whether one line covers another.
    fn hides(&self, above: &[Dot], below: &[Dot]) -> bool {
        let drawn: Vec<(f64, f64)> = below.iter().filter_map(|dot| Some((dot.x, dot.y?))).collect();
        let covered = drawn.iter().filter(|(x, y)| {
            at(above, *x).is_some_and(|other| (self.place(*y) - self.place(other)).abs() <= self.tolerance)
        });
        !drawn.is_empty() && covered.count() as f64 >= HIDDEN * drawn.len() as f64
    }
}

/// Where a line is at x; none beside it and in its gaps.
fn at(dots: &[Dot], x: f64) -> Option<f64> {
    let after = dots.partition_point(|dot| dot.x < x);
    let next = dots.get(after)?;
    if next.x <= x {
        return next.y;
    }
    let before = dots.get(after.checked_sub(1)?)?;
    let (low, high) = (before.y?, next.y?);
    Some(low + (high - low) * (x - before.x) / (next.x - before.x))
}

#[cfg(test)]
mod tests {
    use super::super::super::chart::{Along, Line, Text};
    use super::*;

    fn chart(kind: Kind, log: bool, lines: &[&[Option<f64>]]) -> Chart {
        let along =
            |log| Along { title: String::new(), unit: String::new(), log, top: None, names: Vec::new() };
        let line = |(place, values): (usize, &&[Option<f64>])| {
            let dot = |(x, y): (usize, &Option<f64>)| Dot { x: x as f64, y: *y, interval: None };
            let points = values.iter().enumerate().map(dot).collect();
            let name = char::from(b'a' + place as u8).to_string();
            Line { name, colour: place, points, ..Line::default() }
        };
        let mut chart = Chart {
            kind,
            x: along(false),
            y: along(log),
            legend: String::new(),
            lines: lines.iter().enumerate().map(line).collect(),
            text: Text::default(),
        };
        tell_apart(&mut chart);
        chart
    }

    fn beneath(chart: &Chart) -> Vec<usize> {
        chart.lines.iter().map(|line| line.beneath).collect()
    }

    #[test]
    fn each_of_several_lines_upon_each_other_is_wider_than_the_next() {
        let one: &[Option<f64>] = &[Some(5.0), Some(4.0), Some(3.0)];
        let near: &[Option<f64>] = &[Some(5.0), Some(4.01), Some(3.0)];
        let other: &[Option<f64>] = &[Some(5.0), Some(4.5), Some(4.0)];
        let chart = chart(Kind::Line, false, &[one, other, near, one]);
        assert_eq!(beneath(&chart), [2, 0, 1, 0]);
        assert_eq!(chart.text.notes, ["Lines upon each other, the lower one drawn wider: a = c = d."]);
    }

    #[test]
    fn lines_apart_and_bars_are_left_as_they_are() {
        let (one, other): (&[Option<f64>], &[Option<f64>]) =
            (&[Some(1.0), Some(2.0)], &[Some(1.0), Some(1.5)]);
        let apart = chart(Kind::Line, false, &[one, other]);
        assert_eq!((beneath(&apart), apart.text.notes.len()), (vec![0, 0], 0));
        let bars = chart(Kind::Bar, false, &[one, one]);
        assert_eq!((beneath(&bars), bars.text.notes.len()), (vec![0, 0], 0));
    }

    #[test]
    fn a_line_is_hidden_by_a_longer_one_and_does_not_hide_it() {
        let long: Vec<Option<f64>> = (0..100).map(|x| Some(f64::from(x))).collect();
        let short = &long[..50];
        assert_eq!(beneath(&chart(Kind::Series, false, &[short, &long])), [1, 0]);
        assert_eq!(beneath(&chart(Kind::Series, false, &[&long, short])), [0, 0]);
        let gaps: Vec<Option<f64>> = (0..100).map(|x| (x % 2 == 0).then_some(f64::from(x))).collect();
        assert_eq!(beneath(&chart(Kind::Series, false, &[&long, &gaps])), [0, 0], "seen through the gaps");
    }

    #[test]
    fn on_a_logarithmic_axis_what_counts_is_the_ratio() {
        let (low, double): (&[Option<f64>], &[Option<f64>]) =
            (&[Some(1.0), Some(1000.0)], &[Some(2.0), Some(1000.0)]);
        assert_eq!(beneath(&chart(Kind::Line, true, &[low, double])), [0, 0]);
        assert_eq!(beneath(&chart(Kind::Line, false, &[low, double])), [1, 0]);
    }
}
