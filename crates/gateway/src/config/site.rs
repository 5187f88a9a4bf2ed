//! From a file to a configuration: what holds between its values, and what follows where nothing is said.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline_proxy::Plan;
use trunkline_schema::quantity::Time;
use trunkline_schema::{At, Mistakes, Partly, Resolver, SITE_NAME, Source, check_proxies, read_partly};
use trunkline_trunk::CongestionControl;
use zeroize::Zeroizing;

use super::file::{SiteFile, TunTable};
use super::values::{self, PREFIX};
use super::{
    Config, ControlConfig, DEFAULT_KEEPALIVE, MAX_LANES_PER_GROUP, MetricsConfig, PeerConfig,
    PrivateKeySource, RUN_DIRECTORY, STATE_DIRECTORY, TunConfig, peers, secret,
};
use crate::keys::SecretKey;

/// RFC 8200 §5: what every IPv6 link must carry.
const MIN_MTU_IPV6: u32 = 1280;
/// The bounds of `lanes.keepalive`.
const MIN_KEEPALIVE: Duration = Duration::from_secs(1);
const MAX_KEEPALIVE: Duration = Duration::from_secs(600);
const PRIVATE_KEY: &str = "exactly one of private_key_file and private_key";

pub(super) fn parse(text: &str, path: &Path) -> Result<Config, Mistakes> {
    let (text, secret) = secret::set_aside(text);
    let source = Source::parse(&path.display().to_string(), &text)?;
    let Partly { read, found: form, left_out } = read_partly::<SiteFile>(source.tree());
    let findings = source.findings::<SiteFile>().without(left_out);
    let config = read.and_then(|file| config(file, secret.as_ref(), path, &findings.root()));
    let (found, misplaced) = findings.into_found();
    let all = form.into_iter().chain(found).chain(misplaced).map(|one| (one, None));
    let mistakes = source.mistakes(source.tree(), all);
    match config {
        Some(config) if mistakes.0.is_empty() => Ok(config),
        _ => Err(mistakes),
    }
}

/// The configuration, if nothing is missing in it. `at` is the whole file as it was written: where a table could not be read, it is
/// as if it were not there, and still is given.
fn config(file: SiteFile, secret: Option<&Zeroizing<String>>, path: &Path, at: &At<'_>) -> Option<Config> {
    let name = name(&file, path, at);
    let private_key = private_key(&file, secret, path, at);
    let own_key = match &private_key {
        Some(PrivateKeySource::Inline(key)) => Some(key.public()),
        _ => None,
    };
    let listen = listen(&file, &at.key("listen"));
    let site = peers::Site { listens: at.key("listen").is_given(), encryption: file.encryption, own_key };
    let trunk = resolver().plan(at, &file.lanes.spec, &file.classes);
    let peers = peers::resolve(file.peers, &site, &trunk, &at.key("peers"));
    check_tun(&file.tun, &peers, &at.key("tun"));
    let keepalive = keepalive(file.lanes.keepalive, &at.key("lanes").key("keepalive"));
    if let Some(metrics) = &file.metrics {
        metrics.check(&at.key("metrics"));
    }
    check_proxies(&file.proxy, &file.proxies, at);
    if file.proxies.is_empty() && at.key("proxy").is_given() {
        at.key("proxy").report("is of no use here", "with at least one [[proxies]]");
    }
    let socket = file.control.socket.map(|path| PathBuf::from(path.0));
    let name = name?;
    let mut config = Config {
        file: path.to_owned(),
        control: ControlConfig {
            socket: socket.unwrap_or_else(|| PathBuf::from(format!("{RUN_DIRECTORY}/{name}.sock"))),
        },
        name,
        listen,
        private_key: private_key?,
        encryption: file.encryption,
        state_directory: file
            .state_directory
            .map_or_else(|| PathBuf::from(STATE_DIRECTORY), |path| PathBuf::from(path.0)),
        tun: tun(file.tun),
        fwmark: file.lanes.fwmark,
        keepalive,
        trunk,
        peers,
        metrics: file
            .metrics
            .map(|table| MetricsConfig { listen: table.listen.0, allow_remote: table.allow_remote }),
        proxies: (!file.proxies.is_empty()).then(|| Plan::new(&file.proxy, &file.proxies)),
    };
    super::paths::check_classes(&config, at);
    config.fwmark = config.fwmark.or(config.default_routing().map(|routing| routing.mark));
    Some(config)
}

fn keepalive(given: Option<Time>, at: &At<'_>) -> Duration {
    let max = given.map_or(DEFAULT_KEEPALIVE, |time| time.0);
    if !(MIN_KEEPALIVE..=MAX_KEEPALIVE).contains(&max) {
        at.refuse("1 s to 10 min");
    }
    max
}

fn name(file: &SiteFile, path: &Path, at: &At<'_>) -> Option<String> {
    if let Some(name) = &file.name {
        return Some(name.0.clone());
    }
    let at = at.key("name");
    if at.is_given() {
        return None;
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let name = values::site_name(&stem).ok();
    if name.is_none() {
        at.report(format!("the file's name {stem:?} cannot name the site; give it a name"), SITE_NAME);
    }
    name
}

fn listen(file: &SiteFile, at: &At<'_>) -> Vec<SocketAddr> {
    let addresses: Vec<SocketAddr> = file.listen.iter().flatten().map(|address| address.0).collect();
    for (index, address) in addresses.iter().enumerate() {
        if addresses[..index].contains(address) {
            at.index(index).report_plain(format!("{address} is there twice"));
        }
    }
    addresses
}

fn private_key(
    file: &SiteFile,
    secret: Option<&Zeroizing<String>>,
    path: &Path,
    at: &At<'_>,
) -> Option<PrivateKeySource> {
    let (in_file, inline) = (at.key("private_key_file"), at.key("private_key"));
    match (in_file.is_given(), inline.is_given()) {
        (true, false) => match file.private_key_file.as_deref()? {
            "" => {
                in_file.report("is empty", "the path of a file that holds what `trunkline genkey` prints");
                None
            }
            text => Some(PrivateKeySource::File(path.parent().unwrap_or(Path::new("")).join(text))),
        },
        (false, true) => {
            let key = secret?.parse::<SecretKey>();
            key.map(PrivateKeySource::Inline)
                .map_err(|error| inline.report(error.to_string(), "what `trunkline genkey` prints"))
                .ok()
        }
        (true, true) => {
            inline.report("is given besides private_key_file", PRIVATE_KEY);
            None
        }
        (false, false) => {
            in_file.report("is missing: the site has no private key", PRIVATE_KEY);
            None
        }
    }
}

fn check_tun(tun: &TunTable, peers: &[PeerConfig], at: &At<'_>) {
    let mut seen = BTreeSet::new();
    for (index, net) in tun.address.iter().enumerate() {
        let address = net.0.addr();
        if !seen.insert(address) {
            at.key("address").index(index).report_plain(format!("{address} is there twice"));
        }
    }
    // Where there is IPv6, inside the device or behind a peer, the device must carry IPv6.
    let own = tun.address.iter().map(|net| &net.0);
    let mut nets = own.chain(peers.iter().flat_map(|peer| &peer.routes));
    if tun.mtu < MIN_MTU_IPV6 && nets.any(|net| net.addr().is_ipv6()) {
        at.key("mtu").report(
            format!("{} is too little for IPv6", tun.mtu),
            format!("{MIN_MTU_IPV6} to 65535, or 68 to 65535 without IPv6 addresses and routes"),
        );
    }
}

fn tun(table: TunTable) -> TunConfig {
    TunConfig {
        name: table.name.0,
        addresses: table.address.into_iter().map(|net| net.0).collect(),
        mtu: table.mtu,
        queues: table.queues,
        offloads: table.offloads,
        tx_queue_len: table.tx_queue_len,
        table: table.table.0,
        on_exit: table.on_exit,
    }
}

/// The rules of a site's classes.
fn resolver() -> Resolver<'static> {
    Resolver {
        prefix: &|at, text| values::prefix(text).map_err(|problem| at.report(problem, PREFIX)).ok(),
        congestion_control: CongestionControl::ByPath,
        retransmission_filter: true,
        max_lanes: MAX_LANES_PER_GROUP,
        either_transport: true,
        paths: true,
    }
}
