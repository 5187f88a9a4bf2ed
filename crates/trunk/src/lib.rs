//! The core of a trunk: what happens to a packet between two devices and a few congestion-controlled lanes.
//!
//! No input, no output, no clock. The owner hands over what happened ([`Transmitter::handle_packet`],
//! [`Receiver::handle_frame`]) and asks what to do next ([`Transmitter::poll_transmit`]); `now` is an
//! argument and bytes stay in the owner's buffers. The gateway owns a core on a real kernel, the simulator
//! owns the same one in virtual time.
//!
//! The core knows a lane only as a [`LaneSnapshot`]: it neither knows nor cares which congestion control
//! moves the bytes, or whether the lane is the kernel's or modelled.

mod admission;
mod class;
pub mod compress;
mod flow;
pub mod frame;
mod in_transit;
mod lane;
pub mod path_tail;
mod plan;
mod receiver;
mod routes;
mod rtt;
mod segment;
mod transmitter;

pub use class::{
    AdmissionSettings, Behaviour, ClassId, ClassSettings, Classifier, DscpSet, Over, Protocol, Rule,
};
pub use lane::{CongestionControlCause, LaneAction, LaneControl, LaneSnapshot, PacingMode, ReceiveWindow};
pub use plan::{CongestionControl, LaneGroup, LaneId, TrunkPlan};
pub use receiver::{Receiver, ReceiverStats, Refusal};
pub use routes::{PeerId, RouteTable};
pub use transmitter::{
    ClassReport, EdgeQueueReport, EdgeQueueStats, FlowReport, Offered, Packet, Poll, Transmitter,
};
