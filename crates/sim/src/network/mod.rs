//! A network: nodes, links between them, traffic, and the event loop that runs them.
//!
//! - `build`: adds nodes, links, trunks, proxies and traffic.
//! - `routing`: finds the shortest paths.
//! - `run`: the event loop.
//! - `stuck`: what an error says of a part that keeps time from going on.
//! - `control`: what an owner changes while it runs.
//! - `report`: reads the state of every part, and captures packets.

mod build;
mod control;
mod report;
mod routing;
mod run;
mod stuck;

use std::sync::Arc;

use trunkline_packet::Version;

pub use run::Ran;

use crate::gateway::Trunks;
use crate::progress::Progress;
use crate::proxy::Proxy;
use crate::state::NetworkState;
use crate::traffic::{DatagramSource, TransferSource};

#[derive(Debug)]
enum Source {
    Transfers(Box<TransferSource>),
    Datagrams(Box<DatagramSource>),
}

impl Source {
    const fn version(&self) -> Version {
        match self {
            Source::Transfers(source) => source.version,
            Source::Datagrams(source) => source.version(),
        }
    }

    /// The source that a connection belongs to.
    fn transfers(&mut self) -> &mut TransferSource {
        match self {
            Source::Transfers(transfers) => transfers,
            Source::Datagrams(_) => unreachable!("datagrams have no connections"),
        }
    }
}

/// A network in virtual time. A value: any number of them can run side by side, each on a thread of its own.
///
/// Build it ([`Network::host`], [`Network::connect`], [`Network::tcp`] and so on), then
/// [run](Network::run_until) it, in one go or in steps, which makes no difference to what happens, and look at what its
/// parts say of themselves. The same calls with the same seed give the same [`Digest`](crate::Digest), on any machine.
#[derive(Debug)]
pub struct Network {
    net: NetworkState,
    progress: Progress,
    seed: u64,
    sources: Vec<Source>,
    trunks: Trunks,
    proxies: Vec<Proxy>,
    /// What was added last and has not been asked to begin.
    begun: (usize, usize),
    numbers: Numbers,
    routed: bool,
    /// Of what is added next.
    version: Version,
}

/// Of the parts that are added next, those that were left out included.
#[derive(Debug, Default)]
struct Numbers {
    sources: usize,
    trunks: usize,
}

impl Network {
    /// Its trunks, and all else.
    #[cfg(test)]
    pub(crate) const fn trunks_and_state(&mut self) -> (&mut Trunks, &mut NetworkState) {
        (&mut self.trunks, &mut self.net)
    }

    /// An empty network. Everything that is random in it follows from `seed`, each part by itself: a node, link, source or trunk by its
    /// number among those of its kind, from the first that was added.
    pub fn new(seed: u64) -> Self {
        Network {
            net: NetworkState::new(seed),
            progress: Progress::default(),
            seed,
            sources: Vec::new(),
            trunks: Trunks::default(),
            proxies: Vec::new(),
            begun: (0, 0),
            numbers: Numbers::default(),
            routed: false,
            version: Version::V4,
        }
    }
}

/// One TCP for both ends.
pub fn both(settings: trunkline_tcp::Settings) -> [Arc<trunkline_tcp::Settings>; 2] {
    let settings = Arc::new(settings);
    [settings.clone(), settings]
}
