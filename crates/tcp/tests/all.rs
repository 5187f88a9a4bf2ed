//! All tests of this crate that use it from outside, in one program: each further program is one more to build and to link.

mod allocation;
mod common;
mod ecn;
mod growth;
mod handshake;
mod impaired_paths;
mod kernel;
mod path_mtu;
mod receiving;
mod recovery;
mod segmentation;
mod sending;
mod timeouts;
mod transfer;
