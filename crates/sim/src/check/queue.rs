//! Of a queue's settings.

use trunkline_queue::{
    CoDelSettings, FredSettings, Limits, PieSettings, RedSettings, Settings, TrunkSettings,
};

use super::{Checked, ensure, probability};

/// What a queue of this discipline can work with.
pub(super) fn queue(settings: &Settings) -> Checked {
    limits(settings.limits())?;
    match settings {
        Settings::TailDrop(_) | Settings::FairTailDrop(_) => Ok(()),
        Settings::Red(red) => self::red(red),
        Settings::Fred(fred) => self::fred(fred),
        Settings::CoDel(codel) => self::codel(codel),
        Settings::FqCoDel(fq) => {
            self::codel(&fq.codel)?;
            ensure((1..=65_536).contains(&fq.queues), "queues", fq.queues, "1 to 65536")?;
            ensure(fq.quantum > 0, "quantum", fq.quantum, "1 or more octets")
        }
        Settings::Pie(pie) => self::pie(pie),
        Settings::Trunk(trunk) => self::trunk(trunk),
    }
}

fn limits(limits: Limits) -> Checked {
    ensure(limits.segments > 0, "limits.segments", limits.segments, "1 or more")?;
    ensure(limits.bytes > 0, "limits.bytes", limits.bytes, "1 or more octets")
}

fn weight(value: f64) -> Checked {
    ensure(value > 0.0 && value <= 1.0, "weight", value, "above 0, to 1")
}

fn red(red: &RedSettings) -> Checked {
    ensure(red.min < red.max, "min", red.min, "less than max")?;
    probability("max_p", red.max_p)?;
    weight(red.weight)
}

fn fred(fred: &FredSettings) -> Checked {
    ensure(fred.min < fred.max, "min", fred.min, "less than max")?;
    probability("max_p", fred.max_p)?;
    weight(fred.weight)
}

fn codel(codel: &CoDelSettings) -> Checked {
    ensure(!codel.target.is_zero(), "target", codel.target, "more than no time")?;
    ensure(codel.interval > codel.target, "interval", codel.interval, "more than target")
}

fn pie(pie: &PieSettings) -> Checked {
    ensure(!pie.target.is_zero(), "target", pie.target, "more than no time")?;
    ensure(!pie.update.is_zero(), "update", pie.update, "more than no time")
}

fn trunk(trunk: &TrunkSettings) -> Checked {
    ensure((0.0..1.0).contains(&trunk.threshold), "threshold", trunk.threshold, "0 to below 1")?;
    probability("max_p", trunk.max_p)?;
    ensure((0.0..=8.0).contains(&trunk.spare), "spare", trunk.spare, "0 to 8")
}
