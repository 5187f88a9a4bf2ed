//! What gateways and a controller say to each other, and the invitation by which a gateway finds its controller.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::rand;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::configuration::{CONFIGURATION_VERSION, Configuration};

/// The longest time for which a poll waits, seconds.
pub const MAX_WAIT_S: u16 = 60;
/// What an invitation begins with; the digit is the version of its fields.
const BEGIN: &str = "tlc1_";
/// What a signature is of, before the text of a configuration.
const SIGNED: &[u8] = b"trunkline configuration 1\n";
const SECRET_BYTES: usize = 32;

/// A gateway asks to be a site of the network.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Enrolment {
    /// The secret of the invitation.
    pub invitation: String,
    /// The key that the gateway made: 44 characters of base64.
    pub public_key: String,
}

/// It is one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Enrolled {
    /// The name of the site.
    pub site: String,
    /// The name of the network.
    pub network: String,
    /// What the gateway shows from now on.
    pub token: String,
}

/// A gateway asks for its configuration if it is another one than it has, and says how it is.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// What it has: the fingerprint of its peers.
    pub have: Option<String>,
    /// How long to wait for another one, seconds; at most 60.
    pub wait_s: u16,
    /// How it is.
    pub report: Report,
}

/// How a gateway is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The sequence of the configuration that is in force; 0: none.
    pub sequence: u64,
    /// Why the last one is not.
    pub error: Option<String>,
    /// Whether the gateway runs.
    pub running: bool,
    /// Its peers of the network.
    pub peers: Vec<PeerReport>,
}

/// How a trunk is, seen from one of its sites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerReport {
    /// The site at its other end.
    pub name: String,
    /// Whether it carries packets.
    pub up: bool,
    /// The rate that path control has measured towards it, bit/s; nothing, while there was no queue.
    pub capacity: Option<u64>,
}

/// A configuration, as its controller says it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    /// The text of a [`Configuration`].
    pub configuration: String,
    /// Ed25519 (RFC 8032), in base64.
    pub signature: String,
}

/// Why a configuration is not taken, or an invitation is none. It never contains the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// It is no invitation.
    NoInvitation,
    /// It is not what was printed.
    Damaged,
    /// The configuration was not signed by the controller.
    Forged,
    /// It is no configuration of this version.
    Form(String),
    /// It is that of another site, or network.
    Foreign,
    /// It is older than one that was taken.
    Older {
        /// Its sequence.
        sequence: u64,
        /// That of the one that was taken.
        had: u64,
    },
    /// There is no randomness.
    NoRandomness,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::NoInvitation => {
                write!(
                    f,
                    "no invitation; allowed: what `trunkline controller invite` prints, which begins with {BEGIN}"
                )
            }
            WireError::Damaged => f.write_str(
                "the invitation is damaged: characters are missing or changed; copy the whole line",
            ),
            WireError::Forged => {
                f.write_str("the configuration is not signed by the controller of this network")
            }
            WireError::Form(error) => write!(f, "the configuration cannot be read: {error}"),
            WireError::Foreign => f.write_str("the configuration is of another site or network"),
            WireError::Older { sequence, had } => {
                write!(f, "the configuration is older ({sequence}) than the one that was taken ({had})")
            }
            WireError::NoRandomness => f.write_str("the system has no random bytes"),
        }
    }
}

impl std::error::Error for WireError {}

/// A secret that nobody guesses, in 43 characters.
pub fn secret() -> Result<String, WireError> {
    let mut bytes = [0; SECRET_BYTES];
    rand::fill(&mut bytes).map_err(|_| WireError::NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// What signs configurations.
#[derive(Debug)]
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// The one that a secret of [`secret`] makes.
    pub fn new(secret: &str) -> Option<Self> {
        let seed = URL_SAFE_NO_PAD.decode(secret).ok()?;
        Ed25519KeyPair::from_seed_unchecked(&seed).ok().map(Signer)
    }

    /// By what signatures are checked, in base64.
    pub fn public(&self) -> String {
        STANDARD.encode(self.0.public_key())
    }

    /// Signs a configuration.
    pub fn sign(&self, configuration: &Configuration) -> Signed {
        let text = serde_json::to_string(configuration).expect("names and numbers");
        let signature = STANDARD.encode(self.0.sign(&message(&text)));
        Signed { configuration: text, signature }
    }
}

fn message(text: &str) -> Vec<u8> {
    [SIGNED, text.as_bytes()].concat()
}

/// Whose configurations a gateway takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected<'e> {
    /// The controller's public key.
    pub key: &'e str,
    /// The network.
    pub network: &'e str,
    /// The site.
    pub site: &'e str,
    /// The sequence of the last one that was taken.
    pub sequence: u64,
}

impl Expected<'_> {
    /// The configuration, if the controller has signed it for this site, and it is not older than the last one.
    pub fn check(&self, signed: &Signed) -> Result<Configuration, WireError> {
        let key = STANDARD.decode(self.key).map_err(|_| WireError::Forged)?;
        let signature = STANDARD.decode(&signed.signature).map_err(|_| WireError::Forged)?;
        UnparsedPublicKey::new(&ED25519, key)
            .verify(&message(&signed.configuration), &signature)
            .map_err(|_| WireError::Forged)?;
        let configuration: Configuration = serde_json::from_str(&signed.configuration)
            .map_err(|error| WireError::Form(error.to_string()))?;
        let Configuration { version, network, site, sequence, .. } = &configuration;
        if *version != CONFIGURATION_VERSION {
            return Err(WireError::Form(format!(
                "it is of version {version}; allowed: {CONFIGURATION_VERSION}"
            )));
        }
        if (network.as_str(), site.as_str()) != (self.network, self.site) {
            return Err(WireError::Foreign);
        }
        if *sequence < self.sequence {
            return Err(WireError::Older { sequence: *sequence, had: self.sequence });
        }
        Ok(configuration)
    }
}

/// What a site is given to enrol: one line of text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerInvitation {
    /// Where the controller is.
    pub url: String,
    /// The certificate that it shows, or that of who signed it: base64 of its DER.
    pub certificate: String,
    /// The key that signs configurations.
    pub key: String,
    /// The site.
    pub site: String,
    /// What proves the invitation, once.
    pub secret: String,
    /// Seconds since 1970.
    pub expires_at: u64,
}

impl ControllerInvitation {
    /// The line of text.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string(self).expect("names and numbers");
        format!("{BEGIN}{}", URL_SAFE_NO_PAD.encode(text))
    }
}

impl FromStr for ControllerInvitation {
    type Err = WireError;

    fn from_str(text: &str) -> Result<Self, WireError> {
        // Terminals and mail break long lines.
        let text: String = text.split_ascii_whitespace().collect();
        let encoded = text.strip_prefix(BEGIN).ok_or(WireError::NoInvitation)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| WireError::Damaged)?;
        serde_json::from_slice(&bytes).map_err(|_| WireError::Damaged)
    }
}

impl fmt::Debug for ControllerInvitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ControllerInvitation { url, site, expires_at, .. } = self;
        f.debug_struct("ControllerInvitation")
            .field("url", url)
            .field("site", site)
            .field("expires_at", expires_at)
            .finish_non_exhaustive()
    }
}
