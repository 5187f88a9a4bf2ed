//! What keeps a site's trunks from working on this machine, or from working well.
//!
//! [`examine`] reads the kernel's settings, addresses and routes, and tries each peer's endpoint. It changes nothing: it listens on the
//! addresses of the file for a moment if no gateway of the site runs, and opens one connection to each endpoint.

mod files;
mod kernel;
mod machine;
mod network;
mod peers;

use serde::Serialize;

use crate::config::Config;
use files::Files;
pub use files::unit_user;
pub use machine::{Part, describe_machine};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Trunks work, with less than they could have, or some traffic does not pass.
    Warning,
    /// The gateway does not start, or a peer cannot be reached.
    Fault,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at: a word that stays the same from version to version.
    pub subject: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What is wrong, and what follows from it.
    pub problem: String,
    /// What to do: a command where one is enough.
    pub remedy: String,
}

/// The result of an examination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// The subjects that were looked at, in order.
    pub examined: Vec<&'static str>,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
    /// What was measured of peers, a sentence each.
    pub measured: Vec<String>,
}

impl Examination {
    /// Notes that `subject` was looked at, and what was found.
    fn look(&mut self, subject: &'static str, found: Option<(Level, String, String)>) {
        if !self.examined.contains(&subject) {
            self.examined.push(subject);
        }
        let finding = found.map(|(level, problem, remedy)| Finding { subject, level, problem, remedy });
        self.findings.extend(finding);
    }

    /// The worst level of all findings.
    pub fn worst(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }
}

/// Looks at this machine and, if there is one, at the site of a file that a gateway starts with.
pub fn examine(site: Option<&Config>) -> Examination {
    let files = Files::of_this_machine();
    let mut examination = Examination::default();
    kernel::examine(&files, site, &mut examination);
    network::examine_device(&mut examination);
    network::examine_limits(&mut examination);
    if let Some(site) = site {
        files::examine(&files, site, &mut examination);
        let runs = std::os::unix::net::UnixStream::connect(&site.control.socket).is_ok();
        network::examine(site, runs, &mut examination);
        peers::examine(site, &mut examination);
    }
    examination
}
