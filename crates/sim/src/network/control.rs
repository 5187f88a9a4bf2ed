//! What an owner changes between two parts of a run, such as an agent that learns.

use trunkline_link::LinkChange;
use trunkline_tcp::CongestionAlgorithm;

use super::Network;
use crate::link::LinkId;
use crate::traffic::SourceId;

impl Network {
    /// Changes a link now, beside the changes of its settings.
    pub fn change_link(&mut self, id: LinkId, change: LinkChange) {
        self.begin();
        let now = self.net.now;
        self.net.links[id.0 as usize].apply(now, id, change, &mut self.net.agenda);
    }

    /// Sets the window of a user's sender, bytes, from now on until the next call: its congestion control no longer does
    /// ([`CongestionAlgorithm::Held`]). `false` if it has no connection now.
    pub fn hold_window(&mut self, source: SourceId, user: u32, window: u32) -> bool {
        let Some([sender, _]) = self.sender_first(source, user) else { return false };
        let endpoint = &mut self.net.connections[sender.0 as usize].endpoint;
        endpoint.set_congestion_control(CongestionAlgorithm::Held);
        endpoint.hold_window(window);
        self.net.flush(sender);
        true
    }
}
