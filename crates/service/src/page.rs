//! Metrics in the Prometheus text format, version 0.0.4.

use std::fmt::Write as _;

/// A page of metrics that grows by families.
#[derive(Debug, Default)]
pub struct Page(pub String);

impl Page {
    /// A page that begins with what each daemon says of itself: its name, its version, and how long it has run, in seconds.
    pub fn of_daemon(name: &str, version: &str, uptime_s: f64) -> Self {
        let mut page = Page::default();
        page.family("trunkline_info", "gauge", "The daemon.");
        page.sample("trunkline_info", &[("site", name), ("version", version)], 1);
        page.family("trunkline_uptime_seconds", "gauge", "Time since the start.");
        page.sample("trunkline_uptime_seconds", &[], uptime_s);
        page
    }

    /// Begins a family; its samples follow. `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample to the family that was begun last.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (index, (key, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{key}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}
