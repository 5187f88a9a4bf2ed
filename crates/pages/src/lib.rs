//! Serves pages to browsers: to whom, with which headers, and what comes live.
//!
//! Whoever serves at an address that other machines reach needs TLS and a token ([`Access`]). What is served only answers; nothing that a
//! browser sends changes anything. A viewer that does not read what comes live misses some of it, and nobody waits for it ([`Live`]).

/// What pages look like.
pub const STYLE: &str = include_str!("../assets/style.css");
/// Tables and drawings of pages, as a module of JavaScript.
pub const TABLES: &str = include_str!("../assets/tables.js");

mod access;
mod live;
mod pages;
mod serve;
mod tls;

pub use access::{Access, AccessError, Secret};
pub use live::{Live, MAX_VIEWERS};
pub use pages::{OWN, Pages, with_headers};
pub use serve::{Server, serve};
pub use tls::tls;
