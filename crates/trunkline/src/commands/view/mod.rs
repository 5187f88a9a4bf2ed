//! What `top` and the page of a gateway show: the values of two states of a daemon, and tables of them as text.

mod format;
mod lines;
mod model;
mod panes;
#[cfg(test)]
pub(super) mod sample;
pub(super) mod table;

pub(super) use lines::{COLUMNS, activity, summary};
pub(super) use model::View;
pub(super) use panes::table_of;
#[cfg(feature = "web")]
pub(super) use panes::{drops, of_peer};

/// A part of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Classes,
    Lanes,
    Paths,
    Flows,
    Proxies,
}

impl Pane {
    pub(super) const ALL: [Pane; 5] = [Pane::Classes, Pane::Lanes, Pane::Paths, Pane::Flows, Pane::Proxies];

    /// The orders of its rows; the first is the default.
    pub(super) const fn orders(self) -> &'static [&'static str] {
        match self {
            Pane::Classes => &["file", "rate", "waiting", "drops"],
            Pane::Lanes => &["file", "rate", "core queue", "retransmits"],
            Pane::Paths => &["file", "rate", "core queue", "loss"],
            Pane::Flows => &["rate", "bytes", "rtt", "filtered"],
            Pane::Proxies => &["file", "rate", "held", "open"],
        }
    }
}
