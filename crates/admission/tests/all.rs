//! All tests of this crate as one program.

mod brute;
mod examples;
mod properties;
mod sampled;
