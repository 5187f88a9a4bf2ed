//! The result as one page that needs nothing else: style and plots are in it, and no script.

mod chart;

use std::fmt::Write as _;

use chart::{Mark, Plot, Scale, Series};

use super::measurement::{Outcome, Phase, Sample};
use super::parameters::{PACKET_BYTES, Parameters};
use super::table::Comparison;

const STYLE: &str = include_str!("style.css");

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

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Page<'_> {
    pub(super) fn render(&self) -> String {
        let comparison = Comparison { before: self.before.summary, after: self.after.summary };
        let mut page =
            String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
        let _ = write!(
            page,
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <title>Trunkline demo: TCP under a UDP flood</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>TCP under a UDP flood, without trunks and with them</h1>\n<p class=\"reading\">{}</p>\n\
             <p class=\"soft\">Two sites share a WAN of {}. Real TCP and UDP of this machine's kernel cross it: first \
             by plain routing, then through two Trunkline gateways that carry each class of traffic over an encrypted \
             TCP lane of its own.</p>\n",
            escape(&comparison.reading(self.parameters)),
            self.parameters.rate()
        );
        self.tiles(&mut page, &comparison);
        self.throughput(&mut page);
        self.latency(&mut page);
        self.queues(&mut page);
        table(&mut page, &comparison);
        self.about(&mut page);
        page.push_str("</body>\n</html>\n");
        page
    }

    fn tiles(&self, page: &mut String, comparison: &Comparison) {
        let Comparison { before, after } = comparison;
        let share = |mbit: f64| format!("{:.0} %", mbit * 100.0 / self.parameters.rate_mbit);
        let tiles = [
            ("TCP's share of the WAN", share(before.tcp_mbit), share(after.tcp_mbit)),
            (
                "Files transferred",
                before.transfers_completed.to_string(),
                after.transfers_completed.to_string(),
            ),
            ("Request, median", time(before.request_p50_ms), time(after.request_p50_ms)),
            ("Dropped in the core", percent(before.core_drop_percent), percent(after.core_drop_percent)),
        ];
        page.push_str("<div class=\"tiles\">\n");
        for (name, was, is) in tiles {
            let _ = writeln!(
                page,
                "<section><h3>{name}</h3><div class=\"figure\"><span class=\"was\">{was} →</span> {is}</div></section>"
            );
        }
        page.push_str("</div>\n");
    }

    fn throughput(&self, page: &mut String) {
        let series =
            |class, outcome: &Outcome, of: fn(&Sample) -> f64| over_time(class, Mark::Area, outcome, of);
        self.pair(
            page,
            "Throughput of each class",
            "What its receivers got, each half second.",
            &[("tcp", "swatch", "TCP"), ("udp", "swatch", "UDP")],
            |outcome| Plot {
                title: String::new(),
                time: self.time(),
                scale: Scale::Linear { max: self.parameters.rate_mbit * 1.15 },
                unit: "Mbit/s",
                level: Some((self.parameters.rate_mbit, "the WAN's rate".to_owned())),
                series: vec![
                    series("udp", outcome, |sample| sample.udp_mbit),
                    series("tcp", outcome, |sample| sample.tcp_mbit),
                ],
            },
        );
    }

    fn latency(&self, page: &mut String) {
        let max = [self.before, self.after].into_iter().flat_map(|outcome| &outcome.requests);
        let max = max.map(|request| request.took.as_secs_f64() * 1e3).fold(100.0, f64::max);
        let scale = Scale::LogTime { min: 10.0, max: max * 1.3 };
        let points = |outcome: &Outcome, answered: bool| {
            let of = outcome.requests.iter().filter(|request| request.answered == answered);
            of.map(|request| (request.at_s, request.took.as_secs_f64() * 1e3)).collect::<Vec<_>>()
        };
        self.pair(
            page,
            "Request latency",
            "Each request at the time it was due, on a logarithmic scale. One without a response has waited until the end.",
            &[("tcp", "swatch", "answered"), ("core", "swatch hollow", "not answered")],
            |outcome| Plot {
                title: String::new(),
                time: self.time(),
                scale,
                unit: "",
                level: None,
                series: vec![
                    Series { class: "core", mark: Mark::Rings, points: points(outcome, false) },
                    Series { class: "tcp", mark: Mark::Dots, points: points(outcome, true) },
                ],
            },
        );
    }

    fn queues(&self, page: &mut String) {
        let parameters = self.parameters;
        let most = parameters.core_queue_packets.max(parameters.edge_queue_tcp_packets);
        let most = most.max(parameters.edge_queue_udp_packets) * PACKET_BYTES;
        let edge = |class, outcome: &Outcome, of: fn(&Sample) -> Option<f64>| Series {
            class,
            mark: Mark::Line,
            points: outcome.samples.iter().filter_map(|sample| Some((sample.at_s, of(sample)?))).collect(),
        };
        self.pair(
            page,
            "Queues",
            "What waits, as the time that the WAN would take for it: in the router before the WAN (core), and before \
             each lane (edge).",
            &[("core", "swatch", "core"), ("tcp", "swatch", "edge, class tcp"), ("udp", "swatch", "edge, class udp")],
            |outcome| Plot {
                title: String::new(),
                time: self.time(),
                scale: Scale::Linear { max: parameters.drain_ms(most) * 1.1 },
                unit: "ms of the WAN",
                level: None,
                series: vec![
                    edge("udp", outcome, |sample| sample.edge_ms.map(|edge| edge.udp)),
                    edge("tcp", outcome, |sample| sample.edge_ms.map(|edge| edge.tcp)),
                    over_time("core", Mark::Line, outcome, |sample| sample.core_ms),
                ],
            },
        );
    }

    fn time(&self) -> (f64, f64) {
        (-f64::from(self.parameters.lead_in_seconds), f64::from(self.parameters.seconds))
    }

    /// The same plot of both phases, side by side.
    fn pair(
        &self,
        page: &mut String,
        title: &str,
        note: &str,
        legend: &[(&str, &str, &str)],
        plot: impl Fn(&Outcome) -> Plot,
    ) {
        let _ =
            write!(page, "<section>\n<h2>{title}</h2>\n<p class=\"soft\">{note}</p>\n<div class=\"legend\">");
        for (class, swatch, name) in legend {
            let _ = write!(page, "<span><span class=\"{swatch} {class}\"></span>{name}</span>");
        }
        page.push_str(
            "<span><span class=\"swatch lead\"></span>before the flood</span></div>\n<div class=\"pair\">\n",
        );
        for (phase, outcome) in [(Phase::Before, self.before), (Phase::After, self.after)] {
            let mut plot = plot(outcome);
            plot.title = format!("{title}, {}", phase.title());
            let _ = write!(page, "<div><h3>{}</h3>\n{}</div>\n", capitalised(phase.title()), plot.render());
        }
        page.push_str("</div>\n</section>\n");
    }

    fn about(&self, page: &mut String) {
        page.push_str("<section>\n<h2>Parameters</h2>\n<div class=\"scroll\"><table>\n");
        for (name, value) in self.parameters.rows() {
            let _ = writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", escape(&value));
        }
        let _ = write!(
            page,
            "</table></div>\n</section>\n<section>\n<h2>How to reproduce</h2>\n\
             <p>The machine needs Linux, <code>/dev/net/tun</code>, and root or user namespaces. Everything happens in \
             network namespaces of the demo's own, and nothing stays behind.</p>\n<pre>{}</pre>\n\
             <p class=\"soft\">Trunkline {}, Linux {}. The set-up is that of section 2.1 of Lee, Balan, Jacob, Seah and \
             Ananda, <cite>Avoiding congestion collapse on the Internet using TCP tunnels</cite>, Computer Networks 39 \
             (2002), scaled to a demo.</p>\n</section>\n",
            escape(&self.origin.command),
            escape(self.origin.version),
            escape(&self.origin.kernel)
        );
    }
}

fn over_time(class: &'static str, mark: Mark, outcome: &Outcome, of: fn(&Sample) -> f64) -> Series {
    Series { class, mark, points: outcome.samples.iter().map(|sample| (sample.at_s, of(sample))).collect() }
}

fn table(page: &mut String, comparison: &Comparison) {
    page.push_str(
        "<section>\n<h2>In numbers</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th></th>\
         <th class=\"number\">without trunks</th><th class=\"number\">with trunks</th><th></th></tr></thead>\n<tbody>\n",
    );
    for row in comparison.rows() {
        let _ = writeln!(
            page,
            "<tr><th>{}</th><td class=\"number\">{}</td><td class=\"number after\">{}</td><td>{}</td></tr>",
            row.name, row.before, row.after, row.unit
        );
    }
    page.push_str(
        "</tbody>\n</table></div>\n<p class=\"soft\">Goodput is what the receiving applications got. A request that was \
         not answered counts with the time it had waited at the end. Drops are those of packets offered to the queue of \
         the WAN's router, and to the edge queues of the sending gateway.</p>\n</section>\n",
    );
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn time(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1e3) }
}

fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

#[cfg(test)]
mod tests;
