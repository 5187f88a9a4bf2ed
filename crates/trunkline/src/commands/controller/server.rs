//! The controller itself: many sites as one document, its revisions, and the process that gateways ask.

use std::env;
use std::path::Path;

use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use trunkline_controller::server::{Candidate, Identity, IdentityError, NewIdentity, ServeError, openapi};
use trunkline_controller::{
    Author, Document, Entry, Plan, Proposal, Rollout, Store, StoreError, changes, json_schema_text, plan,
};
use trunkline_schema::{MAX_FILE, count, read_file};
use trunkline_service::raise_descriptor_limit;
use trunkline_sites::{now, secret};

use crate::cli::controller::{
    ApplyArguments, InviteSiteArguments, LogArguments, NetworkExportArguments, NetworkPlanArguments,
    RolloutArguments, ServeArguments, ServerCommand, StoreArguments, TokenArguments,
};
use crate::failure::Failure;
use crate::output::{print, print_line, remark};

/// The longest file of a plan, bytes: some hundred for each trunk.
const MAX_PLAN: u64 = 64 << 20;

pub(super) fn run(command: &ServerCommand) -> Result<(), Failure> {
    match command {
        ServerCommand::Plan(arguments) => show(arguments),
        ServerCommand::Apply(arguments) => apply(arguments),
        ServerCommand::Export(arguments) => export(arguments),
        ServerCommand::Log(arguments) => log(arguments),
        ServerCommand::Serve(arguments) => serve(arguments),
        ServerCommand::Certificate(arguments) => certificate(arguments),
        ServerCommand::Token(arguments) => token(arguments),
        ServerCommand::Invite(arguments) => invite(arguments),
        ServerCommand::Rollout(arguments) => rollout(arguments),
        ServerCommand::Schema => print(&json_schema_text()),
        ServerCommand::Openapi => print_line(&openapi()),
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::Refused(_) => Failure::Bound(text),
            StoreError::Missing(_)
            | StoreError::Foreign(_)
            | StoreError::Newer { .. }
            | StoreError::NoRevision { .. }
            | StoreError::Unknown { .. }
            | StoreError::There { .. }
            | StoreError::Invitation(_)
            | StoreError::KnownKey(_)
            | StoreError::NoRollout
            | StoreError::Document(_) => Failure::Input(text),
            StoreError::Busy(_)
            | StoreError::Away { .. }
            | StoreError::Follows(_)
            | StoreError::Database { .. }
            | StoreError::Plan { .. }
            | StoreError::Conflict { .. }
            | StoreError::RollsOut(_)
            | StoreError::Same(_) => Failure::Other(text),
        }
    }
}

fn show(arguments: &NetworkPlanArguments) -> Result<(), Failure> {
    let latest = match &arguments.store {
        Some(store) => Store::open(store)?.latest()?,
        None => None,
    };
    let before = match &arguments.from {
        Some(path) => Some(read_plan(path)?),
        None => latest.as_ref().map(|latest| latest.plan.clone()),
    };
    let text = read(&arguments.file, MAX_FILE)?;
    let document = document(&arguments.file, &text)?;
    let plan = plan(&document, before.as_ref());
    if arguments.json {
        print_line(&plan.to_json())?;
    } else {
        if let Some(latest) = latest {
            print_line(&format!("from revision {}, by {}", latest.number, latest.by))?;
            let changed = changes(&latest.document, &text);
            changed.iter().try_for_each(|change| print_line(&format!("  {change}")))?;
        }
        print(&plan.to_string())?;
    }
    match plan.refused().count() {
        0 => Ok(()),
        refused => Err(Failure::Bound(format!("{} refused", count(refused, "trunk is", "trunks are")))),
    }
}

fn apply(arguments: &ApplyArguments) -> Result<(), Failure> {
    let ApplyArguments { file, store, from, by, note, partly, steps, step_time } = arguments;
    let text = read(file, MAX_FILE)?;
    let by = by.clone().unwrap_or_else(user);
    let steps = steps.clone().map(|steps| steps.within(*step_time)).transpose().map_err(Failure::Input)?;
    // A mistake in the file makes no store.
    document(file, &text)?;
    let mut store = if *from == 0 { Store::create(store)? } else { Store::open(store)? };
    let proposal = Proposal {
        name: &file.display().to_string(),
        text: &text,
        from: *from,
        by: &by,
        note,
        at: now(),
        partly: *partly,
        steps: steps.as_ref(),
    };
    let applied = store.apply(&proposal);
    if let Err(StoreError::Refused(plan)) = &applied {
        print(&plan.to_string())?;
    }
    let revision = applied?;
    print_line(&format!("revision {}", revision.number))?;
    print(&revision.plan.to_string())
}

fn export(arguments: &NetworkExportArguments) -> Result<(), Failure> {
    let mut store = Store::open(&arguments.store)?;
    let latest = if arguments.revision.is_none() { store.latest()? } else { None };
    let revision = match latest {
        Some(latest) => latest,
        None => store.revision(arguments.revision.unwrap_or(1))?,
    };
    if arguments.plan {
        return print_line(&revision.plan.to_json());
    }
    remark(&format_args!("trunkline: this is revision {}", revision.number));
    print(&revision.document)
}

/// A revision as `log` lists it.
#[derive(Debug, Serialize)]
struct Logged {
    #[serde(flatten)]
    entry: Entry,
    changed: Vec<String>,
}

fn log(arguments: &LogArguments) -> Result<(), Failure> {
    let mut store = Store::open(&arguments.store)?;
    let mut before = String::new();
    for number in 1..=store.latest_number()? {
        let revision = store.revision(number)?;
        let logged = Logged { entry: revision.entry(), changed: changes(&before, &revision.document) };
        before = revision.document;
        if arguments.json {
            print_line(&serde_json::to_string(&logged).map_err(Failure::doing("cannot print"))?)?;
            continue;
        }
        let Logged { entry: Entry { revision, at, by, note, carried, refused }, changed } = logged;
        let note = if note.is_empty() { note } else { format!(": {note}") };
        let carried = count(carried, "trunk", "trunks");
        print_line(&format!("revision {revision}, {}, {by}{note}", utc(at)))?;
        print_line(&format!("  {carried} carried, {refused} refused"))?;
        changed.iter().try_for_each(|change| print_line(&format!("  {change}")))?;
    }
    Ok(())
}

impl From<IdentityError> for Failure {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::Store(error) => error.into(),
            error => Failure::Input(error.to_string()),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Store(error) => error.into(),
            ServeError::Identity(error) => error.into(),
            error => Failure::Other(error.to_string()),
        }
    }
}

fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let ServeArguments { store, listen, url, certificate, key } = arguments;
    let given = NewIdentity { url: url.as_deref(), certificate: certificate.as_deref().zip(key.as_deref()) };
    let mut candidate = Candidate::new(store, *listen)?;
    candidate
        .wait(|| remark(&format_args!("trunkline: another controller serves {store}; this one waits")))?;
    let server = candidate.listen(&given)?;
    let address = server.address().map_err(Failure::doing("cannot listen"))?;
    if let Err(error) = raise_descriptor_limit() {
        remark(&format_args!(
            "trunkline: cannot raise the limit of open files, which bounds the sites: {error}"
        ));
    }
    remark(&format_args!("trunkline: the controller of {store} listens at {address}"));
    server.run().map_err(Failure::from)
}

fn certificate(arguments: &StoreArguments) -> Result<(), Failure> {
    let mut store = Store::open(&arguments.store)?;
    print(Identity::known(&mut store)?.certificate())
}

fn token(arguments: &TokenArguments) -> Result<(), Failure> {
    let TokenArguments { store, name, role, remove } = arguments;
    let by = user();
    let author = Author { by: &by, at: now() };
    if *remove {
        Store::open(store)?.remove_token(author, name)?;
        return print_line(&format!("token {name} is removed"));
    }
    let secret = secret().map_err(Failure::doing("cannot make a token"))?;
    Store::create(store)?.add_token(author, name, (*role).into(), &secret)?;
    print_line(&secret)
}

fn invite(arguments: &InviteSiteArguments) -> Result<(), Failure> {
    let InviteSiteArguments { store, site, expires } = arguments;
    let mut store = Store::open(store)?;
    let latest = store.latest()?.map(|latest| latest.read()).transpose();
    let latest = latest.map_err(|mistakes| Failure::Other(mistakes.to_string()))?;
    if !latest.is_some_and(|document| document.sites().contains(site)) {
        return Err(Failure::Input(format!("the latest document has no site {site}; `apply` one that has")));
    }
    let (by, at) = (user(), now());
    let expires_at = at + expires.as_secs();
    let invitation = Identity::known(&mut store)?.invitation(site, expires_at)?;
    store.invite(Author { by: &by, at }, site, &invitation.secret, expires_at)?;
    print_line(&invitation.to_text())
}

fn rollout(arguments: &RolloutArguments) -> Result<(), Failure> {
    let RolloutArguments { store, finish, back } = arguments;
    let mut store = Store::open(store)?;
    let by = user();
    let author = Author { by: &by, at: now() };
    if *finish {
        let revision = store.finish(author)?;
        return print_line(&format!("all sites get revision {revision}"));
    }
    if *back {
        let revision = store.roll_back(author, "asked to")?;
        return print_line(&format!("revision {} is {}", revision.number, revision.note));
    }
    match store.rollout()? {
        None => print_line("no revision is being rolled out"),
        Some(Rollout { revision, steps, step }) => print_line(&format!(
            "revision {revision}: step {step} of {} ({steps} % of the trunks that change, then all); a step may take {:?}",
            steps.count(),
            steps.wait()
        )),
    }
}

fn read(path: &Path, limit: u64) -> Result<String, Failure> {
    read_file(path, limit).map_err(|problem| Failure::Input(format!("{}: {problem}", path.display())))
}

fn document(file: &Path, text: &str) -> Result<Document, Failure> {
    let name = file.display().to_string();
    Document::parse(&name, text).map_err(|mistakes| Failure::Input(mistakes.to_string()))
}

fn read_plan(path: &Path) -> Result<Plan, Failure> {
    let text = read(path, MAX_PLAN)?;
    Plan::parse(&text).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// The user of this process; of one that was started by sudo, who has started it.
fn user() -> String {
    let named = ["SUDO_USER", "USER"].into_iter().find_map(|name| env::var(name).ok());
    named.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

/// `2026-11-29T02:30:00Z`.
fn utc(at: u64) -> String {
    let time = i64::try_from(at).ok().and_then(|at| DateTime::from_timestamp(at, 0));
    time.map_or_else(|| format!("{at} s"), |time| time.to_rfc3339_opts(SecondsFormat::Secs, true))
}
