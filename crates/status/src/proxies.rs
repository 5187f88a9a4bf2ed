//! What a process reports of its transparent proxies.

use serde::{Deserialize, Serialize};

/// The state of a process's proxies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProxiesStatus {
    /// The file's name without .toml, or the site's.
    pub name: String,
    /// Version of the software.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// Why new connections may not come to the proxies, if they may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Of all together.
    #[serde(flatten)]
    pub totals: ProxyTotals,
    /// Each of them, in the order of the file.
    pub proxies: Vec<ProxyStatus>,
}

/// The state of one of `[[proxies]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyStatus {
    /// Its name.
    pub name: String,
    /// Its mode.
    pub mode: String,
    /// Whether the rate of its emulated link is measured.
    pub is_measured: bool,
    /// What it has done.
    #[serde(flatten)]
    pub counts: ProxyCounts,
}

/// What a process has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyTotals {
    /// Connections that are open on both sides.
    pub open: u64,
    /// Connections to servers that have not answered, or of clients that have not confirmed.
    pub opening: u64,
    /// Connections that were opened on both sides.
    pub opened: u64,
    /// Connections that their servers refused.
    pub refused: u64,
    /// Connections to servers that cannot be reached.
    pub unreachable: u64,
    /// Connections to servers that did not answer in time.
    pub timed_out: u64,
    /// Connections that their clients never confirmed.
    pub unconfirmed: u64,
    /// Connections that were being opened, and gave way to others.
    pub displaced: u64,
    /// Connections that passed without a proxy, since there was no place for them.
    pub passed: u64,
    /// Connections that were refused, since there was no place for them.
    pub full: u64,
    /// SYNs that came back to the proxy that had sent them.
    pub loops: u64,
    /// Idle connections that were closed to make room for others.
    pub evicted: u64,
    /// Connections that ended with a reset of one end, or its silence.
    pub reset: u64,
    /// Segments whose acknowledgements waited for an emulated link. This and the next three are the sums of the proxies'.
    pub tail_held: u64,
    /// Acknowledgements that left when they were due.
    pub tail_released: u64,
    /// Segments that an emulated link had no room for, or beyond the window that their sender was offered.
    pub tail_dropped: u64,
    /// Packets whose window was lowered.
    pub clamped: u64,
    /// Packets that were longer than the next link takes.
    pub too_long: u64,
    /// Packets that were diverted to the proxy and are none of its own.
    pub ignored: u64,
    /// Connections that the system had no means for: descriptors, memory, a free address.
    pub without_means: u64,
    /// Bytes from clients to servers.
    pub bytes_from_clients: u64,
    /// Bytes from servers to clients.
    pub bytes_from_servers: u64,
}

/// What one of `[[proxies]]` has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyCounts {
    /// Its connections that are open, or known where their windows are lowered.
    pub open: u64,
    /// Connections that were opened, or seen.
    pub opened: u64,
    /// Bytes that the hosts behind have acknowledged.
    pub delivered: u64,
    /// Bytes for the hosts behind that they have not acknowledged.
    pub held: u64,
    /// The maximum of `held` since the start.
    pub held_max: u64,
    /// Bytes of `held` that wait for the network behind, and not for the hosts there.
    pub waiting: u64,
    /// The shortest round trip to a host behind that they are for, microseconds; 0 if unknown.
    pub min_rtt_us: u64,
    /// The emulated link's rate, bits per second; 0 if there is none, or none has been measured.
    pub rate: u64,
    /// Segments whose acknowledgements waited for the emulated link.
    pub tail_held: u64,
    /// Acknowledgements that left when they were due.
    pub tail_released: u64,
    /// Segments that the emulated link had no room for, or beyond the window that their sender was offered.
    pub tail_dropped: u64,
    /// Packets whose window was lowered.
    pub clamped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_totals_beside_the_name_and_is_read_again() {
        let counts = ProxyCounts { held: 7, ..ProxyCounts::default() };
        let proxies = vec![ProxyStatus { name: "cell".to_owned(), counts, ..ProxyStatus::default() }];
        let totals = ProxyTotals { opened: 3, ..ProxyTotals::default() };
        let status = ProxiesStatus { totals, proxies, ..ProxiesStatus::default() };
        let text = serde_json::to_string(&status).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["opened"], &value["proxies"][0]["held"]), (&3.into(), &7.into()));
        assert_eq!(serde_json::from_str::<ProxiesStatus>(&text).unwrap(), status);
    }
}
