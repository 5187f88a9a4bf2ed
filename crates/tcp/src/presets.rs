//! The settings of the stacks of several eras. docs/models/presets.md has the source of each figure, and which are
//! uncertain.

use std::time::Duration;

use crate::{
    CongestionAlgorithm, Counting, DelayedAck, Recovery, RtoRule, Settings, SlowStart, SpuriousDetection,
    Timers,
};

/// A stack of an era.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// 4.4BSD, of 1994: the code in kung1998's simulator.
    Bsd44,
    /// Linux 2.2, of 1999: lee2002's testbed.
    Linux22,
    /// Linux 2.4, of 2002: damjanovic2007's testbed, which added BIC to it.
    Linux24,
    /// OPNET 10's Reno, without SACK: honda2005's simulator.
    OpnetReno,
    /// ns-2.26's `Agent/TCP/Reno` and `Agent/TCPSink`: bosau2004's simulator.
    Ns2Reno,
    /// Linux today, CUBIC.
    Linux6,
    /// Linux today with its `reno`.
    Linux6Reno,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 7] = [
        Preset::Bsd44,
        Preset::Linux22,
        Preset::Linux24,
        Preset::OpnetReno,
        Preset::Ns2Reno,
        Preset::Linux6,
        Preset::Linux6Reno,
    ];

    /// The name that files use.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Bsd44 => "bsd-4.4",
            Preset::Linux22 => "linux-2.2",
            Preset::Linux24 => "linux-2.4",
            Preset::OpnetReno => "opnet-reno",
            Preset::Ns2Reno => "ns2-reno",
            Preset::Linux6 => "linux-6",
            Preset::Linux6Reno => "linux-6-reno",
        }
    }

    /// What it stands for, in full.
    pub fn settings(self) -> Settings {
        match self {
            Preset::Bsd44 => bsd_44(),
            Preset::Linux22 => linux_22(),
            Preset::Linux24 => linux_24(),
            Preset::OpnetReno => opnet_reno(),
            Preset::Ns2Reno => ns2_reno(),
            Preset::Linux6 => linux_6(),
            Preset::Linux6Reno => Settings {
                name: Preset::Linux6Reno.name(),
                congestion_control: CongestionAlgorithm::Reno,
                custom_congestion: None,
                slow_start: SlowStart::Classic,
                ..linux_6()
            },
        }
    }
}

fn bsd_44() -> Settings {
    Settings {
        name: Preset::Bsd44.name(),
        recovery: Recovery::Reno,
        congestion_control: CongestionAlgorithm::Reno,
        custom_congestion: None,
        slow_start: SlowStart::Classic,
        spurious: SpuriousDetection::None,
        timers: Timers {
            rto: RtoRule::Rfc6298,
            initial_rto: Duration::from_secs(6),
            min_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(64),
            granularity: Duration::from_millis(500),
            phase: Duration::ZERO,
            max_retransmissions: 12,
            max_syn_retransmissions: 3,
            max_syn_ack_retransmissions: 3,
            linear_syn_retransmissions: 0,
            time_wait: Duration::from_secs(60),
        },
        delayed_ack: Some(DelayedAck {
            timeout: Duration::from_millis(200),
            ticks: true,
            every: 2,
            quick: 0,
            pushed: false,
            adaptive: false,
        }),
        mss: 1460,
        initial_window: 1,
        initial_ssthresh: None,
        duplicate_threshold: 3,
        limited_transmit: false,
        counting: Counting::Acks,
        restart_after_idle: true,
        cwnd_validation: false,
        sack: false,
        timestamps: true,
        window_scaling: true,
        ecn: false,
        path_mtu_discovery: false,
        fails_on_soft_errors: false,
        nagle: true,
        tso: false,
        gro: None,
        send_buffer: 16_384,
        receive_buffer: 16_384,
        initial_receive_window: None,
        initial_receive_buffer: None,
    }
}

fn linux_22() -> Settings {
    Settings {
        name: Preset::Linux22.name(),
        recovery: Recovery::Sack,
        congestion_control: CongestionAlgorithm::Reno,
        custom_congestion: None,
        slow_start: SlowStart::Classic,
        spurious: SpuriousDetection::None,
        timers: Timers {
            rto: RtoRule::Rfc6298,
            initial_rto: Duration::from_secs(3),
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(120),
            granularity: Duration::from_millis(10),
            phase: Duration::ZERO,
            max_retransmissions: 15,
            max_syn_retransmissions: 10,
            max_syn_ack_retransmissions: 7,
            linear_syn_retransmissions: 0,
            time_wait: Duration::from_secs(60),
        },
        delayed_ack: Some(DelayedAck {
            timeout: Duration::from_millis(200),
            ticks: false,
            every: 2,
            quick: 8,
            pushed: false,
            adaptive: false,
        }),
        mss: 1460,
        initial_window: 2,
        initial_ssthresh: None,
        duplicate_threshold: 3,
        limited_transmit: false,
        counting: Counting::Acks,
        restart_after_idle: true,
        cwnd_validation: false,
        sack: true,
        timestamps: true,
        window_scaling: true,
        ecn: false,
        path_mtu_discovery: false,
        fails_on_soft_errors: true,
        nagle: true,
        tso: false,
        gro: None,
        send_buffer: 65_535,
        // Half of 64 KB, in whole segments: the other half is for what the kernel counts beside data.
        receive_buffer: 32_120,
        initial_receive_window: None,
        initial_receive_buffer: None,
    }
}

fn linux_24() -> Settings {
    Settings {
        name: Preset::Linux24.name(),
        spurious: SpuriousDetection::Eifel,
        timers: Timers { max_syn_retransmissions: 5, max_syn_ack_retransmissions: 5, ..linux_22().timers },
        delayed_ack: Some(DelayedAck {
            timeout: Duration::from_millis(40),
            ticks: false,
            every: 2,
            quick: 16,
            pushed: false,
            adaptive: false,
        }),
        initial_window: 3,
        limited_transmit: true,
        cwnd_validation: true,
        send_buffer: 131_072,
        receive_buffer: 65_535,
        ..linux_22()
    }
}

fn opnet_reno() -> Settings {
    Settings {
        name: Preset::OpnetReno.name(),
        recovery: Recovery::Reno,
        congestion_control: CongestionAlgorithm::Reno,
        custom_congestion: None,
        slow_start: SlowStart::Classic,
        spurious: SpuriousDetection::None,
        timers: Timers {
            rto: RtoRule::Rfc6298,
            initial_rto: Duration::from_secs(3),
            min_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(64),
            granularity: Duration::from_millis(500),
            phase: Duration::ZERO,
            max_retransmissions: 6,
            max_syn_retransmissions: 3,
            max_syn_ack_retransmissions: 3,
            linear_syn_retransmissions: 0,
            time_wait: Duration::from_secs(60),
        },
        delayed_ack: Some(DelayedAck {
            timeout: Duration::from_millis(200),
            ticks: false,
            every: 2,
            quick: 0,
            pushed: false,
            adaptive: false,
        }),
        mss: 1460,
        initial_window: 2,
        initial_ssthresh: None,
        duplicate_threshold: 3,
        limited_transmit: false,
        counting: Counting::Acks,
        restart_after_idle: true,
        cwnd_validation: false,
        sack: false,
        timestamps: false,
        window_scaling: true,
        ecn: false,
        path_mtu_discovery: false,
        fails_on_soft_errors: false,
        nagle: false,
        tso: false,
        gro: None,
        send_buffer: 640_000,
        receive_buffer: 640_000,
        initial_receive_window: None,
        initial_receive_buffer: None,
    }
}

fn ns2_reno() -> Settings {
    Settings {
        name: Preset::Ns2Reno.name(),
        recovery: Recovery::Reno,
        congestion_control: CongestionAlgorithm::Reno,
        custom_congestion: None,
        slow_start: SlowStart::Classic,
        spurious: SpuriousDetection::None,
        timers: Timers {
            rto: RtoRule::Rfc6298,
            initial_rto: Duration::from_secs(6),
            min_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(86_400),
            granularity: Duration::from_millis(10),
            phase: Duration::ZERO,
            // It never gives up; a simulation ends before these do.
            max_retransmissions: u8::MAX,
            max_syn_retransmissions: u8::MAX,
            max_syn_ack_retransmissions: u8::MAX,
            linear_syn_retransmissions: 0,
            time_wait: Duration::from_secs(60),
        },
        delayed_ack: None,
        mss: 1000,
        initial_window: 2,
        initial_ssthresh: Some(20),
        duplicate_threshold: 3,
        limited_transmit: true,
        counting: Counting::Acks,
        restart_after_idle: true,
        cwnd_validation: false,
        sack: false,
        timestamps: false,
        window_scaling: false,
        ecn: false,
        path_mtu_discovery: false,
        fails_on_soft_errors: false,
        nagle: false,
        tso: false,
        gro: None,
        send_buffer: 20_000,
        receive_buffer: 20_000,
        initial_receive_window: None,
        initial_receive_buffer: None,
    }
}

fn linux_6() -> Settings {
    Settings {
        name: Preset::Linux6.name(),
        recovery: Recovery::RackTlp,
        congestion_control: CongestionAlgorithm::Cubic,
        custom_congestion: None,
        slow_start: SlowStart::HyStart,
        spurious: SpuriousDetection::Eifel,
        timers: Timers {
            rto: RtoRule::Linux,
            initial_rto: Duration::from_secs(1),
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(120),
            granularity: Duration::from_micros(1),
            phase: Duration::ZERO,
            max_retransmissions: 15,
            max_syn_retransmissions: 10,
            max_syn_ack_retransmissions: 5,
            linear_syn_retransmissions: 4,
            time_wait: Duration::from_secs(60),
        },
        delayed_ack: Some(DelayedAck {
            timeout: Duration::from_millis(40),
            ticks: false,
            every: 2,
            quick: 16,
            pushed: true,
            adaptive: true,
        }),
        mss: 1460,
        initial_window: 10,
        initial_ssthresh: None,
        duplicate_threshold: 3,
        limited_transmit: true,
        counting: Counting::Bytes { limit: None },
        restart_after_idle: true,
        cwnd_validation: true,
        sack: true,
        timestamps: true,
        window_scaling: true,
        ecn: false,
        path_mtu_discovery: false,
        fails_on_soft_errors: true,
        nagle: true,
        tso: false,
        gro: None,
        send_buffer: 4_194_304,
        receive_buffer: 3_145_728,
        initial_receive_window: Some(65_535),
        // 128 KiB (`tcp_rmem`), five eighths of which is data where a segment of 1448 bytes takes 2304 of memory.
        initial_receive_buffer: Some(81_920),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BicVersion;

    #[test]
    fn a_preset_is_found_by_its_name_and_prints_it() {
        for preset in Preset::ALL {
            assert_eq!(preset.name().parse(), Ok(preset));
            assert_eq!(preset.settings().name, preset.name());
            assert_eq!(preset.settings().describe()[0], ("preset", preset.name().to_owned()));
        }
        let error = "linux-7".parse::<Preset>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"linux-7\" is no preset; allowed: bsd-4.4, linux-2.2, linux-2.4, opnet-reno, ns2-reno, linux-6, linux-6-reno"
        );
    }

    #[test]
    fn presets_of_an_era_are_consistent_with_themselves() {
        for preset in Preset::ALL {
            let settings = preset.settings();
            let timers = settings.timers;
            assert!(
                timers.min_rto <= timers.initial_rto && timers.initial_rto <= timers.max_rto,
                "{preset:?}"
            );
            assert!(settings.receive_buffer <= 65_535 || settings.window_scaling, "{preset:?}");
            let by_sack = matches!(settings.recovery, Recovery::Sack | Recovery::RackTlp);
            assert_eq!(by_sack, settings.sack, "{preset:?}");
        }
    }

    #[test]
    fn linux_with_reno_differs_from_linux_in_growth_and_start_alone() {
        let reno = Preset::Linux6Reno.settings();
        let cubic = Preset::Linux6.settings();
        let differing: Vec<_> = reno
            .describe()
            .into_iter()
            .zip(cubic.describe())
            .filter(|(reno, cubic)| reno != cubic)
            .map(|((key, _), _)| key)
            .collect();
        assert_eq!(differing, ["preset", "growth", "slow_start"]);
    }

    #[test]
    fn the_builder_changes_what_it_names() {
        let settings = Preset::Linux6
            .settings()
            .with_congestion_control(CongestionAlgorithm::Bic(BicVersion::Linux))
            .with_slow_start(SlowStart::Classic)
            .with_recovery(Recovery::NewReno)
            .with_mss(536)
            .with_buffers(100_000);
        let described = settings.describe();
        let value = |wanted: &str| {
            described.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value.as_str()).unwrap()
        };
        assert_eq!(value("preset"), "linux-6");
        assert_eq!(value("growth"), "bic");
        assert_eq!(value("recovery"), "newreno");
        assert_eq!(value("slow_start"), "classic");
        assert_eq!(value("sack"), "false", "NewReno knows none");
        assert_eq!(
            (value("mss"), value("send_buffer"), value("receive_buffer")),
            ("536", "100000", "100000")
        );
    }
}
