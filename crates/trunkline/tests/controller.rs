//! `trunkline controller`: a store that is killed, shared and full.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use trunkline_units::Rng;

use crate::common::site::{Directory, PROGRAM};

/// A directory with a store, which is removed at the end.
struct Place(Directory);

impl Place {
    fn new() -> Self {
        Place(Directory::new())
    }

    /// Writes a network of so many trunks, whose rate tells it from others.
    fn network(&self, name: &str, trunks: u32, rate: u32) {
        let site =
            |name: &str| format!("[sites.{name}.uplinks.line]\nup = \"1 Gbit/s\"\ndown = \"1 Gbit/s\"\n");
        let trunk = |number: u32| {
            format!("[trunks.t{number}]\nsites = [\"a\", \"b\"]\nguarantee = \"{rate} kbit/s\"\n")
        };
        let text: String = [site("a"), site("b")].into_iter().chain((0..trunks).map(trunk)).collect();
        fs::write(self.0.0.join(name), text).expect("a file");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.current_dir(&self.0.0).arg("controller").args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    fn apply(&self, file: &str, from: u64) -> Output {
        self.run(&["apply", file, "--store", "n.db", "--from", &from.to_string()])
    }

    /// The revisions by their numbers, and by whom.
    fn log(&self) -> Vec<(u64, String)> {
        let output = self.run(&["log", "n.db", "--json"]);
        assert!(output.status.success(), "{}", said(&output));
        let entry = |line: &str| {
            let entry: serde_json::Value = serde_json::from_str(line).expect("json");
            (entry["revision"].as_u64().expect("a number"), entry["by"].as_str().expect("a name").to_owned())
        };
        String::from_utf8_lossy(&output.stdout).lines().map(entry).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_network_is_applied_exported_and_listed() {
    let place = Place::new();
    place.network("n.toml", 2, 100);
    let output = place.apply("n.toml", 0);
    assert!(output.status.success(), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("revision 1\n2 trunks carried, 0 refused\n"));
    let output = place.run(&["export", "n.db"]);
    assert_eq!(output.stdout, fs::read(place.0.0.join("n.toml")).expect("the file"));
    place.network("more.toml", 3, 100);
    let output = place.run(&["plan", "more.toml", "--store", "n.db"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("from revision 1, by ") && text.contains("\n  trunks.t2: new\n"), "{text}");
    let arguments =
        ["apply", "more.toml", "--store", "n.db", "--from", "1", "--by", "anna", "--note", "for boston"];
    assert!(place.run(&arguments).status.success());
    let output = place.run(&["log", "n.db"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("Z, anna: for boston\n  3 trunks carried, 0 refused\n  trunks.t2: new\n"),
        "{text}"
    );
    // What cannot be applied says why, and with which code.
    place.network("much.toml", 1, 2_000_000);
    for (file, from, code, why) in [
        ("much.toml", 2, 7, "1 trunk is refused; nothing was applied"),
        ("more.toml", 2, 1, "revision 2 says the same"),
        ("n.toml", 1, 1, "revision 2, by anna, is later than 1"),
        ("none.toml", 2, 2, "none.toml"),
        ("n.db", 2, 2, "n.db"),
    ] {
        let output = place.apply(file, from);
        assert_eq!(output.status.code(), Some(code), "{file}: {}", said(&output));
        assert!(said(&output).contains(why), "{file}: {}", said(&output));
    }
    assert_eq!(place.log().len(), 2);
}

/// Twelve processes apply documents that were made from one revision: one of them succeeds, and the others are told.
#[test]
fn of_several_at_once_one_applies_and_the_others_are_told() {
    let place = Place::new();
    place.network("first.toml", 1, 1);
    assert!(place.apply("first.toml", 0).status.success());
    for round in 1..=3 {
        let apply = |number: u32| -> Child {
            let file = format!("n{number}.toml");
            place.network(&file, 200, 1000 * round + number);
            let from = round.to_string();
            let by = format!("admin{number}");
            let arguments = ["apply", &file, "--store", "n.db", "--from", &from, "--by", &by];
            place.command(&arguments).spawn().expect("it runs")
        };
        let children: Vec<Child> = (0..12).map(apply).collect();
        let outputs = children.into_iter().map(|child| child.wait_with_output().expect("it ends"));
        let (applied, others): (Vec<Output>, Vec<Output>) =
            outputs.partition(|output| output.status.success());
        assert_eq!(applied.len(), 1, "{}", others.iter().map(said).collect::<String>());
        let told =
            |output: &Output| output.status.code() == Some(1) && said(output).contains("is later than");
        assert!(others.iter().all(told), "{}", others.iter().map(said).collect::<String>());
    }
    assert_eq!(place.log().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

/// A process that is killed at any moment has applied its document or has not: the store can be read, and the next one goes on.
#[test]
fn a_process_that_is_killed_leaves_a_whole_revision_or_none() {
    const KILLS: u32 = 80;
    let place = Place::new();
    let mut rng = Rng::new(1, "kill");
    let (mut latest, mut killed) = (0, 0);
    // How long it may run, µs, so that about as many are killed as are not, however fast the machine is at the moment.
    let mut longest: f64 = 40_000.0;
    for round in 0..KILLS {
        place.network("n.toml", 300, 1 + round);
        let from = latest.to_string();
        let mut child =
            place.command(&["apply", "n.toml", "--store", "n.db", "--from", &from]).spawn().expect("it runs");
        thread::sleep(Duration::from_micros(rng.below(longest as u64)));
        // It may have ended.
        let _ = child.kill();
        let was_killed = child.wait().expect("it ends").code().is_none();
        killed += u32::from(was_killed);
        longest = if was_killed { longest * 1.3 } else { (longest / 1.3).max(1000.0) };
        if !place.0.0.join("n.db").exists() {
            continue;
        }
        let log = place.run(&["log", "n.db", "--json"]);
        // The tables of a new store may not be there yet.
        let there = if log.status.success() { place.log().len() as u64 } else { 0 };
        assert!(there == latest || there == latest + 1, "{there} after {latest}: {}", said(&log));
        latest = there;
    }
    assert!(killed > 5 && latest > 5, "{killed} were killed, {latest} applied");
    place.network("n.toml", 1, 1);
    let output = place.apply("n.toml", latest);
    assert!(output.status.success(), "{}", said(&output));
}

/// No file may grow: as on a full disk, nothing is applied, the error says so, and what was there can be read.
#[test]
fn a_full_disk_leaves_the_store_as_it_was() {
    let place = Place::new();
    place.network("n.toml", 1, 1);
    assert!(place.apply("n.toml", 0).status.success());
    place.network("large.toml", 3000, 1);
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" controller apply large.toml --store n.db --from 1";
    let output =
        Command::new("sh").args(["-c", script, PROGRAM]).current_dir(&place.0.0).output().expect("a shell");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("n.db: "), "{}", said(&output));
    assert_eq!(place.log().len(), 1);
    let output = place.apply("large.toml", 1);
    assert!(output.status.success(), "{}", said(&output));
}
