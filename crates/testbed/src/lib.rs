//! Experiments on real kernels, without leaving a trace on the machine that runs them.
//!
//! - [`privilege`]: what the kernel must allow, and what to do where it does not;
//! - [`namespace`]: a [`Host`](namespace::Host) is a network namespace that lives as long as the value does;
//! - [`network`]: hosts and links as an experiment describes them;
//! - [`kernel`]: what this machine's kernel offers;
//! - [`congestion`]: congestion controls that it can be given;
//! - [`link`]: emulated links between hosts, which run the model of a link that the simulator runs;
//! - [`traffic`]: bulk TCP, UDP floods and request-response load, with the receiver's view of each;
//! - [`generator`]: the traffic of an experiment: thousands of connections and flows of datagrams from one thread;
//! - [`dumbbell`]: flows of one kind through one bottleneck, and all that can be known of them;
//! - [`lateness`]: how late this machine is, and limits of tests that follow from it;
//! - [`machine`]: one test that uses the kernel's time at a time;
//! - [`procfs`]: what processes cost;
//! - [`gateway`]: a gateway as a process in a host;
//! - [`tunnel`]: a tunnel of another program, such as that of a VPN, between two hosts;
//! - [`scene`]: two sites with a gateway each, direct or over trunks;
//! - [`interrupt`]: ending in order on Ctrl-C;
//! - [`statistics`]: percentiles, fairness, series over time;
//! - [`clock`]: the machine's monotonic clock, which all of them share.
//!
//! Nothing here names anything in the file system, but for the private directory of a scene's gateways: namespaces
//! are held by threads and file descriptors, devices live in namespaces, and children die with the thread that
//! started them. So however a run ends, SIGKILL included, the kernel has nothing left to keep.

mod awake;
pub mod clock;
pub mod congestion;
pub mod dumbbell;
pub mod gateway;
pub mod generator;
pub mod interrupt;
pub mod kernel;
pub mod lateness;
pub mod link;
pub mod machine;
pub mod namespace;
pub mod network;
pub mod privilege;
pub mod procfs;
pub mod scene;
pub mod statistics;
mod sys;
mod tool;
pub mod traffic;
pub mod tunnel;

pub use tool::ToolError;
