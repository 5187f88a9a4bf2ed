//! The testbed as an engine: small experiments on this kernel, judged by what a busy machine cannot change.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use trunkline_engine::{Engine, EngineError};
use trunkline_lab::document::Document;
use trunkline_lab::plan::Planned;
use trunkline_lab::results::Outcome;
use trunkline_testbed::lateness::judges_time;
use trunkline_testbed::privilege;

const TESTBED: Engine = Engine::TESTBED;

/// Two hosts behind a router each, joined by a link of 10 Mbit/s, and what is added.
fn experiment(more: &str) -> Document {
    parsed(&text(more))
}

fn parsed(text: &str) -> Document {
    Document::parse("kernel.toml", text).expect("it can be read")
}

fn text(more: &str) -> String {
    format!(
        r#"
        id = "kernel"
        title = "on a kernel"
        duration = "3 s"
        [nodes]
        a = "host"
        left = "router"
        right = "router"
        b = "host"
        [links.near]
        ends = ["a", "left"]
        rate = "1 Gbit/s"
        [links.core]
        ends = ["left", "right"]
        rate = "10 Mbit/s"
        delay = "10 ms"
        queue = {{ discipline = "tail-drop", packets = 40 }}
        [links.far]
        ends = ["right", "b"]
        like = "near"
        {more}
        "#
    )
}

fn run(document: &Document, engine: &Engine) -> Result<Outcome, EngineError> {
    let points = document.plan().expect("it makes sense");
    trunkline_engine::run(engine, &points[0].scenario, 1, &AtomicBool::new(false))
}

fn metric(outcome: &Outcome, name: &str) -> f64 {
    *outcome.metrics.get(name).unwrap_or_else(|| panic!("{name} has a value: {:?}", outcome.metrics))
}

fn count(outcome: &Outcome, name: &str) -> u64 {
    metric(outcome, name) as u64
}

/// The least part of a link that flows fill. Hosts that wait for a processor fill less.
fn filled() -> f64 {
    if judges_time() { 0.8 } else { 0.2 }
}

const BULK: &str = r#"
    [traffic.bulk]
    kind = "bulk"
    from = "a"
    to = "b"
    flows = 3
    tcp = "linux-6-reno"
"#;

#[test]
fn bulk_flows_fill_the_link_and_nothing_is_invented() {
    if !privilege::available("bulk_flows_fill_the_link_and_nothing_is_invented") {
        return;
    }
    let outcome = run(&experiment(BULK), &TESTBED).expect("an outcome");
    let most = 10e6 * 1448.0 / 1500.0;
    let goodput = metric(&outcome, "bulk.goodput");
    assert!(goodput > filled() * most && goodput <= most, "{goodput}");
    assert!(metric(&outcome, "core.delivered") <= 10e6 * 1.01);
    assert!(goodput <= metric(&outcome, "core.delivered"));
    assert_eq!(count(&outcome, "bulk.transfers.total"), 3);
    // Data goes one way, acknowledgements the other.
    assert!(metric(&outcome, "core.delivered.packets") > metric(&outcome, "core.back.delivered.packets"));
    assert!(metric(&outcome, "bulk.rtt.min") >= 0.02);
    assert!(metric(&outcome, "run.late.max") >= 0.0);
    assert_eq!(outcome.substitutions, Vec::<String>::new());
    assert_eq!(outcome.digest, "");
}

/// A path of 1400 bytes behind links of 1500: the kernel's TCP and the simulator's find it out, send as much and retransmit alike.
#[test]
fn a_kernel_and_the_simulator_agree_over_ipv6() {
    if !privilege::available("a_kernel_and_the_simulator_agree_over_ipv6") {
        return;
    }
    let more = r#"
        [traffic.bulk]
        kind = "bulk"
        from = "a"
        to = "b"
        flows = 2
        [traffic.calls]
        kind = "udp"
        from = "b"
        to = "a"
        rate = "100 kbit/s"
        packet = "248 B"
    "#;
    let file = text(more).replacen("duration", "family = \"ipv6\"\nduration", 1).replacen(
        "delay = \"10 ms\"",
        "delay = \"10 ms\"\nmtu = \"1400 B\"",
        1,
    );
    let document = parsed(&file);
    let [ours, kernel] = [Engine::Sim, TESTBED].map(|engine| run(&document, &engine).expect("an outcome"));
    let both = |name: &str| [metric(&ours, name), metric(&kernel, name)];
    let most = 10e6 * 1328.0 / 1400.0;
    let [goodput, of_kernel] = both("bulk.goodput");
    println!("goodput {goodput}, kernel {of_kernel}, {:?}", both("bulk.retransmitted.packets"));
    assert!(goodput <= most && of_kernel <= most, "{goodput} {of_kernel}");
    assert!(of_kernel / goodput > if judges_time() { 0.9 } else { filled() }, "{goodput} {of_kernel}");
    assert!(both("core.fragmented").iter().all(|count| *count < 1.0));
    // Two initial windows of ten, each as two.
    assert!(both("bulk.retransmitted.packets").iter().all(|count| *count >= 40.0));
    let [sent, of_kernel] = both("calls.sent.packets");
    assert!(of_kernel <= sent + 1.0, "100 kbit/s of 248 bytes: {sent} {of_kernel}");
    if judges_time() {
        assert!(of_kernel >= sent - 1.0, "100 kbit/s of 248 bytes: {sent} {of_kernel}");
        assert!(both("calls.lost.ratio").iter().all(|lost| *lost < 0.02), "those under way at the end");
    }
}

#[test]
fn a_queue_of_the_kernel_stands_in_front_of_a_link_and_has_no_counts_but_its_own() {
    let name = "a_queue_of_the_kernel_stands_in_front_of_a_link_and_has_no_counts_but_its_own";
    let ours = r#"{ discipline = "tail-drop", packets = 40 }"#;
    let document = parsed(&text(BULK).replace(ours, r#"{ kernel = "pfifo limit 40" }"#));
    let refused = run(&document, &Engine::Sim).expect_err("it needs a kernel").to_string();
    assert!(
        refused.starts_with(r#"links.core.queue.kernel is "pfifo limit 40"; allowed on this engine"#),
        "{refused}"
    );
    if !privilege::available(name) {
        return;
    }
    let outcome = match run(&document, &TESTBED) {
        Err(error @ EngineError::Misfit { .. }) => {
            println!("SKIPPED {name}: {error}");
            return;
        }
        outcome => outcome.expect("an outcome"),
    };
    let most = 10e6 * 1448.0 / 1500.0;
    let goodput = metric(&outcome, "bulk.goodput");
    // The bucket lets a burst of two packets through at the start.
    assert!(goodput > filled() * most && goodput <= most * 1.01, "{goodput}");
    assert!(metric(&outcome, "core.drops") > 0.0);
    assert!((1.0..=40.0).contains(&metric(&outcome, "core.queue.packets.mean")));
    for unknown in ["core.sojourn.mean", "core.marks", "core.queue.bytes.mean", "core.drops.segment_limit"] {
        assert!(!outcome.metrics.contains_key(unknown), "{unknown}");
    }
}

#[test]
fn datagrams_are_counted_one_by_one() {
    if !privilege::available("datagrams_are_counted_one_by_one") {
        return;
    }
    let document = experiment(
        r#"
        [traffic.flood]
        kind = "udp"
        from = "a"
        to = "b"
        rate = "20 Mbit/s"
        "#,
    );
    let outcome = run(&document, &TESTBED).expect("an outcome");
    let (sent, received) =
        (metric(&outcome, "flood.sent.packets"), metric(&outcome, "flood.received.packets"));
    let drops = metric(&outcome, "core.drops");
    // What was sent has arrived, was dropped, or waits or travels: 40 packets and 10 ms of 10 Mbit/s, and what the hosts hold.
    assert!(
        sent > 1000.0 && received > 0.0 && drops > 0.0,
        "{sent} sent, {received} received, {drops} dropped"
    );
    assert!((sent - received - drops).abs() <= 120.0, "{sent} sent, {received} received, {drops} dropped");
    assert!(metric(&outcome, "flood.delay.min") >= 0.01);
}

#[test]
fn every_pattern_of_traffic_runs_beside_the_others() {
    if !privilege::available("every_pattern_of_traffic_runs_beside_the_others") {
        return;
    }
    let document = experiment(
        r#"
        [traffic.files]
        kind = "bulk"
        from = "a"
        to = "b"
        flows = 2
        bytes = "50 kB"
        tcp = "linux-6"
        [traffic.pages]
        kind = "web"
        from = "b"
        to = "a"
        flows = 20
        response = "5 kB"
        think = "200 ms"
        tcp = "linux-6"
        [traffic.calls]
        kind = "requests"
        from = "a"
        to = "b"
        flows = 20
        request = "100 B"
        response = "1 kB"
        think = "100 ms"
        tcp = "linux-6"
        [traffic.fetches]
        kind = "arrivals"
        from = "b"
        to = "a"
        port = 81
        flows = 20
        request = "100 B"
        response = "2 kB"
        load = "400 kbit/s"
        tcp = "linux-6"
        [traffic.bursts]
        kind = "udp"
        from = "a"
        to = "b"
        rate = "1 Mbit/s"
        timing = "on-off"
        on = "100 ms"
        off = "100 ms"
        "#,
    );
    let outcome = run(&document, &TESTBED).expect("an outcome");
    assert_eq!(count(&outcome, "files.transfers.completed"), 2);
    for (group, bytes) in [("pages", 5_000.0), ("calls", 1_000.0), ("fetches", 2_000.0)] {
        let completed = metric(&outcome, &format!("{group}.transfers.completed"));
        assert!(completed >= 20.0, "{group}: {completed}");
        assert_eq!(count(&outcome, &format!("{group}.transfers.failed")), 0);
        let goodput = metric(&outcome, &format!("{group}.goodput")) * metric(&outcome, "run.time") / 8.0;
        assert!(goodput >= completed * bytes, "{group}: {goodput} bytes in {completed} transfers");
        assert!(metric(&outcome, &format!("{group}.delay.p50")) >= 0.02);
    }
    let slowdown = metric(&outcome, "fetches.slowdown.p50");
    let (slowest, least) = if judges_time() { (3.0, 40.0) } else { (f64::INFINITY, 5.0) };
    assert!((1.0..slowest).contains(&slowdown), "{slowdown}");
    let bursts = metric(&outcome, "bursts.sent.packets");
    assert!((least..250.0).contains(&bursts), "{bursts}");
}

#[test]
fn a_stack_of_the_past_is_approximated_and_named() {
    if !privilege::available("a_stack_of_the_past_is_approximated_and_named") {
        return;
    }
    let outcome = run(&experiment(&BULK.replace("linux-6-reno", "linux-2.2")), &TESTBED).expect("an outcome");
    let named = |what: &str| outcome.substitutions.iter().any(|text| text.contains(what));
    assert!(named("linux-2.2: initial RTO 1s instead of 3s"), "{:?}", outcome.substitutions);
}

#[test]
fn what_a_kernel_cannot_be_is_refused_by_name() {
    let refused = |more: &str| run(&experiment(more), &TESTBED).expect_err("refused").to_string();
    let tahoe = r#"
        [tcp.old]
        preset = "linux-6-reno"
        recovery = "tahoe"
    "#;
    let text = refused(&(BULK.replace("linux-6-reno", "old") + tahoe));
    assert_eq!(text, "traffic.bulk asks for recovery tahoe, which Linux does not have");
    let other = BULK.replace("traffic.bulk", "traffic.other").replace("linux-6-reno", "plain");
    let plain = r#"
        [tcp.plain]
        preset = "linux-6-reno"
        timestamps = false
    "#;
    let text = refused(&[BULK, &other, plain].concat());
    assert!(
        text.starts_with("traffic.other needs tcp_timestamps = 0 at a, where traffic.bulk needs 1"),
        "{text}"
    );
    let trunk = r#"
        [trunks.edge]
        gateways = ["left", "right"]
    "#;
    let gateways = |more: &str| {
        let network = experiment(BULK).to_toml().expect("TOML").replace("\"router\"", "\"gateway\"");
        let text = [&network, trunk, more].concat();
        let document = Document::parse("kernel.toml", &text).expect("it can be read");
        run(&document, &TESTBED).expect_err("refused").to_string()
    };
    assert_eq!(gateways(""), "trunks need gateways, and the program of one was not given");
}

#[test]
fn a_tunnel_of_another_program_is_refused_by_the_simulator_and_where_it_is_not_installed() {
    let tunnel = r#"
        [trunks.edge]
        gateways = ["left", "right"]
        program = "wireguard-go"
    "#;
    let network = experiment(BULK).to_toml().expect("TOML").replace("\"router\"", "\"gateway\"");
    let document = Document::parse("tunnel.toml", &[&network, tunnel].concat()).expect("it can be read");
    let refused = |engine: &Engine| {
        let planned = document.plan().expect("it makes sense");
        trunkline_engine::check(engine, &planned[0].scenario).map_err(|error| error.to_string())
    };
    let why = "trunks.edge.program is \"wireguard-go\"; allowed on this engine: none (other programs need a kernel)";
    assert_eq!(refused(&Engine::Sim), Err(why.to_owned()));
    let adapter = trunkline_testbed::tunnel::Adapter::named("wireguard-go").expect("known");
    match (refused(&TESTBED), adapter.missing().as_slice()) {
        (outcome, []) => assert_eq!(outcome, Ok(())),
        (outcome, missing) => {
            let needs = format!("which needs {}; allowed on this machine", missing.join(" and "));
            assert!(outcome.as_ref().is_err_and(|text| text.contains(&needs)), "{outcome:?}");
        }
    }
}

#[test]
fn the_simulator_refuses_lanes_over_quic_and_ipv6_where_a_full_packet_does_not_pass() {
    let network = experiment(BULK).to_toml().expect("TOML").replace("\"router\"", "\"gateway\"");
    let outcome = |mtu: u32, transport: &str, family: &str| {
        let trunk = format!(
            "[trunks.edge]\ngateways = [\"left\", \"right\"]\nfamily = \"{family}\"\n[[trunks.edge.classes]]\nname = \"all\"\ntransport = \"{transport}\"\n"
        );
        let mut document =
            Document::parse("quic.toml", &[&network, &*trunk].concat()).expect("it can be read");
        document.set("links.core.mtu", &format!("{mtu} B")).expect("a link has an MTU");
        let planned = document.plan().expect("it makes sense");
        trunkline_engine::check(&Engine::Sim, &planned[0].scenario).map_err(|error| error.to_string())
    };
    assert_eq!(
        outcome(1499, "quic", "ipv6").expect_err("refused"),
        "trunks.edge has lanes over QUIC and IPv6, whose packets have 1500 bytes, and links.core takes fewer; allowed on this engine: an mtu of 1500 B or more (or lanes over TCP)"
    );
    for (mtu, transport, family) in [(1500, "quic", "ipv6"), (1499, "tcp", "ipv6"), (1499, "quic", "ipv4")] {
        assert_eq!(outcome(mtu, transport, family), Ok(()), "{mtu} {transport} {family}");
    }
}

#[test]
fn two_trunks_between_the_same_gateways_are_refused_by_name() {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/lee2002/collapse-control.toml"),
    );
    let document = Document::parse("collapse-control.toml", &text.expect("a file")).expect("it can be read");
    let outcome = |planned: &Planned| trunkline_engine::check(&TESTBED, &planned.scenario);
    let outcomes: Vec<_> = document.plan().expect("it makes sense").iter().map(outcome).collect();
    let refused: Vec<_> = outcomes.iter().filter(|outcome| outcome.is_err()).collect();
    let [Err(error)] = refused.as_slice() else { panic!("{outcomes:?}") };
    let why = "trunks.control-trunk joins the same gateways as bulk-trunk; allowed on this engine: one trunk";
    assert!(error.to_string().starts_with(why), "{error}");
}
