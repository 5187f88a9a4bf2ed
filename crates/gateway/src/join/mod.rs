//! How a site becomes a peer of another by an invitation.
//!
//! An [`Invitation`] is one line of text that a running site gives away: where it is dialled, its public key, the prefixes behind it,
//! the address that the new site has in the tunnel, and a secret. A key pair follows from the secret *and* all other fields
//! (RFC 5869); the inviting site has its public half only. The site that joins authenticates itself by that key in the ordinary
//! handshake, so a changed field is a key that nobody admits, and a look at the inviting site's memory gives nobody an invitation.
//! It says its own public key, name and prefixes ([`Join`](crate::handshake::Join)), and from then on uses its own key.
//!
//! The daemon decides about invitations (`open`, without I/O or clock), and asks the command that has opened one to write
//! the new peer into the site's file. An invitation ends with that command, when it expires, or with its first use.

mod invitation;
mod open;
mod request;
mod surroundings;

use std::time::Duration;

pub use invitation::{Invitation, InvitationError, MAX_ENDPOINTS, Terms};
pub(crate) use open::{Due, Invitations, UNANSWERED, Verdict};
pub use request::{JoinError, request};
pub use surroundings::{Interface, Surroundings, host_name, is_private, overlap};

/// The longest time for which an invitation may be open.
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
