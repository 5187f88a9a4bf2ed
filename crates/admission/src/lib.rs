//! Which trunks with a guaranteed rate a network can carry, and on which ways: the *global controller* of kung1998 §1, which limits
//! the trunks that share a resource of the network.
//!
//! A [`Network`] is sites, nodes between them and links. A link has a rate that guarantees may take in each direction (RFC 3630 §2.5.7,
//! *maximum reservable bandwidth*) and, where its round trip is known, a rate from which on the window of a lane has the five packets that
//! fast retransmit needs (kung1998 §6, C2; [`least_rate`]). [`admit`] takes [`Demand`]s and gives each a
//! [`Placement`] or a [`Refusal`].
//!
//! - A demand takes the way of least cost on which every link has room for it: constrained shortest path first, as for traffic engineering
//!   (RFC 3209, RFC 4655). With a backup it takes the two ways of least total cost that share no link (Suurballe 1974), and room on both.
//! - Priorities are those of RFC 3209 §4.7.3: 0 first, 7 last; a demand may take the room of others whose *hold* priority is after its
//!   *setup* priority, and does so only if it finds no way without. What gave way looks for another way.
//! - What has a placement keeps it while it is possible, so that a change to the document moves no other trunk.
//! - A refusal says which links lack what, and what would fit.
//!
//! Nothing here reads a clock, a file or randomness: the same network, demands and placements give the same answer.

mod admit;
mod demand;
mod network;
mod refusal;
mod room;
mod search;

pub use admit::{Outcome, admit};
pub use demand::{Demand, Held, Placement, Priority};
pub use network::{Direction, Link, Network, NetworkError, Rates, least_rate};
pub use refusal::{Lacking, Refusal, Shortage};
pub use search::Way;
