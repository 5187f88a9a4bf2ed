//! Checks of traffic.

use std::time::Duration;

use trunkline_workload::{Pattern, Timing};

use super::{Checked, SettingsError, dscp, ensure, tcp};
use crate::{NodeId, TcpTraffic, UdpTraffic};

/// What traffic of both kinds has.
fn flow((from, to): (NodeId, NodeId), port: u16, (start, stop): (Duration, Option<Duration>)) -> Checked {
    if from == to {
        let (place, problem) = (String::new(), "sends to itself; allowed: two nodes");
        return Err(SettingsError::Node { place, node: from, problem });
    }
    ensure(port > 0, "port", port, "1 to 65535")?;
    ensure(stop.is_none_or(|stop| stop > start), "stop", stop.unwrap_or_default(), "later than start")
}

impl TcpTraffic {
    /// Connections from one node to one port of another at most, of all sources together: there are not many more ports.
    pub const MAX_CONNECTIONS: u32 = Pattern::MAX_USERS;

    /// Whether this can be sent.
    pub fn check(&self) -> Result<(), SettingsError> {
        flow((self.client, self.server), self.port, (self.start, self.stop))?;
        dscp(self.dscp)?;
        tcp("tcp[0]", &self.tcp[0])?;
        tcp("tcp[1]", &self.tcp[1])?;
        Ok(self.pattern.check().map_err(|error| error.within("pattern"))?)
    }
}

impl UdpTraffic {
    /// Whether this can be sent.
    pub fn check(&self) -> Result<(), SettingsError> {
        flow((self.from, self.to), self.port, (self.start, self.stop))?;
        dscp(self.dscp)?;
        Timing::check_data("data", self.data)?;
        Ok(self.timing.check().map_err(|error| error.within("timing"))?)
    }
}
