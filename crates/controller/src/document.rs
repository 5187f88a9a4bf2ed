//! The document: sites with their uplinks, links of the core, trunks.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;
use trunkline_admission::{Demand, Link, Network, Priority, Rates, least_rate};
use trunkline_schema::quantity::{Rate, Share, Size, Time};
use trunkline_schema::{At, Format, Mistakes, SITE_NAME, Source, is_site_name, near};
use trunkline_units as units;

/// The node of the core that uplinks lead to unless they say another.
const CORE: &str = "core";
/// The part of a link that guarantees may take, unless it says another: headers of lanes take about a twentieth, and something is left for
/// what has no guarantee.
const RESERVABLE: Share = Share(0.9);
/// The lanes of a trunk, unless it says another number: of those of a gateway's default classes one carries transfers.
const LANES: u32 = 1;
const MAX_COST: u32 = 1_000_000;
const MAX_SITES: usize = 100_000;
const NETWORK: &str =
    "a network that no other site has, such as \"10.2.0.0/16\" or \"2001:db8:2::/48\", its host bits zero";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Trunkline: a network of many sites")]
struct File {
    /// The shortest round trip between two sites, for links that say no other. Without it the windows of lanes are not looked at.
    round_trip: Option<Time>,
    /// Sites, by name.
    sites: IndexMap<String, SiteTable>,
    /// Links between nodes of the core, by name.
    #[serde(default)]
    links: IndexMap<String, LinkTable>,
    /// Trunks that are to have a guaranteed rate, by name.
    #[serde(default)]
    trunks: IndexMap<String, TrunkTable>,
}

impl Format for File {}

/// A site.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SiteTable {
    /// The networks behind its gateway, and the address of its gateway in the tunnel, which sites that it has trunks with route to it.
    #[serde(default)]
    networks: Vec<String>,
    /// Its links to the core, by name.
    uplinks: IndexMap<String, UplinkTable>,
}

/// A link of a site to the core.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UplinkTable {
    /// The rate from the site.
    up: Rate,
    /// The rate to the site.
    down: Rate,
    /// The node of the core that it leads to; "core".
    to: Option<String>,
    /// Where gateways of other sites dial this one over it: a host and a port. Without it the gateway dials over it, and is not dialled.
    endpoint: Option<String>,
    /// The gateway's interface to it, to which connections over it are bound; as the machine routes them.
    interface: Option<String>,
    /// The part that guarantees may take; "90 %".
    reservable: Option<Share>,
    /// What a way over it costs, 1 or more; 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    cost: Option<u32>,
    /// The shortest round trip of trunks over it, if it is not that of the network.
    round_trip: Option<Time>,
    /// The buffer in front of it; none.
    buffer: Option<Size>,
}

/// A link between two nodes of the core.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    /// The two nodes.
    ends: [String; 2],
    /// The rate from the first to the second.
    rate: Rate,
    /// The rate from the second to the first; the same.
    back: Option<Rate>,
    /// The part that guarantees may take; "90 %".
    reservable: Option<Share>,
    /// What a way over it costs, 1 or more; 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    cost: Option<u32>,
    /// The shortest round trip of trunks over it, if it is not that of the network.
    round_trip: Option<Time>,
    /// The buffer in front of it; none.
    buffer: Option<Size>,
}

/// A trunk between two sites.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TrunkTable {
    /// The two sites.
    sites: [String; 2],
    /// The rate that is guaranteed from the first to the second.
    guarantee: Rate,
    /// The rate that is guaranteed from the second to the first; the same.
    back: Option<Rate>,
    /// The lanes, of all shards, that share its rate at a time; 1, as a gateway's default classes have.
    #[schemars(range(min = 1, max = 1024))]
    lanes: Option<u32>,
    /// Whose room it may take: 0 (first) to 7 (last); 4.
    #[schemars(range(min = 0, max = 7))]
    setup: Option<u8>,
    /// Who may take its room: 0 to 7, not after `setup`; as `setup`.
    #[schemars(range(min = 0, max = 7))]
    hold: Option<u8>,
    /// Whether it has a second way that shares no link with the first, with the same room; false.
    #[serde(default)]
    backup: bool,
    /// Links that it may not take: "SITE/UPLINK", or the name of a link of the core.
    #[serde(default)]
    avoid: Vec<String>,
}

/// A network and the trunks that are asked of it, with their names.
#[derive(Debug, Clone)]
pub struct Document {
    /// Sites, then nodes of the core.
    pub(crate) nodes: Places,
    sites: usize,
    pub(crate) links: Places,
    /// By site.
    pub(crate) networks: Vec<Vec<IpNet>>,
    /// How gateways use links, by link; nothing of those of the core.
    pub(crate) uses: Vec<Use>,
    pub(crate) network: Network,
    pub(crate) trunks: Vec<String>,
    pub(crate) demands: Vec<Demand>,
}

/// How a gateway uses an uplink.
#[derive(Debug, Clone, Default)]
pub(crate) struct Use {
    pub(crate) endpoint: Option<String>,
    pub(crate) interface: Option<String>,
}

/// The JSON Schema of documents, for editors.
pub fn json_schema_text() -> String {
    trunkline_schema::json_schema_text::<File>()
}

impl Document {
    /// Reads a text. The name is for messages.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Self, Mistakes> {
        let source = Source::parse(name, text)?;
        let file: File = source.read()?;
        let findings = source.findings::<File>();
        let document = resolve(file, &findings.root());
        let (found, _) = findings.into_found();
        match document {
            Some(document) if found.is_empty() => Ok(document),
            _ => Err(source.mistakes(source.tree(), found.into_iter().map(|one| (one, None)))),
        }
    }

    /// The names of its sites.
    pub fn sites(&self) -> &[String] {
        &self.nodes.names[..self.sites]
    }
}

fn resolve(file: File, at: &At<'_>) -> Option<Document> {
    let File { round_trip, sites, links, trunks } = file;
    if sites.len() > MAX_SITES {
        at.key("sites").report(format!("are {} sites", sites.len()), format!("up to {MAX_SITES}"));
        return None;
    }
    let mut building = Building { round_trip, sites: sites.len(), ..Building::default() };
    for name in sites.keys() {
        check_name(name, &at.key("sites").key(name));
        building.nodes.place(name);
    }
    for (name, site) in &sites {
        let at = at.key("sites").key(name);
        building.uplinks(name, site, &at.key("uplinks"));
        building.networks(name, &site.networks, &at.key("networks"));
    }
    for (name, link) in &links {
        building.link(name, link, &at.key("links").key(name));
    }
    let demand =
        |(name, trunk): (&String, &TrunkTable)| building.demand(name, trunk, &at.key("trunks").key(name));
    let demands = trunks.iter().map(demand).collect();
    let Building { sites, nodes, links, built, uses, networks, .. } = building;
    let passes = (0..nodes.names.len()).map(|node| node >= sites).collect();
    // What no network can be has been reported by its key.
    let network = Network::new(passes, built).ok()?;
    Some(Document {
        nodes,
        sites,
        links,
        networks,
        uses,
        network,
        trunks: trunks.into_keys().collect(),
        demands,
    })
}

/// Names, and the place of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    names: Vec<String>,
    places: BTreeMap<String, usize>,
}

impl Places {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        self.places.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(crate) fn name(&self, place: usize) -> &str {
        &self.names[place]
    }
}

/// The network as far as it is built.
#[derive(Default)]
struct Building {
    round_trip: Option<Time>,
    sites: usize,
    nodes: Places,
    links: Places,
    built: Vec<Link>,
    uses: Vec<Use>,
    networks: Vec<Vec<IpNet>>,
    /// Whose a network is.
    owners: BTreeMap<IpNet, String>,
}

/// What links of sites and of the core both have.
struct Terms {
    rates: Rates,
    reservable: Option<Share>,
    cost: Option<u32>,
    round_trip: Option<Time>,
    buffer: Option<Size>,
}

impl Building {
    fn uplinks(&mut self, site: &str, table: &SiteTable, at: &At<'_>) {
        if table.uplinks.is_empty() {
            at.report("is empty: nothing joins the site to the others", "at least one uplink");
        }
        let sites = self.nodes.find(site).unwrap_or_default();
        for (name, uplink) in &table.uplinks {
            let at = at.key(name);
            check_name(name, &at);
            let UplinkTable { up, down, to, endpoint, interface, reservable, cost, round_trip, buffer } =
                uplink;
            check_use(endpoint.as_deref(), interface.as_deref(), &at);
            let used = Use { endpoint: endpoint.clone(), interface: interface.clone() };
            let node = self.node(to.as_deref().unwrap_or(CORE), &at.key("to"));
            let rates = Rates { forth: up.0, back: down.0 };
            let terms = Terms {
                rates,
                reservable: *reservable,
                cost: *cost,
                round_trip: *round_trip,
                buffer: *buffer,
            };
            self.links.place(&format!("{site}/{name}"));
            self.push([sites, node], &terms, &at);
            self.uses.push(used);
        }
    }

    fn networks(&mut self, site: &str, networks: &[String], at: &At<'_>) {
        let mut parsed = Vec::new();
        for (index, text) in networks.iter().enumerate() {
            let at = at.index(index);
            let Some(network) = text.parse::<IpNet>().ok().filter(|network| *network == network.trunc())
            else {
                at.report(format!("{text:?} is no network"), NETWORK);
                continue;
            };
            match self.owners.insert(network, site.to_owned()) {
                Some(other) => at.report(format!("{network} is behind site {other} already"), NETWORK),
                None => parsed.push(network),
            }
        }
        self.networks.push(parsed);
    }

    fn link(&mut self, name: &str, table: &LinkTable, at: &At<'_>) {
        check_name(name, at);
        let LinkTable { ends, rate, back, reservable, cost, round_trip, buffer } = table;
        if ends[0] == ends[1] {
            at.key("ends").report("are the same node", "two nodes of the core");
        }
        let places = [0, 1].map(|end| self.node(&ends[end], &at.key("ends").index(end)));
        let rates = Rates { forth: rate.0, back: back.unwrap_or(*rate).0 };
        let terms =
            Terms { rates, reservable: *reservable, cost: *cost, round_trip: *round_trip, buffer: *buffer };
        self.links.place(name);
        self.push(places, &terms, at);
        self.uses.push(Use::default());
    }

    /// A node of the core.
    fn node(&mut self, name: &str, at: &At<'_>) -> usize {
        check_name(name, at);
        let place = self.nodes.place(name);
        if self.is_site(place) {
            at.report(format!("{name:?} is a site, which passes nothing on"), "a node of the core");
        }
        place
    }

    fn is_site(&self, node: usize) -> bool {
        // Nodes of the core come after all sites, whose names are placed first.
        node < self.sites
    }

    fn push(&mut self, ends: [usize; 2], terms: &Terms, at: &At<'_>) {
        let cost = terms.cost.unwrap_or(1);
        if !(1..=MAX_COST).contains(&cost) {
            at.key("cost").refuse(format!("1 to {MAX_COST}"));
        }
        let part = terms.reservable.unwrap_or(RESERVABLE).0;
        let reservable = |rate: units::Rate| {
            // Of at most 10^13 bit/s, whose products with a share are exact enough.
            units::Rate::from_bits_per_second((rate.bits_per_second() as f64 * part).floor() as u64)
        };
        let round_trip = terms.round_trip.or(self.round_trip);
        let buffer = units::Bytes(terms.buffer.unwrap_or_default().0);
        let least = |rate: units::Rate| {
            round_trip.map_or(units::Rate::ZERO, |Time(round_trip)| least_rate(rate, round_trip, buffer))
        };
        let least = Rates { forth: least(terms.rates.forth), back: least(terms.rates.back) };
        let reservable = Rates { forth: reservable(terms.rates.forth), back: reservable(terms.rates.back) };
        self.built.push(Link { ends, reservable, least, cost });
    }

    /// A trunk, once the network is whole.
    fn demand(&self, name: &str, trunk: &TrunkTable, at: &At<'_>) -> Demand {
        check_name(name, at);
        let TrunkTable { sites: ends, guarantee, back, lanes, setup, hold, backup, avoid } = trunk;
        let site = |end: usize| {
            let at = at.key("sites").index(end);
            let place = self.nodes.find(&ends[end]).filter(|place| self.is_site(*place));
            if place.is_none() {
                let near = near(&ends[end], self.nodes.names[..self.sites].iter().map(String::as_str));
                at.report(format!("there is no site {:?}", ends[end]), one_of(&near, "a name of [sites]"));
            }
            place.unwrap_or_default()
        };
        if ends[0] == ends[1] {
            at.key("sites").report("are the same site", "two sites");
        }
        let setup_priority = setup.unwrap_or(Priority::default().setup);
        let hold_priority = hold.unwrap_or(setup_priority);
        for (key, priority) in [("setup", setup_priority), ("hold", hold_priority)] {
            if priority > 7 {
                at.key(key).refuse("0 (first) to 7 (last)");
            }
        }
        if hold_priority > setup_priority {
            let problem = format!(
                "is {hold_priority}, after setup, {setup_priority}: two trunks could take each other's room"
            );
            at.key("hold").report(problem, "no more than setup");
        }
        let lanes = lanes.unwrap_or(LANES);
        if !(1..=1024).contains(&lanes) {
            at.key("lanes").refuse("1 to 1024");
        }
        let avoided: BTreeSet<usize> = avoid
            .iter()
            .enumerate()
            .filter_map(|(index, name)| {
                let place = self.links.find(name);
                if place.is_none() {
                    let near = near(name, self.links.names.iter().map(String::as_str));
                    let allowed = one_of(&near, "SITE/UPLINK, or a name of [links]");
                    at.key("avoid").index(index).report(format!("there is no link {name:?}"), allowed);
                }
                place
            })
            .collect();
        Demand {
            ends: [site(0), site(1)],
            rates: Rates { forth: guarantee.0, back: back.unwrap_or(*guarantee).0 },
            lanes,
            priority: Priority { setup: setup_priority, hold: hold_priority },
            backup: *backup,
            avoided,
        }
    }
}

fn check_use(endpoint: Option<&str>, interface: Option<&str>, at: &At<'_>) {
    let is_endpoint = |text: &str| {
        let split = text.rsplit_once(':');
        split.is_some_and(|(host, ports)| {
            !host.is_empty()
                && !host.contains(|character: char| character.is_whitespace() || character.is_control())
                && ports.split(',').all(|port| port.parse().is_ok_and(|port: u16| port > 0))
        })
    };
    if let Some(endpoint) = endpoint.filter(|endpoint| !is_endpoint(endpoint)) {
        let allowed = "a host and a port, such as \"gw.example.net:4600\" or \"[2001:db8::1]:4600\", or with several ports, such as \"gw.example.net:4600,443\"";
        at.key("endpoint").report(format!("{endpoint:?} is no endpoint"), allowed);
    }
    let is_interface = |name: &&str| {
        (1..=15).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
    };
    if let Some(interface) = interface.filter(|interface| !is_interface(interface)) {
        let allowed = "the name of an interface, 1 to 15 characters";
        at.key("interface").report(format!("{interface:?} is no interface"), allowed);
    }
}

/// What is near, or what is allowed at all.
fn one_of(near: &[String], allowed: &str) -> String {
    if near.is_empty() { allowed.to_owned() } else { format!("{allowed}, such as {}", near.join(" or ")) }
}

fn check_name(name: &str, at: &At<'_>) {
    if !is_site_name(name) {
        at.report(format!("{name:?} is no name"), SITE_NAME);
    }
}
