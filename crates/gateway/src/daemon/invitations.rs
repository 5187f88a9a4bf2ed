//! Invitations: opened by a command that waits on the control socket, used by a site that dials.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::event::epoll;
use trunkline_service::{Client, NextStep, Response};
use trunkline_status::{Answer, Joining};
use trunkline_units::Instant;

use super::connection::Phase;
use super::{Daemon, Source};
use crate::clock::now;
use crate::config::PeerConfig;
use crate::handshake::{Handshake, HandshakeError, Join, RefusalReason};
use crate::join::{Due, LONGEST, UNANSWERED, Verdict};
use crate::keys::PublicKey;

/// The time limit of a connection whose site waits for the decision; longer than the decision may take.
pub(super) const JOIN_TIMEOUT: Duration = Duration::from_secs(20);
/// The time limit for an answer that does not fit into the socket at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl Daemon {
    /// Opens an invitation for the command behind `token`, which waits for the answer.
    pub(super) fn open_invitation(&mut self, token: u64, key: &str, seconds: u32) -> Result<(), String> {
        let key: PublicKey = key.parse().map_err(|error| format!("key: {error}"))?;
        let time = Duration::from_secs(seconds.into());
        if time.is_zero() || time > LONGEST {
            return Err(format!("seconds: {seconds}; allowed: 1 to {}", LONGEST.as_secs()));
        }
        if self.config.listen.is_empty() {
            return Err("this site has no `listen`, so no site can dial it".to_owned());
        }
        self.invitations.open(key, token, now() + time)?;
        self.admit_keys();
        tracing::info!("{}: an invitation is open for {seconds} s", self.site_label());
        Ok(())
    }

    /// The connection of a command that waits has an event: it has ended, or says what has no place here.
    pub(super) fn handle_waiting_event(&mut self, token: u64, mut client: Box<Client>) -> Option<Source> {
        if client.read() == NextStep::Read {
            return Some(Source::Waiting(client));
        }
        if self.invitations.handle_client_gone(token) {
            tracing::info!("{}: the command that has opened an invitation has ended", self.site_label());
        }
        None
    }

    /// Looks which commands have ended whose event has not come yet: an invitation does not outlive its command.
    fn forget_ended_commands(&mut self) {
        let waiting = self.sources.iter().filter(|(_, source)| matches!(source, Source::Waiting(_)));
        let waiting: Vec<u64> = waiting.map(|(token, _)| *token).collect();
        for token in waiting {
            if let Some(Source::Waiting(client)) = self.sources.remove(&token)
                && let Some(source) = self.handle_waiting_event(token, client)
            {
                self.sources.insert(token, source);
            }
        }
    }

    fn answer_waiting(&mut self, token: u64, answer: &Answer) {
        let Some(Source::Waiting(mut client)) = self.sources.remove(&token) else { return };
        let line = serde_json::to_string(answer).unwrap_or_default();
        if client.respond(Response::Line(line)) == NextStep::Write {
            client.deadline = now() + ANSWER_TIMEOUT;
            self.deadlines.insert((client.deadline, token));
            self.rearm(token, client.stream.as_fd(), epoll::EventFlags::OUT);
            self.sources.insert(token, Source::Client(client));
        }
    }

    /// A site has come with an invitation. Whether it waits for a decision.
    pub(super) fn answer_join(
        &mut self,
        token: u64,
        handshake: &mut Handshake<TcpStream>,
        join: Join,
        invitation: &PublicKey,
        from: SocketAddr,
    ) -> Result<bool, HandshakeError> {
        self.forget_ended_commands();
        let is_peer = is_among(&self.config.peers);
        match self.invitations.handle_join(now(), invitation, &join, token, is_peer) {
            Verdict::Ask { client } => {
                tracing::info!("{}: {} at {from} comes with an invitation", self.site_label(), join.name);
                let Join { key, name, prefixes } = join;
                let joining = Joining { name, key: key.to_string(), prefixes, from };
                self.answer_waiting(client, &Answer::Joining(joining));
                Ok(true)
            }
            Verdict::Wait => Ok(true),
            Verdict::Joined => handshake.joined().map(|()| false),
            Verdict::Refuse(why) => {
                tracing::info!("{}: the invitation of {from} is refused: {why}", self.site_label());
                handshake.refuse(RefusalReason::Invitation, &why).map(|()| false)
            }
        }
    }

    /// The command that has opened the invitation decides against the site that has come.
    pub(super) fn decline_join(&mut self, key: &str, reason: &str) -> Answer {
        let key = key.parse::<PublicKey>().ok();
        let Some(connection) = key.and_then(|key| self.invitations.handle_declined(&key)) else {
            return Answer::Refused { message: "no site waits with this invitation".to_owned() };
        };
        tracing::info!("{}: the site that has come is declined: {reason}", self.site_label());
        self.decide_join(connection, Err(reason));
        Answer::Done { message: "declined".to_owned() }
    }

    /// The file has been read again: sites that wait and are peers now are told so.
    pub(super) fn answer_joined(&mut self) {
        for connection in self.invitations.handle_reloaded(is_among(&self.config.peers)) {
            self.decide_join(connection, Ok(()));
        }
    }

    fn decide_join(&mut self, token: u64, decision: Result<(), &str>) {
        let Some(Source::Connection(mut connection)) = self.sources.remove(&token) else { return };
        let Phase::Joining(mut handshake) = std::mem::replace(&mut connection.phase, Phase::Over) else {
            return self.half_open.remove(token);
        };
        let decided = match decision {
            Ok(()) => handshake.joined(),
            Err(why) => handshake.refuse(RefusalReason::Invitation, why),
        };
        match decided {
            Ok(()) => {
                connection.phase = Phase::Handshake(handshake);
                self.handle_connection_event(token, connection);
            }
            Err(error) => {
                self.half_open.remove(token);
                tracing::debug!("{}: {error}", connection.remote);
            }
        }
    }

    pub(super) fn handle_invitation_deadlines(&mut self, now: Instant) -> Option<Instant> {
        while let Some(due) = self.invitations.poll_due(now) {
            match due {
                Due::Expired { client } => {
                    let message = "the invitation has expired; nobody has joined".to_owned();
                    self.answer_waiting(client, &Answer::Refused { message });
                }
                Due::Unanswered { connection } => self.decide_join(connection, Err(UNANSWERED)),
            }
        }
        self.invitations.poll_timeout()
    }
}

/// Whether a key is one of these peers'.
fn is_among(peers: &[PeerConfig]) -> impl Fn(&PublicKey) -> bool {
    |key| peers.iter().any(|peer| peer.public_key == *key)
}
