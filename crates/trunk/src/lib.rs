//! The core of a trunk: transmitter and receiver, without input or output.
