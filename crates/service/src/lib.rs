//! How a daemon answers: one line of JSON on a control socket, a page of metrics over HTTP, one request for each connection.
//!
//! A daemon with a loop of its own uses [`Client`] and [`listen`] there; [`Server`] is the loop for one that has none. [`control`] is the
//! side of those who ask.

mod client;
pub mod control;
mod descriptors;
pub mod listen;
mod page;
pub mod request;
mod server;

pub use client::{Client, MAX_CLIENTS, NextStep, Stream, evict};
pub use descriptors::raise_descriptor_limit;
pub use listen::{ListenError, SocketFile};
pub use page::Page;
pub use server::{MetricsAt, Response, Server};
