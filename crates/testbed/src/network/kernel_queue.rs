//! A queueing discipline of this machine's kernel in front of one way of a link.
//!
//! The device where the way begins gets a token bucket filter (tc-tbf(8)) with the link's rate, and below it the discipline. The
//! emulator then adds only what comes after the queue: delay, losses. A discipline with a shaper of its own has the rate itself.
//! The discipline and its options are the text that `tc qdisc` takes, so that whatever a kernel has can be tried; `tc` sets it up.
//!
//! Unlike a link of the emulator, a device with a discipline of the kernel holds back the TCP of its own host (TCP small queues).
//! For the queue of a router, the way has to begin at one.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_netlink::{Handle, NetlinkError};
use trunkline_units::Rate;

use crate::namespace::{Host, HostError};
use crate::tool::{self, ToolError};

/// How long `tc` may take: the kernel may have to load a module.
const LIMIT: Duration = Duration::from_secs(5);
/// What the token bucket may let through at once, as time at its rate; at least two packets.
const BURST: Duration = Duration::from_micros(250);
/// The number of the discipline. Its counters are found by it.
const HANDLE: u16 = 2;
/// Disciplines that take a rate, and the option's name.
const SHAPERS: [(&str, &str); 2] = [("cake", "bandwidth"), ("netem", "rate")];

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelQueue {
    /// The discipline and its options, as `tc qdisc` takes them.
    pub discipline: String,
    /// The link's rate.
    pub rate: Rate,
    /// The longest packet, bytes.
    pub mtu: u32,
}

/// Why it is not there.
#[derive(Debug, thiserror::Error)]
pub enum KernelQueueError {
    /// `tc` is missing, or it or the kernel refused the discipline.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// Its host failed.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// What it has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelQueueCounters {
    /// Packets that left it.
    pub packets_out: u64,
    /// Bytes that left it.
    pub bytes_out: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Packets in it.
    pub backlog_packets: u64,
    /// Bytes in it.
    pub backlog_bytes: u64,
}

impl KernelQueue {
    /// Whether this machine can do it: tried in a namespace of its own.
    ///
    /// # Errors
    /// With what is missing, or with what the kernel said.
    pub fn check(&self) -> Result<(), KernelQueueError> {
        self.install(&Host::new("probe")?, "lo")
    }

    fn install(&self, host: &Host, device: &str) -> Result<(), KernelQueueError> {
        self.commands(device).iter().try_for_each(|words| {
            tool::run(host, words, (Stdio::null(), Stdio::null()), LIMIT)?;
            Ok(())
        })
    }

    /// The words of each command.
    fn commands(&self, device: &str) -> Vec<Vec<String>> {
        let rate = format!("{}bit", self.rate.bits_per_second());
        let mut words = self.discipline.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let own = words.map(str::to_owned);
        let at = |place: &str, handle: u16| {
            let words = ["tc", "qdisc", "replace", "dev", device].into_iter().chain(place.split(' '));
            let handle = ["handle".to_owned(), format!("{handle}:")];
            words.map(str::to_owned).chain(handle).collect::<Vec<_>>()
        };
        if let Some((_, option)) = SHAPERS.iter().find(|(name, _)| *name == kind) {
            let mut command = at("root", HANDLE);
            command.extend([kind.to_owned(), (*option).to_owned(), rate]);
            command.extend(own);
            return vec![command];
        }
        let burst = self.rate.bytes_in(BURST).max(2 * u64::from(self.mtu));
        let mut shaper = at("root", 1);
        // The limit is that of the queue which the discipline replaces.
        let shape = format!("tbf rate {rate} burst {burst}b limit {burst}b");
        shaper.extend(shape.split(' ').map(str::to_owned));
        let mut queue = at("parent 1:1", HANDLE);
        queue.push(kind.to_owned());
        queue.extend(own);
        vec![shaper, queue]
    }
}

/// A discipline that is in place.
#[derive(Debug, Clone)]
pub struct InstalledQueue {
    device: u32,
    rate: Rate,
    handle: Arc<Mutex<Handle>>,
}

impl InstalledQueue {
    pub(super) fn install(host: &Host, device: &str, queue: &KernelQueue) -> Result<Self, KernelQueueError> {
        queue.install(host, device)?;
        let open = |handle: &mut Handle| handle.link_index(device);
        let index = host.netlink(open)?;
        let handle = host.run(Handle::open);
        let handle = handle.map_err(|source| HostError::Network { host: host.name().to_owned(), source })?;
        Ok(Self { device: index, rate: queue.rate, handle: Arc::new(Mutex::new(handle)) })
    }

    /// What it has counted so far.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn counters(&self) -> Result<KernelQueueCounters, NetlinkError> {
        let mut handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = handle.qdisc_stats_of(self.device, HANDLE)?;
        Ok(KernelQueueCounters {
            packets_out: stats.packets.into(),
            bytes_out: stats.bytes,
            dropped: stats.dropped.into(),
            backlog_packets: stats.backlog_packets.into(),
            backlog_bytes: stats.backlog_bytes.into(),
        })
    }

    /// How long it takes at the link's rate to send so many bytes.
    pub fn time_to_send(&self, bytes: u64) -> Duration {
        self.rate.time_for(bytes, &mut 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(discipline: &str) -> Vec<String> {
        let rate = Rate::from_bits_per_second(20_000_000);
        let queue = KernelQueue { discipline: discipline.to_owned(), rate, mtu: 1500 };
        queue.commands("link0").into_iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn a_discipline_stands_below_a_shaper_with_the_rate_of_the_link() {
        assert_eq!(
            lines("fq_codel limit  1000"),
            [
                "tc qdisc replace dev link0 root handle 1: tbf rate 20000000bit burst 3000b limit 3000b",
                "tc qdisc replace dev link0 parent 1:1 handle 2: fq_codel limit 1000",
            ]
        );
    }

    #[test]
    fn a_discipline_that_shapes_has_the_rate_itself() {
        let line = "tc qdisc replace dev link0 root handle 2: cake bandwidth 20000000bit flows nat";
        assert_eq!(lines("cake flows nat"), [line]);
    }
}
