//! What this machine's kernel offers.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use crate::congestion::Loadable;

/// The kernel's release, and what of its TCP can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The first two numbers of its release, such as (6, 18).
    pub release: (u32, u32),
    /// Congestion controls that a socket may be given.
    pub congestion_controls: Vec<String>,
    /// What this machine lacks to give it [others](crate::congestion); nothing if it can be tried.
    pub lacks_for_loading: Vec<String>,
    /// Names of its settings of TCP, such as `tcp_sack`, under `net.ipv4`.
    pub tcp_sysctls: BTreeSet<String>,
}

/// The kernel's release: `6.18.5`.
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

impl Kernel {
    /// Reads what this kernel offers.
    ///
    /// # Errors
    /// If `/proc/sys/net/ipv4` cannot be read.
    pub fn read() -> io::Result<Self> {
        let release = release();
        let mut numbers = release.split('.');
        let mut number = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or_default();
        let release = (number(), number());
        let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
        let names = fs::read_dir("/proc/sys/net/ipv4")?;
        let names = names.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let names: BTreeSet<String> = names.collect::<io::Result<_>>()?;
        Ok(Self {
            release,
            congestion_controls: available.split_whitespace().map(str::to_owned).collect(),
            lacks_for_loading: Loadable::missing(),
            tcp_sysctls: names.into_iter().filter(|name| name.starts_with("tcp_")).collect(),
        })
    }

    /// Whether it has this setting of TCP.
    pub fn has(&self, sysctl: &str) -> bool {
        self.tcp_sysctls.contains(sysctl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_reno_and_sack() {
        let kernel = Kernel::read().expect("/proc");
        assert!(kernel.release > (4, 0), "{:?}", kernel.release);
        assert!(kernel.congestion_controls.iter().any(|name| name == "reno"));
        assert!(kernel.has("tcp_sack") && !kernel.has("tcp_no_such_thing"));
    }
}
