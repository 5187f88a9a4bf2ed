//! The encryption of a lane's data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The encryption of the data of lanes. The handshake is authenticated in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// TLS 1.3 records.
    #[default]
    Tls,
    /// No encryption: data travels in clear.
    None,
}

impl Encryption {
    /// The word for it in a configuration file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::None => "none",
        }
    }
}
