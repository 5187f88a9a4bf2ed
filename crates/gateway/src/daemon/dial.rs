//! Dials: they look up the address of a peer, connect, and report failures.

use std::net::{SocketAddr, SocketAddrV6};

use trunkline_trunk::Transport;
use trunkline_units::Instant;

use super::connection::{Connection, Dialled, SocketOptions};
use super::names::{NameEvent, Target};
use super::race::{Begun, Purpose};
use super::resolver::Answered;
use super::{Daemon, Source, Told};
use crate::clock::now;
use crate::config::{Endpoint, Host, Zone};
use crate::handshake::{Dialer, Hello, VERSION};
use crate::life::{Attempt, Dial, DialCandidate, Failure, LaneKey, PathKey};

impl Daemon {
    pub(super) fn dial(&mut self, dial: Dial) {
        let Dial { attempt, key, connect_timeout } = dial;
        let now = now();
        let path = key.path_key();
        let remotes = self.addresses_of(path, now);
        if remotes.is_empty() {
            return self.life.handle_no_address(now, attempt);
        }
        let transports = match self.group_config(&key.lane_group).map(|group| group.transport) {
            Some(Transport::Auto) => self.auto.transports.order(path),
            Some(Transport::Quic) => &[Transport::Quic],
            Some(Transport::Tcp) | None => &[Transport::Tcp],
        };
        let max_segment = self.segment_bound(path);
        let candidates = remotes.iter().flat_map(|remote| {
            let candidate = |transport: &Transport| (*remote, *transport);
            transports.iter().map(candidate)
        });
        let candidates =
            candidates.map(|(remote, transport)| DialCandidate { remote, transport, max_segment }).collect();
        self.begin_race(&key, Purpose::Attempt(attempt), connect_timeout, candidates);
    }

    /// Begins a connection.
    pub(super) fn connect(
        &mut self,
        dialled: &Dialled,
        candidate: DialCandidate,
        deadline: Instant,
    ) -> Result<Begun, String> {
        let DialCandidate { remote, transport, max_segment } = candidate;
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let key = &dialled.key;
        let peer = self.peer_config(&key.peer).ok_or("no such peer")?;
        let group = self.group_config(&key.lane_group).ok_or("no such lane group")?;
        let hello = Hello {
            version: VERSION,
            encryption: peer.encryption,
            lane: self.lane_on_wire(key),
            instance: self.instance,
            lane_group: key.lane_group.to_string(),
        };
        if transport == Transport::Quic {
            let timeout = deadline.saturating_since(now());
            return self.dial_quic(dialled, hello, remote, timeout).map_err(|error| text(&error));
        }
        let options = SocketOptions {
            congestion_control: Some(group.congestion_control.initial()),
            dscp: group.dscp,
            max_segment,
            via: self.via_of(&key.path_key()),
        };
        let dialer = Dialer::new(&self.identity, key.peer).map_err(|error| text(&error))?;
        let connection = Connection::dial((dialer, hello), dialled.clone(), remote, &options, deadline)
            .map_err(|error| text(&error))?;
        let token = self.add(Source::Connection(Box::new(connection))).map_err(|error| text(&error))?;
        Ok(Begun::Tcp(token))
    }

    /// Handles a failed dial. The log has each reason once for all lanes of a peer; repetitions are at debug level.
    pub(super) fn dial_failed(&mut self, key: &LaneKey, attempt: Attempt, failure: Failure, reason: &str) {
        let Some(retry) = self.life.handle_dial_failed(now(), attempt, failure, reason) else {
            return;
        };
        let label = match failure {
            Failure::Path => format!("peer {}", self.path_label(&key.path_key())),
            Failure::Lane => self.label(key),
        };
        let line = format!("{label}: {reason}; dialling again in {:.1?}", retry.wait);
        if retry.first_report {
            self.log_of_lane(key.peer, Told::Dial, &line);
        } else {
            tracing::debug!("{line}");
        }
    }

    /// The addresses to dial on a path; none if it has no endpoint, or its name is not resolved yet.
    fn addresses_of(&mut self, path: PathKey, now: Instant) -> Vec<SocketAddr> {
        let peer = self.peer_config(&path.peer);
        let Some(endpoint) = peer.and_then(|peer| peer.endpoint_on(path.path)).cloned() else {
            return Vec::new();
        };
        if let Host::LinkLocal(address, zone) = endpoint.host {
            // The interface may appear later, and with another index each time.
            let scope = match zone {
                Zone::Index(index) => Some(index),
                Zone::Name(name) => self.device.link_index(&name),
            };
            let scoped = scope.map(|scope| SocketAddrV6::new(address, 0, 0, scope).into());
            return Endpoint::at_ports(scoped.as_slice(), &endpoint.ports);
        }
        let addresses = self.names.addresses(now, path);
        self.look_up_names(now);
        addresses
    }

    /// Applies the names and addresses of the configured endpoints.
    pub(super) fn apply_endpoints(&mut self) {
        let targets = self.endpoints().filter_map(|(path, endpoint)| {
            let host = match &endpoint.host {
                Host::Name(name) => name.clone(),
                Host::Address(address) => address.to_string(),
                Host::LinkLocal(..) => return None,
            };
            Some((path, Target { host, ports: endpoint.ports.clone() }))
        });
        let targets = targets.collect();
        self.names.set_targets(now(), targets);
        self.update_known_endpoints();
    }

    /// The endpoint of each path to each peer that has one.
    fn endpoints(&self) -> impl Iterator<Item = (PathKey, &Endpoint)> {
        self.config.peers.iter().flat_map(|peer| {
            let paths = 0..peer.paths.len().max(1) as u8;
            let key = |path| PathKey { peer: peer.public_key, path };
            paths.filter_map(move |path| Some((key(path), peer.endpoint_on(path)?)))
        })
    }

    fn update_known_endpoints(&mut self) {
        let link_local = self.endpoints().filter_map(|(_, endpoint)| match endpoint.host {
            Host::LinkLocal(address, _) => Some(address.into()),
            Host::Address(_) | Host::Name(_) => None,
        });
        self.known.set_endpoints(link_local.chain(self.names.all_addresses().map(|address| address.ip())));
    }

    /// Starts the look-ups that are due, and ends those that exceed their time limit.
    pub(super) fn look_up_names(&mut self, now: Instant) {
        while let Some(news) = self.names.poll_timed_out(now) {
            self.handle_name_event(now, news);
        }
        while let Some(look_up) = self.names.poll_look_up(now) {
            self.resolver.look_up(look_up);
        }
    }

    pub(super) fn handle_resolved_names(&mut self) {
        let now = now();
        for Answered { number, answer } in self.resolver.answers.take() {
            if let Some(news) = self.names.handle_answer(now, number, answer) {
                self.handle_name_event(now, news);
            }
        }
    }

    fn handle_name_event(&mut self, now: Instant, news: NameEvent) {
        match news {
            NameEvent::Resolved(path) => {
                self.update_known_endpoints();
                self.life.handle_resolved(now, path);
            }
            NameEvent::Failed(path, reason) => {
                if self.life.handle_unresolved(path, &reason) {
                    tracing::warn!("peer {}: {reason}", self.path_label(&path));
                }
            }
        }
    }
}
