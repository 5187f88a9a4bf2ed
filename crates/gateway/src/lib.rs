//! The Trunkline daemon: TUN, lanes, keys, control and metrics.
