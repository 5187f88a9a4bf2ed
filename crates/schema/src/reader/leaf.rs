//! Types that are one value in a file: quantities, names, addresses.

use serde::de::DeserializeOwned;
use toml::Value;

use super::findings::brief;
use crate::quantity::{Amount, Rate, Share, Size, Time};

/// A type that is one value in a file. Its JSON Schema has a name of its own and a description, which is what messages say is allowed.
#[derive(Debug, Clone, Copy)]
pub struct Leaf {
    /// The name of its schema, which is what messages call it.
    pub(crate) name: &'static str,
    read: fn(&Value) -> Result<(), String>,
}

impl Leaf {
    /// The type `T`, whose schema is called `name`. What `T` says of a text that it refuses is `problem; allowed: what is allowed`.
    pub const fn new<T: DeserializeOwned>(name: &'static str) -> Self {
        Leaf { name, read: reads::<T> }
    }

    /// What is wrong with a value.
    pub(crate) fn problem(&self, value: &Value) -> Option<String> {
        let message = (self.read)(value).err()?;
        Some(match message.split_once("; allowed: ") {
            Some((problem, _)) => problem.to_owned(),
            None => format!("{} is no {}", brief(value), self.name),
        })
    }

    /// Whether a value is one.
    pub(crate) fn fits(&self, value: &Value) -> bool {
        (self.read)(value).is_ok()
    }
}

fn reads<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    T::deserialize(value.clone()).map(drop).map_err(|error| error.message().to_owned())
}

/// Those that every format may have.
pub(crate) const QUANTITIES: [Leaf; 5] = [
    Leaf::new::<Size>("size"),
    Leaf::new::<Time>("time"),
    Leaf::new::<Rate>("rate"),
    Leaf::new::<Share>("share"),
    Leaf::new::<Amount>("amount"),
];
