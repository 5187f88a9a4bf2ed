//! Congestion controls and queue disciplines that are written in Python.

mod congestion;
mod discipline;
mod failure;

pub(crate) use congestion::{Ack, Window, congestion};
pub(crate) use discipline::{Discipline, Packet};
pub(crate) use failure::Failure;
