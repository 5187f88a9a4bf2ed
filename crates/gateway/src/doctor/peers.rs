//! The peers' endpoints: names, routes, and whether something answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use trunkline_netlink::Handle;
use trunkline_trunk::Transport;

use super::Level::{Fault, Warning};
use super::{Examination, Level};
use crate::config::{Config, Endpoint, PeerConfig};
use crate::reverse_path;

/// How long a name, and an endpoint, has to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// RFC 8200 §5.
const MIN_MTU: u32 = 1280;

pub(super) fn examine(site: &Config, examination: &mut Examination) {
    for peer in &site.peers {
        let mut endpoints: Vec<&Endpoint> = Vec::new();
        for path in 0..peer.paths.len().max(1) as u8 {
            // What leaves by another address or mark than the machine's usual one is not tried from here.
            let is_usual = peer.path(path).is_none_or(|path| path.via == crate::config::Via::default());
            endpoints.extend(peer.endpoint_on(path).filter(|_| is_usual));
        }
        endpoints.dedup();
        for endpoint in endpoints {
            examine_endpoint(site, peer, endpoint, examination);
        }
    }
}

fn examine_endpoint(site: &Config, peer: &PeerConfig, endpoint: &Endpoint, examination: &mut Examination) {
    let addresses = match resolve(endpoint) {
        Ok(addresses) => addresses,
        Err(problem) => {
            let remedy = "correct endpoint, or the machine's resolver (/etc/resolv.conf)".to_owned();
            let problem = format!("{}: {endpoint}: {problem}", peer.name);
            return examination.look("name", Some((Fault, problem, remedy)));
        }
    };
    examination.look("name", None);
    let Some(address) = addresses.first().copied() else { return };
    if !route(peer, address, examination) {
        return;
    }
    if site.may_use_tcp() {
        tcp(peer, endpoint, &addresses, examination);
    }
    if site.may_use_quic() {
        let is_needed = site.trunk.groups.iter().any(|group| group.transport == Transport::Quic);
        let at_ports = addresses.iter().filter(|other| other.ip() == address.ip()).copied();
        quic(peer, endpoint, at_ports, is_needed, examination);
    }
}

/// The addresses of an endpoint, all at its first port before any at the next, or why there are none.
fn resolve(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, String> {
    let (sender, receiver) = mpsc::channel();
    let text = Endpoint { ports: endpoint.ports[..1].to_vec(), ..endpoint.clone() }.to_string();
    // The resolver has no limit of its own that one could set.
    thread::spawn(move || sender.send(text.to_socket_addrs().map(Iterator::collect::<Vec<_>>)));
    match receiver.recv_timeout(PATIENCE) {
        Ok(Ok(addresses)) => Ok(Endpoint::at_ports(&addresses, &endpoint.ports)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("its name was not resolved within {} s", PATIENCE.as_secs())),
    }
}

/// Whether this machine has a route to an address, and what is wrong with the way that it leads.
fn route(peer: &PeerConfig, address: SocketAddr, examination: &mut Examination) -> bool {
    let Ok(mut handle) = Handle::open() else { return true };
    let route = match handle.route_to(address.ip()) {
        Ok(route) => route,
        Err(error) => {
            let problem = format!("{}: this machine has no route to {}: {error}", peer.name, address.ip());
            let found = (Fault, problem, format!("ip route get {}", address.ip()));
            examination.look("route", Some(found));
            return false;
        }
    };
    examination.look("route", None);
    let inside = peer.routes.iter().find(|route| route.prefix_len() > 0 && route.contains(&address.ip()));
    examination.look(
        "endpoint",
        inside.map(|inside| {
            let problem = format!(
                "{}: the endpoint {} is in the peer's own route {inside}: the trunk's connections would go through the trunk",
                peer.name,
                address.ip()
            );
            (Warning, problem, "name the networks behind the peer, without its gateway's outer address".to_owned())
        }),
    );
    let Some(link) = route.device.and_then(|device| handle.link(device).ok()) else { return true };
    examination.look(
        "mtu",
        (link.mtu < MIN_MTU).then(|| {
            let problem = format!(
                "{}: packets leave by {}, whose MTU is {}: lanes over QUIC need {MIN_MTU}",
                peer.name, link.name, link.mtu
            );
            (Warning, problem, format!("ip link set {} mtu 1500, if its network carries that", link.name))
        }),
    );
    if peer.paths.len() > 1 && address.is_ipv4() {
        let problem = || {
            let what = "drops what comes back by another way than packets leave by";
            format!(
                "{}: {} has a strict rp_filter, which {what}; the peer has several paths",
                peer.name, link.name
            )
        };
        let remedy = || format!("sysctl -w net.ipv4.conf.{}.rp_filter=2", link.name);
        examination
            .look("rp-filter", reverse_path::is_strict(&link.name).then(|| (Warning, problem(), remedy())));
    }
    true
}

fn tcp(peer: &PeerConfig, endpoint: &Endpoint, addresses: &[SocketAddr], examination: &mut Examination) {
    let mut failed: Option<(Level, String, String)> = None;
    for address in addresses {
        let start = Instant::now();
        match TcpStream::connect_timeout(address, PATIENCE) {
            Ok(_) => {
                let took = start.elapsed().as_secs_f64() * 1e3;
                examination
                    .measured
                    .push(format!("{}: {address} answers over TCP after {took:.1} ms", peer.name));
                return examination.look("tcp", None);
            }
            Err(error) => {
                let (what, remedy) = match error.kind() {
                    io::ErrorKind::ConnectionRefused => (
                        "refuses connections: no gateway listens there, or a firewall rejects them"
                            .to_owned(),
                        "start the gateway there (trunkline doctor there), and open the port",
                    ),
                    io::ErrorKind::TimedOut => (
                        format!("does not answer over TCP within {} s", PATIENCE.as_secs()),
                        "open the port in the firewalls and NATs before it; check the address",
                    ),
                    _ => (
                        format!("cannot be reached over TCP: {error}"),
                        "check the address and this machine's routes",
                    ),
                };
                failed =
                    Some((Fault, format!("{}: {endpoint} ({address}) {what}", peer.name), remedy.to_owned()));
            }
        }
    }
    examination.look("tcp", failed);
}

/// Whether something speaks QUIC at one of these: a packet of an unknown version is answered with those that are known
/// (RFC 9000 §6.1).
fn quic(
    peer: &PeerConfig,
    endpoint: &Endpoint,
    addresses: impl Iterator<Item = SocketAddr>,
    is_needed: bool,
    examination: &mut Examination,
) {
    for address in addresses {
        let start = Instant::now();
        if matches!(negotiate(address), Ok(true)) {
            let took = start.elapsed().as_secs_f64() * 1e3;
            examination
                .measured
                .push(format!("{}: {address} answers over QUIC after {took:.1} ms", peer.name));
            return examination.look("quic", None);
        }
    }
    let (level, cost) = if is_needed {
        (Fault, "lanes over QUIC do not come up")
    } else {
        (Warning, "lanes of transport \"auto\" go over TCP")
    };
    let problem = format!("{}: {endpoint} does not answer over UDP: {cost}", peer.name);
    let remedy = "open the UDP port of the same number in the firewalls and NATs before it".to_owned();
    examination.look("quic", Some((level, problem, remedy)));
}

/// Sends a packet of a version that nobody has, and waits for the answer to it.
fn negotiate(address: SocketAddr) -> io::Result<bool> {
    const ID: [u8; 8] = *b"trunklin";
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE / 3))?;
    // A long header, a version of those kept for this (RFC 9000 §15), two connection ids; as long as a first packet must be.
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, ID.len() as u8];
    packet.extend(ID);
    packet.push(ID.len() as u8);
    packet.extend(ID);
    packet.resize(1200, 0);
    let mut answer = [0; 1500];
    for _ in 0..3 {
        socket.send(&packet)?;
        match socket.recv(&mut answer) {
            Ok(length) => {
                return Ok(length > 5 && answer[0] & 0x80 != 0 && answer[1..5] == [0; 4]);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
