//! The commands of the documents do what the documents say: these tests run them and compare their output.
//!
//! The output of the simulator must be equal. On real kernels the tests compare the form: commands succeed, packets come
//! back, and the log has the lines that the page shows, with other numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::sources::{files, sources};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use trunkline_testbed::privilege;

const BINARY: &str = env!("CARGO_BIN_EXE_trunkline");

/// A file of the repository.
fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The text under a heading, up to the next heading of its level.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let level = heading.split_once(' ').expect("a heading").0;
    let (_, after) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading}"));
    after.split_once(&format!("\n{level} ")).map_or(after, |(section, _)| section)
}

/// A fenced block.
struct Block<'p> {
    language: &'p str,
    text: &'p str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let fenced = page.split("\n```").skip(1).step_by(2);
    fenced
        .map(|fenced| {
            let (language, text) = fenced.split_once('\n').unwrap_or((fenced, ""));
            Block { language, text }
        })
        .collect()
}

/// A directory that is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trunkline-docs-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Temporary(path)
    }

    /// Runs a command that finds the program on its path.
    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let here = Path::new(BINARY).parent().expect("its directory").display();
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new(program)
            .args(arguments)
            .current_dir(&self.0)
            .env("PATH", format!("{here}:{path}"))
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    fn sh(&self, script: &str) -> String {
        let output = self.run("sh", &["-euc", script]);
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
#[cfg_attr(not(feature = "laboratory"), ignore = "needs the laboratory")]
fn the_laboratorys_page_shows_the_programs_output() {
    let temporary = Temporary::new("laboratory");
    let page = page("docs/laboratory.md");
    let (mut file, mut compared) = (String::new(), 0);
    for Block { language, text } in blocks(&page) {
        match language {
            // What the reader adds to the file, step by step.
            "toml" => {
                file += &[text, "\n"].concat();
                fs::write(temporary.0.join("mine.toml"), &file).expect("the file");
            }
            "console" => {
                let (command, expected) = text.split_once('\n').expect("a command and what it prints");
                let command = command.strip_prefix("$ ").expect("a command");
                let printed = temporary.sh(command);
                assert_eq!(printed.trim_end(), expected.trim_end(), "{command}");
                compared += 1;
            }
            _ => {}
        }
    }
    assert_eq!(compared, 5, "every command of the page with what it prints");
}

/// A line with each number as one `#`, since numbers differ between runs.
fn form(line: &str) -> String {
    let mut form = String::new();
    for character in line.chars() {
        match character {
            '0'..='9' if form.ends_with('#') => {}
            '0'..='9' => form.push('#'),
            other => form.push(other),
        }
    }
    form
}

/// Whether a program is there.
fn has(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|o| o.status.success())
}

/// Runs the commands of a section of the tutorial, at least so many blocks, in namespaces of their own. What they say, and where they ran;
/// `None`, with a message, if the machine lacks something.
fn run_section(
    test: &str,
    heading: &str,
    tools: &[&str],
    blocks_at_least: usize,
) -> Option<(String, Temporary)> {
    if !privilege::available(test) {
        return None;
    }
    if let Some(lacks) = tools.iter().find(|tool| !has(tool)) {
        println!("SKIPPED {test}: lacks {lacks}");
        return None;
    }
    let tutorial = page("docs/tutorial.md");
    let mut script = "set -eu\nmount -t tmpfs tmpfs /run\n".to_owned();
    let mut blocks_run = 0;
    for Block { language, text } in blocks(section(&tutorial, heading)) {
        // The reader becomes root; the namespace's user is.
        if language != "sh" || text.contains("sudo") || text.contains("iperf3") && !has("iperf3") {
            continue;
        }
        script += &[text, "\n"].concat();
        blocks_run += 1;
    }
    assert!(blocks_run >= blocks_at_least, "{blocks_run} blocks found");
    let temporary = Temporary::new(test);
    fs::write(temporary.0.join("script"), script).expect("the script");
    // Processes that a step leaves in the background end with the namespace of processes.
    let namespaces = ["-Urnm", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "script"];
    let output = temporary.run("timeout", &[&["120", "unshare"][..], &namespaces].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.starts_with("unshare:") {
        println!("SKIPPED {test}: {complaint}");
        return None;
    }
    let log = |name| fs::read_to_string(temporary.0.join(name)).unwrap_or_default();
    assert!(output.status.success(), "{complaint}\n{said}\n{}{}", log("a.log"), log("proxy.log"));
    Some((said, temporary))
}

#[test]
fn the_tutorials_proxy_does_what_it_says() {
    const TEST: &str = "the_tutorials_proxy_does_what_it_says";
    let tools = ["ip", "tc", "ss", "curl", "python3", "sysctl", "unshare", "mount"];
    let Some((said, temporary)) = run_section(TEST, "## A proxy on one machine", &tools, 5) else { return };
    let tutorial = page("docs/tutorial.md");
    let shown = blocks(section(&tutorial, "## A proxy on one machine"));
    let shown = shown.iter().find(|block| block.language == "console").expect("what the check prints");
    let (_, shown) = shown.text.split_once('\n').expect("the command, and what it prints");
    assert!(said.contains(shown.trim_end()), "{said}");
    assert!(said.contains("connections: 0 open, 0 being opened, 1 opened"), "{said}");
    assert!(said.contains("the copy is whole") && said.contains("it passes"), "{said}");
    // How much shorter the round trip is depends on the machine; that it is, and that the emulated link holds something, does not.
    let times: Vec<f64> =
        said.lines().filter_map(|line| line.trim().strip_prefix("rtt:")?.parse().ok()).collect();
    assert!(times.len() == 2 && (20.0..0.6 * times[0]).contains(&times[1]), "{times:?}");
    let log = fs::read_to_string(temporary.0.join("proxy.log")).expect("the proxy's log");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "a reader need not worry: {log}");
}

#[test]
fn the_tutorial_on_one_machine_does_what_it_says() {
    const TEST: &str = "the_tutorial_on_one_machine_does_what_it_says";
    let tools = ["ip", "ping", "sysctl", "unshare", "mount"];
    let Some((said, temporary)) = run_section(TEST, "## On one machine", &tools, 7) else { return };
    let tutorial = page("docs/tutorial.md");
    let log = fs::read_to_string(temporary.0.join("a.log")).unwrap_or_default();
    assert!(said.contains("no route, as it should be"), "{said}");
    assert!(said.contains("3 packets transmitted, 3 received"), "{said}");
    assert!(said.contains("b goes down") && said.contains("a goes down"), "{said}");
    // What the page shows of the log on two machines is what it is on one.
    let shown = section(&tutorial, "## On two machines");
    let shown =
        blocks(shown).into_iter().find(|block| block.text.contains("INFO lane")).expect("the log's lines");
    let logged: BTreeSet<String> =
        log.lines().filter_map(|line| line.split_once(" INFO ")).map(|(_, text)| form(text)).collect();
    for line in shown.text.lines().filter_map(|line| line.strip_prefix("INFO ")) {
        assert!(logged.contains(&form(line)), "{line}: {log}");
    }
}

#[test]
fn the_files_of_two_sites_are_right_in_the_readme_and_the_tutorial() {
    let (readme, tutorial) = (page("README.md"), page("docs/tutorial.md"));
    // The README shows the file of one site.
    let sections = [
        (section(&readme, "## Two sites by two commands"), 1),
        (section(&tutorial, "## On two machines"), 2),
    ];
    for (section, number) in sections {
        let temporary = Temporary::new(&format!("sites-{number}"));
        let keys: Vec<String> = ["b", "a"]
            .iter()
            .map(|site| {
                let command =
                    format!("umask 077; trunkline genkey > {site}.key; trunkline pubkey < {site}.key");
                temporary.sh(&command).trim().to_owned()
            })
            .collect();
        assert!(keys.iter().all(|key| key.len() == 44), "{keys:?}");
        let files: Vec<&str> = blocks(section)
            .into_iter()
            .filter(|block| block.language == "toml")
            .map(|block| block.text)
            .collect();
        assert_eq!(files.len(), number);
        for ((site, key), text) in ["a", "b"].iter().zip(&keys).zip(files) {
            let peer = text.lines().find(|line| line.starts_with("public_key = ")).expect("the peer's key");
            let text = text.replace(peer, &format!("public_key = {key:?}"));
            let file = format!("{site}.toml");
            fs::write(temporary.0.join(&file), text).expect("the file");
            let output = temporary.run("trunkline", &["check", &file]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{file}: {said}");
        }
    }
}

#[test]
fn the_readmes_two_commands_do_what_it_says() {
    let readme = page("README.md");
    let temporary = Temporary::new("commands");
    let line = |start: &str| {
        let line = readme.lines().find(|line| line.starts_with(start)).expect("the command");
        line.split('#').next().unwrap_or_default().trim().to_owned()
    };
    let command = format!("{} --directory none --dry-run 2>&1", line("trunkline init "));
    let shown = temporary.sh(&command);
    assert!(shown.contains("a.example.net:4600") && shown.contains("make a private key"), "{shown}");
    assert!(fs::read_dir(&temporary.0).expect("it is there").next().is_none(), "--dry-run does nothing");
    // Its invitation is none, and that is all that is wrong with it.
    let output =
        temporary.run("sh", &["-c", &format!("{} --directory none --yes", line("trunkline join tl1_"))]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("the invitation is damaged"), "{said}");
}

#[test]
fn the_units_user_is_given_the_key_by_every_page_that_makes_one_for_it() {
    let unit = page("dist/trunkline@.service");
    let of = |key: &str| {
        let value = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key}"));
        value.to_owned()
    };
    let (user, group) = (of("User="), of("Group="));
    let tutorial = page("docs/tutorial.md");
    for command in [
        format!("chown {user}:{group} /etc/trunkline/a.key"),
        "chmod 0400 /etc/trunkline/a.key".to_owned(),
        format!("chown root:{group} /etc/trunkline/a.toml"),
        "chmod 0640 /etc/trunkline/a.toml".to_owned(),
    ] {
        assert!(tutorial.contains(&format!("sudo {command}\n")), "docs/tutorial.md: {command}");
    }
    let dist = page("dist/README.md");
    let key = format!("install -o {user} -g {group} -m 0400 /dev/stdin /etc/trunkline/a.key");
    assert!(dist.contains(&key), "dist/README.md: {key}");
}

/// All pages of the repository, by path from its root.
fn pages() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    files(&root, "md", &mut found);
    let page = |path: PathBuf| {
        let name = path.strip_prefix(&root).expect("it is below the root").to_owned();
        (name, fs::read_to_string(path).expect("a page"))
    };
    found.into_iter().map(page).collect()
}

/// The name that a heading's text has in links.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let pages = pages();
    let (mut links, mut anchors) = (Vec::new(), BTreeSet::new());
    for (path, text) in &pages {
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    anchors.extend(heading.take().map(|text| (path.clone(), anchor(&text))));
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push((path, dest_url.into_string()));
                }
                _ => {}
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_broken = |(page, link): &&(&PathBuf, String)| {
        let (file, place) = link.split_once('#').unwrap_or((link, ""));
        let mut target = page.parent().unwrap_or(Path::new("")).to_owned();
        for part in file.split('/').filter(|part| !part.is_empty()) {
            if part == ".." {
                target.pop();
            } else {
                target.push(part);
            }
        }
        let target = if file.is_empty() { (*page).clone() } else { target };
        let has_place = place.is_empty() || anchors.contains(&(target.clone(), place.to_owned()));
        !root.join(&target).exists() || !has_place && pages.contains_key(&target)
    };
    let own = links.iter().filter(|(_, link)| !link.contains("://"));
    let broken: Vec<_> = own.clone().filter(is_broken).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(own.count() > 300 && anchors.len() > 300, "{} anchors", anchors.len());
}

#[test]
fn the_readme_is_short() {
    assert!(page("README.md").len() <= 6_000, "{} bytes", page("README.md").len());
}

#[test]
fn every_message_on_the_page_for_troubles_is_one_that_the_program_has() {
    let mut files = Vec::new();
    for krate in ["gateway", "trunkline", "trunk", "proxy"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src"), &mut files);
    }
    let code: Vec<String> =
        files.iter().map(|file| fs::read_to_string(file).expect("a source file")).collect();
    let page = page("docs/troubleshooting.md");
    let mut messages = 0;
    for row in page.lines().filter_map(|line| line.strip_prefix("| ")) {
        let shown = row.split(" | ").next().unwrap_or_default();
        // A key or a command has no space.
        for message in shown.split('`').skip(1).step_by(2).filter(|text| text.contains(' ')) {
            messages += 1;
            for part in message.split('…').map(str::trim).filter(|part| !part.is_empty()) {
                assert!(code.iter().any(|text| text.contains(part)), "nobody says {part:?}: {message}");
            }
        }
    }
    assert!(messages > 12, "{messages} messages");
}

#[test]
fn every_attack_on_the_security_page_names_tests_that_exist() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    let code: Vec<String> =
        files.iter().map(|file| fs::read_to_string(file).expect("a source file")).collect();
    let page = page("docs/security.md");
    let rows: Vec<&str> =
        section(&page, "## What was tried").lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!(rows.len() >= 10, "{} rows", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{row}");
        let names: Vec<&str> = cells[3].split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "nothing holds: {row}");
        for name in names {
            let function = format!("fn {name}(");
            assert!(code.iter().any(|text| text.contains(&function)), "there is no test {name}");
        }
    }
}
