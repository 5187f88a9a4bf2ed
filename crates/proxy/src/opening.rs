//! Connections from their SYN to their end: what the proxy does with a SYN.
//!
//! A SYN waits while the proxy connects to the server as the client. Once the server has accepted, the SYN goes to the kernel, which answers
//! it; a retransmission then means that the answer was lost, and goes there too.
//!
//! A SYN proves nothing: its source may be forged, and nobody may be there to confirm. So what one costs is bounded:
//!
//! - An opening lasts as long as its client asks. A SYN that is not retransmitted is forgotten after `MIN_ASKING`.
//! - A server that has accepted waits for the client for `MAX_CONFIRMING` and, while many wait, for `MIN_CONFIRMING`.
//! - If all places of openings are taken, the source with most of them loses its oldest ([`Shares`]). Its client is told nothing and asks
//!   again.
//!
//! A SYN for a connection that is being opened, with another sequence number, is dropped: anybody can forge one. If the number is that of
//! the proxy's own socket, it is the proxy's own, and has come back by a route that leads through the proxy again. The connection is
//! refused then, since the server is never reached.
//!
//! A SYN with another sequence number for a connection that is open begins it anew. Most often the old one is over, and the news has not
//! come yet: the SYN is dropped, since the kernel would accept it without anybody having asked the server. If the old one is still there
//! when the SYN is retransmitted, the client has forgotten it; the kernel gets the SYN, and finds that out (RFC 9293 §3.10.7.4).
//!
//! The owner has sockets and clock. `now` does not go backwards.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use trunkline_units::{Instant, Shares, source};

use crate::syn::{Connection, Syn};

/// What becomes of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynAction {
    /// Keep it, and connect to the server.
    Connect {
        /// End this opening, which gives way.
        instead_of: Option<Connection>,
    },
    /// Drop it: its connection is being opened, or the one before it may be over in a moment.
    Wait,
    /// Give it to the kernel.
    Deliver,
    /// There is no place for its connection.
    Full,
    /// Drop it, end the opening, and tell the client: it has come back to the proxy.
    Loop,
}

/// Who has taken too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The server has not answered while the client asked.
    Server,
    /// The client has not confirmed.
    Client,
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections, those that are being opened included.
    pub connections: usize,
    /// Connections that are being opened.
    pub opening: usize,
}

/// The longest time for a server to answer: longer than a client asks (RFC 9293 §3.8.3 wants at least three minutes of it; Linux gives up
/// after two).
const MAX_ASKING: Duration = Duration::from_secs(180);
/// For how long a client may be silent: time for a retransmission after the first time-out of RFC 1122 (3 s), and for another.
const MIN_ASKING: Duration = Duration::from_secs(10);
/// Time-outs double: a client whose SYN came after 3 s sends the next after 7 and 15 s, of which one may be lost.
const ASKING_FACTOR: u32 = 6;
/// For how long a client may take to confirm its handshake: the kernel answers it after 0, 1, 3 and 7 s.
const MAX_CONFIRMING: Duration = Duration::from_secs(8);
/// The same while more than a part of all places wait for a client: a round trip, or two answers on a short one.
const MIN_CONFIRMING: Duration = Duration::from_secs(2);
const CONFIRMING_PART: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The server has been asked.
    Connecting { since: Instant, until: Instant },
    /// The server has accepted, and the kernel has the SYN.
    Accepting { since: Instant },
    Open {
        /// The sequence number of a SYN that begins it anew.
        anew: Option<u32>,
    },
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    isn: u32,
    stage: Stage,
}

/// All connections of a proxy.
#[derive(Debug)]
pub struct Openings {
    limits: Limits,
    entries: HashMap<Connection, Entry>,
    /// Those that are being opened, by client.
    places: Shares<IpAddr, Connection>,
    /// Those whose server has been asked, by the end of the client's patience.
    asking: BTreeSet<(Instant, Connection)>,
    /// Those whose server has accepted, and since when.
    confirming: BTreeSet<(Instant, Connection)>,
}

impl Openings {
    /// Without connections.
    pub fn new(limits: Limits) -> Self {
        Openings {
            limits,
            entries: HashMap::new(),
            places: Shares::default(),
            asking: BTreeSet::new(),
            confirming: BTreeSet::new(),
        }
    }

    /// Connections, those that are being opened included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Connections that are being opened.
    pub fn opening(&self) -> usize {
        self.places.len()
    }

    /// Judges a SYN. `own_isn` is the sequence number of the proxy's own SYN to the server, if it is known; it is asked for only where a
    /// connection is being opened by another SYN.
    pub fn handle_syn(
        &mut self,
        now: Instant,
        syn: &Syn,
        own_isn: impl FnOnce() -> Option<u32>,
    ) -> SynAction {
        let connection = syn.connection;
        let Some(entry) = self.entries.get_mut(&connection) else { return self.admit(now, syn) };
        let is_same = entry.isn == syn.isn;
        match &mut entry.stage {
            Stage::Connecting { since, .. } if is_same => {
                let since = *since;
                let patience = (now.saturating_since(since) * ASKING_FACTOR).clamp(MIN_ASKING, MAX_ASKING);
                self.set(connection, syn.isn, Stage::Connecting { since, until: since + patience });
                SynAction::Wait
            }
            Stage::Connecting { .. } if own_isn() == Some(syn.isn) => {
                self.remove(connection);
                SynAction::Loop
            }
            Stage::Connecting { .. } | Stage::Accepting { .. } if !is_same => SynAction::Wait,
            Stage::Open { anew } if !is_same && *anew != Some(syn.isn) => {
                *anew = Some(syn.isn);
                SynAction::Wait
            }
            _ => SynAction::Deliver,
        }
    }

    fn admit(&mut self, now: Instant, syn: &Syn) -> SynAction {
        let client = source(syn.connection.client.ip());
        let victim = self.places.victim(client);
        let instead_of = if self.len() >= self.limits.connections {
            // What is open stays. Of what is being opened, the largest part gives way to others.
            let others = victim.filter(|victim| victim.of > self.places.of(client) + 1);
            let Some(victim) = others else { return SynAction::Full };
            Some(victim.item)
        } else {
            victim.filter(|_| self.opening() >= self.limits.opening).map(|victim| victim.item)
        };
        instead_of.inspect(|displaced| self.remove(*displaced));
        self.places.insert(client, syn.connection);
        self.set(syn.connection, syn.isn, Stage::Connecting { since: now, until: now + MIN_ASKING });
        SynAction::Connect { instead_of }
    }

    /// The server has accepted. Whether its SYN may go to the kernel: the connection is still wanted.
    pub fn handle_connected(&mut self, now: Instant, connection: Connection) -> bool {
        match self.entries.get(&connection) {
            Some(Entry { isn, stage: Stage::Connecting { .. } }) => {
                let isn = *isn;
                self.set(connection, isn, Stage::Accepting { since: now });
                true
            }
            _ => false,
        }
    }

    /// The kernel has accepted. Whether the connection is one that was to be.
    pub fn handle_accepted(&mut self, connection: Connection) -> bool {
        match self.entries.get(&connection) {
            Some(Entry { isn, stage: Stage::Accepting { .. } }) => {
                let isn = *isn;
                self.set(connection, isn, Stage::Open { anew: None });
                self.places.remove(connection);
                true
            }
            _ => false,
        }
    }

    /// The connection is over, or will not be.
    pub fn remove(&mut self, connection: Connection) {
        if let Some(Entry { stage, .. }) = self.entries.remove(&connection) {
            self.places.remove(connection);
            self.stop(connection, stage);
        }
    }

    /// When the next one has taken too long.
    pub fn next_timeout(&self) -> Option<Instant> {
        let asking = self.asking.first().map(|(at, _)| *at);
        let confirming = self.confirming.first().map(|(since, _)| *since + self.confirming_time());
        asking.into_iter().chain(confirming).min()
    }

    /// The next one that has taken too long to open, and who is late. It is forgotten.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<(Connection, Late)> {
        let is_due = |at: Instant| at <= now;
        let asking = self.asking.first().filter(|(at, _)| is_due(*at)).map(|(_, it)| (*it, Late::Server));
        let time = self.confirming_time();
        let confirming = self.confirming.first().filter(|(since, _)| is_due(*since + time));
        let late = asking.or(confirming.map(|(_, it)| (*it, Late::Client)))?;
        self.remove(late.0);
        Some(late)
    }

    fn confirming_time(&self) -> Duration {
        if self.confirming.len() > self.limits.opening / CONFIRMING_PART {
            MIN_CONFIRMING
        } else {
            MAX_CONFIRMING
        }
    }

    fn set(&mut self, connection: Connection, isn: u32, stage: Stage) {
        if let Some(before) = self.entries.insert(connection, Entry { isn, stage }) {
            self.stop(connection, before.stage);
        }
        match stage {
            Stage::Connecting { until, .. } => self.asking.insert((until, connection)),
            Stage::Accepting { since } => self.confirming.insert((since, connection)),
            Stage::Open { .. } => false,
        };
    }

    fn stop(&mut self, connection: Connection, stage: Stage) {
        match stage {
            Stage::Connecting { until, .. } => self.asking.remove(&(until, connection)),
            Stage::Accepting { since } => self.confirming.remove(&(since, connection)),
            Stage::Open { .. } => false,
        };
    }
}

#[cfg(test)]
mod tests;
