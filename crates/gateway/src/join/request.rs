//! The side that joins: dials the inviting site, and is told whether it is a peer now. It blocks.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Invitation;
use crate::handshake::{Dialer, HandshakeError, Identity, Join, Progress, RefusalReason};
use crate::keys::KeyError;

/// The time limit for a connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// The time limit for the answer: longer than the other site's command may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of addresses of one endpoint that are tried.
const MAX_ADDRESSES: usize = 4;

/// Why a site has not joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The invitation has expired, by this machine's clock.
    #[error("the invitation expired {} ago, by this machine's clock; ask for another", length(*ago_s))]
    Expired {
        /// How long ago, in seconds.
        ago_s: u64,
    },
    /// The inviting site refuses.
    #[error("{site} refuses the invitation: {text}")]
    Refused {
        /// The inviting site's name.
        site: String,
        /// Its words.
        text: String,
    },
    /// The inviting site does not know the invitation's key.
    #[error(
        "{site} does not know this invitation: it was changed on the way, or the site's gateway was started again since; ask for another"
    )]
    Unknown {
        /// The inviting site's name.
        site: String,
    },
    /// No endpoint leads to the inviting site.
    #[error("{site} cannot be reached:\n  {}", tried.join("\n  "))]
    Unreachable {
        /// The inviting site's name.
        site: String,
        /// What was tried, and what came of it.
        tried: Vec<String>,
    },
    /// The invitation's key cannot be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Setup(HandshakeError),
}

/// Asks the inviting site to take this one as a peer. Returns the endpoint at which it answered, once it has.
///
/// # Errors
/// [`JoinError`].
pub fn request(invitation: &Invitation, join: &Join) -> Result<String, JoinError> {
    let terms = &invitation.terms;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if let Some(ago_s) = now_s.checked_sub(u64::from(terms.expires_s)) {
        return Err(JoinError::Expired { ago_s });
    }
    let identity = Identity::new(&invitation.key()?).map_err(JoinError::Setup)?;
    let dialer = Dialer::new(&identity, terms.site).map_err(JoinError::Setup)?;
    let site = || terms.name.clone();
    let mut tried = Vec::new();
    for endpoint in &terms.endpoints {
        let addresses = match endpoint.to_socket_addrs() {
            Ok(addresses) => addresses,
            Err(error) => {
                tried.push(format!("{endpoint}: {error}"));
                continue;
            }
        };
        for address in addresses.take(MAX_ADDRESSES) {
            match ask(&dialer, address, join) {
                Ok(()) => return Ok(endpoint.clone()),
                Err(HandshakeError::Refused(refusal)) => {
                    let text = match refusal.reason {
                        RefusalReason::Invitation => refusal.text,
                        _ => refusal.to_string(),
                    };
                    return Err(JoinError::Refused { site: site(), text });
                }
                Err(HandshakeError::NotAdmitted) => return Err(JoinError::Unknown { site: site() }),
                Err(HandshakeError::WrongKey { .. }) => {
                    tried.push(format!("{address}: another site answers there, which has another key"));
                }
                Err(HandshakeError::Io(error)) if is_timeout(&error) => {
                    tried.push(format!("{address}: no answer in time"));
                }
                Err(error) => tried.push(format!("{address}: {error}")),
            }
        }
    }
    Err(JoinError::Unreachable { site: site(), tried })
}

fn ask(dialer: &Dialer, address: SocketAddr, join: &Join) -> Result<(), HandshakeError> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let mut handshake = dialer.join(stream, join.clone())?;
    match handshake.advance()? {
        Progress::Joined => Ok(()),
        // A stream that blocks is only not ready when its time is up.
        Progress::WantRead | Progress::WantWrite => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        _ => Err(HandshakeError::Over),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// A length of time in the unit that fits.
fn length(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
