//! What other programs do to the proxy, and what hosts do to it and to the trunk.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};
use trunkline_netlink::{Family, PacketFilter};

use super::hosts::{LAN, NOWHERE};
use super::step::{Abuse, Damage, Site};
use super::traffic;
use super::world::{World, text};
use crate::common::proxy::{forge_syn, raw_socket};

const DEVICE: &str = "tl-proxy";
/// `protocol` of the proxy's rules.
const PROTOCOL: u8 = 112;
const TABLE: &str = "trunkline-proxy";

impl World {
    /// What is not there cannot be removed: the proxy may be restoring it.
    pub(crate) fn damage_proxy(&self, damage: Damage) -> Result<(), String> {
        let hub = self.hosts.host(Site::Hub);
        match damage {
            Damage::Device | Damage::Routes => hub.netlink(|handle| {
                if !handle.link_exists(DEVICE)? {
                    return Ok(());
                }
                let device = handle.link_index(DEVICE)?;
                if damage == Damage::Device {
                    return handle.delete_link(device);
                }
                handle.set_down(device)?;
                handle.set_up(device)
            }),
            Damage::Rules => hub.netlink(|handle| {
                for family in Family::BOTH {
                    for rule in handle.rules(family)?.into_iter().filter(|rule| rule.protocol == PROTOCOL) {
                        handle.delete_rule(&rule)?;
                    }
                }
                Ok(())
            }),
            Damage::Table => {
                // The table of a proxy that fails open is its socket's own, and stays.
                let _ = hub.run(|| PacketFilter::open()?.delete(TABLE));
                Ok(())
            }
        }
        .map_err(text)
    }

    pub(crate) fn abuse(&mut self, abuse: Abuse) -> Result<(), String> {
        match abuse {
            Abuse::Unread(count) => self.unread(count),
            Abuse::Syns(count) => {
                let socket = raw_socket(&self.hosts.lan);
                for number in 0..u16::from(count) * 50 {
                    let from = SocketAddr::from((LAN, 1024 + number));
                    forge_syn(&socket, from, SocketAddr::from((NOWHERE, 80)), number.into());
                }
                Ok(())
            }
            Abuse::Datagrams(from, to, count) => {
                let socket = self.hosts.host(from).run(|| UdpSocket::bind("0.0.0.0:0")).map_err(text)?;
                for _ in 0..u32::from(count) * 100 {
                    // Nobody listens, and there may be no route.
                    let _ = socket.send_to(&[0; 1400], (traffic::address(to), 9));
                }
                Ok(())
            }
        }
    }

    /// Connections from the host behind the proxy to B, which B fills: little each, so that they are not the reason why others have less.
    fn unread(&mut self, count: u8) -> Result<(), String> {
        let b = self.hosts.host(Site::B).clone();
        let listener = b.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).map_err(text)?;
        listener.set_nonblocking(true).map_err(text)?;
        let address = SocketAddr::new(traffic::address(Site::B), listener.local_addr().map_err(text)?.port());
        for _ in 0..count {
            // There may be no path to B.
            let Ok(near) = self.hosts.lan.run(|| connect(address)) else { break };
            self.held.tcp.push(near);
        }
        while let Ok((mut far, _)) = listener.accept() {
            far.set_nonblocking(true).map_err(text)?;
            let _ = far.write(&vec![7; 65_536]);
            self.held.tcp.push(far);
        }
        Ok(())
    }
}

/// A connection with little room at this end.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&socket, 4096)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(Duration::from_millis(300)))?;
    rustix::net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}
