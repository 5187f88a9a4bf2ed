//! Links that an experiment takes from recordings.

use std::fs;
use std::path::PathBuf;

use trunkline_lab::document::Document;

const FILE: &str = r#"
id = "recorded"
title = "A recorded link"
duration = "10 s"
[nodes]
a = "host"
b = "host"
[links.wan]
ends = ["a", "b"]
deliveries = { brownian = { top = "2 Mbit/s", length = "10 s" } }
[traffic.bulk]
kind = "bulk"
from = "a"
to = "b"
[sweep.link.variants]
near = { "links.wan.deliveries" = { recording = "near" } }
far = { "links.wan.deliveries" = { recording = "far" } }
model = {}
[[figures]]
title = "Goodput over use"
kind = "points"
metrics = [{ metric = "wan.utilisation" }, { metric = "bulk.goodput" }]
"#;

/// A directory that is removed with it, with a file of each name.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("trunkline-recordings-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        for (name, text) in files {
            fs::write(path.join(name), text).expect("a file");
        }
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn document(text: &str) -> Document {
    Document::parse("recorded.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn variants_without_their_recording_are_left_out_and_the_others_have_its_moments() {
    let directory = Directory::new("variants", &[("near", "5\n5\n12\n")]);
    let mut some = document(FILE);
    some.use_recordings(Some(&directory.0)).expect("it can be read");
    let note = some.left_out().expect("one is missing");
    assert!(note.starts_with("recorded: left out link=far: ") && note.ends_with(" has no far"), "{note}");
    let planned = some.plan().unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let links: Vec<_> = planned.iter().map(|planned| &planned.scenario.links[0].ways[0]).collect();
    assert_eq!(links.len(), 2);
    let deliveries = links[0].deliveries.as_ref().expect("moments");
    assert_eq!((deliveries.moments(), links[0].rate.bits_per_second()), (&[5, 5, 12][..], 3_008_000));
    // The file that is kept beside the results finds it again.
    let kept = document(&some.to_toml().expect("a file"));
    assert_eq!(kept.plan().expect("the same").len(), 2);
    let mut none = document(FILE);
    none.use_recordings(None).expect("nothing is read");
    let note = none.left_out().expect("two are missing");
    assert!(note.contains("link=near, link=far") && note.contains("--recordings"), "{note}");
    assert_eq!(none.plan().expect("the model is left").len(), 1);
}

#[test]
fn a_recording_that_is_not_there_or_is_none_is_told() {
    let directory =
        Directory::new("told", &[("none", "5\nsix\n"), ("table", "time_s,rate_mbps\n0,1\n1,2\n")]);
    let plain = FILE.split("[sweep").next().expect("a file");
    let with = |name: &str| {
        let of = format!("{{ recording = {name:?} }}");
        plain.replace("{ brownian = { top = \"2 Mbit/s\", length = \"10 s\" } }", &of)
    };
    let told = |name: &str| {
        let mut document = document(&with(name));
        document.use_recordings(Some(&directory.0)).expect("the directory is looked at later");
        document.plan().expect_err("it is wrong").to_string()
    };
    for (name, words) in [
        ("absent", "links.wan.deliveries.recording: there is no recording \"absent\"; allowed: --recordings"),
        ("none", "line 2: \"six\" is no time"),
        ("table", "is no trace of mahimahi; allowed: times in milliseconds"),
    ] {
        let told = told(name);
        assert!(told.contains(words), "{name}: {told}");
    }
}

#[test]
fn a_figure_of_points_has_two_metrics_and_no_axis() {
    for (wrong, told) in [
        (", { metric = \"bulk.goodput\" }]", "allowed: two metrics: that across, then that up"),
        (
            "kind = \"points\"",
            "is an axis of the sweep, which series, histograms and points do not run along",
        ),
    ] {
        let by = if wrong.starts_with(',') { "]" } else { "kind = \"points\"\nx = \"link\"" };
        let mut document = document(&FILE.replace(wrong, by));
        document.use_recordings(None).expect("nothing is read");
        let said = document.plan().expect_err("it is wrong").to_string();
        assert!(said.contains(told), "{said}");
    }
}
