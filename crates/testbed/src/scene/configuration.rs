//! Keys and configuration files of a scene's gateways.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Gateway, Plan};
use crate::gateway::{Directory, GatewayError, GatewayProcess, Keys};

/// The device the gateways read user packets from.
pub const TUN_DEVICE: &str = "trunk";
const PORT: u16 = 4600;

/// How lanes are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// TLS 1.3.
    Tls,
    /// In clear.
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

/// Which gateways dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialling {
    /// The first gateway dials the second.
    First,
    /// Each dials the other.
    Both,
}

/// How a scene's gateways are set up. TOML that is added is not checked here: a gateway refuses it by name.
#[derive(Debug, Clone)]
pub struct GatewaySetup {
    /// The program, `trunkline`.
    pub binary: PathBuf,
    /// How lanes are protected.
    pub encryption: Encryption,
    /// Which gateways dial.
    pub dialling: Dialling,
    /// Lines in TOML to add to `[lanes]` of both gateways.
    pub lanes: Option<String>,
    /// Whole `[[classes]]` tables in TOML, if not the gateway's default classes.
    pub classes: Option<String>,
    /// Lines in TOML to add to `[tun]` of both gateways.
    pub tun: Option<String>,
    /// Whole tables in TOML to add to both files.
    pub more: Option<String>,
}

impl GatewaySetup {
    /// The default classes and congestion control; the first gateway dials.
    pub fn new(binary: impl Into<PathBuf>, encryption: Encryption) -> Self {
        Self {
            binary: binary.into(),
            encryption,
            dialling: Dialling::First,
            lanes: None,
            classes: None,
            tun: None,
            more: None,
        }
    }
}

/// Makes keys and returns the text of both gateways' files.
pub(super) fn texts(
    directory: &Directory,
    setup: &GatewaySetup,
    plans: &[Plan],
) -> Result<[String; 2], GatewayError> {
    let keys = |gateway: Gateway| Keys::make(&setup.binary, directory, &format!("{gateway}.key"));
    let [t1, t2] = [keys(Gateway::T1)?, keys(Gateway::T2)?];
    let of = |gateway: Gateway, peer: &Keys| {
        let socket = GatewayProcess::socket(directory, &gateway.to_string());
        text(setup, gateway, &socket, &peer.public, plans)
    };
    Ok([of(Gateway::T1, &t2), of(Gateway::T2, &t1)])
}

fn text(setup: &GatewaySetup, gateway: Gateway, socket: &Path, peer_key: &str, plans: &[Plan]) -> String {
    let plan = Plan::IPV4;
    let (own, far) = match gateway {
        Gateway::T1 => (plan.t1_wan, plan.t2_wan),
        Gateway::T2 => (plan.t2_wan, plan.t1_wan),
    };
    let (dials, listens) = match (setup.dialling, gateway) {
        (Dialling::Both, _) => (true, true),
        (Dialling::First, Gateway::T1) => (true, false),
        (Dialling::First, Gateway::T2) => (false, true),
    };
    let mut text = String::new();
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = text.write_fmt(arguments);
        text.push('\n');
    };
    line(format_args!("name = \"{gateway}\""));
    line(format_args!("private_key_file = \"{gateway}.key\""));
    line(format_args!("encryption = \"{}\"", setup.encryption.as_str()));
    if listens {
        line(format_args!("listen = [\"{own}:{PORT}\"]"));
    }
    line(format_args!("\n[tun]\nname = \"{TUN_DEVICE}\""));
    line(format_args!("{}", setup.tun.as_deref().unwrap_or_default()));
    if let Some(lanes) = &setup.lanes {
        line(format_args!("[lanes]\n{lanes}\n"));
    }
    line(format_args!("[control]\nsocket = \"{}\"\n", socket.display()));
    let routes: Vec<String> = plans
        .iter()
        .map(|plan| match gateway {
            Gateway::T1 => format!("\"{}\"", plan.second_site()),
            Gateway::T2 => format!("\"{}\"", plan.first_site()),
        })
        .collect();
    line(format_args!("[[peers]]\nname = \"{}\"\npublic_key = \"{peer_key}\"", gateway.other()));
    if dials {
        line(format_args!("endpoint = \"{far}:{PORT}\""));
    }
    line(format_args!("routes = [{}]\n", routes.join(", ")));
    for tables in [&setup.classes, &setup.more].into_iter().flatten() {
        line(format_args!("{tables}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_dials_and_the_second_listens_unless_both_may() {
        let mut setup = GatewaySetup::new("trunkline", Encryption::Tls);
        let of = |setup: &GatewaySetup, gateway| {
            text(setup, gateway, Path::new("/run/s"), "KEY", &[Plan::IPV4, Plan::IPV6])
        };
        let (one, two) = (of(&setup, Gateway::T1), of(&setup, Gateway::T2));
        assert!(one.contains("endpoint = \"198.18.2.2:4600\"") && !one.contains("listen"), "{one}");
        assert!(two.contains("listen = [\"198.18.2.2:4600\"]") && !two.contains("endpoint"), "{two}");
        assert!(one.contains("routes = [\"198.18.3.0/24\", \"fd00:3::/64\"]"), "{one}");
        setup.dialling = Dialling::Both;
        let two = of(&setup, Gateway::T2);
        assert!(two.contains("endpoint = \"198.18.2.1:4600\"") && two.contains("listen"), "{two}");
    }
}
