//! `net.ipv4.tcp_early_demux`.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};

use super::RoutingError;
use crate::plan::Plan;

/// The kernel's look-up of a packet's socket before its route: off while this value is there. Besides packets for sockets in TIME-WAIT,
/// it would cost those that are diverted from sockets whose tail is emulated.
#[derive(Debug)]
pub(super) struct EarlyDemux {
    /// Opened before the process gives up its access to files.
    setting: File,
    before: Vec<u8>,
}

impl EarlyDemux {
    const PATH: &str = "/proc/sys/net/ipv4/tcp_early_demux";

    /// `None` if it is off already.
    fn switch_off() -> io::Result<Option<Self>> {
        let before = std::fs::read(Self::PATH)?;
        if before.trim_ascii() == b"0" {
            return Ok(None);
        }
        let mut setting = OpenOptions::new().write(true).open(Self::PATH)?;
        setting.write_all(b"0")?;
        Ok(Some(EarlyDemux { setting, before }))
    }

    /// What `plan` needs. Without it a plan with tails does not work, and others do but for connections that are opened again.
    pub(super) fn of(plan: &Plan) -> Result<Option<Self>, RoutingError> {
        if !plan.ends_connections() {
            return Ok(None);
        }
        match Self::switch_off() {
            Ok(switched) => Ok(switched),
            Err(error) if plan.has_tails() => Err(RoutingError::EarlyDemux(error)),
            Err(error) => {
                tracing::warn!(
                    "{}; connections between the addresses and ports of one that ended within a minute may fail",
                    RoutingError::EarlyDemux(error)
                );
                Ok(None)
            }
        }
    }

    /// Leaves it off.
    pub(super) fn stay_off(&mut self) {
        self.before = b"0".to_vec();
    }
}

impl Drop for EarlyDemux {
    fn drop(&mut self) {
        let restored = self.setting.rewind().and_then(|()| self.setting.write_all(&self.before));
        if let Err(error) = restored {
            tracing::warn!("cannot restore {}: {error}", Self::PATH);
        }
    }
}
