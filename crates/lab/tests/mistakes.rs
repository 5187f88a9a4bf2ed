//! Files that are wrong: each mistake is told with its file, line, key and what is allowed.

use std::path::Path;

use trunkline_lab::document::Document;

const BASE: &str = include_str!("good/base.toml");

/// All that is said of a text.
fn told(text: &str) -> String {
    let planned = Document::parse("bad.toml", text).and_then(|document| document.plan());
    planned.err().map(|mistakes| mistakes.to_string()).unwrap_or_default()
}

/// The base with some text in place of another.
fn with(old: &str, new: &str) -> String {
    assert!(BASE.contains(old), "{old} is not in the base");
    BASE.replacen(old, new, 1)
}

/// What is in place of what, and what is said of it.
const BAD: &[(&str, &str, &str)] = &[
    (r#"id = "base""#, r#"id = "Base!""#, r#"bad.toml:1:1: id: is "Base!"; allowed: 1 to 64 of a-z 0-9 -"#),
    (r#"id = "base""#, "", "bad.toml:1:1: id: is missing; allowed: a text in quotes"),
    (r#"title = "A dumbbell""#, r#"titel = "A dumbbell""#, "bad.toml:1:1: title: is missing; allowed: a text in quotes
bad.toml:2:1: titel: unknown key, did you mean title?; allowed: id, aliases, title, paper, source, description, notes, duration, end, warm_up, runs, seed, family, nodes, links, tcp, traffic, trunks, proxies, sweep, quick, unknown, explained, survey, series, published, claims, tables, figures"),
    (r#"duration = "10 s""#, "duration = 10", r#"bad.toml:3:1: duration: 10 is no time; allowed: a number with ns, us, ms, s, min or h, such as "211 ms""#),
    (r#"duration = "10 s""#, r#"duration = "10 parsec""#, r#"bad.toml:3:1: duration: "10 parsec" is no time; allowed: a number with ns, us, ms, s, min or h, such as "211 ms""#),
    (r#"duration = "10 s""#, r#"duration = "0 s""#, r#"bad.toml:3:1: duration: is "0 s"; allowed: more than no time, up to 10000000 s"#),
    (r#"duration = "10 s""#, r#"duration = "10 s"
warm_up = "11 s""#, r#"bad.toml:4:1: warm_up: is "11 s"; allowed: less than duration"#),
    (r#"duration = "10 s""#, r#"duration = "10 s"
runs = 0"#, "bad.toml:4:1: runs: is 0; allowed: 1 to 10000"),
    (r#"duration = "10 s""#, r#"duration = "10 s"
runs = -1"#, "bad.toml:4:1: runs: is -1; allowed: a whole number, 0 to 4294967295"),
    (r#"duration = "10 s""#, r#"duration = "10 s"
end = "never""#, r#"bad.toml:4:1: end: is "never"; allowed: "duration", "transfers""#),
    (r#"a = "host""#, r#"a = "hots""#, r#"bad.toml:6:1: nodes.a: is "hots"; allowed: "host", "router", "gateway", "proxy""#),
    (r#"a = "host""#, r#""a b" = "host"
a = "host""#, r#"bad.toml:6:1: nodes."a b": "a b" is no name; allowed: 1 to 32 of A-Z a-z 0-9 _ -"#),
    (r#"ends = ["a", "g"]"#, r#"ends = ["a"]"#, "bad.toml:15:1: links.near.ends: is a list of 1; allowed: a list of 2, each a text in quotes"),
    (r#"ends = ["a", "g"]"#, r#"ends = ["a", "x"]"#, r#"bad.toml:15:14: links.near.ends[1]: there is no node "x"; allowed: a, g, r, h, p, b, m"#),
    (r#"ends = ["a", "g"]"#, r#"ends = ["a", "a"]"#, "bad.toml:15:1: links.near.ends: has the same node twice; allowed: two nodes"),
    (r#"ends = ["a", "g"]
"#, "", r#"bad.toml:14:8: links.near.ends: is missing; allowed: two nodes, such as ["a", "b"]"#),
    (r#"rate = "100 Mbit/s""#, "", r#"bad.toml:14:8: links.near.rate: is missing; allowed: a rate, such as "10 Mbit/s", or deliveries
bad.toml:28:8: links.last.rate: is missing; allowed: a rate, such as "10 Mbit/s", or deliveries
bad.toml:32:8: links.cell.rate: is missing; allowed: a rate, such as "10 Mbit/s", or deliveries"#),
    (r#"rate = "100 Mbit/s""#, r#"rate = "0 bit/s""#, r#"bad.toml:16:1: links.near.rate: is "0 bit/s"; allowed: 1 bit/s or more, or 0 with a change to more"#),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
loss = nan"#, r#"bad.toml:17:1: links.near.loss: is nan; allowed: 0 to 1, or "0 %" to "100 %", or a table with to_bad, to_good, good, bad"#),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
loss = -0.1"#, r#"bad.toml:17:1: links.near.loss: is -0.1; allowed: 0 to 1, or "0 %" to "100 %", or a table with to_bad, to_good, good, bad"#),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
loss = { to_bad = 0.1 }"#, r#"bad.toml:17:1: links.near.loss.to_good: is missing; allowed: 0 to 1, or "0 %" to "100 %"
bad.toml:17:1: links.near.loss.good: is missing; allowed: 0 to 1, or "0 %" to "100 %"
bad.toml:17:1: links.near.loss.bad: is missing; allowed: 0 to 1, or "0 %" to "100 %""#),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
mtu = "9 B""#, r#"bad.toml:17:1: links.near.mtu: is "9 B"; allowed: 68 to 65535 bytes"#),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
back = { ends = ["g", "a"] }"#, "bad.toml:17:10: links.near.back.ends: is no key of a way back; allowed: a way back has rate, deliveries, delay, queue, mtu, loss, corruption, duplication, jitter, mobile, changes, repeat"),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
jitter = { reorders = true }"#, "bad.toml:17:1: links.near.jitter: has neither max nor mean, or both; allowed: one of max and mean"),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
jitter = { most = "1 ms" }"#, "bad.toml:17:12: links.near.jitter.most: unknown key; it is called max now"),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
mobile = { wifi = {} }"#, "bad.toml:17:1: links.near.mobile: has wifi; allowed: one of pareto, rlp"),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
mobile = { pareto = { mean = "1 s", shape = inf, share = 1 } }"#, "bad.toml:17:37: links.near.mobile.pareto.shape: is inf; allowed: above 1"),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
changes = [{ at = "1 s" }, { at = "0 s", rate = "1 Mbit/s" }]"#, "bad.toml:17:12: links.near.changes[0]: changes nothing; allowed: at least one of rate, delay and loss"),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
deliveries = "1 2 5""#, "bad.toml:17:1: links.near.deliveries: is given beside a rate; allowed: one of the two"),
    (r#"rate = "100 Mbit/s""#, r#"deliveries = "1 2 x""#, r#"bad.toml:16:1: links.near.deliveries: number 3, "x", is no time; allowed: whole milliseconds with white space between them"#),
    (r#"rate = "100 Mbit/s""#, r#"deliveries = "1 5 2""#, "bad.toml:16:1: links.near.deliveries: number 3 of the times; allowed: no time before the one in front of it"),
    (r#"rate = "100 Mbit/s""#, r#"deliveries = "0 0""#, "bad.toml:16:1: links.near.deliveries: number 2 of the times; allowed: up to ten million times, the last one later than 0 ms"),
    (r#"rate = "100 Mbit/s""#, r#"deliveries = "1 2 5"
changes = [{ at = "1 s", rate = "1 Mbit/s" }]"#, "bad.toml:17:26: links.near.changes[0].rate: is given for a link with deliveries, which say when it sends; allowed: delay and loss"),
    (r#"rate = "100 Mbit/s""#, r#"deliveries = "1 2 5"
mobile = { pareto = { mean = "1 s", shape = 2.0, share = 1 } }"#, "bad.toml:17:1: links.near.mobile: is given beside deliveries; allowed: one of the two"),
    (r#"rate = "100 Mbit/s""#, r#"rate = "100 Mbit/s"
repeat = "1 s""#, "bad.toml:17:1: links.near.repeat: there are no changes to repeat"),
    (r#"like = "core""#, r#"like = "cores""#, r#"bad.toml:25:1: links.far.like: there is no link "cores"; allowed: near, core, far, last, cell, radio"#),
    ("[links.core]
", r#"[links.core]
like = "far"
"#, "bad.toml:19:1: links.core.like: goes in a circle: far, core, far; allowed: a link that is not like this one
bad.toml:26:1: links.far.like: goes in a circle: core, far, core; allowed: a link that is not like this one"),
    ("min = 5,", "min = 5, minimum = 5,", "bad.toml:22:40: links.core.queue.minimum: unknown key; allowed: discipline, packets, bytes, min, max, max_p, weight, gentle, ecn, harddrop, min_flow, target, interval, queues, quantum, update, burst, auto_size, early_drop, drop_holdoff, threshold, holdoff, kernel"),
    ("min = 5,", r#"min = "5 kB","#, "bad.toml:22:31: links.core.queue.min: is in another unit than max; allowed: both in packets, or both in bytes"),
    ("min = 5,", "min = 20,", "bad.toml:22:1: links.core.queue: min 20 is not below max 15; allowed: a min below max"),
    ("min = 5,", "", "bad.toml:22:1: links.core.queue.min: is missing; allowed: min and max where one of them is in packets"),
    ("min = 5,", r#"min = 5, target = "5 ms","#, r#"bad.toml:22:40: links.core.queue.target: "red" has no such parameter; allowed: with discipline "codel", "fq-codel", "pie""#),
    (r#"discipline = "red""#, r#"discipline = "blue""#, r#"bad.toml:22:11: links.core.queue.discipline: is "blue"; allowed: "tail-drop", "fair-tail-drop", "red", "fred", "codel", "fq-codel", "pie", "trunk""#),
    (r#"discipline = "red""#, r#"kernel = "fq_codel", discipline = "red""#, r#"bad.toml:22:11: links.core.queue.kernel: is given beside keys of our own disciplines; allowed: kernel alone, with the options in its text, such as "fq_codel limit 1000""#),
    (r#"discipline = "red""#, r#"discipline = "tail-drop""#, r#"bad.toml:22:37: links.core.queue.min: "tail-drop" has no such parameter; allowed: with discipline "red", "fred"
bad.toml:22:46: links.core.queue.max: "tail-drop" has no such parameter; allowed: with discipline "red", "fred""#),
    (r#"preset = "linux-2.2""#, r#"preset = "linux-2.3""#, r#"bad.toml:41:1: tcp.old.preset: there is no TCP "linux-2.3"; allowed: bsd-4.4, linux-2.2, linux-2.4, opnet-reno, ns2-reno, linux-6, linux-6-reno, old"#),
    (r#"preset = "linux-2.2""#, r#"preset = "old""#, "bad.toml:41:1: tcp.old.preset: goes in a circle: old, old; allowed: bsd-4.4, linux-2.2, linux-2.4, opnet-reno, ns2-reno, linux-6, linux-6-reno"),
    (r#"preset = "linux-2.2""#, r#"preset = "linux-2.2"
growth = "cubics""#, r#"bad.toml:42:1: tcp.old.growth: "cubics" is no growth; allowed: reno, bic, bic-1.0, bic-2.6.6, cubic, compound, vegas, bbr"#),
    (r#"preset = "linux-2.2""#, r#"preset = "linux-2.2"
mss = "10 B""#, r#"bad.toml:42:1: tcp.old.mss: is "10 B"; allowed: 64 to 65495 bytes"#),
    (r#"preset = "linux-2.2""#, r#"preset = "linux-2.2"
most_retries = 9"#, "bad.toml:42:1: tcp.old.most_retries: unknown key; it is called max_retransmissions now"),
    (r#"preset = "linux-2.2""#, r#"preset = "linux-2.2"
buffers = "1 B""#, r#"bad.toml:42:1: tcp.old.buffers: is "1 B"; allowed: a segment of mss, up to 2^40 bytes"#),
    (r#"tcp = "old""#, r#"tcp = "odl""#, r#"bad.toml:47:1: traffic.bulk.tcp: there is no TCP "odl"; allowed: bsd-4.4, linux-2.2, linux-2.4, opnet-reno, ns2-reno, linux-6, linux-6-reno, old"#),
    ("values = [1, 10]", "values = [1, 60000]", "bad.toml:43:10: traffic.bulk.flows: is 60000; allowed: up to 50000 (at flows = 60000, trunk = with)"),
    (r#"tcp = "old""#, r#"think = "1 s""#, "bad.toml:47:1: traffic.bulk.think: is no key of bulk; allowed: bulk has tcp, tcp_to, flows, bytes, stagger"),
    (r#"tcp = "old""#, r#"stagger = { shape = "normal" }"#, r#"bad.toml:47:13: traffic.bulk.stagger.shape: is "normal"; allowed: "uniform", "exponential", "pareto", "cdf""#),
    (r#"tcp = "old""#, r#"stagger = { shape = "pareto", min = "1 s", exponent = -1 }"#, "bad.toml:47:44: traffic.bulk.stagger.exponent: is -1; allowed: a number above 0"),
    (r#"tcp = "old""#, r#"stagger = { shape = "pareto", least = "1 s", exponent = 1.2 }"#, "bad.toml:47:31: traffic.bulk.stagger.least: unknown key; it is called min now"),
    (r#"tcp = "old""#, r#"stagger = { mean = "1 s" }"#, r#"bad.toml:47:1: traffic.bulk.stagger.shape: is missing; allowed: "uniform", "exponential", "pareto", "cdf""#),
    (r#"tcp = "old""#, r#"stagger = { shape = "cdf", values = ["1 s", "2 s"], shares = [0.5] }"#, "bad.toml:47:53: traffic.bulk.stagger.shares: has 1 elements; allowed: as many as values has: 2"),
    (r#"tcp = "old""#, r#"stagger = { shape = "cdf", values = ["1 s", "2 s"], shares = [0.5, 0.9] }"#, "bad.toml:47:53: traffic.bulk.stagger.shares: is [0.5, 0.9]; allowed: points of which the last has the probability 1"),
    (r#"tcp = "old""#, r#"stagger = { shape = "cdf", values = ["3 s", "2 s"], shares = [0.5, 1] }"#, "bad.toml:47:68: traffic.bulk.stagger.shares[1]: is 1; allowed: a value and a probability, neither less than in the point before"),
    (r#"tcp = "old""#, r#"load = "1 Mbit/s""#, "bad.toml:47:1: traffic.bulk.load: is no key of bulk; allowed: bulk has tcp, tcp_to, flows, bytes, stagger"),
    (r#"kind = "bulk""#, r#"kind = "arrivals""#, r#"bad.toml:43:10: traffic.bulk.response: is missing; allowed: bytes of an answer or a distribution of them, such as "1 kB"
bad.toml:43:10: traffic.bulk.load: is missing; allowed: a rate, such as "1 Mbit/s", or a share of a link's"#),
    (r#"kind = "bulk""#, r#"kind = "arrivals"
response = "1 kB"
load = { share = 0.5, link = "cores" }"#, r#"bad.toml:46:23: traffic.bulk.load.link: there is no link "cores"; allowed: near, core, far, last, cell, radio"#),
    (r#"kind = "bulk""#, r#"kind = "arrivals"
response = "1 kB"
load = "0 bit/s""#, r#"bad.toml:46:1: traffic.bulk.load: is "0 bit/s"; allowed: more than 0 bit/s"#),
    (r#"kind = "bulk""#, r#"kind = "arrivals"
response = { shape = "pareto", min = "1 kB", exponent = 0.9 }
load = "1 Mbit/s""#, "bad.toml:45:1: traffic.bulk.response: has no mean; allowed: a distribution with a mean, so that there is a load"),
    (r#"tcp = "old""#, "dscp = 64", "bad.toml:47:1: traffic.bulk.dscp: is 64; allowed: 0 to 63"),
    (r#"tcp = "old""#, "port = 65536", "bad.toml:47:1: traffic.bulk.port: is 65536; allowed: a whole number, 0 to 65535"),
    (r#"tcp = "old""#, r#"start = "5 s"
stop = "5 s""#, r#"bad.toml:48:1: traffic.bulk.stop: is "5 s"; allowed: later than start"#),
    (r#"tcp = "old""#, r#"group = "all""#, "bad.toml:47:1: traffic.bulk.group: all is what metrics of the whole are called; allowed: another name"),
    (r#"kind = "bulk""#, r#"kind = "requests""#, r#"bad.toml:43:10: traffic.bulk.response: is missing; allowed: bytes of an answer, such as "1 kB"
bad.toml:43:10: traffic.bulk.think: is missing; allowed: a time or a distribution of times from a request to the next, such as "1 s""#),
    (r#"to = "b""#, r#"to = "a""#, "bad.toml:46:1: traffic.bulk.to: is the host that from is; allowed: another host"),
    (r#"to = "b""#, r#"to = "r""#, "bad.toml:46:1: traffic.bulk.to: r is no host, but a router; allowed: a, b, m"),
    (r#"to = "m""#, r#"to = "m"
packet = "20 B""#, r#"bad.toml:53:1: traffic.voice.packet: is "20 B"; allowed: 28 to 65535 bytes, of which 28 are headers"#),
    (r#"to = "m""#, r#"to = "m"
timing = "on-off""#, r#"bad.toml:49:10: traffic.voice.on: is missing; allowed: a time or a distribution of times, such as "1 s"
bad.toml:49:10: traffic.voice.off: is missing; allowed: a time or a distribution of times, such as "1 s""#),
    (r#"to = "m""#, r#"to = "m"
on = "1 s""#, r#"bad.toml:53:1: traffic.voice.on: is no key of this timing; allowed: timing = "on-off" has on, off"#),
    (r#"gateways = ["g", "h"]"#, r#"gateways = ["g", "r"]"#, "bad.toml:56:18: trunks.t.gateways[1]: r is no gateway, but a router; allowed: g, h"),
    (r#"gateways = ["g", "h"]"#, r#"gateways = ["g", "h"]
sites = [["a"], ["a"]]"#, "bad.toml:57:1: trunks.t.sites: a is on both sides; allowed: each host on one side"),
    ("lanes.edge_pacing = false", r#"lanes.paths = "bonded""#, "bad.toml:59:7: trunks.t.lanes.paths: is given, and the trunk has no paths of its own; allowed: its key paths too, or none here"),
    ("lanes.edge_pacing = false", r#"paths = [{ name = "spread", links = ["core"] }, { name = "two", links = ["core"] }, { name = "two", links = ["last"], cost = 8 }]"#, r#"bad.toml:59:12: trunks.t.paths.spread.name: "spread" is a word for a choice among paths; allowed: another name
bad.toml:59:65: trunks.t.paths[1].links: are those of another path; allowed: links of its own at one gateway or both
bad.toml:59:87: trunks.t.paths[2].name: "two" is the name of two paths
bad.toml:59:119: trunks.t.paths[2].cost: is 8; allowed: 0 to 7"#),
    ("lanes.edge_pacing = false", r#"paths = [{ name = "one", links = [] }, { name = "two", links = ["cor", "near", "core", "radio"] }]
lanes.paths = ["dsl"]"#, r#"bad.toml:59:1: trunks.t.paths: class voice is to take the path "dsl", which the trunk does not have; allowed: one, two
bad.toml:59:1: trunks.t.paths: class rest is to take the path "dsl", which the trunk does not have; allowed: one, two
bad.toml:59:26: trunks.t.paths.one.links: is an empty list; allowed: the links by which the path leaves its gateways
bad.toml:59:65: trunks.t.paths.two.links[0]: there is no link "cor"; allowed: near, core, far, last, cell, radio
bad.toml:59:80: trunks.t.paths.two.links[2]: core is the second link at g; allowed: one link at each gateway
bad.toml:59:88: trunks.t.paths.two.links[3]: radio ends at no gateway of the trunk; allowed: links of g, h"#),
    ("lanes.edge_pacing = false", "lane_socket = { unsent = \"0 B\" }", r#"bad.toml:59:17: trunks.t.lane_socket.unsent: is "0 B"; allowed: 1 B to 1 GiB"#),
    ("lanes.edge_pacing = false", "lanes = { rest = 2 }", r#"bad.toml:59:11: trunks.t.lanes.rest: unknown key; how many lanes a class has is `lanes` in its own table: [[classes]] name = "…", lanes = 4; allowed: congestion_control, edge_pacing, paths"#),
    (r#"name = "rest""#, r#"name = "rest"
lanes = 0"#, "bad.toml:69:1: trunks.t.classes.rest.lanes: is 0; allowed: 1 to 32, or \"auto\""),
    (r#"gateways = ["g", "h"]"#, r#"gateways = ["g", "h"]
sealed = true"#, r#"bad.toml:57:1: trunks.t.sealed: unknown key; write encryption = "tls" or "none""#),
    (r#"gateways = ["g", "h"]"#, r#"gateways = ["g", "h"]
compression = true"#, "bad.toml:57:1: trunks.t.compression: unknown key; write header_compression in each class"),
    (r#"gateways = ["g", "h"]"#, r#"gateways = ["g", "h"]
edge_pacing = true"#, "bad.toml:57:1: trunks.t.edge_pacing: unknown key; write lanes.edge_pacing"),
    (r#"gateways = ["g", "h"]"#, r#"gateways = ["g", "h"]
carrier = "datagrams""#, r#"bad.toml:57:1: trunks.t.carrier: unknown key; write transport = "quic" in each class, and delivery"#),
    (r#"name = "rest""#, r#"name = "rest"
transport = "quic""#, r#"bad.toml:58:1: trunks.t.encryption: is "none", and some lanes are over QUIC, which are always encrypted; allowed: "tls""#),
    (r#"name = "rest""#, r#"name = "rest"
transport = "auto""#, r#"bad.toml:69:1: trunks.t.classes.rest.transport: is "auto"; allowed: "tcp" or "quic": each path here carries UDP"#),
    (r#"name = "rest""#, r#"name = "rest"
delivery = "reliable""#, r#"bad.toml:69:1: trunks.t.classes.rest.delivery: is set, and the class's lanes are over TCP, which delivers everything; allowed: no delivery, or transport = "quic" or "auto""#),
    (r#"gateways = ["g", "h"]"#, r#"gateways = ["g", "h"]
program = "openvpn""#, r#"bad.toml:57:1: trunks.t.program: is "openvpn"; allowed: openvpn-tcp, openvpn-udp, wireguard, wireguard-go
bad.toml:58:1: trunks.t.tcp: has no meaning for openvpn; allowed: not beside program: that is a trunk's
bad.toml:59:1: trunks.t.encryption: has no meaning for openvpn; allowed: not beside program: that is a trunk's
bad.toml:60:1: trunks.t.lanes: has no meaning for openvpn; allowed: not beside program: that is a trunk's
bad.toml:62:12: trunks.t.classes: has no meaning for openvpn; allowed: not beside program: that is a trunk's"#),
    (r#"match = [{ protocol = "udp" }]"#, "match = [{}]", "bad.toml:63:10: trunks.t.classes.voice.match[0]: is an empty rule; allowed: at least one of protocol, dscp, source, destination, source_port, destination_port, port, length, behaviour"),
    (r#"match = [{ protocol = "udp" }]"#, r#"match = [{ protocol = "igmp" }]"#, r#"bad.toml:63:12: trunks.t.classes.voice.match[0].protocol: unknown protocol "igmp"; allowed: "tcp", "udp", "icmp", "sctp" or 0 to 255"#),
    (r#"match = [{ protocol = "udp" }]"#, r#"match = [{ source = "g" }]"#, "bad.toml:63:12: trunks.t.classes.voice.match[0].source: g is no host, but a gateway; allowed: a, b, m"),
    (r#"match = [{ protocol = "udp" }]"#, "", "bad.toml:61:1: trunks.t.classes.voice: takes every packet, so that later classes never get one; allowed: a class without match as the last one only"),
    (r#"match = [{ protocol = "udp" }]"#, r#"match = [{ protocol = "udp" }]
weight = 0"#, "bad.toml:64:1: trunks.t.classes.voice.weight: is 0; allowed: 1 to 1000"),
    (r#"match = [{ protocol = "udp" }]"#, r#"match = [{ protocol = "udp" }]
flows = { limit = 1, over = "others" }"#, r#"bad.toml:64:22: trunks.t.classes.voice.flows.over: there is no class "others"; allowed: "refuse" or the name of another class"#),
    (r#"match = [{ protocol = "udp" }]
"#, r#"match = [{ protocol = "udp" }]
repeat_filter = true
"#, "bad.toml:64:1: trunks.t.classes.voice.repeat_filter: unknown key; it is called retransmission_filter now"),
    (r#"queue = { discipline = "tail-drop", packets = 1000 }"#, r#"queue = { discipline = "codel", target = "1 s", interval = "1 ms" }"#, "bad.toml:64:1: trunks.t.classes.voice.queue: target 1s is not below interval 1ms; allowed: an interval of about a round trip and a target of 5 to 10 % of it"),
    (r#"queue = { discipline = "tail-drop", packets = 1000 }"#, r#"queue = { kind = "tail-drop", packets = 1000 }"#, "bad.toml:64:11: trunks.t.classes.voice.queue.kind: unknown key; it is called discipline now"),
    (r#"queue = { discipline = "tail-drop", packets = 1000 }"#, r#"queue = { discipline = "tail-drop", bytes = 262144 }"#, r#"bad.toml:64:37: trunks.t.classes.voice.queue.bytes: 262144 is no size: write "262144 B"; allowed: a number with B, kB, MB, GB, KiB, MiB or GiB, such as "520 KB""#),
    (r#"name = "rest""#, r#"name = "lane1""#, "bad.toml:68:1: trunks.t.classes.lane1.name: is what a metric of the trunk is called; allowed: another name"),
    (r#"mode = "split""#, r#"mode = "freeze""#, r#"bad.toml:72:10: proxies.p.after: is missing; allowed: a time, such as "500 ms""#),
    (r#"mode = "split""#, r#"mode = "clamp-window"
window = "0 B""#, r#"bad.toml:74:1: proxies.p.window: is "0 B"; allowed: 1 or more bytes"#),
    (r#"mode = "split""#, r#"mode = "path-tail""#, "bad.toml:72:10: proxies.p.cells: is missing; allowed: the links that are emulated, by name"),
    ("[proxies.p]", "[proxies.q]", r#"bad.toml:72:2: proxies.p: is missing: p is a proxy; allowed: what it does; mode = "none": nothing
bad.toml:72:10: proxies.q: there is no node "q"; allowed: a, g, r, h, p, b, m"#),
    (r#"behind = ["m"]"#, r#"behind = ["m", "m"]"#, "bad.toml:74:16: proxies.p.behind[1]: m is here twice; allowed: each host once"),
    ("values = [1, 10]", "values = []", "bad.toml:76:8: sweep.flows: has no values, or both values and a range; allowed: one of values and range"),
    ("values = [1, 10]", "values = [1, 1]", "bad.toml:76:8: sweep.flows: has 1 twice; allowed: each value once"),
    ("values = [1, 10]", r#"values = [1, "many"]"#, r#"bad.toml:43:10: traffic.bulk.flows: is "many"; allowed: a whole number, 0 to 4294967295 (at flows = many, trunk = with)"#),
    ("values = [1, 10]", "values = [1, 0]", "bad.toml:43:10: traffic.bulk.flows: is 0; allowed: 1 to 50000 (at flows = 0, trunk = with)"),
    ("values = [1, 10]", "range = { from = 1, to = 2, count = 1 }", "bad.toml:78:29: sweep.flows.range.count: is 1; allowed: 2 to 10000"),
    ("values = [1, 10]", r#"range = { from = 0, to = 2, count = 3, spacing = "log" }"#, "bad.toml:78:1: sweep.flows.range: begins or ends at or below 0, where there are no ratios; allowed: from and to above 0"),
    ("values = [1, 10]", "range = { from = 1, to = 1e9, count = 4294967295 }", "bad.toml:78:31: sweep.flows.range.count: is 4294967295; allowed: 2 to 10000"),
    (r#"paths = ["traffic.bulk.flows"]"#, r#"paths = ["traffic.bluk.flows"]"#, "bad.toml:77:10: sweep.flows.paths[0]: traffic.bluk.flows: there is no bluk in traffic; allowed: bulk, voice"),
    (r#"paths = ["traffic.bulk.flows"]"#, r#"paths = ["traffic.bulk.flow"]"#, "bad.toml:43:10: traffic.bulk.flow: unknown key, did you mean flows?; allowed: kind, from, to, enabled, group, port, family, dscp, start, stop, tcp, tcp_to, flows, bytes, stagger, request, response, objects, gap, think, load, assign, rate, packet, timing, on, off (at flows = 1, trunk = with)"),
    (r#"paths = ["traffic.bulk.flows"]"#, r#"paths = ["runs"]"#, "bad.toml:77:10: sweep.flows.paths[0]: runs is the same at all points; allowed: what describes the network, traffic and trunks"),
    (r#"paths = ["traffic.bulk.flows"]"#, r#"zip = { "traffic.bulk.flows" = [1] }"#, "bad.toml:76:8: sweep.flows: says in several ways what varies; allowed: one of paths with values or a range, zip, and variants"),
    (r#"without = { "trunks.*.enabled" = false }"#, r#"without = { "proxies.*.cells.*.rate" = "1 bit/s" }"#, r#"bad.toml:82:13: sweep.trunk.variants.without."proxies.*.cells.*.rate": proxies.*.cells.*.rate: * matches nothing: there is nothing in proxies.p.cells; allowed: there is none"#),
];

#[test]
fn what_ipv6_cannot_have_is_told_where_it_is_said() {
    let of = |old: &str, new: &str| {
        let family = "duration = \"10 s\"\nfamily = \"ipv6\"";
        told(&with(old, new).replacen("duration = \"10 s\"", family, 1))
    };
    assert_eq!(of("id", "id"), "", "the base may be IPv6");
    let narrow = of("rate = \"100 Mbit/s\"", "rate = \"100 Mbit/s\"\nmtu = \"1279 B\"");
    let allowed = "allowed: 1280 to 65535 bytes where something sends IPv6 (RFC 8200 §5)";
    assert!(narrow.contains(&format!("links.near.mtu: is 1279 B; {allowed}")), "{narrow}");
    let datagrams = |more: &str| {
        let udp = "[traffic.six]\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mbit/s\"\nfamily = \"ipv6\"\n";
        told(&[BASE, udp, more].concat())
    };
    assert_eq!(datagrams(""), "");
    let long = datagrams("packet = \"1501 B\"");
    let why = "traffic.six.packet: is 1501 B, longer than any link of its host takes; allowed: up to 1500 B: no packet of IPv6 is fragmented";
    assert!(long.ends_with(why), "{long}");
    let short = datagrams("packet = \"47 B\"");
    assert!(short.ends_with("allowed: 48 to 65535 bytes, of which 48 are headers"), "{short}");
    let word =
        datagrams("dscp = 0").is_empty() && !told(&with("duration", "family = \"v6\"\nduration")).is_empty();
    assert!(word, "a word that is no version is refused");
}

#[test]
fn each_mistake_is_told_with_file_line_key_and_what_is_allowed() {
    assert!(BAD.len() > 80);
    for (old, new, expected) in BAD {
        let said = told(&with(old, new));
        assert_eq!(said, *expected, "{new} in place of {old}");
        for mistake in said.lines() {
            let place = mistake.strip_prefix("bad.toml:").and_then(|rest| rest.split_once(": "));
            assert!(
                place.is_some_and(|(place, _)| place.split(':').all(|number| number.parse::<u32>().is_ok())),
                "{said}"
            );
        }
    }
}

#[test]
fn the_base_is_right() {
    assert_eq!(told(BASE), "");
}

#[test]
fn what_is_set_is_told_as_what_brings_a_mistake_about() {
    let document = || Document::parse("bad.toml", BASE).unwrap();
    for (path, value, expected) in [
        (
            "links.cor.rate",
            "1 Mbit/s",
            "bad.toml: links.cor.rate: there is no cor in links; allowed: near, core, far, last, cell, radio (--set links.cor.rate=1 Mbit/s)",
        ),
        (
            "links.core.rate",
            "1 Mbit",
            "bad.toml:20:1: links.core.rate: \"1 Mbit\" is no rate: write \"1 Mbit/s\"; allowed: a number with",
        ),
        (
            "links.core.rat",
            "1 Mbit/s",
            "bad.toml:18:8: links.core.rat: unknown key, did you mean rate?; allowed: ends, ",
        ),
        ("runs", "0", "bad.toml:1:1: runs: is 0; allowed: 1 to 10000 (--set runs=0)"),
        (
            "traffic.bulk.from.x",
            "1",
            "bad.toml: traffic.bulk.from.x: traffic.bulk.from is a value, there is nothing in it",
        ),
        ("a b", "1", "bad.toml:1:1: \"a b\": unknown key; allowed: id, "),
        ("", "1", "bad.toml: \"\" is no path; allowed: keys with dots between them"),
        ("links.*", "1", "bad.toml:14:8: links.near: is 1; allowed: a table with ends, "),
    ] {
        let mut document = document();
        let said = document.set(path, value).and_then(|()| document.plan()).unwrap_err().to_string();
        assert!(said.starts_with(expected), "{said}");
        assert!(said.lines().all(|mistake| mistake.ends_with(&format!("(--set {path}={value})"))), "{said}");
    }
}

#[test]
fn what_is_no_text_or_no_toml_or_too_long_is_told_too() {
    for (text, expected) in [
        ("id = \n[[[".to_owned(), "bad.toml:1:"),
        ("#".repeat(5 << 20), "bad.toml: is too long; allowed: up to 4 MiB"),
        (
            format!("{} = 1", vec!["a"; 10_000].join(".")),
            "bad.toml:1:1: is nested too deeply; allowed: up to 80",
        ),
        (
            format!("a = 1\n[{}]", vec!["a"; 90].join(".")),
            "bad.toml:2:1: is nested too deeply; allowed: up to 80",
        ),
        (format!("a = {}", "[".repeat(200)), "bad.toml:1:85: is nested too deeply; allowed: up to 80"),
        (format!("a = {}", "[".repeat(100_000)), "bad.toml:1:"),
        ("id = \"x\"\nid = \"y\"".to_owned(), "bad.toml:2:1: "),
        ("\u{0}".to_owned(), "bad.toml:1:"),
    ] {
        let said = told(&text);
        assert!(said.starts_with(expected), "{said}");
    }
    let said = Document::read(Path::new("/nonexistent.toml")).unwrap_err().to_string();
    assert!(said.starts_with("/nonexistent.toml: there is no such file in /"), "{said}");
}

#[test]
fn what_is_asked_of_results_that_there_will_not_be_is_told() {
    for (ask, expected) in [
        (
            "[[published]]\nmetric = \"bulk.goodputs\"\nvalues = []",
            "bad.toml:84:1: published[0].metric: nothing here measures \"bulk.goodputs\", did you mean bulk.goodput",
        ),
        (
            "[[published]]\nvalues = []\n[[published]]\nratio = \"bulk.goodput[trunk=a]\"\nunit = \"s\"\nvalues = [{ at = { flows = 1 }, value = 1 }]",
            "bad.toml:83:1: published[0]: has neither metric nor ratio, or both; allowed: one of metric and ratio\n\
             bad.toml:86:1: published[1].ratio: trunk is never \"a\"; allowed: with, without (at character 20 of the condition)\n\
             bad.toml:87:1: published[1].unit: is of a ratio; allowed: no unit\n\
             bad.toml:88:1: published[1].values: names points; allowed: a value without `at`: a ratio selects its own points",
        ),
        (
            "[[published]]\nmetric = \"bulk.goodput\"\nunit = \"furlong\"\nwithin = 0.5\nvalues = [{ at = { flows = 2 }, value = nan }, { at = { flow = 1 }, value = 1 }]",
            "bad.toml:85:1: published[0].unit: is \"furlong\"; allowed: s, ms, us, min, bit/s, kbit/s, Mbit/s, Gbit/s, B, kB, MB, GB, %, 1\n\
             bad.toml:86:1: published[0].within: is 0.5; allowed: a factor, 1 or more\n\
             bad.toml:87:20: published[0].values[0].at.flows: is 2; allowed: 1, 10\n\
             bad.toml:87:33: published[0].values[0].value: is nan; allowed: a number\n\
             bad.toml:87:57: published[0].values[1].at.flow: there is no axis \"flow\"; allowed: flows, trunk",
        ),
        ("[[claims]]\ntext = \"x\"\nholds = \"bulk.goodput >\"", "bad.toml:85:1: claims[0].holds: "),
        (
            "[[claims]]\ntext = \"x\"\nholds = \"all(bulk.goodput[flows=3] > 1 kbit/s)\"",
            "bad.toml:85:1: claims[0].holds: ",
        ),
        (
            "[[tables]]\ntitle = \"x\"\ncolumns = \"x\"\nby = [\"y\"]\nmetrics = []",
            "bad.toml:85:1: tables[0].columns: there is no axis \"x\"; allowed: flows, trunk\n\
             bad.toml:86:7: tables[0].by[0]: there is no axis \"y\"; allowed: flows, trunk\n\
             bad.toml:87:1: tables[0].metrics: is []; allowed: at least one metric",
        ),
        (
            "[[figures]]\ntitle = \"x\"\nkind = \"line\"\nmetrics = [{ metric = \"bulk.goodput\" }]",
            "bad.toml:83:1: figures[0].x: is missing; allowed: flows, trunk",
        ),
        (
            "[series]\nevery = \"1 s\"\nof = [\"core.queue.packet\"]",
            "bad.toml:85:7: series.of[0]: nothing here measures \"core.queue.packet\"",
        ),
        (
            "[series]\nevery = \"1 us\"\nof = [\"core.queue.packets\"]",
            "bad.toml:84:1: series.every: is \"1 us\"; ",
        ),
    ] {
        let said = told(&format!("{BASE}{ask}\n"));
        assert!(said.starts_with(expected), "{ask}\n{said}");
    }
}

#[test]
fn what_two_axes_set_is_told_with_both() {
    for (sweep, expected) in [
        (
            "[sweep.rate]\npaths = [\"links.core.rate\"]\nvalues = [\"1 Mbit/s\"]\n\
             [sweep.all]\npaths = [\"links.*.rate\"]\nvalues = [\"2 Mbit/s\"]",
            "bad.toml:86:8: sweep.all: sets links.core.rate, or what it is in, and so does axis rate",
        ),
        (
            "[sweep.max]\npaths = [\"links.core.queue.max\"]\nvalues = [12]\n\
             [sweep.queue.variants]\nred = {}\nlong = { \"links.core.queue\" = { packets = 1000 } }",
            "bad.toml:86:8: sweep.queue: sets links.core.queue.max, or what it is in, and so does axis max",
        ),
        (
            "[sweep.again]\nzip = { \"traffic.bulk.flows\" = [1, 2], \"links.core.delay\" = [\"1 ms\", \"2 ms\"] }",
            "bad.toml:83:8: sweep.again: sets traffic.bulk.flows, or what it is in, and so does axis flows",
        ),
    ] {
        let said = told(&format!("{BASE}{sweep}\n"));
        assert!(said.starts_with(expected) && said.contains("; allowed: what no other axis sets"), "{said}");
    }
    // Others' paths; a variant in place of a part of another; a key of a table that is set before.
    for apart in [
        "[sweep.rate]\npaths = [\"links.core.rate\"]\nvalues = [\"1 Mbit/s\"]\n\
         [sweep.rates]\npaths = [\"links.near.rate\"]\nvalues = [\"2 Mbit/s\"]\n",
        "[sweep.slow.variants]\nno = {}\nyes = { \"links.core.queue.max\" = 12, \"links.core.delay\" = \"1 s\" }\n\
         [sweep.queue.variants]\nred = {}\nlong = { \"links.core.queue\" = { discipline = \"tail-drop\", packets = 1000 } }\n",
        "[sweep.queue]\npaths = [\"links.core.queue\"]\nvalues = [{ discipline = \"red\", min = 5, max = 10 }, { discipline = \"red\", min = 5, max = 15 }]\n\
         [sweep.weight]\npaths = [\"links.core.queue.weight\"]\nvalues = [0.1, 0.2]\n",
    ] {
        assert_eq!(told(&format!("{BASE}{apart}")), "");
    }
}

fn base() -> Document {
    Document::parse("base.toml", BASE).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn a_setting_that_an_axis_would_undo_is_refused() {
    for (path, value, axis) in [
        ("traffic.bulk.flows", "7", "flows; allowed: a path that no axis sets, or sweep.flows.values"),
        ("traffic.bulk.*", "7", ""),
        ("trunks.t.enabled", "false", ""),
    ] {
        let refused = base().set(path, value).err().map(|mistakes| mistakes.to_string()).unwrap_or_default();
        if axis.is_empty() {
            assert!(!refused.contains("is swept"), "not at every value: {refused}");
        } else {
            assert!(
                refused.starts_with(&format!("base.toml: {path} is swept by axis {axis} (--set ")),
                "{refused}"
            );
        }
    }
    let mut document = base();
    document.set("sweep.flows.values", "[7]").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(document.plan().unwrap_or_else(|mistakes| panic!("{mistakes}"))[0].point["flows"], "7");
    // Below what is swept, and of other kinds of axes.
    let more = "[sweep.queue]\npaths = [\"links.far.queue\"]\nvalues = [{ packets = 10 }, { packets = 20 }]\n\
                [sweep.delay]\npaths = [\"links.near.delay\"]\nrange = { from = 1, to = 2, count = 2, unit = \"ms\" }\n";
    let mut document = Document::parse("more.toml", &format!("{BASE}{more}"))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    for (path, value, instead) in [
        ("links.far.queue.packets", "9", "sweep.queue.values"),
        ("links.near.delay", "3 ms", "sweep.delay.range"),
    ] {
        let refused = document.set(path, value).expect_err(path).to_string();
        assert!(refused.contains(&format!("or {instead} (")), "{refused}");
    }
    document.set("links.far.queue", "{ packets = 9 }").expect_err("all of what is swept");
    document.set("links.*.delay", "3 ms").unwrap_or_else(|mistakes| panic!("it sets others: {mistakes}"));
}

#[test]
fn what_is_asked_is_checked_as_it_was_set() {
    let asking = "[[claims]]\ntext = \"x\"\nholds = \"all(voice.goodput[flows=10] > 1 kbit/s)\"\n\
                  [[published]]\nmetric = \"bulk.goodput\"\nunit = \"kbit/s\"\n\
                  values = [{ at = { flows = 10, trunk = \"with\" }, value = 1 }]\n\
                  [[tables]]\ntitle = \"y\"\ncolumns = \"flows\"\nmetrics = [{ metric = \"voice.goodput\" }]\n";
    let text = format!("{BASE}{asking}");
    let said = |sets: &[(&str, &str)]| {
        let mut document = Document::parse("ask.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        for (path, value) in sets {
            document.set(path, value).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        }
        document.plan().err().map(|mistakes| mistakes.to_string()).unwrap_or_default()
    };
    for (path, value, expected) in [
        (
            "claims.0.holds",
            "nonsense(1)",
            "ask.toml:85:1: claims[0].holds: there is no function nonsense; allowed: ",
        ),
        (
            "claims.0.holds",
            "all(voice.goodputs > 1 kbit/s)",
            "ask.toml:85:1: claims[0].holds: nothing here measures ",
        ),
        (
            "claims.0.holds",
            "all(bulk.goodput[flows=3] > 1 kbit/s)",
            "ask.toml:85:1: claims[0].holds: flows is never \"3\"",
        ),
        ("published.0.unit", "furlong", "ask.toml:88:1: published[0].unit: is \"furlong\"; "),
        (
            "tables.0.metrics.0.metric",
            "voice.goodputs",
            "ask.toml:93:14: tables[0].metrics[0].metric: nothing here ",
        ),
    ] {
        let said = said(&[("runs", "2"), (path, value)]);
        assert!(said.starts_with(expected), "{said}");
        assert!(said.ends_with(&format!("(--set runs=2, --set {path}={value})")), "{said}");
    }
    for sets in [
        &[("seed", "7")][..],
        &[("sweep.flows.values", "[1]")],
        &[("sweep.flows.values", "[3]"), ("claims.0.holds", "all(voice.goodput[flows=3] > 1 kbit/s)")],
        &[("sweep", "{}")],
        &[("traffic.voice.enabled", "false")],
    ] {
        assert_eq!(said(sets), "", "{sets:?}");
    }
    let mut wrong = Document::parse("ask.toml", &text.replace("voice.goodput[", "voice.goodputs["))
        .unwrap_or_else(|e| panic!("{e}"));
    wrong.set("runs", "2").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let own = wrong.plan().expect_err("the file's own mistake").to_string();
    assert!(!own.contains("--set"), "{own}");
    wrong
        .set("claims.0.holds", "any(voice.goodput > 1 kbit/s)")
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert!(wrong.plan().is_ok(), "mended by a setting");
}
