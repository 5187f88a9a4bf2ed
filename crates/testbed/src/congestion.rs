//! Congestion controls that this kernel lacks and can be given, as BPF programs (`struct_ops`).
//!
//! There is one, BIC, in its [three versions](../../../docs/models/bic.md#versions). `clang` compiles `bpf/bic.bpf.c` against the
//! types of the running kernel, and `bpftool` loads it. A congestion control is one for all namespaces of a machine and stays in
//! the kernel until it is removed; so each has the id of its process in its name, and goes with the last [`Loaded`] of it. What a
//! killed process left is removed by the next one that loads any.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::gateway::{Directory, GatewayError};
use crate::namespace::{Host, HostError};
use crate::tool::{self, ToolError, find};

const SOURCE: &str = include_str!("../bpf/bic.bpf.c");
/// The types of the running kernel.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// The programs that make and load one.
const NEEDS: [&str; 2] = ["clang", "bpftool"];
/// How long each of them may take.
const LIMIT: Duration = Duration::from_secs(60);
/// What the names of ours begin with; the version's number, `_` and the id of the process follow. A name has at most 15 bytes.
const PREFIX: &str = "tlbic";

/// A congestion control that a kernel can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loadable {
    /// BIC of Linux since 2.6.15.
    Bic,
    /// BIC as its authors published it.
    BicOriginal,
    /// BIC of Linux 2.6.6 to 2.6.10, with its fault.
    Bic266,
}

/// Why one cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A program is missing or failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The namespace in which they run.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A file of theirs.
    #[error(transparent)]
    File(#[from] GatewayError),
    /// The same, written by one of them.
    #[error("cannot write {path}: {source}")]
    Output {
        /// Which.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Loadable {
    /// The name under which this process loads it.
    pub fn name(self) -> String {
        format!("{PREFIX}{}_{}", self as u8, std::process::id())
    }

    /// What this machine lacks for it; nothing if it can be tried.
    pub fn missing() -> Vec<String> {
        let programs = NEEDS.iter().filter(|program| find(program).is_none());
        let mut missing: Vec<String> = programs.map(|program| (*program).to_owned()).collect();
        if !Path::new(TYPES).exists() {
            missing.push(format!("a kernel with {TYPES}"));
        }
        if !is_root() {
            missing.push("root of the machine".to_owned());
        }
        missing
    }

    /// The definitions of the version, of the table in docs/models/bic.md. Fractions are of 1024.
    fn definitions(self) -> [String; 6] {
        let [s_max, smooth, beta, converged, first_growth, forgets] = match self {
            Loadable::Bic => [16, 20, 819, 921, 20, 1],
            Loadable::BicOriginal => [32, 11, 896, 960, 0, 0],
            Loadable::Bic266 => [32, 11, 896, 3840, 0, 0],
        };
        [
            format!("S_MAX={s_max}"),
            format!("SMOOTH={smooth}"),
            format!("BETA={beta}"),
            format!("CONVERGED={converged}"),
            format!("FIRST_GROWTH={first_growth}"),
            format!("FORGETS={forgets}"),
        ]
    }
}

/// Whether this process is root of the machine, and not only of a namespace of users: only that one may load programs.
fn is_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<&str> = map.split_whitespace().collect();
    rustix::process::geteuid().is_root() && words == ["0", "0", "4294967295"]
}

/// A congestion control that this process has loaded. It stays in the kernel as long as one of these lives.
#[derive(Debug)]
pub struct Loaded {
    which: Loadable,
    host: Host,
}

/// Those of this process that are loaded.
static LOADED: Mutex<BTreeMap<Loadable, Weak<Loaded>>> = Mutex::new(BTreeMap::new());

impl Loaded {
    /// Loads one, or shares the one that is loaded. It takes about 3 s.
    ///
    /// # Errors
    /// With what a program, or the kernel, said.
    pub fn get(which: Loadable) -> Result<Arc<Self>, LoadError> {
        let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = all.get(&which).and_then(Weak::upgrade) {
            return Ok(there);
        }
        let host = Host::new("bpf")?;
        remove_abandoned(&host);
        // The one before may be going at this moment, on another thread.
        let _ = unregister(&host, &which.name());
        load(&host, which)?;
        let loaded = Arc::new(Self { which, host });
        all.insert(which, Arc::downgrade(&loaded));
        Ok(loaded)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have loaded it anew since nobody held this one.
        let is_last = all.get(&self.which).is_none_or(|loaded| loaded.strong_count() == 0);
        if is_last {
            // The next process that loads any removes what could not be removed.
            let _ = unregister(&self.host, &self.which.name());
        }
    }
}

fn load(host: &Host, which: Loadable) -> Result<(), LoadError> {
    let directory = Directory::new()?;
    directory.write("bic.bpf.c", SOURCE)?;
    let types = directory.join("vmlinux.h");
    let output = File::create(&types)
        .map_err(|source| LoadError::Output { path: types.display().to_string(), source })?;
    let dump = words(&["bpftool", "btf", "dump", "file", TYPES, "format", "c"]);
    tool::run(host, &dump, (Stdio::null(), output.into()), LIMIT)?;
    let text = fs::read_to_string(&types)
        .map_err(|source| LoadError::Output { path: types.display().to_string(), source })?;
    let file = |name: &str| directory.join(name).display().to_string();
    let mut compile = words(&["clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3"]);
    compile.extend(which.definitions().map(|definition| format!("-D{definition}")));
    compile.push(format!("-DVARIABLE={}", which.name()));
    // Before 6.11 the callback has no acknowledgement number and flags.
    if text.contains("(*cong_control)(struct sock *, u32, int") {
        compile.push("-DCONG_CONTROL_HAS_ACK".to_owned());
    }
    compile.extend([format!("-I{}", file("")), "-c".to_owned(), file("bic.bpf.c")]);
    compile.extend(["-o".to_owned(), file("bic.bpf.o")]);
    tool::run(host, &compile, (Stdio::null(), Stdio::null()), LIMIT)?;
    let register = [words(&["bpftool", "struct_ops", "register"]), vec![file("bic.bpf.o")]].concat();
    tool::run(host, &register, (Stdio::null(), Stdio::null()), LIMIT)?;
    Ok(())
}

fn unregister(host: &Host, name: &str) -> Result<(), ToolError> {
    let words = words(&["bpftool", "struct_ops", "unregister", "name", name]);
    tool::run(host, &words, (Stdio::null(), Stdio::null()), LIMIT)
}

/// Removes those of processes that are gone.
fn remove_abandoned(host: &Host) {
    let available = fs::read_to_string(AVAILABLE).unwrap_or_default();
    for name in available.split_whitespace().filter(|name| is_abandoned(name)) {
        let _ = unregister(host, name);
    }
}

fn is_abandoned(name: &str) -> bool {
    let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')?.1.parse::<u32>().ok());
    maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Loadable; 3] = [Loadable::Bic, Loadable::BicOriginal, Loadable::Bic266];

    #[test]
    fn a_name_fits_and_tells_whose_it_is() {
        let names = ALL.map(Loadable::name);
        assert!(names.iter().all(|name| name.len() <= 15 && !is_abandoned(name)), "{names:?}");
        assert!(names.is_sorted_by(|one, other| one < other), "no two are the same: {names:?}");
        // No process has so high an id.
        assert!(is_abandoned("tlbic0_4294967295"));
        assert!(!is_abandoned("cubic") && !is_abandoned("tlbic0"));
    }

    #[test]
    fn each_definition_of_a_version_is_one_that_the_program_asks_for() {
        for definition in ALL.iter().flat_map(|which| which.definitions()) {
            let name = definition.split_once('=').expect("a value").0;
            assert!(SOURCE.contains(name), "{name}");
        }
    }
}
