//! The steps of a sequence.

use trunkline_units::Rng;

use super::settings::{KEYS, Key};

/// A site with a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Site {
    /// Is dialled by both, and dials B.
    Hub,
    /// Dials the hub, and is dialled by it.
    B,
    /// Dials the hub.
    C,
}

impl Site {
    pub(crate) const ALL: [Self; 3] = [Self::Hub, Self::B, Self::C];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::B => "b",
            Self::C => "c",
        }
    }

    /// Its number in addresses.
    pub(crate) fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The sites it has lanes to.
    pub(crate) fn peers(self) -> &'static [Site] {
        match self {
            Self::Hub => &[Self::B, Self::C],
            Self::B | Self::C => &[Self::Hub],
        }
    }
}

/// A client of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// Asks for the state with all flows.
    Flows,
    /// Collects metrics.
    Metrics,
    /// Sends an invalid request to both listeners.
    Garbage,
    /// Connects to both and says nothing, so many times each.
    Idle(u8),
}

/// An unauthenticated caller at the hub's listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Connects and closes.
    Short,
    /// Says what is no TLS.
    Garbage,
    /// Connects and says nothing.
    Silent,
    /// Sends datagrams with no meaning to the listener of lanes over QUIC.
    Datagrams,
}

/// Directions of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ways {
    Both,
    FromSite,
    ToSite,
}

impl Ways {
    /// Whether each direction is among them: from the site, and to it.
    pub(crate) fn fail(self) -> [bool; 2] {
        [self != Self::ToSite, self != Self::FromSite]
    }
}

/// What becomes of packets that are too long for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Longer {
    /// Its routers say so.
    Told,
    Swallowed,
}

/// What another program does to the proxy of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Removes its device.
    Device,
    /// Takes the device down and up: its routes are gone.
    Routes,
    Rules,
    /// Removes its table from the packet filter.
    Table,
}

/// What an end does to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abuse {
    /// A host behind the proxy fetches a file from B, so many times, and reads none of it.
    Unread(u8),
    /// SYNs of a host behind the proxy, so many times 50, to a host that does not answer.
    Syns(u8),
    /// So many times 100 datagrams of full length, as fast as they go, through the trunk from one site to another.
    Datagrams(Site, Site, u8),
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Kill(Site),
    Stop(Site),
    Start(Site),
    /// One key of one site gets another of its values.
    Reload(Site, Key, u8),
    /// One key gets the same value at all sites.
    ReloadEverywhere(Key, u8),
    /// A file that cannot be followed: nothing may change.
    ReloadRefused(Site),
    /// The network drops everything in these directions without a word.
    Fail(Site, Ways),
    /// The site's line loses its carrier.
    LoseCarrier(Site),
    /// Packets of the site's line overtake each other.
    Reorder(Site),
    /// The longest packet that the site's line takes; longer ones vanish without a word, or routers say so.
    PathMtu(Site, u32, Longer),
    /// The network is whole again for the site.
    RestoreWan(Site),
    /// The site's gateway does not run for a while, as in a machine that sleeps.
    Freeze(Site),
    Thaw(Site),
    Damage(Damage),
    Abuse(Abuse),
    /// The site's own WAN device goes down and up.
    BounceWan(Site),
    /// The site has another address from now on.
    Move(Site),
    /// The TUN device goes down and up.
    BounceTun(Site),
    /// Another program deletes a route into the trunk.
    LoseRoute(Site),
    Client(Site, Client),
    Callers(Caller, u8),
    /// A stream of so many times 100 KB, which need not arrive, but arrives unchanged if it does.
    Stream(Site, Site, u8),
    Wait(u16),
    /// The network is made whole, and everything must be up.
    Settle,
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

impl Step {
    /// Its name, without what it is about.
    pub(crate) fn name(self) -> String {
        let text = format!("{self:?}");
        text.split('(').next().unwrap_or_default().to_owned()
    }

    pub(crate) fn random(rng: &mut Rng) -> Self {
        let site = pick(rng, &Site::ALL);
        let spoke = pick(rng, &[Site::B, Site::C]);
        let key = pick(rng, KEYS);
        let value = rng.below(key.values().len() as u64) as u8;
        let count = 1 + rng.below(40) as u8;
        match rng.below(140) {
            0..7 => Self::Kill(site),
            7..10 => Self::Stop(site),
            10..20 => Self::Start(site),
            20..26 => Self::Reload(site, key, value),
            26..44 => Self::ReloadEverywhere(key, value),
            44..47 => Self::ReloadRefused(site),
            47..53 => Self::Fail(site, pick(rng, &[Ways::Both, Ways::FromSite, Ways::ToSite])),
            53..55 => Self::LoseCarrier(site),
            55..65 => Self::RestoreWan(site),
            65..68 => Self::BounceWan(site),
            68..71 => Self::Move(spoke),
            71..74 => Self::BounceTun(site),
            74..77 => Self::LoseRoute(site),
            77..84 => {
                let idle = Client::Idle(count);
                Self::Client(site, pick(rng, &[Client::Flows, Client::Metrics, Client::Garbage, idle]))
            }
            84..89 => {
                let callers = [Caller::Short, Caller::Garbage, Caller::Silent, Caller::Datagrams];
                Self::Callers(pick(rng, &callers), count)
            }
            89..93 => Self::Stream(site, pick(rng, &Site::ALL), count),
            93..100 => Self::Wait(50 + rng.below(4000) as u16),
            100..104 => Self::Reorder(site),
            104..111 => {
                let longest = pick(rng, &[1492, 1400, 1280, 700]);
                Self::PathMtu(site, longest, pick(rng, &[Longer::Told, Longer::Swallowed]))
            }
            111..117 => Self::Freeze(site),
            117..121 => Self::Thaw(site),
            121..128 => {
                let damages = [Damage::Device, Damage::Routes, Damage::Rules, Damage::Table];
                Self::Damage(pick(rng, &damages))
            }
            128..136 => {
                let datagrams = Abuse::Datagrams(spoke, pick(rng, &Site::ALL), count);
                Self::Abuse(pick(rng, &[Abuse::Unread(count), Abuse::Syns(count), datagrams]))
            }
            _ => Self::Settle,
        }
    }
}
