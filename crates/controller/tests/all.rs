//! All tests of this crate as one program.

mod configuration;
mod document;
mod members;
mod page;
mod plan;
mod schema;
mod store;
