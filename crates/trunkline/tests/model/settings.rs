//! The model's version of a site's file: every key that a reload applies, with a few values each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use trunkline_gateway::config::Config;
use trunkline_units::Rng;

use super::step::Site;

/// A key, or some that only make sense together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Encryption,
    PeerEncryption,
    Address,
    Mtu,
    TxQueueLen,
    CongestionControl,
    Fwmark,
    EdgePacing,
    AllowRemote,
    /// Whether there is a third class.
    Bulk,
    /// Whether `voice` rides on the lanes of `rest`.
    Lane,
    Lanes,
    Match,
    Queue,
    RestQueue,
    ClassCongestionControl,
    Dscp,
    Weight,
    Rates,
    Priority,
    Flows,
    Filter,
    Compression,
    /// One more prefix behind each peer.
    Routes,
    /// Whether B dials, too.
    Endpoint,
    /// What the lanes of `rest` are.
    Transport,
}

pub(crate) const KEYS: &[Key] = &[
    Key::Encryption,
    Key::PeerEncryption,
    Key::Address,
    Key::Mtu,
    Key::TxQueueLen,
    Key::CongestionControl,
    Key::Fwmark,
    Key::EdgePacing,
    Key::AllowRemote,
    Key::Bulk,
    Key::Lane,
    Key::Lanes,
    Key::Match,
    Key::Queue,
    Key::RestQueue,
    Key::ClassCongestionControl,
    Key::Dscp,
    Key::Weight,
    Key::Rates,
    Key::Priority,
    Key::Flows,
    Key::Filter,
    Key::Compression,
    Key::Routes,
    Key::Endpoint,
    Key::Transport,
];

impl Key {
    /// What it may be; the first is what a site starts with.
    pub(crate) fn values(self) -> &'static [&'static str] {
        match self {
            Self::Encryption => &["encryption = \"tls\"", "encryption = \"none\""],
            Self::PeerEncryption => &["", "encryption = \"tls\""],
            Self::Address => &["", ", \"198.19.9.9/32\""],
            Self::Mtu => &["1500", "1400", "9000"],
            Self::TxQueueLen => &["128", "500"],
            Self::CongestionControl => &["auto", "cubic", "reno"],
            Self::Fwmark => &["", "fwmark = 7"],
            Self::EdgePacing | Self::Filter | Self::Compression => &["true", "false"],
            Self::AllowRemote | Self::Priority => &["false", "true"],
            Self::Bulk => {
                &["", "[[classes]]\nname = \"bulk\"\nmatch = [{ protocol = \"tcp\", port = 5001 }]"]
            }
            Self::Lane => &["", "lane_group = \"rest\""],
            Self::Lanes => &["1", "2"],
            Self::Match => &["protocol = \"udp\"", "protocol = \"udp\", length = \"1-400\"", "dscp = \"ef\""],
            Self::Queue => {
                &["{}", "{ discipline = \"tail-drop\", packets = 50 }", "{ discipline = \"pie\" }"]
            }
            Self::RestQueue => &["{}", "{ discipline = \"trunk\" }", "{ discipline = \"codel\" }"],
            Self::ClassCongestionControl => &["", "congestion_control = \"reno\""],
            Self::Dscp => &["", "dscp = \"af11\""],
            Self::Weight => &["1", "7"],
            Self::Rates => &["", "guarantee = \"1mbit\"", "ceiling = \"50mbit\""],
            Self::Flows => &["", "flows = { limit = 40, over = \"rest\" }"],
            Self::Routes => &["", ", \"198.19.20.0/24\""],
            Self::Endpoint => &["yes", ""],
            Self::Transport => &["tcp", "auto", "quic", "quic, reliable", "auto, reliable"],
        }
    }
}

/// The proxy of the hub, for the host behind it. It is the same for a whole sequence: a change of it needs a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proxy {
    mode: &'static str,
    fail: &'static str,
}

impl Proxy {
    /// Rates are above that of the lines.
    const MODES: [&str; 4] = [
        "mode = \"split\"",
        "mode = \"path-tail\"\nrate = \"50 Mbit/s\"",
        "mode = \"path-tail\"\nrate = \"measured\"",
        "mode = \"clamp-window\"\nwindow = \"256 kB\"",
    ];
    const FAILS: [&str; 2] = ["open", "closed"];

    pub(crate) fn random(rng: &mut Rng) -> Self {
        let mode = Self::MODES[rng.below(Self::MODES.len() as u64) as usize];
        Self { mode, fail: Self::FAILS[rng.below(2) as usize] }
    }

    fn text(self) -> String {
        format!(
            "[proxy]\nfail = \"{}\"\n[[proxies]]\nname = \"cell\"\nbehind = [\"198.19.101.0/24\"]\n{}\n",
            self.fail, self.mode
        )
    }
}

/// The lanes to a peer in each shard, by their name.
pub(crate) type Lanes = BTreeMap<&'static str, u16>;

/// The values of a site's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    chosen: BTreeMap<Key, u8>,
}

impl Settings {
    pub(crate) fn set(&mut self, key: Key, value: u8) {
        self.chosen.insert(key, value);
    }

    fn get(&self, key: Key) -> &'static str {
        let values = key.values();
        values[usize::from(self.chosen.get(&key).copied().unwrap_or(0)) % values.len()]
    }

    pub(crate) fn lanes(&self) -> Lanes {
        let mut lanes = Lanes::from([("rest", self.get(Key::Lanes).parse().expect("a number"))]);
        if self.get(Key::Lane).is_empty() {
            lanes.insert("voice", 1);
        }
        if !self.get(Key::Bulk).is_empty() {
            lanes.insert("bulk", 1);
        }
        lanes
    }

    /// What the lanes of `rest` are. Those of others are connections over TCP.
    pub(crate) fn transport(&self) -> &'static str {
        // Lanes over QUIC are encrypted.
        let is_encrypted = self.get(Key::Encryption) == Key::Encryption.values()[0];
        if is_encrypted { self.get(Key::Transport) } else { "tcp" }
    }

    /// Whether the lanes of `rest` come up between this site and its peer, by their transports.
    pub(crate) fn agrees_on_transport(&self, peer: &Self) -> bool {
        let [ours, theirs] = [self.transport(), peer.transport()];
        let [own, other] = [ours, theirs].map(|what| what.split(", ").collect::<Vec<_>>());
        match (own[0], other[0]) {
            ("quic", "quic") => own == other,
            ("quic", "auto") | ("auto", "quic") => own.get(1) == other.get(1),
            ("quic", _) | (_, "quic") => false,
            _ => true,
        }
    }

    /// What protects lanes to its peers.
    pub(crate) fn encryption(&self) -> &'static str {
        let own = self.get(Key::PeerEncryption);
        if own.is_empty() { self.get(Key::Encryption) } else { own }
    }

    /// Whether `site` dials its peer.
    pub(crate) fn dials(&self, site: Site, peer: Site) -> bool {
        match (site, peer) {
            (Site::Hub, peer) => peer == Site::B,
            // No site dials C.
            (Site::B, _) => !self.get(Key::Endpoint).is_empty(),
            (Site::C, _) => true,
        }
    }

    /// The prefixes behind each peer of `site`.
    pub(crate) fn routes(&self, site: Site) -> BTreeMap<Site, Vec<String>> {
        let host = |of: Site| format!("198.19.{}.1/32", of.number());
        let mut routes: BTreeMap<Site, Vec<String>> =
            site.peers().iter().map(|peer| (*peer, vec![host(*peer)])).collect();
        if site != Site::Hub {
            let other = if site == Site::B { Site::C } else { Site::B };
            routes.entry(Site::Hub).or_default().extend([host(other), "198.19.101.0/24".to_owned()]);
        }
        if !self.get(Key::Routes).is_empty() {
            for (peer, routes) in &mut routes {
                routes.push(format!("198.19.{}.0/24", 20 + peer.number()));
            }
        }
        routes
    }

    /// The file.
    pub(crate) fn text(
        &self,
        site: Site,
        peer_key: impl Fn(Site) -> String,
        socket: &Path,
        proxy: Proxy,
    ) -> String {
        let get = |key| self.get(key);
        let (name, number) = (site.name(), site.number());
        let listen = if site == Site::C { "" } else { "listen = [\"0.0.0.0:4600\"]" };
        // Classes that share lanes agree on what is the lanes' own.
        let shared = !get(Key::Lane).is_empty();
        let own = if shared { [""; 2] } else { [get(Key::ClassCongestionControl), get(Key::Dscp)] };
        let transport = self.transport();
        let mut rest = match transport.split_once(", ") {
            Some((transport, delivery)) => format!("transport = \"{transport}\"\ndelivery = \"{delivery}\""),
            None => format!("transport = \"{transport}\""),
        };
        let mut voice = if shared { rest.clone() } else { String::new() };
        let compression = format!("\nheader_compression = {}", get(Key::Compression));
        if transport == "tcp" {
            rest = format!("{rest}{compression}\nretransmission_filter = {}", get(Key::Filter));
        }
        if transport == "tcp" || !shared {
            voice += &compression;
        }
        let mut text = format!(
            "name = \"{name}\"\nprivate_key_file = \"{name}.key\"\n{listen}\n{}\n\
             [tun]\nname = \"trunk\"\naddress = [\"198.19.{number}.1/32\"{}]\nmtu = {}\ntx_queue_len = {}\nqueues = 2\n\
             [lanes]\ncongestion_control = \"{}\"\nedge_pacing = {}\n{}\n\
             [control]\nsocket = \"{}\"\n[metrics]\nlisten = \"127.0.0.1:9460\"\nallow_remote = {}\n\
             [[classes]]\nname = \"voice\"\nmatch = [{{ {} }}]\nqueue = {}\n{}\n{}\n{}\nweight = {}\npriority = {}\n{}\n\
             {voice}\n{}\n\
             [[classes]]\nname = \"rest\"\nqueue = {}\n{rest}\n{}\nlanes = {}\n",
            get(Key::Encryption),
            get(Key::Address),
            get(Key::Mtu),
            get(Key::TxQueueLen),
            get(Key::CongestionControl),
            get(Key::EdgePacing),
            get(Key::Fwmark),
            socket.display(),
            get(Key::AllowRemote),
            get(Key::Match),
            get(Key::Queue),
            get(Key::Lane),
            own[0],
            own[1],
            get(Key::Weight),
            get(Key::Priority),
            get(Key::Flows),
            get(Key::Bulk),
            get(Key::RestQueue),
            get(Key::Rates),
            get(Key::Lanes),
        );
        for (peer, routes) in self.routes(site) {
            let endpoint = match (self.dials(site, peer), peer) {
                (false, _) => String::new(),
                (true, Site::Hub) => "endpoint = \"198.18.1.2:4600\"".to_owned(),
                (true, peer) => format!("endpoint = \"198.18.{}.2:4600\"", peer.number()),
            };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "[[peers]]\nname = \"{}\"\npublic_key = \"{}\"\nroutes = {routes:?}\n{endpoint}\n{}\n",
                peer.name(),
                peer_key(peer),
                get(Key::PeerEncryption),
            );
        }
        if site == Site::Hub {
            text += &proxy.text();
        }
        text
    }
}

/// A model that writes files with mistakes would test little but the refusal of mistakes.
pub(crate) fn check_all() {
    let key = |site: Site| {
        // Any 32 bytes are a public key.
        format!("{}=", ["A", "E", "I"][site as usize].repeat(43))
    };
    let read = |settings: &Settings, site: Site, proxy: Proxy| {
        let text = settings.text(site, key, Path::new("/run/x.sock"), proxy);
        match Config::parse(&text, Path::new("x.toml")) {
            Ok(config) => config,
            Err(errors) => panic!("{errors}\n{text}"),
        }
    };
    for (mode, fail) in Proxy::MODES.into_iter().zip(Proxy::FAILS.into_iter().cycle()) {
        read(&Settings::default(), Site::Hub, Proxy { mode, fail });
    }
    let proxy = Proxy { mode: Proxy::MODES[0], fail: Proxy::FAILS[0] };
    let read = |settings: &Settings, site: Site| read(settings, site, proxy);
    for site in Site::ALL {
        let usual = read(&Settings::default(), site);
        for first in KEYS {
            for value in 0..first.values().len() as u8 {
                let mut settings = Settings::default();
                settings.set(*first, value);
                let config = read(&settings, site);
                assert_eq!(usual.restart_needed(&config), [""; 0], "{first:?}");
                // The model's lanes are the file's.
                let lanes: Lanes = settings.lanes();
                let names: BTreeSet<&str> = config.trunk.groups.iter().map(|g| &*g.name).collect();
                assert_eq!(names, lanes.keys().copied().collect());
                for group in &config.trunk.groups {
                    assert_eq!(u16::from(group.lanes), lanes[&*group.name]);
                }
                for second in KEYS {
                    settings.set(*second, 1);
                    read(&settings, site);
                }
            }
        }
    }
}
