//! `init`, `invite`, `join` and `leave`: sites set up, joined and removed by a command each.
//!
//! Remarks and questions go to standard error; standard output has the result alone, which for `init` and `invite` is the
//! invitation.

mod invite;
mod machine;

use std::io::{self, BufRead as _, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use trunkline_gateway::config::Config;
use trunkline_gateway::doctor::examine;
use trunkline_gateway::handshake::{Join, MAX_PREFIXES};
use trunkline_gateway::join::{Invitation, Surroundings, host_name, overlap, request};
use trunkline_gateway::keys::{PublicKey, SecretKey};
use trunkline_schema::read_input;
use trunkline_service::control::{ControlError, ask};
use trunkline_status::{Answer, Request};
use zeroize::Zeroizing;

use super::control::{take_on, wait_for_lanes};
use super::site::load;
use super::site_file::{NewPeer, NewSite, SiteFile};
use crate::cli::{InitArguments, InviteArguments, JoinArguments, LeaveArguments, PlanArguments};
use crate::failure::Failure;
use crate::output::{print_line, remark, remark_as_is};
use invite::Inviting;
use machine::{Machine, Step};

/// How long a gateway that was started may take to answer.
const START_TIME: Duration = Duration::from_secs(20);
/// How long the lanes to a new peer may take to come up.
const LANES_TIME: Duration = Duration::from_secs(20);
/// What a site is told that cannot get an address in a tunnel of its own.
const NO_TUNNEL: &str = "no network of 10.192.0.0/10 is free for the tunnel; write one in tun.address, such as [\"10.200.1.1/24\"]";
const MAX_INVITATION: u64 = 16 << 10;

pub(crate) fn init(arguments: &InitArguments) -> Result<(), Failure> {
    let machine = Machine::new(&arguments.directory);
    if arguments.name.is_none()
        && let Some(site) = machine.sites().first()
    {
        return Err(Failure::Input(format!(
            "there is a site already: {}; `trunkline invite` invites another to it, and --name makes a second one",
            site.display()
        )));
    }
    let name = arguments.name.clone().unwrap_or_else(host_name);
    let path = machine.directory.join(format!("{name}.toml"));
    if path.exists() {
        return Err(Failure::Input(format!("{} is there already", path.display())));
    }
    let around = surroundings()?;
    let lans = shared(&arguments.offer.lan, &around);
    let endpoints = invite::endpoints(&arguments.offer.endpoint, &around, arguments.port)?;
    let (key_step, key) = key(&machine, &name)?;
    let address = if let Some(address) = arguments.tunnel {
        address
    } else {
        let free = around.free_tunnel_address(&key.public());
        free.ok_or_else(|| Failure::Input(format!("{NO_TUNNEL}; or give one with --tunnel")))?
    };
    let listen: Vec<String> = listen(arguments.port).iter().map(SocketAddr::to_string).collect();
    let site = NewSite {
        made_by: "init",
        listen: &listen,
        key_file: &format!("{name}.key"),
        device: free_device(&machine),
        address,
        queues: 1,
        classes: "",
    };
    let about = format!("{} in the tunnel, dialled on port {} (TCP and UDP)", address.addr(), arguments.port);
    let mut steps: Vec<Step> = directory_step(&machine).into_iter().chain(key_step).collect();
    steps.push(Step::Site { path: path.clone(), text: site.text(), about });
    steps.extend(running_steps(&machine, &name, &lans));
    let told = [
        format!("networks behind it: {}", list(&lans, "none; give some with --lan")),
        format!("other sites dial it at: {}", endpoints.join(", ")),
    ];
    let what = format!("set up site {name}");
    if !confirm(&what, &told, &describe(&steps, &machine), &arguments.plan)? {
        return Ok(());
    }
    run(&steps, &machine)?;
    if !machine.has_unit {
        remark(&format_args!(
            "nothing starts the gateway here: run `trunkline up {}`; this command waits for it",
            path.display()
        ));
    }
    let limit = if machine.has_unit { START_TIME } else { arguments.offer.expires };
    let config = load(&path)?;
    wait_for_gateway(&config, limit)?;
    diagnose(&config);
    Inviting { file: &path, endpoints, lans, offer: &arguments.offer }.run()
}

pub(crate) fn invite(arguments: &InviteArguments) -> Result<(), Failure> {
    let machine = Machine::new(&arguments.directory);
    let file = site(&machine, arguments.site.as_deref())?;
    let config = load(&file)?;
    let port = config.listen.first().map(SocketAddr::port).ok_or_else(|| {
        Failure::Input(format!(
            "{} has no `listen`, so no site can dial it; write listen = [\"0.0.0.0:4600\"] and restart the gateway",
            file.display()
        ))
    })?;
    let around = surroundings()?.without(&config.tun.name);
    let lans = shared(&arguments.offer.lan, &around);
    let endpoints = invite::endpoints(&arguments.offer.endpoint, &around, port)?;
    Inviting { file: &file, endpoints, lans, offer: &arguments.offer }.run()
}

pub(crate) fn join(arguments: &JoinArguments) -> Result<(), Failure> {
    let invitation = invitation(&arguments.invitation)?;
    let terms = &invitation.terms;
    let machine = Machine::new(&arguments.directory);
    let sites = machine.sites();
    let file = match (&arguments.name, &sites[..]) {
        (Some(name), _) => machine.directory.join(format!("{name}.toml")),
        (None, []) => machine.directory.join(format!("{}.toml", own_name(&terms.name))),
        (None, [one]) => one.clone(),
        (None, several) => {
            return Err(Failure::Input(format!("several sites are here; give --name: {}", names(several))));
        }
    };
    if file.exists() {
        join_with(&file, &invitation, arguments)
    } else {
        join_new(&machine, &file, &invitation, arguments)
    }
}

/// Joins with a site that is there already.
fn join_with(path: &Path, invitation: &Invitation, arguments: &JoinArguments) -> Result<(), Failure> {
    let terms = &invitation.terms;
    let (mut file, config) = SiteFile::open(path)?;
    let own = public_key(&config)?;
    if own == terms.site {
        return Err(Failure::Input(format!("the invitation is of this very site, {}", config.name)));
    }
    if config.peers.iter().any(|peer| peer.public_key == terms.site) {
        return Err(Failure::Input(format!("{} is a peer of {} already", terms.name, config.name)));
    }
    if config.tun.queues != u16::from(terms.queues) {
        return Err(Failure::Input(format!(
            "tun.queues is {} here and {} at {}; both sites need the same number",
            config.tun.queues, terms.queues, terms.name
        )));
    }
    let around = surroundings()?.without(&config.tun.name);
    let lans = lans(arguments, &around, invitation)?;
    file.add_address(terms.address);
    // Tried before anybody is asked; the endpoint may be another one.
    let mut tried = file.clone();
    tried.add_peer(&peer(invitation, first_endpoint(invitation)?));
    tried.check()?;
    let steps = [
        format!("ask {} at {} to take {} in", terms.name, terms.endpoints.join(", "), config.name),
        format!("change {}: peer {}, {} in the tunnel", path.display(), terms.name, terms.address.addr()),
        "have the gateway read it again".to_owned(),
    ];
    let what = format!("join site {} to {}", config.name, terms.name);
    if !confirm(&what, &told(invitation, &lans), &steps, &arguments.plan)? {
        return Ok(());
    }
    let endpoint = ask_to_join(invitation, own, &config.name, &lans)?;
    file.add_peer(&peer(invitation, &endpoint));
    file.write()?;
    if !take_on(path, &config)? {
        remark(&"the gateway does not run: start it, and it takes the change");
    }
    finish(&load(path)?, invitation)
}

/// Joins with a new site.
fn join_new(
    machine: &Machine,
    path: &Path,
    invitation: &Invitation,
    arguments: &JoinArguments,
) -> Result<(), Failure> {
    let terms = &invitation.terms;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let around = surroundings()?;
    let lans = lans(arguments, &around, invitation)?;
    let (key_step, key) = key(machine, &name)?;
    let site = NewSite {
        made_by: "join",
        listen: &[],
        key_file: &format!("{name}.key"),
        device: free_device(machine),
        address: terms.address,
        queues: u16::from(terms.queues),
        classes: &terms.classes,
    };
    let about = format!("{} in the tunnel, peer {}", terms.address.addr(), terms.name);
    let write = |endpoint: &str| -> Result<Step, Failure> {
        let text = site.with_peer(&peer(invitation, endpoint), path)?;
        Ok(Step::Site { path: path.to_owned(), text, about: about.clone() })
    };
    let before: Vec<Step> = directory_step(machine).into_iter().chain(key_step).collect();
    let mut after = vec![write(first_endpoint(invitation)?)?];
    after.extend(running_steps(machine, &name, &lans));
    let mut steps = describe(&before, machine);
    steps.push(format!("ask {} at {} to take {name} in", terms.name, terms.endpoints.join(", ")));
    steps.extend(describe(&after, machine));
    let what = format!("set up site {name} and join it to {}", terms.name);
    if !confirm(&what, &told(invitation, &lans), &steps, &arguments.plan)? {
        return Ok(());
    }
    run(&before, machine)?;
    let endpoint = ask_to_join(invitation, key.public(), &name, &lans)?;
    after[0] = write(&endpoint)?;
    run(&after, machine)?;
    let config = load(path)?;
    if machine.has_unit {
        wait_for_gateway(&config, START_TIME)?;
    } else {
        remark(&format_args!("nothing starts the gateway here: run `trunkline up {}`", path.display()));
    }
    finish(&config, invitation)
}

pub(crate) fn leave(arguments: &LeaveArguments) -> Result<(), Failure> {
    let machine = Machine::new(&arguments.directory);
    let path = site(&machine, arguments.site.as_deref())?;
    if let Some(peer) = &arguments.peer {
        return leave_peer(&path, peer, &arguments.plan);
    }
    let config = Config::load(&path);
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut steps = Vec::new();
    steps.extend(machine.has_unit.then(|| Step::Stop(name.clone())));
    if let Ok(config) = &config {
        if ask::<Answer>(&config.control.socket, &Request::Status).is_ok() {
            steps.push(Step::Down(config.control.socket.clone()));
        }
        steps.push(Step::Unblock(config.name.clone()));
    }
    steps.push(Step::Remove(path.clone()));
    let key = path.with_extension("key");
    steps.extend(key.exists().then_some(Step::Remove(key)));
    let others = machine.sites().into_iter().filter(|site| *site != path).count();
    steps.extend(
        (others == 0 && machine.is_default() && machine::has_drop_in()).then_some(Step::StopForwarding),
    );
    let peers = config
        .iter()
        .flat_map(|config| &config.peers)
        .map(|peer| format!("its peer {} still has it: there, run `trunkline leave --peer NAME`", peer.name));
    let told: Vec<String> = peers.collect();
    if !confirm(&format!("remove site {name}"), &told, &describe(&steps, &machine), &arguments.plan)? {
        return Ok(());
    }
    run(&steps, &machine)?;
    print_line(&format!("site {name} is removed"))
}

/// Removes a peer from a site.
fn leave_peer(path: &Path, peer: &str, plan: &PlanArguments) -> Result<(), Failure> {
    let (mut file, config) = SiteFile::open(path)?;
    if !file.remove_peer(peer) {
        let known: Vec<&str> = config.peers.iter().map(|peer| peer.name.as_str()).collect();
        let known = if known.is_empty() { "it has none".to_owned() } else { known.join(", ") };
        return Err(Failure::Input(format!("{} has no peer {peer}; its peers: {known}", path.display())));
    }
    file.check()?;
    let steps = [
        format!("change {}: no peer {peer} any more", path.display()),
        "have the gateway read it again".to_owned(),
    ];
    if !confirm(&format!("remove peer {peer} from {}", config.name), &[], &steps, plan)? {
        return Ok(());
    }
    file.write()?;
    let ends = if take_on(path, &config)? { "" } else { "; its gateway does not run" };
    print_line(&format!("{peer} is no peer of {} any more{ends}", config.name))
}

/// Reads an invitation: what is given, or standard input if that is `-`.
fn invitation(given: &str) -> Result<Invitation, Failure> {
    let text = match given {
        "-" => {
            let read = read_input(io::stdin(), MAX_INVITATION);
            read.map_err(|problem| Failure::Input(format!("standard input: {problem}")))?
        }
        text => text.to_owned(),
    };
    let text = Zeroizing::new(text);
    text.parse().map_err(|error| Failure::Input(format!("{error}")))
}

/// The name of a new site, which is not that of the site which invites it.
fn own_name(inviting: &str) -> String {
    let name = host_name();
    if name == inviting { format!("{name}-2") } else { name }
}

/// The peer that the inviting site is, dialled at this endpoint.
fn peer(invitation: &Invitation, endpoint: &str) -> NewPeer {
    let terms = &invitation.terms;
    NewPeer {
        name: terms.name.clone(),
        public_key: terms.site.to_string(),
        endpoint: Some(endpoint.to_owned()),
        routes: terms.prefixes.clone(),
        ..NewPeer::default()
    }
}

/// The first endpoint of an invitation.
fn first_endpoint(invitation: &Invitation) -> Result<&str, Failure> {
    let first = invitation.terms.endpoints.first().map(String::as_str);
    first.ok_or_else(|| Failure::Input("the invitation has no endpoint".to_owned()))
}

fn told(invitation: &Invitation, lans: &[IpNet]) -> [String; 3] {
    let terms = &invitation.terms;
    [
        format!("{} has the key {}", terms.name, terms.site),
        format!("networks behind {}: {}", terms.name, list(&terms.prefixes, "none")),
        format!("networks behind this machine: {}", list(lans, "none; give some with --lan")),
    ]
}

/// The networks behind this machine that the other site shall reach: those that are given, or all that are found.
fn shared(given: &[IpNet], around: &Surroundings) -> Vec<IpNet> {
    if given.is_empty() { around.lans() } else { given.to_vec() }
}

/// The networks behind this machine, none of which the inviting site has too.
fn lans(
    arguments: &JoinArguments,
    around: &Surroundings,
    invitation: &Invitation,
) -> Result<Vec<IpNet>, Failure> {
    let terms = &invitation.terms;
    let lans = shared(&arguments.lan, around);
    if lans.len() >= MAX_PREFIXES {
        return Err(Failure::Input(format!("{} networks; allowed: up to {}", lans.len(), MAX_PREFIXES - 1)));
    }
    for theirs in &terms.prefixes {
        if let Some(ours) = lans.iter().find(|ours| overlap(ours, theirs)) {
            return Err(Failure::Input(format!(
                "{ours} is behind this machine, and {theirs} behind {}: one of the two needs other addresses, or say with --lan which \
                 networks of this machine the other site shall reach",
                terms.name
            )));
        }
        if let Some(used) = around.overlapping(theirs) {
            return Err(Failure::Input(format!(
                "{theirs} is behind {}, and this machine has {used} itself: hosts would become unreachable; {} can be invited again \
                 with fewer networks (`trunkline invite --lan`)",
                terms.name, terms.name
            )));
        }
    }
    Ok(lans)
}

fn ask_to_join(
    invitation: &Invitation,
    key: PublicKey,
    name: &str,
    lans: &[IpNet],
) -> Result<String, Failure> {
    let address = invitation.terms.address.addr();
    let mut prefixes = vec![IpNet::from(address)];
    prefixes.extend(lans);
    let join = Join { key, name: name.to_owned(), prefixes };
    let endpoint = request(invitation, &join).map_err(|error| Failure::Other(error.to_string()))?;
    remark(&format_args!("{} at {endpoint} has taken {name} in", invitation.terms.name));
    Ok(endpoint)
}

/// Waits for the lanes to the new peer, and says what was reached.
fn finish(config: &Config, invitation: &Invitation) -> Result<(), Failure> {
    let terms = &invitation.terms;
    let its = terms.prefixes.first().map_or(terms.address.addr(), IpNet::addr);
    if ask::<Answer>(&config.control.socket, &Request::Status).is_err() {
        return print_line(&format!("{} is a peer; its address in the tunnel is {its}", terms.name));
    }
    let up = wait_for_peer(config, &terms.name);
    diagnose(config);
    match up {
        Some(time) => print_line(&format!(
            "{} is a peer, lanes came up after {:.1} s; its address in the tunnel is {its}",
            terms.name,
            time.as_secs_f64()
        )),
        None => Err(Failure::Other(format!(
            "{} is a peer, and no lane to it is up after {} s; see `trunkline status` and `trunkline doctor {}`",
            terms.name,
            LANES_TIME.as_secs(),
            config.file.display()
        ))),
    }
}

/// Waits until a lane to the peer is up. Returns how long that took.
fn wait_for_peer(config: &Config, peer: &str) -> Option<Duration> {
    let begin = Instant::now();
    wait_for_lanes(config, vec![peer], LANES_TIME).is_empty().then(|| begin.elapsed())
}

fn wait_for_gateway(config: &Config, limit: Duration) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        match ask::<Answer>(&config.control.socket, &Request::Status) {
            Ok(_) => return Ok(()),
            Err(error @ ControlError::Denied { .. }) => return Err(Failure::Lacking(error.to_string())),
            Err(error) if begin.elapsed() >= limit => {
                return Err(Failure::NotRunning(format!(
                    "the gateway of {} has not started: {error}",
                    config.name
                )));
            }
            Err(_) => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Prints what `trunkline doctor` finds.
fn diagnose(config: &Config) {
    for finding in examine(Some(config)).findings {
        remark(&format_args!("doctor: {}\n  remedy: {}", finding.problem, finding.remedy));
    }
}

/// The file of a site that is named by its file or its name; or of the only site.
fn site(machine: &Machine, given: Option<&Path>) -> Result<PathBuf, Failure> {
    let sites = machine.sites();
    match (given, &sites[..]) {
        (Some(given), _) if given.extension().is_some_and(|extension| extension == "toml") => {
            Ok(given.to_owned())
        }
        (Some(given), _) => {
            let path = machine.directory.join(format!("{}.toml", given.display()));
            if path.exists() {
                return Ok(path);
            }
            let known = if sites.is_empty() { "there is none".to_owned() } else { names(&sites) };
            Err(Failure::Input(format!(
                "{} has no site {}; sites: {known}",
                machine.directory.display(),
                given.display()
            )))
        }
        (None, [one]) => Ok(one.clone()),
        (None, []) => Err(Failure::Input(format!(
            "{} has no site; `trunkline init` makes one",
            machine.directory.display()
        ))),
        (None, several) => {
            Err(Failure::Input(format!("several sites are here; name one of: {}", names(several))))
        }
    }
}

fn names(sites: &[PathBuf]) -> String {
    let names = sites.iter().filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    names.collect::<Vec<_>>().join(", ")
}

/// The public key of a site.
fn public_key(config: &Config) -> Result<PublicKey, Failure> {
    config.identity().map(|key| key.public()).map_err(|error| Failure::Input(error.to_string()))
}

fn surroundings() -> Result<Surroundings, Failure> {
    Surroundings::look().map_err(Failure::doing("cannot read addresses and routes"))
}

/// Where a new site listens.
fn listen(port: u16) -> Vec<SocketAddr> {
    let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
    let any: [Option<IpAddr>; 2] =
        [Some(Ipv4Addr::UNSPECIFIED.into()), has_ipv6.then_some(Ipv6Addr::UNSPECIFIED.into())];
    any.into_iter().flatten().map(|address| SocketAddr::new(address, port)).collect()
}

/// The name of a device that no other site here has; `None` if it is the default.
fn free_device(machine: &Machine) -> Option<String> {
    let sites = machine.sites();
    let taken = sites.iter().filter_map(|path| Config::load(path).ok()).map(|site| site.tun.name);
    let taken: Vec<String> = taken.collect();
    let names = (0..=taken.len()).map(|number| format!("trunk{number}"));
    names.filter(|name| !taken.contains(name)).take(1).find(|name| name != "trunk0")
}

fn directory_step(machine: &Machine) -> Option<Step> {
    (!machine.directory.is_dir()).then_some(Step::Directory)
}

/// What has a new site's gateway run, and carry the packets of these networks.
fn running_steps(machine: &Machine, name: &str, lans: &[IpNet]) -> impl Iterator<Item = Step> {
    let forward = (!lans.is_empty() && !machine::forwards()).then_some(Step::Forward);
    forward.into_iter().chain(machine.has_unit.then(|| Step::Start(name.to_owned())))
}

/// The private key of a new site: one that an interrupted command has left, or one to be made.
fn key(machine: &Machine, name: &str) -> Result<(Option<Step>, SecretKey), Failure> {
    let path = machine.directory.join(format!("{name}.key"));
    if path.exists() {
        let key = SecretKey::load(&path).map_err(|error| Failure::Input(error.to_string()))?;
        return Ok((None, key));
    }
    let key = SecretKey::generate().map_err(Failure::doing("cannot generate a key"))?;
    Ok((Some(Step::Key { path, text: Zeroizing::new(format!("{}\n", *key.to_base64())) }), key))
}

fn list(prefixes: &[IpNet], nothing: &str) -> String {
    if prefixes.is_empty() {
        return nothing.to_owned();
    }
    prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn describe(steps: &[Step], machine: &Machine) -> Vec<String> {
    steps.iter().map(|step| step.describe(machine)).collect()
}

/// Shows what will be done, and asks. Whether to go on.
fn confirm(what: &str, told: &[String], steps: &[String], plan: &PlanArguments) -> Result<bool, Failure> {
    remark(&format_args!("{what}:"));
    for line in told {
        remark(&format_args!("  {line}"));
    }
    for (number, step) in (1..).zip(steps) {
        remark(&format_args!("  {number}. {step}"));
    }
    if plan.dry_run {
        remark(&"nothing is done (--dry-run)");
        return Ok(false);
    }
    if plan.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Input(
            "this changes the machine, and nobody can be asked; --yes goes on, --dry-run only shows"
                .to_owned(),
        ));
    }
    remark_as_is("Go on? [Y/n] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::doing("cannot read the answer"))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "" | "y" | "yes" if !answer.is_empty() => Ok(true),
        _ => {
            remark(&"nothing is done");
            Ok(false)
        }
    }
}

fn run(steps: &[Step], machine: &Machine) -> Result<(), Failure> {
    steps.iter().try_for_each(|step| step.run(machine))
}
