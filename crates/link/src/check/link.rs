//! Checks of a link.

use std::time::Duration;

use trunkline_units::check::{ensure, probability};
use trunkline_units::{Rate, SettingsError};

use super::queue;
use crate::mobile::{BlockErrors, Mobile};
use crate::{Impairments, Jitter, LinkChange, LinkSettings, Loss};

type Checked = Result<(), SettingsError>;

/// The longest delay, and the longest time on average that a packet is held for anything.
const MAX_DELAY: Duration = Duration::from_secs(1_000_000);

impl LinkSettings {
    /// Whether a link can be like this.
    pub fn check(&self) -> Result<(), SettingsError> {
        let rates = self.changes.iter().filter_map(|(_, change)| match change {
            LinkChange::Rate(rate) => Some(*rate),
            LinkChange::Delay(_) | LinkChange::Impairments(_) => None,
        });
        let sends = std::iter::once(self.rate).chain(rates).any(|rate| rate.bits_per_second() > 0);
        ensure(sends, "rate", self.rate, "1 bit/s or more, or 0 with a change to more")?;
        rate(self.rate)?;
        delay("delay", self.delay)?;
        ensure((68..=65_535).contains(&self.mtu), "mtu", self.mtu, "68 to 65535 bytes")?;
        queue(&self.queue).map_err(|error| error.within("queue"))?;
        self.impairments.check().map_err(|error| error.within("impairments"))?;
        if let Some(mobile) = &self.mobile {
            mobile.check().map_err(|error| error.within("mobile"))?;
        }
        let once = self.deliveries.is_none() || self.mobile.is_none();
        ensure(once, "mobile", "with deliveries", "one of the two: both say when packets leave")?;
        self.check_changes()
    }

    fn check_changes(&self) -> Checked {
        let mut before = Duration::ZERO;
        for (number, (at, change)) in self.changes.iter().enumerate() {
            let place = format!("changes[{number}]");
            if *at < before {
                return Err(SettingsError::Order { place, value: format!("{at:?}") });
            }
            before = *at;
            self.check_change(change).map_err(|error| error.within(&place))?;
        }
        if let Some(repeat) = self.repeat {
            let allowed = "more than no time, and no less than the time of the last change";
            let holds = !repeat.is_zero() && repeat >= before;
            ensure(holds, "repeat", repeat, allowed)?;
        }
        Ok(())
    }

    fn check_change(&self, change: &LinkChange) -> Checked {
        match change {
            LinkChange::Rate(value) => {
                let allowed = "none: the deliveries say when it sends";
                ensure(self.deliveries.is_none(), "rate", value, allowed)?;
                rate(*value)
            }
            LinkChange::Delay(value) => delay("delay", *value),
            LinkChange::Impairments(impairments) => {
                impairments.check().map_err(|error| error.within("impairments"))?;
                let same = impairments.jitter == Jitter::None
                    || impairments.jitter.reorders() == self.impairments.jitter.reorders();
                let allowed = "one that reorders if that of the link's own impairments does, and only then";
                ensure(same, "impairments.jitter", impairments.jitter, allowed)
            }
        }
    }
}

fn rate(value: Rate) -> Checked {
    let holds = value.bits_per_second() <= 1_000_000_000_000_000 || value == Rate::MAX;
    ensure(holds, "rate", value, "up to 10^15 bit/s, or unlimited (Rate::MAX)")
}

fn delay(place: &str, value: Duration) -> Checked {
    ensure(value <= MAX_DELAY, place, value, "up to 1000000 s")
}

impl Impairments {
    /// Whether these can befall packets.
    pub fn check(&self) -> Result<(), SettingsError> {
        match self.loss {
            Loss::None => {}
            Loss::Uniform(p) => probability("loss", p)?,
            Loss::Bursts { to_bad, to_good, good, bad } => {
                probability("loss.to_bad", to_bad)?;
                probability("loss.to_good", to_good)?;
                probability("loss.good", good)?;
                probability("loss.bad", bad)?;
            }
        }
        probability("corruption", self.corruption)?;
        probability("duplication", self.duplication)?;
        match self.jitter {
            Jitter::None => Ok(()),
            Jitter::Uniform { max, .. } => delay("jitter.max", max),
            Jitter::Exponential { mean, .. } => delay("jitter.mean", mean),
        }
    }
}

impl Mobile {
    /// Whether a radio link can be like this.
    pub fn check(&self) -> Result<(), SettingsError> {
        match self {
            Mobile::Pareto(pareto) => {
                delay("mean", pareto.mean)?;
                ensure(pareto.shape > 1.0 && pareto.shape.is_finite(), "shape", pareto.shape, "above 1")?;
                probability("share", pareto.share)
            }
            Mobile::Rlp(rlp) => {
                ensure(rlp.block > 0, "block", rlp.block, "1 or more bytes")?;
                let interval = !rlp.interval.is_zero() && rlp.interval <= Duration::from_secs(1);
                ensure(interval, "interval", rlp.interval, "more than no time, up to 1 s")?;
                ensure(
                    (1..=65_536).contains(&rlp.feedback),
                    "feedback",
                    rlp.feedback,
                    "1 to 65536 intervals",
                )?;
                rlp.errors.check().map_err(|error| error.within("errors"))
            }
        }
    }
}

impl BlockErrors {
    /// Whether blocks can be lost like this, and some of them are not.
    pub fn check(&self) -> Result<(), SettingsError> {
        match *self {
            BlockErrors::Independent(p) => probability("", p)?,
            BlockErrors::Fading { to_bad, to_good, good, bad } => {
                probability("to_bad", to_bad)?;
                probability("to_good", to_good)?;
                probability("good", good)?;
                probability("bad", bad)?;
            }
        }
        ensure(self.mean() < 1.0, "", self, "some blocks arrive")
    }
}
