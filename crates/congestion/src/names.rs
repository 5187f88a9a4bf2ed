//! The names of choices, as files have them.

use std::str::FromStr;

use thiserror::Error;

use crate::{BicVersion, CongestionAlgorithm, SlowStart};

/// A name that is none of the choices.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{given:?} is no {kind}; allowed: {}", allowed.join(", "))]
pub struct UnknownName {
    /// The kind of choice.
    pub kind: &'static str,
    /// The text.
    pub given: String,
    /// The allowed names.
    pub allowed: Vec<&'static str>,
}

impl UnknownName {
    /// The choice of `all` that is called `given`; `kind` is what the error calls the choices.
    pub fn find<T: Copy>(
        kind: &'static str,
        all: &[T],
        name: fn(T) -> &'static str,
        given: &str,
    ) -> Result<T, UnknownName> {
        all.iter().copied().find(|one| name(*one) == given).ok_or_else(|| UnknownName {
            kind,
            given: given.to_owned(),
            allowed: all.iter().map(|one| name(*one)).collect(),
        })
    }
}

impl CongestionAlgorithm {
    /// All that files can name.
    pub const ALL: [CongestionAlgorithm; 8] = [
        CongestionAlgorithm::Reno,
        CongestionAlgorithm::Bic(BicVersion::Linux),
        CongestionAlgorithm::Bic(BicVersion::Original),
        CongestionAlgorithm::Bic(BicVersion::Linux266),
        CongestionAlgorithm::Cubic,
        CongestionAlgorithm::Compound,
        CongestionAlgorithm::Vegas,
        CongestionAlgorithm::Bbr,
    ];

    /// The name that files use.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionAlgorithm::Reno => "reno",
            CongestionAlgorithm::Bic(BicVersion::Linux) => "bic",
            CongestionAlgorithm::Bic(BicVersion::Original) => "bic-1.0",
            CongestionAlgorithm::Bic(BicVersion::Linux266) => "bic-2.6.6",
            CongestionAlgorithm::Cubic => "cubic",
            CongestionAlgorithm::Compound => "compound",
            CongestionAlgorithm::Vegas => "vegas",
            CongestionAlgorithm::Bbr => "bbr",
            CongestionAlgorithm::Held => "held",
        }
    }
}

impl FromStr for CongestionAlgorithm {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        UnknownName::find("growth", &CongestionAlgorithm::ALL, CongestionAlgorithm::name, text)
    }
}

impl SlowStart {
    /// All of them; limited slow start with the `max_ssthresh` of 100 segments that RFC 3742 §2 recommends.
    pub const ALL: [SlowStart; 4] = [
        SlowStart::Classic,
        SlowStart::Limited { max_ssthresh: 100 },
        SlowStart::HyStartPlusPlus,
        SlowStart::HyStart,
    ];

    /// The name that files use.
    pub const fn name(self) -> &'static str {
        match self {
            SlowStart::Classic => "classic",
            SlowStart::Limited { .. } => "limited",
            SlowStart::HyStartPlusPlus => "hystart++",
            SlowStart::HyStart => "hystart",
        }
    }
}

impl FromStr for SlowStart {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        UnknownName::find("slow start", &SlowStart::ALL, SlowStart::name, text)
    }
}
