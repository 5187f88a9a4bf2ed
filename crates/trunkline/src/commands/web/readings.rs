//! What of a daemon is drawn over time.

use serde::Serialize;

use crate::commands::view::{View, of_peer};

/// A chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Chart {
    /// What classes send, Mbit/s.
    Sent,
    /// The 99th percentile of what packets wait at the edge, ms.
    Edge,
    /// What stands in the core, ms.
    Core,
    /// Drops at the edge a second.
    Drops,
    /// What comes from peers, Mbit/s.
    Received,
    /// What proxies' hosts have acknowledged, Mbit/s.
    Proxies,
}

/// A value now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Reading {
    pub(super) chart: Chart,
    pub(super) name: String,
    pub(super) value: f64,
}

/// What is known of a view.
pub(super) fn readings(view: &View) -> Vec<Reading> {
    let mut readings = Vec::new();
    let mut add = |chart, name: String, value: Option<f64>| {
        readings.extend(value.filter(|value| value.is_finite()).map(|value| Reading { chart, name, value }));
    };
    for peer in &view.peers {
        for class in &peer.classes {
            let name = || of_peer(view, peer, &class.name);
            add(Chart::Sent, name(), class.sent.map(|rate| rate / 1e6));
            add(Chart::Edge, name(), class.p99_us.map(|us| us as f64 / 1e3));
            add(Chart::Drops, name(), class.drops);
        }
        for path in &peer.paths {
            add(Chart::Core, of_peer(view, peer, &path.name), path.queue_us.map(|us| us as f64 / 1e3));
        }
        add(Chart::Received, peer.name.clone(), peer.received.map(|rate| rate / 1e6));
    }
    for proxy in view.proxies.iter().flat_map(|all| &all.proxies) {
        add(Chart::Proxies, proxy.name.clone(), proxy.delivered.map(|rate| rate / 1e6));
    }
    readings
}
