//! Changes of the way to the proxy by other programs: when to look, and what to say.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use trunkline_netlink::{FilterEvent, FilterMonitor, Monitor, NetlinkError};
use trunkline_schema::FailMode;
use trunkline_units::{Instant, Paced};

use super::{FILTER, Repair, Routing, wanted};

/// The maximum number of netlink datagrams to read at once; epoll reports the rest again.
const DATAGRAMS: usize = 64;
/// The minimum interval between repairs.
const INTERVAL: Duration = Duration::from_secs(1);
/// When to try again what could not be restored.
const RETRY: Duration = Duration::from_secs(5);

/// The kernel's notifications, and what they have led to.
#[derive(Debug)]
pub(super) struct Watch {
    routes: Monitor,
    filter: FilterMonitor,
    repair: Paced,
    /// Another program may have changed the table of the packet filter; at first it has not been made.
    filter_changed: bool,
    /// What could not be restored, so that the log has it once.
    problem: Option<String>,
}

impl Watch {
    pub(super) fn open() -> Result<Self, NetlinkError> {
        let (routes, filter) = (Monitor::open()?, FilterMonitor::open()?);
        Ok(Watch { routes, filter, repair: Paced::default(), filter_changed: true, problem: None })
    }

    /// Something may be missing.
    pub(super) fn request(&mut self, now: Instant) {
        self.repair.request(now, Duration::ZERO, INTERVAL);
    }

    pub(super) const fn has_filter_changed(&self) -> bool {
        self.filter_changed
    }

    pub(super) const fn handle_filter_restored(&mut self) {
        self.filter_changed = false;
    }
}

impl Routing {
    /// Readable when [`Routing::handle_changes`] has something to do.
    pub(crate) fn monitors(&self) -> [BorrowedFd<'_>; 2] {
        [self.watch.routes.as_fd(), self.watch.filter.as_fd()]
    }

    /// Reads notifications.
    pub(crate) fn handle_changes(&mut self, now: Instant) {
        let index = self.device.as_ref().map(|device| device.index);
        let routes = self.watch.routes.read(DATAGRAMS);
        let mut is_affected = routes.iter().any(|event| wanted::is_affected(event, index));
        for event in self.watch.filter.read(DATAGRAMS) {
            let is_ours = match event {
                FilterEvent::Changed(change) => change.table == FILTER && change.by != self.filter.port(),
                FilterEvent::Missed => true,
            };
            self.watch.filter_changed |= is_ours;
            is_affected |= is_ours;
        }
        if is_affected {
            self.watch.request(now);
        }
    }

    /// When to repair.
    pub(crate) const fn next_repair(&self) -> Option<Instant> {
        self.watch.repair.next_timeout()
    }

    /// Restores what other programs have removed, if it is time.
    pub(crate) fn poll_repair(&mut self, now: Instant) -> Option<Repair> {
        if !self.watch.repair.take_due(now) {
            return None;
        }
        let before = self.device.as_ref().map(|device| device.index);
        let mut restored = Vec::new();
        let problem = self.restore(&mut restored).err().map(|error| error.to_string());
        let device = self.device.as_ref().map(|device| device.index);
        if !restored.is_empty() {
            tracing::warn!("restored what another program removed: {}", summary(&restored));
        }
        if let Some(problem) = &problem {
            self.watch.repair.request(now, RETRY, INTERVAL);
            if self.watch.problem.as_ref() != Some(problem) {
                let fate = match self.plan.fail {
                    FailMode::Open => "pass without it",
                    FailMode::Closed => "are refused",
                };
                tracing::warn!("{problem}: new connections may not come to the proxy, and {fate}");
            }
        } else if self.watch.problem.is_some() {
            tracing::info!("the way to the proxy is complete again");
        }
        self.watch.problem.clone_from(&problem);
        Some(Repair { has_new_device: device.is_some() && device != before, problem })
    }
}

/// The first three items of a list, and the number of the others.
fn summary(items: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = items[..items.len().min(SHOWN)].join(", ");
    if items.len() > SHOWN { format!("{shown} and {} more", items.len() - SHOWN) } else { shown }
}
