//! The command that opens an invitation, waits until a site comes with it, and writes that site into the file.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ipnet::IpNet;
use trunkline_gateway::config::{Config, Encryption, PeerConfig, endpoint, is_site_name};
use trunkline_gateway::handshake::MAX_PREFIXES;
use trunkline_gateway::join::{Invitation, MAX_ENDPOINTS, Surroundings, Terms, is_private, overlap};
use trunkline_service::control::{ask, send};
use trunkline_status::{Answer, Joining, Request};

use super::{NO_TUNNEL, list, public_key, surroundings, wait_for_peer};
use crate::cli::OfferArguments;
use crate::commands::control::{another_answer, control_failure};
use crate::commands::site_file::{NewPeer, SiteFile};
use crate::failure::Failure;
use crate::output::{print_line, remark};

/// How much longer than the invitation the command waits for the daemon's answer.
const GRACE: Duration = Duration::from_secs(30);

/// An invitation to a site.
pub(super) struct Inviting<'a> {
    pub(super) file: &'a Path,
    pub(super) endpoints: Vec<String>,
    pub(super) lans: Vec<IpNet>,
    pub(super) offer: &'a OfferArguments,
}

impl Inviting<'_> {
    /// Opens it, prints it, and waits.
    pub(super) fn run(&self) -> Result<(), Failure> {
        // Before the invitation is shown, so that it is not shown in vain.
        let (file, config) = SiteFile::open(self.file)?;
        ask::<Answer>(&config.control.socket, &Request::Status).map_err(|error| control_failure(&error))?;
        let (file, config) = self.with_tunnel(file, config)?;
        let terms = self.terms(&file, &config)?;
        let invitation = Invitation::new(terms).map_err(Failure::doing("cannot make an invitation"))?;
        let key = invitation.key().map_err(Failure::doing("cannot make an invitation"))?.public().to_string();
        let socket = &config.control.socket;
        remark(&format_args!(
            "On the other site, with Trunkline installed, run as root:\n\n  trunkline join INVITATION\n\nwith this invitation, which one \
             site can use once, within {} min, while this command runs (Ctrl-C ends both):\n",
            self.offer.expires.as_secs().div_ceil(60)
        ));
        let seconds = u32::try_from(self.offer.expires.as_secs()).unwrap_or(u32::MAX);
        let invite = Request::Invite { key: key.clone(), seconds };
        let opened =
            send(socket, &invite, self.offer.expires + GRACE).map_err(|error| control_failure(&error))?;
        print_line(&invitation.to_text())?;
        let joining = match opened.answer().map_err(|error| control_failure(&error))? {
            Answer::Joining(joining) => joining,
            Answer::Refused { message } | Answer::Done { message } => return Err(Failure::Other(message)),
            Answer::Status(_) | Answer::Proxies(_) => return Err(another_answer()),
        };
        remark(&format_args!(
            "{} at {} joins, with {}",
            joining.name,
            joining.from.ip(),
            list(&joining.prefixes, "nothing")
        ));
        self.take_in(&invitation.terms, &joining).inspect_err(|failure| {
            let reason = failure.to_string().chars().take(180).collect();
            let _ = ask::<Answer>(socket, &Request::Decline { key, reason });
        })?;
        match wait_for_peer(&config, &joining.name) {
            Some(time) => remark(&format_args!(
                "{} is a peer, lanes came up after {:.1} s; its address in the tunnel is {}",
                joining.name,
                time.as_secs_f64(),
                invitation.terms.address.addr()
            )),
            None => remark(&format_args!(
                "{} is a peer; no lane to it is up yet: see `trunkline status`",
                joining.name
            )),
        }
        Ok(())
    }

    /// The site's file with a tunnel whose addresses this site gives away: it gets one if all that it has are of sites that it has joined.
    fn with_tunnel<'f>(
        &'f self,
        mut file: SiteFile<'f>,
        config: Config,
    ) -> Result<(SiteFile<'f>, Config), Failure> {
        if own_tunnel(&config).is_some() {
            return Ok((file, config));
        }
        let free = surroundings()?.free_tunnel_address(&public_key(&config)?);
        let address = free.ok_or_else(|| Failure::Input(NO_TUNNEL.to_owned()))?;
        remark(&format_args!("{} gets the address {address} in a tunnel of its own", config.name));
        file.add_address(address);
        file.write()?;
        apply(&file, &config)?;
        SiteFile::open(self.file)
    }

    fn terms(&self, file: &SiteFile<'_>, config: &Config) -> Result<Terms, Failure> {
        let name = self.file.display();
        if config.encryption == Encryption::None {
            return Err(Failure::Input(format!(
                "{name} has encryption = \"none\", which no invitation carries: set the other site up by hand"
            )));
        }
        let classes = file.classes_word().unwrap_or_else(|| {
            remark(&format_args!(
                "{name} has classes of its own: the other site needs lane groups of the same names (docs/configuration.md)"
            ));
            ""
        });
        let own = own_tunnel(config).ok_or_else(|| Failure::Input(NO_TUNNEL.to_owned()))?;
        let address = free_address(own, config)?;
        let mut prefixes = vec![IpNet::from(own.addr())];
        prefixes.extend(self.lans.iter().filter(|lan| !overlap(lan, &own.trunc())));
        if prefixes.len() > MAX_PREFIXES {
            return Err(Failure::Input(format!(
                "{} networks; allowed: up to {}",
                prefixes.len(),
                MAX_PREFIXES
            )));
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + self.offer.expires;
        Ok(Terms {
            expires_s: u32::try_from(since.as_secs()).map_err(Failure::doing("the clock"))?,
            site: public_key(config)?,
            name: config.name.clone(),
            queues: u8::try_from(config.tun.queues).map_err(Failure::doing("tun.queues"))?,
            classes: classes.to_owned(),
            address,
            endpoints: self.endpoints.clone(),
            prefixes,
        })
    }

    /// Writes the site that has come into the file, and has the gateway read it.
    fn take_in(&self, terms: &Terms, joining: &Joining) -> Result<(), Failure> {
        let (mut file, config) = SiteFile::open(self.file)?;
        let around = surroundings()?.without(&config.tun.name);
        check(joining, terms, &config, &around, &self.offer.allow).map_err(Failure::Input)?;
        file.add_peer(&NewPeer {
            name: joining.name.clone(),
            public_key: joining.key.clone(),
            endpoint: None,
            routes: joining.prefixes.clone(),
            ..NewPeer::default()
        });
        file.write()?;
        apply(&file, &config)
    }
}

/// Has the gateway read a changed file. If it does not take it, the file is again what it was.
fn apply(file: &SiteFile<'_>, config: &Config) -> Result<(), Failure> {
    let applied = match ask(&config.control.socket, &Request::Reload) {
        Ok(Answer::Done { .. }) => Ok(()),
        Ok(Answer::Refused { message }) => Err(Failure::Other(message)),
        Ok(_) => Err(another_answer()),
        Err(error) => Err(control_failure(&error)),
    };
    if applied.is_err() {
        file.restore()?;
    }
    applied
}

/// The first address of the site in a tunnel whose addresses it gives away: no site that it dials, which has invited it, is there.
fn own_tunnel(config: &Config) -> Option<&IpNet> {
    config.tun.addresses.iter().find(|address| {
        let dialled = config.peers.iter().filter(|peer| peer.endpoint.is_some());
        let mut routes = dialled.flat_map(|peer| &peer.routes);
        !routes.any(|route| overlap(&address.trunc(), route))
    })
}

/// Whether a site may join with what it says. The words are for both command lines.
fn check(
    joining: &Joining,
    terms: &Terms,
    config: &Config,
    around: &Surroundings,
    allow: &[IpNet],
) -> Result<(), String> {
    let name = &joining.name;
    if !is_site_name(name) || *name == config.name {
        return Err(format!("{name} is the name of this site; `trunkline join --name` gives another"));
    }
    if config.peers.iter().any(|peer| peer.name == *name) {
        return Err(format!("there is a peer {name} already; `trunkline join --name` gives another"));
    }
    let Some((own, lans)) = joining.prefixes.split_first() else {
        return Err("it brings no address".to_owned());
    };
    if *own != IpNet::from(terms.address.addr()) {
        return Err(format!("it has {own} in the tunnel instead of {}", terms.address.addr()));
    }
    for lan in lans {
        if !is_private(lan) && !allow.iter().any(|allowed| allowed.contains(lan)) {
            return Err(format!(
                "{lan} is no private network; `trunkline invite --allow {lan}` allows a site to bring it"
            ));
        }
        if let Some(used) =
            around.overlapping(lan).or_else(|| overlap(&terms.address, lan).then_some(terms.address))
        {
            return Err(format!("it brings {lan}, and {} has {used}", terms.name));
        }
        let behind = |peer: &&PeerConfig| peer.routes.iter().any(|route| overlap(route, lan));
        if let Some(peer) = config.peers.iter().find(behind) {
            return Err(format!("it brings {lan}, which overlaps with what is behind {}", peer.name));
        }
    }
    Ok(())
}

/// An address of the tunnel that neither this site nor a peer has.
fn free_address(own: &IpNet, config: &Config) -> Result<IpNet, Failure> {
    let tunnel = own.trunc();
    let mut invited = config.peers.iter().filter(|peer| peer.endpoint.is_none());
    if let Some(peer) = invited.find(|peer| !peer.routes.iter().any(|route| overlap(route, &tunnel))) {
        return Err(Failure::Input(format!(
            "peer {} has no address of the tunnel {tunnel} among its routes, which each of several peers needs: add it, such as \
             \"{}\"",
            peer.name,
            IpNet::from(own.addr())
        )));
    }
    let taken = |address: &IpAddr| {
        // The first address of an IPv6 prefix is that of its routers (RFC 4291 §2.6.1).
        *address == own.addr()
            || *address == tunnel.addr()
            || config
                .peers
                .iter()
                .any(|peer| peer.routes.iter().any(|route| tunnel.contains(route) && route.contains(address)))
    };
    let free = tunnel.hosts().take(1 << 16).find(|address| !taken(address)).ok_or_else(|| {
        Failure::Input(format!(
            "the tunnel {tunnel} has no free address: give tun.address a shorter prefix at all sites"
        ))
    })?;
    IpNet::new(free, tunnel.prefix_len()).map_err(Failure::doing("the tunnel"))
}

/// Where a site is dialled: what is given, with its port, or this machine's addresses.
pub(super) fn endpoints(given: &[String], around: &Surroundings, port: u16) -> Result<Vec<String>, Failure> {
    if given.len() > MAX_ENDPOINTS {
        return Err(Failure::Input(format!("{} endpoints; allowed: up to {MAX_ENDPOINTS}", given.len())));
    }
    if !given.is_empty() {
        let checked = given.iter().map(|text| endpoint(&with_port(text, port)).map(|it| it.to_string()));
        return checked.collect::<Result<_, _>>().map_err(|problem| {
            Failure::Input(format!("--endpoint: {problem}; allowed: a host, with a port or without, such as a.example.net or 192.0.2.1:4600"))
        });
    }
    let addresses = around.dialled();
    let Some(first) = addresses.first() else {
        return Err(Failure::Input(
            "this machine has no address that another site could dial; give --endpoint HOST:PORT".to_owned(),
        ));
    };
    if is_private(&IpNet::from(*first)) {
        remark(&format_args!(
            "this machine has private addresses only: a site elsewhere needs --endpoint HOST:PORT, and the port led to here"
        ));
    }
    let all = addresses.iter().map(|address| SocketAddr::new(*address, port).to_string());
    Ok(all.take(MAX_ENDPOINTS / 2).collect())
}

/// An endpoint with a port: `a.example.net`, `192.0.2.1` and `2001:db8::1` have none.
fn with_port(text: &str, port: u16) -> String {
    match text.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, port).to_string(),
        Err(_) if text.contains(':') => text.to_owned(),
        Err(_) => format!("{text}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(peers: &[(&str, &str)], address: &str) -> Config {
        use std::fmt::Write as _;
        let mut text = format!(
            "listen = [\"0.0.0.0:4600\"]\nprivate_key_file = \"a.key\"\ntun.address = [\"{address}\"]\n"
        );
        for (number, (name, routes)) in peers.iter().enumerate() {
            let key = trunkline_gateway::keys::PublicKey::from_bytes([number as u8 + 1; 32]);
            write!(text, "[[peers]]\nname = \"{name}\"\npublic_key = \"{key}\"\nroutes = [{routes}]\n")
                .unwrap();
        }
        Config::parse(&text, Path::new("a.toml")).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    fn terms(address: &str) -> Terms {
        Terms {
            expires_s: 0,
            site: trunkline_gateway::keys::PublicKey::from_bytes([9; 32]),
            name: "a".to_owned(),
            queues: 1,
            classes: String::new(),
            address: address.parse().unwrap(),
            endpoints: Vec::new(),
            prefixes: Vec::new(),
        }
    }

    fn joining(name: &str, prefixes: &[&str]) -> Joining {
        Joining {
            name: name.to_owned(),
            key: String::new(),
            prefixes: prefixes.iter().map(|text| text.parse().unwrap()).collect(),
            from: "192.0.2.7:999".parse().unwrap(),
        }
    }

    #[test]
    fn each_site_gets_the_first_address_that_nobody_has() {
        let free = |peers: &[(&str, &str)], address: &str| {
            free_address(&address.parse().unwrap(), &config(peers, address)).map(|net| net.to_string())
        };
        assert_eq!(free(&[], "10.200.1.1/24").unwrap(), "10.200.1.2/24");
        assert_eq!(free(&[], "10.200.1.7/24").unwrap(), "10.200.1.1/24");
        let two = [("b", r#""10.200.1.2/32", "10.2.0.0/16""#), ("d", r#""10.200.1.4/32""#)];
        assert_eq!(free(&two, "10.200.1.1/24").unwrap(), "10.200.1.3/24");
        assert_eq!(free(&[], "fd00:7::1/64").unwrap(), "fd00:7::2/64");
        let full = free(&[("b", r#""10.200.1.2/32""#)], "10.200.1.1/30").unwrap_err().to_string();
        assert!(full.contains("no free address"), "{full}");
        let whole = free(&[("b", r#""10.2.0.0/16""#)], "10.200.1.1/24").unwrap_err().to_string();
        assert!(whole.contains("peer b has no address of the tunnel"), "{whole}");
    }

    #[test]
    fn a_site_gives_addresses_of_its_own_tunnel_alone() {
        let text = |addresses: &str, endpoint: &str| {
            let text = format!(
                "listen = [\"0.0.0.0:4600\"]\nprivate_key_file = \"a.key\"\ntun.address = [{addresses}]\n[[peers]]\nname = \"b\"\n\
                 public_key = \"{}\"\n{endpoint}\nroutes = [\"10.200.1.1/32\", \"10.2.0.0/16\"]\n",
                trunkline_gateway::keys::PublicKey::from_bytes([1; 32])
            );
            Config::parse(&text, Path::new("a.toml")).unwrap_or_else(|mistakes| panic!("{mistakes}"))
        };
        let dialled = "endpoint = \"b:1\"";
        let own = |config: &Config| own_tunnel(config).map(ToString::to_string);
        assert_eq!(own(&text("\"10.200.1.2/24\"", "")).as_deref(), Some("10.200.1.2/24"), "b was invited");
        assert_eq!(own(&text("\"10.200.1.2/24\"", dialled)), None, "b has invited this site");
        let two = text("\"10.200.1.2/24\", \"10.200.9.1/24\"", dialled);
        assert_eq!(own(&two).as_deref(), Some("10.200.9.1/24"));
        assert_eq!(free_address(own_tunnel(&two).unwrap(), &two).unwrap().to_string(), "10.200.9.2/24");
    }

    #[test]
    fn a_site_joins_only_with_what_cannot_take_traffic_from_others() {
        let config = config(&[("c", r#""10.200.1.3/32", "10.3.0.0/16""#)], "10.200.1.1/24");
        let around = Surroundings { interfaces: Vec::new(), routes: vec!["10.1.0.0/16".parse().unwrap()] };
        let judge = |name: &str, prefixes: &[&str], allow: &[&str]| {
            let allow: Vec<IpNet> = allow.iter().map(|text| text.parse().unwrap()).collect();
            check(&joining(name, prefixes), &terms("10.200.1.2/24"), &config, &around, &allow)
        };
        let own = "10.200.1.2/32";
        assert_eq!(judge("b", &[own, "10.2.0.0/16", "fd00:2::/48"], &[]), Ok(()));
        assert_eq!(judge("b", &[own, "203.0.113.0/24"], &["203.0.112.0/20"]), Ok(()));
        for (name, prefixes, why) in [
            ("a", vec![own], "the name of this site"),
            ("c", vec![own], "there is a peer c already"),
            ("b", vec![], "no address"),
            ("b", vec!["10.200.1.3/32"], "instead of 10.200.1.2"),
            ("b", vec![own, "0.0.0.0/0"], "no private network"),
            ("b", vec![own, "203.0.113.0/24"], "no private network"),
            ("b", vec![own, "10.0.0.0/8"], "a has 10.1.0.0/16"),
            ("b", vec![own, "10.200.0.0/16"], "a has 10.200.1.2/24"),
            ("b", vec![own, "10.3.7.0/24"], "what is behind c"),
        ] {
            let error = judge(name, &prefixes, &[]).unwrap_err();
            assert!(error.contains(why), "{prefixes:?}: {error}");
        }
    }

    #[test]
    fn an_endpoint_gets_the_port_that_it_has_not() {
        for (text, whole) in [
            ("a.example.net", "a.example.net:4600"),
            ("a.example.net:99", "a.example.net:99"),
            ("192.0.2.1", "192.0.2.1:4600"),
            ("2001:db8::1", "[2001:db8::1]:4600"),
            ("[2001:db8::1]:99", "[2001:db8::1]:99"),
        ] {
            assert_eq!(with_port(text, 4600), whole);
        }
        assert!(endpoints(&[], &Surroundings::default(), 4600).is_err());
        for wrong in ["a b", "host:0", ""] {
            let error =
                endpoints(&[wrong.to_owned()], &Surroundings::default(), 4600).unwrap_err().to_string();
            assert!(error.contains("allowed: a host"), "{error}");
        }
    }
}
