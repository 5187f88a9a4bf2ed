//! Files of settings: how they are read, and what sites and experiments both say in them.
//!
//! [`Source`] is a TOML file with the places of its keys. It is read into types ([`Source::read`]) whose JSON Schema says what a file
//! may have, so that all mistakes of its form are reported at once. What types cannot say is checked afterwards with [`Findings`]: a
//! mistake found at a key is reported with file, line and column of that key.
//!
//! [`quantity`] has the numbers with units.

mod answers;
mod classes;
mod either;
mod encryption;
mod json;
mod link_queue;
mod near;
mod presets;
mod proxy;
pub mod quantity;
mod queue;
mod reader;
mod resolve;
mod text;
mod words;

pub use answers::{
    ControlTable, METRICS_LISTEN, MetricsAddress, MetricsListen, MetricsTable, SOCKET_PATH, SocketPath,
    listen_address,
};
pub use classes::{Behaviour, ClassSpec, Classes, Delivery, FlowsSpec, LanesSpec, RuleSpec, Transport};
pub use either::Either;
pub use encryption::Encryption;
pub use json::{json_schema, json_schema_text};
pub use link_queue::LinkQueue;
pub use near::near;
pub use presets::Preset;
pub use proxy::{
    CellRate, FailMode, LinkName, MAX_PROXY_RULES, Prefix, ProxyFile, ProxyMode, ProxySettings, ProxySpec,
    RateSource, check_proxies,
};
pub use queue::{Discipline, QueuePlace, QueueSpec};
pub use reader::{
    Astray, At, Finding, Findings, Format, KeyPath, Leaf, MAX_FILE, Mistake, Mistakes, Partly, Source,
    expand, put, read, read_file, read_input, read_partly,
};
pub use resolve::{MAX_CLASSES, MAX_LANES, MAX_WEIGHT, Resolver, check_reserved, default_queue};
pub use text::{SITE_NAME, count, is_site_name, read_text, wrong_type};
pub use words::{CongestionControlName, Dscp, LaneCount, Lengths, Name, OneOrMany, Ports, Protocol};
