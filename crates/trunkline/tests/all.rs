//! All tests of this crate that use it from outside, in one program: each further program is one more to build and to link.

mod absent_peers;
mod auto;
mod bad_days;
#[cfg(feature = "laboratory")]
mod bench;
mod bounds;
mod cli;
mod clients;
mod common;
#[cfg(feature = "controller")]
mod controller;
#[cfg(feature = "laboratory")]
mod demo;
mod device;
mod docs;
mod doctor;
#[cfg(feature = "controller")]
mod fleet;
mod flows;
mod forwarding;
mod header_compression;
mod hub;
mod join;
#[cfg(feature = "laboratory")]
mod lab;
#[cfg(feature = "laboratory")]
mod lab_testbed;
mod layers;
mod licences;
mod life;
mod log;
mod messages;
mod model;
mod names;
mod path_mtu;
mod paths;
#[cfg(feature = "controller")]
#[path = "../../controller/tests/postgres.rs"]
mod postgres;
mod previous;
mod proxy;
mod proxy_faults;
mod proxy_packets;
mod proxy_service;
mod proxy_stalls;
mod quic;
mod quic_bad_days;
mod quic_streams;
mod recovery;
mod reload;
mod replication;
mod scene;
#[cfg(feature = "laboratory")]
mod shipped_default;
mod soak;
#[path = "common/sources.rs"]
mod sources;
mod structure;
mod top;
mod traffic;
#[cfg(feature = "laboratory")]
mod trunk;
mod unauthenticated;
mod voice;
#[cfg(feature = "web")]
mod web;
