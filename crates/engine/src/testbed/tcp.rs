//! A TCP of an experiment as settings of this machine's kernel.
//!
//! A kernel is one TCP with many switches. What a preset of an era has and the kernel has not is approximated, and each substitution
//! is named in the result. What a file asks for by itself (a key beside `preset`) is refused by name if the kernel has no switch for it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use trunkline_tcp::{
    BicVersion, CongestionAlgorithm, Counting, Preset, Recovery, RtoRule, Settings, SlowStart,
    SpuriousDetection,
};
use trunkline_testbed::congestion::Loadable;
use trunkline_testbed::kernel::Kernel;

/// The kernel's settings for a TCP: of the host, of its routes, and of its sockets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KernelTcp {
    /// Settings under `net.ipv4` of the host, which all its connections share.
    pub(super) sysctls: BTreeMap<&'static str, String>,
    /// Of the route to the other end: segments.
    pub(super) initial_window: u32,
    /// Of the same, segments.
    pub(super) initial_ssthresh: Option<u32>,
    /// Of the same: whether every segment is acknowledged at once.
    pub(super) quick_acks: bool,
    /// The kernel's name of the congestion control.
    pub(super) congestion_control: String,
    /// The same, if it has to be loaded into the kernel first.
    pub(super) loads: Option<Loadable>,
    /// The MSS option.
    pub(super) mss: u16,
    /// The largest window that the receiver offers, bytes.
    pub(super) receive_window: u64,
    /// Bytes that a sender may have written and not had acknowledged.
    pub(super) send_buffer: u64,
    /// Whether small segments wait for acknowledgements.
    pub(super) nagle: bool,
    /// Whether the host's TCP builds super-packets, which are cut before they come onto a link.
    pub(super) super_packets: bool,
    /// What is different from the TCP that the experiment asks for.
    pub(super) substitutions: Vec<String>,
}

/// Kernels from this release on have no loss recovery by the SACK scoreboard alone (RFC 6675): RACK cannot be switched off.
const RACK_ONLY: (u32, u32) = (6, 17);
/// Milliseconds; the shortest that `tcp_rto_max_ms` takes.
const SHORTEST_MAX_RTO: Duration = Duration::from_secs(1);
/// The most that `tcp_syn_retries` takes.
const MAX_SYN_RETRIES: u8 = 127;
/// Kernel's own, which has no switch.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// The tick of a kernel with the lowest timer frequency in use (100 Hz): clocks that are finer than this are the kernel's.
const TICK: Duration = Duration::from_millis(10);

/// Compares an experiment's TCP with the preset that it began as and with the kernel.
struct Comparison<'s> {
    settings: &'s Settings,
    preset: Option<Settings>,
    substitutions: Vec<String>,
}

impl Comparison<'_> {
    /// A setting that the kernel cannot have: named if the preset has it, refused if the file asks for it.
    fn substitute<T: PartialEq>(
        &mut self,
        of: impl Fn(&Settings) -> T,
        what: &str,
        wanted: impl Display,
        kernel: impl Display,
    ) -> Result<(), String> {
        let from_preset = self.preset.as_ref().is_some_and(|preset| of(preset) == of(self.settings));
        if !from_preset {
            return Err(format!("asks for {what} {wanted}; this kernel has {kernel} only"));
        }
        self.substitutions.push(format!("{}: {what} {kernel} instead of {wanted}", self.settings.name));
        Ok(())
    }
}

/// The kernel's settings for a TCP, or why the kernel cannot be this TCP.
pub(super) fn kernel_tcp(settings: &Settings, kernel: &Kernel) -> Result<KernelTcp, String> {
    let preset = settings.name.parse::<Preset>().ok().map(Preset::settings);
    let mut compared = Comparison { settings, preset, substitutions: Vec::new() };
    let mut sysctls = BTreeMap::new();
    let mut set = |name: &'static str, value: &dyn Display| {
        sysctls.insert(name, value.to_string());
    };
    let switch = |on: bool| u8::from(on);

    let (congestion_control, loads) = congestion_control(settings.congestion_control, kernel)?;
    if loads.is_some() {
        let name = settings.congestion_control.name();
        compared.substitutions.push(format!("{}: {name} by a BPF program of ours", settings.name));
    }

    let has_rack_only = kernel.release >= RACK_ONLY;
    match settings.recovery {
        Recovery::Tahoe => return Err("asks for recovery tahoe, which Linux does not have".to_owned()),
        Recovery::Reno => compared.substitute(|tcp| tcp.recovery, "recovery", "reno", "newreno")?,
        Recovery::Sack if has_rack_only => {
            compared.substitute(|tcp| tcp.recovery, "recovery", "sack (RFC 6675)", "by RACK (RFC 8985)")?;
        }
        Recovery::NewReno | Recovery::Sack | Recovery::RackTlp => {}
    }
    let modern = settings.recovery == Recovery::RackTlp;
    set("tcp_sack", &switch(settings.sack));
    set("tcp_recovery", &switch(modern));
    set("tcp_early_retrans", &(if modern { 3 } else { 0 }));
    set("tcp_timestamps", &switch(settings.timestamps));
    set("tcp_window_scaling", &switch(settings.window_scaling));
    set("tcp_ecn", &switch(settings.ecn));
    set("tcp_reordering", &settings.duplicate_threshold);
    set("tcp_slow_start_after_idle", &switch(settings.restart_after_idle));
    set("tcp_frto", &(if settings.spurious == SpuriousDetection::None { 0 } else { 2 }));
    set("tcp_retries2", &settings.timers.max_retransmissions);

    let timers = &settings.timers;
    let mut linear = timers.linear_syn_retransmissions.min(MAX_SYN_RETRIES);
    if kernel.has("tcp_syn_linear_timeouts") {
        set("tcp_syn_linear_timeouts", &linear);
    } else if linear > 0 {
        let what = "linear SYN retransmissions";
        compared.substitute(|tcp| tcp.timers.linear_syn_retransmissions, what, linear, 0)?;
        linear = 0;
    }
    let wanted = timers.max_syn_retransmissions;
    let retries = wanted.saturating_sub(timers.linear_syn_retransmissions).clamp(1, MAX_SYN_RETRIES);
    if retries + linear != wanted {
        let what = "SYN retransmissions";
        compared.substitute(|tcp| tcp.timers.max_syn_retransmissions, what, wanted, retries + linear)?;
    }
    set("tcp_syn_retries", &retries);
    set("tcp_synack_retries", &timers.max_syn_ack_retransmissions);

    let kernels_slow_start =
        if congestion_control == "cubic" { SlowStart::HyStart } else { SlowStart::Classic };
    if settings.slow_start != kernels_slow_start && congestion_control != "bbr" {
        let name = |of: SlowStart| if of == SlowStart::HyStart { "hystart" } else { "classic" };
        let wanted = match settings.slow_start {
            SlowStart::Limited { .. } => "limited",
            SlowStart::HyStartPlusPlus => "hystart++",
            other => name(other),
        };
        compared.substitute(|tcp| tcp.slow_start, "slow start", wanted, name(kernels_slow_start))?;
    }
    if settings.counting == Counting::Acks {
        compared.substitute(|tcp| tcp.counting, "counting", "acks", "bytes")?;
    }
    if !settings.limited_transmit {
        compared.substitute(|tcp| tcp.limited_transmit, "limited transmit", "off", "on")?;
    }

    if timers.rto != RtoRule::Linux {
        compared.substitute(|tcp| tcp.timers.rto, "RTO rule", "rfc6298", "linux")?;
    }
    if timers.initial_rto != INITIAL_RTO {
        let wanted = format!("{:?}", timers.initial_rto);
        compared.substitute(|tcp| tcp.timers.initial_rto, "initial RTO", wanted, "1s")?;
    }
    if timers.granularity > TICK {
        let wanted = format!("{:?}", timers.granularity);
        compared.substitute(|tcp| tcp.timers.granularity, "clock granularity", wanted, "10ms or finer")?;
    }
    if kernel.has("tcp_rto_min_us") {
        set("tcp_rto_min_us", &timers.min_rto.as_micros());
    } else if timers.min_rto != Duration::from_millis(200) {
        let wanted = format!("{:?}", timers.min_rto);
        compared.substitute(|tcp| tcp.timers.min_rto, "minimum RTO", wanted, "200ms")?;
    }
    if kernel.has("tcp_rto_max_ms") && timers.max_rto >= SHORTEST_MAX_RTO {
        set("tcp_rto_max_ms", &timers.max_rto.min(Duration::from_secs(120)).as_millis());
    } else if timers.max_rto != Duration::from_secs(120) {
        let wanted = format!("{:?}", timers.max_rto);
        compared.substitute(|tcp| tcp.timers.max_rto, "maximum RTO", wanted, "120s")?;
    }

    if let Some(time) = settings.gro {
        // Packets come out of a TUN device one by one.
        compared.substitute(|tcp| tcp.gro, "receive offload", format!("of {time:?}"), "none")?;
    }
    if let Some(delayed) = settings.delayed_ack {
        if delayed.every != 2 {
            let wanted = format!("every {} segments", delayed.every);
            compared.substitute(|tcp| tcp.delayed_ack, "acknowledgements", wanted, "every 2")?;
        } else if delayed.ticks || delayed.timeout > Duration::from_millis(200) {
            let clock = if delayed.ticks { " by a clock of the host" } else { "" };
            let wanted = format!("up to {:?}{clock}", delayed.timeout);
            compared.substitute(
                |tcp| tcp.delayed_ack,
                "delay of acknowledgements",
                wanted,
                "40ms to 200ms",
            )?;
        }
    }
    Ok(KernelTcp {
        sysctls,
        initial_window: settings.initial_window,
        initial_ssthresh: settings.initial_ssthresh,
        quick_acks: settings.delayed_ack.is_none(),
        congestion_control,
        loads,
        mss: settings.mss,
        receive_window: settings.receive_buffer,
        send_buffer: settings.send_buffer,
        nagle: settings.nagle,
        super_packets: settings.tso,
        substitutions: compared.substitutions,
    })
}

/// The kernel's name of a congestion control, and what is to be loaded for it.
fn congestion_control(
    wanted: CongestionAlgorithm,
    kernel: &Kernel,
) -> Result<(String, Option<Loadable>), String> {
    let name = wanted.name();
    // Linux has had one BIC since 2.6.15, and calls it so.
    let own = match wanted {
        CongestionAlgorithm::Compound => {
            return Err("asks for congestion control compound, which Linux does not have".to_owned());
        }
        CongestionAlgorithm::Bic(BicVersion::Original | BicVersion::Linux266) => None,
        _ => Some(name),
    };
    if let Some(own) = own.filter(|own| kernel.congestion_controls.iter().any(|known| known == own)) {
        return Ok((own.to_owned(), None));
    }
    let known = kernel.congestion_controls.join(", ");
    let loadable = match wanted {
        CongestionAlgorithm::Bic(BicVersion::Linux) => Loadable::Bic,
        CongestionAlgorithm::Bic(BicVersion::Original) => Loadable::BicOriginal,
        CongestionAlgorithm::Bic(BicVersion::Linux266) => Loadable::Bic266,
        _ => return Err(format!("asks for congestion control {name}; this kernel has {known}")),
    };
    if !kernel.lacks_for_loading.is_empty() {
        let lacks = kernel.lacks_for_loading.join(", ");
        return Err(format!(
            "asks for congestion control {name}; this kernel has {known}, and to load it this machine lacks {lacks}"
        ));
    }
    Ok((loadable.name(), Some(loadable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        fn names<C: FromIterator<String>>(names: &[&str]) -> C {
            names.iter().map(|name| (*name).to_owned()).collect()
        }
        Kernel {
            release: (6, 18),
            congestion_controls: names(&["reno", "bbr", "cubic"]),
            lacks_for_loading: names(&["clang"]),
            tcp_sysctls: names(&["tcp_rto_min_us", "tcp_rto_max_ms", "tcp_syn_linear_timeouts"]),
        }
    }

    #[test]
    fn a_modern_stack_is_the_kernel_itself() {
        for preset in [Preset::Linux6, Preset::Linux6Reno] {
            let tcp = kernel_tcp(&preset.settings(), &kernel()).expect("the kernel is Linux");
            assert_eq!(tcp.substitutions, Vec::<String>::new(), "{}", preset.name());
            let retries = ["tcp_syn_retries", "tcp_syn_linear_timeouts", "tcp_synack_retries"]
                .map(|key| &tcp.sysctls[key]);
            assert_eq!(retries, ["6", "4", "5"], "the kernel's own defaults");
        }
    }

    #[test]
    fn an_eras_stack_is_approximated_and_each_difference_named() {
        let tcp = kernel_tcp(&Preset::Bsd44.settings(), &kernel()).expect("approximated");
        assert_eq!(
            tcp.substitutions,
            [
                "bsd-4.4: recovery newreno instead of reno",
                "bsd-4.4: counting bytes instead of acks",
                "bsd-4.4: limited transmit on instead of off",
                "bsd-4.4: RTO rule linux instead of rfc6298",
                "bsd-4.4: initial RTO 1s instead of 6s",
                "bsd-4.4: clock granularity 10ms or finer instead of 500ms",
                "bsd-4.4: delay of acknowledgements 40ms to 200ms instead of up to 200ms by a clock of the host",
            ]
        );
        assert_eq!(tcp.sysctls["tcp_sack"], "0");
        assert_eq!(tcp.sysctls["tcp_rto_min_us"], "1000000");
        assert_eq!((tcp.receive_window, tcp.initial_window), (16_384, 1));
    }

    #[test]
    fn what_a_file_asks_for_by_itself_is_refused_if_the_kernel_has_it_not() {
        let refused = |change: &dyn Fn(&mut Settings)| {
            let mut settings = Preset::Linux6Reno.settings();
            change(&mut settings);
            kernel_tcp(&settings, &kernel()).expect_err("refused")
        };
        let clock = refused(&|tcp| tcp.timers.granularity = Duration::from_millis(500));
        assert_eq!(clock, "asks for clock granularity 500ms; this kernel has 10ms or finer only");
        let gro = refused(&|tcp| tcp.gro = Some(Duration::from_micros(20)));
        assert_eq!(gro, "asks for receive offload of 20µs; this kernel has none only");
        let tahoe = refused(&|tcp| tcp.recovery = Recovery::Tahoe);
        assert_eq!(tahoe, "asks for recovery tahoe, which Linux does not have");
        let bic = refused(&|tcp| tcp.congestion_control = CongestionAlgorithm::Bic(BicVersion::Linux));
        assert_eq!(
            bic,
            "asks for congestion control bic; this kernel has reno, bbr, cubic, and to load it this machine lacks clang"
        );
        let old = refused(&|tcp| tcp.congestion_control = CongestionAlgorithm::Bic(BicVersion::Original));
        assert!(
            old.starts_with("asks for congestion control bic-1.0; this kernel has reno, bbr, cubic, and")
        );
        let vegas = refused(&|tcp| tcp.congestion_control = CongestionAlgorithm::Vegas);
        assert_eq!(vegas, "asks for congestion control vegas; this kernel has reno, bbr, cubic");
    }

    #[test]
    fn bic_is_the_kernels_where_it_has_one_and_else_loaded() {
        let with = |version, kernel: &Kernel| {
            let congestion_control = CongestionAlgorithm::Bic(version);
            let settings = Settings { congestion_control, ..Preset::Linux6Reno.settings() };
            let tcp = kernel_tcp(&settings, kernel).expect("there");
            (tcp.congestion_control, tcp.loads, tcp.substitutions.len())
        };
        let equipped = Kernel { lacks_for_loading: Vec::new(), ..kernel() };
        assert_eq!(with(BicVersion::Linux, &equipped), (Loadable::Bic.name(), Some(Loadable::Bic), 1));
        let native = Kernel { congestion_controls: vec!["bic".to_owned()], ..equipped };
        assert_eq!(with(BicVersion::Linux, &native), ("bic".to_owned(), None, 0));
        assert_eq!(with(BicVersion::Linux266, &native).1, Some(Loadable::Bic266));
    }

    #[test]
    fn an_older_kernel_has_the_recovery_of_rfc_6675() {
        let older = Kernel { release: (6, 1), ..kernel() };
        let settings = Preset::Linux22.settings();
        let [newer, older] = [kernel(), older].map(|kernel| {
            let tcp = kernel_tcp(&settings, &kernel).expect("approximated");
            tcp.substitutions.iter().any(|substitution| substitution.contains("RACK"))
        });
        assert_eq!((newer, older), (true, false));
    }
}
