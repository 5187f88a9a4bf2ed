//! Which lanes there are: classes that name the same `lane_group` ride on the same ones.
//!
//! How many lanes, their congestion control and their code point belong to the lanes, not to a class. Any class on them may say so,
//! and those that do must agree. One code point a lane: a TCP connection whose packets are treated differently on their way is
//! reordered, and reordering reads as loss (RFC 9484 §10.3).

use std::fmt::Display;

use trunkline_trunk::compress::Compression;
use trunkline_trunk::{CongestionControl, Delivery, LaneGroup, Transport, TrunkPlan};

use super::{MAX_LANES, Resolver};
use crate::words::{CongestionControlName, LaneCount};
use crate::{At, ClassSpec};

impl Resolver<'_> {
    /// The groups of lanes in the order of their first classes, and of which of them each class is.
    pub(super) fn groups(
        &self,
        at: &At<'_>,
        specs: &[ClassSpec],
        default: &CongestionControl,
    ) -> (Vec<LaneGroup>, Vec<usize>) {
        let mut groups: Vec<Vec<(usize, &ClassSpec)>> = Vec::new();
        let mut memberships = Vec::new();
        for ride in specs.iter().enumerate() {
            let same = |members: &Vec<(usize, &ClassSpec)>| members[0].1.lane_group() == ride.1.lane_group();
            let group = groups.iter().position(same).unwrap_or_else(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(ride);
            memberships.push(group);
        }
        let resolved: Vec<_> = groups.iter().map(|members| self.group(at, members, default)).collect();
        let mut total = 0;
        for (group, members) in resolved.iter().zip(&groups) {
            let before = total;
            total += usize::from(group.lanes);
            if before <= MAX_LANES && total > MAX_LANES {
                at.index(members[0].0).report(
                    format!("makes {total} lanes to each peer in each shard"),
                    format!("at most {MAX_LANES} in all classes together"),
                );
            }
        }
        let queues: usize = memberships.iter().map(|group| usize::from(resolved[*group].lanes)).sum();
        if total <= MAX_LANES && queues > TrunkPlan::MAX_EDGE_QUEUES {
            at.report(
                format!("make {queues} edge queues, one for each class and each lane that it rides on"),
                format!(
                    "at most {}: fewer classes on a lane group of many lanes",
                    TrunkPlan::MAX_EDGE_QUEUES
                ),
            );
        }
        (resolved, memberships)
    }

    fn group(&self, at: &At<'_>, members: &[(usize, &ClassSpec)], default: &CongestionControl) -> LaneGroup {
        for (place, spec) in members {
            if let Some(LaneCount::Number(lanes)) = spec.lanes
                && !(1..=self.max_lanes.into()).contains(&lanes)
            {
                at.index(*place).key("lanes").refuse(format!("1 to {}, or \"auto\"", self.max_lanes));
            }
        }
        let lanes = agreed(at, members, "lanes", |spec| spec.lanes);
        let replicates = members.iter().any(|(_, spec)| spec.replicate == Some(true));
        let (lanes, most) = match lanes {
            None if replicates => (LaneCount::Auto, TrunkPlan::REPLICATING_LANES),
            lanes => (lanes.unwrap_or(LaneCount::Number(1)), TrunkPlan::ADAPTIVE_LANES),
        };
        let control = agreed(at, members, "congestion_control", |spec| {
            spec.congestion_control.as_ref().map(|name| name.0.clone())
        });
        let dscp = agreed(at, members, "dscp", |spec| spec.dscp.map(|dscp| dscp.0));
        let transport = agreed(at, members, "transport", |spec| spec.transport.map(Transport::from));
        let transport = transport.unwrap_or_default();
        let delivery = agreed(at, members, "delivery", |spec| spec.delivery.map(Delivery::from));
        if replicates {
            check_replication(at, members, lanes, transport);
        }
        if transport == Transport::Tcp {
            refuse_delivery(at, members);
        } else {
            self.check_quic(at, members, delivery.unwrap_or_default());
        }
        let congestion_control =
            control.map_or_else(|| default.clone(), |name| named(&CongestionControlName(name)));
        // Lanes of another one do not learn what the path loses.
        let adaptive = lanes == LaneCount::Auto && congestion_control == CongestionControl::ByPath;
        // Lanes compress headers unless a class that rides on them is not to have it.
        let compresses = transport == Transport::Tcp
            && members.iter().all(|(_, spec)| spec.header_compression != Some(false));
        LaneGroup {
            name: members[0].1.lane_group().into(),
            lanes: match lanes {
                LaneCount::Number(lanes) if (1..=self.max_lanes.into()).contains(&lanes) => lanes as u8,
                LaneCount::Auto if adaptive => most,
                LaneCount::Number(_) | LaneCount::Auto => 1,
            },
            adaptive,
            congestion_control,
            dscp: dscp.unwrap_or(0),
            transport,
            delivery: delivery.unwrap_or_default(),
            compression: if compresses { Compression::On } else { Compression::Off },
        }
    }
}

impl Resolver<'_> {
    /// Lanes over QUIC compress no headers, and those that lose packets must not drop what is sent again because of that.
    fn check_quic(&self, at: &At<'_>, members: &[(usize, &ClassSpec)], delivery: Delivery) {
        for (place, spec) in members {
            let at = at.index(*place);
            if !self.either_transport && spec.transport == Some(crate::Transport::Auto) {
                let allowed = "\"tcp\" or \"quic\": each path here carries UDP";
                at.key("transport").report("is \"auto\"", allowed);
            }
            if spec.header_compression == Some(true) {
                at.key("header_compression").report(
                    "is true",
                    "false: lanes over QUIC compress no headers (transport is not \"tcp\")",
                );
            }
            if spec.retransmission_filter == Some(true) && delivery == Delivery::Datagram {
                at.key("retransmission_filter").report(
                    "is true",
                    "false: the class's lanes may be datagrams (transport is not \"tcp\"); or delivery = \"reliable\"",
                );
            }
        }
    }
}

/// Two lanes that deliver in order are needed.
fn check_replication(at: &At<'_>, members: &[(usize, &ClassSpec)], lanes: LaneCount, transport: Transport) {
    let asking = members.iter().filter(|(_, spec)| spec.replicate == Some(true));
    for (place, _) in asking {
        let at = at.index(*place).key("replicate");
        if lanes == LaneCount::Number(1) {
            at.report("is true, and the class has one lane", "at least 2 lanes, or no lanes");
        }
        if transport != Transport::Tcp {
            at.report(
                "is true, and the class's lanes are not all over TCP",
                "false, or transport = \"tcp\": over QUIC no packet waits for one of another flow",
            );
        }
    }
}

/// Only lanes over QUIC deliver in one way or another.
fn refuse_delivery(at: &At<'_>, members: &[(usize, &ClassSpec)]) {
    for (place, spec) in members {
        if spec.delivery.is_some() {
            at.index(*place).key("delivery").report(
                "is set, and the class's lanes are over TCP, which delivers everything",
                "no delivery, or transport = \"quic\" or \"auto\"",
            );
        }
    }
}

/// The congestion control that a name stands for.
pub(super) fn named(name: &CongestionControlName) -> CongestionControl {
    if name.is_auto() { CongestionControl::ByPath } else { CongestionControl::Named(name.0.as_str().into()) }
}

/// The value that those classes have who say any.
fn agreed<T: PartialEq + Display>(
    at: &At<'_>,
    members: &[(usize, &ClassSpec)],
    key: &str,
    said: impl Fn(&ClassSpec) -> Option<T>,
) -> Option<T> {
    let mut values = members.iter().filter_map(|(place, spec)| Some((place, spec, said(spec)?)));
    let (_, first, agreed) = values.next()?;
    for (place, _, other) in values.filter(|(.., other)| *other != agreed) {
        at.index(*place).key(key).report(
            format!("is {other}, but class {:?} on the same lanes has {agreed}", first.name.0),
            "the same in all classes of a lane group, or in one of them only",
        );
    }
    Some(agreed)
}
