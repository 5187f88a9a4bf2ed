//! A transparent proxy for TCP: it ends connections of the hosts behind it, with a TCP of its own towards each end, and both ends keep
//! the addresses and ports of each other.
//!
//! A new connection's SYN is diverted to this process before any TCP sees it, and waits while the proxy connects to the server as the
//! client. Only when the server has accepted does the kernel get the SYN, and accepts in turn. So a server that refuses or that cannot be
//! reached looks so to the client ([`opening`] decides, `intake` does it). Then a worker moves data between the two sockets until both
//! have closed (`relay`).
//!
//! Where windows are lowered (`clamp`) connections stay those of their ends, and packets of the hosts behind pass the process.
//!
//! [`Proxy`] is the entry point. It runs in a thread of its owner, or in one of its own ([`ProxyThread`]).

mod answer;
pub mod clamp;
mod counters;
mod error_message;
mod intake;
mod notices;
pub mod opening;
mod plan;
mod polling;
mod relay;
mod routing;
mod service;
mod slots;
mod sockets;
mod status;
mod syn;
pub mod tail;
mod tcp_packet;
mod worker;

pub use error_message::ErrorMessage;
pub use plan::{Plan, Treatment};
pub use service::{Ending, Proxy, ProxyError, ProxyThread, unblock};
pub use status::write_metrics;
pub use syn::{Connection, Syn, SynError};
