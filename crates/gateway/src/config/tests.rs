//! Each rule of the file, and that its mistakes are told with their place.

use std::path::Path;

use trunkline_queue::{Limits, Settings, Share};
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{
    AdmissionSettings, ClassId, CongestionControl, Over, PathPolicy, Protocol, Rule, Transport,
};

use super::*;

mod classes;
mod paths;
mod queues;
mod routing;

const KEY_B: &str = "1yu8EBD2hXEw1rG5DrWBHxYYHv5mYT5x62F3GwVzNDk=";
const KEY_C: &str = "2yu8EBD2hXEw1rG5DrWBHxYYHv5mYT5x62F3GwVzNDk=";

fn parse(text: &str) -> Result<Config, Mistakes> {
    Config::parse(text, Path::new("/etc/trunkline/site.toml"))
}

fn errors(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

/// The one mistake of a file that has a key besides `text`.
fn error(text: &str) -> String {
    let all = errors(&format!("private_key_file = \"a.key\"\n{text}"));
    assert_eq!(all.len(), 1, "{all:#?}");
    all[0].clone()
}

fn peer(name: &str, key: &str, routes: &str) -> String {
    format!(
        "[[peers]]\nname = \"{name}\"\npublic_key = \"{key}\"\nendpoint = \"{name}:4600\"\nroutes = {routes}\n"
    )
}

fn ok(text: &str) -> Config {
    parse(&format!("private_key_file = \"a.key\"\n{text}")).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_key_alone_is_a_file_and_all_else_has_defaults() {
    let config = ok("");
    assert_eq!(config.name, "site");
    assert!(config.listen.is_empty() && config.peers.is_empty() && config.metrics.is_none());
    assert!(
        matches!(&config.private_key, PrivateKeySource::File(path) if path == Path::new("/etc/trunkline/a.key"))
    );
    assert_eq!(config.encryption, Encryption::Tls);
    assert_eq!(
        config.tun,
        TunConfig {
            name: "trunk0".to_owned(),
            addresses: vec![],
            mtu: 1500,
            queues: 1,
            offloads: true,
            tx_queue_len: DEFAULT_TX_QUEUE_LEN,
            table: RoutingTable::Auto,
            on_exit: OnExit::Block
        }
    );
    assert_eq!((config.fwmark, config.trunk.edge_pacing), (None, true));
    assert!(config.trunk.groups.iter().all(|group| group.congestion_control == CongestionControl::ByPath));
    assert_eq!(config.control.socket, Path::new("/run/trunkline/site.sock"));
    let interactive = ok("classes = \"interactive\"");
    assert_eq!(config.trunk, interactive.trunk);
}

#[test]
fn everything_given_arrives() {
    let config = parse(&format!(
        r#"
name = "a"
listen = ["0.0.0.0:4600", "[::]:4600"]
private_key_file = "/keys/a.key"
encryption = "none"
[tun]
name = "tl"
address = ["10.255.0.1/24", "fd00::1/64"]
mtu = 9000
queues = 4
offloads = false
tx_queue_len = 7
[lanes]
congestion_control = "reno"
fwmark = 0x51
edge_pacing = false
keepalive = "2 min"
[[classes]]
name = "voice"
match = [{{ dscp = ["ef", 44] }}, {{ protocol = "udp", port = [53, "5060-5061"], source = "10.1.0.0/16", destination = "10.2.0.0/16" }}, {{ length = ["40-200", 1500], behaviour = "interactive" }}]
queue = {{ discipline = "tail-drop", packets = 50, bytes = "256KiB" }}
lane_group = "calls"
lanes = 2
congestion_control = "bbr"
dscp = "ef"
weight = 30
guarantee = "2mbit"
ceiling = "2.5 Mbit/s"
priority = true
max_wait = "150 ms"
flows = {{ limit = 100, over = "rest" }}
retransmission_filter = false
header_compression = false
[[classes]]
name = "ping"
match = [{{ protocol = "icmp" }}, {{ protocol = 89, dscp = "cs6" }}, {{ source_port = 1, destination_port = "2-3" }}]
[[classes]]
name = "rest"
queue = {{ bytes = "70000 B" }}
[[peers]]
name = "b"
public_key = "{KEY_B}"
endpoint = "b.example.net:4600"
routes = ["10.2.0.0/16", "fd00:2::/64", "10.2.3.0/24"]
encryption = "tls"
[[peers]]
name = "c"
public_key = "{KEY_C}"
routes = ["10.3.0.0/16"]
[control]
socket = "/tmp/a.sock"
[metrics]
listen = "unix:/tmp/a.metrics"
"#
    ))
    .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((config.name.as_str(), config.listen.len(), config.encryption), ("a", 2, Encryption::None));
    assert!(matches!(&config.private_key, PrivateKeySource::File(path) if path == Path::new("/keys/a.key")));
    assert_eq!((config.tun.mtu, config.tun.queues, config.tun.tx_queue_len), (9000, 4, 7));
    assert!(!config.tun.offloads);
    assert_eq!(config.tun.addresses[1].to_string(), "fd00::1/64");
    assert_eq!((config.fwmark, config.trunk.edge_pacing), (Some(0x51), false));
    assert_eq!(config.keepalive, std::time::Duration::from_secs(120));
    let [voice, ping, rest] = config.trunk.classes.as_slice() else { panic!() };
    let named = |name: &str| CongestionControl::Named(name.into());
    let rules = [
        Rule { dscp: Some([46, 44].into_iter().collect()), ..Rule::default() },
        Rule {
            protocol: Some(Protocol::Number(17)),
            source: Some("10.1.0.0/16".parse().unwrap()),
            destination: Some("10.2.0.0/16".parse().unwrap()),
            either_ports: vec![53..=53, 5060..=5061],
            ..Rule::default()
        },
        Rule { lengths: vec![40..=200, 1500..=1500], interactive: true, ..Rule::default() },
    ];
    assert_eq!(
        *voice,
        ClassSettings {
            name: "voice".into(),
            rules: rules.to_vec(),
            queue: Settings::TailDrop(Limits { segments: 50, bytes: 256 << 10 }),
            group: 0,
            share: Share {
                weight: 30,
                guarantee: Some("2mbit".parse().unwrap()),
                ceiling: Some("2.5 Mbit/s".parse().unwrap()),
                priority: true,
            },
            admission: Some(AdmissionSettings { limit: 100, over: Over::Class(ClassId(2)) }),
            filters_retransmissions: false,
            replicates: false,
            max_wait: Some(Duration::from_millis(150)),
            paths: PathPolicy::Spread,
            reorder_wait: None,
        }
    );
    assert_eq!(config.lane_group(ping).congestion_control, named("reno"));
    assert_eq!(ping.rules[0].protocol, Some(Protocol::AnyIcmp));
    assert_eq!(ping.rules[1].protocol, Some(Protocol::Number(89)));
    assert_eq!((&ping.rules[2].source_ports, &ping.rules[2].destination_ports), (&vec![1..=1], &vec![2..=3]));
    assert_eq!(rest.queue.limits(), Limits { segments: 1000, bytes: 70_000 });
    assert_eq!(
        config.trunk.groups[0],
        LaneGroup {
            name: "calls".into(),
            lanes: 2,
            adaptive: false,
            congestion_control: named("bbr"),
            dscp: 46,
            compression: Compression::Off,
            transport: Transport::Tcp,
            delivery: trunkline_trunk::Delivery::Datagram,
        }
    );
    assert_eq!(config.peers[0].encryption, Encryption::Tls);
    assert_eq!(config.peers[1].encryption, Encryption::None);
    assert_eq!(config.peers[0].endpoint.as_ref().unwrap().to_string(), "b.example.net:4600");
    assert_eq!((config.peers[0].routes.len(), &config.peers[1].endpoint), (3, &None));
    assert_eq!(config.control.socket, Path::new("/tmp/a.sock"));
    let metrics = config.metrics.unwrap();
    assert_eq!(metrics.listen, MetricsListen::Unix("/tmp/a.metrics".into()));
}

#[test]
fn an_error_names_file_line_column_key_and_what_is_allowed() {
    let text = format!("private_key_file = \"a.key\"\n{}", peer("b", KEY_B, r#"["10.0.0.0/33"]"#));
    let error = parse(&text).unwrap_err().0.remove(0);
    assert_eq!((error.place, error.key.as_str()), (Some((6, 11)), "peers.b.routes[0]"));
    assert_eq!(
        error.to_string(),
        "/etc/trunkline/site.toml:6:11: peers.b.routes[0]: 10.0.0.0/33 is no prefix; allowed: an address and a \
         prefix length, such as \"10.2.0.0/16\" or \"2001:db8:2::/48\""
    );
}

#[test]
fn columns_count_characters_not_bytes() {
    let all = errors("name = \"äöü\" # ä\nprivate_key_file = \"ä\"\nlisten = [ \"ä\", \"0.0.0.0:0\" ]");
    assert!(all[0].contains(":1:1: name: "), "{all:#?}");
    assert!(all[1].contains(":3:12: listen[0]: ") && all[2].contains(":3:17: listen[1]: "), "{all:#?}");
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_lines() {
    let all = errors(
        "encryption = \"tsl\"\n[tun]\nmtu = 10\nqueues = 17\nnmae = 1\n[lanes]\nfwmark = 0\nkeepalive = \"1 h\"\n[metrics]\n",
    );
    let places: Vec<_> = all.iter().map(|error| error.split(": ").nth(1).unwrap_or_default()).collect();
    assert_eq!(
        places,
        [
            "encryption",
            "private_key_file",
            "tun.mtu",
            "tun.queues",
            "tun.nmae",
            "lanes.fwmark",
            "lanes.keepalive",
            "metrics.listen"
        ]
    );
}

#[test]
fn a_mistake_in_a_peer_or_a_class_hides_no_other() {
    let all = errors(&format!(
        "private_key_file = \"k\"\nlisten = [\"here\", \"0.0.0.0:1\", \"0.0.0.0:1\"]\n{}{}{}{}\
         [[classes]]\nname = \"a\"\nmatch = [{{ protocol = \"udp\" }}]\nweight = \"heavy\"\nlanes = 33\n[[classes]]\nname = \"a\"\n",
        peer("wrong", "key", "[\"10.9.0.0/16\"]"),
        peer("b", KEY_B, "[\"10.0.0.0/33\", \"10.1.0.0/16\", \"10.1.0.0/16\"]"),
        peer("c", KEY_B, "[\"10.2.0.0/16\"]").replace("c:4600", "nowhere"),
        peer("d", KEY_C, "[\"10.2.0.0/16\", \"10.9.0.0/16\"]"),
    ));
    let keys: Vec<_> = all.iter().map(|error| error.split(": ").nth(1).unwrap_or_default()).collect();
    assert_eq!(
        keys,
        [
            "listen[0]",
            "listen[2]",
            "peers.wrong.public_key",
            "peers.b.routes[0]",
            "peers.b.routes[2]",
            "peers.c.public_key",
            "peers.c.endpoint",
            "peers.d.routes[0]",
            "classes[0].weight",
            "classes[0].lanes",
            "classes[1].name",
        ],
        "{all:#?}"
    );
}

#[test]
fn unknown_keys_are_errors_in_every_table() {
    let all = errors(&format!(
        "private_key_file = \"k\"\nnam = 1\n[tun]\nmut = 1\n[lanes]\nx = \"1\"\n[control]\nx = 1\n\
         [metrics]\nlisten = \"127.0.0.1:1\"\nx = 1\n[[classes]]\nname = \"a\"\nx = 1\n\
         match = [{{ protocl = \"udp\", port = 1 }}]\nqueue = {{ packet = 1 }}\nflows = {{ limit = 1, ovr = 1 }}\n[[classes]]\nname = \"b\"\n{}x = 1\n",
        peer("b", KEY_B, "[\"10.0.0.0/8\"]")
    ));
    let keys: Vec<_> = all
        .iter()
        .map(|error| {
            let says =
                ["unknown key; allowed: ", "unknown key, did you mean "].map(|says| error.contains(says));
            assert!(says[0] || says[1] && error.contains("?; allowed: "), "{error}");
            error.split(": ").nth(1).unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        keys,
        [
            "nam",
            "tun.mut",
            "lanes.x",
            "control.x",
            "metrics.x",
            "classes.a.x",
            "classes.a.match[0].protocl",
            "classes.a.queue.packet",
            "classes.a.flows.ovr",
            "peers.b.x"
        ]
    );
    assert!(
        all[1].ends_with("allowed: name, address, mtu, queues, offloads, tx_queue_len, table, on_exit"),
        "{}",
        all[1]
    );
}

#[test]
fn wrong_types_say_what_they_are_and_what_is_allowed() {
    for (text, expected) in [
        ("name = 1", "name: is 1; allowed: 1 to 64"),
        ("listen = \"0.0.0.0:1\"", "listen: is \"0.0.0.0:1\"; allowed: a list, each an address and a port"),
        ("tun = 1", "tun: is 1; allowed: a table with name, address, mtu"),
        ("[tun]\nmtu = \"1500\"", "tun.mtu: is \"1500\"; allowed: a whole number, 68 to 65535"),
        ("[tun]\nmtu = 1500.0", "tun.mtu: is 1500.0; allowed"),
        ("[tun]\noffloads = 1", "tun.offloads: is 1; allowed: true or false"),
        (
            "classes = 1",
            "classes: is 1; allowed: \"interactive\", \"split\", \"single\", or a list, each a table with name",
        ),
        ("peers = 1", "peers: is 1; allowed: a list, each a table with name, public_key"),
        ("peers = [1]", "peers[0]: is 1; allowed: a table with name, public_key"),
        (
            "[[classes]]\nname = \"a\"\nmatch = [1]",
            "classes.a.match[0]: is 1; allowed: a table with protocol",
        ),
    ] {
        let all = errors(&format!("private_key_file = \"a.key\"\n{text}"));
        assert!(all.iter().any(|error| error.contains(expected)), "{text}: {all:#?}");
    }
}

#[test]
fn broken_toml_has_a_place() {
    let all = errors("private_key_file = \"a.key\"\n[tun\nmtu = 1\n");
    assert!(all[0].starts_with("/etc/trunkline/site.toml:2:"), "{all:#?}");
    let all = errors("name = \"a\"\nname = \"b\"\n");
    assert!(all[0].contains(":2:1: ") && all[0].contains("the first is in line 1"), "{all:#?}");
}

#[test]
fn no_error_shows_the_private_key() {
    let secret = "9SOOmZcHsGqXf0lT0tVh4fSecretSecretSecret0Q=";
    for text in [
        format!("private_key = \"{secret}x\""),
        format!("private_key = \"{secret}"),
        format!("private_key = {secret}"),
        format!("private_key = [\"{secret}\"]"),
        format!("private_key = \"{secret}\"\nprivate_key_file = \"x\""),
    ] {
        let shown = format!("{:?}", parse(&text).unwrap_err());
        assert!(!shown.contains("Secret"), "{shown}");
    }
}

#[test]
fn exactly_one_private_key() {
    assert!(errors("")[0].contains(
        ":1:1: private_key_file: is missing: the site has no private key; allowed: exactly one of"
    ));
    let key = SecretKey::generate().unwrap();
    let text = format!("private_key = \"{}\"\n", *key.to_base64());
    let config = parse(&text).unwrap();
    assert_eq!(config.identity().unwrap().public(), key.public());
    let both = errors(&format!("private_key_file = \"x\"\n{text}"));
    assert!(both[0].contains(":2:1: private_key: is given besides private_key_file"), "{both:#?}");
    assert!(errors("private_key_file = \"\"")[0].contains("private_key_file: is empty"));
}

#[test]
fn our_own_key_is_no_peers() {
    let key = SecretKey::generate().unwrap();
    let own = key.public().to_string();
    let peers = peer("b", &own, "[\"10.0.0.0/8\"]");
    let all = errors(&format!("private_key = \"{}\"\n{peers}", *key.to_base64()));
    assert!(all[0].contains("peers.b.public_key: is this site's own public key"), "{all:#?}");

    let directory = std::env::temp_dir().join(format!("trunkline-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("a.key"), key.to_base64().as_bytes()).unwrap();
    let path = directory.join("a.toml");
    std::fs::write(&path, format!("private_key_file = \"a.key\"\n{peers}")).unwrap();
    let error = Config::load(&path).unwrap().identity().unwrap_err();
    assert!(matches!(&error, KeyError::OwnKeyAsPeer { peer, .. } if peer == "b"), "{error}");
    std::fs::write(&path, "private_key_file = \"a.key\"\n").unwrap();
    assert_eq!(Config::load(&path).unwrap().identity().unwrap().public(), key.public());
    std::fs::remove_dir_all(&directory).unwrap();
    let missing = Config::load(&path).unwrap_err().to_string();
    assert_eq!(missing, format!("{}: there is no directory {}", path.display(), directory.display()));
}

#[test]
fn a_name_is_needed_where_the_file_has_none_to_lend() {
    let text = "private_key_file = \"k\"";
    let error = Config::parse(text, Path::new("/x/my site.toml")).unwrap_err().to_string();
    assert!(error.contains("\"my site\" cannot name the site"), "{error}");
    assert!(Config::parse(&format!("name = \"s\"\n{text}"), Path::new("/x/my site.toml")).is_ok());
    assert!(error_of_name("../x").contains("\"../x\" is no name"));
}

fn error_of_name(name: &str) -> String {
    error(&format!("name = {name:?}"))
}

#[test]
fn listen_addresses_are_distinct_and_have_ports() {
    assert!(error("listen = [\"0.0.0.0:1\", \"0.0.0.0:1\"]").contains("listen[1]: 0.0.0.0:1 is there twice"));
    assert!(error("listen = [\"0.0.0.0\"]").contains("is no address and port"));
    assert!(error("listen = [\"0.0.0.0:0\"]").contains("has port 0"));
}

#[test]
fn the_tun_has_limits() {
    for (line, ok) in [
        ("mtu = 65535", true),
        ("mtu = 65536", false),
        ("mtu = 68", true),
        ("mtu = 67", false),
        ("queues = 16", true),
        ("queues = 17", false),
        ("queues = 0", false),
        ("tx_queue_len = 10000", true),
        ("tx_queue_len = 10001", false),
        ("tx_queue_len = 0", false),
        ("mtu = -1", false),
        ("mtu = 99999999999999999999999999999999999999999999", false),
        ("name = \"0123456789abcde\"", true),
        ("name = \"0123456789abcdef\"", false),
        ("address = [\"10.0.0.1/24\", \"10.0.0.1/16\"]", false),
        ("address = [\"10.0.0.1\"]", false),
        ("address = [\"127.0.0.1/8\"]", false),
    ] {
        let result = parse(&format!("private_key_file = \"a.key\"\n[tun]\n{line}\n"));
        assert_eq!(result.is_ok(), ok, "{line}: {result:?}");
    }
}

#[test]
fn ipv6_needs_its_minimum_mtu() {
    assert_eq!(ok("[tun]\nmtu = 1279\naddress = [\"10.0.0.1/24\"]").tun.mtu, 1279);
    assert!(
        error("[tun]\nmtu = 1279\naddress = [\"fd00::1/64\"]")
            .contains("tun.mtu: 1279 is too little for IPv6")
    );
    let peer = peer("b", KEY_B, "[\"fd00:2::/64\"]");
    assert!(error(&format!("[tun]\nmtu = 1279\n{peer}")).contains(":3:1: tun.mtu"));
    assert_eq!(ok(&format!("[tun]\nmtu = 1280\n{peer}")).tun.mtu, 1280);
}

#[test]
fn peers_share_nothing() {
    let two = |second: &str| error(&format!("{}{second}", peer("b", KEY_B, "[\"10.2.0.0/16\"]")));
    let error = two(&peer("c", KEY_B, "[\"10.3.0.0/16\"]"));
    assert!(error.contains("peers.c.public_key: is the key of peer b as well"), "{error}");
    let error = two(&peer("c", KEY_C, "[\"10.3.0.0/16\", \"10.2.0.0/16\"]"));
    assert!(error.contains("peers.c.routes[1]: 10.2.0.0/16 is behind peer b already"), "{error}");
    let error = two(&peer("b", KEY_C, "[\"10.3.0.0/16\"]"));
    assert!(error.contains("\"b\" is the name of two peers"), "{error}");
    let nested = format!("{}{}", peer("b", KEY_B, "[\"10.0.0.0/8\"]"), peer("c", KEY_C, "[\"10.2.0.0/16\"]"));
    assert_eq!(ok(&nested).peers.len(), 2);
}

#[test]
fn a_peer_has_all_it_needs() {
    let all = errors("private_key_file = \"k\"\nlisten = [\"[::]:1\"]\n[[peers]]\n");
    let keys: Vec<_> = all.iter().map(|error| error.split(": ").nth(1).unwrap()).collect();
    assert_eq!(keys, ["peers[0].name", "peers[0].public_key", "peers[0].routes"]);
    assert!(error(&peer("b", KEY_B, "[]")).contains("peers.b.routes: is empty"));
    let twice = error(&peer("b", KEY_B, "[\"10.0.0.0/8\", \"10.0.0.0/8\"]"));
    assert!(twice.contains("10.0.0.0/8 is there twice"), "{twice}");
    let short = error(&peer("b", "AAAA", "[\"10.0.0.0/8\"]"));
    assert!(short.contains("a key is 44 characters of base64, this has 4"), "{short}");
    let bad = peer("b", KEY_B, "[\"10.0.0.0/8\"]").replace("b:4600", "b");
    assert!(error(&bad).contains("peers.b.endpoint: \"b\" has no port"));
    let with_paths = format!(
        "{bad}paths = [{{ name = \"dsl\", interface = \"eth0\" }}, {{ name = \"lte\", interface = \"eth1\" }}]\n"
    );
    assert!(
        error(&with_paths).contains("peers.b.endpoint: \"b\" has no port"),
        "and nothing that follows from it"
    );
}

#[test]
fn somebody_must_dial() {
    let silent = peer("b", KEY_B, "[\"10.0.0.0/8\"]").replace("endpoint = \"b:4600\"\n", "");
    assert!(error(&silent).contains("peers.b: can neither be dialled nor dial"));
    assert_eq!(ok(&format!("listen = [\"[::]:1\"]\n{silent}")).peers[0].endpoint, None);
}

#[test]
fn metrics_are_local_unless_told_otherwise() {
    for local in ["127.0.0.1:9460", "[::1]:9460", "unix:/run/x"] {
        assert!(ok(&format!("[metrics]\nlisten = {local:?}")).metrics.is_some());
    }
    assert!(error("[metrics]\nlisten = \"0.0.0.0:9460\"").contains("can be reached from other machines"));
    assert!(ok("[metrics]\nlisten = \"0.0.0.0:9460\"\nallow_remote = true").metrics.unwrap().allow_remote);
    assert!(error("[metrics]\nlisten = \"unix:x\"").contains("is no absolute path"));
    assert!(error("[metrics]\nallow_remote = true").contains("metrics.listen: is missing"));
}

#[test]
fn socket_paths_fit_a_socket_address() {
    assert!(error("[control]\nsocket = \"a.sock\"").contains("control.socket: \"a.sock\" cannot be"));
    let long = format!("/{}", "x".repeat(107));
    assert!(error(&format!("[control]\nsocket = {long:?}")).contains("control.socket"));
    assert!(error(&format!("[metrics]\nlisten = \"unix:{long}\"")).contains("too long"));
}

#[test]
fn a_reload_cannot_change_what_is_set_up_before_privileges_are_dropped() {
    let base = || ok("listen = [\"[::]:1\"]\n[metrics]\nlisten = \"127.0.0.1:1\"");
    assert!(base().restart_needed(&base()).is_empty());
    let same = ok("listen = [\"[::]:1\"]\nencryption = \"none\"\n[lanes]\nfwmark = 1\n[tun]\nmtu = 1400\n\
                   [metrics]\nlisten = \"127.0.0.1:1\"\n[[classes]]\nname = \"x\"\nlane_group = \"y\"\nlanes = 2\n\
                   dscp = 8\nflows = { limit = 1 }\nqueue = { discipline = \"pie\" }\n");
    assert!(base().restart_needed(&same).is_empty());
    let other = parse(
        "name = \"x\"\nprivate_key_file = \"b.key\"\n[tun]\nname = \"y\"\nqueues = 2\noffloads = false\n\
         [control]\nsocket = \"/x\"\n",
    )
    .unwrap();
    assert_eq!(
        base().restart_needed(&other),
        [
            "name",
            "listen",
            "private_key",
            "tun.name",
            "tun.queues",
            "tun.offloads",
            "control.socket",
            "metrics.listen"
        ]
    );
}

#[test]
fn no_text_makes_the_parser_panic() {
    let text = format!(
        "name = \"a\"\nprivate_key_file = \"k\"\nlisten = [\"[::]:1\"]\n[tun]\nmtu = 1500\n[[classes]]\n\
         name = \"a\"\nmatch = [{{ port = [1, \"2-3\"], dscp = \"ef\" }}]\n[[classes]]\nname = \"b\"\n{}",
        peer("b", KEY_B, "[\"10.0.0.0/8\"]")
    );
    let mut state = 7u64;
    for _ in 0..3000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = b"\"[]{}=.,\n -19a#\xc3\xa4"[(state >> 24) as usize % 17];
        }
        if let Ok(text) = String::from_utf8(bytes)
            && let Err(errors) = parse(&text)
        {
            assert!(!errors.0.is_empty());
        }
    }
}
