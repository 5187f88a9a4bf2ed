//! What a controller tells a gateway to have.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::digest_of;

/// The version of a configuration's JSON.
pub const CONFIGURATION_VERSION: u32 = 1;

/// What a site's gateway is to have. The controller signs its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The version of this form.
    pub version: u32,
    /// The network: a random name, so that a configuration of another one is none.
    pub network: String,
    /// The site.
    pub site: String,
    /// Larger with each configuration of the site. A gateway takes none that is older than the one that it has.
    pub sequence: u64,
    /// The revision of the network's document.
    pub revision: u64,
    /// The other sites that it has trunks to.
    pub peers: Vec<ConfiguredPeer>,
}

/// A peer, as a site's file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredPeer {
    /// The name of its site.
    pub name: String,
    /// Its public key, which it made itself.
    pub public_key: String,
    /// Where it is dialled; nothing: it dials.
    pub endpoint: Option<String>,
    /// The uplink of this site that the trunk takes first.
    pub uplink: Option<String>,
    /// The interface that connections over it are bound to.
    pub interface: Option<String>,
    /// The networks behind it.
    #[schema(value_type = Vec<String>)]
    pub routes: Vec<IpNet>,
    /// The rate towards it that is reserved for the trunk, bit/s; 0, if the trunk was refused: then it takes what others leave.
    pub reserved: u64,
}

/// What tells the peers of one configuration from those of another: SHA-256 of their JSON, in base64.
pub fn fingerprint(peers: &[ConfiguredPeer]) -> String {
    let text = serde_json::to_string(peers).expect("names and numbers");
    digest_of(&text)
}
