//! Checks settings before a connection uses them.

use std::fmt::Debug;
use std::time::Duration;

use crate::{Counting, Settings, SlowStart};

/// A setting of a TCP with a value that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; allowed: {allowed}")]
pub struct SettingsError {
    /// Its key, as in [`Settings`].
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// The allowed values.
    pub allowed: &'static str,
}

fn ensure(
    holds: bool,
    key: &'static str,
    value: impl Debug,
    allowed: &'static str,
) -> Result<(), SettingsError> {
    if holds {
        return Ok(());
    }
    Err(SettingsError { key, value: format!("{value:?}"), allowed })
}

impl Settings {
    /// The longest timer.
    pub const MAX_TIMER: Duration = Duration::from_secs(86_400);

    /// Checks all settings.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.check_timers()?;
        self.check_windows()?;
        if let Some(delayed) = self.delayed_ack {
            let within = delayed.timeout <= Duration::from_secs(1);
            ensure(within, "delayed_ack.timeout", delayed.timeout, "up to 1 s")?;
            ensure(delayed.every > 0, "delayed_ack.every", delayed.every, "1 or more")?;
        }
        let gathers = self.gro.is_none_or(|time| time <= Duration::from_millis(10));
        ensure(gathers, "gro", self.gro, "up to 10 ms")?;
        ensure(self.duplicate_threshold > 0, "duplicate_threshold", self.duplicate_threshold, "1 or more")?;
        if let SlowStart::Limited { max_ssthresh } = self.slow_start {
            ensure(max_ssthresh > 0, "slow_start.max_ssthresh", max_ssthresh, "1 or more segments")?;
        }
        if let Counting::Bytes { limit: Some(limit) } = self.counting {
            ensure(limit > 0, "counting.limit", limit, "1 or more segments")?;
        }
        Ok(())
    }

    fn check_timers(&self) -> Result<(), SettingsError> {
        let timers = &self.timers;
        let some = |key, value: Duration| {
            ensure(!value.is_zero() && value <= Self::MAX_TIMER, key, value, "more than no time, up to a day")
        };
        some("timers.initial_rto", timers.initial_rto)?;
        some("timers.min_rto", timers.min_rto)?;
        some("timers.max_rto", timers.max_rto)?;
        ensure(timers.max_rto >= timers.min_rto, "timers.max_rto", timers.max_rto, "no less than min_rto")?;
        let granular = timers.granularity <= Duration::from_secs(10);
        ensure(granular, "timers.granularity", timers.granularity, "up to 10 s")?;
        let begins = timers.phase.is_zero() || timers.phase < timers.granularity;
        ensure(begins, "timers.phase", timers.phase, "less than timers.granularity")?;
        ensure(timers.time_wait <= Self::MAX_TIMER, "timers.time_wait", timers.time_wait, "up to a day")
    }

    fn check_windows(&self) -> Result<(), SettingsError> {
        // Options take up to 40 bytes of a segment, and its packet has 65535 at the most.
        ensure((64..=65_495).contains(&self.mss), "mss", self.mss, "64 to 65495 bytes")?;
        let segments =
            |key, value: u32| ensure((1..=65_536).contains(&value), key, value, "1 to 65536 segments");
        segments("initial_window", self.initial_window)?;
        segments("initial_ssthresh", self.initial_ssthresh.unwrap_or(1).min(65_536))?;
        let buffer = |key, value: u64| {
            let holds = (u64::from(self.mss)..=1 << 40).contains(&value);
            ensure(holds, key, value, "a segment of mss, up to 2^40 bytes")
        };
        buffer("send_buffer", self.send_buffer)?;
        buffer("receive_buffer", self.receive_buffer)?;
        self.initial_receive_buffer.map_or(Ok(()), |bytes| buffer("initial_receive_buffer", bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DelayedAck, Preset};

    #[test]
    fn every_preset_is_sound() {
        for preset in Preset::ALL {
            assert_eq!(preset.settings().check(), Ok(()), "{preset:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_named_with_what_can() {
        let bad = |change: &dyn Fn(&mut Settings)| {
            let mut settings = Preset::Linux6.settings();
            change(&mut settings);
            settings.check().expect_err("it makes no sense").to_string()
        };
        assert_eq!(bad(&|s| s.mss = 0), "mss is 0; allowed: 64 to 65495 bytes");
        assert!(bad(&|s| s.mss = 65_496).starts_with("mss is 65496"));
        assert!(bad(&|s| s.send_buffer = 0).starts_with("send_buffer is 0; allowed: a segment"));
        assert!(bad(&|s| s.receive_buffer = u64::MAX).starts_with("receive_buffer is 1844"));
        assert!(bad(&|s| s.initial_window = 0).starts_with("initial_window is 0"));
        assert!(bad(&|s| s.initial_ssthresh = Some(0)).starts_with("initial_ssthresh is 0"));
        assert!(bad(&|s| s.duplicate_threshold = 0).starts_with("duplicate_threshold is 0"));
        assert!(bad(&|s| s.timers.min_rto = Duration::ZERO).starts_with("timers.min_rto is 0ns"));
        assert!(bad(&|s| s.timers.initial_rto = Duration::ZERO).starts_with("timers.initial_rto is 0ns"));
        assert!(bad(&|s| s.timers.max_rto = Duration::from_millis(1)).starts_with("timers.max_rto is 1ms"));
        assert!(bad(&|s| s.timers.time_wait = Duration::MAX).starts_with("timers.time_wait"));
        assert!(bad(&|s| s.timers.granularity = Duration::MAX).starts_with("timers.granularity"));
        assert!(bad(&|s| s.slow_start = SlowStart::Limited { max_ssthresh: 0 }).starts_with("slow_start"));
        assert!(bad(&|s| s.counting = Counting::Bytes { limit: Some(0) }).starts_with("counting.limit is 0"));
        let usual = Preset::Linux6.settings().delayed_ack.expect("it delays them");
        let delayed = DelayedAck { timeout: Duration::from_secs(2), ..usual };
        assert!(bad(&|s| s.delayed_ack = Some(delayed)).starts_with("delayed_ack.timeout is 2s"));
        let delayed = DelayedAck { every: 0, ..usual };
        assert!(bad(&|s| s.delayed_ack = Some(delayed)).starts_with("delayed_ack.every is 0"));
    }
}
