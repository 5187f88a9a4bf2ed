mod samples;

use std::slice::from_ref;

use super::*;
use crate::experiment::Quick;
use crate::store::Directory;
use samples::{Sample, compared, crowded, hostile, swept};

fn page(material: &Material) -> String {
    report(material).page_html()
}

fn markdown(material: &Material) -> String {
    report(material).markdown()
}

fn index_page(entries: &[Entry]) -> String {
    index(entries, &[], &[], "0.1.0").page_html()
}

fn index_markdown(entries: &[Entry]) -> String {
    index(entries, &[], &[], "0.1.0").markdown()
}

/// A page without what never changes in it: style and scripts.
fn said(page: &str) -> String {
    let (start, rest) = page.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    match rest.split_once("</script>") {
        Some((body, _)) => format!("{start}{body}"),
        None => format!("{start}{rest}"),
    }
}

fn tags(page: &str) -> impl Iterator<Item = &str> {
    page.match_indices('<').map(|(start, _)| &page[start..start + page[start..].find('>').unwrap_or(0)])
}

#[test]
fn whatever_a_file_says_no_page_has_an_element_of_its_making() {
    let sample = hostile();
    let whole = page(&sample.material());
    // One script of data, one of charts, one of ours; nothing from the file has made another or ended one.
    assert_eq!(whole.matches("<script").count(), 3);
    assert_eq!(whole.matches("</script>").count(), 3);
    let said = said(&whole);
    for tag in tags(&said) {
        let name = tag.trim_start_matches(['<', '/']).split([' ', '>']).next().unwrap();
        assert!(!["iframe", "img", "b>mine"].contains(&name) && !tag.contains("javascript:"), "{tag}");
    }
    assert_eq!(said.matches("<title>").count(), 1);
    let data = said.split_once("id=\"data\">").unwrap().1;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert!(data["charts"][0]["lines"][0]["name"].as_str().unwrap().contains("</script><script>"));
    let text = markdown(&sample.material());
    assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
}

#[test]
fn no_page_loads_anything() {
    for sample in [compared(), swept(), hostile(), crowded()] {
        let page = page(&sample.material());
        assert!(page.contains("default-src 'none'"));
        let said = said(&page);
        for tag in tags(&said) {
            for loading in [" src=", "<link", "url(", "<img", "<object", "<embed", "<iframe", " style="] {
                assert!(!tag.contains(loading), "{tag} in {}", sample.experiment.id);
            }
        }
    }
    let style = include_str!("../../../assets/report.css");
    assert!(!style.contains("url(") && !style.contains("@import") && !style.contains("http"));
    let script = include_str!("../../../assets/report.js");
    assert!(!script.contains("fetch(") && !script.contains("import(") && !script.contains("http"));
}

#[test]
fn a_page_is_no_larger_than_what_is_in_it() {
    let charts = include_str!("../../../assets/charts/echarts.min.js").len();
    assert!(charts < 700_000);
    for sample in [compared(), swept(), hostile(), crowded()] {
        let size = page(&sample.material()).len();
        assert!(size < charts + 250_000, "{}: {size}", sample.experiment.id);
    }
    let mut plain = compared();
    plain.experiment.figures.clear();
    assert!(page(&plain.material()).len() < 60_000, "a page without plots carries no charts");
}

#[test]
fn the_papers_table_stands_beside_ours_cell_by_cell() {
    let sample = compared();
    let grids = table::all(&sample.material());
    let table = &grids[0];
    assert_eq!(table.heads, ["Metric"]);
    assert_eq!(table.columns, ["without", "with"]);
    let first = &table.rows[0];
    assert_eq!(first.labels, ["RTT, average (ms)"]);
    assert_eq!(first.cells[0], "4051 ± 110 (paper 4133, ×0.980 ✓)");
    assert!(table.rows[2].cells[1].ends_with(" ✗)"), "{:?}", table.rows[2]);
    assert!(table.rows[4].cells[1].starts_with("2.72 ± 0.22 (paper 2.85, "), "{:?}", table.rows[4]);
    assert!(table.rows[5].cells.iter().all(|cell| !cell.contains("paper")));
    // What is published and in no table of the file has one of its own.
    assert_eq!(grids[1].title, "What else the paper has");
    assert_eq!(grids[1].rows.len(), 2);
}

#[test]
fn a_table_of_one_metric_has_the_metric_above_and_the_axes_as_rows() {
    let sample = swept();
    let grids = table::all(&sample.material());
    assert_eq!(grids[0].title, "Goodput (Mbit/s)");
    assert_eq!(grids[0].heads, ["Delay of the backbone", "Delay of the access link"]);
    assert_eq!(grids[0].rows.len(), 16);
    // Four columns, rows by the other axis, a metric that is missing at one point.
    assert_eq!(grids[1].columns.len(), 4);
    let missing = grids[1].rows.iter().flat_map(|row| &row.cells).filter(|cell| *cell == "–").count();
    assert_eq!(missing, 1);
}

#[test]
fn without_tables_all_that_traffic_got_is_one() {
    let sample = hostile();
    let grids = table::all(&sample.material());
    assert_eq!(grids.len(), 1);
    assert_eq!(grids[0].title, "What the traffic got: tcp.goodput (kbit/s)");
    assert_eq!(grids[0].rows.len(), 100);
}

#[test]
fn a_page_says_how_each_claim_came_out_in_words() {
    let sample = compared();
    let page = said(&page(&sample.material()));
    assert!(page.contains("The paper says") && page.contains("We say, of what the paper left open"));
    for (word, count) in [("holds", 2), ("differs", 1), ("fails", 1)] {
        assert_eq!(page.matches(&format!("<strong class=\"{word}\">{word}</strong>")).count(), count);
    }
    assert!(
        page.contains("The repetition timer of our era&#39;s TCP")
            || page.contains("The repetition timer of our era's TCP")
    );
    let text = markdown(&sample.material());
    assert!(text.contains("- the paper’s claims: 1 holds, 1 differs, 1 fails"));
    assert!(text.contains("- claims of ours: 1 holds, 0 differ, 0 fail"));
    assert!(text.contains("4051 ± 110 (paper 4133, ×0.980 ✓)"), "{text}");
}

#[test]
fn every_kind_of_plot_has_what_is_asked() {
    let (charts, missing) = figure::all(&compared().material());
    let kinds: Vec<_> = charts.iter().map(|chart| chart.kind).collect();
    assert_eq!(kinds, [Kind::Histogram, Kind::Series, Kind::Bar]);
    assert!(missing.is_empty());
    let histogram = &charts[0];
    assert_eq!(histogram.x.title, "throughput of a flow (kbit/s)");
    for line in &histogram.lines {
        let values: f64 = line.points.iter().filter_map(|dot| dot.y).sum();
        assert!((values - 100.0).abs() < 1e-6, "a run has 100 values");
    }
    let series = &charts[1];
    assert_eq!((series.lines.len(), series.y.title.as_str()), (2, "packets"));
    assert!(series.lines[0].points.len() <= 1200);
    let bars = &charts[2];
    assert_eq!(bars.x.names, ["without", "with"]);
    assert_eq!(bars.lines[0].paper.iter().map(|dot| dot.y).collect::<Vec<_>>(), [Some(267.0), Some(40.0)]);
}

#[test]
fn lines_have_their_places_intervals_and_the_papers_points() {
    let (charts, missing) = figure::all(&swept().material());
    assert_eq!(missing, ["What nobody recorded"]);
    let goodput = &charts[0];
    assert_eq!(
        (goodput.x.title.as_str(), goodput.y.title.as_str()),
        ("Delay of the backbone (ms)", "goodput (Mbit/s)")
    );
    assert_eq!(goodput.lines.len(), 8);
    let line = &goodput.lines[0];
    assert_eq!(line.points.iter().map(|dot| dot.x).collect::<Vec<_>>()[1..], [50.0, 100.0, 200.0]);
    assert!(
        line.points
            .iter()
            .all(|dot| dot.interval.is_some_and(|[low, high, _]| Some(low) < dot.y && dot.y < Some(high)))
    );
    assert_eq!(goodput.lines.iter().filter(|line| !line.paper.is_empty()).count(), 1);
    assert!(charts[1].x.log && charts[1].y.log);
    assert_eq!(charts[1].y.title, "RTT (ms)");
    let odd = &charts[3];
    let values = odd.lines.iter().flat_map(|line| &line.points);
    assert_eq!(values.filter(|dot| dot.y.is_none()).count(), 1);
    assert!(odd.text.notes.iter().any(|note| note.contains("1 point has no value")));
}

#[test]
fn what_has_no_place_on_a_logarithmic_axis_is_left_out_and_said() {
    let mut sample = swept();
    sample.experiment.figures[3].y_scale = crate::experiment::Scale::Log;
    let (charts, _) = figure::all(&sample.material());
    let odd = &charts[3];
    assert!(odd.lines.iter().flat_map(|line| &line.points).all(|dot| dot.y.is_none_or(|y| y > 0.0)));
    assert!(odd.text.notes.iter().any(|note| note.contains("zero or less")), "{:?}", odd.text.notes);
}

#[test]
fn a_single_run_has_no_interval_and_the_page_says_so() {
    let page = said(&page(&crowded().material()));
    assert!(page.contains("Of a single run, so without an interval.") && !page.contains("± is half"));
    assert!(!page.contains("The paper’s claims"));
}

#[test]
fn what_is_not_complete_says_so_and_what_is_undecided_is_not_what_fails() {
    let mut sample = compared();
    sample.judgement.claims[0].verdict = Verdict::Undecided;
    let all = sample.runs.len();
    let material = Material { planned: all + 3, ..sample.material() };
    let part = format!("{all} of {} runs", all + 3);
    let page = said(&page(&material));
    assert!(
        page.contains(&part) && page.contains("<strong class=\"undecided\">") && page.contains("1 undecided")
    );
    let text = markdown(&material);
    assert!(
        text.contains(&part) && text.contains("? **undecided**") && text.contains(", 1 undecided"),
        "{text}"
    );
    let entries = [Entry::of(&material)];
    let table = index_markdown(&entries);
    let claim = table.lines().find(|line| line.contains(&sample.judgement.claims[0].text)).expect("its line");
    assert!(claim.contains("1 ?"), "{table}");
    assert!(table.contains(&part) && index_page(&entries).contains(&part), "{table}");
    assert!(!markdown(&sample.material()).contains(&format!("{all} of ")), "of a whole one");
}

#[test]
fn the_verdicts_of_a_kernel_stand_in_a_column_beside_the_simulators() {
    let mut sample = compared();
    let here = Entry::of(&sample.material());
    let machine = crate::results::Machine {
        engine: "testbed".to_owned(),
        kernel: "6.18.1".to_owned(),
        cpus: 2,
        date: "2026-11-23".to_owned(),
        refused: Vec::new(),
    };
    let text = sample.judgement.claims[0].text.clone();
    sample.judgement.claims[0].verdict = Verdict::Fails;
    sample.judgement.claims[0].why = "4 < 7".to_owned();
    let there = Entry::of(&Material { machine: Some(&machine), ..sample.material() });
    let alone = index(from_ref(&here), &[], &[], "0.1.0").markdown();
    assert!(!alone.contains("kernel"), "{alone}");
    let both = index(from_ref(&here), from_ref(&there), &[], "0.1.0").markdown();
    assert!(both.contains("on a kernel: claims · values · ours"), "{both}");
    assert!(both.contains("on Linux 6.18.1, 2 CPUs, 2026-11-23"), "{both}");
    let row = both.lines().find(|line| line.contains(&text)).expect("a line for the claim");
    assert!(row.contains("1 ✓") && row.contains("1 ✗"), "{row}");
    let page = index(from_ref(&here), from_ref(&there), &[], "0.1.0").page_html();
    let (_, differently) = page.split_once("comes out differently on a kernel").expect("a list of them");
    assert!(differently.contains(&text), "{page}");
    assert!(index(from_ref(&here), from_ref(&here), &[], "0.1.0").markdown().contains(" · "), "a column");
}

#[test]
fn a_quick_run_says_so_everywhere_and_gives_no_reasons_of_full_runs() {
    let mut sample = compared();
    let why = "The repetition timer of our era";
    let full = Entry::of(&sample.material());
    for text in [page(&sample.material()), markdown(&sample.material()), index_page(from_ref(&full))] {
        assert!(!text.contains("quick run"));
    }
    assert!(page(&sample.material()).contains(why));
    let applied =
        Quick { runs: 1, set: indexmap::IndexMap::new(), testbed: indexmap::IndexMap::new(), applied: true };
    sample.experiment.quick = Some(applied);
    let quick = Entry::of(&sample.material());
    let page = said(&page(&sample.material()));
    // The experiment's file is there as it is.
    let (page, _) = page.split_once("<h2>Configuration</h2>").unwrap();
    for text in [page, &markdown(&sample.material())] {
        assert!(text.contains("A quick run: ") && text.contains("without --quick"), "{text}");
        assert!(!text.contains(why), "{text}");
    }
    for text in [index_page(from_ref(&quick)), index_markdown(from_ref(&quick))] {
        assert!(text.contains("All of these are quick runs"), "{text}");
    }
    for text in [index_page(&[quick.clone(), full.clone()]), index_markdown(&[quick, full])] {
        assert!(text.contains("1 of the 2 experiments is a quick run"), "{text}");
        assert_eq!(text.matches("quick run").count(), 2, "at the head, and in its line: {text}");
    }
}

#[test]
fn without_tables_what_people_ask_first_is_shown_and_not_all_that_was_measured() {
    let mut sample = compared();
    sample.experiment.tables.clear();
    for result in &mut sample.results {
        for metric in ["tcp.goodput", "tcp.delay.mean", "all.goodput"] {
            let estimate = result.metrics["tcp.rtt.mean"];
            result.metrics.insert(metric.to_owned(), estimate);
        }
    }
    let grids = table::all(&sample.material());
    let labels: Vec<&str> = grids[0].rows.iter().map(|row| row.labels[0].as_str()).collect();
    assert_eq!(labels, ["tcp.goodput (bit/s)", "tcp.delay.mean (s)"]);
    assert!(said(&page(&sample.material())).contains("Every metric is under All metrics"));
    assert!(markdown(&sample.material()).contains("and in results.jsonl"));
}

#[test]
fn a_long_table_is_folded_and_the_whole_is_there() {
    let sample = hostile();
    let page = said(&page(&sample.material()));
    let (_, tables) = page.split_once("What the traffic got").unwrap();
    let (first, rest) = tables.split_once("<summary>All 100 rows</summary>").unwrap();
    let (whole, _) = rest.split_once("</details>").unwrap();
    let rows = |text: &str| text.split_once("<tbody>").unwrap().1.matches("<tr").count();
    assert_eq!((rows(first), rows(whole)), (12, 100));
}

#[test]
fn of_lines_upon_each_other_the_lower_one_is_drawn_wider_and_named() {
    let mut sample = swept();
    let mut figure = sample.experiment.figures[0].clone();
    let mut again = figure.metrics[0].clone();
    again.label = Some("the same again".to_owned());
    figure.metrics = vec![figure.metrics[0].clone(), again];
    figure.at = [("access", "50 ms"), ("tunnel", "without")]
        .into_iter()
        .map(|(axis, value)| (axis.to_owned(), toml::Value::String(value.to_owned())))
        .collect();
    sample.experiment.figures = vec![figure];
    let (charts, _) = figure::all(&sample.material());
    let widths: Vec<usize> = charts[0].lines.iter().map(|line| line.beneath).collect();
    assert_eq!(widths, [1, 0]);
    assert!(
        charts[0].text.notes.iter().any(|note| note.contains("= the same again")),
        "{:?}",
        charts[0].text.notes
    );
    let page = page(&sample.material());
    assert!(page.contains("\"beneath\":1"), "the script is told");
}

#[test]
fn values_of_completed_transfers_alone_are_marked_where_many_are_missing_and_the_counts_are_said() {
    let mut sample = compared();
    sample.experiment.tables[0].metrics.push(crate::experiment::Row {
        metric: "tcp.delay.p50".to_owned(),
        label: Some("a request".to_owned()),
        unit: Some("ms".to_owned()),
    });
    for (result, completed) in sample.results.iter_mut().zip([9.0, 149.0]) {
        let of = |mean: f64| crate::results::Estimate { mean, ci95: None, ..result.metrics["tcp.rtt.mean"] };
        let made = [
            ("tcp.delay.p50", 0.12),
            ("tcp.transfers.completed", completed),
            ("tcp.transfers.total", completed + 5.0),
        ];
        let made = made.map(|(name, mean)| (name.to_owned(), of(mean)));
        result.metrics.extend(made);
    }
    let said = "† Of completed transfers alone: 9 of 14 of tcp (Trunks: without). Those that are missing took longest.";
    let grids = table::all(&sample.material());
    let row = grids[0].rows.iter().find(|row| row.labels == ["a request (ms)"]).expect("the row");
    assert_eq!(row.cells, ["120 †", "120"]);
    assert_eq!(grids[0].survivors.as_deref(), Some(said));
    assert!(markdown(&sample.material()).contains(said));
    // The same below a plot of them.
    let mut bars = sample.experiment.figures[2].clone();
    bars.metrics = vec![sample.experiment.tables[0].metrics.last().expect("a row").clone()];
    sample.experiment.figures = vec![bars];
    let (charts, _) = figure::all(&sample.material());
    assert!(charts[0].text.notes.iter().any(|note| note == said), "{:?}", charts[0].text.notes);
    // A count is of all.
    assert_eq!(Survivors::too_few("tcp.transfers.completed", &sample.results[0]), None);
    assert_eq!(Survivors::too_few("udp.delay.mean", &sample.results[0]), None);
}

#[test]
fn a_legend_says_what_the_values_in_it_are_of() {
    let (charts, _) = figure::all(&swept().material());
    let goodput = &charts[0];
    assert_eq!(goodput.legend, "Delay of the access link, tunnel");
    let [name, short] = [&goodput.lines[1].name, &goodput.lines[1].short];
    assert_eq!(name, "Delay of the access link: 5.06 µs, tunnel: with a tunnel whose buffers are large");
    assert_eq!(short, "5.06 µs, with a tunnel whose buffers are large");
    assert!(page(&swept().material()).contains("\"legend\":\"Delay of the access link, tunnel\""));
    // Several metrics have names of their own, with the axis in each.
    let mut sample = swept();
    let figure = &mut sample.experiment.figures[0];
    figure.metrics.push(crate::experiment::Row { metric: "udp.goodput".to_owned(), label: None, unit: None });
    figure.at = [("access".to_owned(), toml::Value::String("50 ms".to_owned()))].into_iter().collect();
    let (charts, _) = figure::all(&sample.material());
    assert_eq!(
        (charts[0].legend.as_str(), charts[0].lines[0].name.as_str()),
        ("", "goodput, tunnel: without")
    );
}

#[test]
fn plots_of_the_same_at_other_points_have_one_scale_or_say_that_they_have_not() {
    let mut sample = swept();
    let first = sample.experiment.figures[0].clone();
    let at = |access: &str| {
        let mut figure = first.clone();
        figure.title = format!("Goodput behind {access}");
        figure.at = [("access".to_owned(), toml::Value::String(access.to_owned()))].into_iter().collect();
        figure
    };
    let other = sample.experiment.figures[3].clone();
    sample.experiment.figures = vec![at("5.06 us"), other, at("50 ms"), at("100 ms")];
    let (charts, _) = figure::all(&sample.material());
    let tops: Vec<Option<f64>> = charts.iter().map(|chart| chart.y.top).collect();
    assert!(tops[0].is_some() && tops[0] == tops[2] && tops[0] == tops[3], "{tops:?}");
    assert_eq!(tops[1], None, "it shows something else");
    let differ = |charts: &[Chart]| {
        charts.iter().filter(|chart| chart.text.notes.iter().any(|note| note.contains("scale"))).count()
    };
    assert_eq!(differ(&charts), 0);
    for result in sample.results.iter_mut().filter(|result| result.point["access"] == "100 ms") {
        let goodput = result.metrics.get_mut("tcp.goodput").expect("goodput");
        (goodput.mean, goodput.ci95) = (goodput.mean / 10.0, None);
    }
    let (charts, _) = figure::all(&sample.material());
    assert!(charts.iter().all(|chart| chart.y.top.is_none()) && differ(&charts) == 3);
}

#[test]
fn what_was_measured_stands_before_what_is_said_of_it() {
    let sample = compared();
    let page = page(&sample.material());
    let at = |heading: &str| page.find(&format!("<h2>{heading}</h2>")).expect(heading);
    assert!(at("Figures") < at("Tables") && at("Tables") < at("Claims"));
    let text = markdown(&sample.material());
    let at = |heading: &str| text.find(&format!("\n## {heading}\n")).expect(heading);
    assert!(at("Tables") < at("Claims"));
}

#[test]
fn a_table_that_is_wider_than_the_page_shows_at_its_sides_that_it_scrolls() {
    // Every table is in such a box, and the box has shadows that what is in it covers at its ends.
    let mut sample = swept();
    sample.experiment.description = "| a | b |\n| - | - |\n| 1 | 2 |\n".to_owned();
    let page = said(&page(&sample.material()));
    let tables = page.matches("<table>").count();
    assert!(tables > 2 && page.matches("class=\"scroll\"").count() == tables);
    let style = include_str!("../../../assets/report.css");
    let (_, scroll) = style.split_once("\n.scroll {").expect("its style");
    let (scroll, _) = scroll.split_once('}').expect("its end");
    assert!(scroll.contains("overflow: auto"));
    assert_eq!(
        (scroll.matches("no-repeat local").count(), scroll.matches("no-repeat scroll").count()),
        (2, 2),
        "{scroll}"
    );
}

fn entries() -> Vec<Entry> {
    [compared(), swept(), hostile(), crowded()]
        .iter()
        .map(|sample: &Sample| Entry::of(&sample.material()))
        .collect()
}

#[test]
fn the_index_counts_by_paper_and_leads_to_every_page() {
    let entries = entries();
    let page = index_page(&entries);
    assert!(!page.contains("<script"));
    for entry in &entries {
        assert!(page.contains(&format!("href=\"{}/report.html\"", entry.id)));
    }
    let text = index_markdown(&entries);
    let row = |first: &str| text.lines().find(|line| line.starts_with(first)).unwrap().replace(' ', "");
    assert_eq!(row("| lee2002"), "|lee2002|1|1✓1≈1✗|9✓1≈2✗|1✓|");
    assert_eq!(row("| **all**"), "|**all**|4|1✓1≈1✗|13✓1≈2✗|2✓|");
    assert!(text.contains("## Without a paper") && text.contains("`honda2005-fig2`"));
}

#[test]
fn the_index_has_a_line_for_each_verdict_and_can_lie_anywhere() {
    let entries = entries();
    let (page, text) = (index_page(&entries), index_markdown(&entries));
    let lee = entries.iter().find(|entry| entry.paper.as_deref() == Some("lee2002")).unwrap();
    let claims = lee.shortfalls.iter().filter(|short| short.whose == Whose::Paper);
    assert_eq!(claims.map(|short| short.verdict).collect::<Vec<_>>(), [Verdict::Differs, Verdict::Fails]);
    // Three published values that do not hold: none is left out, however they are put together.
    let values: Vec<_> = lee.shortfalls.iter().filter(|short| short.whose == Whose::Values).collect();
    let counts = values.iter().flat_map(|short| short.what.split_once(": ").unwrap().1.split(", "));
    let counted = counts.filter_map(|part| part.split_once(' ')?.0.parse::<usize>().ok());
    assert_eq!(counted.sum::<usize>(), 3, "{values:?}");
    for short in &lee.shortfalls {
        assert!(!short.why.is_empty() || short.whose == Whose::Values);
    }
    assert_eq!(
        page.matches("<li>").count(),
        entries.iter().map(|entry| entry.shortfalls.len()).sum::<usize>()
    );
    let lines = || entries.iter().flat_map(|entry| &entry.lines);
    assert!(lines().count() > lee.shortfalls.len());
    for line in lines() {
        assert!(text.contains(&plain(&line.what)) && text.contains(&document::inline(&line.why)), "{line:?}");
        let holds = line.tally.count(Verdict::Holds) == line.tally.total();
        assert!(!holds || line.why.is_empty(), "{line:?}");
    }
    assert!(!text.contains("](") && !text.contains(".html") && !text.contains(" of running"), "{text}");
    assert!(text.starts_with("# ") && text.contains("Trunkline 0.1.0") && !text.contains("seconds"));
}

#[test]
fn a_label_that_is_the_same_as_above_is_not_said_again() {
    let sample = swept();
    let text = markdown(&sample.material());
    let rows = text.lines().skip_while(|line| !line.starts_with("| Delay of the backbone")).skip(2);
    let rows: Vec<Vec<&str>> = rows.take(16).map(|row| row.split('|').map(str::trim).collect()).collect();
    let firsts: Vec<bool> = rows.iter().map(|row| row[1].is_empty()).collect();
    assert_eq!(firsts, [false, true, true, true].repeat(4), "{text}");
    assert!(rows.iter().all(|row| !row[2].is_empty()), "what a row is of is always there");
}

#[test]
fn a_plot_with_too_many_lines_is_split_along_an_axis_with_one_scale() {
    let mut sample = swept();
    let figure = sample.experiment.figures[0].clone();
    sample.experiment.figures = vec![crate::experiment::Figure {
        metrics: figure.metrics.iter().cloned().chain(figure.metrics.iter().cloned()).collect(),
        ..figure
    }];
    let whole: usize = 16;
    let (charts, _) = figure::all(&sample.material());
    assert!(charts.len() > 1, "16 lines are too many");
    assert_eq!(charts.iter().map(|chart| chart.lines.len()).sum::<usize>(), whole);
    assert!(charts.iter().all(|chart| chart.lines.len() <= 8 && chart.y.top.is_some()));
    assert!(charts.iter().all(|chart| chart.y.top == charts[0].y.top), "they can be compared");
    let titles: std::collections::BTreeSet<&str> =
        charts.iter().map(|chart| chart.text.title.as_str()).collect();
    assert_eq!(titles.len(), charts.len());
}

#[test]
fn a_directory_of_results_gets_its_pages_and_an_index() {
    let out = std::env::temp_dir().join(format!("trunkline-report-test-{}", std::process::id()));
    let sample = compared();
    let directory = out.join(&sample.experiment.id);
    std::fs::create_dir_all(&directory).unwrap();
    let lines = |values: Vec<String>| values.join("\n") + "\n";
    let results = sample.results.iter().map(|result| serde_json::to_string(result).unwrap()).collect();
    let runs = sample.runs.iter().map(|run| serde_json::to_string(run).unwrap()).collect();
    std::fs::write(directory.join("experiment.toml"), &sample.document).unwrap();
    std::fs::write(directory.join("results.jsonl"), lines(results)).unwrap();
    std::fs::write(directory.join("runs.jsonl"), lines(runs)).unwrap();
    let [only] = Directory::all_in(&out).unwrap().try_into().expect("one");
    let written = write(&only).and_then(|entry| write_index(&out, &[entry], &[], &[]));
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let (page, index) = (read(directory.join(PAGE)), read(out.join(INDEX)));
    let (text, table) = (read(directory.join(MARKDOWN)), read(out.join(INDEX_MARKDOWN)));
    std::fs::remove_dir_all(&out).unwrap();
    assert_eq!(written.map_err(|error| error.to_string()), Ok(()));
    assert!(page.contains("href=\"results.jsonl\"") && !page.contains("href=\"runs.parquet\""));
    assert!(page.contains("traffic tcp") && page.contains("delayed_ack"), "every TCP is there in full");
    assert!(index.contains("lee2002-table1/report.html") && table.contains("`lee2002-table1`"));
    assert!(text.starts_with("# TCP flows against a UDP flood"));
}

#[test]
#[ignore = "writes pages to look at: target/…/tmp/report"]
fn pages_to_look_at() {
    let out = std::env::temp_dir().join("trunkline-report");
    for sample in [compared(), swept(), hostile(), crowded()] {
        let directory = out.join(&sample.experiment.id);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(PAGE), page(&sample.material())).unwrap();
        std::fs::write(directory.join(MARKDOWN), markdown(&sample.material())).unwrap();
    }
    std::fs::write(out.join(INDEX), index_page(&entries())).unwrap();
    std::fs::write(out.join(INDEX_MARKDOWN), index_markdown(&entries())).unwrap();
    println!("{}", out.display());
}
