//! The settings of one direction of a link: plain values.

use std::time::Duration;

use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_units::Rate;

use crate::mobile::Mobile;
use crate::{Deliveries, Impairments, Loss};

/// A change of a link while it carries packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkChange {
    /// Of its rate, for packets that are sent from then on.
    Rate(Rate),
    /// Of its delay; packets under way keep theirs, and none overtakes another by it.
    Delay(Duration),
    /// Of its impairments. Whether packets may overtake each other does not change.
    Impairments(Impairments),
}

/// The settings of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSettings {
    /// Rate. Zero holds packets back until it changes; [`Rate::MAX`] is unlimited.
    pub rate: Rate,
    /// When it sends, in place of the rate: that is their mean.
    pub deliveries: Option<Deliveries>,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Where packets wait for it.
    pub queue: QueueSettings,
    /// The longest packet it takes, bytes; what becomes of longer ones is its owner's decision.
    pub mtu: u32,
    /// Impairments.
    pub impairments: Impairments,
    /// The time that a radio link adds to a packet.
    pub mobile: Option<Mobile>,
    /// Changes, in order of time, from the start of the run.
    pub changes: Vec<(Duration, LinkChange)>,
    /// The period after which the changes begin again.
    pub repeat: Option<Duration>,
}

impl LinkSettings {
    /// A link of this rate and one-way delay, with a tail-drop queue of 1000 packets and an MTU of 1500 bytes.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        LinkSettings {
            rate,
            deliveries: None,
            delay,
            queue: QueueSettings::TailDrop(Limits::default()),
            mtu: 1500,
            impairments: Impairments::default(),
            mobile: None,
            changes: Vec::new(),
            repeat: None,
        }
    }

    /// The same with another queue.
    #[must_use]
    pub fn queue(mut self, queue: QueueSettings) -> Self {
        self.queue = queue;
        self
    }

    /// The same with packets lost.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.impairments.loss = loss;
        self
    }
}
