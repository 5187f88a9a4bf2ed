//! `doctor`: looks for what keeps a site's trunks from working on this machine.

mod bundle;

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use trunkline_gateway::config::Config;
use trunkline_gateway::doctor::{Examination, Level, examine};
use trunkline_gateway::preflight;
use trunkline_schema::count;

use super::site::load;
use crate::cli::DoctorArguments;
use crate::failure::Failure;
use crate::output::{print, print_line};

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    site: Option<&'a str>,
    #[serde(flatten)]
    examination: &'a Examination,
}

pub(crate) fn doctor(arguments: &DoctorArguments) -> Result<(), Failure> {
    let site = match arguments.file.as_deref().map(site).transpose() {
        Ok(site) => site,
        // Helpers need the file above all if it is wrong.
        Err(failure) => {
            if let Some(path) = &arguments.bundle {
                bundle::write(path, arguments.file.as_deref(), None, &format!("{failure}\n"))?;
            }
            return Err(failure);
        }
    };
    let examination = examine(site.as_ref());
    if let Some(path) = &arguments.bundle {
        bundle::write(path, arguments.file.as_deref(), site.as_ref(), &text(&examination))?;
    }
    if arguments.json {
        let report = Report { site: site.as_ref().map(|site| site.name.as_str()), examination: &examination };
        let json = serde_json::to_string_pretty(&report).map_err(Failure::doing("cannot print"))?;
        print_line(&json)?;
    } else {
        print(&text(&examination))?;
    }
    match examination.worst() {
        None => Ok(()),
        Some(Level::Warning) => Err(Failure::Warned),
        Some(Level::Fault) => Err(Failure::Reported(Box::new(Failure::Other(String::new())))),
    }
}

/// The site of a file with which a gateway starts.
fn site(file: &Path) -> Result<Config, Failure> {
    let site = load(file)?;
    preflight::check(&site).map_err(|refusals| Failure::Input(refusals.to_string()))?;
    Ok(site)
}

fn text(examination: &Examination) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for finding in &examination.findings {
        let level = match finding.level {
            Level::Warning => "warning",
            Level::Fault => "fault",
        };
        let _ = writeln!(text, "{level:<8} {}", finding.problem);
        let _ = writeln!(text, "         remedy: {}", finding.remedy);
    }
    for measured in &examination.measured {
        let _ = writeln!(text, "measured {measured}");
    }
    let number = |level| examination.findings.iter().filter(|finding| finding.level == level).count();
    let _ = writeln!(
        text,
        "looked at {}: {}, {}",
        count(examination.examined.len(), "subject", "subjects"),
        count(number(Level::Fault), "fault", "faults"),
        count(number(Level::Warning), "warning", "warnings"),
    );
    text
}
