//! What gateways and the controller of a network say to each other: invitations, polls, and [`Configuration`]s that the controller signs.
//!
//! The gateway needs nothing else of a controller: neither its store nor its server.

mod configuration;
mod wire;

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub use configuration::{CONFIGURATION_VERSION, Configuration, ConfiguredPeer, fingerprint};
pub use wire::{
    ControllerInvitation, Enrolled, Enrolment, Expected, MAX_WAIT_S, PeerReport, Poll, Report, Signed,
    Signer, WireError, secret,
};

/// SHA-256, in base64: what is kept of a secret that somebody else holds, and what tells texts apart.
pub fn digest_of(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
