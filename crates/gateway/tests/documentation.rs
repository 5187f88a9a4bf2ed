//! The code does what the pages in docs/ say of keys, metrics and bytes.

use std::collections::BTreeSet;
use std::path::Path;

use trunkline_gateway::config::{Config, Encryption, RoutingTable, json_schema};
use trunkline_gateway::handshake::{Hello, Join, Message, Refusal, RefusalReason, VERSION};
use trunkline_gateway::keys::PublicKey;
use trunkline_gateway::metrics::prometheus;
use trunkline_queue::DropReason;
use trunkline_status::Status;
use trunkline_trunk::compress::Compression;
use trunkline_trunk::datagram::{HEAD_BYTES, Packer};
use trunkline_trunk::streams::{Deframer, StreamError};
use trunkline_trunk::{ArrivalReport, CongestionControl};
use trunkline_units::Rate;

const CONFIGURATION: &str = include_str!("../../../docs/configuration.md");
const STATUS_PAGE: &str = include_str!("../../../docs/status.md");
const WIRE_FORMAT: &str = include_str!("../../../docs/wire-format.md");

/// The keys that a parser knows in the table around `___`, as it says itself when asked for another.
fn known_keys(text: &str) -> BTreeSet<String> {
    let errors = Config::parse(text, Path::new("a.toml")).expect_err("___ is no key").to_string();
    let line = errors.lines().find(|line| line.contains("___: unknown key")).expect("___ is reported");
    let (_, keys) = line.split_once("allowed: ").expect("what is allowed is said");
    keys.split(", ").map(str::to_owned).collect()
}

/// What stands in backquotes in the first column of the tables between a heading and the next.
fn documented(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split_once(&format!("\n## {heading}\n")).expect("the heading is there").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let first = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    // Words that a key may have are in quotes, keys are not.
    section.lines().filter_map(first).filter(|key| !key.starts_with('"')).collect()
}

#[test]
fn every_key_is_documented_and_no_other() {
    let base = "private_key_file = \"k\"\n";
    let tables =
        ["tun", "lanes", "classes", "peers", "control", "metrics", "proxy", "proxies"].map(str::to_owned);
    let site: BTreeSet<_> = known_keys("___ = 1\n").into_iter().filter(|key| !tables.contains(key)).collect();
    assert_eq!(documented(CONFIGURATION, "The site"), site);
    for (heading, text) in [
        ("`[tun]`: the device", "[tun]\n___ = 1\n"),
        ("`[lanes]`: what all lanes have in common", "[lanes]\n___ = 1\n"),
        ("`[[peers]]`: the other sites", "[[peers]]\n___ = 1\n"),
        ("`[[peers.paths]]`: several paths to a peer", "[[peers]]\n[[peers.paths]]\n___ = 1\n"),
        ("`quota`: a path that is paid by the byte", "[[peers]]\n[[peers.paths]]\nquota = { ___ = 1 }\n"),
        ("`[[proxies]]`: transparent TCP proxies", "[[proxies]]\n___ = 1\n"),
        ("`[proxy]`: what they have in common", "[proxy]\n___ = 1\n"),
    ] {
        assert_eq!(documented(CONFIGURATION, heading), known_keys(&format!("{base}{text}")), "{heading}");
    }
    let class = [
        "[[classes]]\n___ = 1\n",
        "[[classes]]\nmatch = [{ ___ = 1 }]\n",
        "[[classes]]\nqueue = { ___ = 1 }\n",
        "[[classes]]\nflows = { ___ = 1 }\n",
    ];
    let keys: BTreeSet<_> = class.iter().flat_map(|text| known_keys(&format!("{base}{text}"))).collect();
    assert_eq!(documented(CONFIGURATION, "`[[classes]]`: kinds of traffic"), keys);
    let mut keys = BTreeSet::new();
    for table in ["control", "metrics"] {
        let known = known_keys(&format!("{base}[{table}]\n___ = 1\n"));
        keys.extend(known.into_iter().map(|key| format!("{table}.{key}")));
    }
    assert_eq!(documented(CONFIGURATION, "`[control]` and `[metrics]`"), keys);
}

/// The rows of the table of a page whose first line starts with `head`, as cells.
fn table<'p>(page: &'p str, head: &str) -> Vec<Vec<&'p str>> {
    let rows = page.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The rows of a section's tables of keys: key and default.
fn defaults(heading: &str) -> Vec<(String, String)> {
    let section = CONFIGURATION.split_once(&format!("\n## {heading}\n")).expect("the heading is there").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let section = section.split_once("| key | type | default |").expect("a table of keys").1;
    let rows = section.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cell = |row: &str, number| {
        row.split(" | ").nth(number).map(|cell| cell.trim_matches(['|', ' ', '`']).to_owned())
    };
    rows.filter_map(|row| Some((cell(row, 0)?, cell(row, 2)?))).collect()
}

/// Defaults that the types of the file have are in the JSON Schema.
#[test]
fn defaults_of_tables_are_those_of_the_types() {
    let schema = json_schema();
    let config = Config::parse("private_key_file = \"k\"\n", Path::new("a.toml")).expect("a site");
    assert_eq!(config.tun.table, RoutingTable::Auto);
    // The schema cannot have these two: their types are only read.
    let device = [("name", config.tun.name.as_str()), ("table", "auto")];
    let section = |name: &str| {
        let reference = &schema["properties"][name];
        let reference = reference["$ref"].as_str().or_else(|| reference["anyOf"][0]["$ref"].as_str());
        let definition = reference.and_then(|reference| reference.rsplit('/').next()).expect("a definition");
        &schema["$defs"][definition]["properties"]
    };
    for (heading, prefix, properties) in [
        ("The site", "", &schema["properties"]),
        ("`[tun]`: the device", "", section("tun")),
        ("`[control]` and `[metrics]`", "metrics.", section("metrics")),
        ("`[proxy]`: what they have in common", "", section("proxy")),
    ] {
        for (key, documented) in defaults(heading) {
            let Some(key) = key.strip_prefix(prefix) else { continue };
            let property = &properties[key];
            assert!(property.is_object(), "{heading} {key}");
            let in_schema = property.get("default").map(ToString::to_string);
            let of_device = device.iter().find(|(of, _)| heading.starts_with("`[tun]`") && *of == key);
            match in_schema.or_else(|| of_device.map(|(_, default)| format!("\"{default}\""))) {
                Some(default) => assert_eq!(documented, default, "{heading} {key}"),
                None => assert!(
                    serde_json::from_str::<serde_json::Value>(&documented).is_err(),
                    "{heading} {key} has no default {documented}"
                ),
            }
        }
    }
}

/// Defaults of lanes and classes follow from other settings, so a configuration without these keys has them.
#[test]
fn defaults_of_lanes_and_classes_are_those_of_a_file_without_them() {
    let text = "private_key_file = \"k\"\n[[classes]]\nname = \"a\"\n";
    let config = Config::parse(text, Path::new("a.toml")).expect("a class");
    let class = &config.trunk.classes[0];
    let group = config.lane_group(class);
    let rate = |rate: Option<Rate>| rate.map_or("none".to_owned(), |rate| format!("\"{rate}\""));
    let auto = |own: &CongestionControl| match own {
        CongestionControl::ByPath => "\"auto\"".to_owned(),
        other => format!("{other:?}"),
    };
    let have = [
        ("congestion_control", auto(&group.congestion_control)),
        ("fwmark", config.fwmark.map_or("none".to_owned(), |mark| mark.to_string())),
        ("keepalive", format!("\"{} s\"", config.keepalive.as_secs())),
        ("edge_pacing", config.trunk.edge_pacing.to_string()),
        ("lanes", group.lanes.to_string()),
        ("dscp", group.dscp.to_string()),
        ("weight", class.share.weight.to_string()),
        ("guarantee", rate(class.share.guarantee)),
        ("ceiling", rate(class.share.ceiling)),
        ("priority", class.share.priority.to_string()),
        (
            "reorder_wait",
            class.reorder_wait.map_or("by what each path carries".to_owned(), |wait| format!("{wait:?}")),
        ),
        ("max_wait", class.max_wait.map_or("none".to_owned(), |wait| format!("{wait:?}"))),
        ("retransmission_filter", class.filters_retransmissions.to_string()),
        ("replicate", class.replicates.to_string()),
        ("header_compression", (group.compression != Compression::Off).to_string()),
    ];
    let lanes = defaults("`[lanes]`: what all lanes have in common");
    let classes = CONFIGURATION.split_once("\n## `[[classes]]`").expect("classes").1;
    let row = |key: &str| {
        let row = classes.lines().find(|line| line.starts_with(&format!("| `{key}` |"))).unwrap_or_default();
        row.split(" | ").nth(2).map(|cell| cell.trim_matches('`').to_owned())
    };
    for (key, have) in have {
        let documented = lanes.iter().find(|(of, _)| of == key).map(|(_, default)| default.clone());
        assert_eq!(documented.or_else(|| row(key)), Some(have), "{key}");
    }
}

#[test]
fn presets_are_what_the_table_says() {
    let rows = table(CONFIGURATION, "| word | classes");
    let mut documented: Vec<(String, Vec<(&str, &str)>)> = Vec::new();
    for row in &rows {
        if !row[0].is_empty() {
            documented.push((row[0].trim_matches('`').to_owned(), Vec::new()));
        }
        documented.last_mut().expect("a word in the first row").1.push((row[1], row[3]));
    }
    assert_eq!(documented.len(), 3);
    for (word, classes) in documented {
        let text = format!("private_key_file = \"k\"\nclasses = {word}\n");
        let config = Config::parse(&text, Path::new("a.toml")).expect("a preset");
        let have: Vec<_> =
            config.trunk.classes.iter().map(|class| (&*class.name, class.queue.description().word)).collect();
        assert_eq!(have, classes, "{word}");
    }
}

#[test]
fn disciplines_have_the_parameters_of_the_table() {
    let rows = table(CONFIGURATION, "| discipline | what it does");
    assert_eq!(rows.len(), 8);
    let queue = |keys: &str| {
        let text = format!("private_key_file = \"k\"\n[[classes]]\nname = \"a\"\nqueue = {{ {keys} }}\n");
        Config::parse(&text, Path::new("a.toml")).map_err(|errors| errors.to_string())
    };
    let known = known_keys("private_key_file = \"k\"\n[[classes]]\nqueue = { ___ = 1 }\n");
    let parameters = known.iter().filter(|key| !["discipline", "packets", "bytes"].contains(&key.as_str()));
    let parameters: Vec<_> = parameters.collect();
    for row in rows {
        let word = row[0].split('`').nth(1).expect("a word");
        let listed: BTreeSet<_> = row[2].split(", ").map(|key| key.trim_matches('`')).collect();
        assert!(queue(&format!("discipline = {word}")).is_ok());
        for parameter in &parameters {
            let refused = ["true", "5", "0.1", "\"20ms\"", "\"300 B\""].iter().any(|value| {
                let read = queue(&format!("discipline = {word}, {parameter} = {value}"));
                read.is_err_and(|errors| errors.contains("has no such parameter"))
            });
            assert_eq!(!refused, listed.contains(parameter.as_str()), "{word} {parameter}");
        }
    }
}

#[test]
fn every_example_of_the_configuration_page_is_one() {
    let blocks: Vec<&str> =
        CONFIGURATION.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 5, "{} examples", blocks.len());
    for block in blocks {
        let text = if block.contains("private_key") {
            block.to_owned()
        } else {
            format!("private_key_file = \"k\"\n{block}")
        };
        if let Err(errors) = Config::parse(&text, Path::new("example.toml")) {
            panic!("{errors}\n{text}");
        }
    }
}

/// A status in which everything is there once.
const STATUS: &str = r#"{
    "name": "a", "version": "0", "pid": 1, "uptime_s": 1.0, "public_key": "",
    "tun": { "name": "t", "mtu": 1500, "queues": 1, "offloads": [], "super_read": 0, "read_bytes": 0,
        "super_written": 0, "coalesced": 0, "write_refused": 0, "dropped_no_route": 0, "dropped_malformed": 0,
        "dropped_too_long": 0, "dropped_no_memory": 0, "dropped_device_queue": 0, "pool_bytes": 0 },
    "peers": [{ "name": "b", "public_key": "", "endpoint": null, "routes": [], "encryption": "tls",
        "received": { "packets": 0, "bytes": 0, "refused_malformed": 0, "refused_bad_offload": 0,
            "refused_forged_source": 0, "duplicates": 0 },
        "classes": [] }],
    "callers": { "half_open": 0, "accepted": 0, "over_address_limit": 0, "over_total_limit": 0, "timed_out": 0,
        "unknown_key": 0, "failed": 0 }
}"#;

#[test]
fn every_metric_is_documented_with_its_type_and_no_other() {
    let status: Status = serde_json::from_str(STATUS).expect("a status");
    let page = prometheus(&status);
    let served: BTreeSet<(String, String)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `trunkline_")?.split(" | ");
        Some((format!("trunkline_{}", cells.next()?.trim_end_matches('`')), cells.next()?.to_owned()))
    };
    assert_eq!(STATUS_PAGE.lines().filter_map(row).collect::<BTreeSet<_>>(), served);
}

#[test]
fn every_reason_for_a_drop_is_documented_and_no_other() {
    let row = STATUS_PAGE.lines().find(|line| line.starts_with("| `trunkline_class_dropped_packets_total`"));
    let (_, reasons) =
        row.and_then(|row| row.split_once("every reason: ")).expect("the row with the reasons");
    let documented: BTreeSet<&str> = reasons.split('`').skip(1).step_by(2).collect();
    assert_eq!(documented, DropReason::ALL.iter().map(|reason| reason.name()).collect());
}

/// The bytes in backquotes in the row of a page's table that starts with `label`.
fn bytes(label: &str) -> Vec<u8> {
    let row = WIRE_FORMAT.lines().find(|line| line.starts_with(label)).expect("the row is there");
    let hex: Vec<u8> =
        row.rsplit('`').nth(1).unwrap_or_default().bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |c: u8| (c as char).to_digit(16).unwrap_or_default() as u8;
    hex.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn the_vectors_of_the_wire_format_are_what_is_sent() {
    let hello = Hello {
        version: VERSION,
        encryption: Encryption::Tls,
        lane: 3,
        instance: 0x0102_0304_0506_0708,
        lane_group: "bulk".to_owned(),
    };
    let welcome = Hello {
        encryption: Encryption::None,
        lane: 0,
        instance: 0xfeed_0000_0000_0001,
        lane_group: "tcp".to_owned(),
        ..hello.clone()
    };
    let refusal = Refusal { reason: RefusalReason::UnknownLaneGroup, text: "no".to_owned() };
    // Lane 3 of two shards is place 1 of shard 1. The second path begins at place 64.
    let dear = Hello { lane: Hello::lane_on((64 + 1) * 2 + 1, 4), ..hello.clone() };
    assert_eq!(bytes("| Hello: TLS, lane 3 on"), Message::Hello(dear).encode());
    assert_eq!(bytes("| Hello: TLS"), Message::Hello(hello).encode());
    assert_eq!(bytes("| Welcome: none"), Message::Welcome(welcome).encode());
    assert_eq!(bytes("| Refusal: unknown"), Message::Refusal(refusal).encode());
    let prefixes = vec!["10.2.0.0/16".parse().expect("a prefix")];
    let join = Join { key: PublicKey::from_bytes([7; 32]), name: "b".to_owned(), prefixes };
    assert_eq!(bytes("| Join: key"), Message::Join(join).encode());
    assert_eq!(bytes("| Joined |"), Message::Joined.encode());
    for (label, len, expected) in [
        ("| complete packet of 84", 84, 3),
        ("| packet of 52", 52, 7),
        ("| TCP/IPv4 super-packet of 65", 65_000, 11),
    ] {
        let bytes = bytes(label);
        let decoded = trunkline_trunk::frame::Frame::decode(&bytes).expect("a head").expect("all of it");
        assert_eq!((decoded.0.content_len(), decoded.1, bytes.len()), (len, expected, expected), "{label}");
    }
    let mut packer = Packer::new(1200);
    for length in [20, 20, 1300, 20, 3500] {
        packer.put(&[&[0; 3], &vec![0; length]]);
    }
    let mut pieces = Vec::new();
    let datagrams = packer.take(&mut pieces, Vec::new());
    for (number, label) in [
        (0, "| number 0, begins with"),
        (1, "| number 1, the first frame begins after 155"),
        (3, "| number 3, no frame"),
    ] {
        let start = pieces[number].start;
        assert_eq!(bytes(label), datagrams[start..start + HEAD_BYTES], "{label}");
    }
    let stream = bytes("| an IPv4 packet of 20 bytes, plain");
    let mut packets = Vec::new();
    let deframed = Deframer::default().handle_bytes(&stream, |_, content| {
        packets.push(content.to_vec());
        Ok::<(), StreamError>(())
    });
    assert_eq!((deframed, &packets[..]), (Ok(()), &[stream[3..].to_vec()][..]));
    let report = ArrivalReport { at: 1_000_000, bytes: 65_536 };
    assert_eq!(bytes("| report: 1 000 000"), trunkline_trunk::frame::encode_report(&report));
}
