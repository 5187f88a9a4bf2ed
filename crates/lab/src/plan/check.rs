//! What the simulator or a TCP says of settings that were made of what is at a key.

use trunkline_schema::At;
use trunkline_sim::SettingsError;

/// Reports a mistake that is found in settings.
pub(super) trait Check {
    /// Reports it. `key` translates places in the settings into keys below this one.
    fn check<E: Into<SettingsError>>(&self, checked: Result<(), E>, key: impl Fn(&str) -> String);
}

impl Check for At<'_> {
    fn check<E: Into<SettingsError>>(&self, checked: Result<(), E>, key: impl Fn(&str) -> String) {
        let Err(error) = checked else { return };
        match error.into() {
            SettingsError::Value { place, value, allowed } => {
                self.refuse_value(&key(&place), &value, &allowed);
            }
            SettingsError::Order { place, .. } => {
                self.below(&key(&place)).report("is earlier than the one before it", "in order of time");
            }
            SettingsError::Node { place, problem, .. } => self.below(&key(&place)).report_plain(problem),
            SettingsError::Tcp { place, error } => {
                let place =
                    if place.is_empty() { error.key.to_owned() } else { format!("{place}.{}", error.key) };
                self.refuse_value(&key(&place), &error.value, error.allowed);
            }
        }
    }
}
