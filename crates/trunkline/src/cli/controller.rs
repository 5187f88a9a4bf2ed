//! The commands of the controller itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use trunkline_controller::{Place, Role, Steps};

use super::{expiry, step_time};

#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// Show which trunks of a network can have the rates that they ask for, on which ways, and what others lack. It changes nothing.
    Plan(NetworkPlanArguments),
    /// Keep a network's file and its plan as the next revision of a store.
    Apply(ApplyArguments),
    /// Print the document of a revision, or its plan.
    Export(NetworkExportArguments),
    /// List the revisions of a store: when, by whom, why, and what was changed.
    Log(LogArguments),
    /// Serve a store over HTTPS in the foreground, to gateways, people and their programs, until a signal ends it.
    Serve(ServeArguments),
    /// Print the certificate by which programs know the controller (curl --cacert).
    Certificate(StoreArguments),
    /// Make a token by which somebody asks the controller, and print it.
    Token(TokenArguments),
    /// Invite a site of the document to enrol, once: print an invitation for `enrol`.
    Invite(InviteSiteArguments),
    /// Print the JSON Schema of a network's file, for editors.
    Schema,
    /// Say how far a revision is that sites get in steps, or end that.
    Rollout(RolloutArguments),
    /// Print the description of the controller's interface for programs, which it serves as /openapi.json.
    Openapi,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The store: a file, or the URL of a database (postgres:), which several controllers can serve in turn; it is made if there is none.
    pub(crate) store: Place,
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:4680")]
    pub(crate) listen: SocketAddr,
    /// By what URL gateways reach it; needed once.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A chain of certificates in PEM (default: one that the controller makes). Gateways trust the last one.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The key of the first certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    /// The store.
    pub(crate) store: Place,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArguments {
    /// The store; it is made if there is none.
    pub(crate) store: Place,
    /// Whose it is.
    pub(crate) name: String,
    /// What it allows.
    #[arg(long, value_enum, value_name = "ROLE", default_value_t = TokenRole::Viewer)]
    pub(crate) role: TokenRole,
    /// Remove it.
    #[arg(long)]
    pub(crate) remove: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenRole {
    /// To look at everything but secrets.
    Viewer,
    /// To change it as well.
    Admin,
}

impl From<TokenRole> for Role {
    fn from(role: TokenRole) -> Self {
        match role {
            TokenRole::Viewer => Role::Viewer,
            TokenRole::Admin => Role::Admin,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct InviteSiteArguments {
    /// The store.
    pub(crate) store: Place,
    /// The site, by its name in the document.
    pub(crate) site: String,
    /// How long the invitation holds.
    #[arg(long, value_name = "TIME", default_value = "24 h", value_parser = expiry)]
    pub(crate) expires: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct NetworkPlanArguments {
    /// The network's file.
    pub(crate) file: PathBuf,
    /// Begin with what this plan carries, which --json has printed.
    #[arg(long, value_name = "PLAN", conflicts_with = "store")]
    pub(crate) from: Option<PathBuf>,
    /// Begin with what the latest revision of this store carries, and show what is changed.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<Place>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArguments {
    /// The network's file.
    pub(crate) file: PathBuf,
    /// The store: a file, or the URL of a database (postgres:); it is made if there is none.
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Place,
    /// The revision that the file was made from, 0 for a new store. If there is a later one, nothing is applied.
    #[arg(long, value_name = "REVISION")]
    pub(crate) from: u64,
    /// Who applies it (default: the user of this process).
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Why.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) note: String,
    /// Apply it even if trunks are refused.
    #[arg(long)]
    pub(crate) partly: bool,
    /// Let sites have it in steps: which part of the trunks that change has changed after each, in percent, as 1,10,50. The controller that
    /// serves the store goes on when the trunks of a step are up again, and takes all back if they are not.
    #[arg(long, value_name = "PERCENT,...")]
    pub(crate) steps: Option<Steps>,
    /// How long a step may take.
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = step_time, requires = "steps")]
    pub(crate) step_time: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutArguments {
    /// The store.
    pub(crate) store: Place,
    /// Let all sites have the revision now.
    #[arg(long, conflicts_with = "back")]
    pub(crate) finish: bool,
    /// Let all sites have what was there before, as a new revision.
    #[arg(long)]
    pub(crate) back: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NetworkExportArguments {
    /// The store.
    pub(crate) store: Place,
    /// The revision (default: the latest).
    #[arg(long, value_name = "REVISION")]
    pub(crate) revision: Option<u64>,
    /// Print the plan as JSON instead of the document.
    #[arg(long)]
    pub(crate) plan: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// The store.
    pub(crate) store: Place,
    /// Print a JSON object for each revision, a line each.
    #[arg(long)]
    pub(crate) json: bool,
}
