//! CPU time and memory of a process, and the TCP counters of a namespace, from `/proc`.

use std::fs;
use std::io;
use std::time::Duration;

/// The kernel's unit of CPU time in `/proc` (`USER_HZ`), the same on every architecture we build for.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In its own code.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl CpuTime {
    /// User and system time.
    pub fn total(self) -> Duration {
        self.user + self.system
    }

    /// The time since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now.
    pub resident_bytes: u64,
    /// The peak of resident memory.
    pub peak_bytes: u64,
}

/// Packets that a network namespace neither forwarded nor delivered (RFC 4293, RFC 4022, RFC 4113).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiscardCounters {
    /// Without a route to their destination (`OutNoRoutes`, `InNoRoutes`).
    pub unreachable: u64,
    /// Whose TTL expired, or whose IP header could not be read (`InHdrErrors`).
    pub header_errors: u64,
    /// Damaged, as their checksums told (`InCsumErrors` of TCP, UDP and ICMP, `InCsumErrors` of IP).
    pub corrupted: u64,
    /// Datagrams to a port that nobody had bound (`NoPorts`).
    pub no_listener: u64,
    /// Truncated (`InTruncatedPkts`).
    pub truncated: u64,
    /// That could not be reassembled (`ReasmFails`).
    pub reassembly_failures: u64,
}

/// The counters of the calling thread's namespace: run it in a host.
pub fn discard_counters() -> io::Result<DiscardCounters> {
    // `/proc/net` is that of the process's first thread.
    let read = |file| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    // A kernel without IPv6 has no file for it.
    let snmp6 = read("snmp6").unwrap_or_default();
    parse_discards(&read("snmp")?, &snmp6, &read("netstat")?)
        .ok_or_else(|| unexpected("net/snmp or net/netstat"))
}

/// CPU time of a process, all its threads, ended ones too; to 10 ms.
pub fn cpu_time(pid: u32) -> io::Result<CpuTime> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?).ok_or_else(|| unexpected("stat"))
}

/// Memory of a process.
pub fn memory(pid: u32) -> io::Result<Memory> {
    parse_status(&fs::read_to_string(format!("/proc/{pid}/status"))?).ok_or_else(|| unexpected("status"))
}

/// Threads of a process.
pub fn threads(pid: u32) -> io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/task"))?.count())
}

/// Time that all CPUs of the machine together were busy, interrupts included; to 10 ms.
pub fn machine_busy() -> io::Result<Duration> {
    parse_machine(&fs::read_to_string("/proc/stat")?).ok_or_else(|| unexpected("stat"))
}

/// CPU time of the machine since it started: all of it, idle time included, and the part that the hypervisor gave to others; to 10 ms.
pub fn machine_stolen() -> io::Result<(Duration, Duration)> {
    let fields = parse_machine_fields(&fs::read_to_string("/proc/stat")?);
    // The ninth and later ones are within the others.
    let all = fields.get(..8).ok_or_else(|| unexpected("stat"))?;
    Ok((ticks(all.iter().sum()), ticks(all[7])))
}

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 1000 / TICKS_PER_SECOND)
}

fn parse_stat(text: &str) -> Option<CpuTime> {
    // The second field is the name in parentheses and may hold anything, parentheses included.
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok().map(ticks);
    Some(CpuTime { user: field(14)?, system: field(15)? })
}

fn parse_status(text: &str) -> Option<Memory> {
    let value = |key: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    Some(Memory { resident_bytes: value("VmRSS")?, peak_bytes: value("VmHWM")? })
}

/// Ticks of all CPUs together: user nice system idle iowait irq softirq steal; guest time is within user.
fn parse_machine_fields(text: &str) -> Vec<u64> {
    let line = text.lines().next().unwrap_or_default();
    line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect()
}

fn parse_machine(text: &str) -> Option<Duration> {
    let fields = parse_machine_fields(text);
    let busy = [0, 1, 2, 5, 6].iter().map(|index| fields.get(*index).copied()).sum::<Option<u64>>()?;
    Some(ticks(busy))
}

fn parse_discards(snmp: &str, snmp6: &str, netstat: &str) -> Option<DiscardCounters> {
    let extended = |name| counter(netstat, "IpExt:", name);
    let damaged = ["Tcp:", "Udp:", "Icmp:"].map(|kind| counter(snmp, kind, "InCsumErrors"));
    // TCP has one counter for both versions of IP.
    let ipv6 = |names: &[&str]| names.iter().map(|name| counter_ipv6(snmp6, name)).sum::<u64>();
    Some(DiscardCounters {
        unreachable: counter(snmp, "Ip:", "OutNoRoutes")?
            + extended("InNoRoutes")?
            + ipv6(&["Ip6OutNoRoutes", "Ip6InNoRoutes"]),
        header_errors: counter(snmp, "Ip:", "InHdrErrors")? + ipv6(&["Ip6InHdrErrors"]),
        corrupted: damaged.into_iter().sum::<Option<u64>>()?
            + extended("InCsumErrors")?
            + ipv6(&["Udp6InCsumErrors", "Icmp6InCsumErrors"]),
        no_listener: counter(snmp, "Udp:", "NoPorts")? + ipv6(&["Udp6NoPorts"]),
        truncated: extended("InTruncatedPkts")? + ipv6(&["Ip6InTruncatedPkts"]),
        reassembly_failures: counter(snmp, "Ip:", "ReasmFails")? + ipv6(&["Ip6ReasmFails"]),
    })
}

/// A counter of IPv6: a line has a name and a value. A kernel without IPv6 has none of them.
fn counter_ipv6(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().map(str::split_whitespace);
    let line = lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()).flatten());
    line.and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// The counter `name` of a file in which a line of names is followed by one of values, both with the same first word.
fn counter(text: &str, kind: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.split_whitespace().next() == Some(kind));
    let index = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(index)?.parse().ok()
}

fn unexpected(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc's {file} has an unknown form"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_parentheses_and_spaces() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 250 75 0 0 20 0 1 0 5 0 0";
        let time = parse_stat(text).expect("parse");
        assert_eq!((time.user, time.system), (Duration::from_millis(2500), Duration::from_millis(750)));
    }

    #[test]
    fn idle_and_guest_time_are_not_busy() {
        let busy = parse_machine("cpu  100 0 50 9999 1 2 3 0 7 0\ncpu0 1 1 1\n").expect("parse");
        assert_eq!(busy, ticks(155));
    }

    #[test]
    fn a_counter_is_found_by_its_name_and_kind() {
        let snmp = "Ip: OutSegs\nIp: 7\nTcp: RtoMin MaxConn OutSegs RetransSegs\nTcp: 200 -1 40 3\n";
        assert_eq!(counter(snmp, "Tcp:", "OutSegs"), Some(40));
        assert_eq!(counter(snmp, "Ip:", "OutSegs"), Some(7));
        assert_eq!((counter(snmp, "Tcp:", "InSegs"), counter(snmp, "Udp:", "OutSegs")), (None, None));
        assert!(discard_counters().is_ok());
        let snmp6 = "Ip6InReceives                   \t12\nUdp6NoPorts                     \t5\n";
        assert_eq!((counter_ipv6(snmp6, "Udp6NoPorts"), counter_ipv6(snmp6, "Udp6InErrors")), (5, 0));
    }

    #[test]
    fn this_process_costs_something() {
        let mut sum = 0_u64;
        // The kernel counts in ticks of 10 ms.
        while cpu_time(std::process::id()).expect("cpu").total() < Duration::from_millis(10) {
            sum = (0..100_000).fold(sum, |sum, _| std::hint::black_box(sum.wrapping_add(1)));
        }
        let memory = memory(std::process::id()).expect("memory");
        assert!(memory.resident_bytes > 100_000 && memory.peak_bytes >= memory.resident_bytes);
        assert!(threads(std::process::id()).expect("threads") >= 1);
        assert!(machine_busy().expect("busy") > Duration::ZERO);
        let (all, stolen) = machine_stolen().expect("stolen");
        assert!(all > stolen);
    }
}
