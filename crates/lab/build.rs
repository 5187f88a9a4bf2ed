//! Says of which commit the program is: the version in every result. Two builds of one version number are two programs, and results of
//! one are not to be mixed with those of another.
//!
//! Outside a checkout, or without git, it is the version number alone. It is asked again when what is checked out changes, or the
//! sources that results come of, and not otherwise.
//!
//! It also embeds the experiments of the papers, so that whatever is installed has them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The crates that results come of: this one and those below it.
const SOURCES: [&str; 17] = [
    "../lab",
    "../engine",
    "../schema",
    "../sim",
    "../testbed",
    "../linux",
    "../service",
    "../status",
    "../netlink",
    "../workload",
    "../link",
    "../trunk",
    "../tcp",
    "../congestion",
    "../queue",
    "../packet",
    "../units",
];

fn main() -> io::Result<()> {
    let number = env!("CARGO_PKG_VERSION");
    println!("cargo::rerun-if-changed=build.rs");
    let version = commit().map_or_else(|| number.to_owned(), |commit| format!("{number}+{commit}"));
    println!("cargo::rustc-env=TRUNKLINE_LAB_VERSION={version}");
    embed()
}

fn embed() -> io::Result<()> {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").canonicalize()?;
    println!("cargo::rerun-if-changed={}", experiments.display());
    let mut files = Vec::new();
    collect(&experiments, &mut files)?;
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&experiments).unwrap_or(&file);
        let name = Path::new("experiments").join(name);
        // Writing to a string cannot fail.
        let _ = writeln!(
            code,
            "    ({:?}, include_str!({:?})),",
            name.display().to_string(),
            file.display().to_string()
        );
    }
    code.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(PathBuf::from(out).join("experiments.rs"), code)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

/// `7382af4`, or `7382af4-dirty` where a source is not as it was committed; none if this is no checkout.
fn commit() -> Option<String> {
    // What is unpacked inside somebody else's repository is not of its commits.
    git(&["ls-files", "--error-unmatch", "src/lib.rs"])?;
    let commit = git(&["rev-parse", "--short=7", "HEAD"])?;
    let files = SOURCES.map(|source| [format!("{source}/src"), format!("{source}/Cargo.toml")]);
    let files: Vec<&str> = files.iter().flatten().map(String::as_str).chain(["build.rs"]).collect();
    let changes = git(&[&["status", "--porcelain", "--"], files.as_slice()].concat())?;
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    let places = ["HEAD", "logs/HEAD", branch.as_str()].into_iter().filter(|name| !name.is_empty());
    let places: Vec<String> = places.filter_map(|name| git(&["rev-parse", "--git-path", name])).collect();
    for place in places.iter().map(String::as_str).chain(files) {
        // What is not there would be asked for again at every build.
        if Path::new(place).exists() {
            println!("cargo::rerun-if-changed={place}");
        }
    }
    Some(if changes.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// What git answers here.
fn git(arguments: &[&str]) -> Option<String> {
    let here = env::var_os("CARGO_MANIFEST_DIR")?;
    let output =
        Command::new("git").arg("--no-optional-locks").args(arguments).current_dir(here).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
