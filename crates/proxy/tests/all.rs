//! All tests of this crate that use it from outside, in one program: each further program is one more to build and to link.

mod documentation;
mod fuzz_corpus;
