//! One metric against another: a dot for each point of the sweep.

use super::super::chart::{Along, Chart, Dot, Kind, Line, Text};
use super::super::material::Material;
use super::super::{axes, number, survivors, table};
use super::lines::along_y;
use super::{styled, units};
use crate::experiment::{Figure, Row, Scale};
use crate::results::PointResult;

pub(super) fn chart(figure: &Figure, material: &Material) -> Option<Chart> {
    let [across, up] = figure.metrics.as_slice() else { return None };
    let experiment = material.experiment;
    let results = axes::at(material.results, &figure.at);
    let by = axes::telling(&results, figure.by.as_deref(), None);
    let mean = |result: &PointResult, row: &Row| {
        Some(result.metrics.get(&row.metric)?.mean).filter(|mean| mean.is_finite())
    };
    let means = |row: &Row| results.iter().filter_map(|result| mean(result, row)).collect();
    let units = units(figure, None, means);
    let axis = |number: usize| {
        let one = Figure { metrics: vec![figure.metrics[number].clone()], y_label: None, ..figure.clone() };
        along_y(&one, &units[number..=number], true)
    };
    let mut lines = Vec::new();
    let mut rows = Vec::new();
    for (part, members) in axes::groups(&results, &by) {
        let named: Vec<String> =
            part.iter().map(|(axis, value)| axes::value_label(experiment, axis, value)).collect();
        let short: Vec<String> = part.values().map(|value| axes::shown(value)).collect();
        let mut line = Line { name: named.join(", "), short: short.join(", "), ..Line::default() };
        for result in members {
            let at: Vec<String> = result.point.values().map(|value| axes::shown(value)).collect();
            let paper = |row: &Row| Some(material.comparison(&row.metric, &result.point)?.paper);
            let dot = |x: Option<f64>, y: Option<f64>| {
                Some(Dot { x: units[0].show(x?), y: Some(units[1].show(y?)), interval: None })
            };
            let ours = dot(mean(result, across), mean(result, up));
            line.points.extend(ours);
            line.paper.extend(dot(paper(across), paper(up)));
            let shown = |of: fn(&Dot) -> Option<f64>| {
                ours.as_ref().and_then(of).map_or("–".to_owned(), number::rounded)
            };
            rows.push(vec![at.join(", "), shown(|dot| Some(dot.x)), shown(|dot| dot.y)]);
        }
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let key = by.iter().map(|axis| part.get(axis).cloned().unwrap_or_default()).collect();
        lines.push((key, line));
    }
    let (x, y) = (axis(0), axis(1));
    let mut notes = Vec::new();
    if lines.iter().any(|(_, line)| !line.paper.is_empty()) {
        notes.push("Hollow diamonds: the paper's values.".to_owned());
    }
    notes.extend(survivors::note(experiment, figure.metrics.iter().map(|row| row.metric.as_str()), &results));
    let label = |row: &Row| table::label_of(row).to_owned();
    let heads = vec!["point".to_owned(), label(across), label(up)];
    Some(Chart {
        kind: Kind::Points,
        x: Along { log: figure.x_scale == Scale::Log, ..x },
        y,
        legend: by.iter().map(|axis| axes::label(experiment, axis)).collect::<Vec<_>>().join(", "),
        lines: styled(lines),
        text: Text { notes, heads, rows, ..Text::default() },
    })
}
