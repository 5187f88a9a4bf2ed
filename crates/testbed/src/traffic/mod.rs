//! Load, and the receiver's view of it.
//!
//! A server ([`TcpSink`], [`UdpSink`], [`EchoServer`], [`RpcServer`]) is started in a host and runs until its handle
//! is finished or dropped. A client ([`bulk`], [`flood`], [`ping`], [`request_response`]) is a blocking call made
//! by a thread that is in a host already ([`Host::run`](crate::namespace::Host::run), `spawn`); it ends by itself.
//!
//! Every TCP socket is given its congestion control by name before it connects: a default would colour what is
//! measured. Every wait has a limit, and a [`Stop`] ends a call early, within a tenth of a second.

mod bulk;
mod echo;
mod flood;
mod rpc;
mod service;
mod socket;
mod watch;

pub use bulk::{BulkFlow, BulkReport, BulkSettings, Load, SinkFlow, SinkReport, TcpSink, Transfer, bulk};
pub use echo::{EchoServer, PingReport, PingSettings, ping};
pub use flood::{FloodReport, FloodSettings, Pace, UdpSink, UdpSinkReport, flood};
pub use rpc::{Pacing, RpcReport, RpcServer, RpcSettings, request_response};
pub use service::Stop;
pub use watch::TcpSample;
