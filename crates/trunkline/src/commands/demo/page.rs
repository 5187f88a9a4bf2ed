//! The result as a page that needs nothing else, made as the laboratory's reports are.

use trunkline_lab::report::{Align, Along, Chart, Document, Dot, Kind, Line, fenced, plain, table};

use super::measurement::{Outcome, Phase, Sample};
use super::parameters::{PACKET_BYTES, Parameters};
use super::table::{Comparison, time};

/// Where and with what the demo ran.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// The command that repeats it.
    pub(super) command: String,
    /// The kernel's release and architecture.
    pub(super) kernel: String,
    /// Trunkline's version.
    pub(super) version: &'static str,
}

/// Everything the page is made of.
pub(super) struct Page<'a> {
    pub(super) parameters: &'a Parameters,
    pub(super) before: &'a Outcome,
    pub(super) after: &'a Outcome,
    pub(super) origin: &'a Origin,
}

/// Colours of the report's plots: the same thing has the same one in each.
const TCP: usize = 0;
const UDP: usize = 1;
const CORE: usize = 2;
const LEVEL: usize = 6;
/// Requests that take no longer than this are drawn at it.
const MIN_LATENCY_MS: f64 = 10.0;

impl Page<'_> {
    pub(super) fn render(&self) -> String {
        let comparison = Comparison { before: self.before.summary, after: self.after.summary };
        let mut page = Document::new("TCP under a UDP flood, without trunks and with them");
        page.add(&format!("**{}**", plain(&comparison.reading(self.parameters))));
        page.add(&format!(
            "Two sites share a WAN of {}. Real TCP and UDP of this machine's kernel cross it: first by plain routing, \
             then through two Trunkline gateways that carry each class of traffic over an encrypted TCP lane of its own.",
            self.parameters.rate()
        ));
        page.add(&self.summary(&comparison));
        self.throughput(&mut page);
        self.latency(&mut page);
        self.queues(&mut page);
        numbers(&mut page, &comparison);
        self.about(&mut page);
        page.page_html()
    }

    fn summary(&self, comparison: &Comparison) -> String {
        let Comparison { before, after } = comparison;
        let ratio = |mbit: f64| format!("{:.0} %", mbit * 100.0 / self.parameters.rate_mbit);
        let percent = |value: f64| format!("{value:.1} %");
        let rows = [
            ("TCP's part of the WAN", ratio(before.tcp_mbit), ratio(after.tcp_mbit)),
            (
                "files transferred",
                before.transfers_completed.to_string(),
                after.transfers_completed.to_string(),
            ),
            ("request, median", time(before.request_p50_ms), time(after.request_p50_ms)),
            ("dropped in the core", percent(before.core_drop_percent), percent(after.core_drop_percent)),
        ];
        rows.map(|(name, was, is)| format!("- {name}: {was} → {is}")).join("\n")
    }

    fn throughput(&self, page: &mut Document) {
        let rate = self.parameters.rate_mbit;
        let axis =
            Along { title: "goodput (Mbit/s)".to_owned(), unit: "Mbit/s".to_owned(), ..Along::default() };
        let lines = |outcome: &Outcome| {
            let level = [self.from(), self.to()].map(|second| dot(second, rate));
            vec![
                over_time("UDP", UDP, outcome, |sample| Some(sample.udp_mbit)),
                over_time("TCP", TCP, outcome, |sample| Some(sample.tcp_mbit)),
                Line { dash: 1, ..line("the WAN's rate", LEVEL, level.to_vec()) },
            ]
        };
        page.heading("Throughput of each class");
        page.add("What its receivers got, each half second.");
        self.pair(page, Kind::Series, &Along { top: Some(rate * 1.15), ..axis }, lines);
    }

    fn latency(&self, page: &mut Document) {
        let points = |outcome: &Outcome, answered: bool| {
            let of = outcome.requests.iter().filter(|request| request.answered == answered);
            of.map(|request| dot(request.at_s, (request.took.as_secs_f64() * 1e3).max(MIN_LATENCY_MS)))
                .collect()
        };
        let lines = |outcome: &Outcome| {
            let lost = Line { dash: 1, ..line("not answered", CORE, points(outcome, false)) };
            let lines = vec![line("answered", TCP, points(outcome, true)), lost];
            lines.into_iter().filter(|line| !line.points.is_empty()).collect()
        };
        let both = [self.before, self.after].into_iter().flat_map(|outcome| &outcome.requests);
        let max = both.map(|request| request.took.as_secs_f64() * 1e3).fold(100.0, f64::max);
        let axis = Along {
            title: "response time (ms)".to_owned(),
            unit: "ms".to_owned(),
            log: true,
            top: Some(10_f64.powf(max.log10().ceil())),
            ..Along::default()
        };
        page.heading("Request latency");
        page.add("Each request at the time it was due, on a logarithmic scale. One without a response has waited until the end.");
        self.pair(page, Kind::Points, &axis, lines);
    }

    fn queues(&self, page: &mut Document) {
        let parameters = self.parameters;
        let max = parameters.core_queue_packets.max(parameters.edge_queue_tcp_packets);
        let max = max.max(parameters.edge_queue_udp_packets) * PACKET_BYTES;
        let lines = |outcome: &Outcome| {
            let lines = vec![
                over_time("core", CORE, outcome, |sample| Some(sample.core_ms)),
                over_time("edge, class tcp", TCP, outcome, |sample| sample.edge_ms.map(|edge| edge.tcp)),
                over_time("edge, class udp", UDP, outcome, |sample| sample.edge_ms.map(|edge| edge.udp)),
            ];
            lines.into_iter().filter(|line| !line.points.is_empty()).collect()
        };
        let axis = Along {
            title: "backlog (ms of the WAN)".to_owned(),
            unit: "ms".to_owned(),
            top: Some(parameters.drain_ms(max) * 1.1),
            ..Along::default()
        };
        page.heading("Queues");
        page.add(
            "The backlog, as the time that the WAN would take for it: in the router before the WAN (core), and before \
             each lane (edge).",
        );
        self.pair(page, Kind::Series, &axis, lines);
    }

    fn from(&self) -> f64 {
        -f64::from(self.parameters.lead_in_seconds)
    }

    fn to(&self) -> f64 {
        f64::from(self.parameters.seconds)
    }

    /// The same plot of both phases, with the same scale.
    fn pair(&self, page: &mut Document, kind: Kind, y: &Along, lines: impl Fn(&Outcome) -> Vec<Line>) {
        for (phase, outcome) in [(Phase::Before, self.before), (Phase::After, self.after)] {
            let x = Along {
                title: "time (s); the flood begins at 0".to_owned(),
                unit: "s".to_owned(),
                ..Along::default()
            };
            page.chart(Chart::over_time(kind, &capitalised(phase.title()), [x, y.clone()], lines(outcome)));
        }
    }

    fn about(&self, page: &mut Document) {
        page.heading("Parameters");
        let rows =
            self.parameters.rows().into_iter().map(|(name, value)| vec![name.to_owned(), plain(&value)]);
        page.add(&table(&["parameter", "value"], &rows.collect::<Vec<_>>(), &[Align::Left; 2]));
        page.heading("How to reproduce");
        page.add(
            "The machine needs Linux, `/dev/net/tun`, and root or user namespaces. Everything happens in network \
             namespaces of the demo's own, and nothing stays behind.",
        );
        page.add(&fenced("sh", &self.origin.command));
        page.add(&format!(
            "*Trunkline {}, Linux {}. The set-up is that of section 2.1 of Lee, Balan, Jacob, Seah and Ananda, Avoiding \
             congestion collapse on the Internet using TCP tunnels, Computer Networks 39 (2002), scaled to a demo.*",
            plain(self.origin.version),
            plain(&self.origin.kernel)
        ));
    }
}

fn dot(x: f64, y: f64) -> Dot {
    Dot { x, y: Some(y), interval: None }
}

fn line(name: &str, colour: usize, points: Vec<Dot>) -> Line {
    Line { name: name.to_owned(), colour, points, ..Line::default() }
}

/// A line of the samples that have a value.
fn over_time(name: &str, colour: usize, outcome: &Outcome, of: fn(&Sample) -> Option<f64>) -> Line {
    let points = outcome.samples.iter().filter_map(|sample| Some(dot(sample.at_s, of(sample)?)));
    line(name, colour, points.collect())
}

fn numbers(page: &mut Document, comparison: &Comparison) {
    let rows = comparison.rows().into_iter();
    let rows = rows
        .map(|row| vec![row.name.to_owned(), row.before, format!("**{}**", row.after), row.unit.to_owned()]);
    page.heading("In numbers");
    page.add(&table(
        &["", "without trunks", "with trunks", "unit"],
        &rows.collect::<Vec<_>>(),
        &[Align::Left, Align::Right, Align::Right, Align::Left],
    ));
    page.remark(
        "Goodput is what the receiving applications got. A request that was not answered counts with the time it had \
         waited at the end. Drops are those of packets offered to the queue of the WAN's router, and to the edge queues \
         of the sending gateway.",
    );
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::commands::demo::measurement::{EdgeBacklog, Request, RequestState, Summary};

    fn outcome(edge: Option<EdgeBacklog>) -> Outcome {
        let sample = |k: u32| Sample {
            at_s: f64::from(k) / 2.0 - 3.0,
            tcp_mbit: 4.0,
            udp_mbit: 5.0,
            request: RequestState::Answered(80.0),
            core_ms: 50.0,
            edge_ms: edge,
            ..Sample::default()
        };
        let request = |k: u32| Request {
            at_s: f64::from(k),
            took: Duration::from_millis(100 * u64::from(k)),
            answered: !k.is_multiple_of(3),
        };
        Outcome {
            samples: (0..50).map(sample).collect(),
            requests: (0..25).map(request).collect(),
            summary: Summary { tcp_mbit: 4.0, ..Summary::default() },
        }
    }

    fn page() -> String {
        let arguments = crate::cli::DemoArguments {
            seconds: 25,
            rate: trunkline_units::Rate::from_mbit(10.0),
            html: None,
            json: false,
        };
        let origin = Origin {
            command: "trunkline demo --html 'a<b>&\"c\".html'".to_owned(),
            kernel: "6.1 x86_64".to_owned(),
            version: "0.0.0",
        };
        Page {
            parameters: &Parameters::new(&arguments).expect("parameters"),
            before: &outcome(None),
            after: &outcome(Some(EdgeBacklog { tcp: 10.0, udp: 100.0 })),
            origin: &origin,
        }
        .render()
    }

    /// What stands before and in the style, the text, and the data of the plots.
    fn parts(page: &str) -> [&str; 3] {
        let (head, rest) = page.split_once("<style>").expect("a style");
        let (_, body) = rest.split_once("</style></head><body>").expect("its end");
        let (text, scripts) = body.split_once("<script").expect("scripts");
        let (_, data) = scripts.split_once("id=\"data\">").expect("data");
        let (data, rest) = data.split_once("</script>").expect("its end");
        assert_eq!((page.matches("<script").count(), rest.matches("</script>").count()), (3, 2));
        [head, text, data]
    }

    #[test]
    fn every_element_is_closed_in_order_and_every_attribute_quoted() {
        let page = page();
        let mut open = Vec::new();
        for tag in parts(&page)[1].split('<').skip(1) {
            let (tag, after) = tag.split_once('>').expect("a tag ends");
            assert!(!after.contains('>'), "a bare > after {tag:?}");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{tag}");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().expect("a name"));
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn entities_are_escaped() {
        let page = page();
        let text = parts(&page)[1];
        assert!(text.contains("a&lt;b&gt;&amp;") && !text.contains("<b>"));
        for (at, _) in text.match_indices('&') {
            assert!(["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|entity| text[at..].starts_with(entity)));
        }
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = page();
        let [head, text, data] = parts(&page);
        assert!(head.contains("default-src 'none'"), "whatever is in the scripts");
        for reference in
            ["http:", "https:", "//", "url(", "@import", "src=", "href=", "<link", "<iframe", "<object"]
        {
            for part in [head, text, data] {
                assert!(!part.contains(reference), "{reference}");
            }
        }
    }

    #[test]
    fn no_number_is_missing() {
        let page = page();
        let [_, text, data] = parts(&page);
        assert_eq!(text.matches("data-chart=").count(), 6);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let data: Value = serde_json::from_str(data).expect("JSON");
        let charts = data["charts"].as_array().expect("charts");
        let lines: Vec<usize> =
            charts.iter().map(|chart| chart["lines"].as_array().map_or(0, Vec::len)).collect();
        assert_eq!(lines, [3, 3, 2, 2, 1, 3], "edge queues there are behind trunks only");
        for points in charts.iter().filter_map(|chart| chart["lines"].as_array()).flatten() {
            let points = points["points"].as_array().expect("points");
            assert!(!points.is_empty() && points.iter().all(|dot| dot[0].is_number() && dot[1].is_number()));
        }
        for pair in charts.chunks(2) {
            assert_eq!(pair[0]["y"], pair[1]["y"], "both phases have one scale");
        }
    }
}
