//! Checks of settings, before anything runs.

mod proxy;
mod traffic;
mod trunk;

use std::borrow::Cow;
use std::fmt::Debug;

use trunkline_units::check::{self, join};

use crate::NodeId;

/// What is wrong with settings. The place is a path through them, such as `changes[2].impairments.loss`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A value that cannot be.
    #[error("{place} is {value}; allowed: {allowed}")]
    Value {
        /// Where.
        place: String,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: Cow<'static, str>,
    },
    /// One of several that must be in order, and is not.
    #[error("{place} is at {value}, before the one ahead of it; allowed: in order of time")]
    Order {
        /// Where.
        place: String,
        /// When it is.
        value: String,
    },
    /// A node where it must not be.
    #[error("{place}: node {} ({}) {problem}", node.index(), node.address())]
    Node {
        /// Where.
        place: String,
        /// Which.
        node: NodeId,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Settings of a TCP.
    #[error("{place}.{error}")]
    Tcp {
        /// Where.
        place: String,
        /// What is wrong with them.
        error: trunkline_tcp::SettingsError,
    },
}

impl SettingsError {
    /// The same, in settings that are a part of others: `place` is put before it.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        let (SettingsError::Value { place, .. }
        | SettingsError::Order { place, .. }
        | SettingsError::Node { place, .. }
        | SettingsError::Tcp { place, .. }) = &mut self;
        *place = join(outer, place);
        self
    }
}

impl From<trunkline_units::SettingsError> for SettingsError {
    fn from(error: trunkline_units::SettingsError) -> Self {
        use trunkline_units::SettingsError as Of;
        match error {
            Of::Value { place, value, allowed } => SettingsError::Value { place, value, allowed },
            Of::Order { place, value } => SettingsError::Order { place, value },
        }
    }
}

type Checked = Result<(), SettingsError>;

fn ensure(holds: bool, place: &str, value: impl Debug, allowed: &'static str) -> Checked {
    Ok(check::ensure(holds, place, value, allowed)?)
}

fn tcp(place: &str, settings: &trunkline_tcp::Settings) -> Checked {
    settings.check().map_err(|error| SettingsError::Tcp { place: place.to_owned(), error })
}

fn dscp(value: u8) -> Checked {
    ensure(value < 64, "dscp", value, "0 to 63")
}
