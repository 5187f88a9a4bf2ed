//! When an idle connection says something, so that the NATs and firewalls between its ends keep their state of it, and each end knows
//! that the other is there.
//!
//! How long they keep it differs: two minutes and more as RFC 4787 §4.3 wants it, half a minute often (RFC 9000 §10.1.2). The dialer is
//! the end that may be behind one. Whether the acceptor's packets still reach it after a silence, only such a packet tells: most NATs
//! give a flow the port that it had before, so its next packet shows nothing. So the acceptor *tests*: it sends a PING after a silence.
//! If that is answered at once, the silence did no harm, and the next one is longer. If not, and the dialer is heard of later, the state
//! was lost: the acceptor goes back to the silence that held. The dialer has a longer interval of its own, by which it makes itself
//! known again: twice the longest silence at whose end it heard of the acceptor unasked.
//!
//! A [`Binding`] is what is known of the way between two sockets, over all connections between them, since the packets of any of them keep
//! the state. A [`Keepalive`] belongs to one connection. It also says when the other end is gone: what was sent is not answered.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant as StdInstant};

/// The first silence: no application should speak more often (RFC 8085 §3.5).
const START: Duration = Duration::from_secs(15);
/// The shortest, where even that does not hold.
const MIN: Duration = Duration::from_secs(5);
/// After a silence that did not hold, no longer one is tried for so long.
const RETRY_AFTER: Duration = Duration::from_secs(3600);
/// What was sent, and is not answered for so long, shows that the other end is gone; as over TCP.
const DEAD_AFTER: Duration = Duration::from_secs(8);
/// The same where there is reason to doubt it.
const PROOF: Duration = Duration::from_millis(2_500);
/// An answer at once comes within this time, or so many round trips: a lost PING is sent again.
const AT_ONCE: Duration = Duration::from_secs(1);
const ROUND_TRIPS: u32 = 6;
/// A silence up to this part beyond one that held is the same: timers are late. The next that is tried is half as long again.
const SAME: f64 = 1.25;

/// The end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Dialer,
    Acceptor,
}

/// The longest silence of an end. The acceptor's comes first, so that it tests.
fn bound(max: Duration, role: Role) -> Duration {
    match role {
        Role::Acceptor => max,
        Role::Dialer => max + max / 4,
    }
}

/// What is known of the way between two sockets.
#[derive(Debug, Clone)]
pub(super) struct Binding {
    role: Role,
    max: Duration,
    /// The longest silence that did no harm.
    held: Duration,
    /// The acceptor's next test.
    test: Duration,
    /// When one failed.
    failed: Option<StdInstant>,
    /// The last packet of any connection.
    quiet_since: StdInstant,
    /// Since when an answer is missing, and the silence before.
    asked: Option<(StdInstant, Duration)>,
    /// Its connections, and some that are gone.
    links: Vec<u64>,
}

impl Binding {
    fn new(now: StdInstant, role: Role, max: Duration) -> Self {
        let start = START.min(max);
        Binding {
            role,
            max,
            held: start,
            test: start,
            failed: None,
            quiet_since: now,
            asked: None,
            links: Vec::new(),
        }
    }

    /// The silence after which a connection speaks.
    fn interval(&self) -> Duration {
        match self.role {
            Role::Acceptor => self.test,
            Role::Dialer => (self.held * 2).min(bound(self.max, self.role)),
        }
    }

    fn silence(&self, now: StdInstant) -> Duration {
        now.saturating_duration_since(self.quiet_since)
    }

    fn handle_sent(&mut self, now: StdInstant, asks: bool) {
        if asks && self.asked.is_none() {
            self.asked = Some((now, self.silence(now)));
        }
        self.quiet_since = now;
    }

    fn handle_heard(&mut self, now: StdInstant, rtt: Duration) {
        match (self.role, self.asked.take()) {
            (Role::Dialer, None) => self.held = self.held.max(self.silence(now)),
            (Role::Dialer, Some(_)) | (Role::Acceptor, None) => {}
            (Role::Acceptor, Some((at, silence))) => {
                let was_at_once = now.saturating_duration_since(at) <= AT_ONCE.max(rtt * ROUND_TRIPS);
                if was_at_once { self.handle_held(now, silence) } else { self.handle_lost(now, silence) }
            }
        }
        self.quiet_since = now;
    }

    /// A silence did no harm.
    fn handle_held(&mut self, now: StdInstant, silence: Duration) {
        self.held = self.held.max(silence);
        let may_grow = self.failed.is_none_or(|at| now.saturating_duration_since(at) >= RETRY_AFTER);
        // Other connections make most silences shorter.
        if may_grow && silence >= self.test.mul_f64(0.9) {
            self.failed = None;
            self.test = (self.test * 3 / 2).min(self.max);
        }
    }

    /// The silence before the question that is open, or else the one until now.
    fn tested(&self, now: StdInstant) -> Duration {
        self.asked.map_or_else(|| self.silence(now), |(_, silence)| silence)
    }

    /// After a silence packets did not arrive, or came from another port of a NAT.
    fn handle_lost(&mut self, now: StdInstant, silence: Duration) {
        if silence < self.held.mul_f64(0.9) {
            // Longer ones did no harm: something else was the reason.
            return;
        }
        if silence <= self.held.mul_f64(SAME) {
            self.held = (silence / 2).max(MIN.min(self.max));
        }
        (self.test, self.failed) = (self.held, Some(now));
    }
}

/// Where packets go from and to, and which end this is.
pub(super) type Way = (usize, SocketAddr, Role);

/// What is known of the ways from the sockets of a worker, by the sockets' places.
#[derive(Debug, Default)]
pub(super) struct Bindings(BTreeMap<Way, Weak<RefCell<Binding>>>);

impl Bindings {
    /// That of a way which a connection takes now; `new` if none has taken it.
    fn join(&mut self, way: Way, link: u64, new: impl FnOnce() -> Binding) -> Rc<RefCell<Binding>> {
        let known = self.0.get(&way).and_then(Weak::upgrade);
        let binding = known.unwrap_or_else(|| {
            self.0.retain(|_, binding| binding.strong_count() > 0);
            let binding = Rc::new(RefCell::new(Binding { links: Vec::new(), ..new() }));
            self.0.insert(way, Rc::downgrade(&binding));
            binding
        });
        {
            let links = &mut binding.borrow_mut().links;
            if !links.contains(&link) {
                links.push(link);
            }
        }
        binding
    }
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The connection sends a PING.
    Ping,
    /// The other end is gone.
    Dead,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Keepalive {
    link: u64,
    way: Way,
    binding: Rc<RefCell<Binding>>,
    max: Duration,
    /// Its own last packet.
    idle_since: StdInstant,
    /// When the other end is gone, unless it is heard of.
    dead_at: Option<StdInstant>,
    /// A PING was sent since then, so that there is something to answer.
    pinged: bool,
}

impl Keepalive {
    /// Of the connection of this number, with the longest silence that is configured.
    pub(super) fn new(now: StdInstant, link: u64, way: Way, max: Duration, bindings: &mut Bindings) -> Self {
        let binding = bindings.join(way, link, || Binding::new(now, way.2, max));
        Keepalive { link, way, binding, max, idle_since: now, dead_at: None, pinged: false }
    }

    fn interval(&self) -> Duration {
        self.binding.borrow().interval().min(bound(self.max, self.way.2))
    }

    /// It has sent something; `asks` if that is answered.
    pub(super) fn handle_sent(&mut self, now: StdInstant, asks: bool, rtt: Duration) {
        let mut binding = self.binding.borrow_mut();
        if asks && self.dead_at.is_none() {
            // If a NAT has forgotten the dialer, the dialer is heard of again after its own interval. All lanes of a way ask at once.
            let silence = if self.way.2 == Role::Acceptor { binding.tested(now) } else { Duration::ZERO };
            self.dead_at = Some(now + DEAD_AFTER.max(rtt * ROUND_TRIPS) + silence);
            self.pinged = false;
        }
        binding.handle_sent(now, asks);
        self.idle_since = now;
    }

    /// The other end was heard of, at this address.
    pub(super) fn handle_heard(
        &mut self,
        now: StdInstant,
        remote: SocketAddr,
        rtt: Duration,
        bindings: &mut Bindings,
    ) {
        if remote != self.way.1 {
            self.handle_moved(now, remote, bindings);
        }
        self.binding.borrow_mut().handle_heard(now, rtt);
        (self.idle_since, self.dead_at) = (now, None);
    }

    /// The other end has another address: a NAT gave it another port, or it has moved.
    fn handle_moved(&mut self, now: StdInstant, remote: SocketAddr, bindings: &mut Bindings) {
        let (port, before, role) = self.way;
        let mut known = self.binding.borrow().clone();
        if remote.ip() == before.ip() {
            let silence = known.tested(now);
            known.asked = None;
            known.handle_lost(now, silence);
        } else {
            known = Binding::new(now, role, self.max);
        }
        self.binding.borrow_mut().links.retain(|link| *link != self.link);
        self.way = (port, remote, role);
        self.binding = bindings.join(self.way, self.link, || known);
    }

    /// This end may be elsewhere: nothing is known of its ways.
    pub(super) fn handle_network_changed(&mut self, now: StdInstant) {
        let mut binding = self.binding.borrow_mut();
        let links = std::mem::take(&mut binding.links);
        *binding = Binding { links, ..Binding::new(now, self.way.2, self.max) };
    }

    /// It is asked whether it is there, by a PING that leaves now: it has little time to answer.
    pub(super) fn expect_proof(&mut self, now: StdInstant, rtt: Duration) {
        let at = now + PROOF.max(rtt * ROUND_TRIPS);
        (self.dead_at, self.pinged) = (Some(self.dead_at.map_or(at, |dead| dead.min(at))), true);
    }

    /// The connections on the same way, and some that are gone.
    pub(super) fn beside(&self) -> Vec<u64> {
        self.binding.borrow().links.clone()
    }

    /// Forgets connections that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(u64) -> bool) {
        self.binding.borrow_mut().links.retain(|link| is_there(*link));
    }

    /// Whether it is about to speak anyway, so that it may as well with another on the same way: then the way is quiet for longer.
    pub(super) fn is_nearly_due(&self, now: StdInstant) -> bool {
        self.dead_at.is_none() && now.saturating_duration_since(self.idle_since) >= self.interval() / 2
    }

    /// When something is due.
    pub(super) fn next(&self) -> StdInstant {
        match self.dead_at {
            None => self.idle_since + self.interval(),
            Some(at) if self.pinged => at,
            Some(at) => at.checked_sub(PROOF).unwrap_or(at),
        }
    }

    /// What is due.
    pub(super) fn poll(&mut self, now: StdInstant) -> Option<Due> {
        if now < self.next() {
            return None;
        }
        if self.dead_at.is_some() && self.pinged {
            return Some(Due::Dead);
        }
        (self.pinged, self.idle_since) = (self.dead_at.is_some(), now);
        Some(Due::Ping)
    }
}

#[cfg(test)]
mod tests;
