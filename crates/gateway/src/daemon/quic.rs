//! Lanes over QUIC, as [`crate::life::Life`] decides. The workers have their connections and sockets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use trunkline_schema::Encryption;
use trunkline_trunk::{Delivery, LaneGroup, Transport};

use super::accept::request;
use super::connection::Dialled;
use super::race::Begun;
use super::{Daemon, DaemonError, LaneSocket, Told, warn};
use crate::clock::now;
use crate::config::Config;
use crate::handshake::{HandshakeError, Hello, Refusal, RefusalReason};
use crate::keys::PublicKey;
use crate::life::{Candidate, Failure, Installed, LaneKey, PathKey, Serial};
use crate::quic::{Acceptor, Answer, Control, Dial, Dialer, Event, Options};
use crate::sys;
use crate::worker::{Command, Place, QuicCommand};

/// What the control thread knows of connections over QUIC that are no lanes, and of the sockets that callers come by.
#[derive(Default)]
pub(super) struct QuicState {
    dials: BTreeMap<Serial, Dialling>,
    /// Whether the workers have sockets for callers.
    listens: bool,
}

/// A dial that a worker makes.
struct Dialling {
    dialled: Dialled,
    remote: SocketAddr,
    delivery: Delivery,
}

/// For each listening address, the sockets of the workers in their order.
pub(super) type Listeners = Vec<Vec<OwnedFd>>;

/// Opens the sockets that callers come by, if a lane group rides on QUIC.
pub(super) fn open_listeners(config: &Config) -> Result<Listeners, DaemonError> {
    if !config.may_use_quic() {
        return Ok(Vec::new());
    }
    let open = |address: &SocketAddr| {
        let shards = config.tun.queues;
        let sockets: std::io::Result<Vec<OwnedFd>> =
            (0..shards).map(|_| sys::udp::open(*address, config.fwmark, true)).collect();
        let sockets = sockets?;
        if let Some(first) = sockets.first() {
            sys::udp::steer(first.as_fd(), shards)?;
        }
        Ok(sockets)
    };
    let listen = |address| {
        open(address).map_err(|source| DaemonError::Listen { address: format!("{address} (UDP)"), source })
    };
    config.listen.iter().map(listen).collect()
}

impl Daemon {
    fn tell(&self, shard: usize, command: QuicCommand) {
        self.workers.shards[shard].commands.post(Command::Quic(Box::new(command)));
    }

    /// Gives the workers their sockets.
    pub(super) fn listen_quic(&mut self, listeners: Listeners) {
        for sockets in listeners {
            self.quic.listens = true;
            for (shard, socket) in sockets.into_iter().enumerate() {
                self.tell(shard, QuicCommand::Listen(socket));
            }
        }
    }

    /// Gives the workers what they accept callers with.
    pub(super) fn accept_quic(&self) {
        for shard in 0..self.workers.shards.len() {
            match Acceptor::new(&self.identity, super::reload::admit(&self.admitted)) {
                Ok(acceptor) => self.tell(shard, QuicCommand::Accept(acceptor, self.known.clone())),
                Err(error) => tracing::error!("lanes over QUIC cannot be accepted: {error}"),
            }
        }
    }

    /// Applies a configuration: its first lane group over QUIC needs sockets, and lanes that ride on another transport from
    /// now on end.
    pub(super) fn apply_quic(&mut self) {
        let changed = self.life.up().filter(|(serial, key)| {
            let ours = self.group_config(&key.lane_group).map(|group| group.transport);
            ours.is_some_and(|ours| ours != Transport::Auto && Some(ours) != self.transport_of(*serial))
        });
        let changed: Vec<Serial> = changed.map(|(serial, _)| serial).collect();
        for serial in changed {
            self.end_lane(serial, "the transport of its lane group was changed");
        }
        let changed = self.life.up().filter(|(serial, key)| {
            let ours = self.group_config(&key.lane_group).map(|group| group.delivery);
            let delivery = self.lane_sockets.get(serial).and_then(|socket| socket.delivery);
            delivery.is_some() && ours.is_some() && delivery != ours
        });
        let changed: Vec<Serial> = changed.map(|(serial, _)| serial).collect();
        for serial in changed {
            self.end_lane(serial, "the delivery of its lane group was changed");
        }
        for shard in 0..self.workers.shards.len() {
            self.tell(shard, QuicCommand::Mark(self.config.fwmark));
            self.tell(shard, QuicCommand::Keepalive(self.config.keepalive));
        }
        if self.config.may_use_quic() && !self.quic.listens {
            match open_listeners(&self.config) {
                Ok(listeners) => self.listen_quic(listeners),
                Err(error) => tracing::error!("{error}; callers over QUIC need a restart"),
            }
        }
    }

    /// Addresses or routes of this machine have changed: lanes that it dialled go on from another address.
    pub(super) fn quic_network_changed(&self) {
        if self.lane_sockets.values().any(|socket| socket.fd.is_none()) {
            for shard in 0..self.workers.shards.len() {
                self.tell(shard, QuicCommand::NetworkChanged);
            }
        }
    }

    /// Lanes over QUIC, on one path or all, may be dead: has them prove that they are not.
    pub(super) fn prove_quic(&self, path: Option<PathKey>) {
        let lanes = self.life.up().filter(|(_, key)| path.is_none_or(|path| key.path_key() == path));
        for (serial, key) in lanes.filter(|(serial, _)| self.transport_of(*serial) == Some(Transport::Quic)) {
            self.tell(usize::from(key.shard), QuicCommand::Prove { serial });
        }
    }

    /// Ends the dials, since the key with which they were made is no longer ours.
    pub(super) fn end_quic_dials(&mut self, reason: &str) {
        for (serial, Dialling { dialled, .. }) in std::mem::take(&mut self.quic.dials) {
            self.close_lane(dialled.key.shard, serial);
            self.candidate_failed(&dialled, Failure::Lane, reason);
        }
    }

    /// Gives a dial up.
    pub(super) fn end_quic_dial(&mut self, serial: Serial, shard: u16) {
        if self.quic.dials.remove(&serial).is_some() {
            self.close_lane(shard, serial);
        }
    }

    /// Has the worker of a lane dial it.
    pub(super) fn dial_quic(
        &mut self,
        dialled: &Dialled,
        hello: Hello,
        remote: SocketAddr,
        timeout: Duration,
    ) -> Result<Begun, HandshakeError> {
        let key = &dialled.key;
        let Some(options) = self.group_config(&key.lane_group).map(|group| self.options(group)) else {
            return Err(HandshakeError::Over);
        };
        let dialer = Dialer::new(&self.identity, key.peer, options.delivery)?;
        let serial = self.life.next_serial();
        let dialling = Dialling { dialled: dialled.clone(), remote, delivery: options.delivery };
        self.quic.dials.insert(serial, dialling);
        let via = self.own_via_of(&key.path_key());
        let dial = Dial { serial, remote, via, dialer, hello, timeout, options };
        self.tell(usize::from(key.shard), QuicCommand::Dial(dial));
        Ok(Begun::Quic(serial, key.shard))
    }

    pub(super) fn handle_quic_event(&mut self, shard: u16, event: Event) {
        match event {
            Event::Welcomed { serial, hello } => self.handle_welcomed(serial, &hello),
            Event::DialFailed { serial, failure, reason } => {
                if let Some(Dialling { dialled, remote, .. }) = self.quic.dials.remove(&serial) {
                    let reason = match failure {
                        Failure::Path => format!("cannot connect to {remote} (UDP): {reason}"),
                        Failure::Lane => format!("{remote} (UDP): {reason}"),
                    };
                    self.candidate_failed(&dialled, failure, &reason);
                }
            }
            Event::Asked { number, peer, hello, delivery, remote } => {
                self.callers.accepted += 1;
                let (answer, place) = match self.admit_quic(shard, peer, (&hello, delivery), remote) {
                    Ok((serial, key, options)) => {
                        let hello = Hello { instance: self.instance, ..hello };
                        (Answer::Welcome { serial, hello, options }, Some(place(&key)))
                    }
                    Err(refusal) => (Answer::Refuse(refusal), None),
                };
                self.tell(usize::from(shard), QuicCommand::Answer { number, answer, place });
            }
            Event::Failing { serial, reason } => self.handle_failing(serial, reason),
            Event::Recovered { serial } => self.handle_recovered(serial),
            Event::Moved { serial, remote } => {
                if let Some(socket) = self.lane_sockets.get_mut(&serial) {
                    tracing::debug!("lane {serial}: {} is at {remote} now", socket.remote);
                    socket.remote = remote;
                }
            }
            Event::CallerEvicted { remote, reason } => {
                self.callers.accepted += 1;
                self.handle_evicted(remote, reason);
            }
            Event::CallerFailed { remote, key, reason } => {
                self.callers.accepted += 1;
                match key {
                    Some(_) => self.callers.unknown_key += 1,
                    None => self.callers.failed += 1,
                }
                let reason = key.map_or(reason, |key| HandshakeError::UnknownKey { key }.to_string());
                warn(self.rejections.handle_failed(now(), remote, key, &reason));
            }
        }
    }

    fn handle_welcomed(&mut self, serial: Serial, hello: &Hello) {
        let Some(Dialling { dialled, remote, delivery }) = self.quic.dials.remove(&serial) else { return };
        let now = now();
        let attempt = self.attempt_of(&dialled);
        if let Some(attempt) = attempt {
            self.life.handle_connected(now, attempt);
        }
        let key = dialled.key.clone();
        let candidate = Candidate {
            key: key.clone(),
            serial,
            attempt,
            dialled: true,
            instance: hello.instance,
            encryption: Encryption::Tls,
        };
        let is_wanted = self.group_config(&key.lane_group).is_some_and(|group| group.delivery == delivery);
        let installed = is_wanted.then(|| self.life.handle_up(now, candidate).ok()).flatten();
        let Some(installed) = installed else {
            self.close_lane(key.shard, serial);
            return self.candidate_not_wanted(&dialled);
        };
        self.quic_lane_up(&key, serial, installed, (remote, delivery));
        self.tell(usize::from(key.shard), QuicCommand::Install { serial, place: place(&key) });
        let line = format!("{}: up, dialled {remote} over QUIC", self.label(&key));
        self.log_of_lane(key.peer, Told::Up, &line);
        self.candidate_up(&dialled);
    }

    /// Decides about a caller that has proved the key of a peer.
    fn admit_quic(
        &mut self,
        shard: u16,
        peer: PublicKey,
        (hello, delivery): (&Hello, Delivery),
        remote: SocketAddr,
    ) -> Result<(Serial, LaneKey, Options), Refusal> {
        let now = now();
        self.learn_path(now, peer, hello);
        let found = self.life.find_lane(now, request(hello, peer));
        let key = found.map_err(|declined| self.refusal(declined, hello, peer))?;
        self.check_transport(&key, Transport::Quic)?;
        self.check_quota(&key)?;
        self.check_delivery(&key, delivery)?;
        self.check_crossing(&key, hello)?;
        if key.shard != shard {
            // The kernel led it to another worker than its first packet asked for.
            let text = format!("lane {} belongs to worker {}, not {shard}", hello.lane, key.shard);
            return Err(Refusal { reason: RefusalReason::UnknownLane, text });
        }
        let gone = || Refusal { reason: RefusalReason::NotWanted, text: "no longer configured".to_owned() };
        let options = self.group_config(&key.lane_group).map(|group| self.options(group)).ok_or_else(gone)?;
        let serial = self.life.next_serial();
        let candidate = Candidate {
            key: key.clone(),
            serial,
            attempt: None,
            dialled: false,
            instance: hello.instance,
            encryption: hello.encryption,
        };
        let installed = self.life.handle_up(now, candidate).map_err(|_| gone())?;
        self.quic_lane_up(&key, serial, installed, (remote, delivery));
        let line = format!("{}: up, accepted from {remote} over QUIC", self.label(&key));
        self.log_of_lane(peer, Told::Up, &line);
        Ok((serial, key, options))
    }

    /// Notes a lane's new connection, and ends the one before.
    fn quic_lane_up(
        &mut self,
        key: &LaneKey,
        serial: Serial,
        installed: Installed,
        (remote, delivery): (SocketAddr, Delivery),
    ) {
        match installed.replaced {
            Some(old) if self.transport_of(old) == Some(Transport::Tcp) => self.retire_lane(key.shard, old),
            Some(old) => self.close_lane(key.shard, old),
            None => {}
        }
        let (path, delivery) = (key.path_key(), Some(delivery));
        self.lane_sockets
            .insert(serial, LaneSocket { path, fd: None, local: None, remote, delivery, max_segment: None });
        self.known.handle_lane(key.peer, remote.ip());
    }

    /// Refuses a request for a lane that rides on something else here.
    pub(super) fn check_transport(&mut self, key: &LaneKey, asked: Transport) -> Result<(), Refusal> {
        let ours = self.group_config(&key.lane_group).map_or(asked, |group| group.transport);
        if ours == asked || ours == Transport::Auto {
            return Ok(());
        }
        let text = format!("transport of lane group {} is {ours} here, and {asked} there", key.lane_group);
        self.warn_of_request(key.peer, &text);
        Err(Refusal { reason: RefusalReason::TransportMismatch, text })
    }

    /// Refuses a request for a lane that delivers in another way here.
    fn check_delivery(&mut self, key: &LaneKey, asked: Delivery) -> Result<(), Refusal> {
        let ours = self.group_config(&key.lane_group).map_or(asked, |group| group.delivery);
        if ours == asked {
            return Ok(());
        }
        let text = format!("delivery of lane group {} is {ours} here, and {asked} there", key.lane_group);
        self.warn_of_request(key.peer, &text);
        Err(Refusal { reason: RefusalReason::TransportMismatch, text })
    }

    /// What a lane group asks of its connections.
    fn options(&self, group: &LaneGroup) -> Options {
        Options {
            dscp: group.dscp,
            control: Control::of(&group.congestion_control),
            delivery: group.delivery,
            seed: self.seed,
        }
    }
}

fn place(key: &LaneKey) -> Place {
    Place { peer: key.peer, path: key.path, group: Arc::clone(&key.lane_group), index: key.index }
}
