use trunkline_units::{Instant, Rate};

use super::{CongestionControlCause, LaneSnapshot, LaneWindow};
use crate::datagram::Rest;
use crate::{Label, Packet};

/// How far a connection has come with the packets that it accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedOver {
    /// Bytes that the connection has taken with this call.
    pub bytes: u64,
    /// Whether nothing is left over and the connection takes more.
    pub is_ready: bool,
}

/// The connection of one lane, as its owner has it while it serves the lane: a socket, a connection of a library, or a model.
///
/// A [`LanePump`](super::LanePump) makes all calls and takes every decision. An implementation only does what it is told. It has no
/// order of calls of its own.
pub trait LaneConnection {
    /// The packets of the edge queues.
    type Packet: Packet;
    /// An error that ends the lane.
    type Error;

    /// The state of the connection.
    ///
    /// # Errors
    /// The connection is broken.
    fn snapshot(&mut self) -> Result<LaneSnapshot, Self::Error>;

    /// Bytes that the connection holds: taken and not yet acknowledged.
    ///
    /// # Errors
    /// The connection is broken.
    fn held(&mut self) -> Result<usize, Self::Error> {
        self.snapshot().map(|snapshot| snapshot.held())
    }

    /// Bytes that the connection has taken and not yet sent.
    ///
    /// # Errors
    /// The connection is broken.
    fn unsent(&mut self) -> Result<usize, Self::Error>;

    /// The window of a connection that does not pace what it sends; `None` of one that does.
    fn window(&mut self) -> Option<LaneWindow> {
        None
    }

    /// Gives the connection what was accepted before and is left over.
    ///
    /// # Errors
    /// The connection is broken.
    fn hand_over_rest(&mut self, now: Instant) -> Result<HandedOver, Self::Error>;

    /// Whether another packet fits into the batch that is being gathered.
    fn has_space(&self) -> bool;

    /// Adds the label of the next packet to the batch. Of connections that deliver in order: no others get packets with one.
    ///
    /// # Errors
    /// The label cannot be framed.
    fn announce(&mut self, _label: Label) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Adds a packet to the batch.
    ///
    /// # Errors
    /// The packet cannot be framed.
    fn accept(&mut self, now: Instant, packet: Self::Packet) -> Result<(), Self::Error>;

    /// A copy of a packet, for as long as the connection has not delivered it; `None` without memory for it. Of connections that deliver
    /// in order.
    fn copy(&mut self, _packet: &Self::Packet) -> Option<Self::Packet> {
        None
    }

    /// Takes back the memory of a packet that the edge queue has dropped, or of a copy that nobody needs any more.
    fn release(&mut self, packet: Self::Packet);

    /// Ends the batch. Returns the bytes that the connection has taken; a part may be left for
    /// [`hand_over_rest`](Self::hand_over_rest). `rest` says whether other packets follow at once.
    ///
    /// # Errors
    /// The connection is broken.
    fn hand_over(&mut self, now: Instant, rest: Rest) -> Result<u64, Self::Error>;

    /// The place in the lane's stream at which the last batch ends.
    fn position(&self) -> u64;

    /// Sends what the connection itself holds back until it is told to. Returns whether that made room in it.
    fn transmit(&mut self, now: Instant) -> bool;

    /// Takes note that packets wait because of the connection's window.
    fn handle_window_limited(&mut self) {}

    /// Changes the congestion control to the one of this name. Returns whether the connection uses it now.
    fn set_congestion_control(&mut self, name: &str, cause: CongestionControlCause) -> bool;

    /// Has the connection report that it is writable once fewer than half of `bytes` are unsent.
    ///
    /// # Errors
    /// The connection is broken.
    fn set_low_water_mark(&mut self, _bytes: usize) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Bounds the rate of a connection that paces what it sends.
    ///
    /// # Errors
    /// The connection is broken.
    fn set_max_pacing_rate(&mut self, _rate: Option<Rate>) -> Result<(), Self::Error> {
        Ok(())
    }
}
