//! `check`: checks whether a gateway starts with a file, and prints what the file means.
//!
//! The check is [`preflight::check`], which `up` runs too.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use trunkline_gateway::config::{self, Config};
use trunkline_gateway::preflight;
use trunkline_schema::count;
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{ClassSettings, LaneGroup, Over, PathPolicy, Transport};
use trunkline_units::Bytes;

use super::status::cost;
use crate::cli::FileReportArguments;
use crate::failure::Failure;
use crate::output::{print, print_line, remark};

pub(crate) fn check(arguments: &FileReportArguments) -> Result<(), Failure> {
    let checked = check_file(&arguments.file);
    if arguments.json {
        let json = serde_json::to_string_pretty(&checked.report).map_err(Failure::doing("cannot print"))?;
        print_line(&json)?;
    } else {
        for warning in &checked.report.warnings {
            remark(&format_args!("trunkline: warning: {warning}"));
        }
        print(&checked.meaning)?;
    }
    match checked.report.result {
        CheckResult::Fine => Ok(()),
        CheckResult::Warnings => Err(Failure::Warned),
        CheckResult::Refused => Err(Failure::Input(checked.error)),
    }
}

/// The result of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum CheckResult {
    /// The gateway starts.
    Fine,
    /// The gateway starts, and probably does not work as intended.
    Warnings,
    /// The gateway does not start.
    Refused,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    result: CheckResult,
    mistakes: Vec<Mistake>,
    warnings: Vec<String>,
    site: Option<Site>,
}

/// A reason to refuse a file. It has a place if the mistake is in the text of the file.
#[derive(Debug, Default, Serialize)]
struct Mistake {
    line: Option<usize>,
    column: Option<usize>,
    key: Option<String>,
    problem: String,
    allowed: Option<String>,
}

/// The site that a file describes.
#[derive(Debug, Serialize)]
struct Site {
    name: String,
    public_key: Option<String>,
    listen: Vec<String>,
    device: String,
    addresses: Vec<String>,
    mtu: u32,
    queues: u16,
    lanes: Vec<String>,
    classes: Vec<String>,
    peers: Vec<String>,
    proxies: Vec<String>,
    control_socket: String,
}

struct Checked {
    report: Report,
    /// The site as text; empty if the file is not a configuration.
    meaning: String,
    /// All reasons to refuse it, a line each.
    error: String,
}

fn check_file(file: &Path) -> Checked {
    let name = file.display().to_string();
    let refused = |mistakes, error| Checked {
        report: Report {
            file: name.clone(),
            result: CheckResult::Refused,
            mistakes,
            warnings: Vec::new(),
            site: None,
        },
        meaning: String::new(),
        error,
    };
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(errors) => return refused(errors.0.iter().map(Mistake::from).collect(), errors.to_string()),
    };
    match preflight::check(&config) {
        Ok(accepted) => {
            let public_key = accepted.identity.public().to_string();
            let result = if accepted.warnings.is_empty() { CheckResult::Fine } else { CheckResult::Warnings };
            let words = match accepted.warnings.len() {
                0 => "fine".to_owned(),
                1 => "usable, with 1 warning".to_owned(),
                count => format!("usable, with {count} warnings"),
            };
            let meaning = format!("{name}: {words}\n{}", meaning(&config, &public_key));
            let site = Some(site(&config, Some(public_key)));
            let report =
                Report { file: name, result, mistakes: Vec::new(), warnings: accepted.warnings, site };
            Checked { report, meaning, error: String::new() }
        }
        Err(refusals) => {
            let problem =
                |refusal: &preflight::Refusal| Mistake { problem: refusal.to_string(), ..Mistake::default() };
            let lines: Vec<String> = refusals.iter().map(|refusal| format!("{name}: {refusal}")).collect();
            let mut checked = refused(refusals.iter().map(problem).collect(), lines.join("\n"));
            checked.report.warnings = config.warnings();
            checked.report.site = Some(site(&config, None));
            checked
        }
    }
}

impl From<&config::Mistake> for Mistake {
    fn from(error: &config::Mistake) -> Self {
        Mistake {
            line: error.place.map(|(line, _)| line),
            column: error.place.map(|(_, column)| column),
            key: (!error.key.is_empty()).then(|| error.key.clone()),
            problem: error.problem.clone(),
            allowed: error.allowed.clone(),
        }
    }
}

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn site(config: &Config, public_key: Option<String>) -> Site {
    Site {
        name: config.name.clone(),
        public_key,
        listen: texts(&config.listen),
        device: config.tun.name.clone(),
        addresses: texts(&config.tun.addresses),
        mtu: config.tun.mtu,
        queues: config.tun.queues,
        lanes: config.trunk.groups.iter().map(|group| group.name.to_string()).collect(),
        classes: config.trunk.classes.iter().map(|class| class.name.to_string()).collect(),
        peers: config.peers.iter().map(|peer| peer.name.clone()).collect(),
        proxies: config
            .proxies
            .iter()
            .flat_map(|plan| &plan.treatments)
            .map(|one| one.name.clone())
            .collect(),
        control_socket: config.control.socket.display().to_string(),
    }
}

fn meaning(config: &Config, public_key: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, what: String| {
        let _ = writeln!(text, "  {name:<9} {what}");
    };
    let list = |items: Vec<String>| if items.is_empty() { "-".to_owned() } else { items.join(", ") };
    line("site", config.name.clone());
    line("key", public_key.to_owned());
    line("listens", list(texts(&config.listen)));
    let addresses = list(texts(&config.tun.addresses));
    let tun = &config.tun;
    let queues = count(tun.queues.into(), "queue", "queues");
    line("device", format!("{} {addresses}, MTU {}, {queues}", tun.name, tun.mtu));
    for group in &config.trunk.groups {
        line("lanes", format!("{:<12} {}", group.name, lanes(group)));
    }
    for class in &config.trunk.classes {
        line("class", format!("{:<12} {}", class.name, scheduling(config, class)));
        line("", format!("{:<12} {}", "", treatment(config, class)));
    }
    for peer in &config.peers {
        let endpoint = match &peer.endpoint {
            Some(endpoint) => format!("dialled at {endpoint}"),
            None if peer.is_dialled() => "dialled on its paths".to_owned(),
            None => "dials us".to_owned(),
        };
        let (encryption, routes) = (peer.encryption.as_str(), list(texts(&peer.routes)));
        line("peer", format!("{:<12} {endpoint}, encryption {encryption}, routes {routes}", peer.name));
        for (number, path) in (0..).zip(&peer.paths) {
            let endpoint = peer
                .endpoint_on(number)
                .map_or("dialled by the peer".to_owned(), |e| format!("dialled at {e}"));
            let via = path.via.to_string();
            let via = if via.is_empty() { via } else { format!(" via {via}") };
            let cost = cost(path.cost);
            let quota = path.quota.map_or_else(String::new, |quota| {
                format!(", quota {} each {}", Bytes(quota.bytes), quota.period.each)
            });
            line("", format!("{:<12} path {}: {endpoint}{via}{cost}{quota}", "", path.name));
        }
    }
    for proxy in config.proxies.iter().flat_map(|plan| &plan.treatments) {
        let behind = list(texts(&proxy.behind));
        let link = proxy.link.as_ref().map_or_else(String::new, |link| format!(" behind {link}"));
        line("proxy", format!("{:<12} {}, for {behind}{link}", proxy.name, proxy.mode.name()));
    }
    text
}

/// What the lanes of a group are.
fn lanes(group: &LaneGroup) -> String {
    let over = match group.transport {
        Transport::Tcp => "over TCP".to_owned(),
        Transport::Quic => format!("over QUIC, delivery {}", group.delivery),
        Transport::Auto => format!("over QUIC (delivery {}) or TCP", group.delivery),
    };
    let each = count(group.lanes.into(), "lane", "lanes");
    format!("{each} to each peer in each shard, {over}, {}, DSCP {}", group.congestion_control, group.dscp)
}

/// The packets that a class takes, its lanes and its part of them.
fn scheduling(config: &Config, class: &ClassSettings) -> String {
    let takes = match class.rules.len() {
        0 => "everything else".to_owned(),
        rules => count(rules, "rule", "rules"),
    };
    let group = config.lane_group(class);
    let others: Vec<_> = config
        .trunk
        .classes
        .iter()
        .filter(|other| other.group == class.group && other.name != class.name)
        .map(|other| &*other.name)
        .collect();
    let lanes = match &others[..] {
        [] => format!("lanes {} alone", group.name),
        others => format!("lanes {} with {}", group.name, others.join(" and ")),
    };
    let weight = format!("weight {}", class.share.weight);
    let mut parts = vec![takes, lanes, weight];
    parts.extend(class.share.priority.then(|| "before those without priority".to_owned()));
    parts.extend(class.share.guarantee.map(|rate| format!("at least {rate}")));
    parts.extend(class.share.ceiling.map(|rate| format!("at most {rate}")));
    parts.join(", ")
}

/// The treatment of the packets and flows of a class.
fn treatment(config: &Config, class: &ClassSettings) -> String {
    let limits = class.queue.limits();
    let mut parts = vec![format!(
        "queue {}, {} packets or {} bytes",
        class.queue.description().word,
        limits.segments,
        limits.bytes
    )];
    if let Some(admission) = class.admission {
        let over = match admission.over {
            Over::Refuse => "refused".to_owned(),
            Over::Class(to) => format!("in class {}", config.trunk.classes[to.index()].name),
        };
        parts.push(format!("at most {} flows in each shard, more are {over}", admission.limit));
    }
    parts.extend(class.max_wait.map(|wait| format!("dropped after {wait:?}")));
    parts.extend((!class.filters_retransmissions).then(|| "retransmissions not filtered".to_owned()));
    parts.extend(class.replicates.then(|| "sent over two lanes on a path that loses packets".to_owned()));
    let several = config.peers.iter().any(|peer| peer.paths.len() > 1);
    parts.extend((several || class.paths != PathPolicy::Spread).then(|| format!("paths {}", class.paths)));
    parts.extend(class.reorder_wait.map(|wait| format!("over none that is slower by more than {wait:?}")));
    let compresses = config.lane_group(class).compression == Compression::On;
    parts.extend((!compresses).then(|| "headers not compressed".to_owned()));
    parts.join(", ")
}
