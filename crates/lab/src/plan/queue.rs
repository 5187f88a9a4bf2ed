//! Queues.

use trunkline_queue::{
    CoDelSettings, FqCoDelSettings, FredSettings, Limits, PieSettings, RedSettings, Settings, TrunkSettings,
    Unit,
};

use super::keys;
use crate::experiment::{Discipline, QueueSpec};
use crate::quantity::Amount;
use trunkline_schema::At;

/// Keys of each discipline, and its name.
const fn has(kind: Discipline) -> (&'static str, &'static [&'static str]) {
    match kind {
        Discipline::TailDrop => ("tail-drop", &["packets", "bytes"]),
        Discipline::FairTailDrop => ("fair-tail-drop", &["packets", "bytes"]),
        Discipline::Red => ("red", &["packets", "bytes", "min", "max", "max_p", "weight", "gentle", "ecn"]),
        Discipline::Fred => {
            ("fred", &["packets", "bytes", "min", "max", "max_p", "weight", "min_flow", "ecn"])
        }
        Discipline::CoDel => ("codel", &["packets", "bytes", "target", "interval", "ecn"]),
        Discipline::FqCoDel => ("fq-codel", &["packets", "bytes", "target", "interval", "queues", "ecn"]),
        Discipline::Pie => ("pie", &["packets", "bytes", "target", "ecn"]),
        Discipline::Trunk => {
            ("trunk", &["packets", "bytes", "sized", "early", "spares", "threshold", "max_p", "spare", "ecn"])
        }
    }
}

/// What a queue is, without a word 1000 packets and tail drop. Values are checked by who has it.
pub(super) fn settings(at: &At<'_>, spec: Option<&QueueSpec>) -> Settings {
    let Some(spec) = spec else {
        return Settings::TailDrop(Limits { segments: Limits::default().segments, bytes: u64::MAX });
    };
    let (name, has) = has(spec.kind);
    keys::only(at, name, has, &given(spec));
    let limits = Limits {
        segments: match (spec.packets, spec.bytes) {
            (Some(packets), _) => packets,
            (None, None) => Limits::default().segments,
            (None, Some(_)) => u32::MAX,
        },
        bytes: spec.bytes.map_or(u64::MAX, |bytes| bytes.0),
    };
    let ecn = spec.ecn.unwrap_or(false);
    match spec.kind {
        Discipline::TailDrop => Settings::TailDrop(limits),
        Discipline::FairTailDrop => Settings::FairTailDrop(limits),
        Discipline::Red => {
            Settings::Red(red(at, spec, RedSettings { limits, ecn, ..RedSettings::default() }))
        }
        Discipline::Fred => {
            Settings::Fred(fred(at, spec, FredSettings { limits, ecn, ..FredSettings::default() }))
        }
        Discipline::CoDel => Settings::CoDel(codel(spec, limits)),
        Discipline::FqCoDel => {
            let usual = FqCoDelSettings::default();
            let queues = spec.queues.unwrap_or(usual.queues);
            Settings::FqCoDel(FqCoDelSettings { codel: codel(spec, limits), queues, ..usual })
        }
        Discipline::Pie => {
            let usual = PieSettings::default();
            let target = spec.target.map_or(usual.target, |target| target.0);
            Settings::Pie(PieSettings { limits, ecn, target, ..usual })
        }
        Discipline::Trunk => {
            let usual = TrunkSettings::default();
            Settings::Trunk(TrunkSettings {
                limits,
                ecn,
                auto_size: spec.sized.unwrap_or(usual.auto_size),
                early_drop: spec.early.unwrap_or(usual.early_drop),
                drop_holdoff: spec.spares.unwrap_or(usual.drop_holdoff),
                threshold: spec.threshold.map_or(usual.threshold, |share| share.0),
                max_p: spec.max_p.map_or(usual.max_p, |share| share.0),
                holdoff: spec.spare.unwrap_or(usual.holdoff),
            })
        }
    }
}

/// The key that a place in a queue's settings has.
pub(super) fn key(place: &str) -> &str {
    match place {
        "limits.segments" => "packets",
        "limits.bytes" => "bytes",
        other => other,
    }
}

fn given(spec: &QueueSpec) -> [(&'static str, bool); 16] {
    [
        ("packets", spec.packets.is_some()),
        ("bytes", spec.bytes.is_some()),
        ("min", spec.min.is_some()),
        ("max", spec.max.is_some()),
        ("max_p", spec.max_p.is_some()),
        ("weight", spec.weight.is_some()),
        ("gentle", spec.gentle.is_some()),
        ("min_flow", spec.min_flow.is_some()),
        ("target", spec.target.is_some()),
        ("interval", spec.interval.is_some()),
        ("queues", spec.queues.is_some()),
        ("sized", spec.sized.is_some()),
        ("early", spec.early.is_some()),
        ("spares", spec.spares.is_some()),
        ("threshold", spec.threshold.is_some()),
        ("spare", spec.spare.is_some()),
    ]
}

fn red(at: &At<'_>, spec: &QueueSpec, usual: RedSettings) -> RedSettings {
    let (unit, min, max) = match (spec.min, spec.max) {
        (None, None) => (usual.unit, usual.min, usual.max),
        (Some(Amount::Packets(min)), Some(Amount::Packets(max))) => (Unit::Segments, min, max),
        (Some(Amount::Bytes(min)), Some(Amount::Bytes(max))) => (Unit::Bytes, min, max),
        (Some(_), Some(_)) => {
            at.key("min").report("is in another unit than max", "both in packets, or both in octets");
            (usual.unit, usual.min, usual.max)
        }
        (min, _) => {
            let absent = if min.is_none() { "min" } else { "max" };
            at.key(absent).report("is missing", "min and max, in packets or in octets, or neither");
            (usual.unit, usual.min, usual.max)
        }
    };
    RedSettings {
        unit,
        min,
        max,
        max_p: spec.max_p.map_or(usual.max_p, |share| share.0),
        weight: spec.weight.map_or(usual.weight, |share| share.0),
        gentle: spec.gentle.unwrap_or(usual.gentle),
        ..usual
    }
}

fn fred(at: &At<'_>, spec: &QueueSpec, usual: FredSettings) -> FredSettings {
    let packets = |key: &str, amount: Option<Amount>, usual: u32| match amount {
        None => usual,
        Some(Amount::Packets(packets)) => u32::try_from(packets).unwrap_or(u32::MAX),
        Some(Amount::Bytes(_)) => {
            at.key(key).refuse("a whole number of packets");
            usual
        }
    };
    FredSettings {
        min: packets("min", spec.min, usual.min),
        max: packets("max", spec.max, usual.max),
        max_p: spec.max_p.map_or(usual.max_p, |share| share.0),
        weight: spec.weight.map_or(usual.weight, |share| share.0),
        min_flow: spec.min_flow.unwrap_or(usual.min_flow),
        ..usual
    }
}

fn codel(spec: &QueueSpec, limits: Limits) -> CoDelSettings {
    let usual = CoDelSettings::default();
    CoDelSettings {
        limits,
        ecn: spec.ecn.unwrap_or(false),
        target: spec.target.map_or(usual.target, |time| time.0),
        interval: spec.interval.map_or(usual.interval, |time| time.0),
    }
}
