//! Radio links as a sender of packets sees them: when the channel is free for the next packet, and when this one is
//! delivered, with repairs below IP.

mod channel;
mod pareto;
mod rlp;

use std::time::Duration;

use trunkline_units::{Instant, Rng};

pub use channel::BlockErrors;
pub use pareto::Pareto;
pub use rlp::Rlp;

/// What a radio link adds to the time in which it sends a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mobile {
    /// A time for repairs added to the serialisation of a packet (bosau2004 §4).
    Pareto(Pareto),
    /// Blocks that are sent again until they arrive. The link's rate does not matter: a block each interval does.
    Rlp(Rlp),
}

/// How long a packet takes on a radio link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sending {
    /// Until the next packet may begin.
    pub(crate) busy: Duration,
    /// From then until this one is delivered: what is sent again of it goes between the packets behind.
    pub(crate) late: Duration,
}

/// One direction of a radio link.
#[derive(Debug, Clone)]
pub(crate) struct Radio {
    kind: Kind,
    rng: Rng,
}

#[derive(Debug, Clone)]
enum Kind {
    Pareto(Pareto),
    Rlp(rlp::Sender),
}

impl Radio {
    pub(crate) fn new(mobile: &Mobile, rng: Rng) -> Self {
        let kind = match *mobile {
            Mobile::Pareto(pareto) => Kind::Pareto(pareto),
            Mobile::Rlp(settings) => Kind::Rlp(rlp::Sender::new(settings)),
        };
        Radio { kind, rng }
    }

    /// Sends the next packet, of so many bytes, on a link that would do so in `plain` if nothing had to be repaired.
    /// Packets are delivered in the order in which they are sent, and `now` does not go back.
    pub(crate) fn send(&mut self, now: Instant, bytes: u32, plain: Duration) -> Sending {
        match &mut self.kind {
            Kind::Pareto(pareto) => {
                Sending { busy: plain.saturating_add(pareto.draw(&mut self.rng)), late: Duration::ZERO }
            }
            Kind::Rlp(sender) => sender.send(now, bytes, &mut self.rng),
        }
    }
}
