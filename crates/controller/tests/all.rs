//! All tests of this crate as one program.

mod document;
mod page;
mod plan;
mod schema;
mod store;
