//! Checks of a queue.

use trunkline_queue::{Settings, Value};

use trunkline_units::SettingsError;
use trunkline_units::check::ensure;

/// Whether a queue of this discipline can work with these settings.
pub fn queue(settings: &Settings) -> Result<(), SettingsError> {
    let limits = settings.limits();
    ensure(limits.segments > 0, "limits.segments", limits.segments, "1 or more")?;
    ensure(limits.bytes > 0, "limits.bytes", limits.bytes, "1 or more bytes")?;
    let description = settings.description();
    let value = |key: &str| description.parameter(key).and_then(|parameter| parameter.get(settings));
    let refuse = |key: &str, allowed: String| {
        let value = value(key).map(shown).unwrap_or_default();
        Err(SettingsError::Value { place: key.to_owned(), value, allowed: allowed.into() })
    };
    for parameter in description.parameters {
        if value(parameter.key).is_some_and(|value| !parameter.range.takes(value)) {
            return refuse(parameter.key, parameter.range.to_string());
        }
    }
    settings.conflict().map_or(Ok(()), |conflict| refuse(conflict.key, conflict.allowed.to_owned()))
}

fn shown(value: Value) -> String {
    match value {
        Value::Switch(on) => format!("{on:?}"),
        Value::Count(count) | Value::Bytes(count) => format!("{count:?}"),
        Value::Time(time) => format!("{time:?}"),
        Value::Number(number) => format!("{number:?}"),
    }
}
