//! Values that are either a scalar or a table, with the errors of the one that was written.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, Visitor};

/// One or the other.
#[derive(Debug)]
pub enum Either<S, T> {
    /// A text, a number or a switch.
    Scalar(S),
    /// A table.
    Table(T),
}

struct Both<S, T>(PhantomData<(S, T)>);

impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Visitor<'de> for Both<S, T> {
    type Value = Either<S, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a table")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        S::deserialize(text.into_deserializer()).map(Either::Scalar)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        S::deserialize(value.into_deserializer()).map(Either::Scalar)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        S::deserialize(number.into_deserializer()).map(Either::Scalar)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        S::deserialize(number.into_deserializer()).map(Either::Scalar)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        S::deserialize(number.into_deserializer()).map(Either::Scalar)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Either::Table)
    }
}

impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Deserialize<'de> for Either<S, T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Both(PhantomData))
    }
}
