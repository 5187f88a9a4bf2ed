//! The file as a whole: top-level keys, the small tables, and what holds between tables.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use toml::de::{DeTable, Error};

use super::reader::{Field, Place, Problems, Section};
use super::{
    Config, ConfigErrors, ControlConfig, DEFAULT_CONGESTION_CONTROL, DEFAULT_TUN_MTU, DEFAULT_TUN_NAME,
    DEFAULT_TX_QUEUE_LEN, LanesConfig, MAIN_TABLE, MAX_QUEUES, MetricsConfig, MetricsListen, OnExit,
    PeerConfig, PrivateKeySource, RUN_DIRECTORY, RoutingTable, TunConfig, classes, peers, values,
};
use crate::keys::SecretKey;

/// RFC 8200 §5: what every IPv6 link must carry.
const MIN_MTU_IPV6: u32 = 1280;
/// RFC 791: what every IPv4 link must carry.
const MIN_MTU_IPV4: u32 = 68;
const MAX_MTU: u32 = 65_535;
const MAX_TX_QUEUE_LEN: u32 = 10_000;
const TABLE: &str = "\"auto\", \"main\", or a table's number, 1 to 4294967295 without 253 and 255";
/// `default` and `local`.
const KERNEL_TABLES: [u32; 2] = [253, 255];
/// What `tun.on_exit` may be.
const ON_EXIT: [(&str, OnExit); 2] = [("block", OnExit::Block), ("pass", OnExit::Pass)];
const PRIVATE_KEY: &str = "exactly one of private_key_file and private_key";
const ABSOLUTE_PATH: &str = "an absolute path of at most 107 octets";
/// The room for a path in a Unix socket's address, less the closing zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;

pub(super) fn parse(text: &str, path: &Path) -> Result<Config, ConfigErrors> {
    let problems = Problems::new(path, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in &errors {
            report_syntax(&problems, error);
        }
        return problems.into_result(None);
    }
    let config = config(Section::new(problems.place("", 0..0), document.get_ref()), path);
    problems.into_result(config)
}

/// The message names what was expected but quotes nothing, so a secret on the line stays where it is.
fn report_syntax(problems: &Problems<'_>, error: &Error) {
    problems.place("", error.span().unwrap_or(0..0)).report_plain(error.message());
}

fn config(mut root: Section<'_>, path: &Path) -> Option<Config> {
    let name = name(&mut root, path);
    let listen = listen(&mut root);
    let private_key = private_key(&mut root, path);
    let encryption = root.field("encryption").and_then(|field| field.word(&peers::ENCRYPTIONS));
    let encryption = encryption.unwrap_or_default();
    let (tun, mtu_place) = tun(&mut root);
    let lanes = lanes(&mut root);
    let (classes, lane_groups) = classes::parse(&mut root, &lanes);
    let own_key = match &private_key {
        Some(PrivateKeySource::Inline(key)) => Some(key.public()),
        _ => None,
    };
    let peers = peers::parse(&mut root, &peers::Site { listens: listen.is_some(), encryption, own_key });
    let control = control(&mut root, name.as_deref().unwrap_or_default());
    let metrics = metrics(&mut root);
    root.finish();
    if let Some(place) = mtu_place {
        check_mtu(&place, &tun, &peers);
    }
    let mut config = Config {
        file: path.to_owned(),
        name: name?,
        listen: listen.unwrap_or_default(),
        private_key: private_key?,
        encryption,
        tun,
        lanes,
        lane_groups,
        classes,
        peers,
        control,
        metrics,
    };
    config.lanes.fwmark = config.lanes.fwmark.or(config.default_routing().map(|routing| routing.mark));
    Some(config)
}

fn name(root: &mut Section<'_>, path: &Path) -> Option<String> {
    if let Some(field) = root.field("name") {
        return field.parse(values::SITE_NAME, values::site_name);
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let name = values::site_name(&stem).ok();
    if name.is_none() {
        root.place().report(
            format!("the file's name {stem:?} cannot name the site; give it a name"),
            format!("name = {}", values::SITE_NAME),
        );
    }
    name
}

/// `None` where there is no listen at all; not where what it holds is wrong.
fn listen(root: &mut Section<'_>) -> Option<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for field in
        root.field("listen")?.list(&format!("a list of {}", values::LISTEN_ADDRESS)).unwrap_or_default()
    {
        let Some(address) = field.parse(values::LISTEN_ADDRESS, values::listen_address) else { continue };
        if addresses.contains(&address) {
            field.place().report_plain(format!("{address} is there twice"));
        }
        addresses.push(address);
    }
    Some(addresses)
}

fn private_key(root: &mut Section<'_>, path: &Path) -> Option<PrivateKeySource> {
    let file = root.field("private_key_file");
    let inline = root.field("private_key");
    match (file, inline) {
        (Some(file), None) => {
            let allowed = "the path of a file that holds what `trunkline genkey` prints";
            let text = file
                .parse(allowed, |text| if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text) })?;
            let directory = path.parent().unwrap_or(Path::new(""));
            Some(PrivateKeySource::File(directory.join(text)))
        }
        (None, Some(inline)) => {
            let parse = |text: &str| text.parse::<SecretKey>().map_err(|error| error.to_string());
            inline.parse("what `trunkline genkey` prints", parse).map(PrivateKeySource::Inline)
        }
        (Some(_), Some(inline)) => {
            inline.place().report("is given besides private_key_file", PRIVATE_KEY);
            None
        }
        (None, None) => {
            root.place().report("the site has no private key", PRIVATE_KEY);
            None
        }
    }
}

/// The device, and the place of its MTU, which is checked once all addresses are known.
fn tun<'d>(root: &mut Section<'d>) -> (TunConfig, Option<Place<'d>>) {
    let mut tun = TunConfig {
        name: DEFAULT_TUN_NAME.to_owned(),
        addresses: Vec::new(),
        mtu: DEFAULT_TUN_MTU,
        queues: 1,
        offloads: true,
        tx_queue_len: DEFAULT_TX_QUEUE_LEN,
        table: RoutingTable::default(),
        on_exit: OnExit::default(),
    };
    let Some(mut section) = root.section("tun") else { return (tun, None) };
    if let Some(name) =
        section.field("name").and_then(|field| field.parse(values::INTERFACE_NAME, values::interface_name))
    {
        tun.name = name;
    }
    tun.addresses = section.field("address").map(addresses).unwrap_or_default();
    let mut mtu_place = None;
    if let Some(field) = section.field("mtu")
        && let Some(mtu) = field.integer(MIN_MTU_IPV4..=MAX_MTU)
    {
        tun.mtu = mtu;
        mtu_place = Some(field.place().clone());
    }
    if let Some(queues) = section.field("queues").and_then(|field| field.integer(1..=MAX_QUEUES)) {
        tun.queues = queues;
    }
    if let Some(offloads) = section.field("offloads").and_then(|field| field.boolean()) {
        tun.offloads = offloads;
    }
    if let Some(len) = section.field("tx_queue_len").and_then(|field| field.integer(1..=MAX_TX_QUEUE_LEN)) {
        tun.tx_queue_len = len;
    }
    tun.table = section.field("table").and_then(|field| table(&field)).unwrap_or_default();
    tun.on_exit = section.field("on_exit").and_then(|field| field.word(&ON_EXIT)).unwrap_or_default();
    section.finish();
    (tun, mtu_place)
}

fn table(field: &Field<'_>) -> Option<RoutingTable> {
    if field.is_integer() {
        // The kernel's own tables hold what this machine itself is.
        let number: u32 = field.integer(1..=u32::MAX)?;
        if KERNEL_TABLES.contains(&number) {
            field.place().report(format!("{number} is a table of the kernel's"), TABLE);
            return None;
        }
        return Some(if number == MAIN_TABLE { RoutingTable::Main } else { RoutingTable::Number(number) });
    }
    field.parse(TABLE, |text| match text {
        "auto" => Ok(RoutingTable::Auto),
        "main" => Ok(RoutingTable::Main),
        _ => Err(format!("unknown table {text:?}")),
    })
}

fn addresses(field: Field<'_>) -> Vec<IpNet> {
    let mut addresses: Vec<IpNet> = Vec::new();
    for field in field.list(&format!("a list of {}", values::INTERFACE_ADDRESS)).unwrap_or_default() {
        let Some(net) = field.parse(values::INTERFACE_ADDRESS, values::interface_address) else { continue };
        if addresses.iter().any(|other| other.addr() == net.addr()) {
            field.place().report_plain(format!("{} is there twice", net.addr()));
        }
        addresses.push(net);
    }
    addresses
}

/// Where there is IPv6, inside the device or behind a peer, the device must carry IPv6.
fn check_mtu(place: &Place<'_>, tun: &TunConfig, peers: &[PeerConfig]) {
    let nets = tun.addresses.iter().chain(peers.iter().flat_map(|peer| &peer.routes));
    if tun.mtu < MIN_MTU_IPV6 && nets.clone().any(|net| net.addr().is_ipv6()) {
        place.report(
            format!("{} is too little for IPv6", tun.mtu),
            format!("{MIN_MTU_IPV6} to {MAX_MTU}, or {MIN_MTU_IPV4} to {MAX_MTU} without IPv6 addresses and routes"),
        );
    }
}

fn lanes(root: &mut Section<'_>) -> LanesConfig {
    let mut lanes = LanesConfig {
        congestion_control: DEFAULT_CONGESTION_CONTROL.to_owned(),
        fwmark: None,
        edge_pacing: true,
    };
    let Some(mut section) = root.section("lanes") else { return lanes };
    if let Some(name) = section
        .field("congestion_control")
        .and_then(|field| field.parse(values::CONGESTION_CONTROL, values::congestion_control))
    {
        lanes.congestion_control = name;
    }
    lanes.fwmark = section.field("fwmark").and_then(|field| field.integer(1..=u32::MAX));
    if let Some(on) = section.field("edge_pacing").and_then(|field| field.boolean()) {
        lanes.edge_pacing = on;
    }
    section.finish();
    lanes
}

fn control(root: &mut Section<'_>, name: &str) -> ControlConfig {
    let mut control = ControlConfig { socket: PathBuf::from(format!("{RUN_DIRECTORY}/{name}.sock")) };
    let Some(mut section) = root.section("control") else { return control };
    if let Some(socket) = section.field("socket").and_then(|field| {
        field.parse(ABSOLUTE_PATH, |text| {
            if is_socket_path(text) { Ok(text) } else { Err(format!("{text:?} cannot be a socket's path")) }
        })
    }) {
        control.socket = socket.into();
    }
    section.finish();
    control
}

fn metrics(root: &mut Section<'_>) -> Option<MetricsConfig> {
    let mut section = root.section("metrics")?;
    let field = section.required("listen", values::METRICS_LISTEN);
    let allow_remote = section.field("allow_remote").and_then(|field| field.boolean()).unwrap_or(false);
    section.finish();
    let field = field?;
    let listen = field.parse(values::METRICS_LISTEN, values::metrics_listen)?;
    match &listen {
        MetricsListen::Tcp(address) if !values::is_local(address) && !allow_remote => field.place().report(
            format!("{address} can be reached from other machines, and metrics are neither encrypted nor protected"),
            "a loopback address, or allow_remote = true",
        ),
        MetricsListen::Unix(path) if !path.to_str().is_some_and(is_socket_path) => {
            field.place().report("is too long for a socket's path", ABSOLUTE_PATH);
        }
        _ => {}
    }
    Some(MetricsConfig { listen, allow_remote })
}

fn is_socket_path(text: &str) -> bool {
    text.starts_with('/')
        && !text.ends_with('/')
        && !text.contains('\0')
        && text.len() <= MAX_SOCKET_PATH_BYTES
}
