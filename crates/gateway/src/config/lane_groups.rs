//! Which lanes there are: classes that name the same `lane` ride on the same ones.
//!
//! How many lanes, their congestion control and their code point belong to the lanes, not to a class. Any class
//! on them may say so, and those that do must agree. One code point a lane: a TCP connection whose packets are
//! treated differently on their way is reordered, and reordering reads as loss (RFC 9484 §10.3).

use std::fmt::Display;

use super::reader::{Field, Place};
use super::{LaneGroupConfig, LanesConfig, MAX_LANES};

/// A value and where it was given.
pub(super) struct Said<'d, T> {
    pub(super) value: T,
    pub(super) place: Place<'d>,
}

impl<'d, T> Said<'d, T> {
    /// What `read` makes of a field.
    pub(super) fn of(field: Option<Field<'d>>, read: impl FnOnce(&Field<'d>) -> Option<T>) -> Option<Self> {
        let field = field?;
        Some(Self { value: read(&field)?, place: field.place().clone() })
    }
}

/// What one class says of the lanes it rides on.
pub(super) struct Ride<'d> {
    /// The name of the lanes.
    pub(super) lane: String,
    /// The class.
    pub(super) class: String,
    pub(super) count: Option<Said<'d, u8>>,
    pub(super) congestion_control: Option<Said<'d, String>>,
    pub(super) dscp: Option<Said<'d, u8>>,
    /// Where the class stands.
    pub(super) place: Place<'d>,
}

/// The groups of lanes in the order of their first classes, and of which of them each class is.
pub(super) fn join<'r, 'd: 'r>(
    rides: impl Iterator<Item = &'r Ride<'d>>,
    lanes: &LanesConfig,
) -> (Vec<LaneGroupConfig>, Vec<usize>) {
    let mut groups: Vec<Vec<&Ride<'d>>> = Vec::new();
    let mut memberships = Vec::new();
    for ride in rides {
        let group = groups.iter().position(|members| members[0].lane == ride.lane);
        let group = group.unwrap_or_else(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(ride);
        memberships.push(group);
    }
    let resolved: Vec<_> = groups.iter().map(|members| resolve(members, lanes)).collect();
    let mut total = 0;
    for (group, members) in resolved.iter().zip(&groups) {
        let before = total;
        total += usize::from(group.count);
        if before <= MAX_LANES && total > MAX_LANES {
            members[0].place.report(
                format!("makes {total} lanes to each peer in each shard"),
                format!("at most {MAX_LANES} in all classes together"),
            );
        }
    }
    (resolved, memberships)
}

fn resolve(members: &[&Ride<'_>], lanes: &LanesConfig) -> LaneGroupConfig {
    let congestion_control = agreed(members, |ride| ride.congestion_control.as_ref());
    LaneGroupConfig {
        name: members[0].lane.clone(),
        count: agreed(members, |ride| ride.count.as_ref()).unwrap_or(1),
        congestion_control: congestion_control.unwrap_or_else(|| lanes.congestion_control.clone()),
        dscp: agreed(members, |ride| ride.dscp.as_ref()).unwrap_or(0),
    }
}

/// What those who say anything say.
fn agreed<'r, 'd: 'r, T: Clone + PartialEq + Display + 'r>(
    members: &[&'r Ride<'d>],
    said: impl Fn(&'r Ride<'d>) -> Option<&'r Said<'d, T>>,
) -> Option<T> {
    let mut sayings = members.iter().filter_map(|ride| Some((ride, said(ride)?)));
    let (first, agreed) = sayings.next()?;
    for (_, other) in sayings.filter(|(_, other)| other.value != agreed.value) {
        other.place.report(
            format!("is {}, but class {:?} on the same lanes has {}", other.value, first.class, agreed.value),
            "the same in all classes of a lane, or in one of them only",
        );
    }
    Some(agreed.value.clone())
}
