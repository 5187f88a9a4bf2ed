//! A transparent proxy for TCP: it ends connections of the hosts behind it, with a TCP of its own towards each end, and both ends keep
//! the addresses and ports of each other.
//!
//! A new connection's SYN is diverted to this process before any TCP sees it, and waits while the proxy connects to the server as the
//! client. Only when the server has accepted does the kernel get the SYN, and accepts in turn. So a server that refuses or that cannot be
//! reached looks so to the client ([`opening`] decides, `intake` does it). Then a worker moves data between the two sockets until both
//! have closed (`relay`).
//!
//! [`Proxy`] is the entry point.

mod answer;
mod counters;
mod error_message;
mod intake;
pub mod opening;
mod plan;
mod relay;
mod routing;
mod service;
mod sockets;
mod syn;
pub mod tail;
mod tcp_packet;
mod worker;

pub use counters::Status;
pub use error_message::ErrorMessage;
pub use plan::{Plan, Treatment};
pub use service::{Proxy, ProxyError};
pub use syn::{Connection, Syn, SynError};
