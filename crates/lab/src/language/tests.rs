use super::*;
use crate::experiment::Average;
use crate::results::{Estimate, Point, PointResult};

/// Two trunks × three numbers of flows. Delays grow with flows, and are half as long with a trunk.
fn results() -> Vec<PointResult> {
    let mut results = Vec::new();
    for (trunk, factor) in [("with", 0.5), ("without", 1.0)] {
        for flows in ["1", "10", "100 or so"] {
            let load = flows.len() as f64;
            // Half of the runs have a third of the mean at most.
            let estimate = |mean: f64, half: f64| Estimate {
                ci95: Some(half),
                median: mean / 3.0,
                ..Estimate::alone(mean)
            };
            let metrics = [
                ("web.delay.mean", estimate(load * factor, 0.2)),
                ("core.drops.ratio", estimate(load * factor / 100.0, 0.0)),
                ("core.drops", estimate(load * 100.0 - 200.0, 0.0)),
                ("core.offered.packets", estimate(1000.0, 0.0)),
                ("all.goodput", estimate(1e6, 1e5)),
                ("5x-b.goodput", estimate(2e6, 0.0)),
            ];
            let metrics = metrics.map(|(name, estimate)| (name.to_owned(), estimate)).into();
            let point = [("trunk", trunk), ("flows", flows)];
            let point: Point = point.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into();
            results.push(PointResult {
                experiment: "sample".to_owned(),
                engine: "sim".to_owned(),
                point,
                runs: 5,
                metrics,
                claims: Vec::new(),
                digest: String::new(),
                version: String::new(),
            });
        }
    }
    results
}

fn unit(metric: &str) -> Result<Option<Unit>, String> {
    match metric.split_once('.') {
        Some(("web", "delay.mean")) => Ok(Some(Unit::Second)),
        Some(("core", "drops.ratio")) => Ok(Some(Unit::Ratio)),
        Some(("core", "drops" | "offered.packets")) => Ok(Some(Unit::Count)),
        Some((_, "goodput")) => Ok(Some(Unit::BitPerSecond)),
        Some(("core", "secret")) => Ok(None),
        _ => Err(format!("there is no metric {metric}")),
    }
}

fn judge(text: &str) -> Result<Answer, ConditionError> {
    let results = results();
    let table = Table::new(results.iter().map(|result| &result.point), &results, &unit);
    check(text, table.axes(), &unit)?;
    super::judge(text, &table)
}

fn explanation(text: &str) -> (bool, String) {
    let answer = judge(text).unwrap_or_else(|error| panic!("{error}"));
    (answer.holds, answer.explanation)
}

#[test]
fn conditions_are_what_they_say() {
    // Delays in s, by flows: with 0.5, 1, 4.5; without 1, 2, 9.
    for (text, holds) in [
        ("web.delay.mean[trunk=with, flows=1] < 0.6 s", true),
        ("web.delay.mean[trunk=with, flows=1] < 500 ms", false),
        ("web.delay.mean[trunk=with, flows=1] <= 500 ms", true),
        ("all(web.delay.mean[trunk=with] < 0.8 * web.delay.mean[trunk=without])", true),
        ("all(web.delay.mean[trunk=with] < 0.4 * web.delay.mean[trunk=without])", false),
        ("any(web.delay.mean > 8 s)", true),
        ("any(web.delay.mean > 9 s)", false),
        ("min(web.delay.mean) <= 0.5 s and max(web.delay.mean) >= 9 s", true),
        ("mean(web.delay.mean[trunk=with]) <= 2 s", true),
        ("mean(web.delay.mean[trunk=with]) < 2 s", false),
        ("first(web.delay.mean[trunk=with]) < last(web.delay.mean[trunk=with])", true),
        ("first(web.delay.mean[trunk=without]) < 2 s", true),
        ("increasing(web.delay.mean[trunk=with])", true),
        ("decreasing(web.delay.mean[trunk=with])", false),
        ("decreasing(10 s - web.delay.mean[trunk=with])", true),
        // What is flat rises no more than it falls, whatever the slack.
        ("increasing(core.drops[trunk=with] * 0 + core.offered.packets[trunk=with])", false),
        ("decreasing(core.offered.packets[trunk=with], 50 %)", false),
        ("decreasing(web.delay.mean[flows=1], 1)", false),
        // 1.5 s, 1 s, 2.5 s, and less that 1.5 s, 2 s, 0.5 s of 3 s: a third the other way.
        ("increasing(abs(web.delay.mean[trunk=with] - 2 s), 34 %)", true),
        ("increasing(abs(web.delay.mean[trunk=with] - 2 s), 33 %)", false),
        ("decreasing(3 s - abs(web.delay.mean[trunk=with] - 2 s), 34 %)", true),
        ("decreasing(3 s - abs(web.delay.mean[trunk=with] - 2 s), 33 %)", false),
        ("web.delay.mean[trunk=without, flows=1] / web.delay.mean[trunk=with, flows=1] >= 2", true),
        ("abs(web.delay.mean[trunk=with, flows=1] - 1 s) < 0.6 s", true),
        ("core.drops[trunk=with, flows=1] / 0 < 0", true),
        ("\"5x-b.goodput\"[flows=1, trunk=with] >= 2 Mbit/s", true),
        ("all(all.goodput > 100 KB/s)", true),
        ("web.delay.mean[trunk=\"with\", flows=\"100 or so\"] > 4 s", true),
        ("web.delay.mean[trunk = with, flows = 100 or so] > 4 s", true),
        ("1 + 2 * 3 - 4 / 2 == 5 and (1 + 2) * 2 == 6", true),
        ("2 - 1 - 1 <= 0 and 8 / 2 / 2 <= 2", true),
        ("1 < 0 and 1 < 0 or 0 < 1", true),
        ("min(3 s, web.delay.mean[trunk=with, flows=1], 2 s) == 500 ms and mean(1, 2, 6) == 3", true),
        ("max(1, 2) == 1", false),
        ("all(max(web.delay.mean[trunk=with], 2 s, web.delay.mean[trunk=without]) >= 2 s)", true),
        ("all(max(web.delay.mean[trunk=with], 2 s) == 2 s)", false),
        ("core.drops[trunk=with, flows=1] == 0 - 100", true),
        ("all(web.delay.mean <= max(web.delay.mean))", true),
    ] {
        assert_eq!(explanation(text).0, holds, "{text}");
    }
}

#[test]
fn what_means_nothing_is_refused_with_its_place() {
    for (text, place, message) in [
        ("", "", "the condition ends where a metric, a number or a function was expected"),
        ("1 <", "", "the condition ends where"),
        ("1 < 2)", ")", "stands where an operator, or the end was expected"),
        ("(1 < 2", "", "the condition ends where \")\" was expected"),
        ("1 = 2", "=", "to compare: =="),
        ("1 < 2 § 3", "§", "means nothing here; allowed:"),
        ("median(1) < 2", "median", "there is no function median; allowed: all, any, min"),
        (
            "all(max(web.delay.mean, web.delay.mean[trunk=with]) > 1 s)",
            "max(web.delay.mean, web.delay.mean[trunk=with])",
            "cannot be paired",
        ),
        ("max(1, 2 s) > 1", "max(1, 2 s)", "no unit"),
        ("abs(1, 2) < 2", "abs", "abs takes 1 argument(s), not 2"),
        (
            "web.dely.mean[trunk=with, flows=1] < 1 s",
            "web.dely.mean[trunk=with, flows=1]",
            "there is no metric",
        ),
        ("web.delay.mean[lanes=2] < 1 s", "lanes", "there is no axis lanes; allowed: trunk, flows"),
        ("web.delay.mean[flows=7] < 1 s", "7", "flows is never \"7\"; allowed: 1, 10, 100 or so"),
        ("web.delay.mean[flows=1, flows=10] < 1 s", "flows", "flows is selected twice"),
        ("web.delay.mean[flows] < 1 s", "]", "a selector is [axis=value]"),
        ("web.delay.mean[flows=] < 1 s", "", "a selector is [axis=value]"),
        ("web.delay.mean[flows=1 < 1 s", "1", "a selector is [axis=value]"),
        (
            "web.delay.mean[trunk=with] < 1 s",
            "web.delay.mean[trunk=with] < 1 s",
            "this is a value for each of flows (3 values)",
        ),
        (
            "all(web.delay.mean < web.delay.mean[trunk=with])",
            "web.delay.mean < web.delay.mean[trunk=with]",
            "for each of trunk (2 values) × flows (3 values), the right side for each of flows (3 values): these cannot be paired",
        ),
        ("web.delay.mean[trunk=with, flows=1|10] < 1 s", "1|10", "flows is never \"1|10\"; allowed: 1, 10"),
        ("1 < 2 < 3", "<", "a comparison has two sides: write a < b and b < c"),
        ("1 != 2", "!", "means nothing here; allowed:"),
        ("not (1 < 2)", "not", "there is no function not; allowed: all"),
        ("-1 < 2", "-", "stands where a metric, a number or a function was expected"),
        ("same(1, 2)", "same", "there is no function same; allowed: all"),
        (
            "increasing(web.delay.mean)",
            "increasing(web.delay.mean)",
            "increasing goes along one axis, and trunk (2 values) × flows (3 values) are open: leave one open",
        ),
        (
            "increasing(web.delay.mean[trunk=with] along flows)",
            "along",
            "\"along\" stands where \")\" was expected",
        ),
        (
            "increasing(web.delay.mean[trunk=with, flows=1])",
            "increasing(web.delay.mean[trunk=with, flows=1])",
            "needs values along an axis",
        ),
        ("increasing(web.delay.mean[trunk=with], 1 s)", "1 s", "slack is a ratio"),
        (
            "all(web.delay.mean < 1 Mbit/s)",
            "web.delay.mean < 1 Mbit/s",
            "the left side has the unit s and the right side the unit bit/s",
        ),
        (
            "all(web.delay.mean < 0.5)",
            "web.delay.mean < 0.5",
            "the left side has the unit s and the right side no unit",
        ),
        (
            "all(web.delay.mean * web.delay.mean < 0.5)",
            "web.delay.mean * web.delay.mean < 0.5",
            "the left side has the unit s^2",
        ),
        (
            "all(web.delay.mean)",
            "web.delay.mean",
            "this is a number where something true or false was expected",
        ),
        ("(1 < 2) + 1 < 2", "(1 < 2)", "this is true or false where a number was expected"),
        (
            "web.delay.mean[trunk=with, flows=1]",
            "web.delay.mean[trunk=with, flows=1]",
            "this is a number where",
        ),
        (
            "all(core.drops - core.secret < 1)",
            "core.secret",
            "core.secret has no value at trunk=with, flows=1",
        ),
        (
            "core.drops[trunk=with, flows=1] * 0 / 0 < 1",
            "core.drops[trunk=with, flows=1] * 0 / 0",
            "nothing by nothing",
        ),
        ("\"x < 1", "\"x < 1", "the quotation has no end"),
    ] {
        let error = judge(text).expect_err(text);
        assert_eq!(
            (text.get(error.at.clone()), error.message.contains(message)),
            (Some(place), true),
            "{text}: {error}"
        );
    }
    let deep = format!("{}1 < 2{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(judge(&deep).is_err());
    assert!(judge(&format!("{}1 s{} < 2 s", "abs(".repeat(2000), ")".repeat(2000))).is_err());
}

#[test]
fn an_error_shows_the_condition_with_a_caret_under_what_is_wrong() {
    let error = judge("all(web.dely.mean < 1 s)").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no metric web.dely.mean\n  all(web.dely.mean < 1 s)\n      ^^^^^^^^^^^^^"
    );
    let error = judge("all(web.delay.mean < 1 s)\n  and web.dely.mean > 1 s").unwrap_err();
    assert!(error.to_string().ends_with("\n    and web.dely.mean > 1 s\n        ^^^^^^^^^^^^^"), "{error}");
}

#[test]
fn explanations_have_the_numbers_and_the_point_that_decides() {
    for (text, holds, expected) in [
        ("web.delay.mean[trunk=with, flows=1] < 0.6 s", true, "500 ms < 0.6 s"),
        ("web.delay.mean[trunk=with, flows=1] < 0.4 s", false, "500 ms ≥ 0.4 s"),
        (
            "all(web.delay.mean[trunk=with] < 0.8 * web.delay.mean[trunk=without])",
            true,
            "500 ms < 0.8 × 1 s = 800 ms at flows=1 (the closest of 3)",
        ),
        ("all(web.delay.mean < 5 s)", false, "9 s ≥ 5 s at trunk=without, flows=100 or so (true at 5 of 6)"),
        (
            "any(web.delay.mean > 9 s)",
            false,
            "9 s ≤ 9 s at trunk=without, flows=100 or so (the closest of 6)",
        ),
        ("increasing(web.delay.mean[trunk=with])", true, "500 ms, 1 s, 4.5 s along flows"),
        ("decreasing(web.delay.mean[trunk=with])", false, "rises from 500 ms (flows=1) to 1 s (flows=10)"),
        (
            "increasing(core.offered.packets[trunk=with])",
            false,
            "does not rise from 1000 (flows=1) to 1000 (flows=100 or so)",
        ),
        ("increasing(core.drops.ratio[flows=1])", true, "0.5 %, 1 % along trunk"),
        ("max(web.delay.mean) < 5 s", false, "max 9 s ≥ 5 s"),
        ("1 < 2 and 2 < 1", false, "2 ≥ 1"),
        ("1 < 2 or 2 < 1", true, "1 < 2"),
        ("1 < 2 and 3 < 4", true, "1 < 2; 3 < 4"),
        (
            "core.drops.ratio[trunk=with, flows=1] * 100 > 2 * core.drops.ratio[trunk=without, flows=1]",
            true,
            "0.5 % × 100 = 50 % > 2 × 1 % = 2 %",
        ),
        (
            "core.drops[trunk=with, flows=10] / core.offered.packets[trunk=with, flows=10] < (1 + 1) * 3 %",
            true,
            "0 / 1000 = 0 < (1 + 1) × 3 % = 0.06",
        ),
        ("all.goodput[flows=1, trunk=with] < 2 Mbit/s", true, "1 Mbit/s < 2 Mbit/s"),
    ] {
        assert_eq!(explanation(text), (holds, expected.to_owned()), "{text}");
    }
}

#[test]
fn a_slack_is_of_the_greatest_so_far_and_does_not_add_up() {
    use super::evaluation::{Course, course};
    for (values, slack, expected) in [
        (&[1.0, 2.0, 2.0, 3.0][..], 0.0, Course::Rises),
        (&[1.0, 2.0, 1.8, 1.81, 3.0], 0.1, Course::Rises),
        (&[1.0, 2.0, 1.8, 1.62, 1.9], 0.1, Course::Falls(1, 3)),
        (&[-2.0, -1.0, -1.1, -0.5], 0.11, Course::Rises),
        (&[-2.0, -1.0, -1.12, -0.5], 0.11, Course::Falls(1, 2)),
        (&[1.0, 1.0, 1.0], 0.0, Course::Stays),
        (&[1.0, 0.95], 0.1, Course::Stays),
        (&[1.0], 0.0, Course::Stays),
    ] {
        assert_eq!(course(values, slack), expected, "{values:?} {slack}");
    }
}

#[test]
fn along_a_single_value_nothing_rises_or_falls() {
    let results: Vec<_> = results().into_iter().filter(|result| result.point["flows"] == "1").collect();
    let table = Table::new(results.iter().map(|result| &result.point), &results, &unit);
    for text in ["increasing(web.delay.mean[trunk=with])", "decreasing(web.delay.mean[trunk=without])"] {
        let error = super::judge(text, &table).expect_err(text);
        assert_eq!(error.message, "there is one value along flows only");
    }
    assert!(super::judge("increasing(web.delay.mean[flows=1])", &table).unwrap().holds);
}

#[test]
fn a_metric_that_not_all_runs_have_says_of_how_many_it_is() {
    let mut results = results();
    for (result, runs) in results.iter_mut().zip([None, Some(3), Some(2)]) {
        result.metrics["web.delay.mean"].runs = runs;
    }
    let table = Table::new(results.iter().map(|result| &result.point), &results, &unit);
    let explanation = |text: &str| super::judge(text, &table).unwrap().explanation;
    assert_eq!(
        explanation("all(web.delay.mean[trunk=with] < 5 s)"),
        "4.5 s < 5 s at flows=100 or so (the closest of 3); \
         web.delay.mean is of 2 of 5 runs at trunk=with, flows=100 or so"
    );
    assert_eq!(
        explanation("web.delay.mean[trunk=with, flows=10] < 5 s"),
        "1 s < 5 s; web.delay.mean is of 3 of 5 runs at trunk=with, flows=10"
    );
    assert_eq!(explanation("web.delay.mean[trunk=with, flows=1] < 5 s"), "500 ms < 5 s");
}

#[test]
fn whatever_is_written_is_answered_without_a_panic() {
    let words = [
        "all(",
        "web.delay.mean",
        "[trunk=with]",
        "[flows=1",
        "]",
        ")",
        "<",
        ">=",
        "1 s",
        "0",
        "*",
        "/",
        "-",
        "and",
        "or",
        "increasing(",
        "max(",
        "flows",
        ",",
        "5 %",
        "\"",
        "é",
        "1e",
        ".",
        "core.drops",
        "abs(",
        "\n",
        "=",
        "mean(",
    ];
    let mut rng = trunkline_units::Rng::new(11, "conditions");
    let mut answered = 0;
    for _ in 0..20_000 {
        let count = 1 + rng.below(9);
        let text: String = (0..count).map(|_| words[rng.below(words.len() as u64) as usize]).collect();
        match judge(&text) {
            Ok(_) => answered += 1,
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(answered > 0, "some of them mean something");
}

#[test]
fn a_condition_compares_medians_where_its_claim_says_so() {
    let results = results();
    let table = || Table::new(results.iter().map(|result| &result.point), &results, &unit);
    let holds =
        |average| super::judge("web.delay.mean[trunk=with, flows=1] < 0.2 s", &table().over_runs(average));
    // The mean is 0.5 s, the median a third of that.
    assert!(!holds(Average::Mean).unwrap().holds);
    let median = holds(Average::Median).unwrap();
    assert!(median.holds && median.explanation.contains("167 ms"), "{}", median.explanation);
}

#[test]
fn a_ratio_is_one_number_without_a_unit() {
    let results = results();
    let table = Table::new(results.iter().map(|result| &result.point), &results, &unit);
    let found = |text: &str| {
        check_ratio(text, table.axes(), &unit)?;
        ratio(text, &table)
    };
    let half = "mean(web.delay.mean[trunk=with]) / mean(web.delay.mean[trunk=without])";
    let near = |text: &str, value: f64| (found(text).unwrap() - value).abs() < 1e-9;
    assert!(near(half, 0.5) && near("core.drops.ratio[trunk=with, flows=10] + 1", 1.01));
    for (text, message) in [
        ("web.delay.mean[trunk=with, flows=1]", "this has the unit s where a ratio was expected"),
        ("core.drops.ratio", "put min(…), max(…) or mean(…) round it"),
        ("core.drops.ratio[trunk=with, flows=1] < 1", "this is true or false where a number was expected"),
        ("web.delay.mean[trunk=never] / 1 s", "trunk is never \"never\""),
    ] {
        let error = found(text).expect_err(text);
        assert!(error.message.contains(message), "{text}: {}", error.message);
    }
}
