//! All tests of this crate that use it from outside, in one program: each further program is one more to build and to link.

mod advise;
mod agreement;
mod experiments;
mod mistakes;
mod mutations;
mod plan;
mod recordings;
mod reference;
mod schema;
mod survey;
mod testbed;
mod version;
