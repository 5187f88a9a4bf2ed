//! Checks of a proxy.

use super::{Checked, SettingsError, ensure, tcp};
use crate::{Cell, ProxyMode, ProxySettings};
use trunkline_trunk::path_tail::{CellLink, Estimate};

impl ProxySettings {
    /// Whether a proxy can be like this.
    pub fn check(&self) -> Result<(), SettingsError> {
        ensure(!self.behind.is_empty(), "behind", &self.behind, "at least one node")?;
        self.mode.check().map_err(|error| error.within("mode"))
    }
}

impl ProxyMode {
    /// Whether a proxy can do this.
    pub fn check(&self) -> Result<(), SettingsError> {
        match self {
            ProxyMode::Split(ends) => tcp("tcp[0]", &ends[0]).and_then(|()| tcp("tcp[1]", &ends[1])),
            ProxyMode::PathTail(ends, all) => {
                tcp("tcp[0]", &ends[0])?;
                tcp("tcp[1]", &ends[1])?;
                cells(all)
            }
            ProxyMode::ClampWindow(bytes) => ensure(*bytes > 0, "window", bytes, "1 or more bytes"),
            ProxyMode::Freeze { after } => ensure(!after.is_zero(), "after", after, "more than no time"),
            ProxyMode::RegulateAcks { room } | ProxyMode::ClampToRoom { room } => {
                ensure(*room > 0, "room", room, "1 or more packets")
            }
        }
    }
}

fn cells(cells: &[Cell]) -> Checked {
    ensure(!cells.is_empty(), "cells", cells.len(), "at least one")?;
    for (number, cell) in cells.iter().enumerate() {
        check_cell(cell).map_err(|error| error.within(&format!("cells[{number}]")))?;
        let earlier = |node| cells[..number].iter().any(|cell| cell.nodes.contains(node));
        if let Some(node) = cell.nodes.iter().find(|node| earlier(node)) {
            let (place, problem) = (format!("cells[{number}]"), "is in two cells; allowed: one");
            return Err(SettingsError::Node { place, node: *node, problem });
        }
    }
    Ok(())
}

fn check_cell(cell: &Cell) -> Checked {
    let CellLink { estimate, queue, packets } = cell.link;
    if let Some(Estimate { rate, .. }) = estimate {
        ensure(rate.bits_per_second() > 0, "link.estimate.rate", rate, "1 bit/s or more")?;
    }
    ensure(packets != Some(0), "link.packets", 0, "1 or more")?;
    ensure(queue != Some(0), "link.queue", 0, "1 or more bytes")?;
    let fits = estimate.is_some() || !cell.each_alone;
    ensure(fits, "each_alone", true, "false where the rate is measured")?;
    ensure(cell.buffer > 0, "buffer", cell.buffer, "1 or more bytes")
}
