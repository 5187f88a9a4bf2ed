//! What a daemon reports of itself: the types of `trunkline status --json`, and of the requests that a daemon answers.
//!
//! The gateway and the proxy fill them in. `status`, `top`, the metrics, the testbed and its tests read them, so a counter that is renamed
//! is an error of the compiler wherever it is used.
//!
//! Times are in seconds unless the name says otherwise, sizes in bytes, rates in bits per second. Packets are
//! counted in segments, as the network behind the trunk sees them, unless the name says `super`.

mod class;
mod control;
mod gateway;
mod lane;
mod path;
mod peer;
mod proxies;

pub use class::{Class, ClassHandover, Sojourn};
pub use control::{Answer, Joining, Request};
pub use gateway::{Callers, LogStatus, Rejected, Status, Tun};
pub use lane::{Lane, LaneState};
pub use path::{EdgePacing, Path, PathShare};
pub use peer::{FLOWS, Flow, FlowTable, Peer, Quota, QuotaThen, Received, Uplink, UplinkState};
pub use proxies::{ProxiesStatus, ProxyCounts, ProxyStatus, ProxyTotals};
