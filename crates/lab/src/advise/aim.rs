//! What each kind of traffic wants, as numbers that can be added.

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};
use trunkline_engine::scenario::{Load, Scenario};
use trunkline_units::Rate;
use trunkline_workload::{Pattern, Timing};

use super::GroupAim;
use crate::results::Outcome;

/// What a group wants. Each is a sum of logarithms: a tenth more, or a tenth less waiting, is worth the same to everybody, as in
/// proportional fairness (Kelly, Maulloo and Tan 1998).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// Goodput: of transfers without an end.
    Goodput,
    /// Transfers that are done soon: how long they take on average, one that is not done counting as the whole run.
    Completion,
    /// Short waiting for answers: the delay that 99 % do not exceed, and as many answers as possible.
    Answers,
    /// Datagrams that arrive, soon and evenly: of streams that ask for no more than their part of the narrowest link. A percent
    /// of loss weighs as ten of goodput, and 150 ms of delay and jitter (the bound of ITU-T G.114) as all of it.
    Timeliness,
    /// As many datagrams as arrive: of streams that ask for more than their part and give way to nobody.
    Arrival,
}

/// How much more a lost share weighs to those who want datagrams in time.
const LOSS_WEIGHT: f64 = 10.0;
/// Seconds.
const TOLERABLE: f64 = 0.150;
/// Of what nothing arrived.
const NOTHING: f64 = 1e-3;

impl Aim {
    /// The metrics that it looks at, behind the group's name.
    pub(super) const fn metrics(self) -> &'static [&'static str] {
        match self {
            Aim::Goodput => &["goodput"],
            Aim::Completion => &["delay.mean", "transfers.completed"],
            Aim::Answers => &["delay.p99", "delay.mean", "transfers.completed"],
            Aim::Timeliness => &["lost.ratio", "delay.mean", "jitter"],
            Aim::Arrival => &["goodput", "lost.ratio"],
        }
    }

    /// What it is, in words.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Aim::Goodput => "goodput",
            Aim::Completion => "how soon transfers are done",
            Aim::Answers => "waiting for answers",
            Aim::Timeliness => "loss, delay and jitter",
            Aim::Arrival => "what arrives: it asks for more than its part",
        }
    }

    /// How well a group fared; only differences mean something.
    fn worth(self, outcome: &Outcome, group: &str) -> f64 {
        let of = |quantity: &str| outcome.metrics.get(&format!("{group}.{quantity}")).copied();
        let time = outcome.metrics.get("run.time").copied().unwrap_or(1.0);
        match self {
            Aim::Goodput => of("goodput").unwrap_or(0.0).max(1.0).ln(),
            Aim::Completion => {
                let (total, done) =
                    (of("transfers.total").unwrap_or(0.0), of("transfers.completed").unwrap_or(0.0));
                let waited = done * of("delay.mean").unwrap_or(0.0) + (total - done) * time;
                -(waited / total.max(1.0)).max(1e-6).ln()
            }
            // Nobody was answered: as if it had taken the whole run.
            Aim::Answers => {
                let waiting = of("delay.p99").unwrap_or(time).max(1e-6);
                of("transfers.completed").unwrap_or(0.0).max(0.5).ln() - waiting.ln()
            }
            Aim::Timeliness => {
                let arrived = (1.0 - of("lost.ratio").unwrap_or(0.0)).max(NOTHING);
                let late = of("delay.mean").unwrap_or(TOLERABLE) + of("jitter").unwrap_or(0.0);
                LOSS_WEIGHT * arrived.ln() - late / TOLERABLE
            }
            Aim::Arrival => (1.0 - of("lost.ratio").unwrap_or(1.0)).max(NOTHING).ln(),
        }
    }
}

/// How well all groups fared.
pub(super) fn worth(aims: &[GroupAim], outcome: &Outcome) -> f64 {
    aims.iter().map(|one| one.aim.worth(outcome, &one.group)).sum()
}

/// The aims of a network's groups, by what most of their users are. A group that has transfers and datagrams is judged by its
/// transfers, since its delay is theirs.
pub(super) fn aims(scenario: &Scenario) -> Vec<GroupAim> {
    let groups: IndexSet<&str> = scenario.traffic.iter().map(|traffic| &*traffic.group).collect();
    let rates = scenario.links.iter().flat_map(|link| &link.ways).map(|way| way.rate.bits_per_second());
    let narrowest = rates.filter(|rate| *rate > 0).min().unwrap_or(u64::MAX) as f64;
    let part = narrowest / groups.len().max(1) as f64;
    let aim = |group: &str| {
        let loads = || scenario.traffic.iter().filter(|traffic| traffic.group == group).map(|one| &one.load);
        let users = |aim| loads().filter(|load| of_transfers(load) == Some(aim)).map(users).sum::<u64>();
        let transfers = [Aim::Goodput, Aim::Completion, Aim::Answers].map(|aim| (users(aim), aim));
        let asked: f64 = loads().map(asks).sum();
        match transfers.into_iter().max_by_key(|(users, _)| *users) {
            Some((1.., aim)) => aim,
            _ if asked <= part => Aim::Timeliness,
            _ => Aim::Arrival,
        }
    };
    groups.into_iter().map(|group| GroupAim { group: group.to_owned(), aim: aim(group) }).collect()
}

fn of_transfers(load: &Load) -> Option<Aim> {
    match load {
        Load::Tcp { pattern: Pattern::Bulk { bytes: None, .. }, .. } => Some(Aim::Goodput),
        Load::Tcp { pattern: Pattern::Bulk { .. }, .. } => Some(Aim::Completion),
        Load::Tcp { .. } => Some(Aim::Answers),
        Load::Udp { .. } => None,
    }
}

fn users(load: &Load) -> u64 {
    match load {
        Load::Tcp { pattern, .. } => u64::from(pattern.users()),
        Load::Udp { .. } => 1,
    }
}

/// What a source of datagrams sends, bit/s.
fn asks(load: &Load) -> f64 {
    let bits = |rate: &Rate| rate.bits_per_second() as f64;
    match load {
        Load::Udp { timing: Timing::Constant(rate) | Timing::Poisson(rate), .. } => bits(rate),
        Load::Udp { timing: Timing::OnOff { rate, on, off }, .. } => {
            bits(rate) * on.mean() / (on.mean() + off.mean()).max(1e-9)
        }
        Load::Tcp { .. } | Load::Udp { timing: Timing::Trace { .. }, .. } => 0.0,
    }
}
