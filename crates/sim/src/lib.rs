//! A network in virtual time: links, routers, hosts, trunk gateways, proxies, traffic, and probes that read their
//! state.
//!
//! A [`Network`] is a value. It touches no clock, socket or file, and runs the same crates `queue` and `trunk` that
//! a gateway runs. docs/models describes the model of each part, docs/validation.md its accuracy.

mod agenda;
mod capture;
mod check;
mod connection;
mod digest;
mod dumbbell;
mod duplication;
mod fragmentation;
pub mod gateway;
mod icmp;
mod icmp_errors;
#[cfg(test)]
#[path = "../../trunk/tests/common/lane_script.rs"]
mod lane_script;
mod link;
mod network;
mod node;
mod packet;
mod prefetch;
pub mod probe;
mod progress;
pub mod proxy;
mod reassembly;
#[cfg(test)]
#[path = "../../trunk/tests/common/recorder.rs"]
mod recorder;
mod sockets;
mod state;
pub mod traffic;

pub use capture::{CapturePoint, CapturedLink};
pub use check::SettingsError;
pub use connection::ConnectionId;
pub use digest::Digest;
pub use dumbbell::{AcrossTrunk, Dumbbell};
pub use gateway::{LaneReport, LaneSocket, TrunkId, TrunkReport, TrunkSettings};
pub use link::LinkId;
pub use network::{Network, Ran, both};
pub use node::{NodeId, NodeStats};
pub use packet::{Addressing, Packet};
pub use probe::{Column, Recorder};
pub use proxy::{Cell, ProxyId, ProxyMode, ProxySettings, ProxyStats};
pub use traffic::{SourceId, TcpTraffic, Transfer, UdpTraffic};
pub use trunkline_packet::Version;
