//! The protection of a lane's data, which the configuration asks for and the handshake agrees on.

use serde::{Deserialize, Serialize};

/// What protects the data of lanes. The handshake is always authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// TLS 1.3 records.
    #[default]
    Tls,
    /// Nothing: data travels in clear.
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
