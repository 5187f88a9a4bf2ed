//! What a type must be to be read from a file.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::leaf::Leaf;

/// A type that a whole file is read into.
pub trait Format: DeserializeOwned + JsonSchema {
    /// Types of its own that are one value each.
    const LEAVES: &'static [Leaf] = &[];
    /// Lists at the top of which none may be left out: what one means, or whether it is right, depends on the others.
    const TOGETHER: &'static [&'static str] = &[];
}
