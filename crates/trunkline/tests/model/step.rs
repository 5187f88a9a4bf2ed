//! The steps of a sequence.

use trunkline_units::Rng;

use crate::settings::{KEYS, Key};

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
    /// The network drops everything for the site without a word.
    CutWan(Site),
    /// The site's line loses its carrier.
    LoseCarrier(Site),
    /// The network is whole again for the site.
    RestoreWan(Site),
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
        match rng.below(100) {
            0..7 => Self::Kill(site),
            7..10 => Self::Stop(site),
            10..20 => Self::Start(site),
            20..26 => Self::Reload(site, key, value),
            26..44 => Self::ReloadEverywhere(key, value),
            44..47 => Self::ReloadRefused(site),
            47..51 => Self::CutWan(site),
            51..53 => Self::LoseCarrier(site),
            53..57 => Self::RestoreWan(site),
            57..60 => Self::BounceWan(site),
            60..63 => Self::Move(spoke),
            63..66 => Self::BounceTun(site),
            66..69 => Self::LoseRoute(site),
            69..77 => {
                let idle = Client::Idle(count);
                Self::Client(site, pick(rng, &[Client::Flows, Client::Metrics, Client::Garbage, idle]))
            }
            77..82 => Self::Callers(pick(rng, &[Caller::Short, Caller::Garbage, Caller::Silent]), count),
            82..88 => Self::Stream(site, pick(rng, &Site::ALL), count),
            88..94 => Self::Wait(50 + rng.below(1500) as u16),
            _ => Self::Settle,
        }
    }
}
