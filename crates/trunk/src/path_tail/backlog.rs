//! What waits for the network behind the proxy, and what waits for a host there.

use std::time::Duration;

/// A host that acknowledges nothing for longer, though data is on its way to it, is out of reach. Shorter outages are the network's.
const SILENCE: Duration = Duration::from_secs(1);

/// What the proxy has for one host, as its TCP towards the host sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes that the host has not acknowledged.
    pub held: u64,
    /// Bytes that it has room for beyond what it has acknowledged: the window that it offers.
    pub window: u64,
    /// For how long something has been held and nothing acknowledged.
    pub silent: Duration,
    /// The round trip to it, smoothed.
    pub rtt: Duration,
}

/// What a host does with what is sent to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HostState {
    /// It takes it.
    #[default]
    Taking,
    /// It takes nothing: it has closed its window, or is out of reach.
    Stuck,
}

impl Backlog {
    /// Whether the host takes something.
    pub fn host(&self) -> HostState {
        let is_silent = self.silent > SILENCE.max(self.rtt * 2);
        if self.held > 0 && (is_silent || self.window == 0) { HostState::Stuck } else { HostState::Taking }
    }

    /// Bytes of it that wait for the network. What the host has no room for waits for the host itself, however fast the network is, and
    /// all does where the host is out of reach.
    pub fn waits_for_network(&self) -> u64 {
        match self.host() {
            HostState::Taking => self.held.min(self.window),
            HostState::Stuck => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_has_no_room_for_or_cannot_be_reached_with_does_not_wait_for_the_network() {
        let usual =
            Backlog { held: 5000, window: 60_000, silent: Duration::ZERO, rtt: Duration::from_millis(50) };
        assert_eq!((usual.waits_for_network(), usual.host()), (5000, HostState::Taking));
        let closed = Backlog { window: 0, ..usual };
        assert_eq!((closed.waits_for_network(), closed.host()), (0, HostState::Stuck), "it does not read");
        assert_eq!(Backlog { held: 0, ..closed }.host(), HostState::Taking, "nothing is sent to it");
        assert_eq!(Backlog { held: 9_000_000, window: 3000, ..usual }.waits_for_network(), 3000);
        let silent = |ms| Backlog { silent: Duration::from_millis(ms), ..usual };
        assert_eq!(silent(900).waits_for_network(), 5000, "an outage of the network");
        assert_eq!(
            (silent(1100).waits_for_network(), silent(1100).host()),
            (0, HostState::Stuck),
            "it has gone"
        );
        let slow = Backlog { rtt: Duration::from_secs(3), ..silent(5900) };
        assert_eq!(slow.waits_for_network(), 5000, "an acknowledgement takes longer than that");
    }
}
