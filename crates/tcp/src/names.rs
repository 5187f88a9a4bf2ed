//! Settings as text: the names of choices, and all settings for a result to print.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use trunkline_congestion::UnknownName;

use crate::{
    CongestionAlgorithm, Counting, DelayedAck, Preset, Recovery, Settings, SlowStart, SpuriousDetection,
    Timers,
};

impl FromStr for Preset {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        UnknownName::find("preset", &Preset::ALL, Preset::name, text)
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Recovery {
    /// All of them.
    pub const ALL: [Recovery; 5] =
        [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::RackTlp];

    /// The name that files use.
    pub const fn name(self) -> &'static str {
        match self {
            Recovery::Tahoe => "tahoe",
            Recovery::Reno => "reno",
            Recovery::NewReno => "newreno",
            Recovery::Sack => "sack",
            Recovery::RackTlp => "rack-tlp",
        }
    }
}

impl FromStr for Recovery {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        UnknownName::find("recovery", &Recovery::ALL, Recovery::name, text)
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

impl Settings {
    /// These, with another congestion control algorithm.
    #[must_use]
    pub fn with_congestion_control(self, congestion_control: CongestionAlgorithm) -> Self {
        Settings { congestion_control, ..self }
    }

    /// These, with another slow start.
    #[must_use]
    pub fn with_slow_start(self, slow_start: SlowStart) -> Self {
        Settings { slow_start, ..self }
    }

    /// These, with another loss recovery, and with SACK if that recovery needs it.
    #[must_use]
    pub fn with_recovery(self, recovery: Recovery) -> Self {
        Settings { recovery, sack: matches!(recovery, Recovery::Sack | Recovery::RackTlp), ..self }
    }

    /// These, with another MSS option.
    #[must_use]
    pub fn with_mss(self, mss: u16) -> Self {
        Settings { mss, ..self }
    }

    /// These, with send and receive buffers of so many bytes.
    #[must_use]
    pub fn with_buffers(self, bytes: u64) -> Self {
        Settings { send_buffer: bytes, receive_buffer: bytes, ..self }
    }

    /// All settings as text in a fixed order, for a result.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let Settings {
            name,
            recovery,
            congestion_control,
            custom_congestion,
            slow_start,
            spurious,
            timers:
                Timers {
                    rto,
                    initial_rto,
                    min_rto,
                    max_rto,
                    granularity,
                    phase,
                    max_retransmissions,
                    max_syn_retransmissions,
                    max_syn_ack_retransmissions,
                    linear_syn_retransmissions,
                    time_wait,
                },
            delayed_ack,
            mss,
            initial_window,
            initial_ssthresh,
            duplicate_threshold,
            limited_transmit,
            counting,
            restart_after_idle,
            cwnd_validation,
            sack,
            timestamps,
            window_scaling,
            ecn,
            path_mtu_discovery,
            fails_on_soft_errors,
            nagle,
            tso,
            gro,
            send_buffer,
            receive_buffer,
            initial_receive_window,
            initial_receive_buffer,
        } = self;
        let slow_start = match slow_start {
            SlowStart::Limited { max_ssthresh } => format!("limited above {max_ssthresh} segments"),
            other => other.name().to_owned(),
        };
        let spurious = match spurious {
            SpuriousDetection::None => "none",
            SpuriousDetection::FRto => "f-rto",
            SpuriousDetection::Eifel => "eifel",
        };
        let delayed_ack = match delayed_ack {
            None => "none".to_owned(),
            Some(DelayedAck { timeout, ticks, every, quick, pushed, adaptive }) => {
                let ticks = if *ticks { " of a clock" } else { "" };
                let pushed = if *pushed { ", and what ends a write" } else { "" };
                let adaptive = if *adaptive { " and more, by the times between arrivals" } else { "" };
                let timeout = seconds(*timeout);
                format!(
                    "{timeout}{ticks}{adaptive}, every {every} segments, the first {quick} at once{pushed}"
                )
            }
        };
        let counting = match counting {
            Counting::Acks => "acknowledgements".to_owned(),
            Counting::Bytes { limit: None } => "bytes".to_owned(),
            Counting::Bytes { limit: Some(limit) } => format!("bytes, {limit} segments in slow start"),
        };
        let initial_ssthresh = initial_ssthresh.map_or("none".to_owned(), |segments| segments.to_string());
        vec![
            ("preset", (*name).to_owned()),
            ("recovery", recovery.name().to_owned()),
            ("growth", custom_congestion.as_ref().map_or(congestion_control.name(), |_| "custom").to_owned()),
            ("slow_start", slow_start),
            ("spurious", spurious.to_owned()),
            ("rto", rto.name().to_owned()),
            ("initial_rto", seconds(*initial_rto)),
            ("min_rto", seconds(*min_rto)),
            ("max_rto", seconds(*max_rto)),
            ("granularity", seconds(*granularity)),
            ("phase", seconds(*phase)),
            ("max_retransmissions", max_retransmissions.to_string()),
            ("max_syn_retransmissions", max_syn_retransmissions.to_string()),
            ("max_syn_ack_retransmissions", max_syn_ack_retransmissions.to_string()),
            ("linear_syn_retransmissions", linear_syn_retransmissions.to_string()),
            ("time_wait", seconds(*time_wait)),
            ("delayed_ack", delayed_ack),
            ("mss", mss.to_string()),
            ("initial_window", initial_window.to_string()),
            ("initial_ssthresh", initial_ssthresh),
            ("duplicate_threshold", duplicate_threshold.to_string()),
            ("limited_transmit", limited_transmit.to_string()),
            ("counting", counting),
            ("restart_after_idle", restart_after_idle.to_string()),
            ("cwnd_validation", cwnd_validation.to_string()),
            ("sack", sack.to_string()),
            ("timestamps", timestamps.to_string()),
            ("window_scaling", window_scaling.to_string()),
            ("ecn", ecn.to_string()),
            ("path_mtu_discovery", path_mtu_discovery.to_string()),
            ("fails_on_soft_errors", fails_on_soft_errors.to_string()),
            ("nagle", nagle.to_string()),
            ("tso", tso.to_string()),
            ("gro", gro.map_or("none".to_owned(), seconds)),
            ("send_buffer", send_buffer.to_string()),
            ("receive_buffer", receive_buffer.to_string()),
            (
                "initial_receive_window",
                initial_receive_window.map_or("none".to_owned(), |bytes| bytes.to_string()),
            ),
            (
                "initial_receive_buffer",
                initial_receive_buffer.map_or("none".to_owned(), |bytes| bytes.to_string()),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<T: Copy + PartialEq + fmt::Debug + FromStr<Err = UnknownName>>(
        all: &[T],
        name: fn(T) -> &'static str,
    ) {
        for one in all {
            assert_eq!(name(*one).parse::<T>(), Ok(*one));
        }
        let error = "swift".parse::<T>().unwrap_err();
        assert_eq!(error.allowed.len(), all.len());
    }

    #[test]
    fn what_can_be_chosen_is_found_by_its_name() {
        names(&Recovery::ALL, Recovery::name);
        names(&CongestionAlgorithm::ALL, CongestionAlgorithm::name);
        names(&SlowStart::ALL, SlowStart::name);
        names(&Preset::ALL, Preset::name);
    }

    #[test]
    fn settings_that_differ_are_described_differently() {
        let plain = Preset::Linux6.settings();
        let others = [
            Settings { delayed_ack: None, ..plain.clone() },
            Settings { counting: Counting::Bytes { limit: Some(2) }, ..plain.clone() },
            Settings { slow_start: SlowStart::Limited { max_ssthresh: 64 }, ..plain.clone() },
            Settings { initial_ssthresh: Some(20), ..plain.clone() },
            Settings { spurious: SpuriousDetection::FRto, ..plain.clone() },
        ];
        for other in others {
            let (ours, theirs) = (plain.describe(), other.describe());
            assert_eq!(ours.iter().zip(&theirs).filter(|(a, b)| a != b).count(), 1, "{other:?}");
        }
    }
}
