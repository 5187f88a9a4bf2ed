//! How an experiment's claims and published values came out.
//!
//! A claim holds if its condition `holds` is true, differs if `differs` is, and else fails. A published value holds if ours is
//! within a factor of it either way, or if it lies in our 95 % interval and that is no wider than what the factor allows: half of
//! it is at most the factor less 1, of the mean. (A wider one would confirm anything: two runs of a heavy-tailed metric give
//! 12.5 ± 45.) Within the factor's square it differs. What cannot be decided, because a metric has no value or a point no run,
//! neither holds nor fails: it is undecided, and says why.

use std::ops::AddAssign;

use trunkline_engine::catalogue;

use crate::experiment::{Average, Cell, Claim, ClaimKind, Experiment, Published};
use crate::language::{self, ConditionError, Table, factor};
use crate::number::show;
use crate::plan::Planned;
use crate::results::{ClaimOutcome, Estimate, Point, PointResult, Refusal, Verdict};
use crate::swept;

/// A published value is confirmed within this factor either way, unless the experiment says another.
const WITHIN: f64 = 1.25;

/// How everything that was said came out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judgement {
    /// The experiment's claims, in its order.
    pub claims: Vec<ClaimOutcome>,
    /// Published values beside ours, in the experiment's order, of points that are planned.
    pub comparisons: Vec<Comparison>,
    /// The same of values by which the set-up was chosen: no evidence, and not counted.
    pub calibrated: Vec<Comparison>,
    /// What of the claims could not be decided, and why.
    pub undecided: Vec<String>,
}

/// A published value and ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The metric, or the ratio as the file has it.
    pub metric: String,
    /// Where in the sweep; empty of a ratio.
    pub point: Point,
    /// What it was published in, if that is not the metric's own unit.
    pub unit: Option<String>,
    /// The published value in the metric's own unit.
    pub paper: f64,
    /// Ours; none if no run has the metric.
    pub ours: Option<Estimate>,
    /// Ours over theirs.
    pub ratio: Option<f64>,
    /// Whether it is confirmed.
    pub verdict: Verdict,
    /// Whether the set-up was chosen by it.
    pub calibrated: bool,
    /// Why ours differs or is not there, where that is so.
    pub why: Option<String>,
}

/// How many hold, differ and fail, and how many are undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally([usize; 4]);

impl Tally {
    /// Of these.
    pub fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            tally.0[verdict as usize] += 1;
        }
        tally
    }

    /// How many came out in this way.
    pub const fn count(self, verdict: Verdict) -> usize {
        self.0[verdict as usize]
    }

    /// How many came out in each way.
    pub fn parts(self) -> [(Verdict, usize); 4] {
        [Verdict::Holds, Verdict::Differs, Verdict::Fails, Verdict::Undecided]
            .map(|verdict| (verdict, self.count(verdict)))
    }

    /// All of them.
    pub fn total(self) -> usize {
        self.0.iter().sum()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }
}

impl Judgement {
    /// The paper's claims, its values, and claims of ours.
    pub fn tallies(&self, experiment: &Experiment) -> [Tally; 3] {
        [self.tally(experiment, ClaimKind::Paper), self.cells(), self.tally(experiment, ClaimKind::Ours)]
    }

    /// The claims of one kind.
    pub fn tally(&self, experiment: &Experiment, kind: ClaimKind) -> Tally {
        let claims = experiment.claims.iter().zip(&self.claims);
        Tally::of(claims.filter(|(claim, _)| claim.kind == kind).map(|(_, outcome)| outcome.verdict))
    }

    /// The published values.
    pub fn cells(&self) -> Tally {
        Tally::of(self.comparisons.iter().map(|comparison| comparison.verdict))
    }
}

/// Decides all claims and published values by the results of the points that are planned, which are in the sweep's order. A point
/// may have none: what is said of it is undecided then, and says so if the engine cannot be that point.
pub fn judge<'p>(
    experiment: &Experiment,
    points: impl IntoIterator<Item = &'p Point>,
    results: &[PointResult],
    refused: &[Refusal],
) -> Judgement {
    let points: Vec<&Point> = points.into_iter().collect();
    let units = |metric: &str| Ok(catalogue::unit(metric));
    // The reasons that a file gives are of full runs.
    let quick = experiment.is_quick();
    let mut table = Table::new(points.iter().copied(), results, &units).without(refused);
    let mut judgement = Judgement::default();
    for claim in &experiment.claims {
        let why = claim.why.as_deref().filter(|why| !quick && !why.is_empty());
        table = table.over_runs(claim.over_runs);
        let decided = decide(claim, &table, why).map_err(|error| error.message);
        let decided = decided.and_then(|outcome| too_short(claim, &table, results).map_or(Ok(outcome), Err));
        judgement.claims.push(decided.unwrap_or_else(|message| {
            let text = format!("could not be decided: {message}");
            judgement.undecided.push(format!("{:?} {text}", claim.text));
            ClaimOutcome { text: claim.text.clone(), verdict: Verdict::Undecided, why: text }
        }));
    }
    let table = table.over_runs(Average::Mean);
    let mut comparisons = Vec::new();
    for published in &experiment.published {
        for cell in &published.values {
            if let Some(ratio) = &published.ratio {
                comparisons.push(compare_ratio(published, cell, language::ratio(ratio, &table)));
                continue;
            }
            for point in points.iter().filter(|point| is_at(point, cell)) {
                let ours = results.iter().find(|result| result.point == **point);
                let mut comparison = compare(published, cell, point, ours);
                if let Some(refusal) = refused.iter().find(|refusal| refusal.point == **point)
                    && ours.is_none()
                {
                    comparison.why = Some(format!("not on this engine: {}", refusal.why));
                }
                comparisons.push(comparison);
            }
        }
    }
    for comparison in comparisons.iter_mut().filter(|comparison| quick && comparison.ours.is_some()) {
        comparison.why = None;
    }
    (judgement.calibrated, judgement.comparisons) =
        comparisons.into_iter().partition(|comparison| comparison.calibrated);
    judgement
}

/// The points that a value or a claim of the paper is about, or a claim of ours where there is nothing of a paper; all of them if a
/// condition cannot be read.
pub(crate) fn read<'p>(experiment: &Experiment, planned: &'p [Planned]) -> Vec<&'p Point> {
    let axes = language::axes(planned.iter().map(|planned| &planned.point));
    let is_papers = |claim: &&Claim| claim.kind == ClaimKind::Paper;
    let any = !experiment.published.is_empty() || experiment.claims.iter().any(|claim| is_papers(&claim));
    let claims = || experiment.claims.iter().filter(|claim| !any || is_papers(claim));
    let by_claim = |point: &Point| {
        let conditions = claims().flat_map(|claim| [Some(&claim.holds), claim.differs.as_ref()]).flatten();
        let ratios = experiment.published.iter().filter_map(|published| published.ratio.as_ref());
        conditions.into_iter().chain(ratios).any(|text| language::reads(text, &axes, point).unwrap_or(true))
    };
    let metrics = || experiment.published.iter().filter(|published| published.metric.is_some());
    let cells = || metrics().flat_map(|published| &published.values);
    let is_read = |point: &&Point| cells().any(|cell| is_at(point, cell)) || by_claim(point);
    planned.iter().map(|planned| &planned.point).filter(is_read).collect()
}

/// Puts the published values beside ours and the claims' outcomes behind.
pub fn annotate(results: &mut [PointResult], judgement: &Judgement) {
    for result in results {
        let comparisons = judgement.comparisons.iter().chain(&judgement.calibrated);
        for comparison in comparisons.filter(|comparison| comparison.point == result.point) {
            if let Some(estimate) = result.metrics.get_mut(&comparison.metric) {
                estimate.paper = Some(comparison.paper);
            }
        }
        result.claims.clone_from(&judgement.claims);
    }
}

fn decide(claim: &Claim, table: &Table<'_>, why: Option<&str>) -> Result<ClaimOutcome, ConditionError> {
    let outcome = |verdict, why| ClaimOutcome { text: claim.text.clone(), verdict, why };
    let reason = |facts: String| why.iter().fold(facts, |facts, why| format!("{facts}. {why}"));
    let holds = language::judge(&claim.holds, table)?;
    if holds.holds {
        return Ok(outcome(Verdict::Holds, holds.explanation));
    }
    let Some(differs) = &claim.differs else {
        return Ok(outcome(Verdict::Fails, reason(holds.explanation)));
    };
    let differs = language::judge(differs, table)?;
    if differs.holds && differs.explanation != holds.explanation {
        let facts = format!("{}; but {}", holds.explanation, differs.explanation);
        return Ok(outcome(Verdict::Differs, reason(facts)));
    }
    let verdict = if differs.holds { Verdict::Differs } else { Verdict::Fails };
    Ok(outcome(verdict, reason(holds.explanation)))
}

/// Why the runs of a claim are too short to decide it, if they are.
fn too_short(claim: &Claim, table: &Table<'_>, results: &[PointResult]) -> Option<String> {
    let least = f64::from(claim.round_trips?);
    let about = |result: &&PointResult| {
        language::reads(&claim.holds, table.axes(), &result.point).is_ok_and(|is_read| is_read)
    };
    let short = results.iter().filter(about).filter_map(|result| {
        let time = result.metrics.get("run.time")?.mean;
        let trips = result.metrics.iter().filter(|(name, _)| name.ends_with(".rtt.mean"));
        let longest = trips.map(|(_, estimate)| estimate.mean).reduce(f64::max)?;
        (time < least * longest).then_some((time / longest, time, longest))
    });
    let (count, time, longest) = short.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "a run of {} has {count:.0} round trips of {}, and the claim needs {least}",
        show(time, "s"),
        show(longest, "s")
    ))
}

/// Whether a published value is of this point.
fn is_at(point: &Point, cell: &Cell) -> bool {
    cell.at.iter().all(|(axis, value)| point.get(axis).is_some_and(|name| swept::is(name, value)))
}

fn compare(published: &Published, cell: &Cell, point: &Point, result: Option<&PointResult>) -> Comparison {
    let ours = result.and_then(|result| result.metrics.get(published.what())).copied();
    let missing = if result.is_none() { "it was not run" } else { "our runs have no value" };
    let found = comparison(published, cell, ours.ok_or_else(|| missing.to_owned()));
    Comparison { point: point.clone(), ..found }
}

/// A ratio that was published, and ours or why there is none.
fn compare_ratio(published: &Published, cell: &Cell, ours: Result<f64, ConditionError>) -> Comparison {
    comparison(published, cell, ours.map(Estimate::alone).map_err(|error| error.message))
}

/// At no point. Of ours, why there is none if there is none.
fn comparison(published: &Published, cell: &Cell, ours: Result<Estimate, String>) -> Comparison {
    let paper = cell.value * published.unit.as_deref().and_then(factor).unwrap_or(1.0);
    let found = ours.as_ref().ok().map(|ours| Estimate { paper: Some(paper), ..*ours });
    let within = published.within.unwrap_or(WITHIN);
    let verdict = found.map_or(Verdict::Undecided, |ours| confirmed(ours, paper, within));
    let why = ours.map_or_else(Some, |_| published.why.clone().filter(|_| verdict != Verdict::Holds));
    Comparison {
        metric: published.what().to_owned(),
        point: Point::new(),
        unit: published.unit.clone(),
        paper,
        ours: found,
        ratio: found.map(|ours| ours.mean / paper).filter(|ratio| ratio.is_finite()),
        verdict,
        calibrated: cell.calibrated,
        why,
    }
}

/// The verdict on one value of ours, without an interval.
pub(crate) fn within(ours: f64, paper: f64, within: Option<f64>) -> Verdict {
    confirmed(Estimate::alone(ours), paper, within.unwrap_or(WITHIN))
}

fn confirmed(ours: Estimate, paper: f64, within: f64) -> Verdict {
    let factor = (ours.mean / paper).max(paper / ours.mean);
    // Signs that differ make no factor.
    let reaches = |max: f64| factor <= max && factor >= 1.0;
    let narrow = ours.ci95.filter(|half| *half <= (within - 1.0) * ours.mean.abs());
    if reaches(within) || (ours.mean - paper).abs() <= narrow.unwrap_or(0.0) {
        Verdict::Holds
    } else if reaches(within * within) {
        Verdict::Differs
    } else {
        Verdict::Fails
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn ours(mean: f64, ci95: Option<f64>) -> Estimate {
        Estimate { ci95, ..Estimate::alone(mean) }
    }

    #[test]
    fn a_published_value_holds_within_the_factor_and_differs_within_its_square() {
        for (mean, verdict) in [
            (100.0, Verdict::Holds),
            (125.0, Verdict::Holds),
            (80.0, Verdict::Holds),
            (126.0, Verdict::Differs),
            (79.0, Verdict::Differs),
            (156.0, Verdict::Differs),
            (64.0, Verdict::Differs),
            (157.0, Verdict::Fails),
            (63.0, Verdict::Fails),
            (0.0, Verdict::Fails),
            (-100.0, Verdict::Fails),
        ] {
            assert_eq!(confirmed(ours(mean, None), 100.0, WITHIN), verdict, "{mean}");
        }
    }

    #[test]
    fn a_published_value_in_our_interval_holds_if_that_is_no_wider_than_the_factor() {
        assert_eq!(confirmed(ours(100.0, Some(25.0)), 75.0, WITHIN), Verdict::Holds);
        assert_eq!(confirmed(ours(100.0, Some(24.0)), 75.0, WITHIN), Verdict::Differs);
        assert_eq!(confirmed(ours(100.0, Some(26.0)), 75.0, WITHIN), Verdict::Differs, "wider");
        assert_eq!(confirmed(ours(-100.0, Some(25.0)), -75.0, WITHIN), Verdict::Holds);
        assert_eq!(confirmed(ours(300.0, Some(200.0)), 100.0, 1.7), Verdict::Holds);
        for (paper, verdict) in
            [(0.5, Verdict::Fails), (5.0, Verdict::Fails), (12.0, Verdict::Holds), (50.0, Verdict::Fails)]
        {
            assert_eq!(confirmed(ours(12.5, Some(45.0)), paper, WITHIN), verdict, "{paper}");
        }
        assert_eq!(confirmed(ours(0.0, None), 0.0, WITHIN), Verdict::Holds);
        assert_eq!(confirmed(ours(0.1, None), 0.0, WITHIN), Verdict::Fails);
    }

    const FILE: &str = r#"
        id = "sample"
        title = "Sample"
        duration = "1 s"
        nodes = { a = "host", b = "host" }
        links.core = { ends = ["a", "b"], rate = "1 Mbit/s" }
        traffic.web = { kind = "web", from = "a", to = "b" }
        sweep.flows.values = [10, 60]
        [[published]]
        metric = "web.delay.mean"
        unit = "ms"
        why = "Theirs had another clock."
        values = [{ at = { flows = 10 }, value = 400 }, { at = { flows = 60 }, value = 100 }]
        [[claims]]
        text = "It is fast."
        holds = "all(web.delay.mean < 500 ms)"
        [[claims]]
        text = "It is faster."
        holds = "all(web.delay.mean < 400 ms)"
        differs = "any(web.delay.mean < 400 ms)"
        why = "It is not."
        [[claims]]
        text = "It is slower."
        kind = "ours"
        holds = "all(web.delay.mean > 1 s)"
        differs = "any(web.delay.mean > 900 ms)"
        [[claims]]
        text = "It loses nothing."
        holds = "all(core.drops <= 0)"
    "#;

    fn results() -> Vec<PointResult> {
        let point = |flows: &str, delay| PointResult {
            experiment: "sample".to_owned(),
            engine: "sim".to_owned(),
            point: Point::from([("flows".to_owned(), flows.to_owned())]),
            runs: 1,
            metrics: [("web.delay.mean".to_owned(), ours(delay, None))].into(),
            claims: Vec::new(),
            digest: String::new(),
            version: String::new(),
        };
        vec![point("10", 0.41), point("60", 0.39)]
    }

    fn judge_all(experiment: &Experiment, results: &[PointResult]) -> Judgement {
        judge(experiment, results.iter().map(|result| &result.point), results, &[])
    }

    #[test]
    fn what_was_not_run_is_undecided_and_no_part_is_taken_for_the_whole() {
        let experiment: Experiment = toml::from_str(FILE).unwrap();
        let results = results();
        let points = || results.iter().map(|result| &result.point);
        let none = judge(&experiment, points(), &[], &[]);
        assert_eq!(none.tally(&experiment, ClaimKind::Paper), Tally([0, 0, 0, 3]));
        assert_eq!(none.cells(), Tally([0, 0, 0, 2]));
        assert_eq!(none.comparisons[0].why.as_deref(), Some("it was not run"));
        let refused = [Refusal { point: results[0].point.clone(), why: "tcp asks for tahoe".to_owned() }];
        let refused = judge(&experiment, points(), &results[1..], &refused);
        assert_eq!(refused.claims[0].verdict, Verdict::Undecided);
        let why = "could not be decided: not on this engine at flows=10: tcp asks for tahoe";
        assert_eq!(refused.claims[0].why, why);
        assert_eq!(refused.cells(), Tally([0, 0, 1, 1]), "no failure, for want of a result");
        let why = refused.comparisons[0].why.as_deref();
        assert_eq!(why, Some("not on this engine: tcp asks for tahoe"));
        let part = judge(&experiment, points(), &results[1..], &[]);
        let fast = &part.claims[0];
        assert_eq!(fast.verdict, Verdict::Undecided, "of all points, of which one is there");
        assert_eq!(fast.why, "could not be decided: there is no result at flows=10");
        assert_eq!(part.cells(), Tally([0, 0, 1, 1]));
    }

    #[test]
    fn claims_hold_differ_and_fail_by_their_conditions_with_the_numbers_and_the_reason() {
        let experiment: Experiment = toml::from_str(FILE).unwrap();
        let judgement = judge_all(&experiment, &results());
        let outcomes: Vec<_> =
            judgement.claims.iter().map(|claim| (claim.verdict, claim.why.as_str())).collect();
        assert_eq!(
            outcomes,
            [
                (Verdict::Holds, "410 ms < 500 ms at flows=10 (the closest of 2)"),
                (
                    Verdict::Differs,
                    "410 ms ≥ 400 ms at flows=10 (true at 1 of 2); but 390 ms < 400 ms at flows=60 (true at 1 of 2). \
                     It is not."
                ),
                (Verdict::Fails, "390 ms ≤ 1 s at flows=60 (true at 0 of 2)"),
                (Verdict::Undecided, "could not be decided: core.drops has no value at flows=10"),
            ]
        );
        assert_eq!(judgement.undecided.len(), 1);
        assert_eq!(judgement.tally(&experiment, ClaimKind::Paper), Tally([1, 1, 0, 1]));
        assert_eq!(judgement.tally(&experiment, ClaimKind::Ours), Tally([0, 0, 1, 0]));
    }

    #[test]
    fn a_quick_run_is_judged_alike_and_given_no_reason_of_full_runs() {
        let full: Experiment = toml::from_str(FILE).unwrap();
        let text = FILE.replacen("title =", "quick.applied = true\ntitle =", 1);
        let quick: Experiment = toml::from_str(&text).unwrap();
        let [full, quick] = [full, quick].map(|experiment| judge_all(&experiment, &results()));
        let verdicts = |judgement: &Judgement| -> Vec<Verdict> {
            let claims = judgement.claims.iter().map(|claim| claim.verdict);
            claims.chain(judgement.comparisons.iter().map(|cell| cell.verdict)).collect()
        };
        assert_eq!(verdicts(&full), verdicts(&quick));
        assert!(full.claims[1].why.ends_with("It is not.") && !quick.claims[1].why.contains("It is not."));
        assert!(quick.claims[1].why.starts_with("410 ms ≥ 400 ms"), "its numbers are there");
        assert!(full.comparisons[1].why.is_some() && quick.comparisons[1].why.is_none());
    }

    #[test]
    fn points_are_read_by_the_papers_values_and_claims_and_by_ours_where_there_are_none() {
        let read_of = |text: &str| -> Vec<String> {
            let document = Document::parse("sample.toml", text).unwrap();
            let planned = document.points().unwrap();
            read(document.experiment(), &planned).into_iter().map(|point| point["flows"].clone()).collect()
        };
        let axis = "sweep.flows = { paths = [\"traffic.web.flows\"], values = [10, 60, 90, 95] }";
        let swept = FILE.replace("sweep.flows.values = [10, 60]", axis);
        assert_eq!(read_of(&swept), ["10", "60", "90", "95"], "all() is about every point");
        let at_90 = swept.replace("all(web.delay.mean < 500 ms)", "web.delay.mean[flows=90] < 500 ms");
        let at_90 = at_90.replace("all(web.delay.mean < 400 ms)", "web.delay.mean[flows=10] < 400 ms");
        let at_90 = at_90.replace("any(web.delay.mean < 400 ms)", "web.delay.mean[flows=10] < 401 ms");
        let at_90 = at_90.replace("all(core.drops <= 0)", "core.drops[flows=10] <= 0");
        assert_eq!(read_of(&at_90), ["10", "60", "90"], "values at 10 and 60, and ours does not count");
        let ours = at_90.split("        [[published]]").next().unwrap().to_owned()
            + "[[claims]]\ntext = \"x\"\nkind = \"ours\"\nholds = \"core.drops[flows=95] <= 0\"\n";
        assert_eq!(read_of(&ours), ["95"]);
    }

    #[test]
    fn a_value_that_the_set_up_was_chosen_by_is_not_counted() {
        let calibrated = FILE.replace("value = 400 }", "value = 400, calibrated = true }");
        let experiment: Experiment = toml::from_str(&calibrated).unwrap();
        let judgement = judge_all(&experiment, &results());
        assert_eq!(judgement.cells(), Tally([0, 0, 1, 0]), "the other one");
        let [chosen] = judgement.calibrated.as_slice() else { panic!("{judgement:?}") };
        assert_eq!((chosen.calibrated, chosen.paper, chosen.verdict), (true, 0.4, Verdict::Holds));
    }

    #[test]
    fn a_ratio_of_points_is_judged_as_a_value_is() {
        let published = |value: &str| {
            let file = FILE.replace("        [[claims]]\n        text = \"It is fast.\"", &format!(
                "        [[published]]\n        label = \"at 60 to that at 10\"\n        ratio = \"web.delay.mean[flows=60] / web.delay.mean[flows=10]\"\n        values = [{{ value = {value} }}]\n        [[claims]]\n        text = \"It is fast.\""
            ));
            let experiment: Experiment = toml::from_str(&file).unwrap();
            let judgement = judge_all(&experiment, &results());
            judgement.comparisons.last().expect("a comparison").clone()
        };
        let one = published("1");
        assert_eq!((one.verdict, one.point.len()), (Verdict::Holds, 0));
        assert!((one.ours.unwrap().mean - 0.39 / 0.41).abs() < 1e-9, "{one:?}");
        assert_eq!(published("1.5").verdict, Verdict::Fails);
        let experiment: Experiment = toml::from_str(FILE).unwrap();
        let half = [results()[0].clone()];
        let ratio = Published {
            ratio: Some("web.delay.mean[flows=60] / web.delay.mean[flows=10]".to_owned()),
            metric: None,
            ..experiment.published[0].clone()
        };
        let cell = Cell { at: indexmap::IndexMap::default(), value: 1.0, calibrated: false };
        let points: Vec<Point> = results().into_iter().map(|result| result.point).collect();
        let experiment =
            Experiment { published: vec![Published { values: vec![cell], ..ratio }], ..experiment };
        let undecided = judge(&experiment, &points, &half, &[]);
        assert_eq!(undecided.cells().count(Verdict::Undecided), 1, "{undecided:?}");
        assert_eq!(undecided.comparisons[0].why.as_deref(), Some("there is no result at flows=60"));
    }

    #[test]
    fn a_claim_that_needs_more_round_trips_than_a_run_has_is_undecided() {
        let asked =
            FILE.replace("text = \"It is fast.\"", "text = \"It is fast.\"\n        round_trips = 20");
        let experiment: Experiment = toml::from_str(&asked).unwrap();
        let with = |time: f64, rtt: f64| {
            let mut results = results();
            for result in &mut results {
                result.metrics.insert("run.time".to_owned(), ours(time, None));
                result.metrics.insert("web.rtt.mean".to_owned(), ours(rtt, None));
            }
            judge_all(&experiment, &results).claims[0].clone()
        };
        assert_eq!(with(12.0, 0.5).verdict, Verdict::Holds);
        let short = with(12.0, 0.8);
        assert_eq!(short.verdict, Verdict::Undecided);
        assert!(short.why.contains("a run of 12 s has 15 round trips of 800 ms"), "{}", short.why);
    }

    #[test]
    fn published_values_stand_beside_ours_in_the_base_unit() {
        let experiment: Experiment = toml::from_str(FILE).unwrap();
        let mut results = results();
        let judgement = judge_all(&experiment, &results);
        annotate(&mut results, &judgement);
        let [first, second] = judgement.comparisons.as_slice() else { panic!("{judgement:?}") };
        assert_eq!((first.paper, first.verdict, &first.why), (0.4, Verdict::Holds, &None));
        assert_eq!(second.verdict, Verdict::Fails);
        assert_eq!(second.why.as_deref(), Some("Theirs had another clock."));
        assert_eq!(results[1].metrics["web.delay.mean"].paper, Some(0.1));
        assert_eq!(results[0].claims.len(), 4);
    }
}
