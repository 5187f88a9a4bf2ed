//! What a process says of its proxies: its status, its metrics, its answers to clients.

use trunkline_service::{Page, Response};
use trunkline_status::{Answer, ProxiesStatus, ProxyCounts, ProxyStatus, ProxyTotals, Request};

use crate::counters::{Counters, ProxyCounters};
use crate::plan::{Plan, Treatment};

/// What a process says of its proxies now.
pub(crate) fn status(name: &str, uptime_s: f64, plan: &Plan, counters: &Counters) -> ProxiesStatus {
    let one = |(treatment, counters): (&Treatment, &ProxyCounters)| {
        let is_measured = treatment.tail.is_some_and(|tail| tail.estimate.is_none());
        let (name, mode) = (treatment.name.clone(), treatment.mode.name().to_owned());
        ProxyStatus { name, mode, is_measured, counts: counters.read() }
    };
    ProxiesStatus {
        name: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_s,
        problem: counters.problem(),
        totals: counters.totals(),
        proxies: plan.treatments.iter().zip(&counters.proxies).map(one).collect(),
    }
}

type Family<T> = (&'static str, &'static str, &'static str, fn(&T) -> f64);

const TOTALS: &[Family<ProxyTotals>] = &[
    ("trunkline_proxy_connections", "gauge", "Connections that are open on both sides.", |t| t.open as f64),
    ("trunkline_proxy_opening_connections", "gauge", "Connections that are being opened.", |t| {
        t.opening as f64
    }),
    ("trunkline_proxy_opened_connections_total", "counter", "Connections opened on both sides.", |t| {
        t.opened as f64
    }),
    (
        "trunkline_proxy_passed_connections_total",
        "counter",
        "Connections that found no place, and passed.",
        |t| t.passed as f64,
    ),
    ("trunkline_proxy_evicted_connections_total", "counter", "Idle connections closed to make room.", |t| {
        t.evicted as f64
    }),
    ("trunkline_proxy_reset_connections_total", "counter", "Connections that ended with a reset.", |t| {
        t.reset as f64
    }),
    ("trunkline_proxy_too_long_packets_total", "counter", "Packets longer than the next link takes.", |t| {
        t.too_long as f64
    }),
    (
        "trunkline_proxy_ignored_packets_total",
        "counter",
        "Diverted packets that are none of the proxy's.",
        |t| t.ignored as f64,
    ),
];

const PROXIES: &[Family<ProxyCounts>] = &[
    ("trunkline_proxy_open", "gauge", "Open connections of one of [[proxies]].", |p| p.open as f64),
    ("trunkline_proxy_opened_total", "counter", "Connections of one of [[proxies]].", |p| p.opened as f64),
    ("trunkline_proxy_delivered_bytes_total", "counter", "Bytes that hosts behind have acknowledged.", |p| {
        p.delivered as f64
    }),
    ("trunkline_proxy_held_bytes", "gauge", "Bytes that hosts behind have not acknowledged.", |p| {
        p.held as f64
    }),
    ("trunkline_proxy_held_max_bytes", "gauge", "Maximum of the bytes held.", |p| p.held_max as f64),
    ("trunkline_proxy_rate_bytes_per_second", "gauge", "Rate of the emulated link; 0 for none.", |p| {
        p.rate as f64 / 8.0
    }),
    (
        "trunkline_proxy_held_acknowledgements_total",
        "counter",
        "Segments whose acknowledgements waited.",
        |p| p.tail_held as f64,
    ),
    ("trunkline_proxy_released_acknowledgements_total", "counter", "Acknowledgements sent when due.", |p| {
        p.tail_released as f64
    }),
    (
        "trunkline_proxy_dropped_segments_total",
        "counter",
        "Segments without room on the emulated link.",
        |p| p.tail_dropped as f64,
    ),
    ("trunkline_proxy_clamped_packets_total", "counter", "Packets whose window was lowered.", |p| {
        p.clamped as f64
    }),
];

/// Appends the metrics of proxies to a page.
pub fn write_metrics(page: &mut Page, status: &ProxiesStatus) {
    for (name, kind, help, value) in TOTALS {
        page.family(name, kind, help);
        page.sample(name, &[], value(&status.totals));
    }
    let name = "trunkline_proxy_complete";
    page.family(name, "gauge", "Whether new connections come to the proxies.");
    page.sample(name, &[], u8::from(status.problem.is_none()));
    let name = "trunkline_proxy_refused_connections_total";
    page.family(name, "counter", "Connections that were not opened.");
    let totals = &status.totals;
    for (reason, count) in [
        ("refused", totals.refused),
        ("unreachable", totals.unreachable),
        ("timed_out", totals.timed_out),
        ("unconfirmed", totals.unconfirmed),
        ("displaced", totals.displaced),
        ("full", totals.full),
        ("loop", totals.loops),
        ("without_means", totals.without_means),
    ] {
        page.sample(name, &[("reason", reason)], count);
    }
    let name = "trunkline_proxy_bytes_total";
    page.family(name, "counter", "Bytes moved.");
    for (from, count) in [("clients", totals.bytes_from_clients), ("servers", totals.bytes_from_servers)] {
        page.sample(name, &[("from", from)], count);
    }
    for (name, kind, help, value) in PROXIES {
        page.family(name, kind, help);
        for proxy in &status.proxies {
            page.sample(name, &[("proxy", &proxy.name), ("mode", &proxy.mode)], value(&proxy.counts));
        }
    }
}

/// The whole page of a process that runs proxies alone.
pub(crate) fn prometheus(status: &ProxiesStatus) -> String {
    let mut page = Page::of_daemon(&status.name, &status.version, status.uptime_s);
    write_metrics(&mut page, status);
    page.0
}

/// What a process that runs proxies alone answers. There are no flows to report, and no file to read again.
const REQUESTS: [&str; 3] = ["status", "flows", "down"];

/// The answer to a line of the control socket, and whether the process is to end.
pub(crate) fn answer(line: &str, status: impl Fn() -> ProxiesStatus) -> (String, bool) {
    let answer = match Request::parse(line, &REQUESTS) {
        Ok(Request::Down) => Answer::Done { message: format!("{} goes down", status().name) },
        Ok(_) => Answer::Proxies(Box::new(status())),
        Err(message) => Answer::Refused { message },
    };
    let ends = matches!(answer, Answer::Done { .. });
    (serde_json::to_string(&answer).unwrap_or_default(), ends)
}

/// The answer to a collector of metrics.
pub(crate) fn page(path: &str, status: impl Fn() -> ProxiesStatus) -> Response {
    Response::metrics(path, status, prometheus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> ProxiesStatus {
        let counts = ProxyCounts { held: 7, rate: 8_000_000, ..ProxyCounts::default() };
        let cell =
            ProxyStatus { name: "cell".to_owned(), mode: "path-tail".to_owned(), is_measured: true, counts };
        let totals = ProxyTotals { opened: 3, refused: 2, ..ProxyTotals::default() };
        ProxiesStatus { name: "lte".to_owned(), totals, proxies: vec![cell], ..ProxiesStatus::default() }
    }

    #[test]
    fn every_family_has_one_head_and_its_samples_follow_it() {
        let page = prometheus(&status());
        let mut seen = std::collections::BTreeSet::new();
        let mut current = "";
        for line in page.lines() {
            if let Some(head) = line.strip_prefix("# TYPE ") {
                current = head.split(' ').next().unwrap_or_default();
                assert!(seen.insert(current), "twice: {current}");
            } else if !line.starts_with('#') {
                assert!(line.starts_with(current), "{line} under {current}");
            }
        }
        for line in [
            "trunkline_proxy_held_bytes{proxy=\"cell\",mode=\"path-tail\"} 7",
            "trunkline_proxy_rate_bytes_per_second{proxy=\"cell\",mode=\"path-tail\"} 1000000",
            "trunkline_proxy_refused_connections_total{reason=\"refused\"} 2",
        ] {
            assert!(page.lines().any(|have| have == line), "{line}\n{page}");
        }
    }

    #[test]
    fn clients_may_ask_for_the_status_and_the_end() {
        let (text, ends) = answer("{\"request\":\"status\"}", status);
        assert!(text.starts_with("{\"answer\":\"proxies\",\"name\":\"lte\"") && !ends, "{text}");
        let (text, ends) = answer("{\"request\":\"down\"}", status);
        assert!(text.contains("lte goes down") && ends, "{text}");
        let (text, ends) = answer("{\"request\":\"reload\"}", status);
        assert!(text.starts_with("{\"answer\":\"refused\"") && !ends, "{text}");
        let Response::Page { code, .. } = page("/nowhere", status) else { panic!("no page") };
        assert_eq!(code, 404);
    }
}
