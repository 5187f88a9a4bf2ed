//! Keeping a virtual machine's CPUs awake while links are emulated.
//!
//! A virtual CPU that has nothing to do gives its time back to the host, and is given some again when the host finds it: after tens of
//! milliseconds on a busy host. A link that should deliver a packet then is late. A CPU that is never idle keeps its place, so each gets
//! a thread that does nothing, in the class `SCHED_IDLE` (sched(7)): whatever else of the same session wants the
//! CPU has it at once. On two virtual CPUs the
//! time stolen by the host was a quarter of what it was without (`docs/testbed.md`).

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::sys;

/// With more CPUs than these others would be kept from their work.
const MAX_CPUS: usize = 8;
/// Steps between two looks at whether to go on.
const STEPS: u32 = 10_000;

/// CPUs are kept awake while one of these exists, if the machine is virtual.
#[derive(Debug)]
pub(crate) struct Awake {
    _spinners: Option<Arc<Spinners>>,
}

static SPINNERS: Mutex<Weak<Spinners>> = Mutex::new(Weak::new());

impl Awake {
    /// Starts a thread on each CPU that this process may use, or shares those that are there. Where that cannot be done, CPUs sleep as
    /// they would.
    pub(crate) fn new() -> Self {
        let mut shared = SPINNERS.lock().unwrap_or_else(PoisonError::into_inner);
        let spinners = shared.upgrade().or_else(|| {
            let cpus = if is_virtual() { cpus().unwrap_or_default() } else { Vec::new() };
            let spinners = (1..=MAX_CPUS).contains(&cpus.len()).then(|| Arc::new(Spinners::start(&cpus)))?;
            *shared = Arc::downgrade(&spinners);
            Some(spinners)
        });
        Awake { _spinners: spinners }
    }
}

/// Whether a hypervisor runs this machine.
fn is_virtual() -> bool {
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = known.lines().filter(|line| line.starts_with("flags")).flat_map(str::split_whitespace);
    flags.any(|flag| flag == "hypervisor")
}

/// The CPUs that this thread may use.
fn cpus() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect())
}

#[derive(Debug)]
struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    fn start(cpus: &[usize]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |cpu: &usize| {
            let (cpu, stop) = (*cpu, Arc::clone(&stop));
            thread::Builder::new().name("awake".to_owned()).spawn(move || spin(cpu, &stop)).ok()
        };
        Spinners { threads: cpus.iter().filter_map(start).collect(), stop }
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spin(cpu: usize, stop: &AtomicBool) {
    let mut own = CpuSet::new();
    own.set(cpu);
    // One that would compete with others, or with its like on one CPU, does not run.
    if sched_setaffinity(None, &own).is_err() || sys::schedule_idle().is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        // Without `spin_loop`: a hypervisor takes its instruction for a lock that is waited for, and gives the CPU away.
        for step in 0..STEPS {
            std::hint::black_box(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;

    fn threads() -> usize {
        let tasks = fs::read_dir("/proc/self/task").expect("tasks").flatten();
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.map(name).filter(|name| name.trim() == "awake").count()
    }

    #[test]
    fn the_cpus_are_kept_awake_once_for_all_and_go_to_sleep_with_the_last() {
        let (one, other) = (Awake::new(), Awake::new());
        let most = cpus().expect("CPUs").len();
        if is_virtual() && most <= MAX_CPUS {
            // A thread gives itself its name.
            let end = clock::now() + Duration::from_secs(10);
            while threads() == 0 {
                assert!(clock::now() < end, "no thread that keeps a CPU awake");
                thread::sleep(Duration::from_millis(1));
            }
        }
        let there = threads();
        assert!(there <= most, "{there} threads on {most} CPUs");
        drop(one);
        drop(other);
        // Other tests of this process may emulate links.
        assert!(threads() <= most);
    }
}
