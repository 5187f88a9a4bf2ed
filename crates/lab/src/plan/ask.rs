//! What is asked of the results, checked before anything is run: axes and values exist, conditions can be read, units are known.
//!
//! A quick run or a setting may leave out values of the sweep, and leave undecided what is said of them: they are looked for in the
//! sweep as the file has it, too.

use indexmap::IndexMap;
use toml::Value;

use super::{Asked, Finding, keys, names};
use crate::experiment::{Claim, Figure, FigureKind, Published, Row, SAMPLE_AXIS, SurveySpec, Table};
use crate::language::{self, Axes, ConditionError};
use crate::swept;
use trunkline_engine::catalogue::{Known, Unit, UnknownName};
use trunkline_schema::{At, Findings};

/// What is wrong with what is asked of results that have these names; any, if it is not known which.
pub(super) fn check(now: Asked<'_>, before: Option<Asked<'_>>, known: Option<&Known>) -> Vec<Finding> {
    let Asked { experiment, tree, .. } = now;
    let findings = Findings::new(tree);
    // What is wrong with the sweep is told by who plans it.
    let axes = |asked: Asked<'_>| super::axes(asked.experiment, asked.tree);
    let axes_now = axes(now);
    let mut all = axes_now.clone();
    for (axis, values) in before.map(axes).unwrap_or_default() {
        let known: &mut Vec<String> = all.entry(axis).or_default();
        known.extend(values.into_iter().filter(|value| !known.contains(value)).collect::<Vec<_>>());
    }
    let ask = Ask { axes: &all, axes_now: &axes_now, known };
    let root = findings.root();
    for (number, published) in experiment.published.iter().enumerate() {
        ask.published(&root.key("published").index(number), published);
    }
    for (number, claim) in experiment.claims.iter().enumerate() {
        ask.claim(&root.key("claims").index(number), claim);
    }
    for (number, table) in experiment.tables.iter().enumerate() {
        ask.table(&root.key("tables").index(number), table);
    }
    for (number, figure) in experiment.figures.iter().enumerate() {
        ask.figure(&root.key("figures").index(number), figure);
    }
    if let Some(survey) = &experiment.survey {
        ask.survey(&root.key("survey"), survey);
    }
    if let Some(series) = &experiment.series {
        let at = root.key("series").key("of");
        for (number, name) in series.of.iter().enumerate() {
            ask.name(&at.index(number), |known| known.series(name).map(drop));
        }
    }
    findings.into_found().0
}

struct Ask<'a> {
    /// All that may be spoken of.
    axes: &'a Axes,
    /// Those that there are now.
    axes_now: &'a Axes,
    known: Option<&'a Known>,
}

impl Ask<'_> {
    fn axis(&self, at: &At<'_>, axis: &str) {
        if !self.axes.contains_key(axis) {
            at.report(
                format!("there is no axis {axis:?}"),
                keys::listed(self.axes.keys().map(String::as_str)),
            );
        }
    }

    fn point(&self, at: &At<'_>, point: &IndexMap<String, Value>) {
        let at = at.key("at");
        for (axis, value) in point {
            let at = at.key(axis);
            match self.axes.get(axis) {
                None => self.axis(&at, axis),
                Some(values) if !values.contains(&swept::name(value)) => {
                    at.refuse(keys::listed(values.iter().map(String::as_str)));
                }
                Some(_) => {}
            }
        }
    }

    fn unit_of(&self, metric: &str) -> Result<Option<Unit>, String> {
        let known = self.known.map(|known| known.metric(metric)).transpose();
        known.map(|quantity| quantity.map(|quantity| quantity.unit)).map_err(|error| error.to_string())
    }

    fn name<T>(&self, at: &At<'_>, find: impl Fn(&Known) -> Result<T, UnknownName>) {
        if let Some(Err(unknown)) = self.known.map(find) {
            at.report(unknown.to_string(), "names as docs/metrics.md has them");
        }
    }

    fn unit(at: &At<'_>, unit: Option<&String>) {
        if unit.is_some_and(|unit| language::factor(unit).is_none()) {
            at.refuse("s, ms, us, min, bit/s, kbit/s, Mbit/s, Gbit/s, B, kB, MB, GB, %, 1");
        }
    }

    fn rows(&self, at: &At<'_>, rows: &[Row], kind: Option<FigureKind>) {
        let at = at.key("metrics");
        if rows.is_empty() {
            at.refuse("at least one metric");
        }
        for (number, row) in rows.iter().enumerate() {
            let at = at.index(number);
            self.name(&at.key("metric"), |known| match kind {
                Some(FigureKind::Series) => known.series(&row.metric).map(drop),
                Some(FigureKind::Histogram) => known.distribution(&row.metric).map(drop),
                Some(FigureKind::Line | FigureKind::Bar | FigureKind::Points) | None => {
                    known.metric(&row.metric).map(drop)
                }
            });
            Self::unit(&at.key("unit"), row.unit.as_ref());
        }
    }

    fn published(&self, at: &At<'_>, published: &Published) {
        match (&published.metric, &published.ratio) {
            (Some(metric), None) => self.name(&at.key("metric"), |known| known.metric(metric).map(drop)),
            (None, Some(ratio)) => {
                self.condition(&at.key("ratio"), &|axes| {
                    language::check_ratio(ratio, axes, &|metric| self.unit_of(metric))
                });
                if published.values.iter().any(|cell| !cell.at.is_empty()) {
                    at.key("values")
                        .report("names points", "a value without `at`: a ratio selects its own points");
                }
                if published.unit.is_some() {
                    at.key("unit").report("is of a ratio", "no unit");
                }
            }
            _ => at.report("has neither metric nor ratio, or both", "one of metric and ratio"),
        }
        Self::unit(&at.key("unit"), published.unit.as_ref());
        if published.within.is_some_and(|within| !(within.is_finite() && within >= 1.0)) {
            at.key("within").refuse("a factor, 1 or more");
        }
        for (number, cell) in published.values.iter().enumerate() {
            let at = at.key("values").index(number);
            if !cell.value.is_finite() {
                at.key("value").refuse("a number");
            }
            self.point(&at, &cell.at);
        }
    }

    fn claim(&self, at: &At<'_>, claim: &Claim) {
        for (key, condition) in [("holds", Some(&claim.holds)), ("differs", claim.differs.as_ref())] {
            let Some(condition) = condition else { continue };
            self.condition(&at.key(key), &|axes| {
                language::check(condition, axes, &|metric| self.unit_of(metric))
            });
        }
    }

    /// What a text says of the sweep as it is, or else as it was.
    fn condition(&self, at: &At<'_>, check: &dyn Fn(&Axes) -> Result<(), ConditionError>) {
        if let Err(error) = check(self.axes_now).or_else(|error| check(self.axes).map_err(|_| error)) {
            let column = error.condition.get(..error.at.start).map_or(1, |before| before.chars().count() + 1);
            at.report_plain(format!("{} (at character {column} of the condition)", error.message));
        }
    }

    fn survey(&self, at: &At<'_>, survey: &SurveySpec) {
        let values = self.axes_now.get(&survey.axis);
        if values.is_none() || self.axes_now.len() != 1 {
            let allowed = "the name of the only axis of the sweep".to_owned();
            at.key("axis").refuse(allowed);
        }
        if survey.axis == SAMPLE_AXIS {
            at.key("axis").report("is what samples are called", "another name");
        }
        let values = values.map(Vec::as_slice).unwrap_or_default();
        if !values.is_empty() && !values.contains(&survey.baseline) {
            at.key("baseline").refuse(keys::listed(values.iter().map(String::as_str)));
        }
        if survey.measures.is_empty() {
            at.key("measures").refuse("at least one");
        }
        for (name, measure) in &survey.measures {
            let at = at.key("measures").key(name);
            names::check(&at, name);
            self.name(&at.key("metric"), |known| known.metric(&measure.metric).map(drop));
        }
        for (number, bound) in survey.bounds.iter().enumerate() {
            let at = at.key("bounds").index(number);
            if !survey.measures.contains_key(&bound.measure) {
                at.key("measure").refuse(keys::listed(survey.measures.keys().map(String::as_str)));
            }
            if bound.below.is_some() == bound.above.is_some() {
                at.report("has neither below nor above, or both", "one of below and above");
            }
        }
    }

    fn table(&self, at: &At<'_>, table: &Table) {
        self.rows(at, &table.metrics, None);
        if let Some(axis) = &table.columns {
            self.axis(&at.key("columns"), axis);
        }
        self.by(at, table.by.as_deref());
        self.point(at, &table.at);
    }

    fn figure(&self, at: &At<'_>, figure: &Figure) {
        let has_no_axis =
            matches!(figure.kind, FigureKind::Series | FigureKind::Histogram | FigureKind::Points);
        if figure.kind == FigureKind::Points && figure.metrics.len() != 2 {
            at.key("metrics").refuse("two metrics: that across, then that up");
        }
        self.rows(at, &figure.metrics, Some(figure.kind));
        match &figure.x {
            Some(_) if has_no_axis => {
                at.key("x").report_plain(
                    "is an axis of the sweep, which series, histograms and points do not run along",
                );
            }
            Some(axis) => self.axis(&at.key("x"), axis),
            None if !has_no_axis && self.axes_now.len() > 1 => {
                at.key("x").report("is missing", keys::listed(self.axes_now.keys().map(String::as_str)));
            }
            None => {}
        }
        self.by(at, figure.by.as_deref());
        self.point(at, &figure.at);
    }

    fn by(&self, at: &At<'_>, by: Option<&[String]>) {
        for (number, axis) in by.unwrap_or_default().iter().enumerate() {
            self.axis(&at.key("by").index(number), axis);
        }
    }
}
