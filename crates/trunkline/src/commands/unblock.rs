//! `unblock`: removes the routes with which an ended gateway blocks packets to peers.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use trunkline_gateway::config::{Config, RUN_DIRECTORY};
use trunkline_gateway::device::{self, Blocked};
use trunkline_schema::count;

use crate::cli::UnblockArguments;
use crate::failure::Failure;
use crate::output::print_line;

pub(crate) fn unblock(arguments: &UnblockArguments) -> Result<(), Failure> {
    let site = arguments.site.as_deref().map(site).transpose()?;
    if let Some((name, socket)) = &site
        && UnixStream::connect(socket).is_ok()
    {
        return Err(Failure::Input(format!(
            "the gateway of {name} runs and would block packets again: end it first, or set tun.on_exit = \"pass\" \
             in its file and reload"
        )));
    }
    let blocked = site.as_ref().map_or(Blocked::All, |(name, _)| Blocked::Site(name));
    let number = device::unblock(blocked).map_err(|error| match error.errno() {
        Some(EPERM | EACCES) => Failure::Lacking(format!("{error} (this needs CAP_NET_ADMIN: run as root)")),
        _ => Failure::Other(error.to_string()),
    })?;
    let blocked_by = site.as_ref().map_or_else(String::new, |(name, _)| format!(" by {name}"));
    print_line(&match number {
        0 => format!("no prefix was blocked{blocked_by}"),
        number => count(number, "prefix was blocked", "prefixes were blocked") + &blocked_by,
    })
}

const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// The site's name and its control socket, given its file or its name.
fn site(given: &Path) -> Result<(String, PathBuf), Failure> {
    if given.extension().is_some_and(|extension| extension == "toml") {
        let config = Config::load(given).map_err(|error| Failure::Input(error.to_string()))?;
        return Ok((config.name, config.control.socket));
    }
    let name = given.display().to_string();
    let socket = Path::new(RUN_DIRECTORY).join(format!("{name}.sock"));
    Ok((name, socket))
}
