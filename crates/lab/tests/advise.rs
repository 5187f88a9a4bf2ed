//! Advice on networks whose right answer is known.

use std::sync::atomic::AtomicBool;

use trunkline_lab::advise::{Advice, AdviseError, Aim, Options, advise};
use trunkline_lab::document::Document;

fn network(core: &str, traffic: &str, trunk: &str) -> Document {
    let text = format!(
        r#"
        id = "network"
        title = "A network"
        duration = "20 s"
        warm_up = "3 s"
        [nodes]
        a = "host"
        left = "gateway"
        right = "gateway"
        b = "host"
        [links.near]
        ends = ["a", "left"]
        rate = "100 Mbit/s"
        [links.core]
        ends = ["left", "right"]
        {core}
        [links.far]
        ends = ["right", "b"]
        like = "near"
        {traffic}
        [trunks.site]
        gateways = ["left", "right"]
        {trunk}
        "#
    );
    Document::parse("network.toml", &text).expect("a sound file")
}

fn advice(document: &Document) -> Advice {
    let options = Options { jobs: 2, ..Options::default() };
    let mut last = 0;
    let advice = advise(document, &options, &AtomicBool::new(false), |progress| {
        assert!(progress.done >= last && progress.done < progress.total, "{progress:?}");
        last = progress.done;
    });
    advice.expect("advice")
}

fn choice<'a>(advice: &'a Advice, setting: &str) -> &'a str {
    let finding = advice.findings.iter().find(|finding| finding.setting == setting);
    finding.map_or("nothing was tried", |finding| &finding.choice)
}

const CORE: &str = r#"rate = "3 Mbit/s"
        delay = "10 ms"
        queue = { discipline = "tail-drop", packets = 60 }"#;

#[test]
fn a_flood_beside_transfers_gets_a_lane_of_its_own() {
    let traffic = r#"
        [traffic.files]
        kind = "bulk"
        from = "a"
        to = "b"
        flows = 4
        [traffic.flood]
        kind = "udp"
        from = "a"
        to = "b"
        rate = "5 Mbit/s"
        "#;
    // The default classes have one for datagrams already.
    let advice = advice(&network(CORE, traffic, "classes = \"single\""));
    assert!(advice.trunk, "{}", advice.to_text());
    assert!(advice.aims.iter().any(|one| one.group == "flood" && one.aim == Aim::Arrival));
    let classes = choice(&advice, "classes and their lanes");
    assert!(
        classes.contains("datagrams") || classes.contains("two classes"),
        "{classes}\n{}",
        advice.to_text()
    );
    let files = advice.evidence.iter().find(|one| one.metric == "files.goodput").expect("files");
    assert!(files.certain && files.with.mean > 3.0 * files.without.mean, "{files:?}");
    assert!(advice.experiment_toml.contains("[[trunks.site.classes.match]]"), "{}", advice.experiment_toml);
    assert!(advice.gateway_toml.contains("protocol = \"udp\""), "{}", advice.gateway_toml);
    let text = advice.to_text();
    assert!(
        text.contains("Choose: the trunk") && text.contains("files.goodput") && text.contains(" ± "),
        "{text}"
    );
    // What is to be pasted can be.
    let pasted =
        network(CORE, traffic, "").to_toml().expect("TOML").split("[trunks.site]").next().map(str::to_owned);
    let pasted = pasted.expect("a file with a trunk") + &advice.experiment_toml;
    assert!(Document::parse("pasted.toml", &pasted).and_then(|document| document.plan()).is_ok(), "{pasted}");
}

#[test]
fn a_call_alone_on_a_long_path_that_loses_is_not_put_into_a_trunk() {
    let core = r#"rate = "4 Mbit/s"
        delay = "300 ms"
        loss = "0.2 %"
        queue = { discipline = "tail-drop", packets = 100 }"#;
    let traffic = r#"
        [traffic.call]
        kind = "udp"
        from = "a"
        to = "b"
        rate = "200 kbit/s"
        packet = "200 B"
        "#;
    let advice = advice(&network(core, traffic, ""));
    // One packet in five hundred is worth less than what waits behind its repair, and datagrams under TCP's control wait for a window.
    assert!(!advice.trunk, "{}", advice.to_text());
    let carriers = advice.findings.iter().find(|finding| finding.setting == "what carries the lanes");
    assert_eq!(carriers.map(|finding| finding.tried.len()), Some(2));
}

#[test]
fn a_path_that_nobody_fills_needs_no_trunk() {
    let core = "rate = \"100 Mbit/s\"\ndelay = \"10 ms\"";
    let traffic = r#"
        [traffic.calls]
        kind = "udp"
        from = "a"
        to = "b"
        rate = "200 kbit/s"
        packet = "200 B"
        "#;
    let advice = advice(&network(core, traffic, ""));
    assert!(!advice.trunk, "{}", advice.to_text());
    assert!(advice.experiment_toml.is_empty() && advice.to_text().contains("Choose no trunk"));
}

#[test]
fn there_is_no_advice_without_a_trunk_to_vary_or_when_told_to_stop() {
    let traffic = r#"
        [traffic.files]
        kind = "bulk"
        from = "a"
        to = "b"
        "#;
    let whole = network(CORE, traffic, "");
    let text = whole.to_toml().expect("TOML");
    let text = text.split("[trunks.site]").next().expect("a file");
    let document = Document::parse("network.toml", text).expect("a sound file");
    let none = advise(&document, &Options::default(), &AtomicBool::new(false), |_| {});
    assert!(matches!(none, Err(AdviseError::NoTrunk)), "{none:?}");
    let stopped = advise(&whole, &Options::default(), &AtomicBool::new(true), |_| {});
    assert!(matches!(stopped, Err(AdviseError::Run { .. })), "{stopped:?}");
}

#[test]
fn files_that_end_are_judged_by_when_they_are_done() {
    let traffic = r#"
        [traffic.files]
        kind = "bulk"
        from = "a"
        to = "b"
        flows = 4
        bytes = "300 KB"
        [traffic.flood]
        kind = "udp"
        from = "a"
        to = "b"
        rate = "2.9 Mbit/s"
        "#;
    let advice = advice(&network(CORE, traffic, ""));
    assert!(
        advice.aims.iter().any(|one| one.group == "files" && one.aim == Aim::Completion),
        "{:?}",
        advice.aims
    );
    let delay = advice.evidence.iter().find(|one| one.metric == "files.delay.mean");
    // Goodput is the same whatever is chosen, as long as all arrive in the end: what it says would be nothing.
    if advice.trunk {
        let delay = delay.expect("some are done");
        assert!(!delay.certain || delay.better, "{}", advice.to_text());
    }
    assert!(!advice.evidence.iter().any(|one| one.metric == "files.goodput"));
}

#[test]
fn a_group_is_judged_by_what_most_of_its_users_are() {
    let traffic = r#"
        [traffic.beacon]
        kind = "udp"
        group = "site"
        from = "a"
        to = "b"
        rate = "10 kbit/s"
        [traffic.one]
        kind = "bulk"
        group = "site"
        from = "a"
        to = "b"
        bytes = "10 KB"
        [traffic.files]
        kind = "bulk"
        group = "site"
        from = "a"
        to = "b"
        flows = 3
        "#;
    let aims = advice(&network(CORE, traffic, "")).aims;
    assert_eq!(aims.iter().map(|one| (&*one.group, one.aim)).collect::<Vec<_>>(), [("site", Aim::Goodput)]);
}
