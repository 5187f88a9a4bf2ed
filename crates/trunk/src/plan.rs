use std::fmt;
use std::sync::Arc;

use trunkline_units::Rate;

use crate::compress::Compression;
use crate::path::PathSettings;
use crate::{ClassSettings, LaneControl, Over};

/// Who chooses the congestion control of a group's lanes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// Nobody after the connection was opened: a lane keeps the one it has then.
    #[default]
    AsOpened,
    /// Each lane for itself: one that ignores losses if its path loses packets without being full, else the usual.
    ByPath,
    /// The plan, by this name.
    Named(Arc<str>),
}

impl CongestionControl {
    /// The name of the congestion control that connections have before the plan is applied to them.
    pub fn initial(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::ByPath | Self::AsOpened => LaneControl::USUAL_CONGESTION_CONTROL,
        }
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AsOpened => "as opened",
            Self::ByPath => "auto",
            Self::Named(name) => name,
        })
    }
}

/// What the lanes of a group are. Crate `trunk` passes it on to their owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A byte stream that repairs losses and keeps order (TCP).
    #[default]
    Tcp,
    /// Congestion-controlled datagrams or streams (QUIC, RFC 9221, RFC 9000), as [`Delivery`] says.
    Quic,
    /// Either: QUIC where the path carries it, else TCP.
    Auto,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Tcp => "tcp",
            Transport::Quic => "quic",
            Transport::Auto => "auto",
        })
    }
}

/// How lanes over QUIC deliver what they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// In datagrams that are never retransmitted: what is lost stays lost, and delays nothing.
    #[default]
    Datagram,
    /// In streams: nothing is lost, and a loss delays its own flow only.
    Reliable,
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Delivery::Datagram => "datagram",
            Delivery::Reliable => "reliable",
        })
    }
}

/// Lanes that classes share: a number of connections with the same settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneGroup {
    /// The name both sites know it by.
    pub name: Arc<str>,
    /// Lanes in it, on all paths; each flow keeps to one of them.
    pub lanes: u8,
    /// Whether only one of them takes packets, and on a path that loses some without being full as many as it holds packets for. Of lanes
    /// that go [by their path](CongestionControl::ByPath).
    pub adaptive: bool,
    /// The congestion control of each lane.
    pub congestion_control: CongestionControl,
    /// DSCP of the lanes' own packets, 0 to 63.
    pub dscp: u8,
    /// Whether the lanes compress headers.
    pub compression: Compression,
    /// What the lanes are.
    pub transport: Transport,
    /// How those over QUIC deliver.
    pub delivery: Delivery,
}

impl LaneGroup {
    /// A group of so many lanes with their connections' own congestion control, DSCP 0 and no header compression.
    pub fn new(name: &str, lanes: u8) -> Self {
        LaneGroup {
            name: name.into(),
            lanes,
            adaptive: false,
            congestion_control: CongestionControl::default(),
            dscp: 0,
            compression: Compression::Off,
            transport: Transport::Tcp,
            delivery: Delivery::Datagram,
        }
    }

    /// Its lanes on each of so many paths, if it has these on one.
    pub const fn lanes_on_each(&self, paths: usize) -> u8 {
        if paths > 1 && self.adaptive { 1 } else { self.lanes }
    }

    /// Whether its lanes deliver all that they take, whichever transport they ride on.
    pub fn is_reliable(&self) -> bool {
        self.transport == Transport::Tcp || self.delivery == Delivery::Reliable
    }
}

/// The settings of one direction of a trunk.
#[derive(Debug, Clone, PartialEq)]
pub struct TrunkPlan {
    /// The classes, in the order in which they are tried; 1 to 16.
    pub classes: Vec<ClassSettings>,
    /// The groups of lanes; 1 to 32 lanes in all. The lanes of a group are those on the first path, then as many on the second, and
    /// so on.
    pub groups: Vec<LaneGroup>,
    /// The paths, if there are several; empty: one.
    pub paths: Vec<PathSettings>,
    /// Whether a ceiling on each lane's pacing keeps its queue at the edge.
    pub edge_pacing: bool,
    /// The rate that the network has reserved for the trunk: path control goes no lower. Of a plan with edge pacing, on one path.
    pub reserved: Option<Rate>,
}

impl TrunkPlan {
    /// The lanes of an adaptive group.
    pub const ADAPTIVE_LANES: u8 = 4;
    /// The lanes of one whose packets are sent twice, unless it has more.
    pub const REPLICATING_LANES: u8 = 2;
    /// The maximum number of classes.
    pub const MAX_CLASSES: usize = 16;
    /// The maximum number of lanes of all groups together.
    pub const MAX_LANES: usize = 32;
    /// The maximum number of edge queues: the lanes of each class, those that it shares included.
    pub const MAX_EDGE_QUEUES: usize = 256;
    /// The maximum number of paths to a peer.
    pub const MAX_PATHS: usize = 4;

    /// A plan for one path without edge pacing.
    pub const fn new(classes: Vec<ClassSettings>, groups: Vec<LaneGroup>) -> Self {
        TrunkPlan { classes, groups, paths: Vec::new(), edge_pacing: false, reserved: None }
    }

    /// The same, of a plan for one path, on several: each group has on each of them as many lanes as it has here, and one if it is
    /// adaptive.
    #[must_use]
    pub fn on_paths(&self, paths: Vec<PathSettings>) -> Self {
        let mut plan = TrunkPlan { paths, ..self.clone() };
        let count = plan.path_count() as u8;
        for group in &mut plan.groups {
            group.lanes = group.lanes_on_each(count.into()).saturating_mul(count);
            group.adaptive &= count == 1;
        }
        plan
    }

    /// How many lanes and edge queues a plan for one path has on several.
    pub fn counts_on_paths(&self, count: usize) -> (usize, usize) {
        let lanes = |group: &LaneGroup| usize::from(group.lanes_on_each(count));
        let of_classes = self.classes.iter().filter_map(|class| self.groups.get(class.group).map(lanes));
        (self.groups.iter().map(lanes).sum::<usize>() * count, of_classes.sum::<usize>() * count)
    }

    /// Whether a plan for one path can have so many.
    pub fn fits_paths(&self, count: usize) -> bool {
        let (lanes, edge_queues) = self.counts_on_paths(count);
        count <= Self::MAX_PATHS && lanes <= Self::MAX_LANES && edge_queues <= Self::MAX_EDGE_QUEUES
    }

    /// How many paths there are; at least one.
    pub fn path_count(&self) -> usize {
        self.paths.len().max(1)
    }

    /// The path of a lane, and its place among the lanes of its group on this path.
    ///
    /// # Panics
    /// If no group has the lane.
    pub fn path_of(&self, lane: LaneId) -> (u8, u8) {
        let (group, number) = self.group_of(lane);
        let on_each = group.lanes / self.path_count() as u8;
        (number / on_each, number % on_each)
    }

    /// The lane of a group, by the group's name, in this place on a path.
    pub fn lane(&self, group: &str, path: u8, place: u8) -> Option<LaneId> {
        let at = self.groups.iter().position(|candidate| &*candidate.name == group)?;
        let on_each = self.groups[at].lanes / self.path_count() as u8;
        let exists = usize::from(path) < self.path_count() && place < on_each;
        exists.then(|| LaneId(self.lanes(at).start + path * on_each + place))
    }

    /// Each class with lanes of its own, one each.
    pub fn one_lane_per_class(mut classes: Vec<ClassSettings>) -> Self {
        let groups = classes.iter().map(|class| LaneGroup::new(&class.name, 1)).collect();
        classes.iter_mut().enumerate().for_each(|(group, class)| class.group = group);
        TrunkPlan::new(classes, groups)
    }

    /// The lanes of each group, by their ids.
    pub fn lanes(&self, group: usize) -> std::ops::Range<u8> {
        let before: u8 = self.groups[..group].iter().map(|group| group.lanes).sum();
        before..before + self.groups[group].lanes
    }

    /// Edge queues of all classes together.
    pub fn edge_queue_count(&self) -> usize {
        self.classes
            .iter()
            .map(|class| self.groups.get(class.group).map_or(0, |group| usize::from(group.lanes)))
            .sum()
    }

    /// Lanes of all groups together.
    pub fn lane_count(&self) -> usize {
        self.groups.iter().map(|group| usize::from(group.lanes)).sum()
    }

    /// The group of a lane and its number in it.
    ///
    /// # Panics
    /// If no group has the lane.
    pub fn group_of(&self, lane: LaneId) -> (&LaneGroup, u8) {
        let mut first = 0;
        for group in &self.groups {
            if lane.0 < first + group.lanes {
                return (group, lane.0 - first);
            }
            first += group.lanes;
        }
        panic!("{lane:?} is in no group of {:?}", self.groups)
    }

    pub(crate) fn check(&self) {
        let lanes = self.lane_count();
        assert!(
            (1..=Self::MAX_CLASSES).contains(&self.classes.len())
                && (1..=Self::MAX_LANES).contains(&lanes)
                && self.edge_queue_count() <= Self::MAX_EDGE_QUEUES
                && self.path_count() <= Self::MAX_PATHS
                && self.groups.iter().all(|group| {
                    group.lanes > 0 && usize::from(group.lanes).is_multiple_of(self.path_count())
                })
                && self.classes.iter().all(|class| class.group < self.groups.len())
                && self.classes.iter().filter_map(|class| class.admission).all(|admission| {
                    !matches!(admission.over, Over::Class(class) if class.index() >= self.classes.len())
                }),
            "no plan of a trunk: {self:?}"
        );
    }
}

/// The place of a lane in a transmitter: the lanes of the first group, then those of the second, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u8);

impl LaneId {
    /// The place as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The lanes of a set, a bit each, the first one first.
    pub fn of_set(mut set: u32) -> impl Iterator<Item = LaneId> {
        std::iter::from_fn(move || {
            let lane = (set != 0).then(|| LaneId(set.trailing_zeros() as u8))?;
            set &= set - 1;
            Some(lane)
        })
    }
}
