//! The data path of a trunk, from a TUN device through congestion-controlled lanes to another TUN device.
//!
//! The crate has no input, no output and no clock. The owner reports events ([`Transmitter::handle_packet`],
//! [`Receiver::handle_frame`]) and asks for the next action ([`Transmitter::poll_transmit`]); `now` is an
//! argument and bytes stay in the owner's buffers. The gateway runs this code on a real kernel, the simulator
//! runs it in virtual time.
//!
//! The crate knows a lane only as a [`LaneSnapshot`]. It does not depend on the congestion control that moves the bytes,
//! nor on whether the lane is a connection of the kernel or a model of one.

mod admission;
pub mod bonding;
mod class;
pub mod compress;
pub mod datagram;
mod flow;
pub mod frame;
mod in_transit;
mod lane;
pub mod path;
pub mod path_tail;
mod plan;
mod receiver;
mod replication;
mod routes;
mod rtt;
mod segment;
pub mod streams;
mod transmitter;

pub use class::{
    AdmissionSettings, Behaviour, ClassId, ClassSettings, Classifier, DscpSet, Over, Protocol, Rule,
};
pub use lane::{
    ArrivalReport, CongestionControlCause, HandedOver, LaneAction, LaneConnection, LaneControl, LaneEdge,
    LanePump, LaneSnapshot, LaneWindow, ReceiveWindow, Reporting, Served, Stalling,
};
pub use path::{
    ClassOnPaths, ClassPathStatus, Handover, PathChange, PathId, PathMode, PathPolicy, PathSettings,
    PathStatus, Paths, Signal,
};
pub use plan::{CongestionControl, Delivery, LaneGroup, LaneId, Transport, TrunkPlan};
pub use receiver::{Receiver, ReceiverStats, Refusal};
pub use replication::SequenceNumber;
pub use routes::{PeerId, RouteTable};
pub use transmitter::{
    ClassReport, EdgeQueueReport, EdgeQueueStats, FlowReport, Label, Offered, Packet, PacketStore,
    PathConditions, Poll, Transmitter,
};
