//! The definition of the command line. The man pages and shell completions are generated from it.

#[cfg(feature = "controller")]
pub(crate) mod controller;
#[cfg(feature = "laboratory")]
pub(crate) mod laboratory;

#[cfg(feature = "web")]
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use trunkline_gateway::config::{interface_address, is_site_name, prefix};
use trunkline_gateway::join::LONGEST;
use trunkline_schema::SITE_NAME;
use trunkline_schema::quantity::Time;

/// The commands that only a build with the laboratory has.
const LABORATORY: [&str; 3] = ["demo", "bench", "lab"];
/// The command that only a build with pages for browsers has.
const WEB: [&str; 1] = ["web"];
/// The commands of `controller` that only a build with the controller has.
const CONTROLLER: [&str; 11] = [
    "plan",
    "apply",
    "export",
    "log",
    "serve",
    "certificate",
    "token",
    "invite",
    "rollout",
    "schema",
    "openapi",
];

/// TCP trunks between sites: each class of traffic in a congestion-controlled, encrypted lane of its own.
#[derive(Debug, Parser)]
#[command(name = "trunkline", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration, 3 no daemon answers, \
4 this machine lacks something that the command needs, 5 usable but with warnings (check, doctor), 6 cannot write the output, \
7 a bound does not hold (lab survey) or a trunk is refused (controller), 130 interrupted, 141 the reader of the output has gone."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a site's gateway in the foreground, until `trunkline down` or a signal ends it.
    Up(UpArguments),
    /// Check whether a gateway starts with a configuration file, and print what the file means.
    Check(FileReportArguments),
    /// Look for what keeps a site's trunks from working on this machine, and print a remedy for each finding. It changes nothing.
    Doctor(DoctorArguments),
    /// Set this machine up as a site, start its gateway, and invite another site.
    Init(InitArguments),
    /// Invite another site: print an invitation, and wait until a site has joined by it.
    Invite(InviteArguments),
    /// Set this machine up as a site that joins the one which has invited it; or join with the site that is here.
    Join(JoinArguments),
    /// Remove a site from this machine, or a peer from a site.
    Leave(LeaveArguments),
    /// Show the state of a running gateway: peers, classes, lanes, drops; or of running proxies.
    Status(StatusArguments),
    /// Watch a running gateway, live: classes, lanes, the busiest flows, proxies; or running proxies.
    Top(TopArguments),
    /// Show a running gateway, or running proxies, on a page for browsers, until a signal ends it.
    #[cfg(feature = "web")]
    Web(WebArguments),
    /// Make a running gateway read its file again. It does not touch lanes whose configuration stays the same.
    Reload(InstanceArguments),
    /// End a running gateway, or running proxies.
    Down(InstanceArguments),
    /// Remove what an ended gateway (`tun.on_exit`), or ended proxies (`proxy.fail = "closed"`), block packets with.
    Unblock(UnblockArguments),
    /// Run programs in the foreground when a gateway or a peer comes up or goes down, or a path changes, until a signal ends it.
    Hooks(HooksArguments),
    /// Run transparent TCP proxies in the foreground, for hosts behind this one, until a signal ends them.
    Proxy(ProxyArguments),
    #[cfg(feature = "laboratory")]
    #[command(flatten)]
    Laboratory(laboratory::LaboratoryCommand),
    /// Plan trunks with a guaranteed rate between many sites, and keep the plans.
    Controller(ControllerArguments),
    /// Print the JSON Schema of a site's configuration file, for editors.
    Schema,
    /// Generate a private key and print it.
    Genkey,
    /// Read a private key from standard input and print its public key.
    Pubkey,
    /// Print a shell's completion script for this program.
    Completions(CompletionsArguments),
    /// Print the man page of this program, or write all pages into a directory.
    Man(ManArguments),
}

#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    /// The site's configuration file.
    pub(crate) file: PathBuf,
    /// The format of the log.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Each line is text.
    Text,
    /// Each line is a JSON object.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct FileReportArguments {
    /// The site's configuration file, or the name of one in /etc/trunkline.
    #[arg(value_parser = site_file)]
    pub(crate) file: PathBuf,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// The site's configuration file, or the name of one in /etc/trunkline. Without it only this machine is examined.
    #[arg(value_parser = site_file)]
    pub(crate) file: Option<PathBuf>,
    /// Also write what helpers need into this new file: findings, versions, settings, routes, the site's file, status and log.
    /// No private key is in it; addresses and names are.
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a command that changes the machine goes on.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// Do not ask.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What an invitation offers.
#[derive(Debug, Args)]
pub(crate) struct OfferArguments {
    /// Where other sites dial this one (default: this machine's addresses). May be repeated.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) endpoint: Vec<String>,
    /// A network behind this machine that the other site shall reach (default: all that are found). May be repeated.
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub(crate) lan: Vec<IpNet>,
    /// A network that the other site may bring although it is not private. May be repeated.
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub(crate) allow: Vec<IpNet>,
    /// How long the invitation can be used: 1 s to 168 h.
    #[arg(long, value_name = "TIME", default_value = "1 h", value_parser = expiry)]
    pub(crate) expires: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// The site's name: 1 to 64 of A-Z a-z 0-9 . _ - (default: the host's name).
    #[arg(long, value_parser = site_name)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) offer: OfferArguments,
    /// The port that the gateway listens on, TCP and UDP.
    #[arg(long, default_value_t = 4600)]
    pub(crate) port: u16,
    /// This site's address in the tunnel, with the length of the tunnel's prefix (default: a free one of 10.192.0.0/10).
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = interface_address)]
    pub(crate) tunnel: Option<IpNet>,
    /// Where sites are.
    #[arg(long, value_name = "DIR", default_value = "/etc/trunkline")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) plan: PlanArguments,
}

#[derive(Debug, Args)]
pub(crate) struct InviteArguments {
    /// The site: its configuration file or its name. Optional if there is only one.
    pub(crate) site: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) offer: OfferArguments,
    /// Where sites are.
    #[arg(long, value_name = "DIR", default_value = "/etc/trunkline")]
    pub(crate) directory: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct JoinArguments {
    /// What `trunkline init` or `trunkline invite` has printed at the other site; `-` reads it from standard input.
    pub(crate) invitation: String,
    /// The name of this site (default: the site that is here, or the host's name).
    #[arg(long, value_parser = site_name)]
    pub(crate) name: Option<String>,
    /// A network behind this machine that the other site shall reach (default: all that are found). May be repeated.
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub(crate) lan: Vec<IpNet>,
    /// Where sites are.
    #[arg(long, value_name = "DIR", default_value = "/etc/trunkline")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) plan: PlanArguments,
}

#[derive(Debug, Args)]
pub(crate) struct LeaveArguments {
    /// The site: its configuration file or its name. Optional if there is only one.
    pub(crate) site: Option<PathBuf>,
    /// Remove this peer from the site, and keep the site.
    #[arg(long, value_name = "NAME")]
    pub(crate) peer: Option<String>,
    /// Where sites are.
    #[arg(long, value_name = "DIR", default_value = "/etc/trunkline")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) plan: PlanArguments,
}

#[derive(Debug, Args)]
#[cfg_attr(
    not(feature = "controller"),
    command(
        after_help = format!(
            "This program is the gateway alone. Package trunkline-lab has the commands of the controller itself: {}.",
            CONTROLLER.join(", ")
        )
    )
)]
pub(crate) struct ControllerArguments {
    #[command(subcommand)]
    pub(crate) command: ControllerCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControllerCommand {
    #[cfg(feature = "controller")]
    #[command(flatten)]
    Server(controller::ServerCommand),
    /// Make a gateway a site of a controller, by an invitation. Its private key stays where it is.
    Enrol(EnrolArguments),
    /// Keep a site's peers as its controller says, in the foreground, until a signal ends it.
    Follow(FollowArguments),
}

#[derive(Debug, Args)]
pub(crate) struct EnrolArguments {
    /// What `trunkline controller invite` has printed.
    pub(crate) invitation: String,
    /// The site's configuration file.
    pub(crate) file: PathBuf,
    /// A network that may be behind other sites (default: those of RFC 1918, RFC 6598 and RFC 4193). May be repeated.
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub(crate) accept: Vec<IpNet>,
}

#[derive(Debug, Args)]
pub(crate) struct FollowArguments {
    /// The site's configuration file.
    pub(crate) file: PathBuf,
    /// Ask once, take what there is, and end.
    #[arg(long)]
    pub(crate) once: bool,
}

/// A site's file: what is given, or the file of the site that has this name.
fn site_file(text: &str) -> Result<PathBuf, &'static str> {
    if text.is_empty() {
        return Err("allowed: a file, or the name of a site in /etc/trunkline");
    }
    let given = PathBuf::from(text);
    let named = Path::new("/etc/trunkline").join(format!("{text}.toml"));
    Ok(if is_site_name(text) && !given.exists() && named.exists() { named } else { given })
}

fn site_name(text: &str) -> Result<String, String> {
    if is_site_name(text) { Ok(text.to_owned()) } else { Err(format!("allowed: {SITE_NAME}")) }
}

fn expiry(text: &str) -> Result<Duration, String> {
    time(text, LONGEST.as_secs(), "allowed: 1 s to 168 h, such as \"30 min\" or \"24 h\"")
}

#[cfg(feature = "controller")]
fn step_time(text: &str) -> Result<Duration, String> {
    time(text, 24 * 3600, "allowed: 1 s to 24 h")
}

fn limit(text: &str) -> Result<Duration, String> {
    time(text, 600, "allowed: 1 s to 10 min")
}

/// A time from 1 s to `max_s`.
fn time(text: &str, max_s: u64, allowed: &str) -> Result<Duration, String> {
    let time = text.parse::<Time>().map_err(|error| format!("{error}; {allowed}"))?.0;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(max_s);
    if bounds.contains(&time) { Ok(time) } else { Err(allowed.to_owned()) }
}

#[derive(Debug, Args)]
pub(crate) struct InstanceArguments {
    /// The site, or the proxies: the configuration file, the control socket, or the name. Optional if only one daemon runs.
    pub(crate) site: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct UnblockArguments {
    /// The site: its configuration file or its name. Or the proxies' file.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) site: Option<PathBuf>,
    /// All sites and proxies of this machine.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HooksArguments {
    /// The site: its configuration file, control socket or name. Its gateway may start later.
    pub(crate) site: PathBuf,
    /// Where the programs are. All that are executable run for each event, in the order of their names.
    #[arg(long, value_name = "DIR", default_value = "/etc/trunkline/hooks")]
    pub(crate) directory: PathBuf,
    /// How long a program may take before it is ended.
    #[arg(long, value_name = "TIME", default_value = "10 s", value_parser = limit)]
    pub(crate) limit: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct ProxyArguments {
    /// The proxies' configuration file.
    pub(crate) file: PathBuf,
    /// Check the file, print what it means, and do nothing else.
    #[arg(long)]
    pub(crate) check: bool,
    /// Print one JSON object: with --check what the file means, otherwise the counts at the end.
    #[arg(long)]
    pub(crate) json: bool,
    /// The format of the log.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) instance: InstanceArguments,
    /// The interval over which rates are measured, in seconds: 0.1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one JSON object instead, at once: counters and the kernel's values, without rates.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    pub(crate) instance: InstanceArguments,
    /// The interval between updates, in seconds: 0.1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one frame as text, with the rates of one interval, and exit.
    #[arg(long)]
    pub(crate) once: bool,
}

#[cfg(feature = "web")]
#[derive(Debug, Args)]
pub(crate) struct WebArguments {
    #[command(flatten)]
    pub(crate) instance: InstanceArguments,
    #[command(flatten)]
    pub(crate) serving: ServingArguments,
}

/// Where pages are served, and to whom.
#[cfg(feature = "web")]
#[derive(Debug, Args)]
pub(crate) struct ServingArguments {
    /// Where to listen. What other machines can reach needs --certificate, --key and --token-file.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// The chain of certificates for TLS, in PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// A file with what a browser asks for as the password, of any user: one line of 16 to 256 characters.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "not a number of seconds; allowed: 0.1 to 3600".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("allowed: 0.1 to 3600".to_owned()) }
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The directory for trunkline.1, trunkline-up.1 and so on, and trunkline.toml.5; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// The command that `error` does not know because this build is not the whole program.
pub(crate) fn command_elsewhere(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // The usage line says whose command is missing: `Usage: trunkline controller <COMMAND>`.
    let of_controller = matches!(error.get(ContextKind::Usage), Some(ContextValue::StyledStr(usage))
        if usage.to_string().contains("trunkline controller "));
    if of_controller {
        let known = !cfg!(feature = "controller") && CONTROLLER.contains(&unknown.as_str());
        return known.then(|| format!("controller {unknown}"));
    }
    let lacking = (!cfg!(feature = "laboratory") && LABORATORY.contains(&unknown.as_str()))
        || (!cfg!(feature = "web") && WEB.contains(&unknown.as_str()));
    lacking.then(|| unknown.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_or_said_to_be_elsewhere() {
        let elsewhere = |line: &[&str]| {
            let error = Cli::try_parse_from(line).expect_err("help is an error too");
            command_elsewhere(&error)
        };
        for name in LABORATORY {
            let missing = (!cfg!(feature = "laboratory")).then(|| name.to_owned());
            for line in [&["trunkline", name, "--help"][..], &["trunkline", "help", name]] {
                assert_eq!(elsewhere(line), missing, "{line:?}");
            }
        }
        for name in CONTROLLER {
            let missing = (!cfg!(feature = "controller")).then(|| format!("controller {name}"));
            for line in
                [&["trunkline", "controller", name, "--help"][..], &["trunkline", "controller", "help", name]]
            {
                assert_eq!(elsewhere(line), missing, "{line:?}");
            }
        }
        for line in [
            &["trunkline", "nosuch"][..],
            &["trunkline", "plan"],
            &["trunkline", "--lab"],
            &["trunkline", "--help"],
            &["trunkline", "controller", "lab"],
        ] {
            assert_eq!(elsewhere(line), None, "{line:?}");
        }
    }
}
