//! What an owner changes between two parts of a run, such as an agent that learns.

use trunkline_link::LinkChange;
use trunkline_queue::CustomDiscipline;
use trunkline_tcp::CongestionAlgorithm;
use trunkline_trunk::{ClassSettings, TrunkPlan};

use super::Network;
use crate::gateway::TrunkId;
use crate::link::LinkId;
use crate::traffic::SourceId;

impl Network {
    /// Changes a link now, beside the changes of its settings.
    pub fn change_link(&mut self, id: LinkId, change: LinkChange) {
        self.begin();
        let now = self.net.now;
        self.net.links[id.0 as usize].apply(now, id, change, &mut self.net.agenda);
    }

    /// Replaces the discipline of a link's queue, in which nothing waits yet, by one that is not of crate `queue`.
    ///
    /// # Panics
    /// If something waits.
    pub fn set_custom_queue(&mut self, id: LinkId, rules: Box<dyn CustomDiscipline>) {
        self.net.links[id.0 as usize].machine.set_custom_queue(rules);
    }

    /// The plan of one side of a trunk, as it is now.
    pub fn plan(&self, trunk: TrunkId, side: usize) -> &TrunkPlan {
        self.trunks.plan(trunk, side)
    }

    /// Changes the classes of one side of a trunk, as a gateway's reload does. What they have in common with the old ones stays: what waits, as
    /// long as the discipline is the same, and all that is known of flows and paths.
    ///
    /// # Panics
    /// If they are other classes, or on other lanes.
    pub fn set_classes(&mut self, trunk: TrunkId, side: usize, classes: Vec<ClassSettings>) {
        self.begin();
        self.trunks.set_classes(&mut self.net, trunk, side, classes);
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
