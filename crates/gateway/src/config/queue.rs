//! `queue`: the discipline of a class's queue and its parameters.
//!
//! Every parameter is a key of the one table whatever the discipline, so that a parameter of another discipline
//! is told from a misspelt one.

use std::time::Duration;

use trunkline_queue::{
    CoDelSettings, FqCoDelSettings, FredSettings, Limits, PieSettings, RedSettings, Settings, TrunkSettings,
    Unit,
};

use super::reader::{Field, Place, Section};
use super::values;

/// A queue must take the largest super-packet the kernel hands over.
const MIN_BYTES: u64 = 64 << 10;
const MAX_BYTES: u64 = 1 << 30;
const MAX_PACKETS: u32 = 1_000_000;
/// As many as Linux allows its own (`tc-fq_codel(8)`), each of some tens of octets.
const MAX_QUEUES: u32 = 65_536;
/// Less would take many turns for one packet.
const MIN_QUANTUM: u32 = 256;
const MAX_QUANTUM: u32 = 1 << 20;
const SHORTEST: Duration = Duration::from_micros(10);
const LONGEST: Duration = Duration::from_secs(60);

const ECN: &[&str] = &["red", "fred", "codel", "fq-codel", "pie", "trunk"];

/// Each parameter and the disciplines that have it. [`disciplines`] has the words.
const PARAMETERS: [(&str, &[&str]); 18] = [
    ("unit", &["red"]),
    ("min", &["red", "fred"]),
    ("max", &["red", "fred"]),
    ("max_p", &["red", "fred", "trunk"]),
    ("weight", &["red", "fred"]),
    ("gentle", &["red"]),
    ("min_flow", &["fred"]),
    ("target", &["codel", "fq-codel", "pie"]),
    ("interval", &["codel", "fq-codel"]),
    ("queues", &["fq-codel"]),
    ("quantum", &["fq-codel"]),
    ("update", &["pie"]),
    ("burst", &["pie"]),
    ("sized", &["trunk"]),
    ("early", &["trunk"]),
    ("spares", &["trunk"]),
    ("threshold", &["trunk"]),
    ("ecn", ECN),
];

/// Each discipline with its defaults.
fn disciplines() -> [(&'static str, Settings); 8] {
    [
        ("tail-drop", Settings::TailDrop(Limits::default())),
        ("fair-tail-drop", Settings::FairTailDrop(Limits::default())),
        ("red", Settings::Red(RedSettings::default())),
        ("fred", Settings::Fred(FredSettings::default())),
        ("codel", Settings::CoDel(CoDelSettings::default())),
        ("fq-codel", Settings::FqCoDel(FqCoDelSettings::default())),
        ("pie", Settings::Pie(PieSettings::default())),
        ("trunk", Settings::Trunk(TrunkSettings::default())),
    ]
}

/// The word for a discipline in a configuration file.
pub(super) const fn word(settings: &Settings) -> &'static str {
    match settings {
        Settings::TailDrop(_) => "tail-drop",
        Settings::FairTailDrop(_) => "fair-tail-drop",
        Settings::Red(_) => "red",
        Settings::Fred(_) => "fred",
        Settings::CoDel(_) => "codel",
        Settings::FqCoDel(_) => "fq-codel",
        Settings::Pie(_) => "pie",
        Settings::Trunk(_) => "trunk",
    }
}

/// The queue a table asks for; `default` if it names no discipline.
pub(super) fn parse(mut section: Section<'_>, default: Settings) -> Settings {
    let place = section.place().clone();
    let named = section.field("discipline").map(|field| field.word(&disciplines()));
    let packets = section.field("packets").and_then(|field| field.integer(1..=MAX_PACKETS));
    let bytes = section.field("bytes").and_then(|field| size(&field, MIN_BYTES..=MAX_BYTES));
    let fields = PARAMETERS.map(|(key, owners)| (key, owners, section.field(key)));
    section.finish();
    // Of a discipline nobody knows the parameters are unknown too.
    if named.as_ref().is_some_and(Option::is_none) {
        return default;
    }
    let settings = named.flatten().unwrap_or(default);
    let mut given = Given { place, word: word(&settings), fields: Vec::new() };
    for (key, owners, field) in fields {
        let Some(field) = field else { continue };
        if owners.contains(&given.word) {
            given.fields.push((key, field));
        } else {
            let owners: Vec<_> = owners.iter().map(|owner| format!("{owner:?}")).collect();
            field.place().report(
                format!("{:?} has no such parameter", given.word),
                format!("with discipline {}", owners.join(", ")),
            );
        }
    }
    let limits = settings.limits();
    let limits =
        Limits { segments: packets.unwrap_or(limits.segments), bytes: bytes.unwrap_or(limits.bytes) };
    match settings {
        Settings::TailDrop(_) => Settings::TailDrop(limits),
        Settings::FairTailDrop(_) => Settings::FairTailDrop(limits),
        Settings::Red(red) => Settings::Red(given.red(RedSettings { limits, ..red })),
        Settings::Fred(fred) => Settings::Fred(given.fred(FredSettings { limits, ..fred })),
        Settings::CoDel(codel) => Settings::CoDel(given.codel(CoDelSettings { limits, ..codel })),
        Settings::FqCoDel(fq) => {
            let codel = given.codel(CoDelSettings { limits, ..fq.codel });
            Settings::FqCoDel(FqCoDelSettings {
                codel,
                queues: given.integer("queues", 1..=MAX_QUEUES).unwrap_or(fq.queues),
                quantum: given.integer("quantum", MIN_QUANTUM..=MAX_QUANTUM).unwrap_or(fq.quantum),
            })
        }
        Settings::Pie(pie) => Settings::Pie(given.pie(PieSettings { limits, ..pie })),
        Settings::Trunk(trunk) => Settings::Trunk(given.trunk(TrunkSettings { limits, ..trunk })),
    }
}

/// The parameters in a table that its discipline has.
struct Given<'d> {
    place: Place<'d>,
    word: &'static str,
    fields: Vec<(&'static str, Field<'d>)>,
}

impl<'d> Given<'d> {
    fn red(&self, red: RedSettings) -> RedSettings {
        let unit = self
            .field("unit")
            .and_then(|field| field.word(&[("bytes", Unit::Bytes), ("packets", Unit::Segments)]));
        let unit = unit.unwrap_or(red.unit);
        let threshold = |key| {
            let field = self.field(key)?;
            match unit {
                Unit::Bytes => size(field, 1..=MAX_BYTES),
                Unit::Segments => field.integer(1..=MAX_PACKETS).map(u64::from),
            }
        };
        let holds = match unit {
            Unit::Bytes => red.limits.bytes,
            Unit::Segments => red.limits.segments.into(),
        };
        let given = (threshold("min"), threshold("max"));
        // The defaults are in bytes.
        if unit == Unit::Segments {
            for key in ["min", "max"] {
                if self.field(key).is_none() {
                    self.place
                        .report(format!("{key} is missing"), "min and max where the unit is \"packets\"");
                }
            }
        }
        let red = RedSettings {
            unit,
            min: given.0.unwrap_or(red.min),
            max: given.1.unwrap_or(red.max),
            max_p: self.probability("max_p").unwrap_or(red.max_p),
            weight: self.probability("weight").unwrap_or(red.weight),
            gentle: self.boolean("gentle").unwrap_or(red.gentle),
            ecn: self.boolean("ecn").unwrap_or(red.ecn),
            ..red
        };
        let readable = |key, value: Option<u64>| self.field(key).is_none() || value.is_some();
        let complete = unit == Unit::Bytes || (given.0.is_some() && given.1.is_some());
        if complete && readable("min", given.0) && readable("max", given.1) {
            self.check_thresholds(red.min, red.max, holds);
        }
        red
    }

    fn fred(&self, fred: FredSettings) -> FredSettings {
        let threshold = |key| self.integer(key, 1..=MAX_PACKETS);
        let given = (threshold("min"), threshold("max"));
        let fred = FredSettings {
            min: given.0.unwrap_or(fred.min),
            max: given.1.unwrap_or(fred.max),
            max_p: self.probability("max_p").unwrap_or(fred.max_p),
            weight: self.probability("weight").unwrap_or(fred.weight),
            min_flow: self.integer("min_flow", 1..=MAX_PACKETS).unwrap_or(fred.min_flow),
            ecn: self.boolean("ecn").unwrap_or(fred.ecn),
            ..fred
        };
        let readable = |key, value: Option<u32>| self.field(key).is_none() || value.is_some();
        if readable("min", given.0) && readable("max", given.1) {
            self.check_thresholds(fred.min.into(), fred.max.into(), fred.limits.segments.into());
        }
        fred
    }

    fn codel(&self, codel: CoDelSettings) -> CoDelSettings {
        let codel = CoDelSettings {
            target: self.duration("target", SHORTEST..=LONGEST).unwrap_or(codel.target),
            interval: self.duration("interval", SHORTEST..=LONGEST).unwrap_or(codel.interval),
            ecn: self.boolean("ecn").unwrap_or(codel.ecn),
            ..codel
        };
        if codel.target >= codel.interval {
            self.place.report(
                format!("target {:?} is not below interval {:?}", codel.target, codel.interval),
                "an interval of about a round trip and a target of 5 to 10 % of it",
            );
        }
        codel
    }

    fn pie(&self, pie: PieSettings) -> PieSettings {
        PieSettings {
            target: self.duration("target", SHORTEST..=LONGEST).unwrap_or(pie.target),
            update: self.duration("update", Duration::from_millis(1)..=LONGEST).unwrap_or(pie.update),
            burst: self.duration("burst", Duration::ZERO..=LONGEST).unwrap_or(pie.burst),
            ecn: self.boolean("ecn").unwrap_or(pie.ecn),
            ..pie
        }
    }

    fn trunk(&self, trunk: TrunkSettings) -> TrunkSettings {
        let threshold = self
            .field("threshold")
            .and_then(|field| field.number("a number from 0, below 1", |value| (0.0..1.0).contains(&value)));
        TrunkSettings {
            auto_size: self.boolean("sized").unwrap_or(trunk.auto_size),
            early_drop: self.boolean("early").unwrap_or(trunk.early_drop),
            drop_holdoff: self.boolean("spares").unwrap_or(trunk.drop_holdoff),
            threshold: threshold.unwrap_or(trunk.threshold),
            max_p: self.probability("max_p").unwrap_or(trunk.max_p),
            ecn: self.boolean("ecn").unwrap_or(trunk.ecn),
            ..trunk
        }
    }

    /// `min` < `max` ≤ what the queue holds, without which the discipline never comes to act.
    fn check_thresholds(&self, min: u64, max: u64, holds: u64) {
        if min >= max {
            self.place.report(format!("min {min} is not below max {max}"), "a min below max");
        } else if max > holds {
            self.place.report(
                format!("max {max} is more than the queue holds, {holds}"),
                "a max within packets and bytes",
            );
        }
    }

    fn field(&self, key: &str) -> Option<&Field<'d>> {
        self.fields.iter().find(|(known, _)| *known == key).map(|(_, field)| field)
    }

    fn boolean(&self, key: &str) -> Option<bool> {
        self.field(key)?.boolean()
    }

    fn integer(&self, key: &str, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        self.field(key)?.integer(range)
    }

    fn probability(&self, key: &str) -> Option<f64> {
        self.field(key)?.number("a number above 0, at most 1", |value| value > 0.0 && value <= 1.0)
    }

    fn duration(&self, key: &str, range: std::ops::RangeInclusive<Duration>) -> Option<Duration> {
        let allowed = format!("{:?} to {:?}, {}", range.start(), range.end(), values::DURATION);
        self.field(key)?.parse(&allowed, |text| {
            let duration = values::duration(text)?;
            if range.contains(&duration) { Ok(duration) } else { Err(format!("{text} is out of range")) }
        })
    }
}

fn size(field: &Field<'_>, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    if field.is_integer() {
        return field.integer(range);
    }
    let bytes = field.parse(values::SIZE, values::size)?;
    if range.contains(&bytes) {
        return Some(bytes);
    }
    let octets = |bytes: u64| match bytes {
        bytes if bytes >= 1 << 30 => format!("{}GiB", bytes >> 30),
        bytes if bytes >= 1 << 10 => format!("{}KiB", bytes >> 10),
        bytes => bytes.to_string(),
    };
    field.place().report(
        format!("{bytes} octets are out of range"),
        format!("{} to {}", octets(*range.start()), octets(*range.end())),
    );
    None
}
