//! `doctor --bundle`: one text file with what helpers need, which people can read before they send it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;

use trunkline_gateway::config::Config;
use trunkline_gateway::doctor::{Part, describe_machine};
use trunkline_service::control::ask;
use trunkline_status::{Answer, Request};

use crate::failure::Failure;
use crate::output::remark;

/// The lines of the log that are of interest.
const LOG_LINES: &str = "300";

/// Writes the file, which must not be there yet. `findings`: what the doctor says.
pub(super) fn write(
    path: &Path,
    file: Option<&Path>,
    site: Option<&Config>,
    findings: &str,
) -> Result<(), Failure> {
    let part = |title: &str, text: String| Part { title: title.to_owned(), text };
    let program = format!(
        "trunkline {} on {} {}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    let mut parts = vec![part("program", program), part("trunkline doctor", findings.to_owned())];
    parts.extend(describe_machine());
    if let Some(file) = file {
        let text = fs::read(file).map_or_else(
            |error| format!("cannot be read: {error}\n"),
            |bytes| Config::without_secrets(&String::from_utf8_lossy(&bytes)),
        );
        parts.push(part(&file.display().to_string(), text));
    }
    if let Some(site) = site {
        parts.push(part("trunkline status --json", status(site)));
        parts.push(part("log", log(&site.name)));
    }
    let mut text = String::new();
    for Part { title, text: part } in parts {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "==== {title}\n{part}");
    }
    let written = File::options().write(true).create_new(true).mode(0o600).open(path);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        if error.kind() != ErrorKind::AlreadyExists {
            let _ = fs::remove_file(path);
        }
        Failure::Other(format!("cannot write {}: {error}", path.display()))
    })?;
    remark(&format_args!(
        "{} is written; it has no private key, but addresses and names: read it before you send it",
        path.display()
    ));
    Ok(())
}

/// The state of the site's gateway.
fn status(site: &Config) -> String {
    let status = match ask(&site.control.socket, &Request::Status) {
        Ok(Answer::Status(status)) => {
            serde_json::to_string_pretty(&status).map_err(|error| error.to_string())
        }
        Ok(_) => Err("the daemon is no gateway".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    status.unwrap_or_else(|error| error) + "\n"
}

/// The last lines of the log of the site's unit, where there is a journal.
fn log(name: &str) -> String {
    let unit = format!("trunkline@{name}");
    let journal = Command::new("journalctl")
        .args(["--unit", &unit, "--lines", LOG_LINES, "--no-pager", "--output", "short-iso"])
        .output();
    match journal {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => format!("journalctl: {error}\n"),
    }
}
