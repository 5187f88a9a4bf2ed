//! All tests of this crate as one program.

mod configuration;
mod document;
mod homes;
mod members;
mod page;
mod plan;
mod postgres;
mod schema;
mod store;
