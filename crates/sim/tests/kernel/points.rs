//! What is compared: dumbbells, named by what they are.

use serde::{Deserialize, Serialize};
use trunkline_queue::{CoDelSettings, FqCoDelSettings, Limits, RedSettings, Settings, TrunkSettings, Unit};

/// A dumbbell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// `reno`, `cubic` or `bbr`.
    pub(crate) congestion_control: String,
    /// Of the bottleneck.
    pub(crate) rate_mbit: f64,
    /// Propagation there and back.
    pub(crate) round_trip_ms: f64,
    /// Room in front of the bottleneck.
    pub(crate) queue_packets: u32,
    /// What fills it.
    #[serde(default)]
    pub(crate) discipline: Discipline,
    /// Behind the bottleneck.
    pub(crate) loss_percent: f64,
    /// A tenth of a second from the start of one to that of the next.
    pub(crate) flows: u32,
    /// From the start of the first flow to that of the window.
    pub(crate) lead_in_s: f64,
    /// The window.
    pub(crate) window_s: f64,
    /// Selective acknowledgements.
    #[serde(default = "on")]
    pub(crate) sack: bool,
    /// Timestamps.
    #[serde(default = "on")]
    pub(crate) timestamps: bool,
    /// Explicit congestion notification.
    #[serde(default)]
    pub(crate) ecn: bool,
    /// Super-packets.
    #[serde(default)]
    pub(crate) tso: bool,
}

/// A queue discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Discipline {
    #[default]
    TailDrop,
    /// The average may be 15 to 45 packets.
    Red,
    Codel,
    FqCodel,
    /// P2 and P3.
    Trunk,
}

impl Discipline {
    fn settings(self, limits: Limits) -> Settings {
        match self {
            Discipline::TailDrop => Settings::TailDrop(limits),
            Discipline::Red => Settings::Red(RedSettings {
                limits,
                unit: Unit::Segments,
                min: 15,
                max: 45,
                max_p: 0.05,
                ..RedSettings::default()
            }),
            Discipline::Codel => Settings::CoDel(CoDelSettings { limits, ..CoDelSettings::default() }),
            Discipline::FqCodel => Settings::FqCoDel(FqCoDelSettings {
                codel: CoDelSettings { limits, ..CoDelSettings::default() },
                ..FqCoDelSettings::default()
            }),
            Discipline::Trunk => {
                Settings::Trunk(TrunkSettings { limits, auto_size: false, ..TrunkSettings::default() })
            }
        }
    }
}

fn on() -> bool {
    true
}

impl Point {
    /// Of each socket on the kernel, in its accounting. `NewReno` sends new data for as long as it repairs, a segment each
    /// round trip, and the receiver has to keep it all: with less, the kernel drops what it had accepted (`tcp_prune_queue`).
    pub(crate) fn buffer_bytes(&self) -> u64 {
        if self.sack { 6 << 20 } else { 60 << 20 }
    }

    /// The queue in front of the bottleneck.
    pub(crate) fn queue(&self) -> Settings {
        self.discipline.settings(Limits { segments: self.queue_packets, bytes: u64::MAX })
    }

    /// As people read it.
    pub(crate) fn name(&self) -> String {
        let sack = if self.sack { "" } else { " no SACK" };
        let timestamps = if self.timestamps { "" } else { " no timestamps" };
        let ecn = if self.ecn { " ECN" } else { "" };
        let tso = if self.tso { " TSO" } else { "" };
        let discipline = match self.discipline {
            Discipline::TailDrop => String::new(),
            other => format!(" {}", other.settings(Limits::default()).description().word),
        };
        format!(
            "{} {} Mbit/s {} ms {} packets {} % x{}{sack}{timestamps}{discipline}{ecn}{tso}",
            self.congestion_control,
            self.rate_mbit,
            self.round_trip_ms,
            self.queue_packets,
            self.loss_percent,
            self.flows
        )
    }
}

/// Rate, round trip, packets of queue, loss, flows: queues of half, one and two bandwidth-delay products.
const PATHS: [(f64, f64, u32, f64, u32); 16] = [
    (2.0, 40.0, 14, 0.0, 1),
    (2.0, 120.0, 20, 1.0, 1),
    (2.0, 120.0, 10, 0.0, 4),
    (10.0, 10.0, 17, 0.0, 1),
    (10.0, 40.0, 33, 0.0, 1),
    (10.0, 40.0, 17, 0.1, 1),
    (10.0, 40.0, 33, 3.0, 1),
    (10.0, 40.0, 67, 0.0, 4),
    (10.0, 120.0, 50, 0.0, 1),
    (10.0, 120.0, 100, 1.0, 4),
    (30.0, 10.0, 25, 1.0, 1),
    (30.0, 40.0, 100, 0.1, 1),
    (30.0, 40.0, 50, 0.0, 4),
    (30.0, 40.0, 100, 0.0, 1),
    (30.0, 120.0, 300, 0.0, 1),
    (30.0, 120.0, 150, 0.1, 4),
];

/// All of them, with either congestion control.
pub(crate) fn grid() -> Vec<Point> {
    PATHS.iter().flat_map(|path| ["cubic", "reno"].map(|name| point(name, *path))).collect()
}

/// Those of one flow without chance, at 10 Mbit/s and more and up to 40 ms: a few seconds say as much as a minute.
pub(crate) fn few() -> Vec<Point> {
    let certain = |point: &Point| {
        let near = point.rate_mbit >= 10.0 && point.round_trip_ms <= 40.0;
        near && point.loss_percent == 0.0 && point.flows == 1
    };
    grid().into_iter().filter(certain).collect()
}

/// One Reno flow without SACK over 10 Mbit/s and a queue of 50 packets, at round trips from 10 to 400 ms, with and without
/// timestamps: what is lost is found by duplicates alone, and repaired a segment each round trip.
pub(crate) fn without_sack() -> Vec<Point> {
    let delays = [10.0, 40.0, 100.0, 200.0, 400.0];
    let one = |(delay, timestamps)| Point {
        window_s: 115.0,
        sack: false,
        timestamps,
        ..point("reno", (10.0, delay, 50, 0.0, 1))
    };
    delays.into_iter().flat_map(|delay| [(delay, true), (delay, false)]).map(one).collect()
}

/// Marks in place of losses: each discipline that can mark, one flow and four.
pub(crate) fn ecn() -> Vec<Point> {
    let paths = [(10.0, 40.0, 100, 0.0, 1), (10.0, 40.0, 100, 0.0, 4), (30.0, 100.0, 300, 0.0, 4)];
    let disciplines = [Discipline::Red, Discipline::Codel, Discipline::FqCodel, Discipline::Trunk];
    let of = |path, discipline, name| Point { discipline, ecn: true, window_s: 45.0, ..point(name, path) };
    paths
        .into_iter()
        .flat_map(|path| disciplines.map(|discipline| (path, discipline)))
        .flat_map(|(path, discipline)| ["cubic", "reno"].map(|name| of(path, discipline, name)))
        .collect()
}

/// With segmentation offload and without, where a super-packet is two or three segments.
pub(crate) fn tso() -> Vec<Point> {
    with_and_without(&[(10.0, 40.0, 33, 0.0, 1), (30.0, 40.0, 50, 0.0, 4)], 25.0)
}

/// The same where one is ten, for a machine that does nothing else.
pub(crate) fn fast_tso() -> Vec<Point> {
    with_and_without(&[(100.0, 40.0, 100, 0.0, 1), (100.0, 40.0, 333, 0.0, 1)], 10.0)
}

fn with_and_without(paths: &[(f64, f64, u32, f64, u32)], window_s: f64) -> Vec<Point> {
    let of = |path, name, tso| Point { window_s, tso, ..point(name, path) };
    paths
        .iter()
        .flat_map(|path| ["cubic", "reno"].map(|name| (*path, name)))
        .flat_map(|(path, name)| [false, true].map(|tso| of(path, name, tso)))
        .collect()
}

fn point(congestion_control: &str, path: (f64, f64, u32, f64, u32)) -> Point {
    let (rate_mbit, round_trip_ms, queue_packets, loss_percent, flows) = path;
    Point {
        congestion_control: congestion_control.to_owned(),
        rate_mbit,
        round_trip_ms,
        queue_packets,
        discipline: Discipline::TailDrop,
        loss_percent,
        flows,
        lead_in_s: 5.0,
        // Long enough for losses by chance to be about as many as they should be.
        window_s: if loss_percent > 0.0 { 100.0 } else { 25.0 },
        sack: true,
        timestamps: true,
        ecn: false,
        tso: false,
    }
}
