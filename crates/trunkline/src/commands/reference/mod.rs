//! The reference of a site's file: its JSON Schema ([`schema()`]) and its man page ([`page()`]).
//!
//! The schema is made of the types that the file is read into. The man page is docs/configuration.md, which the gateway's
//! tests compare with what the reader of the file knows: a key that only one of them has fails the tests.

#[cfg(test)]
mod keys;
mod page;
mod schema;

pub(super) use page::page;
pub(super) use schema::text as schema;

/// The page.
const CONFIGURATION: &str = include_str!("../../../../../docs/configuration.md");
