//! Quotas of paths: counts what their lanes carry, keeps the count over restarts, and changes the cost of a path whose quota is spent.
//!
//! What counts are IP packets of the lanes' connections in both directions, as the kernel counts them: what a provider counts too. What
//! dials cost that become no lane is not in it, nor, where a machine stops at once, a thousandth of the quota.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::Utc;
use trunkline_status::{Quota, QuotaThen};
use trunkline_trunk::PathSettings;
use trunkline_units::Instant;

use super::Daemon;
use crate::config::{Config, OverQuota, PeerConfig, QuotaConfig};
use crate::handshake::{Refusal, RefusalReason};
use crate::life::{LaneKey, PathKey, Serial};
use crate::sys;
use crate::usage::{Usage, UsedPath};

/// How often the lanes of paths with a quota are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often the count is written at least, if anything was carried.
const WRITE: Duration = Duration::from_secs(300);
/// It is written when this part of a quota is not yet: not more often, since it may be written to flash.
const PART: u64 = 1_000;
/// The headers of a TCP segment with timestamps (RFC 9293 §3.1, RFC 7323 §3.2), bytes; IP's are added.
const TCP_HEADER: u64 = 20 + 12;
/// What a packet over QUIC has around its data: UDP, the header of a packet, its tag and frames, bytes.
const QUIC_HEADER: u64 = 8 + 11 + 16 + 12;

#[derive(Debug, Default)]
pub(super) struct QuotaState {
    usage: Usage,
    /// Whether the file has been read.
    is_read: bool,
    /// The paths whose quota is spent.
    spent: BTreeSet<PathKey>,
    looked_at: Option<Instant>,
    written_at: Option<Instant>,
    /// Why the file could not be written, when it could not the last time.
    problem: Option<String>,
}

impl QuotaState {
    pub(super) fn is_spent(&self, path: &PathKey) -> bool {
        self.spent.contains(path)
    }
}

/// Where the count of a site is.
fn file_of(config: &Config) -> PathBuf {
    config.state_directory.join(format!("{}.usage.json", config.name))
}

/// The paths of a configuration that have a quota.
fn quotas(config: &Config) -> impl Iterator<Item = (PathKey, UsedPath, QuotaConfig)> {
    config.peers.iter().flat_map(|peer: &PeerConfig| {
        (0..).zip(&peer.paths).filter_map(|(number, path)| {
            let key = PathKey { peer: peer.public_key, path: number };
            Some((key, (peer.public_key, path.name.clone()), path.quota?))
        })
    })
}

/// Whether any path has a quota.
pub(super) fn has_quotas(config: &Config) -> bool {
    config.peers.iter().flat_map(|peer| &peer.paths).any(|path| path.quota.is_some())
}

impl Daemon {
    /// What the use of a path costs now, as this site has it.
    pub(super) fn own_cost_of(&self, path: &PathKey) -> u8 {
        if self.quota.is_spent(path) {
            return PathSettings::MAX_COST;
        }
        self.peer_config(&path.peer).and_then(|peer| peer.path(path.path)).map_or(0, |path| path.cost)
    }

    /// Whether a path has no lanes until its next period.
    pub(super) fn is_off(&self, path: &PathKey) -> bool {
        let quota = self.peer_config(&path.peer).and_then(|peer| peer.path(path.path)?.quota);
        quota.is_some_and(|quota| quota.then == OverQuota::Off) && self.quota.is_spent(path)
    }

    /// Refuses a request for a lane on a path that has none until its next period.
    pub(super) fn check_quota(&mut self, key: &LaneKey) -> Result<(), Refusal> {
        let path = key.path_key();
        if !self.is_off(&path) {
            return Ok(());
        }
        let name = self.path_name(&path).unwrap_or_default();
        Err(Refusal {
            reason: RefusalReason::UnknownLane,
            text: format!("the quota of path {name} is spent"),
        })
    }

    /// Reads the count, before the first lane is dialled and at a reload that brings the first quota.
    pub(super) fn start_quotas(&mut self) {
        if !has_quotas(&self.config) || std::mem::replace(&mut self.quota.is_read, true) {
            return;
        }
        let file = file_of(&self.config);
        match fs::read_to_string(&file).map_err(|error| (error.kind(), error.to_string())) {
            Ok(text) => match Usage::read(&text) {
                Ok(usage) => self.quota.usage = usage,
                Err(error) => {
                    tracing::warn!("{}: {error}; the quotas of paths count from 0", file.display());
                }
            },
            Err((io::ErrorKind::NotFound, _)) => {}
            Err((_, error)) => {
                tracing::warn!("{}: {error}; the quotas of paths count from 0", file.display());
            }
        }
    }

    /// Finds which quotas are spent. Whether others are than before.
    pub(super) fn judge_quotas(&mut self, now: Instant) -> bool {
        let today = Utc::now().date_naive();
        let mut spent = BTreeSet::new();
        for (key, path, quota) in quotas(&self.config) {
            self.quota.usage.handle_period(now, &path, quota.period.first_day(today));
            if self.quota.usage.bytes(&path) >= quota.bytes {
                spent.insert(key);
            }
        }
        let before = std::mem::replace(&mut self.quota.spent, spent);
        for (key, _, quota) in quotas(&self.config) {
            let label = self.path_label(&key);
            match (before.contains(&key), self.quota.is_spent(&key)) {
                (false, true) => {
                    let then = match quota.then {
                        OverQuota::LastResort => "flows take it while no other path works",
                        OverQuota::Off => "it has no lanes",
                    };
                    let until = quota.period.next_day(today);
                    tracing::warn!("peer {label}: its quota is spent: {then}, until {until}");
                }
                (true, false) => tracing::info!("peer {label}: it has a quota again"),
                _ => {}
            }
        }
        before != self.quota.spent
    }

    /// Looks at the lanes of paths with a quota. Returns when to do so again.
    pub(super) fn handle_quota_deadlines(&mut self, now: Instant) -> Option<Instant> {
        if !has_quotas(&self.config) {
            return None;
        }
        let is_due = |at: Option<Instant>, interval| at.is_none_or(|at| now.saturating_since(at) >= interval);
        if is_due(self.quota.looked_at, LOOK) {
            self.quota.looked_at = Some(now);
            self.count_lanes();
            if self.judge_quotas(now) {
                self.apply_plan();
                self.apply_lanes();
                self.quota.written_at = None;
            }
            let is_behind = quotas(&self.config)
                .any(|(_, path, quota)| self.quota.usage.unwritten(&path) >= (quota.bytes / PART).max(1));
            if is_behind || is_due(self.quota.written_at, WRITE) {
                self.quota.written_at = Some(now);
                self.write_usage();
            }
        }
        self.quota.looked_at.map(|at| at + LOOK)
    }

    fn count_lanes(&mut self) {
        for (path, serial, total) in self.totals() {
            self.count(&path, serial, total);
        }
    }

    /// What lanes have carried that are up when their path gets a quota does not count.
    pub(super) fn leave_out_lanes(&mut self) {
        let totals = self.totals().into_iter().map(|(_, serial, total)| (serial, total));
        self.quota.usage.handle_lanes(totals);
    }

    /// What the lanes on paths with a quota have carried since they came up.
    fn totals(&mut self) -> Vec<(PathKey, Serial, u64)> {
        let counted: BTreeSet<PathKey> = quotas(&self.config).map(|(key, ..)| key).collect();
        let up = self.lane_sockets.iter().filter(|(_, socket)| counted.contains(&socket.path));
        let lanes: Vec<(Serial, PathKey)> =
            up.clone().map(|(serial, socket)| (*serial, socket.path)).collect();
        let over_quic: Vec<Serial> =
            up.filter(|(_, socket)| socket.fd.is_none()).map(|(serial, _)| *serial).collect();
        let over_quic = if over_quic.is_empty() { Vec::new() } else { self.quic_totals(&over_quic) };
        let total = |serial: Serial| {
            let known = over_quic.iter().find(|(lane, _)| *lane == serial).map(|(_, total)| *total);
            known.or_else(|| self.tcp_total(serial))
        };
        lanes.into_iter().filter_map(|(serial, path)| Some((path, serial, total(serial)?))).collect()
    }

    fn count(&mut self, path: &PathKey, serial: Serial, total: u64) {
        let name = self.peer_config(&path.peer).and_then(|peer| peer.path(path.path));
        if let Some(name) = name.map(|path| path.name.clone()) {
            self.quota.usage.handle_total(&(path.peer, name), serial, total);
        }
    }

    /// The connection of a lane is about to be closed: what it carried since it was looked at last counts.
    pub(super) fn forget_socket(&mut self, serial: Serial) {
        if has_quotas(&self.config) {
            let path = self.lane_sockets.get(&serial).map(|socket| socket.path);
            if let (Some(path), Some(total)) = (path, self.tcp_total(serial)) {
                self.count(&path, serial, total);
            }
        }
        self.quota.usage.handle_end(serial);
        self.lane_sockets.remove(&serial);
    }

    /// What the connection of a lane over TCP has carried, as IP packets.
    fn tcp_total(&self, serial: Serial) -> Option<u64> {
        let socket = self.lane_sockets.get(&serial)?;
        let info = sys::TcpInfo::of(socket.fd.as_ref()?.as_fd()).ok()?;
        // Kernels before Linux 4.19 do not count what is sent again.
        let sent = info.bytes_sent().or(info.bytes_acked()).unwrap_or_default();
        let data = sent.saturating_add(info.bytes_received().unwrap_or_default());
        let segments =
            u64::from(info.segs_out().unwrap_or_default()) + u64::from(info.segs_in().unwrap_or_default());
        Some(data.saturating_add(segments * (ip_header(socket.remote) + TCP_HEADER)))
    }

    /// What lanes over QUIC have carried, about: packets are counted where they are sent, and their number is taken for what comes.
    fn quic_totals(&mut self, lanes: &[Serial]) -> Vec<(Serial, u64)> {
        let (sent, received) = self.workers.reports(0);
        let of_lane = |serial: &Serial| {
            let (_, stats, kernel) =
                sent.iter().flat_map(|report| &report.lanes).find(|lane| lane.0 == *serial)?;
            let arrived = received.iter().flat_map(|report| &report.lanes).find(|lane| lane.0 == *serial);
            let arrived = arrived.map_or(0, |(_, stats)| stats.bytes);
            let info = kernel.as_ref().map(|(info, _)| *info).unwrap_or_default();
            let remote = self.lane_sockets.get(serial)?.remote;
            let segment = u64::from(info.snd_mss.max(1_200));
            let packets = u64::from(info.segments_out) + arrived / segment;
            let again = u64::from(info.retransmits) * segment;
            Some((*serial, stats.bytes + again + arrived + packets * (ip_header(remote) + QUIC_HEADER)))
        };
        lanes.iter().filter_map(of_lane).collect()
    }

    /// Writes the count, if it has changed.
    pub(super) fn write_usage(&mut self) {
        let Some(text) = self.quota.usage.take_text() else { return };
        let file = file_of(&self.config);
        let problem = write(&file, &text).err().map(|error| format!("{}: {error}", file.display()));
        if problem.is_some() {
            self.quota.usage.handle_unwritten();
        }
        if problem != self.quota.problem {
            if let Some(problem) = &problem {
                tracing::warn!(
                    "cannot write what the paths with a quota have carried, and a restart will not know it: {problem}"
                );
            } else {
                tracing::info!("{}: written again", file.display());
            }
        }
        self.quota.problem = problem;
    }

    /// The quota of a path, and what it has carried.
    pub(super) fn quota_status(&self, peer: &PeerConfig, path: u8) -> Option<Quota> {
        let settings = peer.path(path)?;
        let quota = settings.quota?;
        Some(Quota {
            bytes: quota.bytes,
            used: self.quota.usage.bytes(&(peer.public_key, settings.name.clone())),
            until: quota.period.next_day(Utc::now().date_naive()).to_string(),
            is_spent: self.quota.is_spent(&PathKey { peer: peer.public_key, path }),
            then: match quota.then {
                OverQuota::LastResort => QuotaThen::LastResort,
                OverQuota::Off => QuotaThen::Off,
            },
        })
    }
}

/// An IP header without options (RFC 791 §3.1, RFC 8200 §3), bytes.
const fn ip_header(remote: std::net::SocketAddr) -> u64 {
    if remote.is_ipv4() { 20 } else { 40 }
}

/// Replaces a file at once: who is killed meanwhile leaves the old one.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("json.new");
    let mut open = fs::File::create(&new)?;
    open.write_all(text.as_bytes())?;
    open.sync_data()?;
    fs::rename(&new, file)
}

/// Makes the directory of the count, where a path has a quota. It stays writable once privileges are dropped.
///
/// # Errors
/// Why not, with the directory.
pub(super) fn make_directory(config: &Config) -> io::Result<()> {
    if !has_quotas(config) {
        return Ok(());
    }
    let directory = &config.state_directory;
    fs::create_dir_all(directory).map_err(|error| {
        let problem = format!(
            "state_directory {}: {error}; quotas of paths are kept there over restarts",
            directory.display()
        );
        io::Error::new(error.kind(), problem)
    })
}
