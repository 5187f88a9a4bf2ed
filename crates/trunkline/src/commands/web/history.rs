//! The last hours of what is drawn, in bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;

use super::readings::{Chart, Reading};

/// Points: six hours of one each ten seconds.
const POINTS: usize = 6 * 360;
/// Curves. A point of one takes 8 bytes: 17 MB in all.
const CURVES: usize = 1000;

/// Points of curves.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct History {
    every: Duration,
    places: BTreeMap<(Chart, String), u32>,
    points: VecDeque<(u64, Vec<(u32, f32)>)>,
}

/// How it is sent.
#[derive(Serialize)]
struct Sent<'h> {
    every_s: f64,
    curves: Vec<(&'h Chart, &'h str)>,
    /// A time in ms since 1970, and what there was then: a curve's place, and its value.
    points: &'h VecDeque<(u64, Vec<(u32, f32)>)>,
}

impl History {
    pub(super) fn new(every: Duration) -> Self {
        History { every, places: BTreeMap::new(), points: VecDeque::new() }
    }

    /// Adds a point of each curve. What was known first keeps its place when there are too many.
    pub(super) fn add(&mut self, at: u64, readings: &[Reading]) {
        let mut values = Vec::with_capacity(readings.len().min(CURVES));
        for reading in readings {
            let key = (reading.chart, reading.name.clone());
            let next = self.places.len();
            if next < CURVES || self.places.contains_key(&key) {
                let place = *self.places.entry(key).or_insert(next as u32);
                values.push((place, reading.value as f32));
            }
        }
        self.points.push_back((at, values));
        if self.points.len() > POINTS {
            self.points.pop_front();
        }
    }

    pub(super) fn to_json(&self) -> String {
        let mut curves: Vec<(u32, (&Chart, &str))> =
            self.places.iter().map(|((chart, name), place)| (*place, (chart, name.as_str()))).collect();
        curves.sort_by_key(|(place, _)| *place);
        let curves = curves.into_iter().map(|(_, curve)| curve).collect();
        let sent = Sent { every_s: self.every.as_secs_f64(), curves, points: &self.points };
        serde_json::to_string(&sent).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &impl ToString, value: f64) -> Reading {
        Reading { chart: Chart::Sent, name: name.to_string(), value }
    }

    #[test]
    fn points_come_back_and_the_oldest_go() {
        let mut history = History::new(Duration::from_secs(10));
        history.add(1, &[reading(&"a", 1.5)]);
        history.add(2, &[reading(&"b", 2.0), reading(&"a", 3.0)]);
        let json = r#"{"every_s":10.0,"curves":[["sent","a"],["sent","b"]],"points":[[1,[[0,1.5]]],[2,[[1,2.0],[0,3.0]]]]}"#;
        assert_eq!(history.to_json(), json);
        for at in 3..3 + POINTS as u64 {
            history.add(at, &[]);
        }
        assert_eq!((history.points.len(), history.points[0].0), (POINTS, 3));
    }

    #[test]
    fn curves_are_bounded_and_those_that_are_known_go_on() {
        let mut history = History::new(Duration::from_secs(10));
        let many: Vec<Reading> = (0..CURVES + 500).map(|number| reading(&number, 1.0)).collect();
        history.add(1, &many);
        history.add(2, &[reading(&(CURVES + 7), 1.0), reading(&3, 2.0)]);
        assert_eq!((history.places.len(), history.points[0].1.len()), (CURVES, CURVES));
        assert_eq!(history.points[1].1, [(3, 2.0)]);
    }
}
