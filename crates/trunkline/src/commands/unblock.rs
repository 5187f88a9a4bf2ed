//! `unblock`: removes what an ended gateway, or an ended proxy with `fail = "closed"`, has left so that packets or connections do not pass.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use trunkline_gateway::config::{Config, RUN_DIRECTORY};
use trunkline_gateway::device::{self, Blocked};
use trunkline_proxy::ProxyError;
use trunkline_schema::{ProxyFile, Source, count};

use super::proxy::control_socket;
use crate::cli::UnblockArguments;
use crate::failure::Failure;
use crate::output::print_line;

pub(crate) fn unblock(arguments: &UnblockArguments) -> Result<(), Failure> {
    let whose = arguments.site.as_deref().map(whose).transpose()?;
    if let Some(whose) = &whose
        && UnixStream::connect(&whose.socket).is_ok()
    {
        return Err(Failure::Input(if whose.site.is_some() {
            format!(
                "the gateway of {} runs and would block packets again: end it first, or set tun.on_exit = \"pass\" in its file \
                 and reload",
                whose.name
            )
        } else {
            format!("the proxies of {} run: end them first", whose.name)
        }));
    }
    let blocked = match &whose {
        None => Some(Blocked::All),
        Some(whose) => whose.site.as_deref().map(Blocked::Site),
    };
    if let Some(blocked) = blocked {
        let number = device::unblock(blocked).map_err(|error| failure(error.errno(), &error))?;
        let blocked_by = match blocked {
            Blocked::Site(name) => format!(" by {name}"),
            Blocked::All => String::new(),
        };
        print_line(&match number {
            0 => format!("no prefix was blocked{blocked_by}"),
            number => count(number, "prefix was blocked", "prefixes were blocked") + &blocked_by,
        })?;
    }
    if whose.is_none_or(|whose| whose.has_proxies) {
        match trunkline_proxy::unblock() {
            Ok(true) => print_line("connections of proxies were blocked")?,
            Ok(false) => print_line("no connections of proxies were blocked")?,
            // With --all it is not meant.
            Err(ProxyError::Running) if arguments.all => {}
            Err(error) => return Err(failure(error.errno(), &error)),
        }
    }
    Ok(())
}

const EPERM: i32 = 1;
const EACCES: i32 = 13;

fn failure(errno: Option<i32>, error: &dyn std::fmt::Display) -> Failure {
    match errno {
        Some(EPERM | EACCES) => Failure::Lacking(format!("{error} (this needs CAP_NET_ADMIN: run as root)")),
        _ => Failure::Other(error.to_string()),
    }
}

/// Who has left something.
struct Whose {
    name: String,
    /// The site, if it is one.
    site: Option<String>,
    socket: PathBuf,
    has_proxies: bool,
}

/// That of a file, or the site of a name.
fn whose(given: &Path) -> Result<Whose, Failure> {
    if given.extension().is_some_and(|extension| extension == "toml") {
        return match Config::load(given) {
            Ok(config) => Ok(Whose {
                name: config.name.clone(),
                site: Some(config.name),
                socket: config.control.socket,
                has_proxies: config.proxies.is_some(),
            }),
            // A file of proxies alone is no site's.
            Err(error) => {
                let file = Source::open(given).and_then(|source| ProxyFile::of(&source));
                let file = file.map_err(|_| Failure::Input(error.to_string()))?;
                let socket = control_socket(given, &file);
                Ok(Whose { name: given.display().to_string(), site: None, socket, has_proxies: true })
            }
        };
    }
    let name = given.display().to_string();
    let socket = Path::new(RUN_DIRECTORY).join(format!("{name}.sock"));
    Ok(Whose { site: Some(name.clone()), name, socket, has_proxies: false })
}
