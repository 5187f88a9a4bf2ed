//! Checks of settings, before anything runs.

use std::borrow::Cow;
use std::fmt::{self, Debug};

/// What is wrong with a value of settings. The place is a path through them, such as `changes[2].impairments.loss`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingsError {
    /// A value that cannot be.
    Value {
        /// Where.
        place: String,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: Cow<'static, str>,
    },
    /// One of several that must be in order, and is not.
    Order {
        /// Where.
        place: String,
        /// When it is.
        value: String,
    },
}

impl SettingsError {
    /// The same, in settings that are a part of others: `outer` is put before its place.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        let (SettingsError::Value { place, .. } | SettingsError::Order { place, .. }) = &mut self;
        *place = join(outer, place);
        self
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::Value { place, value, allowed } => {
                write!(f, "{place} is {value}; allowed: {allowed}")
            }
            SettingsError::Order { place, value } => {
                write!(f, "{place} is at {value}, before the one ahead of it; allowed: in order of time")
            }
        }
    }
}

impl std::error::Error for SettingsError {}

/// The path of `place` below `outer`.
pub fn join(outer: &str, place: &str) -> String {
    let dot = if place.is_empty() || place.starts_with('[') { "" } else { "." };
    format!("{outer}{dot}{place}")
}

/// An error that names `place`, `value` and what is `allowed`, unless the value `holds`.
pub fn ensure(
    holds: bool,
    place: &str,
    value: impl Debug,
    allowed: &'static str,
) -> Result<(), SettingsError> {
    if holds {
        return Ok(());
    }
    let (place, value) = (place.to_owned(), format!("{value:?}"));
    Err(SettingsError::Value { place, value, allowed: allowed.into() })
}

/// A probability is 0 to 1.
pub fn probability(place: &str, value: f64) -> Result<(), SettingsError> {
    ensure((0.0..=1.0).contains(&value), place, value, "0 to 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_place_through_all_settings_around_it() {
        let error = probability("loss", 1.5).map_err(|error| error.within("changes[2]").within("link"));
        assert_eq!(
            error.map_err(|error| error.to_string()),
            Err("link.changes[2].loss is 1.5; allowed: 0 to 1".to_owned())
        );
        assert_eq!(join("changes", "[1]"), "changes[1]");
        assert_eq!(join("stagger", ""), "stagger");
    }
}
