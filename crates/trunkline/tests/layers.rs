//! The rules on dependencies between crates, and on `unsafe` code. ARCHITECTURE.md has each rule; this file has the
//! consequence of breaking it, which the failing test prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sources::sources;
use serde_json::Value;

/// Crates that are a function of their arguments.
const PURE: [&str; 10] = [
    "trunkline-units",
    "trunkline-packet",
    "trunkline-queue",
    "trunkline-link",
    "trunkline-trunk",
    "trunkline-workload",
    "trunkline-admission",
    "trunkline-congestion",
    "trunkline-tcp",
    "trunkline-sim",
];

/// Crates that reach a kernel, a clock, a runtime or randomness. A name that ends in `*` stands for all that
/// begin so.
const OUTSIDE_WORLD: [&str; 24] = [
    "libc",
    "rustix",
    "nix",
    "linux-raw-sys",
    "windows-sys",
    "getrandom",
    "rand",
    "rand_core",
    "fastrand",
    "tokio*",
    "async-std",
    "smol",
    "mio",
    "polling",
    "io-uring",
    "socket2",
    "netlink-*",
    "aws-lc-*",
    "rustls",
    "chrono",
    "time",
    "tracing*",
    "memmap2",
    "crossbeam-channel",
];

/// Crates that run a trunk, by what its lanes are made of, or that measure one.
const ABOVE_THE_TRUNK: [&str; 12] = [
    "trunkline-congestion",
    "trunkline-tcp",
    "trunkline-sim",
    "trunkline-engine",
    "trunkline-lab",
    "trunkline-testbed",
    "trunkline-linux",
    "trunkline-netlink",
    "trunkline-service",
    "trunkline-proxy",
    "trunkline-gateway",
    "trunkline",
];

/// Where `unsafe` may stand: the modules of system calls, the one with a hint to the processor, and the one whose functions are exported by
/// their names, which has no unsafe block.
const UNSAFE_MODULES: [&str; 4] = [
    "crates/linux/src/sys.rs",
    "crates/sim/src/prefetch.rs",
    "crates/testbed/src/sys.rs",
    "crates/web/src/abi.rs",
];

struct Rule {
    who: &'static [&'static str],
    never_on: &'static [&'static str],
    because: &'static str,
}

const RULES: [Rule; 23] = [
    Rule {
        who: &["trunkline-units"],
        never_on: &["*"],
        because: "its types are in every signature of the project, so whatever it drags in, everything drags in",
    },
    Rule {
        who: &PURE,
        never_on: &OUTSIDE_WORLD,
        because: "the same code must run on a real kernel and in virtual time: `now` and seeds are arguments, \
                  and bytes stay in the caller's buffers",
    },
    Rule {
        who: &["trunkline-link"],
        never_on: &[
            "trunkline-packet",
            "trunkline-trunk",
            "trunkline-schema",
            "trunkline-tcp",
            "trunkline-sim",
            "trunkline-engine",
            "trunkline-lab",
            "trunkline-testbed",
            "trunkline-netlink",
            "trunkline-gateway",
        ],
        because: "the simulator and the emulator run the same link: it knows a packet's length, not what is in it, and \
                  takes time and order of events from its owner",
    },
    Rule {
        who: &["trunkline-trunk"],
        never_on: &ABOVE_THE_TRUNK,
        because: "it rides on lanes and must not know which congestion control moves the bytes, or whether the \
                  lane is the kernel's or modelled",
    },
    Rule {
        who: &["trunkline-schema"],
        never_on: &ABOVE_THE_TRUNK,
        because: "sites and experiments say the same of a trunk in the same words; what only one of them has is in that one",
    },
    Rule {
        who: &["trunkline-gateway"],
        never_on: &[
            "trunkline-tcp",
            "trunkline-sim",
            "trunkline-engine",
            "trunkline-lab",
            "trunkline-testbed",
        ],
        because: "the daemon parses bytes of unauthenticated hosts and can configure the network, and ships no simulator and \
                  no experiments beside that",
    },
    Rule {
        who: &["trunkline-proxy"],
        never_on: &[
            "trunkline-gateway",
            "trunkline-congestion",
            "trunkline-tcp",
            "trunkline-sim",
            "trunkline-engine",
            "trunkline-lab",
            "trunkline-testbed",
        ],
        because: "it ends the connections of hosts without any trunk, and its TCP is the kernel's",
    },
    Rule {
        who: &["trunkline-service"],
        never_on: &[
            "trunkline-packet",
            "trunkline-queue",
            "trunkline-trunk",
            "trunkline-schema",
            "trunkline-netlink",
            "trunkline-proxy",
            "trunkline-gateway",
            "trunkline-testbed",
        ],
        because: "it carries questions and answers of daemons, and knows nothing of what they say",
    },
    Rule {
        who: &["trunkline-sites"],
        never_on: &["trunkline-*"],
        because: "a gateway and a controller say it to each other, and neither has the other's program",
    },
    Rule {
        who: &["trunkline-pages"],
        never_on: &["trunkline-*"],
        because: "it serves what it is given to browsers: a gateway's page, an experiment, a controller's answers",
    },
    Rule {
        who: &["trunkline-status"],
        never_on: &[
            "trunkline-packet",
            "trunkline-trunk",
            "trunkline-schema",
            "trunkline-linux",
            "trunkline-netlink",
            "trunkline-service",
            "trunkline-proxy",
            "trunkline-gateway",
            "trunkline-testbed",
        ],
        because: "it is read by those who measure a daemon from outside, so it is plain values without the daemon",
    },
    Rule {
        who: &["trunkline-linux"],
        never_on: &[
            "trunkline-packet",
            "trunkline-queue",
            "trunkline-trunk",
            "trunkline-schema",
            "trunkline-netlink",
            "trunkline-service",
            "trunkline-proxy",
            "trunkline-gateway",
            "trunkline-testbed",
        ],
        because: "it has the system calls that daemons share, and knows nothing of what they are for",
    },
    Rule {
        who: &["trunkline-testbed"],
        never_on: &["trunkline-gateway", "trunkline-trunk", "trunkline-engine", "trunkline-lab"],
        because: "it measures programs from outside; what it measured from inside it would flatter",
    },
    Rule {
        who: &["trunkline-netlink"],
        never_on: &["trunkline-*"],
        because: "it is the kernel's language, shared by the gateway and the testbed, and knows of neither",
    },
    Rule {
        who: &["trunkline-workload"],
        never_on: &[
            "trunkline-packet",
            "trunkline-queue",
            "trunkline-trunk",
            "trunkline-tcp",
            "trunkline-sim",
            "trunkline-engine",
            "trunkline-lab",
            "trunkline-gateway",
            "trunkline-testbed",
        ],
        because: "it says what is sent, and neither how nor over what: simulated and real hosts send the same",
    },
    Rule {
        who: &["trunkline-admission"],
        never_on: &[
            "trunkline-packet",
            "trunkline-queue",
            "trunkline-trunk",
            "trunkline-schema",
            "trunkline-controller",
        ],
        because: "it knows sites, links and rates: who asks, and in which file, is not its affair",
    },
    Rule {
        who: &["trunkline-controller"],
        never_on: &[
            "trunkline-gateway",
            "trunkline-proxy",
            "trunkline-linux",
            "trunkline-netlink",
            "trunkline-engine",
            "trunkline-testbed",
        ],
        because: "it runs on any machine, and gateways run without it: they have documents in common, not code",
    },
    Rule {
        who: &["trunkline-congestion"],
        never_on: &[
            "trunkline-packet",
            "trunkline-queue",
            "trunkline-trunk",
            "trunkline-tcp",
            "trunkline-sim",
        ],
        because: "the window of a sender is the same for segments of a modelled TCP and datagrams of a real lane: it knows \
                  bytes and times, and no protocol",
    },
    Rule {
        who: &["trunkline-tcp"],
        never_on: &[
            "trunkline-queue",
            "trunkline-trunk",
            "trunkline-sim",
            "trunkline-engine",
            "trunkline-lab",
            "trunkline-gateway",
            "trunkline-testbed",
        ],
        because: "an endpoint knows segments and time; what carries them, and what waits where, is others' affair",
    },
    Rule {
        who: &["trunkline-sim"],
        never_on: &[
            "trunkline-gateway",
            "trunkline-testbed",
            "trunkline-netlink",
            "trunkline-engine",
            "trunkline-lab",
        ],
        because: "it runs the code that ships without the daemon around it, on any machine that compiles it",
    },
    Rule {
        who: &["trunkline-engine"],
        never_on: &["trunkline-lab"],
        because: "it is given a scenario and gives numbers with names; files, sweeps and papers are not its affair",
    },
    Rule {
        who: &["trunkline-engine", "trunkline-lab"],
        never_on: &["trunkline-gateway"],
        because: "an experiment says what is sent over which network, and an engine carries it out: the daemon's own settings and \
                  sockets are no part of the question",
    },
    Rule {
        who: &["trunkline-packet", "trunkline-queue"],
        never_on: &["trunkline-trunk", "trunkline-gateway", "trunkline-testbed", "trunkline-netlink"],
        because: "packets and queues are used by the emulated link and by simulated routers without any trunk",
    },
];

/// What each crate needs to run: the names it depends on, directly.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// One path from `from` to the first name that `forbidden` holds for, both ends included.
fn path_to(graph: &Graph, from: &str, forbidden: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let mut reached_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut todo = vec![from];
    while let Some(name) = todo.pop() {
        for next in graph.get(name).into_iter().flatten() {
            if next == from || reached_from.contains_key(next.as_str()) {
                continue;
            }
            reached_from.insert(next, name);
            if forbidden(next) {
                let mut path = vec![next.clone()];
                let mut at = next.as_str();
                while let Some(before) = reached_from.get(at) {
                    path.insert(0, (*before).to_owned());
                    at = before;
                }
                return Some(path);
            }
            todo.push(next);
        }
    }
    None
}

/// What is wrong with a graph, one line for each broken rule.
fn broken_rules(graph: &Graph) -> Vec<String> {
    let mut broken = Vec::new();
    for rule in &RULES {
        for who in rule.who {
            let forbidden = |name: &str| rule.never_on.iter().any(|pattern| fits(pattern, name));
            if let Some(path) = path_to(graph, who, forbidden) {
                broken.push(format!("{}: never, because {}", path.join(" -> "), rule.because));
            }
        }
    }
    broken
}

/// What `cargo metadata` says of the workspace, with these additional arguments.
fn metadata(arguments: &[&str]) -> Value {
    let host = Command::new("rustc").arg("-vV").output().expect("rustc says what it is");
    let host = String::from_utf8(host.stdout).expect("rustc speaks UTF-8");
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// The graph of linked crates: without dev-dependencies, build scripts and procedural macros.
fn linked(metadata: &Value) -> Graph {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut names = BTreeMap::new();
    let mut macros = BTreeSet::new();
    for package in list(&metadata["packages"]) {
        let is_macro =
            list(&package["targets"]).iter().any(|t| list(&t["kind"]).iter().any(|k| k == "proc-macro"));
        if is_macro {
            macros.insert(text(&package["id"]));
        }
        names.insert(text(&package["id"]), text(&package["name"]));
    }
    let mut graph = Graph::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let needs = graph.entry(names[&text(&node["id"])].clone()).or_default();
        for dependency in list(&node["deps"]) {
            let id = text(&dependency["pkg"]);
            let normal = list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            if normal && !macros.contains(&id) {
                needs.insert(names[&id].clone());
            }
        }
    }
    graph
}

#[test]
fn dependencies_point_one_way() {
    let graph = linked(&metadata(&[]));
    assert!(graph["trunkline"].contains("trunkline-gateway"), "the graph is not this workspace's");
    let broken = broken_rules(&graph);
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn the_gateway_alone_is_built_without_the_laboratory_and_the_controller() {
    const ELSEWHERE: [&str; 15] = [
        "trunkline-admission",
        "trunkline-controller",
        "trunkline-pages",
        "rusqlite",
        "axum",
        "tokio",
        "trunkline-link",
        "trunkline-workload",
        "trunkline-tcp",
        "trunkline-sim",
        "trunkline-engine",
        "trunkline-lab",
        "trunkline-testbed",
        "parquet",
        "indicatif",
    ];
    let (alone, whole) = (linked(&metadata(&["--no-default-features"])), linked(&metadata(&[])));
    for name in ELSEWHERE {
        assert_eq!(path_to(&alone, "trunkline", |other| other == name), None);
        assert!(path_to(&whole, "trunkline", |other| other == name).is_some(), "nothing needs {name}");
    }
}

#[test]
fn the_version_of_results_covers_every_crate_that_they_come_of() {
    let graph = linked(&metadata(&[]));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/build.rs");
    let script = fs::read_to_string(script).expect("the build script of the laboratory");
    let own: Vec<&str> = graph.keys().filter_map(|name| name.strip_prefix("trunkline-")).collect();
    assert!(own.contains(&"engine"), "{own:?}");
    for name in own {
        let needed = name == "lab"
            || path_to(&graph, "trunkline-lab", |other| other == format!("trunkline-{name}")).is_some();
        assert_eq!(script.contains(&format!("\"../{name}\"")), needed, "crates/lab/build.rs: {name}");
    }
}

#[test]
fn no_feature_changes_what_the_core_does() {
    for package in metadata(&[])["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().unwrap_or_default();
        if PURE.contains(&name) {
            let features = package["features"].as_object().map_or(0, serde_json::Map::len);
            assert_eq!(features, 0, "{name} has cargo features, so what the lab runs is not what ships");
        }
    }
}

#[test]
fn the_checker_finds_a_broken_rule_and_names_the_dependency_path() {
    let graph = |edges: &[(&str, &str)]| -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    };
    assert_eq!(broken_rules(&graph(&[("trunkline-gateway", "rustix"), ("rustix", "libc")])), [""; 0]);
    for (edges, way) in [
        (&[("trunkline-trunk", "trunkline-sim")][..], "trunkline-trunk -> trunkline-sim: never"),
        (
            &[("trunkline-trunk", "some-crate"), ("some-crate", "other"), ("other", "getrandom")],
            "trunkline-trunk -> some-crate -> other -> getrandom: never",
        ),
        (&[("trunkline-queue", "tokio-util")], "trunkline-queue -> tokio-util: never"),
        (&[("trunkline-units", "serde")], "trunkline-units -> serde: never"),
        (
            &[("trunkline-gateway", "helper"), ("helper", "trunkline-testbed")],
            "trunkline-gateway -> helper -> trunkline-testbed: never",
        ),
        (&[("trunkline-testbed", "trunkline-gateway")], "trunkline-testbed -> trunkline-gateway: never"),
        (&[("trunkline-engine", "trunkline-lab")], "trunkline-engine -> trunkline-lab: never"),
        (&[("trunkline-link", "trunkline-packet")], "trunkline-link -> trunkline-packet: never"),
        (&[("trunkline-netlink", "trunkline-units")], "trunkline-netlink -> trunkline-units: never"),
    ] {
        let broken = broken_rules(&graph(edges));
        assert!(broken.iter().any(|line| line.starts_with(way)), "{edges:?}: {broken:?}");
    }
    // A circle must end.
    assert_eq!(broken_rules(&graph(&[("trunkline-trunk", "a"), ("a", "trunkline-trunk")])), [""; 0]);
}

// ---------------------------------------------------------------- unsafe

/// `text` without comments and string literals, which are not code.
fn code_of(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .map(|line| line.split('"').step_by(2).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether code of this text is unsafe, or allows itself to be.
fn is_unsafe(text: &str) -> bool {
    let code = code_of(text);
    let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let mut words = words.filter(|word| !word.is_empty());
    words.any(|word| word == "unsafe" || word == "unsafe_code")
}

#[test]
fn unsafe_code_is_in_its_modules_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace");
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    assert!(files.len() > 50, "only {} source files found", files.len());
    for file in files {
        let name = file.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).expect("a source file");
        if !UNSAFE_MODULES.contains(&name.as_str()) {
            assert!(!is_unsafe(&text), "{name}: unsafe code belongs into {}", UNSAFE_MODULES.join(" or "));
        }
    }
    for name in UNSAFE_MODULES {
        let text = fs::read_to_string(root.join(name)).expect("the module is where the rule says");
        assert!(is_unsafe(&text), "{name} no longer needs an exception");
    }
}

#[test]
fn the_scan_finds_code_and_not_comments_about_it() {
    for code in
        ["let x = unsafe { f() };", "unsafe fn f() {}", "#![allow(unsafe_code)]", "unsafe impl Send for X {}"]
    {
        assert!(is_unsafe(code), "{code}");
    }
    for text in
        ["// unsafe { }", "/// Not unsafe.", "let unsafety = 1;", "let x = \"unsafe\";", "f(); // unsafe"]
    {
        assert!(!is_unsafe(text), "{text}");
    }
}
