//! `enrol` and `follow`: a gateway whose peers are those that a controller says.
//!
//! What is said of peers by others than the controller stays as it is. A configuration is taken only if the controller has signed it for
//! this site, if it is not older than the last one, and if all networks in it are among those that this site accepts. If trunks that were
//! up do not come up again with it, the file is what it was before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use trunkline_gateway::config::Config;
use trunkline_schema::{MAX_FILE, read_file};
use trunkline_sites::{
    Configuration, ConfiguredPeer, ControllerInvitation, Enrolled, Enrolment, Expected, PeerReport, Poll,
    Report, Signed, fingerprint, now,
};
use trunkline_status::Status;
use trunkline_units::Rate;

use super::client::{Client, Trouble};
use crate::cli::{EnrolArguments, FollowArguments};
use crate::commands::control::{gateway_status, take_on, wait_for_lanes};
use crate::commands::site::load;
use crate::commands::site_file::{NewPeer, SiteFile, create, overwrite};
use crate::failure::Failure;
use crate::output::{print_line, remark};

/// How long a poll waits.
const WAIT_S: u16 = 50;
/// The same while trunks of a new configuration come up, and for how long at most: a controller that goes in steps waits for that.
const NEW_WAIT_S: u16 = 2;
const NEW: Duration = Duration::from_secs(60);
/// How long to wait after a poll that failed, at first and at most; each time twice as long, a random part of it.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// After how long a configuration that was refused is tried again: the site's file may have been changed.
const RETRY: Duration = Duration::from_secs(300);
/// How long trunks that were up may take to be up again.
const RETURN: Duration = Duration::from_secs(20);
/// The networks that a site accepts behind others unless it says which: those that are nobody's in the Internet.
const PRIVATE: [&str; 5] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];

/// What a site knows of its controller, in a file beside its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Membership {
    url: String,
    certificate: String,
    key: String,
    network: String,
    site: String,
    token: String,
    /// Networks that may be behind other sites.
    accept: Vec<IpNet>,
    /// Of the last configuration that was taken.
    sequence: u64,
    have: Option<String>,
    /// The peers in the site's file that are the controller's.
    peers: Vec<String>,
}

impl Membership {
    fn path(site: &Path) -> PathBuf {
        site.with_extension("controller")
    }

    fn read(site: &Path) -> Result<Self, Failure> {
        let path = Self::path(site);
        if !path.exists() {
            return Err(Failure::Input(format!(
                "{} has not enrolled: there is no {}; `trunkline controller enrol` makes it",
                site.display(),
                path.display()
            )));
        }
        let text = read_file(&path, MAX_FILE)
            .map_err(|problem| Failure::Input(format!("{}: {problem}", path.display())))?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::Input(format!("{}: {error}; enrol again", path.display())))
    }

    fn write(&self, site: &Path) -> Result<(), Failure> {
        let path = Self::path(site);
        let text = serde_json::to_string_pretty(self).map_err(Failure::doing("cannot write"))? + "\n";
        if path.exists() { overwrite(&path, &text) } else { create(&path, &text, 0o600, None) }
    }

    fn client(&self) -> Result<Client, Failure> {
        let certificate = STANDARD.decode(&self.certificate);
        let certificate = certificate.map_err(Failure::doing("the controller's certificate is no base64"))?;
        Ok(Client::new(&self.url, &certificate))
    }
}

pub(super) fn enrol(arguments: &EnrolArguments) -> Result<(), Failure> {
    let EnrolArguments { invitation, file, accept } = arguments;
    let invitation: ControllerInvitation =
        invitation.parse().map_err(|error| Failure::Input(format!("{error}")))?;
    let ControllerInvitation { url, certificate, key, site, secret, expires_at } = invitation;
    if expires_at < now() {
        return Err(Failure::Input(format!(
            "the invitation of site {site} has expired; ask for another one"
        )));
    }
    let config = load(file)?;
    let own = config.identity().map_err(|error| Failure::Input(error.to_string()))?.public();
    let accept = if accept.is_empty() {
        PRIVATE.iter().filter_map(|network| network.parse().ok()).collect()
    } else {
        accept.clone()
    };
    // The peers of a former membership stay the controller's.
    let peers = Membership::read(file).map(|former| former.peers).unwrap_or_default();
    let mut membership = Membership {
        url,
        certificate,
        key,
        network: String::new(),
        site,
        token: String::new(),
        accept,
        sequence: 0,
        have: None,
        peers,
    };
    let enrolment = Enrolment { invitation: secret, public_key: own.to_string() };
    let asked = membership.client()?.post::<Enrolled>("/v1/enrol", None, &enrolment, Duration::ZERO);
    let enrolled = match asked {
        Ok(Some(enrolled)) => enrolled,
        Ok(None) => return Err(Failure::Other("the controller's answer is empty".to_owned())),
        Err(trouble @ Trouble::Refused(..)) => return Err(Failure::Input(trouble.to_string())),
        Err(trouble @ Trouble::Away(_)) => return Err(Failure::Other(trouble.to_string())),
    };
    membership.network = enrolled.network;
    membership.token = enrolled.token;
    membership.write(file)?;
    print_line(&format!(
        "{} is site {} of the controller at {}; `trunkline controller follow {}` keeps its peers as the controller says",
        file.display(),
        enrolled.site,
        membership.url,
        file.display()
    ))
}

pub(super) fn follow(arguments: &FollowArguments) -> Result<(), Failure> {
    let file = &arguments.file;
    let mut follower =
        Follower { file, membership: Membership::read(file)?, refused: None, taken: None, error: None };
    let client = follower.membership.client()?;
    load(file)?;
    remark(&format_args!(
        "trunkline: {} follows {} as site {}",
        file.display(),
        follower.membership.url,
        follower.membership.site
    ));
    let mut wait = BACKOFF.0;
    let mut is_away = false;
    loop {
        let asks = follower.poll();
        let waits = if arguments.once { 0 } else { asks.wait_s };
        let poll = Poll { wait_s: waits, ..asks };
        let time = Duration::from_secs(waits.into());
        match client.post::<Signed>("/v1/poll", Some(&follower.membership.token), &poll, time) {
            Ok(signed) => {
                if std::mem::take(&mut is_away) {
                    remark(&"trunkline: the controller answers again");
                }
                wait = BACKOFF.0;
                if let Some(signed) = signed {
                    follower.take(&signed);
                }
                if arguments.once {
                    return follower.error.map_or(Ok(()), |error| Err(Failure::Other(error)));
                }
            }
            Err(Trouble::Refused(401, error)) if arguments.once => return Err(Failure::Input(error)),
            Err(trouble) => {
                if arguments.once {
                    return Err(Failure::Other(trouble.to_string()));
                }
                if !std::mem::replace(&mut is_away, true) {
                    remark(&format_args!("trunkline: {trouble}; the gateway goes on with what it has"));
                }
                thread::sleep(jittered(wait));
                wait = (wait * 2).min(BACKOFF.1);
            }
        }
    }
}

/// Half of it to all of it, so that sites do not ask all at once.
fn jittered(time: Duration) -> Duration {
    let mut byte = [0];
    let part = rand::fill(&mut byte).map_or(1.0, |()| f64::from(byte[0]) / 255.0);
    time.mul_f64(0.5 + part / 2.0)
}

struct Follower<'f> {
    file: &'f Path,
    membership: Membership,
    /// The fingerprint of the last configuration, if it was refused, and when.
    refused: Option<(String, Instant)>,
    /// When the last one was taken.
    taken: Option<Instant>,
    error: Option<String>,
}

impl Follower<'_> {
    fn poll(&self) -> Poll {
        let Membership { have, sequence, peers, .. } = &self.membership;
        let status = load(self.file).ok().and_then(|config| gateway_status(&config));
        let peer = |peer: &trunkline_status::Peer| PeerReport {
            name: peer.name.clone(),
            up: peer.lanes_up() > 0,
            capacity: peer.paths.iter().filter_map(|path| path.capacity).max(),
        };
        let known = status.iter().flat_map(|status| &status.peers);
        let report = Report {
            sequence: *sequence,
            error: self.error.clone(),
            running: status.is_some(),
            peers: known.filter(|known| peers.contains(&known.name)).map(peer).collect(),
        };
        let is_new = self.taken.is_some_and(|taken| taken.elapsed() < NEW);
        let is_up = report.running && report.peers.iter().all(|peer| peer.up);
        let wait_s = if is_new && !is_up { NEW_WAIT_S } else { WAIT_S };
        let refused = self.refused.as_ref().filter(|(_, at)| at.elapsed() < RETRY);
        let have = refused.map(|(print, _)| print.clone()).or_else(|| have.clone());
        Poll { have, wait_s, report }
    }

    /// Takes a configuration, or says why not.
    fn take(&mut self, signed: &Signed) {
        let Membership { key, network, site, sequence, .. } = &self.membership;
        let expected = Expected { key, network, site, sequence: *sequence };
        let taken = expected.check(signed).map_err(|error| (None, error.to_string())).and_then(|said| {
            let print = fingerprint(&said.peers);
            self.apply(&said)
                .map_err(|error| (Some(print.clone()), error.to_string()))
                .map(|how| (print, how))
        });
        match taken {
            Ok((_, how)) => {
                (self.refused, self.taken, self.error) = (None, Some(Instant::now()), None);
                remark(&format_args!("trunkline: configuration {}: {how}", self.membership.sequence));
            }
            Err((print, error)) => {
                remark(&format_args!("trunkline: the configuration is refused: {error}"));
                if print.is_none() {
                    // Whoever says so says it again at once.
                    thread::sleep(jittered(BACKOFF.1));
                }
                let refused = print.map(|print| (print, Instant::now()));
                (self.refused, self.error) = (refused.or(self.refused.take()), Some(error));
            }
        }
    }

    fn apply(&mut self, said: &Configuration) -> Result<String, Failure> {
        let accepts =
            |network: &IpNet| self.membership.accept.iter().any(|accepted| accepted.contains(network));
        for peer in &said.peers {
            if let Some(network) = peer.routes.iter().find(|network| !accepts(network)) {
                return Err(Failure::Other(format!(
                    "{network} behind {} is not among the networks that this site accepts (`enrol --accept`)",
                    peer.name
                )));
            }
        }
        let (mut file, config) = SiteFile::open(self.file)?;
        let wanted: BTreeMap<&str, &ConfiguredPeer> =
            said.peers.iter().map(|peer| (peer.name.as_str(), peer)).collect();
        let is_ours = |name: &str| self.membership.peers.iter().any(|ours| ours == name);
        let theirs =
            config.peers.iter().find(|peer| !is_ours(&peer.name) && wanted.contains_key(peer.name.as_str()));
        if let Some(peer) = theirs {
            return Err(Failure::Other(format!(
                "{} has a peer {} that is not the controller's; remove it (`trunkline leave --peer`), or rename it",
                self.file.display(),
                peer.name
            )));
        }
        let before = gateway_status(&config);
        let mut changed = Vec::new();
        for name in &self.membership.peers {
            let Some(is) = config.peers.iter().find(|peer| peer.name == *name) else { continue };
            let stays = wanted.get(name.as_str()).is_some_and(|peer| is_same(is, peer));
            if !stays {
                file.remove_peer(name);
                changed.push(name.clone());
            }
        }
        for peer in &said.peers {
            let is_there =
                config.peers.iter().any(|is| is.name == peer.name) && !changed.contains(&peer.name);
            if !is_there {
                file.add_peer(&new_peer(peer));
                if !changed.contains(&peer.name) {
                    changed.push(peer.name.clone());
                }
            }
        }
        let sequence = (said.sequence, Some(fingerprint(&said.peers)));
        let names: Vec<String> = said.peers.iter().map(|peer| peer.name.clone()).collect();
        if changed.is_empty() {
            (self.membership.sequence, self.membership.have) = sequence;
            self.membership.peers = names;
            self.membership.write(self.file)?;
            return Ok("nothing changes".to_owned());
        }
        file.check()?;
        // Whoever ends in between finds out whose the peers are.
        let former = self.membership.clone();
        self.membership.peers.extend(names.iter().filter(|name| !former.peers.contains(name)).cloned());
        self.membership.write(self.file)?;
        let outcome = file.write().and_then(|()| take_on(self.file, &config));
        let outcome = outcome.and_then(|runs| match &before {
            Some(before) if runs => came_back(&config, before, &names),
            _ => Ok(()),
        });
        if let Err(error) = outcome {
            file.restore()?;
            let _ = take_on(self.file, &config);
            self.membership = former;
            self.membership.write(self.file)?;
            return Err(Failure::Other(format!("{error}; the file is what it was before")));
        }
        (self.membership.sequence, self.membership.have) = sequence;
        self.membership.peers = names;
        self.membership.write(self.file)?;
        Ok(changed.join(", "))
    }
}

/// Whether trunks that were up, and are still wanted, are up again.
fn came_back(config: &Config, before: &Status, wanted: &[String]) -> Result<(), Failure> {
    let were_up = before.peers.iter().filter(|peer| peer.lanes_up() > 0 && wanted.contains(&peer.name));
    let were_up: Vec<&str> = were_up.map(|peer| peer.name.as_str()).collect();
    let missing = wait_for_lanes(config, were_up, RETURN);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::Other(format!("{} did not come up again", missing.join(", "))))
}

/// Whether a peer of a file is what the controller says.
fn is_same(is: &trunkline_gateway::config::PeerConfig, said: &ConfiguredPeer) -> bool {
    let interface = is.paths.first().and_then(|path| path.via.interface.as_deref());
    is.public_key.to_string() == said.public_key
        && is.endpoint.as_ref().map(ToString::to_string) == said.endpoint
        && is.routes == said.routes
        && is.reserved.map(Rate::bits_per_second) == Some(said.reserved)
        && interface == said.interface.as_deref()
}

fn new_peer(said: &ConfiguredPeer) -> NewPeer {
    let name = said.uplink.clone().unwrap_or_else(|| "uplink".to_owned());
    NewPeer {
        name: said.name.clone(),
        public_key: said.public_key.clone(),
        endpoint: said.endpoint.clone(),
        routes: said.routes.clone(),
        reserved: Some(said.reserved),
        path: said.interface.clone().map(|interface| (name, interface)),
    }
}
